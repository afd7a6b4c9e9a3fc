package railproxy

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
	"railguard/services/railapi"
	"railguard/services/railproxy/internal/store"
)

// cut is one loss on the way between the proxy and its database.
type cut struct {
	when      []byte // the connection is lost when these bytes come from the client,
	delivered bool   // after they were delivered, and the server's answer is lost; or before
}

// lossyWire passes connections through to a database and loses what it was told to, once each.
type lossyWire struct {
	listener net.Listener
	target   string

	mu   sync.Mutex
	cuts []cut
	done int
}

func startLossyWire(t *testing.T, db *database, cuts ...cut) (wire *lossyWire, railappURL string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	u, err := url.Parse(db.roleURL("railapp"))
	require.NoError(t, err)
	wire = &lossyWire{listener: listener, target: u.Host, cuts: cuts}
	u.Host = listener.Addr().String()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go wire.pass(client)
		}
	}()
	return wire, u.String()
}

func (w *lossyWire) pass(client net.Conn) {
	server, err := net.Dial("tcp", w.target)
	if err != nil {
		_ = client.Close()
		return
	}
	both := func() {
		_ = client.Close()
		_ = server.Close()
	}
	lost := make(chan struct{})
	go func() {
		defer both()
		buffer := make([]byte, 64<<10)
		for {
			n, err := server.Read(buffer)
			select {
			case <-lost:
				return // the answer was made, and nobody hears it
			default:
			}
			if err != nil {
				return
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	defer both()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		lose, delivered := w.loses(buffer[:n])
		if lose && !delivered {
			return
		}
		if lose {
			close(lost)
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
		if lose {
			_, _ = io.Copy(io.Discard, client) // until the answer was swallowed
			return
		}
	}
}

func (w *lossyWire) loses(sent []byte) (lose, delivered bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.cuts) == 0 || !bytes.Contains(sent, w.cuts[0].when) {
		return false, false
	}
	delivered = w.cuts[0].delivered
	w.cuts = w.cuts[1:]
	w.done++
	return true, delivered
}

func (w *lossyWire) losses() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done
}

var commit = []byte("commit\x00")

func TestAnIntentWhoseCommitWasNotAnsweredIsNeverSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		delivered bool
		outcomes  string
		unsent    float64
		mark      int64
	}{
		"it was committed":     {true, "UNSENT", 1, 5},
		"it was not committed": {false, "", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			wire, railapp := startLossyWire(t, db, cut{commit, c.delivered})
			rail := startRail(t, send(acknowledged))
			p := start(t, db, rail.url(), func(cfg *Config) { cfg.DatabaseURL = railapp })
			s := newSubmission(5)
			a := p.submit(s)
			require.Equal(t, 1, wire.losses())
			requireCode(t, apierr.RailUnavailable, a)
			require.Equal(t, c.outcomes, db.outcomes(t, s.Payout))
			require.Equal(t, c.unsent, p.submissions("unsent"))
			require.Equal(t, c.mark, db.mark(t, s.Account))
			require.Zero(t, rail.count())

			requireAcked(t, p.submit(s.under(6)))
			require.Equal(t, 1, rail.count())
		})
	}
}

func TestARefusalStandsWhenTheCommitOfItsRecordWasNotAnswered(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	rail := startRail(t, send(acknowledged))
	requireAcked(t, start(t, db, rail.url(), nil).submit(newSubmission(5)))
	wire, railapp := startLossyWire(t, db, cut{commit, true})
	p := start(t, db, rail.url(), func(cfg *Config) { cfg.DatabaseURL = railapp })
	requireCode(t, apierr.FencedOut, p.submit(newSubmission(4)))
	require.Equal(t, 1, wire.losses())
	require.Equal(t, 1, rail.count())
}

func TestAnOutcomeWhoseWriteWasNotAnsweredIsWrittenOnce(t *testing.T) {
	t.Parallel()
	for name, losses := range map[string][]cut{
		"written, the answer lost": {{[]byte("RAIL-1"), true}},
		"not written, then lost":   {{[]byte("RAIL-1"), false}, {[]byte("RAIL-1"), true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			wire, railapp := startLossyWire(t, db, losses...)
			rail := startRail(t, send(acknowledged))
			p := start(t, db, rail.url(), func(cfg *Config) { cfg.DatabaseURL = railapp })
			s := newSubmission(5)
			requireAcked(t, p.submit(s))
			require.Equal(t, len(losses), wire.losses())
			require.Equal(t, "ACKED", db.outcomes(t, s.Payout))
			require.EqualValues(t, 1, p.submissions("acked"))
			require.Equal(t, 1, rail.count())
		})
	}
}

// A server that lost its client may commit after anybody looked: to withdraw an intent is to wait for that.
func TestAnIntentIsWithdrawnOnlyAfterItsTransactionEnded(t *testing.T) {
	t.Parallel()
	for name, commits := range map[string]bool{"it commits": true, "it rolls back": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			db := newDatabase(t)
			pool, err := pgxpool.New(ctx, db.roleURL("railapp"))
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			records := store.New(pool, "instance-1", true)
			r := store.Request{SubmissionRequest: railapi.SubmissionRequest{PayoutID: uuid.NewString(), AccountID: "acc-1", AmountMinor: 1, Currency: "EUR"},
				Token: 5, OwnerID: "run-1", IdempotencyKey: "key-1"}
			id := uuid.NewString()
			limbo, err := db.pool.Begin(ctx)
			require.NoError(t, err)
			_, err = limbo.Exec(ctx, `INSERT INTO rail_submission (submission_id, payout_id, account_id, owner_id, idempotency_key,
				presented_token, amount_minor, currency, proxy_instance, guarded) VALUES ($1, $2, 'acc-1', 'run-1', 'key-1', 5, 1, 'EUR', 'instance-1', true)`, id, r.PayoutID)
			require.NoError(t, err)

			type result struct {
				record    railapi.Submission
				committed bool
				err       error
			}
			withdrawn := make(chan result, 1)
			go func() {
				record, committed, err := records.Withdraw(ctx, id, r)
				withdrawn <- result{record, committed, err}
			}()
			require.Eventually(t, func() bool {
				var waiting int
				err := db.pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND wait_event_type = 'Lock'`, db.name).Scan(&waiting)
				return err == nil && waiting == 1
			}, patience, glance)
			if commits {
				require.NoError(t, limbo.Commit(ctx))
			} else {
				require.NoError(t, limbo.Rollback(ctx))
			}
			got := <-withdrawn
			require.NoError(t, got.err)
			require.Equal(t, commits, got.committed)
			if commits {
				require.Equal(t, railapi.Unsent, got.record.Outcome)
				require.Equal(t, "UNSENT", db.outcomes(t, r.PayoutID))
			} else {
				require.Empty(t, db.rows(t))
			}
		})
	}
}
