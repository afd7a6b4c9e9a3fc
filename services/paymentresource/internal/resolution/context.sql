SELECT p.account_id, p.state, p.amount_minor, a.fence,
       coalesce(e.conclusion, ''), coalesce(e.rail_reference, ''),
       coalesce(r.outcome, ''), coalesce(r.rail_reference, ''), coalesce(r.token, 0), coalesce(r.reason, ''),
       EXISTS (SELECT FROM payout_resolution_proposal o
                WHERE o.payout_id = p.payout_id AND o.proposed_by = $2 AND o.second_operator = $3 AND o.token = $6
                  AND o.outcome = $4 AND o.rail_reference IS NOT DISTINCT FROM $5),
       EXISTS (SELECT FROM payout_resolution_proposal o
                WHERE o.payout_id = p.payout_id AND o.proposed_by = $3 AND o.second_operator = $2
                  AND o.outcome = $4 AND o.rail_reference IS NOT DISTINCT FROM $5)
  FROM payout p
  JOIN account a USING (account_id)
  LEFT JOIN LATERAL (SELECT conclusion, rail_reference FROM payout_evidence
                      WHERE payout_id = p.payout_id ORDER BY id DESC LIMIT 1) e ON true
  LEFT JOIN payout_resolution r ON r.payout_id = p.payout_id
 WHERE p.payout_id = $1
   FOR NO KEY UPDATE OF p
