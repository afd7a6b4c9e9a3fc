package invariants

// presentedChecks: at most one submission of a payout ever reaches the rail. A record without an outcome counts, because
// its request may be on its way. The rail's own log is the evidence that counts; the records must account for all of it.
func presentedChecks() []check {
	const presented = `(outcome IS NULL OR outcome IN ('ACKED', 'REJECTED', 'TIMEOUT'))`
	return []check{{
		invariant: "INV-02", name: "presented-once",
		sentence: "more than one submission of a payout was presented to the rail",
		looked:   `SELECT count(*) FROM rail_submission WHERE ` + presented,
		offending: `SELECT payout_id::text, account_id, submission_id::text, presented_token, outcome, rail_reference, guarded, proxy_instance, submitted_at
			FROM rail_submission WHERE ` + presented + ` AND payout_id IN (
				SELECT payout_id FROM rail_submission WHERE ` + presented + ` GROUP BY payout_id HAVING count(*) > 1)
			ORDER BY payout_id, submitted_at`,
	}, {
		invariant: "INV-02", name: "rail-asked-once", ofLog: true,
		sentence:  "the rail received more than one request for a payout",
		looked:    `SELECT count(*) FROM unnest($1::text[])`,
		offending: `SELECT client_ref, count(*) AS requests FROM unnest($1::text[]) AS client_ref GROUP BY client_ref HAVING count(*) > 1 ORDER BY client_ref`,
	}, {
		invariant: "INV-02", name: "rail-requests-recorded", ofLog: true,
		sentence: "the rail received more requests for a payout than there are records of a submission that was presented",
		looked:   `SELECT count(DISTINCT client_ref) FROM unnest($1::text[]) AS client_ref`,
		offending: `SELECT l.client_ref, l.requests, coalesce(s.presented, 0) AS presented FROM
				(SELECT client_ref, count(*) AS requests FROM unnest($1::text[]) AS client_ref GROUP BY client_ref) AS l
				LEFT JOIN (SELECT payout_id::text, count(*) AS presented FROM rail_submission WHERE ` + presented + ` GROUP BY payout_id) AS s
					ON s.payout_id = l.client_ref
			WHERE l.requests > coalesce(s.presented, 0) ORDER BY l.client_ref`,
	}}
}
