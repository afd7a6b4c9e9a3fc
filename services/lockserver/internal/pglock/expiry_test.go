package pglock_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"railguard/services/lockserver/internal/lock"
	"railguard/services/lockserver/internal/lockdbtest"
	"railguard/services/lockserver/internal/pglock"
)

const (
	ttl  = time.Minute
	tick = time.Microsecond // PostgreSQL's resolution
)

// fixture is a store on a fresh lockdb whose clock stands still until it is told to pass.
type fixture struct {
	*pglock.Store
	db    lockdbtest.Database
	clock *clock
}

func newFixture(t *testing.T) fixture {
	db := databases.New(t)
	c := newClock(t, db)
	c.freeze()
	return fixture{open(t, c.url(db.URL), 4), db, c}
}

func (f fixture) acquire(t *testing.T, r lock.Request) lock.Grant {
	t.Helper()
	g, err := f.Acquire(t.Context(), r)
	require.NoError(t, err)
	return g
}

func of(owner string) lock.Request { return lock.Request{Key: "k", OwnerID: owner, TTL: ttl} }

func (f fixture) lastIssued(t *testing.T) (n int64) {
	t.Helper()
	require.NoError(t, f.db.Conn.QueryRow(t.Context(), "SELECT last_value FROM fencing_token_seq").Scan(&n))
	return n
}

func TestOneTickBeforeItsExpiryAGrantLives(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	g := f.acquire(t, of("a"))
	require.Equal(t, g.AcquiredAt.Add(ttl), g.ExpiresAt)
	require.Equal(t, ttl, g.TTL)
	f.clock.pass(ttl - tick)

	var contended *lock.ContendedError
	_, err := f.Acquire(t.Context(), of("b"))
	require.ErrorAs(t, err, &contended)
	require.Equal(t, tick, contended.Remaining)
	state, err := f.Get(t.Context(), "k")
	require.NoError(t, err)
	require.True(t, state.Held)
	swept, err := f.Sweep(t.Context())
	require.NoError(t, err)
	require.Empty(t, swept.Lapsed)
	require.Equal(t, g.Token, f.acquire(t, of("a")).Token)

	f.clock.pass(ttl - tick)
	renewed, err := f.Renew(t.Context(), "k", g.Token, ttl)
	require.NoError(t, err)
	require.Equal(t, ttl, renewed.TTL)
	f.clock.pass(ttl - tick)
	freed, err := f.Release(t.Context(), "k", g.Token)
	require.NoError(t, err)
	require.Equal(t, 3*(ttl-tick), freed.Held)
}

func TestAtItsExpiryAGrantIsOver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	g := f.acquire(t, of("a"))
	f.clock.pass(ttl)

	_, err := f.Renew(t.Context(), "k", g.Token, ttl)
	require.ErrorIs(t, err, lock.ErrLost)
	_, err = f.Release(t.Context(), "k", g.Token)
	require.ErrorIs(t, err, lock.ErrLost)
	_, err = f.Undo(t.Context(), g)
	require.ErrorIs(t, err, lock.ErrLost)
	state, err := f.Get(t.Context(), "k")
	require.NoError(t, err)
	require.False(t, state.Held)

	b := f.acquire(t, of("b"))
	require.Greater(t, b.Token, g.Token)
	require.Equal(t, &lock.Freed{Key: "k", OwnerID: "a", Token: g.Token, Held: ttl}, b.Lapsed)

	f.clock.pass(ttl)
	again := f.acquire(t, of("b"))
	require.Greater(t, again.Token, b.Token, "the same owner's lapsed grant is not resumed")
	require.Equal(t, b.Token, again.Lapsed.Token)

	f.clock.pass(ttl)
	swept, err := f.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, []lock.Freed{{Key: "k", OwnerID: "b", Token: again.Token, Held: ttl}}, swept.Lapsed)
}

func TestAtItsExpiryASessionIsOver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s, err := f.CreateSession(t.Context(), "a", ttl)
	require.NoError(t, err)
	in := of("a")
	in.SessionID, in.TTL = s.ID, time.Hour
	g := f.acquire(t, in)

	f.clock.pass(ttl - tick)
	_, err = f.Acquire(t.Context(), of("b"))
	var contended *lock.ContendedError
	require.ErrorAs(t, err, &contended)
	require.Equal(t, g.Token, f.acquire(t, in).Token)

	f.clock.pass(tick)
	_, err = f.Heartbeat(t.Context(), "a", s.ID)
	require.ErrorIs(t, err, lock.ErrSessionExpired)
	_, err = f.Acquire(t.Context(), in)
	require.ErrorIs(t, err, lock.ErrSessionExpired)
	_, err = f.Renew(t.Context(), "k", g.Token, ttl)
	require.ErrorIs(t, err, lock.ErrLost)
	b := f.acquire(t, of("b"))
	require.Greater(t, b.Token, g.Token)
	require.Equal(t, g.Token, b.Lapsed.Token)
}

func TestSessionsAreForgottenADayAfterTheyLapsed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s, err := f.CreateSession(t.Context(), "a", ttl)
	require.NoError(t, err)
	for _, step := range []struct {
		pass time.Duration
		want error
	}{{ttl + 24*time.Hour, lock.ErrSessionExpired}, {tick, lock.ErrSessionUnknown}} {
		f.clock.pass(step.pass)
		_, err = f.Sweep(t.Context())
		require.NoError(t, err)
		_, err = f.Heartbeat(t.Context(), "a", s.ID)
		require.ErrorIs(t, err, step.want)
	}
}

func TestOnlyNewGrantsUseTokens(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	g := f.acquire(t, of("a"))
	require.EqualValues(t, g.Token, f.lastIssued(t))
	for range 5 {
		_, err := f.Acquire(t.Context(), of("b"))
		require.Error(t, err)
		require.Equal(t, g.Token, f.acquire(t, of("a")).Token)
	}
	f.clock.pass(2 * ttl)
	_, err := f.Sweep(t.Context())
	require.NoError(t, err)
	_, err = f.Get(t.Context(), "k")
	require.NoError(t, err)
	require.EqualValues(t, g.Token, f.lastIssued(t), "contention, replays and sweeping mint nothing")
	require.Equal(t, g.Token+1, f.acquire(t, of("b")).Token)
}

// blocked starts do while another transaction, which begins with the statement keep, keeps the key's row; it waits until do waits
// for it, calls meanwhile, and lets go.
func (f fixture) blocked(t *testing.T, keep string, do func(), meanwhile func(rival *pgx.Conn)) {
	t.Helper()
	ctx := context.Background()
	rival := lockdbtest.Connect(t, databases.URL(f.db.Name))
	_, err := rival.Exec(ctx, "BEGIN; "+keep)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	f.awaitBlocked(t)
	meanwhile(rival)
	_, err = rival.Exec(ctx, "COMMIT")
	require.NoError(t, err)
	<-done
}

const keepRow = "SELECT FROM lock_entry WHERE lock_key = 'k' FOR UPDATE"

// awaitBlocked waits until a statement of the server's role waits for a lock.
func (f fixture) awaitBlocked(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		var n int
		err := f.db.Conn.QueryRow(context.Background(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND usename = 'lockapp' AND wait_event_type = 'Lock'`).Scan(&n)
		return err == nil && n > 0
	}, 20*time.Second, 2*time.Millisecond)
}

func TestALeaseIsJudgedOnceTheRowIsLocked(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(f fixture, g lock.Grant) error{
		"renew": func(f fixture, g lock.Grant) error {
			_, err := f.Renew(context.Background(), "k", g.Token, ttl)
			return err
		},
		"release": func(f fixture, g lock.Grant) error {
			_, err := f.Release(context.Background(), "k", g.Token)
			return err
		},
		"undo": func(f fixture, g lock.Grant) error { _, err := f.Undo(context.Background(), g); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			g := f.acquire(t, of("a"))
			var err error
			f.blocked(t, keepRow, func() { err = do(f, g) }, func(*pgx.Conn) { f.clock.pass(ttl) })
			require.ErrorIs(t, err, lock.ErrLost, "the lease lapsed while the statement waited")
		})
	}
	t.Run("acquire", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		g := f.acquire(t, of("a"))
		var again lock.Grant
		var err error
		f.blocked(t, keepRow, func() { again, err = f.Acquire(context.Background(), of("a")) }, func(*pgx.Conn) { f.clock.pass(ttl) })
		require.NoError(t, err)
		require.Greater(t, again.Token, g.Token)
		require.Equal(t, again.AcquiredAt.Add(ttl), again.ExpiresAt)
		require.Equal(t, g.AcquiredAt.Add(ttl), again.AcquiredAt, "granted when the row was locked, not when it was asked for")
	})
}

// A statement that waits for a row has perhaps minted already. While it waits, others are granted higher tokens and
// give the key back; then it must not be granted the token from before.
func TestATokenIsMintedOnceTheRowIsLocked(t *testing.T) {
	t.Parallel()
	const grantAndFree = "UPDATE lock_entry SET fencing_token = nextval('fencing_token_seq'), owner_id = NULL WHERE lock_key = 'k' RETURNING fencing_token"
	for name, keep := range map[string]string{
		"key that was granted before": keepRow,
		"first acquirers of a new key": `INSERT INTO lock_entry (lock_key, owner_id, fencing_token, ttl, acquired_at, expires_at)
			VALUES ('k', 'rival', nextval('fencing_token_seq'), '1 minute', clock_timestamp(), clock_timestamp() + interval '1 hour')`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			if keep == keepRow {
				g := f.acquire(t, of("a"))
				_, err := f.Release(t.Context(), "k", g.Token)
				require.NoError(t, err)
			}
			var g lock.Grant
			var err error
			var rivals int64
			f.blocked(t, keep, func() { g, err = f.Acquire(context.Background(), of("b")) }, func(rival *pgx.Conn) {
				require.NoError(t, rival.QueryRow(context.Background(), grantAndFree).Scan(&rivals))
			})
			require.NoError(t, err)
			require.Greater(t, int64(g.Token), rivals)
		})
	}
}

func TestATakeoverSeesTheHeartbeatThatCameWhileItWaited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s, err := f.CreateSession(t.Context(), "a", ttl)
	require.NoError(t, err)
	in := of("a")
	in.SessionID, in.TTL = s.ID, time.Hour
	g := f.acquire(t, in)
	f.blocked(t, keepRow, func() { _, err = f.Acquire(context.Background(), of("b")) }, func(*pgx.Conn) {
		f.clock.pass(ttl / 2)
		_, beat := f.Heartbeat(context.Background(), "a", s.ID)
		require.NoError(t, beat)
		f.clock.pass(ttl * 3 / 4) // past the expiry that the waiting statement's snapshot shows
	})
	var contended *lock.ContendedError
	require.ErrorAs(t, err, &contended)
	_, err = f.Renew(t.Context(), "k", g.Token, ttl)
	require.NoError(t, err)
}
