// Package store holds the rail-proxy's own tables: the highest token that was accepted for each account, and
// a record of every submission, written before the rail is called.
package store

import (
	"context"
	"embed"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"railguard/services/fencing"
	"railguard/services/money"
	"railguard/services/postgres"
	"railguard/services/railapi"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrate creates or updates the tables as the owner of the schema.
func Migrate(ctx context.Context, ownerURL string) error {
	return postgres.Migrate(ctx, ownerURL, migrations, "railproxy")
}

// Store reads and writes the tables for one process of the rail-proxy.
type Store struct {
	pool     *pgxpool.Pool
	instance string
	guarded  bool
}

// New makes a store. instance names this process in the records it writes; guarded is false while the
// kill switch is off: then neither the token nor the uniqueness is judged.
func New(pool *pgxpool.Pool, instance string, guarded bool) *Store {
	return &Store{pool: pool, instance: instance, guarded: guarded}
}

// Guarded reports whether this store judges tokens and uniqueness.
func (s *Store) Guarded() bool { return s.guarded }

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.pool.Ping(ctx) }

// record is one row of rail_submission.
type record struct {
	railapi.Submission
	idempotencyKey string
	guarded        bool
}

// presented reports whether the rail may have seen this submission (INV-02).
func (r *record) presented() bool {
	return r.Outcome != railapi.Fenced && r.Outcome != railapi.Unsent
}

const columns = `submission_id, payout_id, account_id, owner_id, idempotency_key, presented_token, amount_minor, currency,
	coalesce(outcome, ''), coalesce(rail_reference, ''), guarded, proxy_instance, submitted_at, resolved_at`

func scan(row pgx.CollectableRow) (record, error) {
	var (
		r              record
		id, payoutID   uuid.UUID
		token          int64
		currency, what string
	)
	err := row.Scan(&id, &payoutID, &r.AccountID, &r.OwnerID, &r.idempotencyKey, &token, &r.AmountMinor, &currency,
		&what, &r.RailReference, &r.guarded, &r.ProxyInstance, &r.SubmittedAt, &r.ResolvedAt)
	r.SubmissionID, r.PayoutID = id.String(), payoutID.String()
	r.PresentedToken, r.Currency, r.Outcome = fencing.Token(token), money.Currency(currency), railapi.Outcome(what)
	return r, err
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func query(ctx context.Context, from querier, sql string, args ...any) ([]record, error) {
	rows, err := from.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

const selectByPayout = `SELECT ` + columns + ` FROM rail_submission WHERE payout_id = $1 ORDER BY submitted_at, submission_id`

// Submissions returns every record of a payout, oldest first.
func (s *Store) Submissions(ctx context.Context, payoutID string) ([]railapi.Submission, error) {
	records, err := query(ctx, s.pool, selectByPayout, payoutID)
	if err != nil {
		return nil, err
	}
	submissions := make([]railapi.Submission, 0, len(records))
	for _, r := range records {
		submissions = append(submissions, r.Submission)
	}
	return submissions, nil
}

const raiseFence = `INSERT INTO rail_high_water AS w (account_id, highest_token) VALUES ($1, $2)
	ON CONFLICT (account_id) DO UPDATE SET highest_token = greatest(w.highest_token, excluded.highest_token), updated_at = clock_timestamp()
	RETURNING highest_token`

// RaiseFence raises the mark of an account to floor, never lowers it, and returns the mark in force.
func (s *Store) RaiseFence(ctx context.Context, accountID string, floor fencing.Token) (fencing.Token, error) {
	var mark int64
	err := s.pool.QueryRow(ctx, raiseFence, accountID, int64(floor)).Scan(&mark)
	return fencing.Token(mark), err
}

// HighestFence is the highest mark of any account, 0 for none. It reads all of them: it is asked once after a
// restore, and an index would make every submission pay for it.
func (s *Store) HighestFence(ctx context.Context) (fencing.Token, error) {
	var mark int64
	err := s.pool.QueryRow(ctx, `SELECT coalesce(max(highest_token), 0) FROM rail_high_water`).Scan(&mark)
	return fencing.Token(mark), err
}

const selectMark = `SELECT highest_token FROM rail_high_water WHERE account_id = $1`

func highest(ctx context.Context, tx pgx.Tx, accountID string) (fencing.Token, error) {
	var mark int64
	err := tx.QueryRow(ctx, selectMark, accountID).Scan(&mark)
	return fencing.Token(mark), err
}

// errRefused rolls a transaction back after a refusal that writes nothing.
var errRefused = errors.New("refused")
