package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"railguard/deploy/local/pgserver"
	"railguard/deploy/local/profile"
	"railguard/deploy/migrate"
	"railguard/harness/invariants"
)

func TestCheckOfARunningSystem(t *testing.T) {
	t.Parallel()
	s := theSystem(t)
	id := s.payout(s.account("EUR", "10.00"), "1.00")
	s.must("payout", "run", id)
	require.Contains(t, s.must("check"), "INV-02 rail-asked-once")
	var with, without invariants.Report
	s.read(&with, "check")
	require.Positive(t, with.Looked())
	s.read(&without, "check", "--without-rail-log")
	require.Less(t, len(without.Checks), len(with.Checks))
}

// server is a PostgreSQL server of its own: roles and their passwords belong to a whole server.
func server(t *testing.T) *pgserver.Server {
	t.Helper()
	s, err := pgserver.Start(context.Background(), pgserver.Options{Volatile: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	for _, name := range []string{"lockdb", "paydb"} {
		require.NoError(t, s.CreateDatabase(context.Background(), name, ""))
	}
	return s
}

func execSQL(t *testing.T, url, sql string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, sql)
	require.NoError(t, err)
	require.NoError(t, conn.Close(ctx))
}

func TestCheckShowsTheOffendingRowsAndSaysSoInItsExitCode(t *testing.T) {
	t.Parallel()
	theSystem(t)
	database := "corrupted_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	pg := running.stack.PayDB()
	require.NoError(t, pg.CreateDatabase(t.Context(), database, ""))
	_, err := migrate.Run(t.Context(), migrate.Options{LockdbURL: running.stack.LockdbURL(), PaydbURL: pg.URL(database)})
	require.NoError(t, err)
	path := saveProfile(t, &profile.Profile{PaydbURL: pg.URL(database)})

	got := run(t, "check", "--profile", path)
	require.Equal(t, ExitOK, got.code, got.err)
	require.Contains(t, got.err, "no evidence")

	execSQL(t, pg.URL(database), `INSERT INTO account (account_id, kind, currency, balance_minor) VALUES ('out-of-thin-air', 'CUSTOMER', 'EUR', 500)`)
	got = run(t, "check", "--profile", path)
	require.Equal(t, ExitViolated, got.code, got.err)
	require.Contains(t, got.out, "INV-03 balance-is-entries: ")
	require.Contains(t, got.out, "account_id=out-of-thin-air")
	require.Contains(t, got.err, "1 of ")
	got = run(t, "check", "--profile", path, "--output", "json")
	require.Equal(t, ExitViolated, got.code)
	var report invariants.Report
	require.NoError(t, json.Unmarshal([]byte(got.out), &report))
	require.Equal(t, "INV-03", report.Findings[0].Invariant)
	require.Equal(t, "out-of-thin-air", report.Findings[0].Rows[0]["account_id"])

	gone := saveProfile(t, &profile.Profile{PaydbURL: "postgres://reconciler:secret@127.0.0.1:1/paydb"})
	got = run(t, "check", "--profile", gone)
	require.Equal(t, ExitUnreachable, got.code, got.err)
	require.NotContains(t, got.err, "secret")
	gone = saveProfile(t, &profile.Profile{PaydbURL: path, RailStub: closedURL})
	require.Equal(t, ExitUnreachable, run(t, "check", "--profile", gone).code)
	require.Equal(t, ExitBadInput, run(t, "check", "--profile", gone, "--without-rail-log").code)
}

// Not parallel: what migrate is told stands in the environment.
func TestMigrateSaysWhatItDidAndDoesItOnce(t *testing.T) {
	pg := server(t)
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("it's \"quoted\" \\ here\n"), 0o600))
	t.Setenv("LOCKDB_URL", pg.URL("lockdb"))
	t.Setenv("PAYDB_URL", pg.URL("paydb"))
	t.Setenv("PAYAPP_PASSWORD_FILE", file)
	t.Setenv("RECONCILER_PASSWORD", "only-reads")

	got := run(t, "migrate")
	require.Equal(t, ExitOK, got.code, got.err)
	require.Contains(t, got.out, "migrated from version 0")
	require.NotContains(t, got.out, "quoted")
	got = run(t, "migrate", "--output", "json")
	require.Equal(t, ExitOK, got.code, got.err)
	var steps []migrate.Step
	require.NoError(t, json.Unmarshal([]byte(got.out), &steps))
	results := map[string]string{}
	for _, s := range steps {
		results[s.What] = strings.Fields(s.Result)[0]
	}
	require.Equal(t, map[string]string{"tables of lock": "in", "tables of payment": "in", "tables of railproxy": "in",
		"password of lockapp": "left", "password of payapp": "set", "password of railapp": "left", "password of reconciler": "set"}, results)

	execSQL(t, pg.RoleURL("paydb", "payapp", "it's \"quoted\" \\ here"), "SELECT count(*) FROM payout")
	execSQL(t, pg.RoleURL("paydb", "reconciler", "only-reads"), "SELECT count(*) FROM rail_submission")

	t.Setenv("PAYAPP_PASSWORD", "given twice")
	got = run(t, "migrate")
	require.Equal(t, ExitBadInput, got.code)
	require.Contains(t, got.err, "PAYAPP_PASSWORD")
	t.Setenv("PAYAPP_PASSWORD", "")
	t.Setenv("RECONCILER_PASSWORD", "naïve")
	got = run(t, "migrate")
	require.Equal(t, ExitBadInput, got.code)
	require.Contains(t, got.err, "password of reconciler: not usable: it holds a character")
	t.Setenv("RECONCILER_PASSWORD", "")
	t.Setenv("RECONCILER_PASWORD", "a typing error")
	got = run(t, "migrate")
	require.Equal(t, ExitBadInput, got.code)
	require.Contains(t, got.err, "RECONCILER_PASWORD")
	require.NoError(t, os.Unsetenv("RECONCILER_PASWORD"))
	t.Setenv("PAYDB_URL", "postgres://owner:hidden@nonsense:port/paydb")
	got = run(t, "migrate")
	require.Equal(t, ExitBadInput, got.code, got.err)
	require.NotContains(t, got.err, "hidden")
	t.Setenv("PAYDB_URL", "postgres://owner:hidden@127.0.0.1:1/paydb")
	got = run(t, "migrate")
	require.Equal(t, ExitUnreachable, got.code, got.err)
	require.Contains(t, got.err, "paydb")
	require.NotContains(t, got.err, "hidden")
	require.Contains(t, got.out, "tables of lock", "what was done before is told")
}
