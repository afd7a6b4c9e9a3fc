UPDATE account SET reserved_minor = reserved_minor - CASE WHEN $4::boolean THEN p.amount_minor ELSE 0 END,
       updated_at = clock_timestamp()
  FROM payout p
 WHERE p.payout_id = $1 AND p.idempotency_key = $3 AND account.account_id = p.account_id AND $2::bigint > 0
   AND (NOT $4::boolean OR account.reserved_minor >= p.amount_minor)
RETURNING p.account_id
