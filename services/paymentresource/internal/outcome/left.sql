SELECT to_state FROM payout_transition WHERE payout_id = $1 AND token = $2 ORDER BY id DESC LIMIT 1
