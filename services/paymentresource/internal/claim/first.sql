SELECT from_state, to_state FROM payout_transition WHERE payout_id = $1 AND token = $2 ORDER BY id LIMIT 1
