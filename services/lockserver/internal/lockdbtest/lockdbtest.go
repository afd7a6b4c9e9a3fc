// Package lockdbtest gives each test of the lock-server a migrated lockdb of its own, on one PostgreSQL server per test package.
package lockdbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"railguard/deploy/local/pgserver"
	"railguard/services/lockserver/internal/pglock"
)

// Server is a PostgreSQL server with a migrated template.
type Server struct {
	*pgserver.Server
	count atomic.Int64
}

// Password is that of the role lockapp.
const Password = "lockapp-of-a-test"

const template = "lockdb_template"

// Main runs a package's tests with a server, which is handed to use before they start, and returns the exit code.
func Main(m *testing.M, use func(*Server)) int {
	s, err := start(context.Background())
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "lockdbtest:", err)
		return 1
	}
	use(s)
	code := m.Run()
	if err := s.Stop(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "lockdbtest:", err)
		return 1
	}
	return code
}

func start(ctx context.Context) (*Server, error) {
	pg, err := pgserver.Start(ctx, pgserver.Options{Volatile: true})
	if err != nil {
		return nil, err
	}
	s := &Server{Server: pg}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, pg.Stop())
	}
	return s, nil
}

func (s *Server) prepare(ctx context.Context) error {
	if err := s.CreateDatabase(ctx, template, ""); err != nil {
		return err
	}
	if err := pglock.Migrate(ctx, s.URL(template)); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "ALTER ROLE lockapp PASSWORD '"+Password+"'")
	return errors.Join(err, conn.Close(ctx))
}

// Database is one test's lockdb.
type Database struct {
	Name string
	URL  string    // as the role lockapp
	Conn *pgx.Conn // as the owner, to look and to interfere; not for two goroutines at once
}

// New makes a database for a test.
func (s *Server) New(t testing.TB) Database {
	t.Helper()
	ctx := context.Background()
	name := fmt.Sprintf("lockdb_%d", s.count.Add(1))
	require.NoError(t, s.CreateDatabase(ctx, name, template))
	return Database{Name: name, URL: s.RoleURL(name, "lockapp", Password), Conn: Connect(t, s.URL(name))}
}

// Connect opens one connection for a test.
func Connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(ctx)) })
	return conn
}
