// Package resolution is where people and the resolver end what the executor may not: the only way out of
// RAIL_AMBIGUOUS, and the cancelling of a payout that nobody claimed yet.
package resolution

import (
	"context"
	_ "embed"
	"encoding/json"
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
	//go:embed context.sql
	contextSQL string
	//go:embed evidence_made.sql
	evidenceMadeSQL string
	//go:embed evidence.sql
	evidenceSQL string
	//go:embed proposal.sql
	proposalSQL string
	//go:embed resolution.sql
	resolutionSQL string
	//go:embed move.sql
	moveSQL string
	//go:embed release.sql
	releaseSQL string
)

// Store resolves. It is fenced whatever PAYMENT_FENCING_ENABLED says: no switch opens the way out of RAIL_AMBIGUOUS.
type Store struct{ Pool *pgxpool.Pool }

// Request is one decision about an ambiguous payout, or with EvidenceOnly what software found out about it.
type Request struct {
	PayoutID       string
	OwnerID        string
	DecidedBy      string // the name of the bearer token
	Outcome        string // paymentapi.ResolutionSettled, …Absent or …Abandoned
	RailReference  string // with SETTLED
	Evidence       json.RawMessage
	Reason         string
	SecondOperator string // "" unless another operator's approval is asked for, or given
	EvidenceOnly   bool
	Automatic      bool // software decides; its own evidence does not bind it
}

var events = map[string]payout.Event{
	paymentapi.ResolutionSettled:   payout.Settled,
	paymentapi.ResolutionAbsent:    payout.Absent,
	paymentapi.ResolutionAbandoned: payout.Abandoned,
}

// reference is the rail's reference as the database holds it: absent, not empty.
func (r Request) reference() *string {
	if r.RailReference == "" {
		return nil
	}
	return &r.RailReference
}

func (r Request) evidence() any {
	if len(r.Evidence) == 0 {
		return nil
	}
	return r.Evidence
}

// current is what is known of the payout, under the locks of its account and its own.
type current struct {
	accountID     string
	state         paymentapi.PayoutState
	amountMinor   int64
	fence         fencing.Token
	conclusion    string // of the latest automatic evidence, "" for none
	conclusionRef string
	resolved      struct {
		outcome, reference, reason string
		token                      fencing.Token
	}
	proposed bool // by this caller under this token, naming the second operator
	approved bool // by the second operator, naming this caller
}

// Resolve makes a decision, stores it as a proposal, or records evidence. decided is false for the latter two, which
// leave the payout RAIL_AMBIGUOUS. A decision needs a second operator when it names one, and must name one when it contradicts the
// evidence that software recorded. Errors: NOT_FOUND, FENCED_OUT, PAYOUT_NOT_CLAIMABLE (not RAIL_AMBIGUOUS),
// VALIDATION_FAILED (no second operator named), IDEMPOTENCY_CONFLICT (the token decided otherwise before).
func (s *Store) Resolve(ctx context.Context, token fencing.Token, r Request) (status *paymentapi.PayoutStatus, decided bool, err error) {
	err = store.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		now, raised, err := raise(ctx, tx, token, r)
		if err != nil {
			return err
		}
		status = &paymentapi.PayoutStatus{PayoutID: r.PayoutID, AccountID: now.accountID, State: now.state}
		done, err := replay(ctx, tx, token, r, now, status)
		if err != nil {
			return err
		}
		if done {
			decided = status.State != paymentapi.RailAmbiguous
			return store.ErrRollback
		}
		record := payout.Record{AccountID: now.accountID, State: now.state, Fence: now.fence}
		if !raised {
			return record.FencedOut(payout.Account, token, r.OwnerID)
		}
		if now.state != paymentapi.RailAmbiguous {
			return record.NotClaimable()
		}
		decided, err = s.write(ctx, tx, token, r, now, status)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return status, decided, nil
}

// raise compares the token and writes the fence in one statement (INV-05), and reads the rest under its lock.
func raise(ctx context.Context, tx pgx.Tx, token fencing.Token, r Request) (*current, bool, error) {
	batch := &pgx.Batch{}
	batch.Queue(fenceSQL, r.PayoutID, token)
	batch.Queue(contextSQL, r.PayoutID, r.DecidedBy, r.SecondOperator, r.Outcome, r.reference(), token)
	results := tx.SendBatch(ctx, batch)
	defer func() { _ = results.Close() }() // an error of the batch is seen by what reads it
	raised, err := results.Exec()
	if err != nil {
		return nil, false, err
	}
	var c current
	err = results.QueryRow().Scan(&c.accountID, &c.state, &c.amountMinor, &c.fence, &c.conclusion, &c.conclusionRef,
		&c.resolved.outcome, &c.resolved.reference, &c.resolved.token, &c.resolved.reason, &c.proposed, &c.approved)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, payout.NotFound()
	}
	if err != nil {
		return nil, false, err
	}
	return &c, raised.RowsAffected() == 1, results.Close()
}

// replay completes status from what the token has done already.
func replay(ctx context.Context, tx pgx.Tx, token fencing.Token, r Request, now *current, status *paymentapi.PayoutStatus) (bool, error) {
	conflict := apierr.New(apierr.IdempotencyConflict, "this token was used for another decision about this payout")
	if r.EvidenceOnly {
		var same bool
		err := tx.QueryRow(ctx, evidenceMadeSQL, r.PayoutID, token, r.DecidedBy, r.Outcome, r.reference()).Scan(&same)
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}
		if err == nil && !same {
			return false, conflict
		}
		status.State = paymentapi.RailAmbiguous
		return err == nil, err
	}
	if now.resolved.token != token {
		status.State = paymentapi.RailAmbiguous // so a proposal left it
		return now.proposed, nil
	}
	if now.resolved.outcome != r.Outcome || now.resolved.reference != r.RailReference {
		return false, conflict
	}
	status.State = payout.Only(events[r.Outcome]).To
	status.StateReason, status.RailReference = now.resolved.reason, now.resolved.reference
	return true, nil
}

// contradicts reports whether the decision says something else than the evidence: that no money moved where it
// did, that it moved where it did not, or that it moved under another reference.
func (r Request) contradicts(now *current) bool {
	switch now.conclusion {
	case paymentapi.ResolutionSettled:
		return r.Outcome != paymentapi.ResolutionSettled || r.RailReference != now.conclusionRef
	case paymentapi.ResolutionAbsent:
		return r.Outcome == paymentapi.ResolutionSettled
	}
	return false
}

func (s *Store) write(ctx context.Context, tx pgx.Tx, token fencing.Token, r Request, now *current, status *paymentapi.PayoutStatus) (bool, error) {
	if r.EvidenceOnly {
		_, err := tx.Exec(ctx, evidenceSQL, r.PayoutID, token, r.DecidedBy, r.Outcome, r.reference(), r.evidence(), r.Reason)
		return false, err
	}
	decidedBy, second := r.DecidedBy, (*string)(nil)
	switch {
	case r.SecondOperator != "" && !now.approved:
		_, err := tx.Exec(ctx, proposalSQL, r.PayoutID, token, r.DecidedBy, r.SecondOperator, r.Outcome, r.reference(), r.evidence(), r.Reason)
		return false, err
	case r.SecondOperator != "":
		decidedBy, second = r.SecondOperator, &r.DecidedBy // the one who proposed decided; this one approved
	case !r.Automatic && r.contradicts(now):
		return false, apierr.Field("secondOperator", "required: the decision contradicts the recorded automatic evidence (%s)", now.conclusion)
	}
	move := payout.Only(events[r.Outcome])
	batch := &pgx.Batch{}
	batch.Queue(resolutionSQL, r.PayoutID, token, decidedBy, second, r.Outcome, r.reference(), r.evidence(), r.Reason)
	batch.Queue(moveSQL, r.PayoutID, token, move.From, move.To, r.OwnerID, r.Reason, r.reference())
	if move.To != paymentapi.RailAcked {
		batch.Queue(releaseSQL, now.accountID, now.amountMinor)
	}
	touched, err := store.Touched(tx.SendBatch(ctx, batch), batch.Len())
	if err != nil {
		return false, err
	}
	for _, rows := range touched {
		if rows != 1 {
			return false, errors.New("resolution: a row that is locked was not found again")
		}
	}
	status.State, status.StateReason, status.RailReference = move.To, r.Reason, r.RailReference
	return true, nil
}
