UPDATE payout_claim c SET ended_at = clock_timestamp(), end_reason = 'HANDED_BACK', end_note = $3
  FROM payout p
 WHERE p.payout_id = $1 AND c.payout_id = p.payout_id AND c.token = $2 AND p.claim_token = $2 AND c.ended_at IS NULL
   AND p.state IN ('CLAIMED', 'RAIL_ACKED')
RETURNING p.account_id, p.state, coalesce(p.state_reason, ''), coalesce(p.rail_reference, '')
