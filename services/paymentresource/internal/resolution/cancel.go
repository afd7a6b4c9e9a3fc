package resolution

import (
	"context"
	_ "embed"

	"github.com/jackc/pgx/v5"

	"railguard/services/paymentapi"
	"railguard/services/paymentresource/internal/payout"
	"railguard/services/paymentresource/internal/store"
)

//go:embed cancel.sql
var cancelSQL string

// Cancel abandons a payout that is still PENDING. A repeat with the same reason is answered as before. Errors:
// NOT_FOUND, PAYOUT_NOT_CLAIMABLE.
func (s *Store) Cancel(ctx context.Context, payoutID, ownerID, reason string) (*paymentapi.PayoutStatus, error) {
	var answer *paymentapi.PayoutStatus
	move := payout.Only(payout.Cancel)
	err := store.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, cancelSQL, payoutID, move.From, move.To, ownerID, reason)
		if err != nil {
			return err
		}
		record, err := payout.Read(ctx, tx, payoutID, 0)
		if err != nil {
			return err
		}
		// A payout that a claim token never touched can have been abandoned by a cancellation only.
		repeated := record.State == move.To && record.ClaimToken == 0 && record.StateReason == reason
		if tag.RowsAffected() == 0 && !repeated {
			return record.NotClaimable()
		}
		answer = record.Status()
		return nil
	})
	return answer, err
}
