WITH made AS (
    INSERT INTO payout (payout_id, idempotency_key, external_ref, account_id, amount_minor, currency, beneficiary_ref)
    SELECT r.payout_id, r.payout_id::text, r.external_ref, r.account_id, r.amount_minor, r.currency, r.beneficiary_ref
      FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[])
           WITH ORDINALITY AS r (payout_id, external_ref, account_id, amount_minor, currency, beneficiary_ref, n)
      JOIN account a ON a.account_id = r.account_id AND a.currency = r.currency::char(3) AND a.kind = 'CUSTOMER'
     ORDER BY r.n
    ON CONFLICT DO NOTHING
    RETURNING payout_id
)
INSERT INTO payout_transition (payout_id, to_state, owner_id, reason)
SELECT payout_id, 'PENDING', $7, 'created' FROM made
