WITH superseded AS (
    UPDATE payout_claim SET ended_at = clock_timestamp(), end_reason = 'SUPERSEDED'
     WHERE payout_id = $1 AND ended_at IS NULL AND token <> $2
), audit AS (
    INSERT INTO payout_transition (payout_id, from_state, to_state, token, owner_id, reason)
    VALUES ($1, $4, $5, $2, $3, $6)
)
UPDATE payout SET state = $5, state_reason = NULL, claimed_by = $3, claim_token = $2, attempt_count = attempt_count + 1,
       updated_at = clock_timestamp()
 WHERE payout_id = $1 AND state = $4
