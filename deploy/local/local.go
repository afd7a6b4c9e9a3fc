// Package local runs the whole system on one machine without containers: two PostgreSQL servers, Temporal's
// development server and every process of the product, each a child process with its own log.
package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"

	"railguard/deploy/local/credentials"
	"railguard/deploy/local/pgserver"
)

// The processes, by the names of their subcommands, and Temporal's server.
const (
	LockServer      = "lock-server"
	PaymentResource = "payment-resource"
	RailProxy       = "rail-proxy"
	RailStub        = "rail-stub"
	Worker          = "worker"
	Temporal        = "temporal"
)

// Namespace is the Temporal namespace that everything runs in; TaskQueue is the worker's.
const (
	Namespace = "default"
	TaskQueue = "payouts"
)

// Options say what to start and where. The zero value is a temporary stack on free ports, silent, with everything.
type Options struct {
	// DataDir holds databases, secrets and logs. "" is a temporary folder that Stop removes; any other is kept, and
	// a stack started on it again finds its databases and tokens as they were. Temporal keeps nothing on disk.
	DataDir string
	// Binary is the railguard binary whose subcommands run as children; "" is the running program itself.
	Binary string
	Ports  Ports
	// Env has extra NAME=VALUE pairs for a process, by its name; they outrank what the stack sets.
	Env map[string][]string
	// Volatile turns the databases' fsync off: for tests, whose data need not outlive the machine.
	Volatile bool
	// NoWorker starts no worker: the caller starts its own with StartWorker.
	NoWorker bool
	// Headless leaves Temporal's web UI out.
	Headless bool
	// Out gets a line for every step; nil is silent.
	Out io.Writer
}

// Stack is a running system.
type Stack struct {
	options      Options
	data         *dataDir
	binary       string
	secrets      *credentials.Set
	lockdb       *pgserver.Server
	paydb        *pgserver.Server
	uiPort       int
	temporalPath string
	stopOnce     sync.Once
	stopErr      error
	outMutex     sync.Mutex
	processMutex sync.Mutex
	processes    map[string]*Process
	workers      []*Process
}

// Start starts everything in order and returns when all of it is ready. After an error nothing is left running.
func Start(ctx context.Context, o Options) (*Stack, error) {
	s := &Stack{options: o, processes: map[string]*Process{}}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	if err := s.startAll(ctx); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// prepare does what can be refused before anything runs.
func (s *Stack) prepare() error {
	if err := s.options.validate(); err != nil {
		return err
	}
	s.binary = s.options.Binary
	if s.binary == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		s.binary = self
	}
	binary, err := filepath.Abs(s.binary)
	if err != nil {
		return err
	}
	if _, err := os.Stat(binary); err != nil {
		return fmt.Errorf("the railguard binary: %w", err)
	}
	s.binary = binary
	if err := s.options.Ports.check(s.options); err != nil {
		return err
	}
	if s.data, err = openDataDir(s.options.DataDir); err != nil {
		return err
	}
	if s.secrets, err = credentials.Load(s.data.secretsDir()); err != nil {
		return errors.Join(err, s.data.close())
	}
	return nil
}

func (o Options) validate() error {
	for name := range o.Env {
		switch name {
		case LockServer, PaymentResource, RailProxy, RailStub, Worker, Temporal:
		default:
			return fmt.Errorf("environment for %q: there is no such process", name)
		}
	}
	return nil
}

func (s *Stack) startAll(ctx context.Context) error {
	s.progress("data and logs are in %s", s.data.path)
	engines, engineCtx := errgroup.WithContext(ctx)
	engines.Go(func() error { return s.startDatabases(engineCtx) })
	engines.Go(func() error { return s.startTemporal(engineCtx) })
	if err := engines.Wait(); err != nil {
		return err
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	for _, service := range s.services() {
		if service.name == Worker && s.options.NoWorker {
			continue
		}
		if _, err := s.launch(ctx, service); err != nil {
			return err
		}
	}
	return s.Profile().Save(s.ProfilePath())
}

func (s *Stack) progress(format string, args ...any) {
	if s.options.Out != nil {
		s.outMutex.Lock() // several things start at once
		defer s.outMutex.Unlock()
		_, _ = fmt.Fprintf(s.options.Out, format+"\n", args...) // a lost progress line harms nobody
	}
}

// Stop ends everything in order: workers, rail-proxy, payment-resource, lock-server, rail-stub, Temporal, databases.
// It reports what had to be killed. Calling it again does nothing.
func (s *Stack) Stop() error {
	s.stopOnce.Do(func() { s.stopErr = s.stop() })
	return s.stopErr
}

func (s *Stack) stop() error {
	var all []error
	workers := s.takeWorkers()
	stopping := make(chan error, len(workers))
	for _, worker := range workers {
		go func() { stopping <- worker.Stop() }()
	}
	for range workers {
		all = append(all, <-stopping)
	}
	for _, name := range []string{RailProxy, PaymentResource, LockServer, RailStub, Temporal} {
		if p := s.Process(name); p != nil {
			s.progress("stopping %s", name)
			all = append(all, p.Stop())
		}
	}
	for _, server := range []*pgserver.Server{s.paydb, s.lockdb} {
		if server != nil {
			all = append(all, server.Stop())
		}
	}
	return errors.Join(append(all, s.data.close())...)
}

// takeWorkers returns the workers and closes the list, so that none is started while the stack stops.
func (s *Stack) takeWorkers() []*Process {
	s.processMutex.Lock()
	defer s.processMutex.Unlock()
	workers := s.workers
	s.workers = nil
	if len(workers) > 0 {
		s.progress("stopping %s", Worker)
	}
	return workers
}

// KeepData makes Stop leave a temporary data folder where it is, so that its logs can be read.
func (s *Stack) KeepData() { s.data.temporary = false }

// Wait returns nil when ctx ends, and an error as soon as a process has ended by itself.
func (s *Stack) Wait(ctx context.Context) error {
	type watched struct {
		name, log string
		done      <-chan struct{}
	}
	all := []watched{
		{"lockdb", s.lockdb.LogPath(), s.lockdb.Done()},
		{"paydb", s.paydb.LogPath(), s.paydb.Done()},
	}
	s.processMutex.Lock()
	for _, p := range s.processes {
		all = append(all, watched{p.name, p.logPath, p.Done()})
	}
	s.processMutex.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan watched, len(all))
	for _, w := range all {
		go func() {
			select {
			case <-w.done:
				ended <- w
			case <-ctx.Done():
			}
		}()
	}
	select {
	case w := <-ended:
		return fmt.Errorf("%s has ended by itself; the last lines of %s:\n%s", w.name, w.log, tail(w.log, 0))
	case <-ctx.Done():
		return nil
	}
}

// Process is a process by name: one of the constants, or a worker that StartWorker started. It is nil when there is none.
func (s *Stack) Process(name string) *Process {
	s.processMutex.Lock()
	defer s.processMutex.Unlock()
	return s.processes[name]
}

// LockDB is the server of the lock-server's database.
func (s *Stack) LockDB() *pgserver.Server { return s.lockdb }

// PayDB is the server of the database that payment-resource and rail-proxy share.
func (s *Stack) PayDB() *pgserver.Server { return s.paydb }
