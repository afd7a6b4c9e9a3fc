SELECT p.account_id, p.amount_minor, p.currency, p.beneficiary_ref, p.state, coalesce(p.state_reason, ''),
       coalesce(p.claim_token, 0), p.attempt_count, p.idempotency_key, coalesce(p.rail_reference, ''), coalesce(p.submission_id::text, ''),
       a.fence, a.balance_minor, a.reserved_minor, coalesce(c.outcome, ''), c.token IS NOT NULL AND c.ended_at IS NULL, coalesce(c.end_reason, ''), coalesce(c.balance_minor, 0)
  FROM payout p
  JOIN account a USING (account_id)
  LEFT JOIN payout_claim c ON c.payout_id = p.payout_id AND c.token = $2
 WHERE p.payout_id = $1
