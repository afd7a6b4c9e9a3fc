package railproxy

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"railguard/deploy/local/pgserver"
)

const (
	templateDatabase = "rail_template"
	rolePassword     = "only-for-tests"
)

// suite is the one PostgreSQL server of this package's tests.
type suite struct {
	server    *pgserver.Server
	databases atomic.Int64
}

var shared suite

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	ctx := context.Background()
	if shared.server, err = pgserver.Start(ctx, pgserver.Options{Volatile: true}); err != nil {
		return 1, err
	}
	defer func() {
		if stopped := shared.server.Stop(); stopped != nil && err == nil {
			err = stopped
		}
	}()
	if err := prepare(ctx, shared.server, templateDatabase); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// prepare makes a migrated database whose roles can log in.
func prepare(ctx context.Context, server *pgserver.Server, name string) error {
	if err := server.CreateDatabase(ctx, name, ""); err != nil {
		return err
	}
	if err := Migrate(ctx, server.URL(name)); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, server.URL(name))
	if err != nil {
		return err
	}
	for _, role := range []string{"payapp", "railapp", "reconciler"} {
		if _, err := conn.Exec(ctx, fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'", role, rolePassword)); err != nil {
			return err
		}
	}
	return conn.Close(ctx)
}

// database is one test's own database.
type database struct {
	server *pgserver.Server
	name   string
	pool   *pgxpool.Pool // as the owner
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	name := fmt.Sprintf("rail_%d", shared.databases.Add(1))
	require.NoError(t, shared.server.CreateDatabase(t.Context(), name, templateDatabase))
	return openDatabase(t, shared.server, name)
}

func openDatabase(t *testing.T, server *pgserver.Server, name string) *database {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), server.URL(name))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return &database{server: server, name: name, pool: pool}
}

func (d *database) roleURL(role string) string { return d.server.RoleURL(d.name, role, rolePassword) }

// row is what a test looks at of one submission's record.
type row struct {
	Payout, Account, Outcome, Reference string
	Token                               int64
	Guarded                             bool
}

func (d *database) rows(t *testing.T) []row {
	t.Helper()
	rows, err := d.pool.Query(t.Context(), `SELECT payout_id::text, account_id, coalesce(outcome, ''), coalesce(rail_reference, ''),
		presented_token, guarded FROM rail_submission ORDER BY submitted_at, submission_id`)
	require.NoError(t, err)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	require.NoError(t, err)
	return found
}

// outcomes are the outcomes of a payout's records, oldest first, joined by spaces; "none" for no outcome.
func (d *database) outcomes(t *testing.T, payoutID string) string {
	t.Helper()
	var found []string
	for _, r := range d.rows(t) {
		switch {
		case r.Payout != payoutID:
		case r.Outcome == "":
			found = append(found, "none")
		default:
			found = append(found, r.Outcome)
		}
	}
	return strings.Join(found, " ")
}

// mark is the highest token of an account, 0 for none.
func (d *database) mark(t *testing.T, account string) int64 {
	t.Helper()
	var mark int64
	require.NoError(t, d.pool.QueryRow(t.Context(),
		`SELECT coalesce(max(highest_token), 0) FROM rail_high_water WHERE account_id = $1`, account).Scan(&mark))
	return mark
}
