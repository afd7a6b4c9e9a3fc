package local

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"railguard/deploy/local/child"
	"railguard/deploy/local/freeport"
)

// service is the plan of a process: all that is needed to start it on some port.
type service struct {
	name  string
	port  string // the name of its port in Ports; "" takes a free one
	grace time.Duration
	// command is asked anew for each port that is tried.
	command func(port int) (argv, env []string, err error)
	// ready is one look at whether the process can do its job.
	ready func(ctx context.Context, port int) error
}

// Process is one child process. Its methods may be called from several goroutines.
type Process struct {
	name    string
	port    int
	argv    []string
	env     []string
	logPath string
	grace   time.Duration
	ready   func(ctx context.Context, port int) error

	mutex   sync.Mutex
	running *child.Process
}

const (
	startTimeout = 90 * time.Second
	portTries    = 5
)

// launch starts a service, on another free port when somebody was faster, and waits until it is ready.
func (s *Stack) launch(ctx context.Context, plan service) (*Process, error) {
	for try := 1; ; try++ {
		port, fixed, err := s.choose(plan.port)
		if err != nil {
			return nil, err
		}
		argv, env, err := plan.command(port)
		if err != nil {
			return nil, err
		}
		p := &Process{name: plan.name, port: port, argv: argv, env: env, logPath: s.logPath(plan.name), grace: plan.grace, ready: plan.ready}
		err = p.start(ctx)
		if err == nil {
			s.progress("%-16s ready on port %d (process %d)", p.name, port, p.PID())
			s.register(p, plan)
			return p, nil
		}
		if fixed || ctx.Err() != nil || try == portTries || !taken(port, err) {
			return nil, err
		}
	}
}

// taken reports whether somebody was faster: on the process's port, or on another that it listens on, which its log says.
func taken(port int, err error) bool {
	return !freeport.Free(port) || strings.Contains(err.Error(), syscall.EADDRINUSE.Error())
}

// runOnce runs a subcommand of the binary to its end.
func (s *Stack) runOnce(ctx context.Context, name string, env []string) error {
	path := s.logPath(name)
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	cmd := exec.Command(s.binary, name)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, log, log
	running, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	select {
	case <-running.Done():
	case <-ctx.Done():
		_ = running.Stop(syscall.SIGKILL, time.Second) // the reason is the context's
		return ctx.Err()
	}
	if err := running.Err(); err != nil {
		return fmt.Errorf("%s failed (%w); the last lines of %s:\n%s", name, err, path, tail(path, from))
	}
	s.progress("%-16s done", name)
	return nil
}

func (s *Stack) register(p *Process, plan service) {
	s.processMutex.Lock()
	defer s.processMutex.Unlock()
	s.processes[p.name] = p
	if plan.port == Worker || plan.port == "" {
		s.workers = append(s.workers, p)
	}
}

// start runs the process and waits until it is ready. After an error it is not running.
func (p *Process) start(ctx context.Context) error {
	log, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env, log, log
	// Nothing that these processes do needs an orderly end to stay correct, so the death of the parent is SIGKILL.
	running, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	if err := p.waitReady(ctx, running, from); err != nil {
		_ = running.Stop(syscall.SIGKILL, time.Second) // the error that led here says more
		return err
	}
	p.mutex.Lock()
	p.running = running
	p.mutex.Unlock()
	return nil
}

func (p *Process) waitReady(ctx context.Context, running *child.Process, logFrom int64) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		err := p.ready(ctx, p.port)
		if err == nil {
			return nil
		}
		select {
		case <-running.Done():
			return fmt.Errorf("%s ended at start; the last lines of %s:\n%s", p.name, p.logPath, tail(p.logPath, logFrom))
		case <-ctx.Done():
			return fmt.Errorf("%s was not ready in time: %w; the last lines of %s:\n%s", p.name, err, p.logPath, tail(p.logPath, logFrom))
		case <-tick.C:
		}
	}
}

// tailLines is how much of a log an error shows.
const tailLines = 20

// tail is the end of a log, of what was written after from.
func tail(path string, from int64) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if from <= int64(len(data)) {
		data = data[from:]
	}
	lines := strings.Split(string(bytes.TrimSpace(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

func (p *Process) current() *child.Process {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.running
}

// Name is the process's name.
func (p *Process) Name() string { return p.name }

// Port is the port that it listens on; it stays the same over Restart.
func (p *Process) Port() int { return p.port }

// PID is the process id; after Restart, the new one.
func (p *Process) PID() int { return p.current().PID() }

// Signal sends a signal to the process alone. A process that has ended is no error.
func (p *Process) Signal(sig syscall.Signal) error { return p.current().Signal(sig) }

// Done is closed when the process has ended, whoever ended it; after Restart it is the new process's.
func (p *Process) Done() <-chan struct{} { return p.current().Done() }

// Err is how the process ended, once Done is closed: nil for exit code 0.
func (p *Process) Err() error { return p.current().Err() }

// LogPath is its log; a restarted process appends to it.
func (p *Process) LogPath() string { return p.logPath }

// Restart starts the process again with the same environment, on the same port, and waits until it is ready. One that
// still runs is stopped first.
func (p *Process) Restart(ctx context.Context) error {
	if err := p.Stop(); err != nil {
		return err
	}
	return p.start(ctx)
}

// Stop ends the process in order; one that has ended is no error. A frozen one is woken, or it could not end.
func (p *Process) Stop() error {
	running := p.current()
	if err := running.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := running.Stop(syscall.SIGCONT, p.grace); err != nil {
		return fmt.Errorf("%s: %w; its log is %s", p.name, err, p.logPath)
	}
	return nil
}

// ChildEnvironment is the part of the caller's environment that children get: enough to run, too little for a stray
// variable of the product, of PostgreSQL or of Temporal to change what they do.
func ChildEnvironment() []string {
	var kept []string
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if slices.Contains([]string{"PATH", "HOME", "TMPDIR", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"}, name) ||
			strings.HasPrefix(name, "OTEL_") || strings.HasPrefix(name, "GO") {
			kept = append(kept, pair)
		}
	}
	return kept
}
