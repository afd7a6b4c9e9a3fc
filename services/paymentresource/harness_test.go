package paymentresource

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"railguard/deploy/local/pgserver"
	"railguard/docs/contracts/contracttest"
	"railguard/services/apierr"
	"railguard/services/httpclient"
	"railguard/services/httpserver"
	"railguard/services/paymentapi"
	"railguard/services/telemetry"
)

// pg is the one PostgreSQL server of this package's tests; each test has a database of its own in it.
var pg *pgserver.Server

const (
	template        = "payment_template"
	payappPassword  = "payapp-password"
	reconPassword   = "reconciler-password"
	eventually      = 30 * time.Second
	eventuallyEvery = 10 * time.Millisecond
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx := context.Background()
	server, err := startMigrated(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = server.Stop() }()
	pg = server
	return m.Run()
}

// startMigrated starts a server with a migrated template database and the roles' passwords set.
func startMigrated(ctx context.Context) (*pgserver.Server, error) {
	server, err := pgserver.Start(ctx, pgserver.Options{Volatile: true})
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*pgserver.Server, error) {
		_ = server.Stop()
		return nil, err
	}
	if err := server.CreateDatabase(ctx, template, ""); err != nil {
		return fail(err)
	}
	if err := Migrate(ctx, server.URL(template)); err != nil {
		return fail(err)
	}
	conn, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		return fail(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, "ALTER ROLE payapp PASSWORD '"+payappPassword+"'; ALTER ROLE reconciler PASSWORD '"+reconPassword+"'")
	if err != nil {
		return fail(err)
	}
	return server, nil
}

var databases atomic.Int64

// newDatabase makes a migrated database for one test and returns its name.
func newDatabase(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("payment_%d", databases.Add(1))
	require.NoError(t, pg.CreateDatabase(context.Background(), name, template))
	return name
}

// fixture is a running payment-resource on a database of its own.
type fixture struct {
	t        testing.TB
	owner    *pgxpool.Pool // the superuser's view of the database
	database string
	base     string
	server   *server
	client   *http.Client
	log      *buffer
}

// buffer is a log that a test reads while the service writes it.
type buffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

// events are the records of one event.
func (b *buffer) events(t testing.TB, name string) []map[string]any {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []map[string]any
	for line := range strings.Lines(b.data.String()) {
		var record map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &record))
		if record["event"] == name {
			found = append(found, record)
		}
	}
	return found
}

// people are the callers that the tokens file knows; a caller's bearer token is its name.
var people = map[string]httpserver.Role{
	"executor": httpserver.Executor, "resolver": httpserver.Resolver, "intake": httpserver.Intake,
	"reconciler": httpserver.Reconciler, "reader": httpserver.Reader,
	"alice": httpserver.Operator, "bob": httpserver.Operator, "carol": httpserver.Operator,
}

func tokensFile(t testing.TB) string {
	t.Helper()
	var entries []httpserver.TokenEntry
	for name, role := range people {
		entries = append(entries, httpserver.TokenEntry{Name: name, Role: role, SHA256: httpserver.HashBearer(name)})
	}
	data, err := json.Marshal(entries)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "tokens.json")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

func start(t testing.TB, change ...func(*Config)) *fixture {
	t.Helper()
	return startOn(t, newDatabase(t), change...)
}

// startOn boots the real service, as the role payapp, on a database that exists.
func startOn(t testing.TB, database string, change ...func(*Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, database: database, log: &buffer{}, client: contracttest.NewClient(t, Name)}
	cfg := Config{ListenAddr: "127.0.0.1:0", DatabaseURL: pg.RoleURL(database, "payapp", payappPassword), DatabasePool: 8,
		FencingEnabled: true, AuthTokensFile: tokensFile(t)}
	for _, c := range change {
		c(&cfg)
	}
	ctx, stop := context.WithCancel(context.Background())
	s, err := newServer(ctx, cfg, telemetry.NewLogger(f.log, Name))
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.http.Run(ctx, drain) }()
	t.Cleanup(func() {
		f.client.CloseIdleConnections()
		stop()
		require.NoError(t, <-ended)
		s.pool.Close()
	})
	f.server, f.base = s, "http://"+s.Addr()
	ownerConfig, err := pgxpool.ParseConfig(pg.URL(database))
	require.NoError(t, err)
	ownerConfig.MaxConns = 2
	f.owner, err = pgxpool.NewWithConfig(context.Background(), ownerConfig)
	require.NoError(t, err)
	t.Cleanup(f.owner.Close)
	return f
}

// on is the fixture for a subtest.
func (f *fixture) on(t testing.TB) *fixture {
	c := *f
	c.t = t
	return &c
}

func unguarded(c *Config) { c.FencingEnabled = false }

// call is one request of a test.
type call struct {
	as, method, path string
	token            any // number, string, or nil for none
	owner            string
	key              string
	body             any // a string is sent as it is
	header           http.Header
}

// reply is an answer with its envelope when it is a refusal.
type reply struct {
	t      testing.TB
	status int
	body   []byte
	err    apierr.Error
}

func (f *fixture) do(c call) reply {
	f.t.Helper()
	var body io.Reader
	switch b := c.body.(type) {
	case nil:
	case string:
		body = strings.NewReader(b)
	default:
		data, err := json.Marshal(b)
		require.NoError(f.t, err)
		body = bytes.NewReader(data)
	}
	if c.method == "" {
		c.method = http.MethodPost
	}
	req, err := http.NewRequest(c.method, f.base+c.path, body)
	require.NoError(f.t, err)
	if c.as != "" {
		req.Header.Set("Authorization", "Bearer "+c.as)
	}
	if c.token != nil {
		req.Header.Set("X-Fencing-Token", fmt.Sprint(c.token))
	}
	if c.owner != "" {
		req.Header.Set("X-Owner-Id", c.owner)
	}
	if c.key != "" {
		req.Header.Set("X-Idempotency-Key", c.key)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range c.header {
		req.Header[name] = values
	}
	res, err := f.client.Do(req)
	require.NoError(f.t, err)
	data, err := io.ReadAll(res.Body)
	require.NoError(f.t, err)
	require.NoError(f.t, res.Body.Close())
	r := reply{t: f.t, status: res.StatusCode, body: data}
	if res.StatusCode >= 300 {
		require.NoError(f.t, json.Unmarshal(data, &r.err), "%s", data)
	}
	return r
}

// into requires the status and decodes the answer.
func (r reply) into(status int, v any) {
	r.t.Helper()
	require.Equal(r.t, status, r.status, "%s", r.body)
	require.NoError(r.t, json.Unmarshal(r.body, v))
}

// refused requires a refusal with this code and the status that belongs to it.
func (r reply) refused(code apierr.Code) reply {
	r.t.Helper()
	require.Equal(r.t, code, r.err.Code, "%d %s", r.status, r.body)
	row, _ := apierr.Lookup(code)
	require.Equal(r.t, row.Status, r.status)
	return r
}

// detail requires one detail of a refusal.
func (r reply) detail(name string, want any) reply {
	r.t.Helper()
	require.EqualValues(r.t, want, r.err.Details[name], "%s", r.body)
	return r
}

func (f *fixture) account(id string, opening int64) {
	f.t.Helper()
	f.do(call{as: "intake", path: "/v1/accounts", owner: "test", body: paymentapi.CreateAccountRequest{
		AccountID: id, Currency: "EUR", OpeningMinor: opening}}).into(http.StatusCreated, &paymentapi.Account{})
}

func (f *fixture) payout(account string, amount int64) paymentapi.Payout {
	f.t.Helper()
	var p paymentapi.Payout
	f.do(call{as: "intake", path: "/v1/payouts", owner: "test", body: paymentapi.CreatePayoutRequest{
		ExternalRef: uuid.NewString(), AccountID: account, AmountMinor: amount, Currency: "EUR", BeneficiaryRef: "NL02ABNA0123456789"}}).
		into(http.StatusCreated, &p)
	return p
}

// owner is the owner id that a token's holder has in these tests.
func owner(token int64) string { return fmt.Sprintf("run-%d", token) }

func (f *fixture) claim(p paymentapi.Payout, token int64) reply {
	f.t.Helper()
	return f.do(call{as: "executor", path: "/v1/payouts/" + p.PayoutID + "/claim", token: token, owner: owner(token),
		body: paymentapi.ClaimRequest{AccountID: p.AccountID, ExpectedState: paymentapi.Claimable}})
}

func (f *fixture) claimed(p paymentapi.Payout, token int64) paymentapi.Claim {
	f.t.Helper()
	var c paymentapi.Claim
	f.claim(p, token).into(http.StatusOK, &c)
	return c
}

var railTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func acknowledgement(reference string) paymentapi.PostRequest {
	resolved := railTime.Add(time.Second)
	return paymentapi.PostRequest{RailReference: reference, SubmissionID: "7d444840-9dc0-11d1-b245-5ffdce74fad2", RailOutcome: "ACKED",
		SubmittedAt: &railTime, ResolvedAt: &resolved}
}

func (f *fixture) post(p paymentapi.Payout, token int64, body any) reply {
	f.t.Helper()
	return f.do(call{as: "executor", path: "/v1/payouts/" + p.PayoutID + "/post", token: token, owner: owner(token), key: p.PayoutID, body: body})
}

func (f *fixture) outcome(p paymentapi.Payout, token int64, outcome string) reply {
	f.t.Helper()
	return f.do(call{as: "executor", path: "/v1/payouts/" + p.PayoutID + "/rail-outcome", token: token, owner: owner(token), key: p.PayoutID,
		body: paymentapi.RailOutcomeRequest{RailOutcome: outcome, Reason: "the rail said so"}})
}

func (f *fixture) abandon(p paymentapi.Payout, token int64) reply {
	f.t.Helper()
	return f.do(call{as: "executor", path: "/v1/payouts/" + p.PayoutID + "/abandon-claim", token: token, owner: owner(token),
		body: paymentapi.AbandonRequest{Reason: "not enough lease left"}})
}

func (f *fixture) resolve(as string, p paymentapi.Payout, token int64, r paymentapi.ResolutionRequest) reply {
	f.t.Helper()
	return f.do(call{as: as, path: "/v1/payouts/" + p.PayoutID + "/resolution", token: token, owner: owner(token), body: r})
}

func (f *fixture) cancel(p paymentapi.Payout, reason string) reply {
	f.t.Helper()
	return f.do(call{as: "alice", path: "/v1/payouts/" + p.PayoutID + "/cancel", owner: "test",
		body: paymentapi.CancelRequest{Operator: "alice", Reason: reason}})
}

func (f *fixture) raise(account string, floor int64) reply {
	f.t.Helper()
	return f.do(call{as: "resolver", path: "/v1/accounts/" + account + "/fence", owner: "test",
		body: map[string]any{"floor": floor, "reason": "before a resolution"}})
}

func (f *fixture) getAccount(id string) paymentapi.Account {
	f.t.Helper()
	var a paymentapi.Account
	f.do(call{as: "reader", method: http.MethodGet, path: "/v1/accounts/" + id}).into(http.StatusOK, &a)
	return a
}

func (f *fixture) getPayout(id string) paymentapi.Payout {
	f.t.Helper()
	var p paymentapi.Payout
	f.do(call{as: "reader", method: http.MethodGet, path: "/v1/payouts/" + id}).into(http.StatusOK, &p)
	return p
}

// one reads one value from the database.
func one[T any](f *fixture, sql string, args ...any) T {
	f.t.Helper()
	var v T
	require.NoError(f.t, f.owner.QueryRow(context.Background(), sql, args...).Scan(&v))
	return v
}

// snapshot is everything that the database holds, so that a test can require that nothing was written.
func (f *fixture) snapshot() string {
	f.t.Helper()
	var all strings.Builder
	for _, table := range []string{"account", "payout", "payout_claim", "payout_transition", "payout_resolution", "payout_evidence",
		"payout_resolution_proposal", "funding", "ledger_entry"} {
		all.WriteString(one[string](f, `SELECT coalesce(string_agg(t::text, chr(10) ORDER BY t::text), '') FROM `+table+` t`))
		all.WriteString("\n--\n")
	}
	return all.String()
}

// typed is the typed client, as a caller would use it.
func (f *fixture) typed(bearer string) *paymentapi.Client {
	f.t.Helper()
	client, err := paymentapi.NewClient(f.base, httpclient.Identity{Bearer: bearer})
	require.NoError(f.t, err)
	return client
}

// metric reads one series from the metrics page; false when it is absent.
func (f *fixture) metric(series string) (string, bool) {
	f.t.Helper()
	res, err := f.client.Get(f.base + "/metrics")
	require.NoError(f.t, err)
	defer func() { _ = res.Body.Close() }()
	page, err := io.ReadAll(res.Body)
	require.NoError(f.t, err)
	for line := range strings.Lines(string(page)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			return value, true
		}
	}
	return "", false
}

// fencedOut requires what lock_fenced_out_total says, and as many events.
func (f *fixture) fencedOut(account, ledger int) {
	f.t.Helper()
	for resource, want := range map[string]int{"account": account, "ledger": ledger} {
		got, ok := f.metric(`lock_fenced_out_total{resource="` + resource + `"}`)
		require.True(f.t, ok)
		require.Equal(f.t, fmt.Sprint(want), got, resource)
	}
	require.Len(f.t, f.log.events(f.t, "fenced_out"), account+ledger)
}

// sound requires INV-03 of every account: balance equals the sum of the entries, and reserved the sum of what is
// claimed, acknowledged or ambiguous.
func (f *fixture) sound() {
	f.t.Helper()
	require.Zero(f.t, one[int](f, `SELECT count(*) FROM account a WHERE kind = 'CUSTOMER' AND (
		balance_minor <> coalesce((SELECT sum(CASE direction WHEN 'CREDIT' THEN amount_minor ELSE -amount_minor END)
			FROM ledger_entry e WHERE e.account_id = a.account_id), 0)
		OR reserved_minor <> coalesce((SELECT sum(amount_minor) FROM payout p WHERE p.account_id = a.account_id
			AND state IN ('CLAIMED', 'RAIL_ACKED', 'RAIL_AMBIGUOUS')), 0))`))
	require.Zero(f.t, one[int](f, `SELECT count(*) FROM (SELECT FROM ledger_entry GROUP BY entry_group
		HAVING sum(CASE direction WHEN 'DEBIT' THEN amount_minor ELSE -amount_minor END) <> 0) unbalanced`))
}
