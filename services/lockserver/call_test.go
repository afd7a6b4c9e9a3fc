package lockserver

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/httpserver"
	"railguard/services/lockapi"
)

// call is one request to a booted server: the executor's, of owner "run-1", unless it says otherwise.
type call struct {
	method, path, body string
	header             map[string]string // over the usual ones; "" removes one
}

// reply is what came back.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (r *running) do(c call) reply {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), c.method, r.base+c.path, strings.NewReader(c.body))
	require.NoError(r.t, err)
	req.Header.Set("Authorization", "Bearer "+bearerOf(httpserver.Executor))
	req.Header.Set("X-Owner-Id", "run-1")
	if c.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range c.header {
		req.Header.Del(name)
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	res, err := r.client.Do(req)
	require.NoError(r.t, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	require.NoError(r.t, err)
	return reply{res.StatusCode, res.Header, body}
}

// refused fails the test unless the answer is the envelope of the code, whole.
func (p reply) refused(t testing.TB, want apierr.Code, what string) apierr.Error {
	t.Helper()
	var e apierr.Error
	require.NoError(t, json.Unmarshal(p.body, &e), "%s: %s", what, p.body)
	row, _ := apierr.Lookup(want)
	require.Equal(t, want, e.Code, "%s: %s", what, p.body)
	require.Equal(t, row.Status, p.status, what)
	require.Equal(t, row.RetrySafe, e.RetrySafe, what)
	require.NotEmpty(t, e.Message, what)
	require.Regexp(t, "^[0-9a-f]{32}$", e.TraceID, what)
	return e
}

// into decodes an answer of the status.
func into[T any](t testing.TB, p reply, status int) T {
	t.Helper()
	require.Equal(t, status, p.status, "%s", p.body)
	var v T
	require.NoError(t, json.Unmarshal(p.body, &v))
	return v
}

func as(role httpserver.Role) map[string]string {
	return map[string]string{"Authorization": "Bearer " + bearerOf(role)}
}

func owner(id string) map[string]string { return map[string]string{"X-Owner-Id": id} }

func withToken(token fencing.Token) map[string]string {
	return map[string]string{"X-Fencing-Token": token.String()}
}

func (r *running) acquire(key, ownerID, body string) lockapi.Grant {
	r.t.Helper()
	return into[lockapi.Grant](r.t, r.do(call{"POST", "/v1/locks/" + key + "/acquire", body, owner(ownerID)}), http.StatusOK)
}

func (r *running) get(key string) lockapi.Lock {
	r.t.Helper()
	return into[lockapi.Lock](r.t, r.do(call{method: "GET", path: "/v1/locks/" + key}), http.StatusOK)
}

func eventually(t testing.TB, condition func() bool, what string) {
	t.Helper()
	require.Eventually(t, condition, 20*time.Second, 2*time.Millisecond, what)
}
