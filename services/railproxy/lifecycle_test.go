package railproxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"railguard/deploy/local/pgserver"
	"railguard/services/apierr"
)

// patience bounds every wait for something that will come; it is long because machines are busy.
const patience = 30 * time.Second

const glance = 20 * time.Millisecond

// begin makes a submission and delivers its answer; a call that fails in transport delivers none.
func (p *proxy) begin(ctx context.Context, s submission) <-chan answer {
	answered := make(chan answer, 1)
	go func() {
		defer close(answered)
		if a, err := p.try(ctx, s.call()); err == nil {
			answered <- a
		}
	}()
	return answered
}

func TestACallerThatHangsUpCancelsNothing(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	hold := newHeld()
	rail := startRail(t, hold.answer(send(acknowledged)))
	p := start(t, db, rail.url(), nil)
	t.Cleanup(hold.release)
	s := newSubmission(1)
	ctx, hangUp := context.WithCancel(t.Context())
	answered := p.begin(ctx, s)
	<-hold.arrived
	hangUp()
	_, got := <-answered
	require.False(t, got)
	require.Equal(t, "none", db.outcomes(t, s.Payout))
	hold.release()
	require.Eventually(t, func() bool { return db.outcomes(t, s.Payout) == "ACKED" }, patience, glance)
	require.Equal(t, 1, rail.count())
}

func TestTheEndOfTheProcessWaitsForSubmissions(t *testing.T) {
	t.Parallel()
	for name, hangsUp := range map[string]bool{"the caller waits": false, "the caller hung up": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			hold := newHeld()
			rail := startRail(t, hold.answer(send(acknowledged)))
			p := start(t, db, rail.url(), nil)
			t.Cleanup(hold.release)
			s := newSubmission(1)
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			answered := p.begin(ctx, s)
			<-hold.arrived
			if hangsUp {
				hangUp()
				<-answered
			}
			p.stop()
			require.Eventually(t, func() bool {
				conn, err := net.Dial("tcp", p.server.Addr())
				if err == nil {
					_ = conn.Close()
				}
				return err != nil
			}, patience, glance, "no new requests are accepted")
			select {
			case <-p.ended:
				require.Fail(t, "ended with a submission in flight")
			default:
			}
			hold.release()
			<-p.ended
			require.Equal(t, "ACKED", db.outcomes(t, s.Payout))
			if !hangsUp {
				requireAcked(t, <-answered)
			}
		})
	}
}

// ownDatabase is a server that a test may kill.
func ownDatabase(t *testing.T) *database {
	t.Helper()
	server, err := pgserver.Start(t.Context(), pgserver.Options{Volatile: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	require.NoError(t, prepare(t.Context(), server, "rail"))
	return openDatabase(t, server, "rail")
}

// kill ends the server at once, and waits for its processes, which outlive it a little and may still answer.
func (d *database) kill(t *testing.T) {
	t.Helper()
	rows, err := d.pool.Query(t.Context(), "SELECT pid FROM pg_stat_activity")
	require.NoError(t, err)
	backends, err := pgx.CollectRows(rows, pgx.RowTo[int])
	require.NoError(t, err)
	require.NoError(t, d.server.Signal(syscall.SIGKILL))
	<-d.server.Done()
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(backends, func(pid int) bool { return syscall.Kill(pid, 0) == nil })
	}, patience, glance)
}

func (p *proxy) ready() int {
	p.t.Helper()
	return p.do(call{method: http.MethodGet, path: "/readyz"}).status
}

func TestADatabaseThatDiesDuringTheCallGetsTheOutcomeAfterwards(t *testing.T) {
	t.Parallel()
	db := ownDatabase(t)
	hold := newHeld()
	read := make(chan struct{})
	rail := startRail(t, hold.answer(func(conn net.Conn, nth int) bool {
		send(acknowledged[:len(acknowledged)-1], acknowledged[len(acknowledged)-1:])(conn, nth)
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn) // until the proxy has read the answer and closed
		close(read)
		return false
	}))
	p := start(t, db, rail.url(), nil)
	t.Cleanup(hold.release)
	s := newSubmission(1)
	answered := p.begin(t.Context(), s)
	<-hold.arrived
	db.kill(t)
	require.Equal(t, http.StatusServiceUnavailable, p.ready())
	hold.release()
	<-read
	select {
	case a := <-answered:
		require.Fail(t, "answered before the outcome was recorded", "%s", a.body)
	default:
	}
	require.NoError(t, db.server.Restart(t.Context()))
	requireAcked(t, <-answered)
	require.Equal(t, "ACKED", db.outcomes(t, s.Payout))
	require.Equal(t, 1, rail.count())
	require.Equal(t, http.StatusOK, p.ready())
}

func TestADatabaseThatIsDownAtStartMakesTheProcessNotReady(t *testing.T) {
	t.Parallel()
	db := ownDatabase(t)
	rail := startRail(t, send(acknowledged))
	db.kill(t)
	p := start(t, db, rail.url(), nil)
	a := p.do(call{method: http.MethodGet, path: "/readyz"})
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.JSONEq(t, `{"status":"DOWN","reason":"paydb does not answer"}`, string(a.body))
	require.Equal(t, http.StatusOK, p.do(call{method: http.MethodGet, path: "/livez"}).status)
	s := newSubmission(1)
	requireCode(t, apierr.RailUnavailable, p.submit(s))
	require.Zero(t, rail.count())

	require.NoError(t, db.server.Restart(t.Context()))
	require.Eventually(t, func() bool { return p.ready() == http.StatusOK }, patience, glance)
	requireAcked(t, p.submit(s))
}
