WITH moved AS (
    UPDATE payout SET state = $4, rail_reference = $6, rail_resolved_at = $7, updated_at = clock_timestamp()
     WHERE payout_id = $1 AND state = $3
    RETURNING payout_id
)
INSERT INTO payout_transition (payout_id, from_state, to_state, token, owner_id, reason)
SELECT payout_id, $3, $4, $2, $5, 'acknowledged by the rail' FROM moved
