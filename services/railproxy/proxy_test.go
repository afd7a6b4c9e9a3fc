package railproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"railguard/docs/contracts/contracttest"
	"railguard/services/apierr"
	"railguard/services/httpserver"
	"railguard/services/telemetry"
)

// proxy is a running rail-proxy.
type proxy struct {
	t      *testing.T
	base   string
	http   *http.Client
	server *server
	log    *os.File
	// stop begins the end, as SIGTERM does; ended is closed when the process would be gone.
	stop  context.CancelFunc
	ended <-chan struct{}
}

var allRoles = httpserver.AnyRole

func bearer(role httpserver.Role) string { return "bearer-of-" + string(role) }

func tokensFile(t *testing.T) string {
	t.Helper()
	var entries []httpserver.TokenEntry
	for _, role := range allRoles {
		entries = append(entries, httpserver.TokenEntry{Name: "test-" + string(role), Role: role, SHA256: httpserver.HashBearer(bearer(role))})
	}
	data, err := json.Marshal(entries)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "tokens.json")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// start boots the real process on a free port; change may be nil.
func start(t *testing.T, db *database, railURL string, change func(*Config)) *proxy {
	t.Helper()
	cfg := Config{ListenAddr: "127.0.0.1:0", DatabaseURL: db.roleURL("railapp"), DBPool: 8, RailURL: railURL,
		RailTimeout: time.Minute, FencingEnabled: true, AuthTokensFile: tokensFile(t)}
	if change != nil {
		change(&cfg)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "proxy.log"))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	s, err := newServer(ctx, cfg, telemetry.NewLogger(log, "rail-proxy"))
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	}()
	p := &proxy{t: t, base: "http://" + s.Addr(), http: contracttest.NewClient(t, "rail-proxy"), server: s, log: log, stop: stop, ended: ended}
	t.Cleanup(func() {
		stop()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Error("the process did not end") // a test that failed may have left a submission without its database
		}
		_ = log.Close()
	})
	return p
}

// call is one request to the proxy; the zero value of a field leaves its header out.
type call struct {
	method, path string
	role         httpserver.Role
	headers      http.Header
	body         string
}

// answer is what came back.
type answer struct {
	status int
	body   []byte
	err    apierr.Error // with a status of 400 and above
}

func (p *proxy) try(ctx context.Context, c call) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, c.method, p.base+c.path, bytes.NewReader([]byte(c.body)))
	if err != nil {
		return answer{}, err
	}
	if c.role != "" {
		req.Header.Set("Authorization", "Bearer "+bearer(c.role))
	}
	if c.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range c.headers {
		req.Header[name] = values
	}
	res, err := p.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: res.StatusCode, body: body}
	if res.StatusCode >= 400 && res.Header.Get("Content-Type") == "application/json; charset=utf-8" {
		err = json.Unmarshal(body, &a.err)
	}
	return a, err
}

func (p *proxy) do(c call) answer {
	p.t.Helper()
	a, err := p.try(p.t.Context(), c)
	require.NoError(p.t, err)
	return a
}

// submission is a well-formed submission, to be changed by a test.
type submission struct {
	Payout, Account, Key, Owner string
	Token, Amount               int64
}

func newSubmission(token int64) submission {
	payout := uuid.NewString()
	return submission{Payout: payout, Account: "acc-1", Key: "key-" + payout, Owner: "run-1", Token: token, Amount: 100}
}

func (s submission) call() call {
	return call{
		method: http.MethodPost, path: "/v1/rail/submissions", role: httpserver.Executor,
		headers: http.Header{"X-Fencing-Token": {strconv.FormatInt(s.Token, 10)}, "X-Owner-Id": {s.Owner}, "X-Idempotency-Key": {s.Key}},
		body: fmt.Sprintf(`{"payoutId":%q,"accountId":%q,"amountMinor":%d,"currency":"EUR","beneficiaryRef":"iban-1"}`,
			s.Payout, s.Account, s.Amount),
	}
}

func (p *proxy) submit(s submission) answer {
	p.t.Helper()
	return p.do(s.call())
}

// requireCode fails unless the answer is the refusal of this code.
func requireCode(t *testing.T, want apierr.Code, a answer) {
	t.Helper()
	require.Equal(t, want, a.err.Code, "status %d: %s", a.status, a.body)
}

func requireAcked(t *testing.T, a answer) {
	t.Helper()
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
}

// metric is the value of one series, which must exist; labels are name, value, name, value.
func (p *proxy) metric(name string, labels ...string) float64 {
	p.t.Helper()
	res, err := http.Get(p.base + "/metrics")
	require.NoError(p.t, err)
	defer func() { _ = res.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(res.Body)
	require.NoError(p.t, err)
	require.Contains(p.t, families, name)
	for _, m := range families[name].GetMetric() {
		given := make(map[string]string)
		for _, l := range m.GetLabel() {
			given[l.GetName()] = l.GetValue()
		}
		wanted := make(map[string]string)
		for i := 0; i < len(labels); i += 2 {
			wanted[labels[i]] = labels[i+1]
		}
		if fmt.Sprint(given) == fmt.Sprint(wanted) {
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	require.Fail(p.t, "no such series", "%s %v", name, labels)
	return 0
}

func (p *proxy) submissions(outcome string) float64 {
	return p.metric("rail_submission_total", "outcome", outcome)
}

func (p *proxy) duplicates() float64 { return p.metric("rail_duplicate_attempted_total") }

func (p *proxy) fencedOut() float64 { return p.metric("lock_fenced_out_total", "resource", "rail") }

// raise raises the fence of an account.
func (p *proxy) raise(account string, floor int64) answer {
	p.t.Helper()
	return p.do(call{method: http.MethodPost, path: "/v1/rail/accounts/" + account + "/fence", role: httpserver.Resolver,
		body: fmt.Sprintf(`{"floor":%d,"reason":"before a resolution"}`, floor)})
}
