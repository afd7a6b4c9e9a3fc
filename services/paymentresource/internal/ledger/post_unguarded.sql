WITH written AS (
    UPDATE account SET balance_minor = $3, fence = $2, updated_at = clock_timestamp()
      FROM payout p
     WHERE p.payout_id = $1 AND account.account_id = p.account_id
    RETURNING p.account_id, p.amount_minor, p.currency
), legs AS (
    SELECT 1 AS n, account_id, 'DEBIT' AS direction, $3::bigint AS balance_after_minor FROM written
    UNION ALL
    SELECT 2, 'clearing.' || currency, 'CREDIT', NULL FROM written
)
INSERT INTO ledger_entry (entry_group, payout_id, account_id, direction, amount_minor, fence, guarded, balance_after_minor)
SELECT $4, $1, legs.account_id, legs.direction, written.amount_minor, $2, false, legs.balance_after_minor
  FROM legs, written ORDER BY legs.n
