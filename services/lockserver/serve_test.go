package lockserver

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
	"railguard/services/httpserver"
	"railguard/services/lockapi"
	"railguard/services/lockserver/internal/lockdbtest"
	"railguard/services/telemetry"
)

// wait sends an acquire that waits, and returns when it stands in line as the place-th.
func (r *running) wait(ownerID string, place int) <-chan reply {
	r.t.Helper()
	got := make(chan reply, 1)
	go func() { got <- r.do(call{"POST", "/v1/locks/k/acquire", `{"waitMillis":30000}`, owner(ownerID)}) }()
	eventually(r.t, func() bool { return r.queue.Waiting() == place }, ownerID+" stands in line")
	return got
}

func (r *running) release(g lockapi.Grant) {
	r.t.Helper()
	require.Equal(r.t, http.StatusNoContent, r.do(call{"DELETE", "/v1/locks/" + g.Key, "", withToken(g.FencingToken)}).status)
}

func TestWaitersAreServedInOrderUpToTheCap(t *testing.T) {
	t.Parallel()
	s := boot(t, func(c *Config) { c.MaxWaiters = 2 })
	holder := s.acquire("k", "holder", "{}")
	first, second := s.wait("first", 1), s.wait("second", 2)
	require.EqualValues(t, 2, s.metric("lock_waiters_current", nil).GetGauge().GetValue())

	p := s.do(call{"POST", "/v1/locks/k/acquire", `{"waitMillis":30000}`, owner("third")})
	e := p.refused(t, apierr.ContentionExceeded, "over the cap")
	require.Positive(t, e.RetryAfterMillis)
	require.Equal(t, "1", p.header.Get("Retry-After"))
	s.acquire("another", "third", `{"waitMillis":30000}`)

	s.release(holder)
	g := into[lockapi.Grant](t, <-first, http.StatusOK)
	require.Equal(t, "first", g.OwnerID)
	require.Empty(t, second)
	s.release(g)
	next := into[lockapi.Grant](t, <-second, http.StatusOK)
	require.Greater(t, next.FencingToken, g.FencingToken)
}

// hangUp sends an acquire on a connection of its own and returns what closes it.
func (r *running) hangUp(body string) net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.Addr())
	require.NoError(r.t, err)
	_, err = fmt.Fprintf(conn, "POST /v1/locks/k/acquire HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nX-Owner-Id: gone\r\nContent-Length: %d\r\n\r\n%s",
		bearerOf(httpserver.Executor), len(body), body)
	require.NoError(r.t, err)
	return conn
}

func TestAWaiterThatHangsUpIsDropped(t *testing.T) {
	t.Parallel()
	s := boot(t)
	holder := s.acquire("k", "holder", "{}")
	conn := s.hangUp(`{"waitMillis":30000}`)
	eventually(t, func() bool { return s.queue.Waiting() == 1 }, "it waits")
	next := s.wait("next", 2)
	require.NoError(t, conn.Close())
	eventually(t, func() bool { return s.queue.Waiting() == 1 }, "it is dropped")
	s.release(holder)
	require.Equal(t, "next", into[lockapi.Grant](t, <-next, http.StatusOK).OwnerID)
}

func TestAGrantWhoseCallerHungUpIsTakenBack(t *testing.T) {
	t.Parallel()
	s := boot(t)
	s.release(s.acquire("k", "before", "{}"))
	outcomes := func(outcome string) uint64 {
		return s.metric("lock_acquire_seconds", map[string]string{"outcome": outcome}).GetHistogram().GetSampleCount()
	}
	// Whether the server notices before it has the grant is not for the test to say, so it may take a few tries.
	for range 50 {
		granted, dropped := outcomes("granted"), outcomes("contended")
		tx, err := s.db.Conn.Begin(context.Background()) // keeps the row, so that the caller is gone before the grant is made
		require.NoError(t, err)
		_, err = tx.Exec(context.Background(), "SELECT FROM lock_entry FOR UPDATE")
		require.NoError(t, err)
		conn := s.hangUp(`{"waitMillis":0}`)
		eventually(t, func() bool {
			var n int
			return tx.QueryRow(context.Background(), `SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
				WHERE a.datname = current_database() AND NOT l.granted`).Scan(&n) == nil && n > 0
		}, "the acquire waits for the row")
		require.NoError(t, conn.Close())
		require.NoError(t, tx.Commit(context.Background()))
		eventually(t, func() bool { return outcomes("granted")+outcomes("contended") > granted+dropped }, "the acquire ended")
		if outcomes("contended") > dropped {
			released := s.events.of("lock_released")
			undone := released[len(released)-1]
			require.Equal(t, "gone", undone["ownerId"])
			require.False(t, s.get("k").Held)
			require.Greater(t, float64(s.acquire("k", "next", "{}").FencingToken), undone["token"])
			return
		}
		s.sql("UPDATE lock_entry SET owner_id = NULL")
	}
	require.FailNow(t, "no grant was taken back")
}

func TestAnOutageIsNotLeaderAndReadyAgainAfterIt(t *testing.T) {
	t.Parallel()
	s := boot(t)
	g := s.acquire("k", "run-1", "{}")
	s.setDatabase(false)
	for _, route := range routes {
		header := as(route.roles[0])
		header["X-Fencing-Token"] = g.FencingToken.String()
		s.do(call{route.method, strings.Replace(route.path, "locks/roles", "locks/k", 1), route.body, header}).
			refused(t, apierr.NotLeader, route.method+" "+route.path)
	}
	require.Equal(t, http.StatusServiceUnavailable, s.do(call{method: "GET", path: "/readyz"}).status)
	require.Equal(t, http.StatusOK, s.do(call{method: "GET", path: "/livez"}).status)
	s.setDatabase(true)
	eventually(t, func() bool { return s.do(call{method: "GET", path: "/readyz"}).status == http.StatusOK }, "ready")
	require.Equal(t, g.FencingToken, s.acquire("k", "run-1", "{}").FencingToken)
	require.EqualValues(t, 1, s.metric("lock_acquire_seconds", map[string]string{"outcome": "error"}).GetHistogram().GetSampleCount())
}

// setDatabase lets nobody into the database, and throws out who is in it, or lets everybody in again.
func (r *running) setDatabase(open bool) {
	r.t.Helper()
	conn := lockdbtest.Connect(r.t, databases.URL("postgres"))
	_, err := conn.Exec(context.Background(), fmt.Sprintf("ALTER DATABASE %s ALLOW_CONNECTIONS %t", r.db.Name, open))
	require.NoError(r.t, err)
	if !open {
		_, err = conn.Exec(context.Background(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND usename = 'lockapp'", r.db.Name)
		require.NoError(r.t, err)
	}
}

func TestItStartsWithoutADatabase(t *testing.T) {
	t.Parallel()
	s := boot(t, func(c *Config) { c.LockDBURL = "postgres://lockapp:secret-word@127.0.0.1:1/lockdb?sslmode=disable" })
	p := s.do(call{method: "GET", path: "/readyz"})
	require.Equal(t, http.StatusServiceUnavailable, p.status)
	require.Contains(t, string(p.body), "lockdb")
	s.do(call{"POST", "/v1/locks/k/acquire", "{}", nil}).refused(t, apierr.NotLeader, "no database")
	require.NotContains(t, fmt.Sprint(s.events.all()), "secret-word")
}

func TestLapsedLeasesAreSweptCountedAndLogged(t *testing.T) {
	t.Parallel()
	s := boot(t)
	g := s.acquire("k", "run-1", `{"ttlMillis":100}`)
	eventually(t, func() bool { return len(s.events.of("lease_expired")) == 1 }, "swept")
	event := s.events.of("lease_expired")[0]
	require.Equal(t, []any{"k", float64(g.FencingToken), "run-1"}, []any{event["lockKey"], event["token"], event["ownerId"]})
	eventually(t, func() bool { return s.metric("lock_lease_expired_total", nil).GetCounter().GetValue() == 1 }, "counted")

	taken := s.acquire("k2", "run-1", "{}")
	s.sql("UPDATE lock_entry SET expires_at = clock_timestamp() WHERE lock_key = 'k2'")
	s.acquire("k2", "run-2", "{}")
	eventually(t, func() bool { return len(s.events.of("lease_expired")) == 2 }, "by the sweep or by the take-over, once")
	require.EqualValues(t, taken.FencingToken, s.events.of("lease_expired")[1]["token"])
	eventually(t, func() bool { return s.metric("lock_held_current", nil).GetGauge().GetValue() == 1 }, "one is held")
}

func TestEventsTellTheLifeOfAGrant(t *testing.T) {
	t.Parallel()
	s := boot(t)
	g := s.acquire("k", "run-1", `{"ttlMillis":5000}`)
	granted := s.events.of("lock_granted")
	require.Len(t, granted, 1)
	require.Equal(t, []any{"k", float64(g.FencingToken), "run-1", 5000.0}, []any{granted[0]["lockKey"], granted[0]["token"], granted[0]["ownerId"], granted[0]["leaseMillis"]})
	s.release(g)
	released := s.events.of("lock_released")
	require.Len(t, released, 1)
	require.Equal(t, []any{"k", float64(g.FencingToken), "run-1"}, []any{released[0]["lockKey"], released[0]["token"], released[0]["ownerId"]})
	require.GreaterOrEqual(t, released[0]["heldMillis"], 0.0)

	again := s.acquire("k", "run-2", "{}")
	s.do(call{"POST", "/v1/locks/k/revoke", `{"operator":"ann","reason":"the worker hangs"}`, as(httpserver.Operator)})
	revoked := s.events.of("lock_revoked")
	require.Len(t, revoked, 1)
	require.Equal(t, []any{"k", float64(again.FencingToken), "run-2"}, []any{revoked[0]["lockKey"], revoked[0]["token"], revoked[0]["ownerId"]})
	for _, line := range s.events.all() {
		require.Equal(t, "lock-server", line["service"])
	}
	require.NotContains(t, fmt.Sprint(s.events.all()), "Bearer")
}

func TestEverySeriesExistsFromTheFirstScrape(t *testing.T) {
	t.Parallel()
	s := boot(t)
	backend := map[string]string{"backend": "pg"}
	for _, outcome := range []string{"granted", "contended", "error"} {
		require.Zero(t, s.metric("lock_acquire_seconds", map[string]string{"backend": "pg", "outcome": outcome}).GetHistogram().GetSampleCount())
	}
	for _, name := range []string{"lock_lease_expired_total", "lock_revoked_total"} {
		require.Zero(t, s.metric(name, backend).GetCounter().GetValue())
	}
	for _, name := range []string{"lock_held_current", "lock_waiters_current"} {
		require.Zero(t, s.metric(name, backend).GetGauge().GetValue())
	}
	require.NotNil(t, s.metric("pgx_pool_max_conns", nil))
}

func TestMetricsNameNoKeyOwnerOrToken(t *testing.T) {
	t.Parallel()
	s := boot(t)
	g := s.acquire("payout:secret-key", "secret-owner", "{}")
	s.do(call{"POST", "/v1/locks/payout:secret-key/acquire", "{}", owner("other-owner")}).refused(t, apierr.LockContended, "")
	s.do(call{"POST", "/v1/locks/payout:secret-key/revoke", `{"operator":"secret-operator","reason":"the worker hangs"}`, as(httpserver.Operator)})
	s.do(call{method: "GET", path: "/v1/secret-path"})
	require.EqualValues(t, 1, s.metric("lock_acquire_seconds", map[string]string{"outcome": "granted"}).GetHistogram().GetSampleCount())
	require.EqualValues(t, 1, s.metric("lock_acquire_seconds", map[string]string{"outcome": "contended"}).GetHistogram().GetSampleCount())
	require.EqualValues(t, 1, s.metric("lock_revoked_total", nil).GetCounter().GetValue())
	scrape := string(s.do(call{method: "GET", path: "/metrics"}).body)
	require.NotContains(t, scrape, "secret")
	require.NotContains(t, scrape, "other-owner")
	token := fmt.Sprintf(`"%d"`, g.FencingToken)
	for lines := bufio.NewScanner(strings.NewReader(scrape)); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "lock_") && !strings.Contains(lines.Text(), "_bucket") {
			require.NotContains(t, lines.Text(), token)
		}
	}
}

// metric finds the series of a name with these labels.
func (r *running) metric(name string, labels map[string]string) *dto.Metric {
	r.t.Helper()
	families, err := r.http.Registry.Gather()
	require.NoError(r.t, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			found := 0
			for _, pair := range m.GetLabel() {
				if labels[pair.GetName()] == pair.GetValue() {
					found++
				}
			}
			if found == len(labels) {
				return m
			}
		}
	}
	require.Failf(r.t, "no such series", "%s %v", name, labels)
	return nil
}

func TestStoppingSendsWaitersAwayAndEnds(t *testing.T) {
	t.Parallel()
	s := boot(t)
	g := s.acquire("k", "holder", "{}")
	waiting := s.wait("w", 1)
	require.NoError(t, s.stop())
	(<-waiting).refused(t, apierr.NotLeader, "the server ended")

	after := bootOn(t, s.db) // nothing lives in the process
	renewed := into[lockapi.Grant](t, after.do(call{"POST", "/v1/locks/k/renew", "", withToken(g.FencingToken)}), http.StatusOK)
	require.Equal(t, g.FencingToken, renewed.FencingToken)
	after.release(renewed)
	require.Greater(t, after.acquire("k", "next", "{}").FencingToken, g.FencingToken)
}

func TestTwoServersShareTheLocks(t *testing.T) {
	t.Parallel()
	one := boot(t)
	two := bootOn(t, one.db)
	g := one.acquire("k", "run-1", "{}")
	two.do(call{"POST", "/v1/locks/k/acquire", "{}", owner("run-2")}).refused(t, apierr.LockContended, "held through the other server")
	require.Equal(t, g.FencingToken, two.acquire("k", "run-1", "{}").FencingToken)
	waiting := two.wait("run-2", 1)
	one.release(g)
	require.Greater(t, into[lockapi.Grant](t, <-waiting, http.StatusOK).FencingToken, g.FencingToken)
}

func TestConfigurationErrorsNameTheVariable(t *testing.T) {
	for _, row := range []struct{ name, value string }{
		{"LOCK_BACKEND", "redis"}, {"LOCK_DEFAULT_TTL", "0s"}, {"LOCK_DEFAULT_TTL", "11m"}, {"LOCK_DEFAULT_TTL", "soon"},
		{"LOCK_MAX_WAITERS", "0"}, {"LOCK_MAX_WAITERS", "-1"}, {"LOCK_DB_POOL", "0"}, {"LOCK_DB_POOL", "many"}, {"LOCKDB_URL", ""},
		{"LOCK_MAX_WAITER", "3"},
	} {
		t.Run(row.name+"="+row.value, func(t *testing.T) {
			t.Setenv("LOCKDB_URL", "postgres://lockapp@127.0.0.1:1/lockdb")
			t.Setenv(row.name, row.value)
			_, err := LoadConfig()
			require.ErrorContains(t, err, row.name)
		})
	}
	t.Setenv("LOCKDB_URL", "postgres://lockapp@127.0.0.1:1/lockdb")
	cfg, err := LoadConfig()
	require.NoError(t, err)
	require.Equal(t, Config{Backend: "pg", LockDBURL: "postgres://lockapp@127.0.0.1:1/lockdb", ListenAddr: "127.0.0.1:8081",
		DefaultTTL: 30 * time.Second, MaxWaiters: 64, DBPool: 16}, cfg)

	cfg.ListenAddr = "0.0.0.0:0"
	require.ErrorIs(t, Run(t.Context(), cfg, telemetry.NewLogger(&eventLog{}, "lock-server")), httpserver.ErrOpenToAll)
	cfg.ListenAddr, cfg.LockDBURL = "127.0.0.1:0", "postgres://a b:secret-word@:x/"
	err = Run(t.Context(), cfg, telemetry.NewLogger(&eventLog{}, "lock-server"))
	require.ErrorContains(t, err, "LOCKDB_URL")
	require.NotContains(t, err.Error(), "secret-word")
}
