package invariants

// ledgerChecks: the books balance, and what accounts say agrees with them. A customer's account grows by CREDIT and
// shrinks by DEBIT; opening balances are entries too, so there is no exception.
func ledgerChecks() []check {
	const open = `('CLAIMED', 'RAIL_ACKED', 'RAIL_AMBIGUOUS')`
	return []check{{
		invariant: "INV-03", name: "groups-balance",
		sentence: "the debits of an entry group differ from its credits, or it mixes currencies or payouts",
		looked:   `SELECT count(DISTINCT entry_group) FROM ledger_entry`,
		offending: `SELECT e.entry_group::text, min(e.payout_id::text) AS payout_id, count(*) AS legs,
				coalesce(sum(e.amount_minor) FILTER (WHERE e.direction = 'DEBIT'), 0)::text AS debits_minor,
				coalesce(sum(e.amount_minor) FILTER (WHERE e.direction = 'CREDIT'), 0)::text AS credits_minor,
				string_agg(DISTINCT a.currency::text, ',') AS currencies, min(e.created_at) AS created_at
			FROM ledger_entry e LEFT JOIN account a USING (account_id)
			GROUP BY e.entry_group
			HAVING coalesce(sum(e.amount_minor) FILTER (WHERE e.direction = 'DEBIT'), 0)
					<> coalesce(sum(e.amount_minor) FILTER (WHERE e.direction = 'CREDIT'), 0)
				OR count(DISTINCT a.currency) <> 1
				OR count(DISTINCT coalesce(e.payout_id::text, '')) > 1
			ORDER BY min(e.created_at)`,
	}, {
		invariant: "INV-03", name: "fundings-recorded",
		sentence: "an entry group without a payout is not exactly one credit of a recorded funding and one debit of a clearing account, or a funding has no entries",
		looked:   `SELECT count(*) FROM funding`,
		offending: `SELECT f.external_ref, f.account_id, f.amount_minor, coalesce(f.entry_group, e.entry_group)::text AS entry_group,
				coalesce(e.legs, 0) AS legs, coalesce(e.credits, 0) AS right_credits, coalesce(e.debits, 0) AS right_debits
			FROM funding f FULL JOIN (
				SELECT l.entry_group, count(*) AS legs,
					count(*) FILTER (WHERE l.direction = 'CREDIT' AND l.account_id = o.account_id AND l.amount_minor = o.amount_minor) AS credits,
					count(*) FILTER (WHERE l.direction = 'DEBIT' AND a.kind = 'CLEARING' AND l.amount_minor = o.amount_minor) AS debits
				FROM ledger_entry l LEFT JOIN funding o USING (entry_group) LEFT JOIN account a ON a.account_id = l.account_id
				WHERE l.payout_id IS NULL GROUP BY l.entry_group) AS e USING (entry_group)
			WHERE f.external_ref IS NULL OR (e.legs, e.credits, e.debits) IS DISTINCT FROM (2::bigint, 1::bigint, 1::bigint)
			ORDER BY f.external_ref`,
	}, {
		invariant: "INV-03", name: "balance-is-entries",
		sentence: "the balance of a customer's account is not the signed sum of its ledger entries",
		looked:   `SELECT count(*) FROM account WHERE kind = 'CUSTOMER'`,
		offending: `SELECT a.account_id, a.currency::text, a.balance_minor, coalesce(e.sum, 0)::text AS entries_minor, coalesce(e.n, 0) AS entries, a.fence
			FROM account a LEFT JOIN (
				SELECT account_id, count(*) AS n, sum(CASE direction WHEN 'CREDIT' THEN amount_minor ELSE -amount_minor END) AS sum
				FROM ledger_entry GROUP BY account_id) AS e USING (account_id)
			WHERE a.kind = 'CUSTOMER' AND a.balance_minor <> coalesce(e.sum, 0) ORDER BY a.account_id`,
	}, {
		invariant: "INV-03", name: "reserved-is-open",
		sentence: "what a customer's account has reserved is not the sum of its payouts in CLAIMED, RAIL_ACKED and RAIL_AMBIGUOUS",
		looked:   `SELECT count(*) FROM account WHERE kind = 'CUSTOMER'`,
		offending: `SELECT a.account_id, a.reserved_minor, coalesce(p.sum, 0)::text AS open_minor, coalesce(p.n, 0) AS open_payouts, a.fence
			FROM account a LEFT JOIN (
				SELECT account_id, count(*) AS n, sum(amount_minor) AS sum FROM payout WHERE state IN ` + open + ` GROUP BY account_id) AS p USING (account_id)
			WHERE a.kind = 'CUSTOMER' AND a.reserved_minor <> coalesce(p.sum, 0) ORDER BY a.account_id`,
	}, {
		invariant: "INV-03", name: "reserved-in-bounds",
		sentence: "a customer's account does not satisfy 0 <= reserved <= balance",
		looked:   `SELECT count(*) FROM account WHERE kind = 'CUSTOMER'`,
		offending: `SELECT account_id, balance_minor, reserved_minor, fence FROM account
			WHERE kind = 'CUSTOMER' AND NOT (0 <= reserved_minor AND reserved_minor <= balance_minor) ORDER BY account_id`,
	}, {
		invariant: "INV-03", name: "posted-once",
		sentence: "a POSTED payout does not have exactly one debit of its account and one credit of a clearing account over its amount, or another payout has entries",
		looked:   `SELECT count(*) FROM payout`,
		offending: `SELECT p.payout_id::text, p.account_id, p.state, p.amount_minor, coalesce(e.legs, 0) AS legs,
				coalesce(e.debits, 0) AS right_debits, coalesce(e.credits, 0) AS right_credits
			FROM payout p LEFT JOIN (
				SELECT l.payout_id, count(*) AS legs,
					count(*) FILTER (WHERE l.direction = 'DEBIT' AND l.account_id = o.account_id AND l.amount_minor = o.amount_minor) AS debits,
					count(*) FILTER (WHERE l.direction = 'CREDIT' AND a.kind = 'CLEARING' AND l.amount_minor = o.amount_minor) AS credits
				FROM ledger_entry l JOIN payout o ON o.payout_id = l.payout_id LEFT JOIN account a ON a.account_id = l.account_id
				GROUP BY l.payout_id) AS e ON e.payout_id = p.payout_id
			WHERE CASE WHEN p.state = 'POSTED' THEN (e.legs, e.debits, e.credits) IS DISTINCT FROM (2::bigint, 1::bigint, 1::bigint)
				ELSE e.legs > 0 END
			ORDER BY p.account_id, p.payout_id`,
	}}
}
