package invariants

// fenceChecks: a guard's fence is at least every token that it accepted a write under.
func fenceChecks() []check {
	return []check{{
		invariant: "INV-05", name: "account-fence",
		sentence: "the fence of an account is below a token under which payment-resource accepted a write",
		looked:   `SELECT count(*) FROM account WHERE kind = 'CUSTOMER'`,
		offending: `SELECT a.account_id, a.fence, c.token AS highest_claim, t.token AS highest_transition, e.token AS highest_entry, r.token AS highest_resolution
			FROM account a
				LEFT JOIN (SELECT p.account_id, max(c.token) AS token FROM payout_claim c JOIN payout p USING (payout_id) GROUP BY 1) AS c USING (account_id)
				LEFT JOIN (SELECT p.account_id, max(t.token) AS token FROM payout_transition t JOIN payout p USING (payout_id) GROUP BY 1) AS t USING (account_id)
				LEFT JOIN (SELECT account_id, max(fence) AS token FROM ledger_entry WHERE payout_id IS NOT NULL GROUP BY 1) AS e USING (account_id)
				LEFT JOIN (SELECT p.account_id, max(r.token) AS token FROM payout_resolution r JOIN payout p USING (payout_id) GROUP BY 1) AS r USING (account_id)
			WHERE a.kind = 'CUSTOMER' AND a.fence < greatest(c.token, t.token, e.token, r.token) ORDER BY a.account_id`,
	}, {
		invariant: "INV-05", name: "claims-above-fence",
		sentence: "payment-resource accepted two claims of one account under one token: a claim must be above the fence, not at it",
		looked:   `SELECT count(*) FROM payout_claim`,
		offending: `SELECT p.account_id, c.token, c.payout_id::text, c.owner_id, c.outcome, c.claimed_at
			FROM payout_claim c JOIN payout p USING (payout_id)
			WHERE (p.account_id, c.token) IN (
				SELECT p.account_id, c.token FROM payout_claim c JOIN payout p USING (payout_id) GROUP BY 1, 2 HAVING count(*) > 1)
			ORDER BY p.account_id, c.token, c.claimed_at`,
	}, {
		invariant: "INV-05", name: "rail-mark",
		sentence: "the rail's mark of an account is absent or below a token under which rail-proxy admitted a submission",
		looked:   `SELECT count(DISTINCT account_id) FROM rail_submission WHERE outcome IS DISTINCT FROM 'FENCED'`,
		offending: `SELECT s.account_id, w.highest_token, s.token AS highest_admitted
			FROM (SELECT account_id, max(presented_token) AS token FROM rail_submission WHERE outcome IS DISTINCT FROM 'FENCED' GROUP BY 1) AS s
				LEFT JOIN rail_high_water w USING (account_id)
			WHERE w.highest_token IS NULL OR w.highest_token < s.token ORDER BY s.account_id`,
	}}
}
