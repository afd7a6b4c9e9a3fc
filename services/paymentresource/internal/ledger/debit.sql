UPDATE account SET balance_minor = balance_minor - p.amount_minor, reserved_minor = reserved_minor - p.amount_minor,
       fence = $2, updated_at = clock_timestamp()
  FROM payout p
 WHERE p.payout_id = $1 AND p.idempotency_key = $3 AND account.account_id = p.account_id AND account.fence <= $2
   AND account.balance_minor >= p.amount_minor AND account.reserved_minor >= p.amount_minor
RETURNING account.balance_minor
