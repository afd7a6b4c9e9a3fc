package httpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
	"railguard/services/httpserver"
	"railguard/services/telemetry"
)

func writeTokens(t *testing.T, path string, entries ...httpserver.TokenEntry) {
	data, err := json.Marshal(entries)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

type running struct {
	base   string
	tokens string
}

func start(t *testing.T, ready func(context.Context) error) running {
	r := running{tokens: filepath.Join(t.TempDir(), "tokens.json")}
	writeTokens(t, r.tokens,
		httpserver.TokenEntry{Name: "alice", Role: httpserver.Operator, SHA256: httpserver.HashBearer("alice-bearer")},
		httpserver.TokenEntry{Name: "bob", Role: httpserver.Reader, SHA256: httpserver.HashBearer("bob-bearer")})
	s, err := httpserver.New(httpserver.Options{Service: "test", Addr: "127.0.0.1:0", AuthTokensFile: r.tokens,
		Logger: slog.New(slog.DiscardHandler), Ready: ready, Info: map[string]any{"extra": 7}})
	require.NoError(t, err)
	s.API.GET("/who", httpserver.Allow(httpserver.Operator), s.Handle(func(c *gin.Context) (int, any, error) {
		return http.StatusOK, httpserver.CallerOf(c), nil
	}))
	s.API.POST("/body/:id", httpserver.Allow(httpserver.AnyRole...), s.Handle(func(c *gin.Context) (int, any, error) {
		var body struct {
			N int64 `json:"n"`
		}
		if _, err := httpserver.PathUUID(c, "id"); err != nil {
			return 0, nil, err
		}
		if _, err := httpserver.FencingToken(c); err != nil {
			return 0, nil, err
		}
		if _, err := httpserver.OwnerID(c); err != nil {
			return 0, nil, err
		}
		return http.StatusOK, gin.H{"n": body.N}, httpserver.Body(c, &body)
	}))
	s.API.GET("/panic", s.Handle(func(*gin.Context) (int, any, error) { panic("secret detail") }))
	s.API.GET("/plain", s.Handle(func(*gin.Context) (int, any, error) { return 0, nil, errors.New("secret detail") }))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, time.Second) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done) })
	r.base = "http://" + s.Addr()
	return r
}

func (r running) do(t *testing.T, method, path, bearer, body string, headers ...string) (int, string) {
	req, err := http.NewRequest(method, r.base+path, strings.NewReader(body))
	require.NoError(t, err)
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode, string(data)
}

func code(t *testing.T, body string) apierr.Code {
	var e apierr.Error
	require.NoError(t, json.Unmarshal([]byte(body), &e), body)
	require.NotEmpty(t, e.TraceID)
	return e.Code
}

func TestAuthentication(t *testing.T) {
	r := start(t, nil)
	for _, c := range []struct {
		bearer string
		status int
		code   apierr.Code
	}{{"", 401, apierr.Unauthenticated}, {"wrong", 401, apierr.Unauthenticated}, {"bob-bearer", 403, apierr.Forbidden}} {
		status, body := r.do(t, "GET", "/v1/who", c.bearer, "")
		require.Equal(t, c.status, status)
		require.Equal(t, c.code, code(t, body))
	}
	status, body := r.do(t, "GET", "/v1/who", "alice-bearer", "")
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"name":"alice","role":"operator"}`, body)
}

func TestHangupReloadsTheTokensAndABadFileChangesNothing(t *testing.T) {
	r := start(t, nil)
	status := func() int { s, _ := r.do(t, "GET", "/v1/who", "carol-bearer", ""); return s }
	require.Equal(t, 401, status())
	writeTokens(t, r.tokens, httpserver.TokenEntry{Name: "carol", Role: httpserver.Operator, SHA256: httpserver.HashBearer("carol-bearer")})
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	require.Eventually(t, func() bool { return status() == 200 }, 5*time.Second, 10*time.Millisecond)

	tokens, err := httpserver.LoadTokens(r.tokens)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(r.tokens, []byte("{"), 0o600))
	require.ErrorContains(t, tokens.Reload(), "AUTH_TOKENS_FILE")
	require.Equal(t, 200, status())
}

func TestRequestsAreReadStrictly(t *testing.T) {
	r := start(t, nil)
	good := "/v1/body/8d7d3a52-7e0e-4a9e-9d0a-0a2f9e0b7c11"
	ok := []string{"X-Fencing-Token", "7", "X-Owner-Id", "me"}
	status, body := r.do(t, "POST", good, "alice-bearer", `{"n":5}`, ok...)
	require.Equal(t, 200, status, body)
	for name, c := range map[string]struct {
		path, body string
		headers    []string
		code       apierr.Code
	}{
		"unknown field":   {good, `{"m":5}`, ok, apierr.ValidationFailed},
		"no body":         {good, ``, ok, apierr.ValidationFailed},
		"large body":      {good, `{"n":5,"x":"` + strings.Repeat("x", httpserver.MaxBody) + `"}`, ok, apierr.ValidationFailed},
		"not a UUID":      {"/v1/body/7", `{"n":5}`, ok, apierr.ValidationFailed},
		"upper-case UUID": {strings.ToUpper(good[:8]) + strings.ToUpper(good[8:]), `{"n":5}`, ok, apierr.NotFound},
		"no token":        {good, `{"n":5}`, []string{"X-Owner-Id", "me"}, apierr.InvalidToken},
		"zero token":      {good, `{"n":5}`, []string{"X-Fencing-Token", "0", "X-Owner-Id", "me"}, apierr.InvalidToken},
		"two tokens":      {good, `{"n":5}`, []string{"X-Fencing-Token", "7", "X-Fencing-Token", "8", "X-Owner-Id", "me"}, apierr.InvalidToken},
		"no owner":        {good, `{"n":5}`, []string{"X-Fencing-Token", "7"}, apierr.ValidationFailed},
		"bad owner":       {good, `{"n":5}`, []string{"X-Fencing-Token", "7", "X-Owner-Id", "a b"}, apierr.ValidationFailed},
		"no such path":    {"/v1/nothing", `{}`, ok, apierr.NotFound},
	} {
		status, body := r.do(t, "POST", c.path, "alice-bearer", c.body, c.headers...)
		require.Equal(t, c.code, code(t, body), name)
		require.NotEqual(t, 500, status, name)
	}
}

func TestFailuresShowNothingOfTheInside(t *testing.T) {
	r := start(t, nil)
	for _, path := range []string{"/v1/panic", "/v1/plain"} {
		status, body := r.do(t, "GET", path, "alice-bearer", "")
		require.Equal(t, 500, status)
		require.Equal(t, apierr.Internal, code(t, body))
		require.NotContains(t, body, "secret detail")
	}
}

func TestHealthMetricsAndInformation(t *testing.T) {
	var trouble error
	r := start(t, func(context.Context) error { return trouble })
	for _, path := range []string{"/livez", "/actuator/health/liveness", "/readyz", "/actuator/health/readiness", "/info", "/actuator/info", "/metrics", "/actuator/prometheus"} {
		status, _ := r.do(t, "GET", path, "", "")
		require.Equal(t, 200, status, path)
	}
	_, body := r.do(t, "GET", "/info", "", "")
	require.Contains(t, body, `"extra":7`)
	trouble = errors.New("the database is down")
	status, body := r.do(t, "GET", "/readyz", "", "")
	require.Equal(t, 503, status)
	require.Contains(t, body, "the database is down")
	status, _ = r.do(t, "GET", "/livez", "", "")
	require.Equal(t, 200, status)

	r.do(t, "BREW", "/v1/some/raw/path", "", "")
	_, body = r.do(t, "GET", "/metrics", "", "")
	require.Contains(t, body, `http_request_duration_seconds_count{method="none",route="none",status="404"}`)
	require.NotContains(t, body, "raw")
	require.NotContains(t, body, "BREW")
}

func TestAReachableAddressNeedsATokensFile(t *testing.T) {
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0", "example.test:0"} {
		_, err := httpserver.New(httpserver.Options{Addr: addr, Logger: slog.New(slog.DiscardHandler)})
		require.ErrorIs(t, err, httpserver.ErrOpenToAll, addr)
	}
	_, err := httpserver.New(httpserver.Options{Addr: "127.0.0.1:0", AuthTokensFile: "missing.json"})
	require.ErrorContains(t, err, "AUTH_TOKENS_FILE")
	_, err = httpserver.New(httpserver.Options{Addr: "127.0.0.1:0", TLSCertFile: "missing.pem", TLSKeyFile: "missing.pem"})
	require.ErrorContains(t, err, "TLS_CERT_FILE")
}

func TestLogRecordsAreEvents(t *testing.T) {
	var out bytes.Buffer
	telemetry.NewLogger(&out, "lock-server").Info("lock_granted", "token", 7)
	var record map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &record))
	require.Equal(t, "lock_granted", record["event"])
	require.Equal(t, "lock-server", record["service"])
	require.Equal(t, "INFO", record["level"])
	require.Contains(t, record, "time")
}
