WITH made AS (
    INSERT INTO funding (external_ref, account_id, amount_minor, entry_group) VALUES ($1, $2, $3, $4)
), legs AS (
    SELECT 1 AS n, 'funding.' || currency AS account_id, 'DEBIT' AS direction, NULL::bigint AS balance_after_minor
      FROM account WHERE account_id = $2
    UNION ALL
    SELECT 2, account_id, 'CREDIT', balance_minor FROM account WHERE account_id = $2
)
INSERT INTO ledger_entry (entry_group, account_id, direction, amount_minor, fence, balance_after_minor)
SELECT $4, account_id, direction, $3, 0, balance_after_minor FROM legs ORDER BY n
