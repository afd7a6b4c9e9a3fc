UPDATE account SET balance_minor = balance_minor + $2, updated_at = clock_timestamp()
 WHERE account_id = $1 AND kind = 'CUSTOMER' AND balance_minor <= 9223372036854775807 - $2
   AND NOT EXISTS (SELECT FROM funding WHERE external_ref = $3)
