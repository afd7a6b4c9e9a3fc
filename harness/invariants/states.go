package invariants

// stateChecks: the audit of every payout is one unbroken path of legal steps that ends in the state the payout has,
// and it leaves RAIL_AMBIGUOUS only by a recorded resolution of that kind.
func stateChecks() []check {
	return []check{{
		invariant: "INV-08", name: "legal-steps",
		sentence: "a transition is not one of the state machine's; nothing leaves POSTED, FAILED or ABANDONED",
		looked:   `SELECT count(*) FROM payout_transition`,
		offending: `SELECT id, payout_id::text, from_state, to_state, token, owner_id, reason, at FROM payout_transition
			WHERE (coalesce(from_state, ''), to_state) NOT IN (VALUES ('', 'PENDING'),
				('PENDING', 'CLAIMED'), ('PENDING', 'FAILED'), ('PENDING', 'ABANDONED'),
				('CLAIMED', 'CLAIMED'), ('CLAIMED', 'RAIL_SUBMITTED'),
				('RAIL_SUBMITTED', 'RAIL_ACKED'), ('RAIL_SUBMITTED', 'FAILED'), ('RAIL_SUBMITTED', 'RAIL_AMBIGUOUS'),
				('RAIL_ACKED', 'RAIL_ACKED'), ('RAIL_ACKED', 'POSTED'),
				('RAIL_AMBIGUOUS', 'RAIL_ACKED'), ('RAIL_AMBIGUOUS', 'FAILED'), ('RAIL_AMBIGUOUS', 'ABANDONED'))
			ORDER BY id`,
	}, {
		invariant: "INV-08", name: "unbroken-path",
		sentence: "a transition does not begin where the one before it ended",
		looked:   `SELECT count(*) FROM payout_transition`,
		offending: `SELECT * FROM (
				SELECT id, payout_id::text, lag(to_state) OVER (PARTITION BY payout_id ORDER BY id) AS state_before, from_state, to_state, token, owner_id, at
				FROM payout_transition) AS path
			WHERE state_before IS DISTINCT FROM from_state ORDER BY payout_id, id`,
	}, {
		invariant: "INV-08", name: "path-ends-in-state",
		sentence: "a payout's state is not where its last transition ended, or it rests in RAIL_SUBMITTED, which is only passed through",
		looked:   `SELECT count(*) FROM payout`,
		offending: `SELECT p.payout_id::text, p.account_id, p.state, last.to_state AS last_transition, last.id AS transition_id, last.at
			FROM payout p LEFT JOIN (SELECT DISTINCT ON (payout_id) payout_id, id, to_state, at FROM payout_transition ORDER BY payout_id, id DESC) AS last USING (payout_id)
			WHERE p.state IS DISTINCT FROM last.to_state OR p.state = 'RAIL_SUBMITTED' ORDER BY p.payout_id`,
	}, {
		invariant: "INV-08", name: "resolved-by-record",
		sentence: "a payout left RAIL_AMBIGUOUS without a recorded resolution that says so",
		looked:   `SELECT count(*) FROM payout_transition WHERE from_state = 'RAIL_AMBIGUOUS'`,
		offending: `SELECT t.id, t.payout_id::text, t.to_state, t.token, t.owner_id, t.at, r.outcome AS resolution, r.token AS resolution_token
			FROM payout_transition t LEFT JOIN payout_resolution r USING (payout_id)
			WHERE t.from_state = 'RAIL_AMBIGUOUS' AND (r.outcome IS DISTINCT FROM
					CASE t.to_state WHEN 'RAIL_ACKED' THEN 'SETTLED' WHEN 'FAILED' THEN 'ABSENT' WHEN 'ABANDONED' THEN 'ABANDONED' END
				OR r.token IS DISTINCT FROM t.token)
			ORDER BY t.id`,
	}, {
		invariant: "INV-08", name: "resolutions-applied",
		sentence: "a resolution is recorded of a payout that never left RAIL_AMBIGUOUS",
		looked:   `SELECT count(*) FROM payout_resolution`,
		offending: `SELECT r.payout_id::text, r.outcome, r.token, r.decided_by, r.at, p.state FROM payout_resolution r LEFT JOIN payout p USING (payout_id)
			WHERE NOT EXISTS (SELECT 1 FROM payout_transition t WHERE t.payout_id = r.payout_id AND t.from_state = 'RAIL_AMBIGUOUS')
			ORDER BY r.at`,
	}}
}
