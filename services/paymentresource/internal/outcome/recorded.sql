SELECT to_state, reason FROM payout_transition
 WHERE payout_id = $1 AND token = $2 AND from_state = 'RAIL_SUBMITTED' AND to_state IN ('FAILED', 'RAIL_AMBIGUOUS')
