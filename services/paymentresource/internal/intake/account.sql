INSERT INTO account (account_id, kind, currency, balance_minor) VALUES ($1, 'CUSTOMER', $2, $3) ON CONFLICT DO NOTHING
