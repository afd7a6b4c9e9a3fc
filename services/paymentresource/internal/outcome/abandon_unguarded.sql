UPDATE payout_claim SET ended_at = clock_timestamp(), end_reason = 'HANDED_BACK', end_note = $3
 WHERE payout_id = $1 AND token = $2 AND ended_at IS NULL
