package lockserver

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/docs/contracts/contracttest"
	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/httpserver"
	"railguard/services/lockapi"
	"railguard/services/lockserver/internal/lock"
)

func TestContractListsEveryRoute(t *testing.T) {
	t.Parallel()
	contracttest.CheckRoutes(t, "lock-server", boot(t).http.Engine().Routes())
}

func TestEveryRouteAnswers(t *testing.T) {
	t.Parallel()
	s := boot(t)
	session := into[lockapi.Session](t, s.do(call{"POST", "/v1/sessions", `{"ownerId":"run-1","ttlMillis":60000}`, nil}), http.StatusCreated)
	require.Equal(t, "run-1", session.OwnerID)
	require.EqualValues(t, 60_000, session.TTLMillis)
	beat := into[lockapi.Session](t, s.do(call{"POST", "/v1/sessions/" + session.SessionID + "/heartbeat", "", nil}), http.StatusOK)
	require.True(t, beat.ExpiresAt.After(session.ExpiresAt))

	g := s.acquire("payout:a", "run-1", `{"ttlMillis":5000,"waitMillis":0,"sessionId":"`+session.SessionID+`"}`)
	require.Equal(t, session.SessionID, g.SessionID)
	require.EqualValues(t, 5000, g.TTLMillis)
	look := s.get("payout:a")
	require.True(t, look.Held)
	require.Equal(t, "run-1", look.OwnerID)
	require.Equal(t, g.FencingToken, look.FencingToken)
	require.Equal(t, g.ExpiresAt, *look.ExpiresAt)
	require.NotEmpty(t, look.Advisory)
	contended := s.do(call{"POST", "/v1/locks/payout:a/acquire", `{"waitMillis":1}`, owner("run-2")}).refused(t, apierr.LockContended, "contended")
	require.Equal(t, "run-1", contended.Details["holderOwnerId"])
	require.NotEmpty(t, contended.Details["expiresAt"])

	renewed := into[lockapi.Grant](t, s.do(call{"POST", "/v1/locks/payout:a/renew", `{"ttlMillis":9000}`, withToken(g.FencingToken)}), http.StatusOK)
	require.Equal(t, g.FencingToken, renewed.FencingToken)
	require.EqualValues(t, 9000, renewed.TTLMillis)
	require.True(t, renewed.ExpiresAt.After(g.ExpiresAt))
	again := into[lockapi.Grant](t, s.do(call{"POST", "/v1/locks/payout:a/renew", "", withToken(g.FencingToken)}), http.StatusOK)
	require.True(t, again.ExpiresAt.After(renewed.ExpiresAt))

	require.Equal(t, http.StatusNoContent, s.do(call{"DELETE", "/v1/locks/payout:a", "", withToken(g.FencingToken)}).status)
	s.do(call{"DELETE", "/v1/locks/payout:a", "", withToken(g.FencingToken)}).refused(t, apierr.LockLost, "released before")
	s.do(call{"POST", "/v1/locks/payout:a/renew", "{}", withToken(g.FencingToken)}).refused(t, apierr.LockLost, "released before")

	held := s.acquire("payout:a", "run-1", `{"sessionId":"`+session.SessionID+`"}`)
	require.Greater(t, held.FencingToken, g.FencingToken)
	require.EqualValues(t, 30_000, held.TTLMillis, "the default")
	require.Equal(t, http.StatusNoContent, s.do(call{"DELETE", "/v1/sessions/" + session.SessionID, "", nil}).status)
	require.False(t, s.get("payout:a").Held)
	s.do(call{"POST", "/v1/sessions/" + session.SessionID + "/heartbeat", "", nil}).refused(t, apierr.SessionUnknown, "ended")
	s.do(call{"DELETE", "/v1/sessions/" + session.SessionID, "", nil}).refused(t, apierr.SessionUnknown, "ended")
	s.do(call{"POST", "/v1/locks/payout:a/acquire", `{"sessionId":"` + session.SessionID + `"}`, nil}).refused(t, apierr.SessionUnknown, "ended")

	for _, path := range []string{"/livez", "/readyz", "/info", "/metrics"} {
		require.Equal(t, http.StatusOK, s.do(call{method: "GET", path: path, header: map[string]string{"Authorization": ""}}).status, path)
	}
	for _, path := range []string{"health/liveness", "health/readiness", "info", "prometheus"} {
		require.Equal(t, http.StatusOK, s.do(call{method: "GET", path: "/actuator/" + path}).status, path)
	}
	s.do(call{method: "GET", path: "/v1/nothing"}).refused(t, apierr.NotFound, "no such path")
}

func TestAnExpiredSessionIsGone(t *testing.T) {
	t.Parallel()
	s := boot(t)
	session := into[lockapi.Session](t, s.do(call{"POST", "/v1/sessions", `{"ownerId":"run-1","ttlMillis":60000}`, nil}), http.StatusCreated)
	s.sql("UPDATE lock_session SET expires_at = clock_timestamp()")
	s.do(call{"POST", "/v1/sessions/" + session.SessionID + "/heartbeat", "", nil}).refused(t, apierr.SessionExpired, "heartbeat")
	s.do(call{"DELETE", "/v1/sessions/" + session.SessionID, "", nil}).refused(t, apierr.SessionExpired, "end")
	s.do(call{"POST", "/v1/locks/k/acquire", `{"sessionId":"` + session.SessionID + `"}`, nil}).refused(t, apierr.SessionExpired, "acquire")
}

// sql changes the database behind the server's back.
func (r *running) sql(statement string) {
	r.t.Helper()
	_, err := r.db.Conn.Exec(context.Background(), statement)
	require.NoError(r.t, err)
}

func TestOperatorsRevokeAndAdvance(t *testing.T) {
	t.Parallel()
	s := boot(t)
	g := s.acquire("payout:a", "run-1", "{}")
	revoke := func(key, body string) reply {
		return s.do(call{"POST", "/v1/locks/" + key + "/revoke", body, as(httpserver.Operator)})
	}
	revoke("payout:never", `{"operator":"ann","reason":"the worker hangs"}`).refused(t, apierr.NotFound, "never granted")
	mismatch := revoke("payout:a", fmt.Sprintf(`{"operator":"ann","reason":"the worker hangs","expectedToken":%d}`, g.FencingToken+1)).
		refused(t, apierr.LockLost, "another token")
	require.EqualValues(t, g.FencingToken, mismatch.Details["currentToken"])
	require.True(t, s.get("payout:a").Held)

	v := into[lockapi.Revocation](t, revoke("payout:a", fmt.Sprintf(`{"operator":"ann","reason":"the worker hangs","expectedToken":%d}`, g.FencingToken)), http.StatusOK)
	require.Equal(t, "payout:a", v.Key)
	require.Equal(t, g.FencingToken, v.RevokedToken)
	require.Greater(t, v.NewTokenFloor, g.FencingToken)
	s.do(call{"POST", "/v1/locks/payout:a/renew", "{}", withToken(g.FencingToken)}).refused(t, apierr.LockLost, "revoked")
	look := s.get("payout:a")
	require.False(t, look.Held)
	require.Equal(t, v.NewTokenFloor, look.FencingToken)
	var operator, reason, previous string
	var floor int64
	require.NoError(t, s.db.Conn.QueryRow(t.Context(), "SELECT operator, reason, prev_owner, new_floor FROM lock_revocation WHERE id = $1", v.RevocationID).
		Scan(&operator, &reason, &previous, &floor))
	require.Equal(t, []any{"ann", "the worker hangs", "run-1", int64(v.NewTokenFloor)}, []any{operator, reason, previous, floor})

	advanced := into[lockapi.Advance](t, s.do(call{"POST", "/v1/tokens/advance", `{"above":5000,"operator":"ann","reason":"restore"}`, as(httpserver.Operator)}), http.StatusOK)
	require.Equal(t, 5000+lock.AdvanceMargin, advanced.Floor)
	require.Greater(t, s.acquire("payout:a", "run-2", "{}").FencingToken, advanced.Floor)
	top := into[lockapi.Advance](t, s.do(call{"POST", "/v1/tokens/advance",
		fmt.Sprintf(`{"above":%d,"operator":"ann","reason":"restore"}`, fencing.MaxFloor), as(httpserver.Operator)}), http.StatusOK)
	require.Equal(t, fencing.MaxFloor+lock.AdvanceMargin, top.Floor)
}

// routes of the API, with what makes each of them valid up to the state of the lock.
var routes = []struct {
	method, path, body string
	fenced             bool
	roles              []httpserver.Role
}{
	{"POST", "/v1/sessions", `{"ownerId":"run-1","ttlMillis":1000}`, false, locking},
	{"POST", "/v1/sessions/6f1c3f1e-7a3f-4d59-8f0e-2f4f0f6a1b11/heartbeat", "", false, locking},
	{"DELETE", "/v1/sessions/6f1c3f1e-7a3f-4d59-8f0e-2f4f0f6a1b11", "", false, locking},
	{"POST", "/v1/locks/roles/acquire", `{}`, false, locking},
	{"POST", "/v1/locks/roles/renew", `{}`, true, locking},
	{"DELETE", "/v1/locks/roles", "", true, locking},
	{"GET", "/v1/locks/roles", "", false, httpserver.AnyRole},
	{"POST", "/v1/locks/roles/revoke", `{"operator":"ann","reason":"the worker hangs"}`, false, operating},
	{"POST", "/v1/tokens/advance", `{"above":1,"operator":"ann","reason":"restore"}`, false, operating},
}

var (
	locking   = []httpserver.Role{httpserver.Executor, httpserver.Resolver}
	operating = []httpserver.Role{httpserver.Operator}
)

func TestRolesMayDoWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	s := boot(t)
	for _, route := range routes {
		allowed := make(map[httpserver.Role]bool)
		for _, role := range route.roles {
			allowed[role] = true
		}
		for _, role := range httpserver.AnyRole {
			header := as(role)
			if route.fenced {
				header["X-Fencing-Token"] = "9"
			}
			p := s.do(call{route.method, route.path, route.body, header})
			what := fmt.Sprintf("%s %s as %s", route.method, route.path, role)
			if allowed[role] {
				require.NotEqual(t, http.StatusForbidden, p.status, what)
				require.NotEqual(t, http.StatusUnauthorized, p.status, what)
			} else {
				p.refused(t, apierr.Forbidden, what)
			}
		}
		for what, authorization := range map[string]string{"none": "", "unknown": "Bearer nobody", "another scheme": "Basic YTpi", "empty": "Bearer "} {
			s.do(call{route.method, route.path, route.body, map[string]string{"Authorization": authorization}}).
				refused(t, apierr.Unauthenticated, route.path+", bearer "+what)
		}
	}
}

func TestBadInputIsRefusedAndWritesNothing(t *testing.T) {
	t.Parallel()
	s := boot(t)
	g := s.acquire("held", "run-1", "{}")
	session := into[lockapi.Session](t, s.do(call{"POST", "/v1/sessions", `{"ownerId":"run-1","ttlMillis":60000}`, nil}), http.StatusCreated)
	state := func() (all string) {
		require.NoError(t, s.db.Conn.QueryRow(t.Context(), `SELECT concat((SELECT array_agg(e)::text FROM lock_entry e), (SELECT array_agg(s)::text FROM lock_session s),
			(SELECT array_agg(r)::text FROM lock_revocation r), (SELECT last_value FROM fencing_token_seq))`).Scan(&all))
		return all
	}
	before := state()
	check := func(want apierr.Code, c call) {
		t.Helper()
		what := fmt.Sprintf("%s %s %.80q %v", c.method, c.path, c.body, c.header)
		e := s.do(c).refused(t, want, what)
		if want == apierr.ValidationFailed {
			require.NotEmpty(t, e.Details["fields"], what)
		}
		require.Equal(t, before, state(), what)
	}
	operator := func(more map[string]string) map[string]string {
		header := as(httpserver.Operator)
		for name, value := range more {
			header[name] = value
		}
		return header
	}
	fenced := func(more map[string]string) map[string]string {
		header := withToken(g.FencingToken)
		for name, value := range more {
			header[name] = value
		}
		return header
	}

	badBodies := []string{"", " ", "null", "[]", `"x"`, "7", "{", "{}{}", `{"unknown":1}`, `{"a":1,"a":2}`, "{\"ownerId\":\"\xff\"}",
		`{"ttlMillis":"5000"}`, `{"ttlMillis":1e99}`, `{"ttlMillis":1.5}`, `{"reason":"` + strings.Repeat("x", 70_000) + `"}`}
	badOwners := []string{"", "a b", "a/b", strings.Repeat("o", 65), "ö"}
	badKeys := []string{"a%20b", strings.Repeat("k", 129), "%C3%B6", "a%00b", "a;b", "a@b"}
	badTokens := []string{"", "0", "-1", "+5", "05", "1.0", "1e3", "0x10", "abc", "9223372036854775808", "99999999999999999999999", "٣"}

	for _, bad := range badOwners {
		header := owner(bad)
		check(apierr.ValidationFailed, call{"POST", "/v1/sessions", `{"ownerId":"run-1","ttlMillis":5000}`, header})
		check(apierr.ValidationFailed, call{"POST", "/v1/sessions/" + session.SessionID + "/heartbeat", "", header})
		check(apierr.ValidationFailed, call{"DELETE", "/v1/sessions/" + session.SessionID, "", header})
		check(apierr.ValidationFailed, call{"POST", "/v1/locks/held/acquire", "{}", header})
		check(apierr.ValidationFailed, call{"POST", "/v1/locks/held/renew", "{}", fenced(header)})
		check(apierr.ValidationFailed, call{"DELETE", "/v1/locks/held", "", fenced(header)})
		check(apierr.ValidationFailed, call{"POST", "/v1/locks/held/revoke", `{"operator":"ann","reason":"the worker hangs"}`, operator(header)})
		check(apierr.ValidationFailed, call{"POST", "/v1/tokens/advance", `{"above":1,"operator":"ann","reason":"restore"}`, operator(header)})
	}
	for _, bad := range badKeys {
		check(apierr.ValidationFailed, call{"POST", "/v1/locks/" + bad + "/acquire", "{}", nil})
		check(apierr.ValidationFailed, call{"POST", "/v1/locks/" + bad + "/renew", "{}", fenced(nil)})
		check(apierr.ValidationFailed, call{"DELETE", "/v1/locks/" + bad, "", fenced(nil)})
		check(apierr.ValidationFailed, call{"GET", "/v1/locks/" + bad, "", nil})
		check(apierr.ValidationFailed, call{"POST", "/v1/locks/" + bad + "/revoke", `{"operator":"ann","reason":"the worker hangs"}`, operator(nil)})
	}
	for _, bad := range badTokens {
		check(apierr.InvalidToken, call{"POST", "/v1/locks/held/renew", "{}", map[string]string{"X-Fencing-Token": bad}})
		check(apierr.InvalidToken, call{"DELETE", "/v1/locks/held", "", map[string]string{"X-Fencing-Token": bad}})
	}
	for _, bad := range badBodies {
		check(apierr.ValidationFailed, call{"POST", "/v1/sessions", bad, nil})
		check(apierr.ValidationFailed, call{"POST", "/v1/locks/held/acquire", bad, nil})
		if bad != "" {
			check(apierr.ValidationFailed, call{"POST", "/v1/locks/held/renew", bad, fenced(nil)})
		}
		check(apierr.ValidationFailed, call{"POST", "/v1/locks/held/revoke", bad, operator(nil)})
		check(apierr.ValidationFailed, call{"POST", "/v1/tokens/advance", bad, operator(nil)})
	}
	for _, bad := range []string{"x", "6F1C3F1E-7A3F-4D59-8F0E-2F4F0F6A1B11", "6f1c3f1e7a3f4d598f0e2f4f0f6a1b11", "%7B6f1c3f1e-7a3f-4d59-8f0e-2f4f0f6a1b11%7D"} {
		check(apierr.ValidationFailed, call{"POST", "/v1/sessions/" + bad + "/heartbeat", "", nil})
		check(apierr.ValidationFailed, call{"DELETE", "/v1/sessions/" + bad, "", nil})
		check(apierr.ValidationFailed, call{"POST", "/v1/locks/held/acquire", `{"sessionId":"` + bad + `"}`, nil})
	}
	for _, bad := range []string{`{"ttlMillis":5000}`, `{"ownerId":"run-2","ttlMillis":5000}`, `{"ownerId":"run-1"}`, `{"ownerId":"run-1","ttlMillis":null}`,
		`{"ownerId":"run-1","ttlMillis":999}`, `{"ownerId":"run-1","ttlMillis":60001}`, `{"ownerId":"run-1","ttlMillis":0}`, `{"ownerId":"run-1","ttlMillis":-1}`} {
		check(apierr.ValidationFailed, call{"POST", "/v1/sessions", bad, nil})
	}
	for _, bad := range []string{`{"ttlMillis":0}`, `{"ttlMillis":99}`, `{"ttlMillis":600001}`, `{"ttlMillis":-5}`, `{"ttlMillis":9223372036854775807}`,
		`{"waitMillis":-1}`, `{"waitMillis":30001}`, `{"waitMillis":"0"}`, `{"sessionId":""}`, `{"sessionId":7}`, `{"TTLMillis":5000,"ttlMillis":5000}`} {
		check(apierr.ValidationFailed, call{"POST", "/v1/locks/held/acquire", bad, nil})
	}
	for _, bad := range []string{`{"ttlMillis":0}`, `{"ttlMillis":99}`, `{"ttlMillis":600001}`, `{"ttlMillis":-5}`, `{"waitMillis":0}`} {
		check(apierr.ValidationFailed, call{"POST", "/v1/locks/held/renew", bad, fenced(nil)})
	}
	for _, bad := range []string{`{}`, `{"operator":"ann"}`, `{"reason":"the worker hangs"}`, `{"operator":"","reason":"the worker hangs"}`,
		`{"operator":"   ","reason":"the worker hangs"}`, `{"operator":"ann","reason":"7 chars"}`, `{"operator":"ann","reason":"   x    "}`,
		`{"operator":"ann","reason":"null \u0000 byte"}`, `{"operator":"a\nnn","reason":"the worker hangs"}`,
		`{"operator":"ann","reason":"` + strings.Repeat("x", 501) + `"}`, `{"operator":"` + strings.Repeat("x", 129) + `","reason":"the worker hangs"}`,
		`{"operator":"ann","reason":"the worker hangs","expectedToken":0}`, `{"operator":"ann","reason":"the worker hangs","expectedToken":-1}`,
		`{"operator":"ann","reason":"the worker hangs","expectedToken":"1"}`, `{"operator":"ann","reason":"the worker hangs","expectedToken":9223372036854775808}`} {
		check(apierr.ValidationFailed, call{"POST", "/v1/locks/held/revoke", bad, operator(nil)})
	}
	for _, bad := range []string{`{}`, `{"operator":"ann","reason":"restore"}`, `{"above":0,"operator":"ann","reason":"restore"}`, `{"above":-1,"operator":"ann","reason":"restore"}`,
		`{"above":1125899906842625,"operator":"ann","reason":"restore"}`, `{"above":9223372036854775807,"operator":"ann","reason":"restore"}`,
		`{"above":1.5,"operator":"ann","reason":"restore"}`, `{"above":"1","operator":"ann","reason":"restore"}`, `{"above":1,"reason":"restore"}`,
		`{"above":1,"operator":"ann"}`, `{"above":1,"operator":"ann","reason":" "}`, `{"above":1,"operator":"ann","reason":"\u0000"}`} {
		check(apierr.ValidationFailed, call{"POST", "/v1/tokens/advance", bad, operator(nil)})
	}
}
