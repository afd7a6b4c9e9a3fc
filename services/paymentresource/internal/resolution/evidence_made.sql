SELECT conclusion = $4 AND rail_reference IS NOT DISTINCT FROM $5
  FROM payout_evidence WHERE payout_id = $1 AND token = $2 AND recorded_by = $3
 ORDER BY id DESC LIMIT 1
