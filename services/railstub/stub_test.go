package railstub

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/docs/contracts/contracttest"
	"railguard/services/stubapi"
	"railguard/services/telemetry"
)

const (
	patience = 30 * time.Second
	glance   = 10 * time.Millisecond
)

type stub struct {
	t      *testing.T
	base   string
	http   *http.Client
	client *stubapi.Client
	server *server
	stop   context.CancelFunc
	ended  <-chan struct{}
}

// start boots the real process, without latency unless change says so.
func start(t *testing.T, change func(*Config)) *stub {
	t.Helper()
	cfg := Config{ListenAddr: "127.0.0.1:0", Seed: 1}
	if change != nil {
		change(&cfg)
	}
	ctx, stop := context.WithCancel(context.Background())
	s, err := newServer(ctx, cfg, telemetry.NewLogger(io.Discard, "rail-stub"))
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	base := "http://" + s.Addr()
	client, err := stubapi.NewClient(base)
	require.NoError(t, err)
	return &stub{t: t, base: base, http: contracttest.NewClient(t, "rail-stub"), client: client, server: s, stop: stop, ended: ended}
}

func (s *stub) call(method, path, body string) (status int, answer string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, bytes.NewReader([]byte(body)))
	require.NoError(s.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := s.http.Do(req)
	require.NoError(s.t, err)
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	return res.StatusCode, string(data)
}

func submission(clientRef string) string {
	return fmt.Sprintf(`{"clientRef":%q,"amountMinor":100,"currency":"EUR"}`, clientRef)
}

// raw submits over a bare socket and returns every byte that comes back until the connection ends.
func (s *stub) raw(clientRef string) string {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.server.Addr())
	require.NoError(s.t, err)
	defer func() { _ = conn.Close() }()
	body := submission(clientRef)
	_, err = fmt.Fprintf(conn, "POST /submit HTTP/1.1\r\nHost: rail\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	require.NoError(s.t, err)
	all, err := io.ReadAll(conn)
	require.NoError(s.t, err)
	return string(all)
}

func (s *stub) requests(clientRef string) []stubapi.Request {
	s.t.Helper()
	got, err := s.client.Requests(s.t.Context(), clientRef)
	require.NoError(s.t, err)
	return got.Requests
}

func (s *stub) transfers(clientRef string) []stubapi.Transfer {
	s.t.Helper()
	got, err := s.client.Transfers(s.t.Context(), clientRef)
	require.NoError(s.t, err)
	return got.Transfers
}

func (s *stub) add(f stubapi.Fault) {
	s.t.Helper()
	require.NoError(s.t, s.client.AddFault(s.t.Context(), f))
}

func millis(n int64) *int64 { return &n }

func TestEveryRouteIsDocumented(t *testing.T) {
	t.Parallel()
	contracttest.CheckRoutes(t, "rail-stub", start(t, nil).server.http.Engine().Routes())
}

func TestEverySubmissionIsAFreshTransfer(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	references := make(map[string]bool)
	for range 2 {
		status, body := s.call(http.MethodPost, "/submit", submission("p-1"))
		require.Equal(t, http.StatusOK, status)
		var ack stubapi.Ack
		require.NoError(t, json.Unmarshal([]byte(body), &ack))
		require.Equal(t, "ACCEPTED", ack.Status)
		references[ack.RailReference] = true
	}
	require.Len(t, references, 2)
	s.call(http.MethodPost, "/submit", submission("p-2"))
	requests, transfers := s.requests("p-1"), s.transfers("p-1")
	require.Len(t, requests, 2)
	require.Len(t, transfers, 2)
	for i, r := range requests {
		require.EqualValues(t, i+1, r.Sequence)
		require.True(t, r.MoneyMoved)
		require.Equal(t, stubapi.None, r.Fault)
		require.True(t, references[transfers[i].RailReference])
		require.EqualValues(t, 100, transfers[i].AmountMinor)
	}
	require.Len(t, s.requests(""), 3)
	require.Len(t, s.transfers(""), 3)
	require.Empty(t, s.requests("p-3"))
	for _, path := range []string{"/requests?clientRef=p-1", "/transfers?clientRef=p-1", "/requests", "/transfers", "/livez", "/readyz", "/info", "/metrics"} {
		status, _ := s.call(http.MethodGet, path, "")
		require.Equal(t, http.StatusOK, status, path)
	}
}

func TestEachFaultDoesWhatItsNameSays(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	for _, c := range []struct {
		kind       stubapi.Kind
		moneyMoved bool
		check      func(raw string) bool
	}{
		{stubapi.None, true, func(raw string) bool {
			return strings.HasPrefix(raw, "HTTP/1.1 200") && strings.Count(raw, "ACCEPTED") == 1
		}},
		{stubapi.Decline, false, func(raw string) bool { return strings.HasPrefix(raw, "HTTP/1.1 402") }},
		{stubapi.ServerError, true, func(raw string) bool { return strings.HasPrefix(raw, "HTTP/1.1 503") }},
		{stubapi.DropBefore, false, func(raw string) bool { return raw == "" }},
		{stubapi.DropAfter, true, func(raw string) bool { return raw == "" }},
		{stubapi.MalformedAck, true, func(raw string) bool {
			return strings.HasPrefix(raw, "HTTP/1.1 200") && !strings.Contains(raw, "ACCEPTED")
		}},
		{stubapi.TruncatedAck, true, func(raw string) bool { return strings.HasPrefix(raw, "HTTP/1.1 200") && !strings.HasSuffix(raw, "}") }},
		{stubapi.DoubleAck, true, func(raw string) bool {
			return strings.HasPrefix(raw, "HTTP/1.1 200") && strings.Count(raw, "ACCEPTED") == 2
		}},
		{stubapi.UnexpectedStatus, false, func(raw string) bool { return strings.HasPrefix(raw, "HTTP/1.1 409") }},
		{stubapi.Hang, true, func(raw string) bool { return strings.HasPrefix(raw, "HTTP/1.1 200") }},
	} {
		ref := "p-" + string(c.kind)
		s.add(stubapi.Fault{ClientRef: ref, Kind: c.kind, LatencyMillis: millis(1)})
		raw := s.raw(ref)
		require.True(t, c.check(raw), "%s: %q", c.kind, raw)
		requests := s.requests(ref)
		require.Len(t, requests, 1)
		require.Equal(t, c.kind, requests[0].Fault)
		require.Equal(t, c.moneyMoved, requests[0].MoneyMoved, c.kind)
		require.Equal(t, c.moneyMoved, len(s.transfers(ref)) == 1, c.kind)
	}
}

// The log is the evidence that the rail was called: it must not depend on how the call ends.
func TestARequestIsInTheLogBeforeItsAnswer(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	s.add(stubapi.Fault{ClientRef: "p-1", Kind: stubapi.Hang})
	ctx, hangUp := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+"/submit", strings.NewReader(submission("p-1")))
	require.NoError(t, err)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		res, err := http.DefaultTransport.RoundTrip(req)
		if err == nil {
			t.Error("answered")
			_ = res.Body.Close()
		}
	}()
	require.Eventually(t, func() bool { return len(s.requests("p-1")) == 1 }, patience, glance)
	require.Len(t, s.transfers("p-1"), 1)
	hangUp()
	<-gone
	require.Len(t, s.requests("p-1"), 1)
}

func TestTheEndOfTheStubDropsWhatHangs(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *Config) { c.Latency = time.Minute })
	answered := make(chan string, 1)
	go func() {
		res, err := http.Post(s.base+"/submit", "application/json", strings.NewReader(submission("p-1")))
		if err != nil {
			answered <- "dropped"
			return
		}
		_ = res.Body.Close()
		answered <- res.Status
	}()
	require.Eventually(t, func() bool { return len(s.requests("p-1")) == 1 }, patience, glance)
	s.stop()
	<-s.ended
	require.Equal(t, "dropped", <-answered)
}

func TestAFaultOfOneReferenceWinsOverTheGeneralOnes(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	ctx := t.Context()
	require.NoError(t, s.client.SetFaults(ctx, stubapi.Faults{Faults: []stubapi.Fault{
		{Kind: stubapi.Decline}, {ClientRef: "well", Kind: stubapi.None}}}))
	s.raw("well")
	s.raw("any")
	require.Equal(t, stubapi.None, s.requests("well")[0].Fault)
	require.Equal(t, stubapi.Decline, s.requests("any")[0].Fault)

	s.add(stubapi.Fault{ClientRef: "well", Kind: stubapi.ServerError}) // in the place of the first
	s.add(stubapi.Fault{ClientRef: "other", Kind: stubapi.DropAfter})
	s.add(stubapi.Fault{Kind: stubapi.UnexpectedStatus}) // in the place of the general one
	status, body := s.call(http.MethodGet, "/faults", "")
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"faults":[{"clientRef":"well","kind":"server-error"},{"clientRef":"other","kind":"drop-after"},{"kind":"unexpected-status"}]}`, body)
	for ref, want := range map[string]stubapi.Kind{"well": stubapi.ServerError, "other": stubapi.DropAfter, "third": stubapi.UnexpectedStatus} {
		s.raw(ref)
		got := s.requests(ref)
		require.Equal(t, want, got[len(got)-1].Fault)
	}

	require.NoError(t, s.client.SetFaults(ctx, stubapi.Faults{Faults: []stubapi.Fault{}}))
	s.raw("fourth")
	require.Equal(t, stubapi.None, s.requests("fourth")[0].Fault)
}

func TestTheLookupLagsBehindByItsDelay(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *Config) { c.LookupDelay = 10 * time.Minute })
	s.raw("p-1")
	require.True(t, s.requests("p-1")[0].MoneyMoved)
	require.Empty(t, s.transfers("p-1"))
	require.NoError(t, s.client.SetFaults(t.Context(), stubapi.Faults{Faults: []stubapi.Fault{}, LookupDelayMillis: millis(0)}))
	require.Len(t, s.transfers("p-1"), 1)
	require.NoError(t, s.client.SetFaults(t.Context(), stubapi.Faults{Faults: []stubapi.Fault{}}))
	require.Empty(t, s.transfers("p-1"), "the configured delay is back")
	require.NoError(t, s.client.SetFaults(t.Context(), stubapi.Faults{Faults: []stubapi.Fault{}, LookupDelayMillis: millis(100)}))
	require.Eventually(t, func() bool { return len(s.transfers("p-1")) == 1 }, patience, glance)
}

func TestBadRequestsAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	for _, c := range []struct{ method, path, body, field string }{
		{"POST", "/submit", "", "body"},
		{"POST", "/submit", "null", "body"},
		{"POST", "/submit", "{}", "clientRef"},
		{"POST", "/submit", `{"clientRef":"p","amountMinor":0,"currency":"EUR"}`, "amountMinor"},
		{"POST", "/submit", `{"clientRef":"p","amountMinor":1.5,"currency":"EUR"}`, "body"},
		{"POST", "/submit", `{"clientRef":"p","amountMinor":1,"currency":"eur"}`, "currency"},
		{"POST", "/submit", `{"clientRef":"p","amountMinor":1,"currency":"EUR","token":1}`, "body"},
		{"POST", "/submit", `{"clientRef":"` + strings.Repeat("p", 129) + `","amountMinor":1,"currency":"EUR"}`, "clientRef"},
		{"PUT", "/faults", "", "body"},
		{"PUT", "/faults", "{}", "faults"},
		{"PUT", "/faults", `{"faults":[{"kind":"explode"}]}`, "faults[0].kind"},
		{"PUT", "/faults", `{"faults":[{"kind":"none"},{"kind":"invalid-request"}]}`, "faults[1].kind"},
		{"PUT", "/faults", `{"faults":[{"kind":"none","latencyMillis":-1}]}`, "faults[0].latencyMillis"},
		{"PUT", "/faults", `{"faults":[{"kind":"none","latencyMillis":600001}]}`, "faults[0].latencyMillis"},
		{"PUT", "/faults", `{"faults":[{"kind":"none","perMille":1001}]}`, "faults[0].perMille"},
		{"PUT", "/faults", `{"faults":[],"lookupDelayMillis":-1}`, "lookupDelayMillis"},
		{"PUT", "/faults", `{"faults":[` + strings.Repeat(`{"kind":"none"},`, 10000) + `{"kind":"none"}]}`, "faults"},
		{"POST", "/faults", "{}", "kind"},
		{"POST", "/faults", `{"kind":"none","clientRef":"` + strings.Repeat("p", 129) + `"}`, "clientRef"},
	} {
		status, body := s.call(c.method, c.path, c.body)
		require.Equal(t, http.StatusBadRequest, status, "%s %s: %s", c.method, c.path, body)
		require.Contains(t, body, `"VALIDATION_FAILED"`)
		require.Contains(t, body, fmt.Sprintf("%q", c.field))
	}
	require.Empty(t, s.transfers(""))
	requests := s.requests("")
	require.Len(t, requests, 8, "what was refused was received all the same")
	for _, r := range requests {
		require.Equal(t, stubapi.InvalidRequest, r.Fault)
		require.False(t, r.MoneyMoved)
	}
	for _, path := range []string{"/v1/submit", "/nothing"} {
		status, _ := s.call(http.MethodPost, path, "{}")
		require.Equal(t, http.StatusNotFound, status)
	}
}

func TestLoadConfig(t *testing.T) {
	c, err := LoadConfig()
	require.NoError(t, err)
	require.Equal(t, Config{ListenAddr: "127.0.0.1:8090", Seed: 1, Latency: 250 * time.Millisecond}, c)
	t.Setenv("RAIL_STUB_FAULTS", `{"faults":[{"clientRef":"p-1","kind":"decline"}],"lookupDelayMillis":5}`)
	c, err = LoadConfig()
	require.NoError(t, err)
	behaviour, err := c.behaviour()
	require.NoError(t, err)
	require.Equal(t, stubapi.Decline, behaviour.Decide("p-1").Kind)
	require.Equal(t, stubapi.None, behaviour.Decide("p-2").Kind)
	require.Equal(t, 5*time.Millisecond, behaviour.LookupDelay())
	for _, wrong := range []struct{ name, value string }{
		{"RAIL_STUB_FAULTS", "decline"},
		{"RAIL_STUB_FAULTS", `{"faults":[{"kind":"explode"}]}`},
		{"RAIL_STUB_LATENCY", "-1s"},
		{"RAIL_STUB_LATENCY", "1h"},
		{"RAIL_STUB_LOOKUP_DELAY", "-1s"},
		{"RAIL_STUB_SEED", "x"},
		{"RAIL_STUB_LATENCI", "1s"},
	} {
		t.Run(wrong.name+"="+wrong.value, func(t *testing.T) {
			t.Setenv(wrong.name, wrong.value)
			_, err := LoadConfig()
			require.ErrorContains(t, err, wrong.name)
		})
	}
}
