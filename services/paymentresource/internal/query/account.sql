SELECT a.account_id, a.kind, a.currency, a.balance_minor, a.reserved_minor, a.fence,
       coalesce((SELECT sum(CASE e.direction WHEN 'CREDIT' THEN e.amount_minor ELSE -e.amount_minor END)
                   FROM ledger_entry e WHERE e.account_id = a.account_id), 0)::bigint
  FROM account a
 WHERE a.account_id = $1
