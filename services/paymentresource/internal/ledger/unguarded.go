package ledger

import (
	"context"
	_ "embed"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/paymentapi"
	"railguard/services/paymentresource/internal/payout"
	"railguard/services/paymentresource/internal/store"
)

var (
	//go:embed submitted_unguarded.sql
	submittedUnguardedSQL string
	//go:embed lock_unguarded.sql
	lockUnguardedSQL string
	//go:embed move_unguarded.sql
	moveUnguardedSQL string
	//go:embed post_unguarded.sql
	postUnguardedSQL string
)

// postUnguarded is Post with PAYMENT_FENCING_ENABLED=false: what code that trusts its lock does. Any token
// that once claimed the payout is accepted, and the balance written is the one computed from what that claim saw: a lost
// update when somebody else posted meanwhile. The harness shows this; nobody else runs it.
func (s *Store) postUnguarded(ctx context.Context, token fencing.Token, r Request) (*paymentapi.Posting, error) {
	group := uuid.Must(uuid.NewV7()).String()
	var answer *paymentapi.Posting
	err := store.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		answer = nil
		if _, err := tx.Exec(ctx, lockUnguardedSQL, r.PayoutID); err != nil {
			return err
		}
		record, err := payout.Read(ctx, tx, r.PayoutID, token)
		if err != nil {
			return err
		}
		if err := record.CheckKey(r.IdempotencyKey); err != nil {
			return err
		}
		if answer, err = replay(ctx, tx, token, record); err != nil || answer != nil {
			return err
		}
		if err := writeUnguarded(ctx, tx, token, group, record, r); err != nil {
			return err
		}
		if record, err = payout.Read(ctx, tx, r.PayoutID, token); err != nil {
			return err
		}
		answer, err = replay(ctx, tx, token, record)
		return err
	})
	return answer, err
}

func writeUnguarded(ctx context.Context, tx pgx.Tx, token fencing.Token, group string, record *payout.Record, r Request) error {
	batch := &pgx.Batch{}
	move := payout.Only(payout.Post)
	switch {
	case record.ClaimOutcome != payout.Granted:
		return record.NotClaimable()
	case record.State == paymentapi.Claimed && r.RailReference == "":
		return apierr.Field("railReference", "required: the rail's acknowledgement is not recorded yet")
	case record.State == paymentapi.Claimed:
		queueAcknowledgement(batch, submittedUnguardedSQL, token, r)
	case record.State != paymentapi.RailAcked && record.State != paymentapi.Posted:
		return record.NotClaimable()
	}
	if record.State != paymentapi.Posted {
		batch.Queue(moveUnguardedSQL, r.PayoutID, token, move.From, move.To, r.OwnerID)
	}
	batch.Queue(postUnguardedSQL, r.PayoutID, token, record.ClaimBalanceMinor-record.AmountMinor, group)
	_, err := store.Touched(tx.SendBatch(ctx, batch), batch.Len())
	return err
}
