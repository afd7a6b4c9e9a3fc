package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// tick is how often a state is looked at that nobody announces.
const tick = 20 * time.Millisecond

// process is a child of this program. Its signals reach that process and no other, even if its id is given away again.
type process interface {
	PID() int
	Signal(syscall.Signal) error
}

// identify checks that a process is the worker of a task queue and nothing else, a shell, say: its own command line and
// environment say so.
func identify(p process, queue string) error {
	pid := p.PID()
	command, err := commandLine(pid)
	if err != nil {
		return err
	}
	argv := bytes.Split(bytes.TrimRight(command, "\x00"), []byte{0})
	if len(argv) != 2 || string(argv[1]) != "worker" {
		return fmt.Errorf("process %d is not a worker: its command line is %q", pid, bytes.Join(argv, []byte{' '}))
	}
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return err
	}
	for _, pair := range bytes.Split(environment, []byte{0}) {
		if string(pair) == "TASK_QUEUE="+queue {
			return nil
		}
	}
	return fmt.Errorf("process %d is a worker, but not the one of task queue %s", pid, queue)
}

// commandLine reads a process's arguments. For a moment after a process has become another program they are empty.
func commandLine(pid int) (command []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err = await(ctx, func() (bool, error) {
		command, err = os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return len(command) > 0, err
	}, func() string { return fmt.Sprintf("process %d has no command line", pid) })
	return command, err
}

// processState is the state letter of a process, as proc(5) has it: T is stopped by a signal.
func processState(pid int) (string, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", err
	}
	// The command's name stands in parentheses and may hold anything, parentheses too.
	_, rest, found := bytes.Cut(stat[bytes.LastIndexByte(stat, ')'):], []byte{' '})
	if !found || len(rest) == 0 {
		return "", fmt.Errorf("/proc/%d/stat cannot be read: %q", pid, stat)
	}
	return string(rest[:1]), nil
}

// stopped is the state of a process that SIGSTOP has stopped.
const stopped = "T"

// freeze stops a process and returns once the kernel says that it is stopped.
func freeze(ctx context.Context, p process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return awaitState(ctx, p.PID(), func(state string) bool { return state == stopped })
}

// thaw lets a process go on and returns once the kernel says so.
func thaw(ctx context.Context, p process) error {
	if err := p.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	return awaitState(ctx, p.PID(), func(state string) bool { return state != stopped })
}

func awaitState(ctx context.Context, pid int, reached func(string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var state string
	return await(ctx, func() (done bool, err error) {
		state, err = processState(pid)
		return reached(state), err
	}, func() string { return fmt.Sprintf("process %d is in state %s", pid, state) })
}

// await looks until something is done, fails, or ctx ends; what then tells how far it was.
func await(ctx context.Context, look func() (bool, error), what func() string) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		done, err := look()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what(), ctx.Err())
		case <-ticker.C:
		}
	}
}
