SELECT FROM account a JOIN payout p USING (account_id) WHERE p.payout_id = $1 FOR NO KEY UPDATE
