package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"railguard/services/postgres"
	"railguard/services/railapi"
)

// ErrOtherwiseResolved says that the record cannot take the outcome: it is gone, or it holds another one. Nothing
// that this program does leads there, and repeating the write does not help.
var ErrOtherwiseResolved = errors.New("the record of the submission does not take the outcome")

const resolve = `UPDATE rail_submission SET outcome = $2, rail_reference = nullif($3, ''), resolved_at = clock_timestamp()
	WHERE submission_id = $1 AND outcome IS NULL AND proxy_instance = $4 RETURNING ` + columns

const selectByID = `SELECT ` + columns + ` FROM rail_submission WHERE submission_id = $1`

// Resolve writes the outcome of a submission of this process, once. It may be repeated after an error: a write
// whose answer was lost is found and returned as it is.
func (s *Store) Resolve(ctx context.Context, submissionID string, outcome railapi.Outcome, railReference string) (railapi.Submission, error) {
	records, err := query(ctx, s.pool, resolve, submissionID, string(outcome), railReference, s.instance)
	if err != nil {
		return railapi.Submission{}, err
	}
	if len(records) == 0 {
		if records, err = query(ctx, s.pool, selectByID, submissionID); err != nil {
			return railapi.Submission{}, err
		}
	}
	if len(records) != 1 {
		return railapi.Submission{}, fmt.Errorf("%w: there is no record %s", ErrOtherwiseResolved, submissionID)
	}
	if r := records[0]; r.Outcome != outcome || r.RailReference != railReference {
		return railapi.Submission{}, fmt.Errorf("%w: %s is %q, not %q", ErrOtherwiseResolved, submissionID, r.Outcome, outcome)
	}
	return records[0].Submission, nil
}

// probeIntent waits for the transaction that may still be committing the same key, and inserts only if that one
// was rolled back. It is never committed itself.
const probeIntent = `INSERT INTO rail_submission (submission_id, payout_id, account_id, owner_id, idempotency_key,
		presented_token, amount_minor, currency, proxy_instance, guarded)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, false) ON CONFLICT (submission_id) DO NOTHING`

// Withdraw settles an intent after ErrUnknown, without sending it: an intent that was committed becomes
// UNSENT; false says that it was not committed and never will be. It may be repeated after an error.
//
// Reading the record would not do: a server that lost its client may commit after the look.
func (s *Store) Withdraw(ctx context.Context, submissionID string, r Request) (railapi.Submission, bool, error) {
	committed := false
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		// An unguarded row under a payout id of its own meets no other unique index than the primary key.
		tag, err := tx.Exec(ctx, probeIntent, submissionID, uuid.New(), r.AccountID, r.OwnerID, r.IdempotencyKey,
			int64(r.Token), r.AmountMinor, string(r.Currency), s.instance)
		if err != nil {
			return err
		}
		committed = tag.RowsAffected() == 0
		return errRefused
	})
	if !errors.Is(err, errRefused) {
		return railapi.Submission{}, false, err
	}
	if !committed {
		return railapi.Submission{}, false, nil
	}
	record, err := s.Resolve(ctx, submissionID, railapi.Unsent, "")
	return record, true, err
}
