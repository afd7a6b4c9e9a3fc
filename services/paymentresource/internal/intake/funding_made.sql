SELECT f.external_ref, f.account_id, f.amount_minor, e.balance_after_minor, f.at
  FROM funding f
  JOIN ledger_entry e ON e.entry_group = f.entry_group AND e.account_id = f.account_id
 WHERE f.external_ref = $1
