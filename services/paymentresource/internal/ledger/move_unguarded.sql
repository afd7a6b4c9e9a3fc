WITH moved AS (
    UPDATE payout SET state = $4, state_reason = NULL, updated_at = clock_timestamp()
     WHERE payout_id = $1 AND state = $3
    RETURNING payout_id, account_id, amount_minor
), audit AS (
    INSERT INTO payout_transition (payout_id, from_state, to_state, token, owner_id, reason)
    SELECT payout_id, $3, $4, $2, $5, 'posted' FROM moved
), ended AS (
    UPDATE payout_claim SET ended_at = clock_timestamp(), end_reason = 'POSTED'
     WHERE payout_id = (SELECT payout_id FROM moved) AND ended_at IS NULL
)
UPDATE account SET reserved_minor = reserved_minor - moved.amount_minor FROM moved WHERE account.account_id = moved.account_id
