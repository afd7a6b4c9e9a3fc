package outcome

import (
	"context"
	_ "embed"
	"errors"

	"github.com/jackc/pgx/v5"

	"railguard/services/fencing"
	"railguard/services/paymentapi"
	"railguard/services/paymentresource/internal/payout"
	"railguard/services/paymentresource/internal/store"
)

var (
	//go:embed abandon_fence.sql
	abandonFenceSQL string
	//go:embed abandon.sql
	abandonSQL string
	//go:embed abandon_unguarded.sql
	abandonUnguardedSQL string
	//go:embed left.sql
	leftSQL string
)

// Abandon closes the token's claim and leaves the payout as it is, for a later claim to recover. It is a
// fenced write: a zombie is refused here too. Errors: NOT_FOUND, FENCED_OUT, PAYOUT_NOT_CLAIMABLE.
func (s *Store) Abandon(ctx context.Context, token fencing.Token, payoutID, ownerID, reason string) (*paymentapi.PayoutStatus, error) {
	if !s.Guarded {
		return s.abandonUnguarded(ctx, token, payoutID, reason)
	}
	var answer *paymentapi.PayoutStatus
	err := store.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		var err error
		if answer, err = handBack(ctx, tx, token, payoutID, reason); err == nil && answer == nil {
			return store.ErrRollback
		}
		return err
	})
	if err != nil || answer != nil {
		return answer, err
	}
	return s.judgeAbandon(ctx, token, payoutID, ownerID)
}

// handBack closes the claim; nil without an error means that a statement touched no row, and that the transaction must
// be rolled back.
func handBack(ctx context.Context, tx pgx.Tx, token fencing.Token, payoutID, reason string) (*paymentapi.PayoutStatus, error) {
	batch := &pgx.Batch{}
	batch.Queue(abandonFenceSQL, payoutID, token)
	batch.Queue(abandonSQL, payoutID, token, reason)
	results := tx.SendBatch(ctx, batch)
	defer func() { _ = results.Close() }() // an error of the batch is seen by what reads it
	fenced, err := results.Exec()
	if err != nil {
		return nil, err
	}
	status := paymentapi.PayoutStatus{PayoutID: payoutID}
	err = results.QueryRow().Scan(&status.AccountID, &status.State, &status.StateReason, &status.RailReference)
	if errors.Is(err, pgx.ErrNoRows) || (err == nil && fenced.RowsAffected() != 1) {
		return nil, results.Close()
	}
	if err != nil {
		return nil, err
	}
	return &status, results.Close()
}

func (s *Store) judgeAbandon(ctx context.Context, token fencing.Token, payoutID, ownerID string) (*paymentapi.PayoutStatus, error) {
	record, err := payout.Read(ctx, s.Pool, payoutID, token)
	if err != nil {
		return nil, err
	}
	switch {
	case record.ClaimEndReason == payout.HandedBack:
		// The payout may have gone on under a newer token; the answer is how this one left it.
		status := paymentapi.PayoutStatus{PayoutID: payoutID, AccountID: record.AccountID}
		err := s.Pool.QueryRow(ctx, leftSQL, payoutID, token).Scan(&status.State)
		if status.State == paymentapi.RailAcked {
			status.RailReference = record.RailReference
		}
		return &status, err
	case record.Fence > token:
		return nil, record.FencedOut(payout.Account, token, ownerID)
	}
	return nil, record.NotClaimable()
}

// abandonUnguarded is Abandon with PAYMENT_FENCING_ENABLED=false: it only closes the claim row.
func (s *Store) abandonUnguarded(ctx context.Context, token fencing.Token, payoutID, reason string) (*paymentapi.PayoutStatus, error) {
	var answer *paymentapi.PayoutStatus
	err := store.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, abandonUnguardedSQL, payoutID, token, reason); err != nil {
			return err
		}
		record, err := payout.Read(ctx, tx, payoutID, token)
		if err != nil {
			return err
		}
		if record.ClaimOutcome != payout.Granted {
			return record.NotClaimable()
		}
		answer = record.Status()
		return nil
	})
	return answer, err
}
