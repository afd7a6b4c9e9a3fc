package local

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"railguard/deploy/local/credentials"
	"railguard/deploy/local/pginstall"
	"railguard/deploy/local/pgserver"
)

const (
	lockDatabase = "lockdb"
	payDatabase  = "paydb"
)

// startDatabases starts the two servers, which share nothing, so that one can be killed alone.
func (s *Stack) startDatabases(ctx context.Context) error {
	bin, err := pginstall.Ensure(ctx, s.options.Out)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { s.lockdb, err = s.startDatabase(ctx, bin, lockDatabase); return err })
	group.Go(func() (err error) { s.paydb, err = s.startDatabase(ctx, bin, payDatabase); return err })
	return group.Wait()
}

func (s *Stack) startDatabase(ctx context.Context, bin, name string) (*pgserver.Server, error) {
	server, err := pgserver.Start(ctx, pgserver.Options{
		Dir: filepath.Join(s.data.path, name), Port: s.options.Ports.of(name), Volatile: s.options.Volatile, BinDir: bin,
	})
	if err != nil {
		return nil, err
	}
	s.progress("%-16s ready on port %d (process %d)", name, server.Port, server.PID())
	if err := ensureDatabase(ctx, server, name); err != nil {
		return server, err
	}
	return server, nil
}

func ensureDatabase(ctx context.Context, server *pgserver.Server, name string) error {
	conn, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // nothing is pending on it
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists); err != nil || exists {
		return err
	}
	return server.CreateDatabase(ctx, name, "")
}

// LockdbURL is the owner's URL of the lock-server's database.
func (s *Stack) LockdbURL() string { return s.lockdb.URL(lockDatabase) }

// PaydbURL is the owner's URL of the payments database.
func (s *Stack) PaydbURL() string { return s.paydb.URL(payDatabase) }

// ReaderURL is the payments database for the role that may SELECT from both table sets and write to none.
func (s *Stack) ReaderURL() string {
	return s.paydb.RoleURL(payDatabase, "reconciler", s.secrets.Password("reconciler"))
}

// migrate runs the binary's own migrations: what a database gets is what that build expects.
func (s *Stack) migrate(ctx context.Context) error {
	env := append(ChildEnvironment(), "LOCKDB_URL="+s.LockdbURL(), "PAYDB_URL="+s.PaydbURL())
	for _, role := range credentials.DatabaseRoles {
		env = append(env, strings.ToUpper(role)+"_PASSWORD_FILE="+s.secrets.PasswordFile(role))
	}
	return s.runOnce(ctx, "migrate", env)
}
