package lockserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/docs/contracts/contracttest"
	"railguard/services/httpserver"
	"railguard/services/lockserver/internal/lockdbtest"
	"railguard/services/telemetry"
)

var databases *lockdbtest.Server

func TestMain(m *testing.M) {
	os.Exit(lockdbtest.Main(m, func(s *lockdbtest.Server) { databases = s }))
}

// running is a lock-server that a test booted, and the client that holds it to its contract.
type running struct {
	*server
	t      testing.TB
	db     lockdbtest.Database
	base   string
	client *http.Client
	events *eventLog
	stop   func() error
}

// bearerOf is the bearer token of a role in tests.
func bearerOf(role httpserver.Role) string { return "bearer-of-" + string(role) }

func writeTokens(t testing.TB) string {
	t.Helper()
	var entries []httpserver.TokenEntry
	for _, role := range httpserver.AnyRole {
		sum := sha256.Sum256([]byte(bearerOf(role)))
		entries = append(entries, httpserver.TokenEntry{Name: "test-" + string(role), Role: role, SHA256: hex.EncodeToString(sum[:])})
	}
	data, err := json.Marshal(entries)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "tokens.json")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// boot runs a lock-server on a fresh database; change may alter its configuration.
func boot(t testing.TB, change ...func(*Config)) *running {
	t.Helper()
	return bootOn(t, databases.New(t), change...)
}

func bootOn(t testing.TB, db lockdbtest.Database, change ...func(*Config)) *running {
	t.Helper()
	cfg := Config{Backend: backendPG, LockDBURL: db.URL, ListenAddr: "127.0.0.1:0", DefaultTTL: 30 * time.Second,
		MaxWaiters: 64, DBPool: 4, AuthTokensFile: writeTokens(t)}
	for _, f := range change {
		f(&cfg)
	}
	events := &eventLog{}
	s, err := newServer(context.Background(), cfg, telemetry.NewLogger(events, "lock-server"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	r := &running{server: s, t: t, db: db, base: "http://" + s.Addr(), client: contracttest.NewClient(t, "lock-server"), events: events}
	r.stop = sync.OnceValue(func() error {
		r.client.CloseIdleConnections()
		cancel()
		return <-ended
	})
	t.Cleanup(func() { require.NoError(t, r.stop()) })
	return r
}

// eventLog keeps the log lines of a server.
type eventLog struct {
	mu    sync.Mutex
	lines []map[string]any
}

func (l *eventLog) Write(p []byte) (int, error) {
	var line map[string]any
	if err := json.Unmarshal(p, &line); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return len(p), nil
}

func (l *eventLog) all() []map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// of lists the events of a name.
func (l *eventLog) of(name string) []map[string]any {
	var found []map[string]any
	for _, line := range l.all() {
		if line["event"] == name {
			found = append(found, line)
		}
	}
	return found
}
