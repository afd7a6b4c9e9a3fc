package payout

import (
	"github.com/jackc/pgx/v5"

	"railguard/services/paymentapi"
)

// Columns are what Scan reads, of a row p of the table payout.
const Columns = `p.payout_id, p.external_ref, p.account_id, p.amount_minor, p.currency, p.beneficiary_ref, p.state,
	coalesce(p.state_reason, ''), coalesce(p.claimed_by, ''), coalesce(p.claim_token, 0), p.attempt_count,
	coalesce(p.rail_reference, ''), p.created_at, p.updated_at`

// Scan reads one row of Columns.
func Scan(row pgx.CollectableRow) (paymentapi.Payout, error) {
	var p paymentapi.Payout
	err := row.Scan(&p.PayoutID, &p.ExternalRef, &p.AccountID, &p.AmountMinor, &p.Currency, &p.BeneficiaryRef, &p.State,
		&p.StateReason, &p.ClaimedBy, &p.ClaimToken, &p.AttemptCount, &p.RailReference, &p.CreatedAt, &p.UpdatedAt)
	return p, err
}
