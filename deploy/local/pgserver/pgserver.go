// Package pgserver runs a PostgreSQL server as a child process: for the local stack and for every test that needs one.
package pgserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"railguard/deploy/local/child"
	"railguard/deploy/local/freeport"
)

// Superuser is the name of the bootstrap role.
const Superuser = "postgres"

// Options say where and how a server runs.
type Options struct {
	// Dir holds the data, the password and the log; it is created, and a cluster that is in it is used again. "" is a
	// temporary folder that Stop removes.
	Dir string
	// Port on 127.0.0.1; 0 picks a free one.
	Port int
	// Volatile turns fsync off: for tests, whose data need not outlive the machine. A killed server still
	// recovers, because the page cache is the kernel's.
	Volatile bool
	// Settings are added to the server's command line, name=value.
	Settings []string
	// BinDir is the folder of initdb and postgres; "" searches (see FindBin).
	BinDir string
}

// Server is a running server.
type Server struct {
	Port int

	options   Options
	password  string
	temporary bool
	process   *child.Process
	account   *syscall.Credential
}

// Start initialises the data folder when it is empty, starts the server and waits until it answers.
func Start(ctx context.Context, o Options) (*Server, error) {
	s := &Server{options: o}
	if s.options.BinDir == "" {
		dir, err := FindBin()
		if err != nil {
			return nil, err
		}
		s.options.BinDir = dir
	}
	if err := s.chooseAccount(); err != nil {
		return nil, err
	}
	if err := s.prepareDir(); err != nil {
		return nil, err
	}
	if err := s.initdb(ctx); err != nil {
		s.removeTemporary()
		return nil, err
	}
	s.waitForPredecessor(ctx)
	if err := s.launch(ctx); err != nil {
		s.removeTemporary()
		return nil, err
	}
	return s, nil
}

// waitForPredecessor gives a server whose parent was killed the time that its own shutdown takes. Whether
// it is gone is for PostgreSQL to judge; this only waits.
func (s *Server) waitForPredecessor(ctx context.Context) {
	data, err := os.ReadFile(filepath.Join(s.dataDir(), "postmaster.pid"))
	if err != nil {
		return
	}
	first, _, _ := strings.Cut(string(data), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil || pid <= 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for syscall.Kill(pid, 0) == nil {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// chooseAccount picks the unprivileged account that a server started by root must run as.
func (s *Server) chooseAccount() error {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		s.account = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return nil
	}
	return errors.New("running as root and found neither the account postgres nor nobody to run PostgreSQL as")
}

func (s *Server) prepareDir() error {
	if s.options.Dir == "" {
		dir, err := os.MkdirTemp("", "railguard-pg-")
		if err != nil {
			return err
		}
		s.options.Dir, s.temporary = dir, true
	}
	// PostgreSQL resolves a relative data folder against itself, and its account must reach it.
	dir, err := filepath.Abs(s.options.Dir)
	if err != nil {
		return err
	}
	s.options.Dir = dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if s.account == nil {
		return nil
	}
	if err := os.Chown(dir, int(s.account.Uid), int(s.account.Gid)); err != nil {
		return err
	}
	return s.checkReach(dir)
}

// checkReach refuses a folder that the server's account cannot enter, naming the parent that is in the way.
func (s *Server) checkReach(dir string) error {
	for parent := filepath.Dir(dir); ; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err != nil {
			return err
		}
		owner, _ := info.Sys().(*syscall.Stat_t)
		mine := owner != nil && owner.Uid == s.account.Uid
		if !mine && info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("the data folder %s cannot be reached by the account that PostgreSQL runs as (uid %d): "+
				"%s does not let others pass; choose a folder elsewhere", dir, s.account.Uid, parent)
		}
		if parent == filepath.Dir(parent) {
			return nil
		}
	}
}

func (s *Server) dataDir() string { return filepath.Join(s.options.Dir, "data") }

// LogPath is the server's own log.
func (s *Server) LogPath() string { return filepath.Join(s.options.Dir, "postgres.log") }

func (s *Server) initdb(ctx context.Context) error {
	passwordFile := filepath.Join(s.options.Dir, "superuser-password")
	if _, err := os.Stat(filepath.Join(s.dataDir(), "PG_VERSION")); err == nil {
		password, err := os.ReadFile(passwordFile)
		s.password = string(password)
		return err
	}
	s.password = rand.Text()
	if err := os.WriteFile(passwordFile, []byte(s.password), 0o600); err != nil {
		return err
	}
	if s.account != nil {
		if err := os.Chown(passwordFile, int(s.account.Uid), int(s.account.Gid)); err != nil {
			return err
		}
	}
	args := []string{"-D", s.dataDir(), "-U", Superuser, "--pwfile", passwordFile, "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--no-instructions"}
	if s.options.Volatile {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(s.options.BinDir, "initdb"), args...)
	cmd.Dir = s.options.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.account}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// portTries bounds how often another free port is tried when somebody was faster.
const portTries = 5

func (s *Server) launch(ctx context.Context) error {
	var err error
	for range portTries {
		s.Port = s.options.Port
		if s.Port == 0 {
			if s.Port, err = freeport.Pick(); err != nil {
				return err
			}
		}
		if err = s.run(ctx); err == nil {
			return nil
		}
		if s.options.Port != 0 || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func (s *Server) run(ctx context.Context) error {
	args := []string{"-D", s.dataDir(), "-p", strconv.Itoa(s.Port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "max_connections=200", "-c", "password_encryption=scram-sha-256"}
	if s.options.Volatile {
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_wal_size=256MB")
	}
	for _, setting := range s.options.Settings {
		args = append(args, "-c", setting)
	}
	log, err := os.OpenFile(s.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(filepath.Join(s.options.BinDir, "postgres"), args...)
	cmd.Dir = s.options.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.account}
	// SIGINT is PostgreSQL's fast shutdown: a parent that was killed still leaves a clean data folder.
	s.process, err = child.Start(cmd, syscall.SIGINT)
	if err != nil {
		return err
	}
	if err := s.waitReady(ctx); err != nil {
		_ = s.process.Stop(syscall.SIGQUIT, 5*time.Second)
		return err
	}
	return nil
}

func (s *Server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.process.Done():
			return fmt.Errorf("PostgreSQL ended at start (port %d): %s", s.Port, lastLine(s.LogPath()))
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL did not answer on port %d: %w", s.Port, err)
		case <-tick.C:
		}
	}
}

func lastLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) > 3 {
		lines = lines[len(lines)-3:]
	}
	return strings.Join(lines, "; ")
}

// URL is the superuser's URL of a database.
func (s *Server) URL(database string) string { return s.RoleURL(database, Superuser, s.password) }

// RoleURL is a role's URL of a database.
func (s *Server) RoleURL(database, role, password string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(role, password),
		Host: "127.0.0.1:" + strconv.Itoa(s.Port), Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// CreateDatabase makes a database, a copy of template unless that is "".
func (s *Server) CreateDatabase(ctx context.Context, name, template string) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	statement := "CREATE DATABASE " + pgx.Identifier{name}.Sanitize()
	if template != "" {
		statement += " TEMPLATE " + pgx.Identifier{template}.Sanitize()
	}
	_, err = conn.Exec(ctx, statement)
	return err
}

// PID is the postmaster's process id.
func (s *Server) PID() int { return s.process.PID() }

// Done is closed when the server has ended, whoever ended it.
func (s *Server) Done() <-chan struct{} { return s.process.Done() }

// Signal sends a signal to the postmaster.
func (s *Server) Signal(sig syscall.Signal) error { return s.process.Signal(sig) }

// Restart starts a server that has ended again, on the same port and data.
func (s *Server) Restart(ctx context.Context) error {
	<-s.process.Done()
	ctx, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	for {
		err := s.run(ctx)
		// The processes of a server that was killed notice it within moments; until then PostgreSQL itself refuses a second one.
		if err == nil || !strings.Contains(err.Error(), "shared memory block") || ctx.Err() != nil {
			return err
		}
	}
}

// restartTimeout bounds a restart, the recovery of a server that was killed included.
const restartTimeout = 90 * time.Second

// Stop shuts the server down fast and cleanly, and removes a temporary data folder.
func (s *Server) Stop() error {
	err := s.process.Stop(syscall.SIGINT, 20*time.Second)
	s.removeTemporary()
	return err
}

func (s *Server) removeTemporary() {
	if s.temporary {
		_ = os.RemoveAll(s.options.Dir)
	}
}
