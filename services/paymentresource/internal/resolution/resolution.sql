INSERT INTO payout_resolution (payout_id, token, decided_by, second_operator, outcome, rail_reference, evidence, reason)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
