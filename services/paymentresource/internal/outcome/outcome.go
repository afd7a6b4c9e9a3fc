// Package outcome ends a claim without a posting: the rail declined, nobody knows, or the owner hands the claim back.
package outcome

import (
	"context"
	_ "embed"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/paymentapi"
	"railguard/services/paymentresource/internal/payout"
	"railguard/services/paymentresource/internal/store"
)

var (
	//go:embed fence.sql
	fenceSQL string
	//go:embed fence_unguarded.sql
	fenceUnguardedSQL string
	//go:embed submitted.sql
	submittedSQL string
	//go:embed submitted_unguarded.sql
	submittedUnguardedSQL string
	//go:embed record.sql
	recordSQL string
	//go:embed recorded.sql
	recordedSQL string
)

// Store records outcomes. Guarded is PAYMENT_FENCING_ENABLED.
type Store struct {
	Pool    *pgxpool.Pool
	Guarded bool
}

// Request is one outcome of the rail. Event is payout.Declined or payout.Unknown. SubmissionID may be "".
type Request struct {
	PayoutID       string
	OwnerID        string
	IdempotencyKey string
	Event          payout.Event
	SubmissionID   string
	Reason         string
}

// Record records the outcome: FAILED with the reservation released when the rail declined, RAIL_AMBIGUOUS with the
// reservation kept when nobody knows, because the money may be gone. fresh is false for the answer to a repeated request.
// Errors: NOT_FOUND, IDEMPOTENCY_CONFLICT (another key, or the token recorded another outcome), FENCED_OUT, PAYOUT_NOT_CLAIMABLE.
func (s *Store) Record(ctx context.Context, token fencing.Token, r Request) (status *paymentapi.PayoutStatus, fresh bool, err error) {
	fence, submitted := fenceSQL, submittedSQL
	if !s.Guarded {
		fence, submitted = fenceUnguardedSQL, submittedUnguardedSQL
	}
	err = store.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		var err error
		if status, err = write(ctx, tx, token, r, fence, submitted); err == nil && status == nil {
			return store.ErrRollback
		}
		fresh = fresh || err == nil // also when the answer to this commit is lost, and the next run finds it made
		return err
	})
	if err == nil && status == nil {
		status, err = s.judge(ctx, token, r)
	}
	return status, fresh && err == nil, err
}

// write records the outcome; nil without an error means that a statement touched no row, and that the
// transaction must be rolled back.
func write(ctx context.Context, tx pgx.Tx, token fencing.Token, r Request, fence, submitted string) (*paymentapi.PayoutStatus, error) {
	out, in := payout.Only(payout.Submitted), payout.Only(r.Event)
	batch := &pgx.Batch{}
	batch.Queue(fence, r.PayoutID, token, r.IdempotencyKey, r.Event == payout.Declined)
	batch.Queue(submitted, r.PayoutID, token, out.From, out.To, r.OwnerID, r.SubmissionID)
	batch.Queue(recordSQL, r.PayoutID, token, in.From, in.To, r.OwnerID, r.Reason)
	results := tx.SendBatch(ctx, batch)
	defer func() { _ = results.Close() }() // an error of the batch is seen by what reads it
	status := paymentapi.PayoutStatus{PayoutID: r.PayoutID, State: in.To, StateReason: r.Reason}
	err := results.QueryRow().Scan(&status.AccountID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, results.Close()
	}
	if err != nil {
		return nil, err
	}
	moved, err := store.Touched(results, 2)
	if err != nil || moved[0] != 1 || moved[1] != 1 {
		return nil, err
	}
	return &status, nil
}

// judge, after the rollback, says why nothing was recorded, or answers what the token recorded before: first replay, then
// fence, then state.
func (s *Store) judge(ctx context.Context, token fencing.Token, r Request) (*paymentapi.PayoutStatus, error) {
	record, err := payout.Read(ctx, s.Pool, r.PayoutID, token)
	if err != nil {
		return nil, err
	}
	if err := record.CheckKey(r.IdempotencyKey); err != nil {
		return nil, err
	}
	before := paymentapi.PayoutStatus{PayoutID: record.PayoutID, AccountID: record.AccountID}
	err = s.Pool.QueryRow(ctx, recordedSQL, r.PayoutID, token).Scan(&before.State, &before.StateReason)
	switch {
	case err == nil && before.State == payout.Only(r.Event).To:
		return &before, nil
	case err == nil:
		return nil, apierr.New(apierr.IdempotencyConflict, "this token recorded another outcome: %s", before.State)
	case !errors.Is(err, pgx.ErrNoRows):
		return nil, err
	case s.Guarded && record.Fence > token:
		return nil, record.FencedOut(payout.Account, token, r.OwnerID)
	}
	return nil, record.NotClaimable()
}
