SELECT r.n, a.account_id IS NULL
  FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS r (account_id, currency, n)
  LEFT JOIN account a ON a.account_id = r.account_id AND a.kind = 'CUSTOMER'
 WHERE a.currency IS DISTINCT FROM r.currency::char(3)
 ORDER BY r.n
