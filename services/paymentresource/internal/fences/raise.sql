UPDATE account SET fence = greatest(fence, $2), updated_at = clock_timestamp()
 WHERE account_id = $1 AND kind = 'CUSTOMER'
RETURNING fence
