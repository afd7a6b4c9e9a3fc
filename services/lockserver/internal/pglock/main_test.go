package pglock_test

import (
	"context"
	"io"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"railguard/services/lockserver/internal/lock/locktest"
	"railguard/services/lockserver/internal/lockdbtest"
	"railguard/services/lockserver/internal/pglock"
	"railguard/services/postgres"
	"railguard/services/telemetry"
)

var databases *lockdbtest.Server

func TestMain(m *testing.M) {
	os.Exit(lockdbtest.Main(m, func(s *lockdbtest.Server) { databases = s }))
}

func TestStore(t *testing.T) { locktest.Run(t, harness) }

// harness is a fresh lockdb whose clock can be moved, and a wire to it that can be cut. Each server has a pool of two.
func harness(t *testing.T) locktest.Harness {
	db := databases.New(t)
	clock := newClock(t, db)
	wire := newWire(t, clock.url(db.URL))
	return locktest.Harness{
		Store:       open(t, wire.url, 2),
		Other:       open(t, clock.url(db.URL), 2),
		TTL:         time.Minute,
		Pass:        clock.pass,
		LoseAnswers: wire.loseAnswers,
		Cut:         wire.cut,
		Mend:        wire.mend,
	}
}

func open(t testing.TB, url string, conns int32) *pglock.Store {
	return pglock.New(openPool(t, url, conns), telemetry.NewLogger(io.Discard, "lock-server"))
}

func openPool(t testing.TB, url string, conns int32) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(context.Background(), url, conns)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// clock stands in for PostgreSQL's clock_timestamp() in one database: sessions whose search_path names its schema before pg_catalog
// see the real time, moved on by what the test lets pass, or a frozen time.
type clock struct {
	t    testing.TB
	conn *pgx.Conn
}

func newClock(t testing.TB, db lockdbtest.Database) *clock {
	c := &clock{t: t, conn: db.Conn}
	c.exec(`CREATE SCHEMA test_clock;
		CREATE TABLE test_clock.state (passed interval NOT NULL, frozen timestamptz);
		INSERT INTO test_clock.state VALUES ('0', NULL);
		CREATE FUNCTION test_clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
			$$ SELECT COALESCE(frozen, pg_catalog.clock_timestamp()) + passed FROM test_clock.state $$;
		GRANT USAGE ON SCHEMA test_clock TO lockapp;
		GRANT SELECT ON test_clock.state TO lockapp`)
	return c
}

func (c *clock) exec(sql string, args ...any) {
	c.t.Helper()
	_, err := c.conn.Exec(context.Background(), sql, args...)
	require.NoError(c.t, err)
}

// url is db's URL for sessions that see this clock.
func (c *clock) url(db string) string {
	u, err := url.Parse(db)
	require.NoError(c.t, err)
	q := u.Query()
	q.Set("search_path", "test_clock,pg_catalog,public")
	u.RawQuery = q.Encode()
	return u.String()
}

func (c *clock) pass(d time.Duration) {
	c.t.Helper()
	c.exec(`UPDATE test_clock.state SET passed = passed + $1`, d)
}

// freeze stops the clock where it is.
func (c *clock) freeze() {
	c.t.Helper()
	c.exec(`UPDATE test_clock.state SET frozen = pg_catalog.clock_timestamp()`)
}
