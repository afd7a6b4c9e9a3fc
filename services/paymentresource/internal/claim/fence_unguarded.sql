UPDATE account SET fence = $3, updated_at = clock_timestamp()
  FROM payout p
 WHERE p.payout_id = $1 AND p.account_id = $2 AND account.account_id = p.account_id
RETURNING account.balance_minor, account.reserved_minor
