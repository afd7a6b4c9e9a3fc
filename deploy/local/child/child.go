// Package child starts processes that end with the process that started them, even when that one is killed.
package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a child process that is running or has ended.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start starts cmd in a process group of its own, so that a Ctrl-C in the terminal reaches the parent alone and the
// children are stopped in order. onDeath is the signal that the kernel sends to the child when the parent dies.
func Start(cmd *exec.Cmd, onDeath syscall.Signal) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = onDeath
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel sends the signal when the thread that forked ends, not the process, so this
		// goroutine keeps its thread for as long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// PID is the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the child ended, once Done is closed: nil for exit code 0.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Signal sends a signal to the child alone. A child that has ended is no error.
func (p *Process) Signal(s syscall.Signal) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	// It may have been waited for a moment before done is closed.
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %v to process %d: %w", s, p.PID(), err)
	}
	return nil
}

// Stop sends the signal and waits; after grace it kills the child and says so.
func (p *Process) Stop(s syscall.Signal, grace time.Duration) error {
	if err := p.Signal(s); err != nil {
		return err
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-p.done:
		return nil
	case <-late.C:
		_ = p.Signal(syscall.SIGKILL)
		<-p.done
		return fmt.Errorf("process %d did not end within %v of %v and was killed", p.PID(), grace, s)
	}
}
