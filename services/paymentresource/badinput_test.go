package paymentresource

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
	"railguard/services/httpserver"
)

const somebody = "00000000-0000-4000-8000-000000000000"

// endpoint is one route with a request that is right in form.
type endpoint struct {
	method, path string
	roles        []httpserver.Role
	as           string
	token, owner bool
	key          bool
	body         map[string]any
	wrong        map[string][]any // by field, values that must be refused
}

func long(n int) string { return strings.Repeat("x", n) }

var (
	badText    = []any{"", "a\u0000b", "a\nb", 7, []any{}, nil}
	badAccount = []any{"", "a b", "a:b", "a/b", "ä", long(65), 7, nil}
	badAmount  = []any{0, -1, 1.5, "1", nil, true, 9223372036854775808.0, -9223372036854775809.0}
)

func texts(limit int) []any { return append([]any{long(limit + 1)}, badText...) }

func endpoints() []endpoint {
	payout := "/v1/payouts/" + somebody
	intake, execute := []httpserver.Role{httpserver.Intake}, []httpserver.Role{httpserver.Executor}
	resolve, operate := []httpserver.Role{httpserver.Resolver, httpserver.Operator}, []httpserver.Role{httpserver.Operator}
	newPayout := map[string]any{"externalRef": "e", "accountId": "acc", "amountMinor": 1, "currency": "EUR", "beneficiaryRef": "b"}
	currencies := []any{"", "eur", "EURO", "XXX", "E\u0000R", 7, nil}
	return []endpoint{
		{method: "POST", path: "/v1/accounts", roles: intake, as: "intake", owner: true,
			body: map[string]any{"accountId": "new", "currency": "EUR", "openingMinor": 1},
			wrong: map[string][]any{"accountId": append(badAccount, "clearing.EUR", "funding.EUR", "clearing.x"), "currency": currencies,
				"openingMinor": {-1, 1.5, "1", true, 9223372036854775808.0}}},
		{method: "POST", path: "/v1/accounts/acc/funding", roles: intake, as: "intake", owner: true,
			body:  map[string]any{"externalRef": "e", "amountMinor": 1},
			wrong: map[string][]any{"externalRef": append(texts(128), "opening:acc"), "amountMinor": badAmount}},
		{method: "POST", path: "/v1/payouts", roles: intake, as: "intake", owner: true, body: newPayout,
			wrong: map[string][]any{"externalRef": texts(128), "accountId": badAccount, "amountMinor": badAmount, "currency": currencies,
				"beneficiaryRef": texts(256)}},
		{method: "POST", path: "/v1/payouts:batch", roles: intake, as: "intake", owner: true,
			body:  map[string]any{"payouts": []any{newPayout}},
			wrong: map[string][]any{"payouts": {nil, []any{}, 7, map[string]any{}, []any{7}, []any{map[string]any{}}}}},
		{method: "POST", path: payout + "/claim", roles: execute, as: "executor", token: true, owner: true,
			body:  map[string]any{"accountId": "acc", "expectedState": "CLAIMABLE"},
			wrong: map[string][]any{"accountId": badAccount, "expectedState": {"", "POSTED", "claimable", 7, nil}}},
		{method: "POST", path: payout + "/post", roles: execute, as: "executor", token: true, owner: true, key: true,
			body: map[string]any{"railReference": "r", "submissionId": somebody, "railOutcome": "ACKED",
				"submittedAt": "2026-03-01T12:00:00Z", "resolvedAt": "2026-03-01T12:00:01Z"},
			wrong: map[string][]any{"railReference": texts(256), "submissionId": {"", "x", strings.ToUpper("00000000-0000-4000-8000-00000000000a"), 7, nil},
				"railOutcome": {"", "REJECTED", "acked", 7, nil}, "submittedAt": {"", "yesterday", 7, nil},
				"resolvedAt": {"", "2026-13-01T00:00:00Z", nil}}},
		{method: "POST", path: payout + "/rail-outcome", roles: execute, as: "executor", token: true, owner: true, key: true,
			body:  map[string]any{"railOutcome": "TIMEOUT", "reason": "r", "submissionId": somebody},
			wrong: map[string][]any{"railOutcome": {"", "ACKED", "timeout", 7, nil}, "reason": texts(1000), "submissionId": {"x", 7}}},
		{method: "POST", path: payout + "/abandon-claim", roles: execute, as: "executor", token: true, owner: true,
			body: map[string]any{"reason": "r"}, wrong: map[string][]any{"reason": texts(1000)}},
		{method: "POST", path: payout + "/resolution", roles: resolve, as: "alice", token: true, owner: true,
			body: map[string]any{"outcome": "SETTLED", "railReference": "r", "evidence": map[string]any{"a": 1}, "reason": "r"},
			wrong: map[string][]any{"outcome": {"", "POSTED", "settled", "ABSENT", "ABANDONED", 7, nil}, "railReference": texts(256), "reason": texts(1000),
				"evidence":       {nil, "x", 7, []any{}, map[string]any{}, map[string]any{"a": "\u0000"}, map[string]any{"\u0000": 1}, map[string]any{"a": []any{map[string]any{"b": "\u0000"}}}},
				"secondOperator": {"alice", long(65), 7}, "evidenceOnly": {true, 7}}},
		{method: "POST", path: payout + "/cancel", roles: operate, as: "alice", owner: true,
			body: map[string]any{"operator": "alice", "reason": "r"}, wrong: map[string][]any{"operator": texts(64), "reason": texts(1000)}},
		{method: "POST", path: "/v1/accounts/acc/fence", roles: resolve, as: "alice", owner: true,
			body:  map[string]any{"floor": 1, "reason": "r"},
			wrong: map[string][]any{"floor": {0, -1, 1.5, "1", nil, 1<<50 + 1, 9223372036854775808.0}, "reason": texts(1000)}},
		{method: "GET", path: payout, roles: httpserver.AnyRole, as: "reader"},
		{method: "GET", path: "/v1/payouts", roles: httpserver.AnyRole, as: "reader"},
		{method: "GET", path: "/v1/accounts/acc", roles: httpserver.AnyRole, as: "reader"},
		{method: "GET", path: "/v1/fences/highest", roles: httpserver.AnyRole, as: "reader"},
	}
}

func (e endpoint) request() call {
	c := call{as: e.as, method: e.method, path: e.path}
	if e.token {
		c.token = 5
	}
	if e.owner {
		c.owner = "o"
	}
	if e.key {
		c.key = "k"
	}
	if e.body != nil {
		c.body = e.body
	}
	return c
}

// Every malformed header, path and body gets its code; nothing is written and nothing is a 500.
func TestBadInput(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	f.payout("acc", 10)
	before := f.snapshot()
	for _, e := range endpoints() {
		t.Run(e.method+" "+e.path, func(t *testing.T) {
			f := f.on(t)
			refuse := func(what string, c call, codes ...apierr.Code) {
				t.Helper()
				r := f.do(c)
				require.Contains(t, codes, r.err.Code, "%s: %d %s", what, r.status, r.body)
				require.NotEmpty(t, r.err.TraceID)
			}
			header := func(name string, values ...string) call {
				c := e.request()
				c.header = http.Header{name: values}
				return c
			}
			if e.token {
				for _, v := range []string{"", "0", "-1", "+5", "5 5", "05", "5.0", "5e0", "0x5", "five", "9223372036854775808", "5,6", "٥"} {
					refuse("token "+v, header("X-Fencing-Token", v), apierr.InvalidToken)
				}
				refuse("no token", header("X-Fencing-Token"), apierr.InvalidToken)
				refuse("two tokens", header("X-Fencing-Token", "5", "5"), apierr.InvalidToken)
			}
			if e.owner {
				for _, v := range []string{"", "a b", "a/b", long(65)} {
					refuse("owner "+v, header("X-Owner-Id", v), apierr.ValidationFailed)
				}
				refuse("no owner", header("X-Owner-Id"), apierr.ValidationFailed)
			}
			if e.key {
				for _, v := range []string{"", "a b", long(129)} {
					refuse("key "+v, header("X-Idempotency-Key", v), apierr.ValidationFailed)
				}
			}
			refuseBodies(e, refuse)
		})
	}
	for _, path := range []string{"/v1/payouts/x", "/v1/payouts/00000000-0000-4000-8000-00000000000A", "/v1/payouts/%00", "/v1/accounts/a%20b",
		"/v1/accounts/a:b", "/v1/accounts/%00", "/v1/accounts/" + long(65)} {
		f.do(call{as: "reader", method: http.MethodGet, path: path}).refused(apierr.ValidationFailed)
	}
	for _, e := range endpoints() {
		if strings.Contains(e.path, somebody) {
			c := e.request()
			if c.path = strings.Replace(e.path, somebody, "not-a-uuid", 1); strings.HasSuffix(e.path, "/resolution") {
				c.as = "alice"
			}
			f.do(c).refused(apierr.ValidationFailed)
			f.do(e.request()).refused(apierr.NotFound)
		}
	}
	f.do(call{as: "reader", method: http.MethodGet, path: "/v1/accounts/nobody"}).refused(apierr.NotFound)
	f.do(call{as: "reader", method: http.MethodGet, path: "/v1/nothing"}).refused(apierr.NotFound)
	f.do(call{as: "reader", method: http.MethodDelete, path: "/v1/payouts"}).refused(apierr.NotFound)
	require.Equal(t, before, f.snapshot())
	f.fencedOut(0, 0)
}

func refuseBodies(e endpoint, refuse func(what string, c call, codes ...apierr.Code)) {
	if e.body == nil {
		return
	}
	with := func(body any) call {
		c := e.request()
		c.body = body
		return c
	}
	for _, body := range []string{"{", "[]", "null", "7", `"x"`, "{} {}", `{"unknown":1}`, "\xff\xfe", "{\"reason\":\"\xff\"}", long(2 << 20)} {
		refuse("body "+body[:min(len(body), 20)], with(body), apierr.ValidationFailed)
	}
	if !strings.HasSuffix(e.path, "/post") { // its body may be left out; the payout's absence is then what is said
		refuse("no body", with(nil), apierr.ValidationFailed)
		refuse("empty object", with("{}"), apierr.ValidationFailed)
	}
	for field := range e.body {
		refuse("duplicate "+field, with(fmt.Sprintf(`{%q:1,%q:1}`, field, field)), apierr.ValidationFailed)
		refuse("duplicate in another case "+field, with(fmt.Sprintf(`{%q:1,%q:1}`, field, strings.ToUpper(field))), apierr.ValidationFailed)
	}
	for field, values := range e.wrong {
		for _, v := range values {
			body := maps.Clone(e.body)
			body[field] = v
			refuse(fmt.Sprintf("%s = %.40v", field, v), with(body), apierr.ValidationFailed)
		}
		if _, optional := map[string]bool{"openingMinor": true, "secondOperator": true, "evidenceOnly": true, "submissionId": strings.HasSuffix(e.path, "/rail-outcome")}[field]; optional {
			continue
		}
		body := maps.Clone(e.body)
		delete(body, field)
		refuse("without "+field, with(body), apierr.ValidationFailed)
	}
	for _, raw := range []string{`{"outcome":"SETTLED","railReference":"r","reason":"r","evidence":{"a":1e400}}`,
		`{"outcome":"SETTLED","railReference":"r","reason":"r","evidence":{"a":1e-400}}`,
		`{"outcome":"SETTLED","railReference":"r","reason":"r","evidence":{"a":"\ud800"}}`} {
		if strings.HasSuffix(e.path, "/resolution") {
			refuse("evidence", with(raw), apierr.ValidationFailed)
		}
	}
}

// Each route is open to the roles that it names and to no other.
func TestRolesOfEachRoute(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	for _, e := range endpoints() {
		t.Run(e.method+" "+e.path, func(t *testing.T) {
			f := f.on(t)
			allowed := make(map[httpserver.Role]bool)
			for _, role := range e.roles {
				allowed[role] = true
			}
			for name, role := range people {
				c := e.request()
				c.as = name
				code := f.do(c).err.Code
				if allowed[role] {
					require.NotContains(t, []apierr.Code{apierr.Forbidden, apierr.Unauthenticated, apierr.Internal}, code, name)
				} else {
					require.Equal(t, apierr.Forbidden, code, name)
				}
			}
			for _, nobody := range []string{"", "stranger"} {
				c := e.request()
				c.as = nobody
				f.do(c).refused(apierr.Unauthenticated)
			}
		})
	}
}
