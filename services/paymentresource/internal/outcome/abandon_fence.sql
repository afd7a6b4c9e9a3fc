UPDATE account SET fence = $2, updated_at = clock_timestamp()
  FROM payout p
 WHERE p.payout_id = $1 AND account.account_id = p.account_id AND account.fence <= $2
