package payout

import (
	"context"
	_ "embed"
	"errors"

	"github.com/jackc/pgx/v5"

	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/money"
	"railguard/services/paymentapi"
	"railguard/services/paymentresource/internal/store"
)

//go:embed record.sql
var recordSQL string

// The outcomes of a claim, as stored.
const (
	Granted           = "GRANTED"
	InsufficientFunds = "INSUFFICIENT_FUNDS"
)

// HandedBack is the end of a claim that its owner closed.
const HandedBack = "HANDED_BACK"

// Record is a payout, its account's fence and the claim that one token has on it, read to say why a
// write was refused; no write is allowed on the strength of it.
type Record struct {
	PayoutID       string
	AccountID      string
	AmountMinor    int64
	Currency       money.Currency
	BeneficiaryRef string
	State          paymentapi.PayoutState
	StateReason    string
	ClaimToken     fencing.Token // 0 before the first claim
	AttemptCount   int
	IdempotencyKey string
	RailReference  string
	SubmissionID   string
	Fence          fencing.Token
	BalanceMinor   int64 // the account's
	ReservedMinor  int64 // the account's

	ClaimOutcome      string // GRANTED, INSUFFICIENT_FUNDS, or "" when the token never claimed the payout
	ClaimOpen         bool
	ClaimEndReason    string
	ClaimBalanceMinor int64
}

// Read reads the record of a payout as the token sees it; NOT_FOUND when there is no such payout.
func Read(ctx context.Context, q store.Queryer, payoutID string, token fencing.Token) (*Record, error) {
	r := Record{PayoutID: payoutID}
	err := q.QueryRow(ctx, recordSQL, payoutID, token).Scan(&r.AccountID, &r.AmountMinor, &r.Currency, &r.BeneficiaryRef,
		&r.State, &r.StateReason, &r.ClaimToken, &r.AttemptCount, &r.IdempotencyKey, &r.RailReference, &r.SubmissionID,
		&r.Fence, &r.BalanceMinor, &r.ReservedMinor, &r.ClaimOutcome, &r.ClaimOpen, &r.ClaimEndReason, &r.ClaimBalanceMinor)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, NotFound()
	}
	return &r, err
}

// HeldBy reports whether the token is the payout's claim token with an open claim. A newer token that
// claimed another payout of the account is not enough.
func (r *Record) HeldBy(token fencing.Token) bool { return r.ClaimOpen && r.ClaimToken == token }

// Status is the payout as the answer of an operation that changes its state.
func (r *Record) Status() *paymentapi.PayoutStatus {
	return &paymentapi.PayoutStatus{PayoutID: r.PayoutID, AccountID: r.AccountID, State: r.State,
		StateReason: r.StateReason, RailReference: r.RailReference}
}

// NotFound is the refusal of an unknown payout.
func NotFound() error { return apierr.New(apierr.NotFound, "no such payout") }

// NotClaimable is the refusal by the state machine, or of a token that does not hold the payout.
func (r *Record) NotClaimable() error {
	return apierr.New(apierr.PayoutNotClaimable, "the payout is %s and this token has no open claim that allows this", r.State).
		With("state", r.State)
}

// Resource is what a fence guards, as in the metric lock_fenced_out_total.
type Resource string

// The two resources of this guard.
const (
	Account Resource = "account" // claim, outcome, abandon, resolution
	Ledger  Resource = "ledger"  // post
)

// FencedOut is the refusal of a token that is older than the account's fence (INV-05).
func (r *Record) FencedOut(resource Resource, token fencing.Token, ownerID string) error {
	return apierr.New(apierr.FencedOut, "token %d is fenced out: the highest token accepted for account %s is %d", token, r.AccountID, r.Fence).
		With("presentedToken", token).With("highestToken", r.Fence).
		With("resourceType", resource).With("resourceId", r.AccountID).With("ownerId", ownerID)
}

// CheckKey refuses an idempotency key that is not the payout's own.
func (r *Record) CheckKey(key string) error {
	if r.IdempotencyKey == key {
		return nil
	}
	return apierr.New(apierr.IdempotencyConflict, "the idempotency key is not this payout's own")
}
