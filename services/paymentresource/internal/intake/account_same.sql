SELECT a.kind = 'CUSTOMER' AND a.currency = $2::char(3) AND coalesce(f.amount_minor, 0) = $3::bigint
  FROM account a LEFT JOIN funding f ON f.external_ref = $4
 WHERE a.account_id = $1
