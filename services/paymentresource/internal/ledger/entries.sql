SELECT e.id, e.entry_group, e.account_id, e.direction, e.amount_minor, e.fence, e.balance_after_minor
  FROM ledger_entry e
 WHERE e.payout_id = $1 AND e.fence = $2
 ORDER BY e.id
