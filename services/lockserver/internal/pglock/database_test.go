package pglock_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"railguard/services/lockserver/internal/lock"
	"railguard/services/lockserver/internal/lockdbtest"
	"railguard/services/lockserver/internal/pglock"
	"railguard/services/postgres"
)

func TestRolesAreRefusedWhatTheyShouldNotDo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.acquire(t, of("a"))
	_, err := f.Revoke(t.Context(), lock.Revoke{Key: "k", Operator: "op", Reason: "for the record"})
	require.NoError(t, err)
	lockapp := lockdbtest.Connect(t, f.db.URL)
	for _, sql := range []string{
		"DELETE FROM lock_entry", // a row that comes back could get an old token
		"TRUNCATE lock_entry",
		"UPDATE lock_revocation SET reason = 'another'",
		"DELETE FROM lock_revocation",
		"SELECT setval('fencing_token_seq', 1)",
		"ALTER SEQUENCE fencing_token_seq RESTART",
		"DROP TABLE lock_entry",
		"CREATE TABLE mine (n int)",
		"SELECT * FROM lock_schema_version",
	} {
		_, err := lockapp.Exec(t.Context(), sql)
		code, _ := postgres.SQLState(err)
		require.Equal(t, "42501", code, sql)
	}

	f.clock.exec(`DO $$ BEGIN CREATE ROLE lockdb_stranger LOGIN PASSWORD 'stranger'; EXCEPTION WHEN duplicate_object THEN NULL; END $$`)
	stranger := lockdbtest.Connect(t, databases.RoleURL(f.db.Name, "lockdb_stranger", "stranger"))
	for _, sql := range []string{"SELECT * FROM public.lock_entry", "SELECT * FROM public.lock_session", "SELECT nextval('public.fencing_token_seq')",
		"SELECT public.lock_advance_tokens(1)", "SELECT public.lock_session_lives(NULL)"} {
		_, err := stranger.Exec(t.Context(), sql)
		code, _ := postgres.SQLState(err)
		require.Equal(t, "42501", code, sql)
	}
}

func TestTheTablesRefuseWhatCannotBe(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	g := f.acquire(t, of("a"))
	for _, sql := range []string{
		"UPDATE lock_entry SET fencing_token = 0",
		"UPDATE lock_entry SET owner_id = NULL, session_id = gen_random_uuid()",
		"INSERT INTO lock_entry SELECT * FROM lock_entry",
		fmt.Sprintf("INSERT INTO lock_revocation VALUES (gen_random_uuid(), 'k', 'a', %d, %d, 'op', 'reason', now())", g.Token, g.Token),
		"SELECT setval('fencing_token_seq', 0)",
	} {
		_, err := f.db.Conn.Exec(t.Context(), sql)
		require.Error(t, err, sql)
	}
	_, err := f.db.Conn.Exec(t.Context(), "SELECT setval('fencing_token_seq', 9223372036854775807)")
	require.NoError(t, err)
	_, err = f.Acquire(t.Context(), lock.Request{Key: "another", OwnerID: "a", TTL: ttl})
	code, _ := postgres.SQLState(err)
	require.Equal(t, "2200H", code, "a source that is used up grants nothing; it does not start again")
	require.NotErrorIs(t, err, lock.ErrUnavailable)
}

func TestMigratingAgainChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	g := f.acquire(t, of("a"))
	require.NoError(t, pglock.Migrate(t.Context(), databases.URL(f.db.Name)))
	require.Equal(t, g.Token, f.acquire(t, of("a")).Token)
}

func TestAReadOnlyDatabaseIsUnavailable(t *testing.T) {
	t.Parallel()
	db := databases.New(t)
	_, err := db.Conn.Exec(t.Context(), "ALTER DATABASE "+db.Name+" SET default_transaction_read_only = on")
	require.NoError(t, err)
	s := open(t, db.URL, 2)
	_, err = s.Acquire(t.Context(), of("a"))
	require.ErrorIs(t, err, lock.ErrUnavailable)
	_, err = s.Renew(t.Context(), "k", 1, ttl)
	require.ErrorIs(t, err, lock.ErrUnavailable)
	require.ErrorContains(t, s.Ready(t.Context()), "read-only")
}

func TestADatabaseThatIsNotMigratedIsUnavailable(t *testing.T) {
	t.Parallel()
	require.NoError(t, databases.CreateDatabase(t.Context(), "lockdb_empty", ""))
	s := open(t, databases.RoleURL("lockdb_empty", "lockapp", lockdbtest.Password), 2)
	_, err := s.Acquire(t.Context(), of("a"))
	require.ErrorIs(t, err, lock.ErrUnavailable)
	require.ErrorContains(t, s.Ready(t.Context()), "not migrated")
}

func TestAdvanceKeepsMintersOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.acquire(t, of("a"))
	minter := lockdbtest.Connect(t, databases.URL(f.db.Name))
	_, err := minter.Exec(t.Context(), "BEGIN; UPDATE lock_entry SET fencing_token = nextval('fencing_token_seq') WHERE lock_key = 'k'")
	require.NoError(t, err)
	var advancing errgroup.Group
	var floor int64
	advancing.Go(func() error {
		got, err := f.Advance(context.Background(), 1)
		floor = int64(got)
		return err
	})
	f.awaitBlocked(t) // setval would race with the minting transaction
	before := f.lastIssued(t)
	require.Less(t, before, int64(lock.AdvanceMargin))
	_, err = minter.Exec(t.Context(), "COMMIT")
	require.NoError(t, err)
	require.NoError(t, advancing.Wait())
	require.EqualValues(t, 1+lock.AdvanceMargin, floor)
	require.Equal(t, floor, f.lastIssued(t))
}

func TestAPoolOfTwoServesAnyNumberOfWaiters(t *testing.T) {
	t.Parallel()
	db := databases.New(t)
	s := open(t, db.URL, 2)
	q := lock.NewQueue(s, 64)
	ctx, cancel := context.WithCancel(context.Background())
	var watching errgroup.Group
	watching.Go(func() error { s.Watch(ctx, q.Freed); return nil })
	t.Cleanup(func() {
		cancel()
		require.NoError(t, watching.Wait())
	})
	const keys, owners = 3, 20
	var served atomic.Int64
	var waiting errgroup.Group
	for k := range keys {
		for o := range owners {
			waiting.Go(func() error {
				r := lock.Request{Key: fmt.Sprint("k", k), OwnerID: fmt.Sprint("o", o), TTL: ttl}
				g, err := q.Acquire(t.Context(), r, time.Minute)
				if err != nil {
					return err
				}
				served.Add(1)
				_, err = s.Release(t.Context(), r.Key, g.Token)
				return err
			})
		}
	}
	require.NoError(t, waiting.Wait())
	require.EqualValues(t, keys*owners, served.Load())
}

// listen runs a store's Watch and passes its news on.
func listen(t *testing.T, s *pglock.Store) <-chan string {
	news := make(chan string, 100)
	ctx, cancel := context.WithCancel(context.Background())
	var watching errgroup.Group
	watching.Go(func() error { s.Watch(ctx, func(key string) { news <- key }); return nil })
	t.Cleanup(func() {
		cancel()
		require.NoError(t, watching.Wait())
	})
	return news
}

// listeners are the connections that hear: idle after LISTEN, because one that is still executing it misses what is sent meanwhile.
func (f fixture) listeners(t *testing.T) (pids []int32) {
	t.Helper()
	rows, err := f.db.Conn.Query(context.Background(),
		"SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'")
	require.NoError(t, err)
	for rows.Next() {
		var pid int32
		require.NoError(t, rows.Scan(&pid))
		pids = append(pids, pid)
	}
	require.NoError(t, rows.Err())
	return pids
}

func TestNewsOfFreedKeysReachesTheOtherServers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := open(t, f.db.URL, 2)
	here, there := listen(t, f.Store), listen(t, other)
	two := func() bool { return len(f.listeners(t)) == 2 }
	require.Eventually(t, two, 20*time.Second, 5*time.Millisecond)
	free := func(key string) {
		g := f.acquire(t, lock.Request{Key: key, OwnerID: "a", TTL: ttl})
		_, err := f.Release(t.Context(), key, g.Token)
		require.NoError(t, err)
	}
	for _, key := range []string{"k1", "k2"} {
		free(key)
		require.Equal(t, key, <-here)
		require.Equal(t, key, <-there)
	}
	require.Empty(t, here, "a server does not hear itself twice")

	old := f.listeners(t)
	for _, pid := range old {
		f.clock.exec("SELECT pg_terminate_backend($1)", pid)
	}
	require.Eventually(t, func() bool {
		now := f.listeners(t)
		return len(now) == 2 && !contains(now, old)
	}, 20*time.Second, 5*time.Millisecond, "a listener that lost its connection comes back")
	free("k3")
	require.Equal(t, "k3", <-there)
}

func contains(all, any []int32) bool {
	for _, a := range all {
		for _, b := range any {
			if a == b {
				return true
			}
		}
	}
	return false
}

func TestSweepingDoesNotReadTheKeysThatWereEverLocked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.clock.exec(`INSERT INTO lock_entry (lock_key, fencing_token, ttl, acquired_at, expires_at)
		SELECT 'payout:' || n, n, '1 minute', now(), now() FROM generate_series(1, 20000) n; ANALYZE lock_entry`)
	for _, sql := range []string{pglock.HeldSQL, strings.ReplaceAll(pglock.SweepSQL, "$1", "500"),
		strings.ReplaceAll(pglock.FreeSessionSQL, "$1", "gen_random_uuid()")} {
		rows, err := f.db.Conn.Query(t.Context(), "EXPLAIN "+sql)
		require.NoError(t, err)
		var plan strings.Builder
		for rows.Next() {
			var line string
			require.NoError(t, rows.Scan(&line))
			plan.WriteString(line + "\n")
		}
		require.NoError(t, rows.Err())
		require.NotContains(t, plan.String(), "Seq Scan on lock_entry", "%s", sql)
	}
}
