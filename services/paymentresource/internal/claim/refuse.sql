WITH refused AS (
    INSERT INTO payout_claim (payout_id, token, owner_id, balance_minor, outcome, ended_at, end_reason)
    VALUES ($1, $2, $3, $4, 'INSUFFICIENT_FUNDS', clock_timestamp(), 'INSUFFICIENT_FUNDS')
), audit AS (
    INSERT INTO payout_transition (payout_id, from_state, to_state, token, owner_id, reason)
    VALUES ($1, $5, $6, $2, $3, $7)
)
UPDATE payout SET state = $6, state_reason = $7, claimed_by = $3, claim_token = $2, attempt_count = attempt_count + 1,
       updated_at = clock_timestamp()
 WHERE payout_id = $1 AND state = $5
