package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"railguard/deploy/local/pgserver"
	"railguard/services/postgres"
)

var server *pgserver.Server

func TestMain(m *testing.M) {
	var err error
	server, err = pgserver.Start(context.Background(), pgserver.Options{Volatile: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func database(t *testing.T) string {
	name := strings.ToLower(t.Name())
	require.NoError(t, server.CreateDatabase(t.Context(), name, ""))
	return server.URL(name)
}

func migration(statement string) fstest.MapFS {
	return fstest.MapFS{"migrations/001_first.sql": {Data: []byte("-- +goose Up\n" + statement + ";\n")}}
}

// Two owners in one database keep their versions apart: sharing a table, the second would be skipped.
func TestEveryOwnerHasItsOwnVersions(t *testing.T) {
	t.Parallel()
	url := database(t)
	for range 2 { // the second time there is nothing to do
		require.NoError(t, postgres.Migrate(t.Context(), url, migration("CREATE TABLE a (n int)"), "owner_a"))
		require.NoError(t, postgres.Migrate(t.Context(), url, migration("CREATE TABLE b (n int)"), "owner_b"))
	}
	pool, err := postgres.Open(t.Context(), url, 2)
	require.NoError(t, err)
	defer pool.Close()
	_, err = pool.Exec(t.Context(), "INSERT INTO a SELECT n FROM b")
	require.NoError(t, err)
	require.ErrorContains(t, postgres.Migrate(t.Context(), url, migration("NONSENSE"), "owner_c"), "owner_c")
}

func TestInTxCommitsWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	url := database(t)
	pool, err := postgres.Open(t.Context(), url, 2)
	require.NoError(t, err)
	defer pool.Close()
	_, err = pool.Exec(t.Context(), "CREATE TABLE t (n int PRIMARY KEY)")
	require.NoError(t, err)
	insert := func(n int, then error) error {
		return postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "INSERT INTO t VALUES ($1)", n); err != nil {
				return err
			}
			return then
		})
	}
	require.NoError(t, insert(1, nil))
	refusal := errors.New("refused")
	require.ErrorIs(t, insert(2, refusal), refusal)
	code, constraint := postgres.SQLState(insert(1, nil))
	require.Equal(t, postgres.UniqueViolation, code)
	require.Equal(t, "t_pkey", constraint)
	var n int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM t").Scan(&n))
	require.Equal(t, 1, n)
}

func TestACommitWhoseConnectionDiedIsUnknown(t *testing.T) {
	t.Parallel()
	pool, err := postgres.Open(t.Context(), database(t), 2)
	require.NoError(t, err)
	defer pool.Close()
	err = postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		return tx.Conn().PgConn().Conn().Close() // the socket goes away under the transaction
	})
	require.ErrorIs(t, err, postgres.ErrCommitUnknown)
}

func TestOpenKeepsThePasswordToItself(t *testing.T) {
	t.Parallel()
	_, err := postgres.Open(t.Context(), "postgres://user:hidden-word@host:not-a-port/db", 1)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hidden-word")
}

func TestThePoolIsMeasured(t *testing.T) {
	t.Parallel()
	pool, err := postgres.Open(t.Context(), database(t), 3)
	require.NoError(t, err)
	defer pool.Close()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(postgres.NewPoolCollector(pool)))
	families, err := registry.Gather()
	require.NoError(t, err)
	bounds := make(map[string]float64)
	for _, family := range families {
		if gauge := family.GetMetric()[0].GetGauge(); gauge != nil {
			bounds[family.GetName()] = gauge.GetValue()
		}
	}
	require.Equal(t, 3.0, bounds["pgx_pool_max_conns"])
}
