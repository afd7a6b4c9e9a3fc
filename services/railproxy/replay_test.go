package railproxy

import (
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/httpclient"
	"railguard/services/railapi"
)

// keptOpen is a complete answer after which the server keeps the connection for the next request.
func keptOpen(body string) answering {
	return func(conn net.Conn, nth int) bool {
		send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)(conn, nth)
		return true
	}
}

// firstThenDrop answers the first request well and keeps the connection, and drops it after reading any later one. It
// is what makes net/http send a request with an idempotency key a second time.
func firstThenDrop(first answering) answering {
	return func(conn net.Conn, nth int) bool {
		if nth == 1 {
			return first(conn, nth)
		}
		return false
	}
}

func TestTheRailSeesOneRequestWhenItDropsTheConnection(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	rail := startRail(t, firstThenDrop(keptOpen(acceptedBody)))
	p := start(t, db, rail.url(), nil)
	first := newSubmission(1)
	requireAcked(t, p.submit(first))
	second := first.another(2)
	requireCode(t, apierr.RailAmbiguous, p.submit(second))
	require.Equal(t, "TIMEOUT", db.outcomes(t, second.Payout))
	require.Equal(t, 2, rail.count(), "one request for each submission")
	require.Equal(t, 2, rail.connections(), "no connection is used twice")
}

func TestTheTypedClientSendsOneRequestWhenTheProxyDropsTheConnection(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer answering
		calls  int
	}{
		"the first call":           {func(net.Conn, int) bool { return false }, 1},
		"the call after a success": {firstThenDrop(keptOpen(`{"outcome":"ACKED"}`)), 2},
		"reset":                    {reset, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := startRail(t, c.answer)
			client, err := railapi.NewClient(fake.url(), httpclient.Identity{Bearer: "b"}, 5*time.Second)
			require.NoError(t, err)
			for i := range c.calls {
				_, err = client.Submit(t.Context(), 7, "run-1", "key-1", railapi.SubmissionRequest{PayoutID: newSubmission(7).Payout})
				if i+1 < c.calls {
					require.NoError(t, err)
				}
			}
			var transport *httpclient.TransportError
			require.ErrorAs(t, err, &transport)
			require.False(t, transport.NothingWritten)
			require.Equal(t, c.calls, fake.count())
			require.Equal(t, c.calls, fake.connections())
			request, _ := fake.request(c.calls)
			require.Equal(t, "key-1", request.Header.Get("X-Idempotency-Key"))
		})
	}
}

func TestTheTypedClientFollowsNoRedirectAndRepeatsNoRefusal(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"redirect":    "HTTP/1.1 307 X\r\nLocation: /v1/rail/submissions\r\nContent-Length: 0\r\n\r\n",
		"unavailable": response(503, `{"code":"RAIL_UNAVAILABLE","message":"","retrySafe":true,"traceId":""}`),
		"bare 503":    response(503, ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := startRail(t, send(raw))
			client, err := railapi.NewClient(fake.url(), httpclient.Identity{}, 5*time.Second)
			require.NoError(t, err)
			_, err = client.Submit(t.Context(), 7, "run-1", "key-1", railapi.SubmissionRequest{})
			require.Error(t, err)
			require.Equal(t, 1, fake.count())
			require.Equal(t, 1, fake.connections())
		})
	}
}

func TestTheTypedClientReadsWhatTheProxyWrites(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := newSubmission(7)
	rail := startRail(t, func(conn net.Conn, nth int) bool {
		if nth == 1 {
			return send(acknowledged)(conn, nth)
		}
		return send(response(200, `{"transfers":[{"railReference":"RAIL-1","clientRef":"`+s.Payout+
			`","amountMinor":100,"currency":"EUR","at":"2026-01-01T00:00:00Z"}]}`))(conn, nth)
	})
	p := start(t, db, rail.url(), nil)
	ctx := t.Context()
	executor, err := railapi.NewClient(p.base, httpclient.Identity{Bearer: bearer("executor")}, 10*time.Second)
	require.NoError(t, err)
	request := railapi.SubmissionRequest{PayoutID: s.Payout, AccountID: s.Account, AmountMinor: 100, Currency: "EUR", BeneficiaryRef: "b"}
	submitted, err := executor.Submit(ctx, 7, "run-1", s.Key, request)
	require.NoError(t, err)
	require.Equal(t, railapi.Acked, submitted.Outcome)

	_, err = executor.Submit(ctx, 7, "run-1", s.Key, request)
	require.Equal(t, apierr.DuplicateSubmission, apierr.CodeOf(err))
	require.Panics(t, func() { _, _ = executor.Submit(ctx, 0, "run-1", s.Key, request) }, "a missing token is a programming error")

	records, err := executor.Submissions(ctx, s.Payout)
	require.NoError(t, err)
	require.Equal(t, []railapi.Submission{*submitted}, records.Submissions)
	known, err := executor.Lookup(ctx, s.Payout)
	require.NoError(t, err)
	require.Len(t, known.Transfers, 1)
	require.Equal(t, "RAIL-1", known.Transfers[0].RailReference)

	resolver, err := railapi.NewClient(p.base, httpclient.Identity{Bearer: bearer("resolver")}, 10*time.Second)
	require.NoError(t, err)
	fence, err := resolver.RaiseFence(ctx, "run-2", s.Account, fencing.RaiseRequest{Floor: 9, Reason: "test"})
	require.NoError(t, err)
	require.Equal(t, fencing.Fence{AccountID: s.Account, Fence: 9}, *fence)
	highest, err := resolver.HighestFence(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 9, highest.Highest)
	info, err := resolver.Info(ctx)
	require.NoError(t, err)
	require.True(t, info.FencingEnabled)
	require.EqualValues(t, 60_000, info.RailTimeoutMillis)

	var refused *apierr.Error
	_, err = executor.RaiseFence(ctx, "run-2", s.Account, fencing.RaiseRequest{Floor: 10, Reason: "test"})
	require.True(t, errors.As(err, &refused))
	require.Equal(t, apierr.Forbidden, refused.Code)
}
