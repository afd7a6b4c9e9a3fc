// Package store is payment-resource's hold on paydb: its schema and the form of its transactions. The
// statements stand beside the code that runs them.
package store

import (
	"context"
	"embed"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"railguard/services/postgres"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrate creates or upgrades the tables, triggers, roles and grants of payment-resource, as the owner.
func Migrate(ctx context.Context, ownerURL string) error {
	return postgres.Migrate(ctx, ownerURL, migrations, "payment")
}

// Queryer runs one statement: a pool or a transaction.
type Queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// ErrRollback, returned by the function given to InTx, ends the transaction without effect and without an error. A
// write of several statements of which one touched no row ends so, before anything is read to say why: within the
// transaction the reader would see what the other statements did, and take an attempt for an earlier success.
var ErrRollback = errors.New("roll back")

// InTx runs do in one transaction. When the answer to the COMMIT is lost the outcome is unknown, and do runs
// once more: everything that this service writes has a key of its own (payout and token, external
// reference), so that the second run either finds the first one's effect and answers it, or is the first to make it. do must
// therefore set its results afresh on each run. So it does when the server ended a deadlock: two batches may
// hold the same references in another order.
func InTx(ctx context.Context, pool *pgxpool.Pool, do func(pgx.Tx) error) error {
	err := postgres.InTx(ctx, pool, do)
	if code, _ := postgres.SQLState(err); errors.Is(err, postgres.ErrCommitUnknown) || code == postgres.DeadlockDetected {
		err = postgres.InTx(ctx, pool, do)
	}
	if errors.Is(err, ErrRollback) {
		return nil
	}
	return err
}

// Touched reports how many rows each statement of a batch affected, in order. An error ends the reading.
func Touched(results pgx.BatchResults, statements int) ([]int64, error) {
	touched := make([]int64, 0, statements)
	for range statements {
		tag, err := results.Exec()
		if err != nil {
			_ = results.Close() // the first error is the one that says what happened
			return nil, err
		}
		touched = append(touched, tag.RowsAffected())
	}
	return touched, results.Close()
}
