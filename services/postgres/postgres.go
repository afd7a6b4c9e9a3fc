// Package postgres is what the services that own tables share: a bounded pool, migrations, and the reading of errors.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // goose needs a database/sql driver
	"github.com/pressly/goose/v3"
	"github.com/prometheus/client_golang/prometheus"
)

// Open makes a pool of at most maxConns connections. It does not connect: a database that is down at
// start makes the process not ready, it does not end it. Statements time out on the server after 10 s.
func Open(ctx context.Context, url string, maxConns int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("not a PostgreSQL URL") // the parse error may show the password
	}
	config.MaxConns = maxConns
	config.MaxConnIdleTime = 5 * time.Minute
	config.ConnConfig.ConnectTimeout = 2 * time.Second
	params := config.ConnConfig.RuntimeParams
	params["timezone"] = "UTC"
	params["statement_timeout"] = "10000"
	params["idle_in_transaction_session_timeout"] = "10000"
	return pgxpool.NewWithConfig(ctx, config)
}

// Migrate applies the migrations of one owner, found in the folder "migrations" of files, and records them in that owner's own
// version table: two owners that shared one would silently skip each other's.
func Migrate(ctx context.Context, url string, files fs.FS, owner string) error {
	folder, err := fs.Sub(files, "migrations")
	if err != nil {
		return err
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		return errors.New("not a PostgreSQL URL")
	}
	defer func() { _ = db.Close() }()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, folder, goose.WithTableName(owner+"_schema_version"))
	if err != nil {
		return fmt.Errorf("migrations of %s: %w", owner, err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrations of %s: %w", owner, err)
	}
	return nil
}

// SQLState returns the PostgreSQL error code and the constraint of err, and "" when err did not come from the server.
func SQLState(err error) (code, constraint string) {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code, e.ConstraintName
	}
	return "", ""
}

// UniqueViolation is the SQLSTATE of a broken unique index.
const UniqueViolation = "23505"

// DeadlockDetected is the SQLSTATE of a transaction that was rolled back to let another one go on.
const DeadlockDetected = "40P01"

// InTx runs do in one transaction and commits it. An error of do rolls back and is returned. An error
// of the commit itself is returned wrapped in ErrCommitUnknown when the connection died under it: the
// transaction may have been committed, so the caller must read again by key and never repeat under a new id.
func InTx(ctx context.Context, pool *pgxpool.Pool, do func(pgx.Tx) error) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if err := do(tx); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		if code, _ := SQLState(err); code == "" && !errors.Is(err, pgx.ErrTxCommitRollback) {
			return fmt.Errorf("%w: %w", ErrCommitUnknown, err)
		}
		return err
	}
	return nil
}

// ErrCommitUnknown says that the answer to a COMMIT was lost.
var ErrCommitUnknown = errors.New("the outcome of the commit is unknown")

// NewPoolCollector exports a pool's state; names carry no label.
func NewPoolCollector(pool *pgxpool.Pool) prometheus.Collector {
	return &poolCollector{pool: pool}
}

type poolCollector struct{ pool *pgxpool.Pool }

var (
	poolAcquired  = prometheus.NewDesc("pgx_pool_acquired_conns", "Connections in use.", nil, nil)
	poolIdle      = prometheus.NewDesc("pgx_pool_idle_conns", "Connections open and idle.", nil, nil)
	poolMax       = prometheus.NewDesc("pgx_pool_max_conns", "The bound of the pool.", nil, nil)
	poolWaitCount = prometheus.NewDesc("pgx_pool_empty_acquire_total", "Acquires that had to wait for a connection.", nil, nil)
	poolWait      = prometheus.NewDesc("pgx_pool_acquire_seconds_total", "Time spent acquiring connections.", nil, nil)
)

func (c *poolCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{poolAcquired, poolIdle, poolMax, poolWaitCount, poolWait} {
		ch <- d
	}
}

func (c *poolCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.pool.Stat()
	ch <- prometheus.MustNewConstMetric(poolAcquired, prometheus.GaugeValue, float64(s.AcquiredConns()))
	ch <- prometheus.MustNewConstMetric(poolIdle, prometheus.GaugeValue, float64(s.IdleConns()))
	ch <- prometheus.MustNewConstMetric(poolMax, prometheus.GaugeValue, float64(s.MaxConns()))
	ch <- prometheus.MustNewConstMetric(poolWaitCount, prometheus.CounterValue, float64(s.EmptyAcquireCount()))
	ch <- prometheus.MustNewConstMetric(poolWait, prometheus.CounterValue, s.AcquireDuration().Seconds())
}
