package pgserver_test

import (
	"context"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"railguard/deploy/local/pgserver"
)

func TestServerKeepsItsDataOverKillAndRestart(t *testing.T) {
	ctx := context.Background()
	s, err := pgserver.Start(ctx, pgserver.Options{Volatile: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	require.NoError(t, s.CreateDatabase(ctx, "one", ""))

	conn, err := pgx.Connect(ctx, s.URL("one"))
	require.NoError(t, err)
	_, err = conn.Exec(ctx, "CREATE TABLE t AS SELECT 7 AS n")
	require.NoError(t, err)
	require.NoError(t, s.Signal(syscall.SIGKILL))
	require.NoError(t, s.Restart(ctx))

	conn, err = pgx.Connect(ctx, s.URL("one"))
	require.NoError(t, err)
	var n int
	require.NoError(t, conn.QueryRow(ctx, "SELECT n FROM t").Scan(&n))
	require.Equal(t, 7, n)
	require.NoError(t, conn.Close(ctx))
}

func TestStartNamesWhatIsWrong(t *testing.T) {
	t.Setenv("PG_BIN", t.TempDir())
	_, err := pgserver.Start(context.Background(), pgserver.Options{})
	require.ErrorContains(t, err, "PG_BIN")
}
