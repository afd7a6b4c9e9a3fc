WITH moved AS (
    UPDATE payout SET state = $3, state_reason = $5, updated_at = clock_timestamp()
     WHERE payout_id = $1 AND state = $2
    RETURNING payout_id
)
INSERT INTO payout_transition (payout_id, from_state, to_state, owner_id, reason)
SELECT payout_id, $2, $3, $4, $5 FROM moved
