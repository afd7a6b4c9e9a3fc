WITH moved AS (
    UPDATE payout SET state = $4, state_reason = NULL, updated_at = clock_timestamp()
     WHERE payout_id = $1 AND state = $3 AND claim_token = $2 AND $6 IN ('', rail_reference)
       AND EXISTS (SELECT FROM payout_claim c WHERE c.payout_id = $1 AND c.token = $2 AND c.ended_at IS NULL)
    RETURNING payout_id, account_id, amount_minor, currency, rail_reference
), audit AS (
    INSERT INTO payout_transition (payout_id, from_state, to_state, token, owner_id, reason)
    SELECT payout_id, $3, $4, $2, $5, 'posted' FROM moved
), ended AS (
    UPDATE payout_claim SET ended_at = clock_timestamp(), end_reason = 'POSTED'
     WHERE payout_id = (SELECT payout_id FROM moved) AND ended_at IS NULL
), legs AS (
    SELECT 1 AS n, moved.account_id, 'DEBIT' AS direction, account.balance_minor AS balance_after_minor
      FROM moved JOIN account USING (account_id)
    UNION ALL
    SELECT 2, 'clearing.' || currency, 'CREDIT', NULL FROM moved
)
INSERT INTO ledger_entry (entry_group, payout_id, account_id, direction, amount_minor, fence, balance_after_minor)
SELECT $7, moved.payout_id, legs.account_id, legs.direction, moved.amount_minor, $2, legs.balance_after_minor
  FROM legs, moved ORDER BY legs.n
RETURNING id, account_id, direction, amount_minor, (SELECT rail_reference FROM moved)
