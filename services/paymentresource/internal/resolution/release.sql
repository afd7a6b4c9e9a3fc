UPDATE account SET reserved_minor = reserved_minor - $2 WHERE account_id = $1
