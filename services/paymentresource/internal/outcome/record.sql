WITH moved AS (
    UPDATE payout SET state = $4, state_reason = $6, updated_at = clock_timestamp()
     WHERE payout_id = $1 AND state = $3
    RETURNING payout_id
), ended AS (
    UPDATE payout_claim SET ended_at = clock_timestamp(), end_reason = $4
     WHERE payout_id = (SELECT payout_id FROM moved) AND ended_at IS NULL
)
INSERT INTO payout_transition (payout_id, from_state, to_state, token, owner_id, reason)
SELECT payout_id, $3, $4, $2, $5, $6 FROM moved
