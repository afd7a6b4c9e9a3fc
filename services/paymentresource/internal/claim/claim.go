// Package claim takes a payout for one grant of its account's lock: it raises the fence, reserves the money
// and records the claim, or says why not.
package claim

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
	//go:embed lock.sql
	lockSQL string
	//go:embed reserve.sql
	reserveSQL string
	//go:embed grant.sql
	grantSQL string
	//go:embed open.sql
	openSQL string
	//go:embed refuse.sql
	refuseSQL string
	//go:embed first.sql
	firstSQL string
)

// Store claims payouts. Guarded is PAYMENT_FENCING_ENABLED.
type Store struct {
	Pool    *pgxpool.Pool
	Guarded bool
}

// Request is one claim. ExpectedState is a state or paymentapi.Claimable.
type Request struct {
	PayoutID      string
	AccountID     string
	ExpectedState string
	OwnerID       string
}

// found is what the first two statements say, under the locks of the account and of the payout.
type found struct {
	balanceMinor, reservedMinor int64
	claim                       paymentapi.Claim
	claimedBefore               bool // by this very token
}

// Claim claims a payout. Errors: NOT_FOUND, VALIDATION_FAILED (the payout belongs to another account; nothing
// is written), FENCED_OUT, PAYOUT_NOT_CLAIMABLE, INSUFFICIENT_FUNDS (the payout is FAILED from then on). A
// repeated claim is answered as before: a refused one always, a granted one while it is open and the fence
// is still its token.
func (s *Store) Claim(ctx context.Context, token fencing.Token, r Request) (*paymentapi.Claim, error) {
	var answer *paymentapi.Claim
	var short error
	err := store.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		answer, short = nil, nil
		f, err := s.raise(ctx, tx, token, r)
		if err != nil {
			return err
		}
		if f == nil || f.claimedBefore {
			if answer, err = s.judge(ctx, tx, token, r); err != nil {
				return err
			}
			return store.ErrRollback
		}
		event := payout.Claim
		if f.claim.PreviousState == paymentapi.Pending && f.balanceMinor-f.reservedMinor < f.claim.AmountMinor {
			event = payout.FundsShort
		}
		next, ok := payout.Next(f.claim.PreviousState, event)
		if !ok || !expected(r.ExpectedState, f.claim.PreviousState) {
			return (&payout.Record{State: f.claim.PreviousState}).NotClaimable()
		}
		f.claim.State = next
		if event == payout.FundsShort {
			short = insufficient()
			return refuse(ctx, tx, token, r, f)
		}
		answer = &f.claim
		return grant(ctx, tx, token, r, f)
	})
	if err != nil {
		return nil, err
	}
	return answer, short
}

func expected(want string, state paymentapi.PayoutState) bool {
	return want == paymentapi.Claimable || want == string(state)
}

func insufficient() error {
	return apierr.New(apierr.InsufficientFunds, "the account's available balance does not cover the payout")
}

// raise compares the token and writes the fence in one statement (INV-05), which locks the account, and then
// locks the payout. nil without an error means that the first statement touched no row.
func (s *Store) raise(ctx context.Context, tx pgx.Tx, token fencing.Token, r Request) (*found, error) {
	fence := fenceSQL
	if !s.Guarded {
		fence = fenceUnguardedSQL
	}
	batch := &pgx.Batch{}
	batch.Queue(fence, r.PayoutID, r.AccountID, token)
	batch.Queue(lockSQL, r.PayoutID, token)
	results := tx.SendBatch(ctx, batch)
	defer func() { _ = results.Close() }() // an error of the batch is seen by the Scans
	f := found{claim: paymentapi.Claim{PayoutID: r.PayoutID, AccountID: r.AccountID, ClaimToken: token, AccountFence: token}}
	err := results.QueryRow().Scan(&f.balanceMinor, &f.reservedMinor)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, results.Close()
	}
	if err != nil {
		return nil, err
	}
	c := &f.claim
	err = results.QueryRow().Scan(&c.PreviousState, &c.AmountMinor, &c.Currency, &c.BeneficiaryRef, &c.AttemptCount,
		&c.IdempotencyKey, &f.claimedBefore)
	if err != nil {
		return nil, err
	}
	return &f, results.Close()
}

func grant(ctx context.Context, tx pgx.Tx, token fencing.Token, r Request, f *found) error {
	batch := &pgx.Batch{}
	statements, reason := 2, "recovered"
	if f.claim.PreviousState == paymentapi.Pending {
		statements, reason = 3, "claimed"
		batch.Queue(reserveSQL, r.AccountID, f.claim.AmountMinor)
	}
	// The claims before are ended by a statement of their own: at most one claim of a payout is open, by an index.
	batch.Queue(grantSQL, r.PayoutID, token, r.OwnerID, f.claim.PreviousState, f.claim.State, reason)
	batch.Queue(openSQL, r.PayoutID, token, r.OwnerID, f.balanceMinor)
	f.claim.AttemptCount++
	return write(ctx, tx, batch, statements)
}

func refuse(ctx context.Context, tx pgx.Tx, token fencing.Token, r Request, f *found) error {
	batch := &pgx.Batch{}
	batch.Queue(refuseSQL, r.PayoutID, token, r.OwnerID, f.balanceMinor, f.claim.PreviousState, f.claim.State, payout.InsufficientFunds)
	return write(ctx, tx, batch, 1)
}

func write(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, statements int) error {
	touched, err := store.Touched(tx.SendBatch(ctx, batch), statements)
	if err != nil {
		return err
	}
	for _, rows := range touched {
		if rows != 1 {
			return errors.New("claim: a row that is locked was not found again")
		}
	}
	return nil
}

// judge says why the fence was not raised, or answers a claim that was made before: first replay, then
// fence, then state.
func (s *Store) judge(ctx context.Context, tx pgx.Tx, token fencing.Token, r Request) (*paymentapi.Claim, error) {
	record, err := payout.Read(ctx, tx, r.PayoutID, token)
	if err != nil {
		return nil, err
	}
	current := record.Fence == token || !s.Guarded
	switch {
	case record.AccountID != r.AccountID:
		return nil, apierr.Field("accountId", "the payout belongs to another account than the locked one")
	case record.ClaimOutcome == payout.InsufficientFunds:
		return nil, insufficient()
	case record.ClaimOutcome == payout.Granted && record.ClaimOpen && current:
		return replay(ctx, tx, token, record)
	case s.Guarded && record.Fence >= token:
		return nil, record.FencedOut(payout.Account, token, r.OwnerID)
	}
	return nil, record.NotClaimable()
}

// replay repeats the answer of an open claim; what it found and left is in the audit rows.
func replay(ctx context.Context, tx pgx.Tx, token fencing.Token, record *payout.Record) (*paymentapi.Claim, error) {
	c := paymentapi.Claim{PayoutID: record.PayoutID, AccountID: record.AccountID, AmountMinor: record.AmountMinor,
		Currency: record.Currency, BeneficiaryRef: record.BeneficiaryRef, ClaimToken: token, AccountFence: token,
		AttemptCount: record.AttemptCount, IdempotencyKey: record.IdempotencyKey}
	err := tx.QueryRow(ctx, firstSQL, record.PayoutID, token).Scan(&c.PreviousState, &c.State)
	return &c, err
}
