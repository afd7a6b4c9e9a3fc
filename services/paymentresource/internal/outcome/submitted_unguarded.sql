WITH moved AS (
    UPDATE payout SET state = $4, state_reason = NULL, submission_id = nullif($6, '')::uuid, updated_at = clock_timestamp()
     WHERE payout_id = $1 AND state = $3
       AND EXISTS (SELECT FROM payout_claim c WHERE c.payout_id = $1 AND c.token = $2 AND c.outcome = 'GRANTED')
    RETURNING payout_id
)
INSERT INTO payout_transition (payout_id, from_state, to_state, token, owner_id, reason)
SELECT payout_id, $3, $4, $2, $5, 'the rail outcome is being recorded' FROM moved
