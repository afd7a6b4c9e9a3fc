package invariants

// orderChecks: at each guard by itself, what was accepted for one account stands in the order of its tokens.
//
// payment-resource writes a transition, and a ledger entry, while it holds the account's row, so that their ids rise in the order in which they were
// accepted; times would not do, a transaction may wait. rail-proxy stamps a submission while it holds the account's mark.
func orderChecks() []check {
	return []check{{
		invariant: "INV-01", name: "transitions-in-order",
		sentence: "payment-resource accepted a transition under a token below one that it had accepted for the account before",
		looked:   `SELECT count(*) FROM payout_transition WHERE token IS NOT NULL`,
		offending: `SELECT * FROM (
				SELECT p.account_id, t.id, t.payout_id::text, t.from_state, t.to_state, t.token, t.owner_id, t.at,
					max(t.token) OVER (PARTITION BY p.account_id ORDER BY t.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS highest_before
				FROM payout_transition t JOIN payout p ON p.payout_id = t.payout_id
				WHERE t.token IS NOT NULL) AS ordered
			WHERE token < highest_before ORDER BY account_id, id`,
	}, {
		invariant: "INV-01", name: "entries-in-order",
		sentence: "the ledger took an entry of the account under a token below one that it had taken before",
		looked:   `SELECT count(*) FROM ledger_entry e JOIN account a USING (account_id) WHERE a.kind = 'CUSTOMER' AND e.payout_id IS NOT NULL`,
		offending: `SELECT * FROM (
				SELECT e.account_id, e.id, e.payout_id::text, e.direction, e.amount_minor, e.fence, e.guarded, e.created_at,
					max(e.fence) OVER (PARTITION BY e.account_id ORDER BY e.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS highest_before
				FROM ledger_entry e JOIN account a USING (account_id)
				WHERE a.kind = 'CUSTOMER' AND e.payout_id IS NOT NULL) AS ordered
			WHERE fence < highest_before ORDER BY account_id, id`,
	}, {
		invariant: "INV-01", name: "submissions-in-order",
		sentence: "rail-proxy admitted a submission under a token not above one that it had admitted for the account before",
		looked:   `SELECT count(*) FROM rail_submission WHERE outcome IS DISTINCT FROM 'FENCED'`,
		offending: `SELECT * FROM (
				SELECT account_id, submission_id::text, payout_id::text, presented_token, outcome, guarded, proxy_instance, submitted_at,
					max(presented_token) OVER (PARTITION BY account_id ORDER BY submitted_at, presented_token
						ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS highest_before
				FROM rail_submission WHERE outcome IS DISTINCT FROM 'FENCED') AS ordered
			WHERE presented_token <= highest_before ORDER BY account_id, submitted_at`,
	}}
}
