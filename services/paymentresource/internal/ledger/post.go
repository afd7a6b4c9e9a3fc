// Package ledger posts an acknowledged payout: first the rail's acknowledgement, then the two legs and the debit.
package ledger

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/google/uuid"
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
	//go:embed submitted.sql
	submittedSQL string
	//go:embed acknowledged.sql
	acknowledgedSQL string
	//go:embed debit.sql
	debitSQL string
	//go:embed post.sql
	postSQL string
	//go:embed entries.sql
	entriesSQL string
)

// Store posts payouts. Guarded is PAYMENT_FENCING_ENABLED.
type Store struct {
	Pool    *pgxpool.Pool
	Guarded bool
}

// Request is one posting. Without a rail reference it can finish a payout in RAIL_ACKED only; with one, the other
// fields of the rail are set as well.
type Request struct {
	PayoutID       string
	OwnerID        string
	IdempotencyKey string
	RailReference  string
	SubmissionID   string
	SubmittedAt    *time.Time
	ResolvedAt     *time.Time
}

// Post posts the payout in two transactions. The first records the acknowledgement, so that money which has left
// is known to have left whatever happens to the second. Errors: NOT_FOUND, IDEMPOTENCY_CONFLICT (another key, or
// another rail reference than the recorded one), FENCED_OUT, PAYOUT_NOT_CLAIMABLE, VALIDATION_FAILED (CLAIMED, and the
// rail's fields are missing), INSUFFICIENT_FUNDS. A posting that the token made before is answered as before.
func (s *Store) Post(ctx context.Context, token fencing.Token, r Request) (*paymentapi.Posting, error) {
	if !s.Guarded {
		return s.postUnguarded(ctx, token, r)
	}
	if r.RailReference != "" {
		if err := s.acknowledge(ctx, token, r); err != nil {
			return nil, err
		}
	}
	group := uuid.Must(uuid.NewV7()).String()
	var answer *paymentapi.Posting
	err := store.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		var err error
		if answer, err = s.debit(ctx, tx, token, group, r); err == nil && answer == nil {
			return store.ErrRollback
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if answer == nil {
		return judge(ctx, s.Pool, token, r)
	}
	return answer, nil
}

// acknowledge moves a CLAIMED payout to RAIL_ACKED. Where a statement touches nothing, nothing is written and
// no verdict is given: the debit, which follows in any case, comes to it.
func (s *Store) acknowledge(ctx context.Context, token fencing.Token, r Request) error {
	return store.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(fenceSQL, r.PayoutID, token, r.IdempotencyKey)
		queueAcknowledgement(batch, submittedSQL, token, r)
		touched, err := store.Touched(tx.SendBatch(ctx, batch), batch.Len())
		if err != nil {
			return err
		}
		for _, rows := range touched {
			if rows != 1 {
				return store.ErrRollback
			}
		}
		return nil
	})
}

func queueAcknowledgement(batch *pgx.Batch, submitted string, token fencing.Token, r Request) {
	out, in := payout.Only(payout.Submitted), payout.Only(payout.Acknowledged)
	batch.Queue(submitted, r.PayoutID, token, out.From, out.To, r.OwnerID, r.SubmissionID, r.SubmittedAt)
	batch.Queue(acknowledgedSQL, r.PayoutID, token, in.From, in.To, r.OwnerID, r.RailReference, r.ResolvedAt)
}

// debit turns the reservation into the debit and writes both legs. nil without an error: a statement touched
// no row, and the transaction must be rolled back.
func (s *Store) debit(ctx context.Context, tx pgx.Tx, token fencing.Token, group string, r Request) (*paymentapi.Posting, error) {
	move := payout.Only(payout.Post)
	batch := &pgx.Batch{}
	batch.Queue(debitSQL, r.PayoutID, token, r.IdempotencyKey)
	batch.Queue(postSQL, r.PayoutID, token, move.From, move.To, r.OwnerID, r.RailReference, group)
	results := tx.SendBatch(ctx, batch)
	defer func() { _ = results.Close() }() // an error of the batch is seen by what reads it
	answer := paymentapi.Posting{PayoutID: r.PayoutID, State: move.To}
	err := results.QueryRow().Scan(&answer.BalanceMinor)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, results.Close()
	}
	if err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	answer.Entries, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (paymentapi.LedgerEntry, error) {
		e := paymentapi.LedgerEntry{EntryGroup: group, Fence: token}
		return e, row.Scan(&e.EntryID, &e.AccountID, &e.Direction, &e.AmountMinor, &answer.RailReference)
	})
	if err != nil {
		return nil, err
	}
	if len(answer.Entries) != 2 {
		return nil, results.Close()
	}
	return &answer, results.Close()
}

// judge, after the rollback, says why nothing was posted, or answers what the token posted before: first replay, then fence, then state.
func judge(ctx context.Context, q store.Queryer, token fencing.Token, r Request) (*paymentapi.Posting, error) {
	record, err := payout.Read(ctx, q, r.PayoutID, token)
	if err != nil {
		return nil, err
	}
	if err := record.CheckKey(r.IdempotencyKey); err != nil {
		return nil, err
	}
	posted, err := replay(ctx, q, token, record)
	if err != nil {
		return nil, err
	}
	sameReference := r.RailReference == "" || record.RailReference == "" || r.RailReference == record.RailReference
	switch {
	case posted != nil && !sameReference:
		return nil, otherReference()
	case posted != nil:
		return posted, nil
	case record.Fence > token:
		return nil, record.FencedOut(payout.Ledger, token, r.OwnerID)
	case !record.HeldBy(token), record.State != paymentapi.Claimed && record.State != paymentapi.RailAcked:
		return nil, record.NotClaimable()
	case !sameReference:
		return nil, otherReference()
	case record.State == paymentapi.Claimed && r.RailReference == "":
		return nil, apierr.Field("railReference", "required: the rail's acknowledgement is not recorded yet")
	case min(record.BalanceMinor, record.ReservedMinor) < record.AmountMinor:
		return nil, apierr.New(apierr.InsufficientFunds, "the account's balance does not cover the payout")
	}
	return nil, errors.New("post: what refused the posting has changed since; asking again helps")
}

func otherReference() error {
	return apierr.New(apierr.IdempotencyConflict, "another rail reference is recorded for this payout")
}

// replay is what the token posted for the payout, nil when it posted nothing.
func replay(ctx context.Context, q store.Queryer, token fencing.Token, record *payout.Record) (*paymentapi.Posting, error) {
	rows, err := q.Query(ctx, entriesSQL, record.PayoutID, token)
	if err != nil {
		return nil, err
	}
	answer := paymentapi.Posting{PayoutID: record.PayoutID, State: payout.Only(payout.Post).To, RailReference: record.RailReference}
	answer.Entries, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (paymentapi.LedgerEntry, error) {
		var e paymentapi.LedgerEntry
		var balance *int64 // the customer's leg alone has one
		err := row.Scan(&e.EntryID, &e.EntryGroup, &e.AccountID, &e.Direction, &e.AmountMinor, &e.Fence, &balance)
		if balance != nil {
			answer.BalanceMinor = *balance
		}
		return e, err
	})
	if err != nil || len(answer.Entries) == 0 {
		return nil, err
	}
	return &answer, nil
}
