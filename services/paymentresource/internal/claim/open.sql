INSERT INTO payout_claim (payout_id, token, owner_id, balance_minor, outcome) VALUES ($1, $2, $3, $4, 'GRANTED')
