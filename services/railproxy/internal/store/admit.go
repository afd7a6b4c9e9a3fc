package store

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"railguard/services/fencing"
	"railguard/services/postgres"
	"railguard/services/railapi"
)

// Request is a submission that asks to be admitted.
type Request struct {
	railapi.SubmissionRequest
	Token          fencing.Token
	OwnerID        string
	IdempotencyKey string
}

// Verdict is what the guard says to a request.
type Verdict int

// The verdicts. Only Admitted may be followed by a call of the rail.
const (
	Admitted  Verdict = iota + 1
	FencedOut         // a newer token was seen, or this one with another payout; a FENCED row is recorded
	Duplicate         // this payout was presented before, or this very token with it; nothing is written
	Conflict          // the payout or the key was recorded with something else; nothing is written
)

// Judgement is a verdict and what it rests on.
type Judgement struct {
	Verdict Verdict
	// Submission is the intent (Admitted), the FENCED row (FencedOut), or the existing record (Duplicate, Conflict).
	Submission railapi.Submission
	Highest    fencing.Token // the mark that the token was compared with; FencedOut only
	// AlreadyPresented says that the rail may have seen this payout before this request.
	AlreadyPresented bool
	// Since is when the commit of the intent was begun, on the monotonic clock: the age of an intent
	// reckoned from it is never too low.
	Since time.Time
}

// ErrUnknown says that the intent of a request may or may not be committed: it must be settled with
// Store.Withdraw, and the rail must not be called for it.
var ErrUnknown = errors.New("whether the intent was committed is unknown")

// Admit judges a request and, when it is admitted, records the intent, in one transaction: first the fence, then
// what was recorded before, then the uniqueness. submissionID is a fresh UUID; with ErrUnknown it is
// the key under which the intent may exist. After any other error nothing was committed.
//
// The fence is judged first, so that a stale token is FencedOut (recorded, counted) even where its
// request would be refused for another reason as well. Only a token that equals the mark, on a payout that was
// admitted under it, is a repetition rather than stale.
func (s *Store) Admit(ctx context.Context, submissionID string, r Request) (Judgement, error) {
	var j Judgement
	prepared := false
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		var err error
		if s.guarded {
			j, err = s.judge(ctx, tx, submissionID, r)
		} else {
			j, err = s.recordUnguarded(ctx, tx, submissionID, r)
		}
		if err != nil {
			return err
		}
		if j.Verdict == Duplicate || j.Verdict == Conflict {
			return errRefused
		}
		prepared = true
		j.Since = time.Now()
		return nil
	})
	switch {
	case err == nil, errors.Is(err, errRefused):
		return j, nil
	case prepared && j.Verdict == FencedOut:
		// The mark never goes back, so the refusal stands even if its record was lost.
		return j, nil
	case prepared:
		return Judgement{}, errors.Join(ErrUnknown, err)
	}
	return Judgement{}, err
}

// advanceMark is the fence (INV-05): the comparison is in the statement that writes. Strictly below: each grant
// submits at most once, so a token that equals the mark has been used. The row stays locked to
// the end of the transaction, also when it was not updated.
const advanceMark = `INSERT INTO rail_high_water AS w (account_id, highest_token) VALUES ($1, $2)
	ON CONFLICT (account_id) DO UPDATE SET highest_token = excluded.highest_token, updated_at = clock_timestamp()
	WHERE w.highest_token < excluded.highest_token`

func (s *Store) judge(ctx context.Context, tx pgx.Tx, submissionID string, r Request) (Judgement, error) {
	tag, err := tx.Exec(ctx, advanceMark, r.AccountID, int64(r.Token))
	if err != nil {
		return Judgement{}, err
	}
	before, err := recordedBefore(ctx, tx, r)
	if err != nil {
		return Judgement{}, err
	}
	if tag.RowsAffected() == 0 {
		return s.judgeStale(ctx, tx, submissionID, r, before)
	}
	if before.conflicting != nil {
		return before.conflict(), nil
	}
	intent, err := s.insert(ctx, tx, insertGuarded, submissionID, r)
	if err != nil {
		return Judgement{}, err
	}
	if intent != nil {
		return Judgement{Verdict: Admitted, Submission: *intent}, nil
	}
	// The index refused. What it refused for may have been committed after the first look.
	if before, err = recordedBefore(ctx, tx, r); err != nil {
		return Judgement{}, err
	}
	return duplicateOf(before.latest()), nil
}

// judgeStale is for a token that did not advance the mark.
func (s *Store) judgeStale(ctx context.Context, tx pgx.Tx, submissionID string, r Request, before history) (Judgement, error) {
	mark, err := highest(ctx, tx, r.AccountID)
	if err != nil {
		return Judgement{}, err
	}
	if repeated := before.under(r.Token); repeated != nil && r.Token == mark {
		if before.conflicting != nil {
			return before.conflict(), nil
		}
		return duplicateOf(repeated), nil
	}
	fenced, err := s.insert(ctx, tx, insertFenced, submissionID, r)
	if err != nil {
		return Judgement{}, err
	}
	return Judgement{Verdict: FencedOut, Submission: *fenced, Highest: mark, AlreadyPresented: before.presented != nil}, nil
}

func duplicateOf(existing *record) Judgement {
	j := Judgement{Verdict: Duplicate, AlreadyPresented: true}
	if existing != nil {
		j.Submission = existing.Submission
	}
	return j
}

// recordUnguarded judges neither the token nor the uniqueness: the mark is kept as the maximum seen, and
// the row says that nobody guarded it.
func (s *Store) recordUnguarded(ctx context.Context, tx pgx.Tx, submissionID string, r Request) (Judgement, error) {
	if _, err := tx.Exec(ctx, raiseFence, r.AccountID, int64(r.Token)); err != nil {
		return Judgement{}, err
	}
	before, err := recordedBefore(ctx, tx, r)
	if err != nil {
		return Judgement{}, err
	}
	if before.conflicting != nil {
		return before.conflict(), nil
	}
	intent, err := s.insert(ctx, tx, insertUnguarded, submissionID, r)
	if err != nil {
		return Judgement{}, err
	}
	return Judgement{Verdict: Admitted, Submission: *intent}, nil
}

const insertColumns = `INSERT INTO rail_submission (submission_id, payout_id, account_id, owner_id, idempotency_key,
	presented_token, amount_minor, currency, proxy_instance, guarded, outcome, resolved_at) `

const values = `$1::uuid, $2::uuid, $3::text, $4::text, $5::text, $6::bigint, $7::bigint, $8::text, $9::text`

// insertGuarded leaves it to the index rail_submission_presented_once to refuse a second presentation (INV-02). The index
// covers guarded rows alone; the condition adds those that were presented while the kill switch was off.
const insertGuarded = insertColumns + `SELECT ` + values + `, true, NULL, NULL
	WHERE NOT EXISTS (SELECT 1 FROM rail_submission WHERE payout_id = $2 AND NOT guarded
		AND (outcome IS NULL OR outcome IN ('ACKED', 'REJECTED', 'TIMEOUT')))
	ON CONFLICT DO NOTHING RETURNING ` + columns

const insertUnguarded = insertColumns + `SELECT ` + values + `, false, NULL, NULL RETURNING ` + columns

const insertFenced = insertColumns + `SELECT ` + values + `, true, 'FENCED', clock_timestamp() RETURNING ` + columns

// insert returns nil when nothing was inserted.
func (s *Store) insert(ctx context.Context, tx pgx.Tx, statement, submissionID string, r Request) (*railapi.Submission, error) {
	records, err := query(ctx, tx, statement, submissionID, r.PayoutID, r.AccountID, r.OwnerID, r.IdempotencyKey,
		int64(r.Token), r.AmountMinor, string(r.Currency), s.instance)
	if err != nil || len(records) == 0 {
		return nil, err
	}
	return &records[0].Submission, nil
}

// history is what was admitted before, of a payout and under an idempotency key.
type history struct {
	ofPayout    []record
	presented   *record // one that the rail may have seen
	conflicting *record // one that says something else under the same payout or key
}

// FENCED rows are left out: they record what a stale caller said, and a stale caller must not be able to
// stop the rightful one by it.
const selectHistory = `SELECT ` + columns + ` FROM rail_submission
	WHERE (payout_id = $1 OR idempotency_key = $2) AND outcome IS DISTINCT FROM 'FENCED' ORDER BY submitted_at, submission_id`

func recordedBefore(ctx context.Context, tx pgx.Tx, r Request) (history, error) {
	records, err := query(ctx, tx, selectHistory, r.PayoutID, r.IdempotencyKey)
	if err != nil {
		return history{}, err
	}
	var h history
	for i := range records {
		known := &records[i]
		if known.PayoutID == r.PayoutID {
			h.ofPayout = append(h.ofPayout, *known)
			if known.presented() {
				h.presented = known
			}
		}
		if known.PayoutID != r.PayoutID || known.idempotencyKey != r.IdempotencyKey || known.AccountID != r.AccountID ||
			known.AmountMinor != r.AmountMinor || known.Currency != r.Currency {
			h.conflicting = known
		}
	}
	return h, nil
}

// under is the record of the payout that was admitted under a token, nil for none.
func (h history) under(token fencing.Token) *record {
	for i := range h.ofPayout {
		if h.ofPayout[i].PresentedToken == token {
			return &h.ofPayout[i]
		}
	}
	return nil
}

func (h history) conflict() Judgement {
	return Judgement{Verdict: Conflict, Submission: h.conflicting.Submission, AlreadyPresented: h.presented != nil}
}

// latest is what a duplicate is a duplicate of: the one presented, else the newest.
func (h history) latest() *record {
	if h.presented != nil || len(h.ofPayout) == 0 {
		return h.presented
	}
	return &h.ofPayout[len(h.ofPayout)-1]
}

// NewSubmissionID makes the id of a submission; ids rise with time, so that the primary key's index stays warm.
func NewSubmissionID() (string, error) {
	id, err := uuid.NewV7()
	return id.String(), err
}
