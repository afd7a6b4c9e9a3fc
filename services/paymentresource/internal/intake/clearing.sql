INSERT INTO account (account_id, kind, currency) VALUES ('clearing.' || $1::text, 'CLEARING', $1), ('funding.' || $1::text, 'CLEARING', $1)
ON CONFLICT DO NOTHING
