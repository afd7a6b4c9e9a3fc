SELECT p.state, p.amount_minor, p.currency, p.beneficiary_ref, p.attempt_count, p.idempotency_key,
       EXISTS (SELECT FROM payout_claim c WHERE c.payout_id = p.payout_id AND c.token = $2)
  FROM payout p
 WHERE p.payout_id = $1
   FOR NO KEY UPDATE
