package railproxy

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"railguard/docs/contracts/contracttest"
	"railguard/services/apierr"
	"railguard/services/httpserver"
	"railguard/services/railapi"
)

const anyUUID = "6f1b2c3d-0000-4000-8000-00000000abcd"

func TestEveryRouteIsDocumented(t *testing.T) {
	t.Parallel()
	p := start(t, newDatabase(t), "http://127.0.0.1:1", nil)
	contracttest.CheckRoutes(t, "rail-proxy", p.server.http.Engine().Routes())
}

func TestABadSubmissionIsRefusedAndLeavesNothing(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	rail := startRail(t, send(acknowledged))
	p := start(t, db, rail.url(), nil)
	header := func(name string, values ...string) func(*call) {
		return func(c *call) {
			if values == nil {
				delete(c.headers, name)
				return
			}
			c.headers[name] = values
		}
	}
	body := func(old, new string) func(*call) {
		return func(c *call) {
			if !strings.Contains(c.body, old) {
				panic("the body has no " + old)
			}
			c.body = strings.Replace(c.body, old, new, 1)
		}
	}
	raw := func(text string) func(*call) { return func(c *call) { c.body = text } }
	cases := []struct {
		name   string
		change func(*call)
		want   apierr.Code
		field  string
	}{
		{"no token", header("X-Fencing-Token"), apierr.InvalidToken, ""},
		{"two tokens", header("X-Fencing-Token", "1", "2"), apierr.InvalidToken, ""},
		{"no owner", header("X-Owner-Id"), apierr.ValidationFailed, "X-Owner-Id"},
		{"an owner with a space", header("X-Owner-Id", "a b"), apierr.ValidationFailed, "X-Owner-Id"},
		{"an owner too long", header("X-Owner-Id", strings.Repeat("o", 65)), apierr.ValidationFailed, "X-Owner-Id"},
		{"no key", header("X-Idempotency-Key"), apierr.ValidationFailed, "X-Idempotency-Key"},
		{"an empty key", header("X-Idempotency-Key", ""), apierr.ValidationFailed, "X-Idempotency-Key"},
		{"a key too long", header("X-Idempotency-Key", strings.Repeat("k", 129)), apierr.ValidationFailed, "X-Idempotency-Key"},
		{"a key with a slash", header("X-Idempotency-Key", "a/b"), apierr.ValidationFailed, "X-Idempotency-Key"},

		{"no body", raw(""), apierr.ValidationFailed, "body"},
		{"not JSON", raw("payoutId=1"), apierr.ValidationFailed, "body"},
		{"null", raw("null"), apierr.ValidationFailed, "body"},
		{"an array", raw("[]"), apierr.ValidationFailed, "body"},
		{"an empty object", raw("{}"), apierr.ValidationFailed, "payoutId"},
		{"truncated", body("}", ""), apierr.ValidationFailed, "body"},
		{"trailing data", body("}", "}{}"), apierr.ValidationFailed, "body"},
		{"not UTF-8", body("iban-1", "\xff"), apierr.ValidationFailed, "body"},
		{"an unknown field", body("}", `,"token":1}`), apierr.ValidationFailed, "body"},
		{"a duplicate key", body("}", `,"amountMinor":1}`), apierr.ValidationFailed, "body"},
		{"a duplicate key in another case", body("}", `,"AmountMinor":1}`), apierr.ValidationFailed, "body"},
		{"larger than allowed", body("iban-1", strings.Repeat("x", 64<<10)), apierr.ValidationFailed, "body"},

		{"a payout id that is no UUID", body(`"payoutId":"`, `"payoutId":"x`), apierr.ValidationFailed, "payoutId"},
		{"an account with a slash", body("acc-1", "acc/1"), apierr.ValidationFailed, "accountId"},
		{"an account too long", body("acc-1", strings.Repeat("a", 65)), apierr.ValidationFailed, "accountId"},
		{"an empty account", body("acc-1", ""), apierr.ValidationFailed, "accountId"},
		{"amount zero", body(`"amountMinor":100`, `"amountMinor":0`), apierr.ValidationFailed, "amountMinor"},
		{"amount below zero", body(`"amountMinor":100`, `"amountMinor":-1`), apierr.ValidationFailed, "amountMinor"},
		{"amount as text", body(`"amountMinor":100`, `"amountMinor":"100"`), apierr.ValidationFailed, "body"},
		{"amount with a fraction", body(`"amountMinor":100`, `"amountMinor":1.5`), apierr.ValidationFailed, "body"},
		{"amount with an exponent", body(`"amountMinor":100`, `"amountMinor":1e2`), apierr.ValidationFailed, "body"},
		{"amount beyond 63 bits", body(`"amountMinor":100`, `"amountMinor":9223372036854775808`), apierr.ValidationFailed, "body"},
		{"amount null", body(`"amountMinor":100`, `"amountMinor":null`), apierr.ValidationFailed, "amountMinor"},
		{"an unknown currency", body("EUR", "EUX"), apierr.ValidationFailed, "currency"},
		{"a currency in lower case", body("EUR", "eur"), apierr.ValidationFailed, "currency"},
		{"no beneficiary", body("iban-1", ""), apierr.ValidationFailed, "beneficiaryRef"},
		{"a beneficiary too long", body("iban-1", strings.Repeat("b", 257)), apierr.ValidationFailed, "beneficiaryRef"},
	}
	for _, token := range []string{"", "0", "-1", "+1", "01", " 1", "1 ", "1.0", "1e3", "0x1", "abc", "9223372036854775808", "1,2"} {
		cases = append(cases, struct {
			name   string
			change func(*call)
			want   apierr.Code
			field  string
		}{fmt.Sprintf("token %q", token), header("X-Fencing-Token", token), apierr.InvalidToken, ""})
	}
	for _, c := range cases {
		request := newSubmission(1).call()
		c.change(&request)
		if request.headers.Get("X-Fencing-Token") != strings.TrimSpace(request.headers.Get("X-Fencing-Token")) {
			continue // net/http trims it on the way
		}
		a := p.do(request)
		require.Equal(t, c.want, a.err.Code, "%s: %s", c.name, a.body)
		require.Equal(t, http.StatusBadRequest, a.status, c.name)
		if c.field != "" {
			fields, _ := a.err.Details["fields"].(map[string]any)
			require.Contains(t, fields, c.field, c.name)
		}
	}
	require.Empty(t, db.rows(t))
	require.Zero(t, db.mark(t, "acc-1"))
	require.Zero(t, rail.connections())
}

func TestOtherBadRequestsAreRefused(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	p := start(t, db, "http://127.0.0.1:1", nil)
	fence := "/v1/rail/accounts/acc-1/fence"
	for _, c := range []struct {
		method, path, body string
		want               apierr.Code
		field              string
	}{
		{"GET", "/v1/rail/submissions/x", "", apierr.ValidationFailed, "payoutId"},
		{"GET", "/v1/rail/submissions/" + strings.ToUpper(anyUUID), "", apierr.ValidationFailed, "payoutId"},
		{"GET", "/v1/rail/lookups/x%00", "", apierr.ValidationFailed, "clientRef"},
		{"GET", "/v1/rail/lookups/'%3B--", "", apierr.ValidationFailed, "clientRef"},
		{"POST", "/v1/rail/accounts/a%20b/fence", `{"floor":1,"reason":"r"}`, apierr.ValidationFailed, "accountId"},
		{"POST", "/v1/rail/accounts/" + strings.Repeat("a", 65) + "/fence", `{"floor":1,"reason":"r"}`, apierr.ValidationFailed, "accountId"},
		{"POST", fence, "", apierr.ValidationFailed, "body"},
		{"POST", fence, `{"floor":1}`, apierr.ValidationFailed, "reason"},
		{"POST", fence, `{"reason":"r"}`, apierr.ValidationFailed, "floor"},
		{"POST", fence, `{"floor":0,"reason":"r"}`, apierr.ValidationFailed, "floor"},
		{"POST", fence, `{"floor":-5,"reason":"r"}`, apierr.ValidationFailed, "floor"},
		{"POST", fence, `{"floor":1125899906842625,"reason":"r"}`, apierr.ValidationFailed, "floor"},
		{"POST", fence, `{"floor":9223372036854775808,"reason":"r"}`, apierr.ValidationFailed, "body"},
		{"POST", fence, `{"floor":"1","reason":"r"}`, apierr.ValidationFailed, "body"},
		{"POST", fence, `{"floor":1,"reason":"r","force":true}`, apierr.ValidationFailed, "body"},
		{"POST", fence, `{"floor":1,"reason":"` + strings.Repeat("r", 1001) + `"}`, apierr.ValidationFailed, "reason"},
		{"POST", fence, `{"floor":1,"reason":"r\u0000"}`, apierr.ValidationFailed, "reason"},
		{"GET", fence, "", apierr.NotFound, ""},
		{"DELETE", "/v1/rail/submissions/" + anyUUID, "", apierr.NotFound, ""},
		{"PUT", "/v1/rail/submissions", "{}", apierr.NotFound, ""},
		{"GET", "/v1/rail", "", apierr.NotFound, ""},
		{"GET", "/v2/rail/fences/highest", "", apierr.NotFound, ""},
	} {
		a := p.do(call{method: c.method, path: c.path, body: c.body, role: httpserver.Operator})
		require.Equal(t, c.want, a.err.Code, "%s %s %s: %s", c.method, c.path, c.body, a.body)
		if c.field != "" {
			fields, _ := a.err.Details["fields"].(map[string]any)
			require.Contains(t, fields, c.field, "%s %s", c.path, c.body)
		}
	}
	owner := call{method: "POST", path: fence, body: `{"floor":1,"reason":"r"}`, role: httpserver.Operator, headers: http.Header{"X-Owner-Id": {"a b"}}}
	requireCode(t, apierr.ValidationFailed, p.do(owner))
	require.Zero(t, db.mark(t, "acc-1"))
}

func TestEachRouteIsOpenToItsRolesAlone(t *testing.T) {
	t.Parallel()
	rail := startRail(t, send(response(200, `{"transfers":[]}`)))
	p := start(t, newDatabase(t), rail.url(), nil)
	for _, c := range []struct {
		call call
		open []httpserver.Role
	}{
		{call{method: "POST", path: "/v1/rail/submissions", body: "{}"}, []httpserver.Role{httpserver.Executor}},
		{call{method: "POST", path: "/v1/rail/accounts/acc-1/fence", body: "{}"}, []httpserver.Role{httpserver.Operator, httpserver.Resolver}},
		{call{method: "GET", path: "/v1/rail/submissions/" + anyUUID}, allRoles},
		{call{method: "GET", path: "/v1/rail/lookups/" + anyUUID}, allRoles},
		{call{method: "GET", path: "/v1/rail/fences/highest"}, allRoles},
	} {
		requireCode(t, apierr.Unauthenticated, p.do(c.call))
		c.call.role = "somebody"
		requireCode(t, apierr.Unauthenticated, p.do(c.call))
		for _, role := range allRoles {
			c.call.role = role
			a := p.do(c.call)
			require.Equal(t, !slices.Contains(c.open, role), a.err.Code == apierr.Forbidden, "%s %s as %s: %s", c.call.method, c.call.path, role, a.body)
		}
	}
}

func TestARaisedFenceIsNeverLowered(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	p := start(t, db, "http://127.0.0.1:1", nil)
	highest := func() string {
		return string(p.do(call{method: "GET", path: "/v1/rail/fences/highest", role: httpserver.Reader}).body)
	}
	require.JSONEq(t, `{"highest":0}`, highest())
	for _, step := range []struct{ floor, fence int64 }{{7, 7}, {3, 7}, {7, 7}, {1 << 50, 1 << 50}, {8, 1 << 50}} {
		a := p.raise("acc-1", step.floor)
		require.Equal(t, http.StatusOK, a.status, "%s", a.body)
		require.JSONEq(t, fmt.Sprintf(`{"accountId":"acc-1","fence":%d}`, step.fence), string(a.body))
		require.Equal(t, step.fence, db.mark(t, "acc-1"))
	}
	require.Equal(t, http.StatusOK, p.raise("acc-2", 9).status)
	require.JSONEq(t, `{"highest":1125899906842624}`, highest())
}

func TestTheRecordOfAPayoutIsListedOldestFirst(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	rail := startRail(t, send(acknowledged))
	p := start(t, db, rail.url(), nil)
	s := newSubmission(5)
	get := func() railapi.Submissions {
		a := p.do(call{method: "GET", path: "/v1/rail/submissions/" + s.Payout, role: httpserver.Reader})
		require.Equal(t, http.StatusOK, a.status, "%s", a.body)
		var got railapi.Submissions
		require.NoError(t, json.Unmarshal(a.body, &got))
		return got
	}
	require.Equal(t, railapi.Submissions{PayoutID: s.Payout, Submissions: []railapi.Submission{}}, get())
	p.raise(s.Account, 6)
	requireCode(t, apierr.FencedOut, p.submit(s))
	requireAcked(t, p.submit(s.under(7)))
	requireAcked(t, p.submit(s.another(8)))
	got := get().Submissions
	require.Len(t, got, 2)
	require.Equal(t, railapi.Fenced, got[0].Outcome)
	require.EqualValues(t, 5, got[0].PresentedToken)
	require.Equal(t, railapi.Acked, got[1].Outcome)
	require.Equal(t, got[0].ProxyInstance, got[1].ProxyInstance)
	require.NotEmpty(t, got[1].ProxyInstance)
}

func TestALookupPassesOnWhatTheRailKnowsAndNothingElse(t *testing.T) {
	t.Parallel()
	ref := uuid.NewString()
	transfer := `{"railReference":"RAIL-1","clientRef":"` + ref + `","amountMinor":5,"currency":"JPY","at":"2026-01-01T00:00:00Z"}`
	many := strings.Repeat(transfer+",", 100) + transfer
	for name, c := range map[string]struct {
		answer    answering
		transfers int // -1 for RAIL_UNAVAILABLE
	}{
		"none":                   {send(response(200, `{"transfers":[]}`)), 0},
		"one":                    {send(response(200, `{"transfers":[`+transfer+`]}`)), 1},
		"two":                    {send(response(200, `{"transfers":[`+transfer+`,`+transfer+`]}`)), 2},
		"another's":              {send(response(200, `{"transfers":[`+strings.Replace(transfer, ref, anyUUID, 1)+`]}`)), -1},
		"an unusable reference":  {send(response(200, `{"transfers":[`+strings.Replace(transfer, "RAIL-1", "", 1)+`]}`)), -1},
		"too many":               {send(response(200, `{"transfers":[`+many+`]}`)), -1},
		"no list":                {send(response(200, `{}`)), -1},
		"not JSON":               {send(response(200, `none`)), -1},
		"an error":               {send(response(500, ``)), -1},
		"not found":              {send(response(404, ``)), -1},
		"a dropped connection":   {func(net.Conn, int) bool { return false }, -1},
		"a redirect":             {send(response(302, "", "Location: /transfers?clientRef="+ref)), -1},
		"an unknown extra field": {send(response(200, `{"transfers":[],"asOf":1}`)), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rail := startRail(t, c.answer)
			p := start(t, newDatabase(t), rail.url(), nil)
			a := p.do(call{method: "GET", path: "/v1/rail/lookups/" + ref, role: httpserver.Resolver})
			request, body := rail.request(1)
			require.Equal(t, "/transfers", request.URL.Path)
			require.Equal(t, ref, request.URL.Query().Get("clientRef"))
			require.Equal(t, http.MethodGet, request.Method)
			require.Empty(t, body)
			if c.transfers < 0 {
				requireCode(t, apierr.RailUnavailable, a)
				return
			}
			var got railapi.Lookup
			require.NoError(t, json.Unmarshal(a.body, &got))
			require.Equal(t, ref, got.ClientRef)
			require.Len(t, got.Transfers, c.transfers)
		})
	}
}

func TestEverySeriesIsZeroFromTheFirstScrape(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	rail := startRail(t, send(acknowledged))
	p := start(t, db, rail.url(), nil)
	for _, outcome := range []string{"acked", "rejected", "timeout", "fenced", "unsent"} {
		require.Zero(t, p.submissions(outcome))
	}
	require.Zero(t, p.fencedOut())
	require.Zero(t, p.duplicates())
	require.EqualValues(t, 1, p.metric("fencing_enabled", "guard", "rail"))
	require.EqualValues(t, 8, p.metric("pgx_pool_max_conns"))

	s := newSubmission(987654321)
	s.Account = "acc-of-nobody"
	requireAcked(t, p.submit(s))
	requireCode(t, apierr.DuplicateSubmission, p.submit(s))
	a := p.do(call{method: "GET", path: "/actuator/prometheus"})
	for _, secret := range []string{s.Payout, s.Account, s.Key, "987654321", "RAIL-1"} {
		require.NotContains(t, string(a.body), secret)
	}
}

func TestReadinessNeedsTheRailAndNeverSubmits(t *testing.T) {
	t.Parallel()
	rail := startRail(t, send(acknowledged))
	p := start(t, newDatabase(t), rail.url(), nil)
	require.Equal(t, http.StatusOK, p.ready())
	require.Zero(t, rail.count())
	require.NoError(t, rail.listener.Close())
	a := p.do(call{method: "GET", path: "/actuator/health/readiness"})
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.Contains(t, string(a.body), "the rail is not reachable")
}

func TestInfoTellsWhatCallersCheck(t *testing.T) {
	t.Parallel()
	p := start(t, newDatabase(t), "http://127.0.0.1:1", func(c *Config) { c.FencingEnabled, c.RailTimeout = false, 1500*time.Millisecond })
	for _, path := range []string{"/info", "/actuator/info"} {
		var info railapi.Info
		require.NoError(t, json.Unmarshal(p.do(call{method: "GET", path: path}).body, &info))
		require.Equal(t, "rail-proxy", info.Service)
		require.False(t, info.FencingEnabled)
		require.EqualValues(t, 1500, info.RailTimeoutMillis)
	}
}
