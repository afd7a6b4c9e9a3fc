package paymentresource

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
	"railguard/services/paymentapi"
	"railguard/services/telemetry"
)

// A pool that is far smaller than the concurrency makes payouts slower, never stuck.
func TestAPoolOfTwoServesManyPayouts(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *Config) { c.DatabasePool = 2 })
	const accounts, each = 16, 2
	var wg sync.WaitGroup
	for i := range accounts {
		account := fmt.Sprintf("acc-%d", i)
		f.account(account, 1000)
		wg.Go(func() {
			for token := int64(1); token <= each; token++ {
				p := f.payout(account, 10)
				f.claimed(p, token)
				f.post(p, token, acknowledgement("r")).into(http.StatusOK, &paymentapi.Posting{})
			}
		})
	}
	wg.Wait()
	require.Equal(t, accounts*each, one[int](f, `SELECT count(*) FROM payout WHERE state = 'POSTED'`))
	got, ok := f.metric("pgx_pool_max_conns")
	require.True(t, ok)
	require.Equal(t, "2", got)
	f.sound()
}

// readiness is what the readiness probe says.
func readiness(t *testing.T, base string) (status int, reason string) {
	t.Helper()
	res, err := http.Get(base + "/readyz") //nolint:noctx // a probe in a test
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	var said struct{ Status, Reason string }
	require.NoError(t, json.NewDecoder(res.Body).Decode(&said))
	return res.StatusCode, said.Reason
}

// The database is killed and comes back: the process stays up, says that it is not ready, answers INTERNAL, and recovers
// by itself with everything it had acknowledged.
func TestTheDatabaseIsKilledAndComesBack(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server, err := startMigrated(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Stop() })
	f := startOn(t, template, func(c *Config) { c.DatabaseURL = server.RoleURL(template, "payapp", payappPassword) })
	f.account("acc", 1000)
	p := f.payout("acc", 10)
	first := f.claimed(p, 1)
	status, _ := readiness(t, f.base)
	require.Equal(t, http.StatusOK, status)

	require.NoError(t, server.Signal(syscall.SIGKILL))
	<-server.Done()
	require.Eventually(t, func() bool { status, _ := readiness(t, f.base); return status == http.StatusServiceUnavailable }, eventually, eventuallyEvery)
	_, reason := readiness(t, f.base)
	require.Contains(t, reason, "paydb")
	require.NotContains(t, reason, payappPassword)
	f.post(p, 1, acknowledgement("r")).refused(apierr.Internal)
	require.Equal(t, http.StatusOK, f.do(call{method: http.MethodGet, path: "/livez"}).status)

	require.NoError(t, server.Restart(ctx))
	require.Eventually(t, func() bool { status, _ := readiness(t, f.base); return status == http.StatusOK }, eventually, eventuallyEvery)
	require.Equal(t, first, f.claimed(p, 1))
	f.post(p, 1, acknowledgement("r")).into(http.StatusOK, &paymentapi.Posting{})
}

func TestADatabaseThatIsDownOrEmptyAtStartIsNotTheEnd(t *testing.T) {
	t.Parallel()
	empty := fmt.Sprintf("payment_empty_%d", databases.Add(1))
	require.NoError(t, pg.CreateDatabase(context.Background(), empty, ""))
	f := startOn(t, empty)
	status, reason := readiness(t, f.base)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, reason, "migrations")
	require.NoError(t, Migrate(context.Background(), pg.URL(empty)))
	status, _ = readiness(t, f.base)
	require.Equal(t, http.StatusOK, status)

	nowhere := startOn(t, template, func(c *Config) { c.DatabaseURL = "postgres://payapp:secret@127.0.0.1:1/none?sslmode=disable" })
	status, reason = readiness(t, nowhere.base)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.NotContains(t, reason, "secret")
}

// cutter passes bytes between the service and PostgreSQL, and when armed cuts the connection at the next COMMIT.
type cutter struct {
	listener net.Listener
	target   string
	before   atomic.Bool // cut before the server sees the commit
	after    atomic.Bool // cut once the server has answered it
	cuts     atomic.Int64
}

func newCutter(t *testing.T, target string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &cutter{listener: l, target: target}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go c.serve(client)
		}
	}()
	return c
}

func (c *cutter) serve(client net.Conn) {
	server, err := net.Dial("tcp", c.target)
	if err != nil {
		_ = client.Close()
		return
	}
	var swallow atomic.Bool
	closeBoth := func() { _ = client.Close(); _ = server.Close() }
	go func() {
		defer closeBoth()
		buffer := make([]byte, 64<<10)
		for {
			n, err := server.Read(buffer)
			if err != nil {
				return
			}
			if swallow.Load() { // the commit was answered; the answer is lost
				return
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	defer closeBoth()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if bytes.Contains(buffer[:n], []byte("commit")) {
			if c.before.CompareAndSwap(true, false) {
				c.cuts.Add(1)
				return
			}
			if c.after.CompareAndSwap(true, false) {
				c.cuts.Add(1)
				swallow.Store(true)
				if _, err := server.Write(buffer[:n]); err == nil {
					_, _ = io.Copy(io.Discard, client) // until the other side has closed
				}
				return
			}
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// The answer to a COMMIT is lost: what happened is found out by key, and happens once.
func TestALostCommitAnswerIsReadAgainByKey(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	through := newCutter(t, fmt.Sprintf("127.0.0.1:%d", pg.Port))
	f := startOn(t, database, func(c *Config) {
		u, err := url.Parse(c.DatabaseURL)
		require.NoError(t, err)
		u.Host = through.listener.Addr().String()
		c.DatabaseURL = u.String()
	})
	f.account("acc", 100_000)
	token, cuts := int64(0), int64(0)
	for name, arm := range map[string]*atomic.Bool{"lost before the server saw it": &through.before, "lost after the server did it": &through.after} {
		t.Run(name, func(t *testing.T) {
			f := f.on(t)
			cut := func() { arm.Store(true); cuts++ }
			var account paymentapi.Account
			cut()
			f.createAccount(paymentapi.CreateAccountRequest{AccountID: fmt.Sprintf("acc-%d", cuts), Currency: "EUR", OpeningMinor: 5}).into(http.StatusCreated, &account)
			require.EqualValues(t, 5, account.BalanceMinor)
			cut()
			var funding paymentapi.Funding
			f.fund("acc", paymentapi.FundingRequest{ExternalRef: name, AmountMinor: 7}).into(http.StatusCreated, &funding)
			cut()
			p := f.payout("acc", 10)
			token++
			cut()
			require.Equal(t, 1, f.claimed(p, token).AttemptCount)
			cut()
			f.post(p, token, acknowledgement("r")).into(http.StatusOK, &paymentapi.Posting{})

			doubtful := f.payout("acc", 10)
			token++
			f.claimed(doubtful, token)
			cut()
			require.Equal(t, http.StatusOK, f.outcome(doubtful, token, "TIMEOUT").status)
			cut()
			require.Equal(t, http.StatusOK, f.resolve("resolver", doubtful, token, absent()).status)
			back := f.payout("acc", 10)
			token++
			f.claimed(back, token)
			cut()
			require.Equal(t, http.StatusOK, f.abandon(back, token).status)
			short := f.payout("acc", 1_000_000)
			token++
			cut()
			f.claim(short, token).refused(apierr.InsufficientFunds)
			unwanted := f.payout("acc", 10)
			cut()
			require.Equal(t, http.StatusOK, f.cancel(unwanted, "not wanted").status)
			require.Equal(t, cuts, through.cuts.Load(), "each cut happened")
		})
	}
	require.EqualValues(t, 100_000+2*7-2*10, f.getAccount("acc").BalanceMinor)
	require.Len(t, f.log.events(t, "payout_ambiguous"), 2)
	f.sound()
	f.fencedOut(0, 0)
}

// A request that was waiting for its answer gets it although the process was told to stop.
func TestRunDrains(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	f := startOn(t, database) // to prepare, and to look at
	f.account("acc", 1000)
	p := f.payout("acc", 10)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	s, err := newServer(ctx, Config{ListenAddr: "127.0.0.1:0", DatabaseURL: pg.RoleURL(database, "payapp", payappPassword), DatabasePool: 4,
		FencingEnabled: true, AuthTokensFile: tokensFile(t)}, telemetry.NewLogger(io.Discard, Name))
	require.NoError(t, err)
	defer s.pool.Close()
	ended := make(chan error, 1)
	go func() { ended <- s.http.Run(ctx, drain) }()
	tx, err := f.owner.Begin(context.Background())
	require.NoError(t, err)
	_, err = tx.Exec(context.Background(), `SELECT FROM account WHERE account_id = 'acc' FOR UPDATE`)
	require.NoError(t, err)
	stopping := f.on(t)
	stopping.base = "http://" + s.Addr()
	answer := make(chan reply, 1)
	go func() { answer <- stopping.claim(p, 1) }()
	require.Eventually(t, func() bool {
		return one[int](f, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 1
	}, eventually, eventuallyEvery)
	stop()
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", s.Addr())
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}, eventually, eventuallyEvery)
	require.NoError(t, tx.Commit(context.Background()))
	r := <-answer
	require.Equal(t, http.StatusOK, r.status, "%s", r.body)
	require.NoError(t, <-ended)
}
