INSERT INTO payout_evidence (payout_id, token, recorded_by, conclusion, rail_reference, evidence, reason)
VALUES ($1, $2, $3, $4, $5, $6, $7)
