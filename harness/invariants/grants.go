package invariants

// grantChecks: whoever presents a token got it from a grant. The trace that a grant leaves in paydb is the claim, or
// the resolution, that was made under it for the same payout.
func grantChecks() []check {
	const (
		granted  = `EXISTS (SELECT 1 FROM payout_claim c WHERE c.payout_id = x.payout_id AND c.token = x.token AND c.outcome = 'GRANTED')`
		claimed  = `EXISTS (SELECT 1 FROM payout_claim c WHERE c.payout_id = x.payout_id AND c.token = x.token)`
		resolved = `EXISTS (SELECT 1 FROM payout_resolution r WHERE r.payout_id = x.payout_id AND r.token = x.token)`
	)
	return []check{{
		invariant: "INV-07", name: "submissions-claimed",
		sentence: "a submission presents a token under which its payout was never claimed",
		looked:   `SELECT count(*) FROM rail_submission`,
		offending: `SELECT submission_id, payout_id::text, account_id, token AS presented_token, outcome, owner_id, submitted_at FROM (
				SELECT submission_id::text, payout_id, account_id, presented_token AS token, outcome, owner_id, submitted_at FROM rail_submission) AS x
			WHERE NOT ` + granted + ` ORDER BY submitted_at`,
	}, {
		invariant: "INV-07", name: "entries-claimed",
		sentence: "a ledger entry of a payout carries a token under which the payout was never claimed",
		looked:   `SELECT count(*) FROM ledger_entry WHERE payout_id IS NOT NULL`,
		offending: `SELECT id, payout_id::text, account_id, direction, amount_minor, token AS fence, guarded, created_at FROM (
				SELECT id, payout_id, account_id, direction, amount_minor, fence AS token, guarded, created_at FROM ledger_entry WHERE payout_id IS NOT NULL) AS x
			WHERE NOT ` + granted + ` ORDER BY id`,
	}, {
		invariant: "INV-07", name: "transitions-claimed",
		sentence: "a transition was made under a token under which the payout was neither claimed nor resolved",
		looked:   `SELECT count(*) FROM payout_transition WHERE token IS NOT NULL`,
		offending: `SELECT id, payout_id::text, from_state, to_state, token, owner_id, at FROM payout_transition AS x
			WHERE token IS NOT NULL AND NOT ` + claimed + ` AND NOT ` + resolved + ` ORDER BY id`,
	}}
}
