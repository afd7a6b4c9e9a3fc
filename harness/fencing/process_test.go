//go:build fencing

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/harness/cluster"
)

// descendants are the processes below a process, by the kernel's own account.
func descendants(t *testing.T, root int) []int {
	t.Helper()
	children := map[int][]int{}
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, path := range all {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		pid, err := strconv.Atoi(strings.Split(path, "/")[2])
		require.NoError(t, err)
		fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
		parent, err := strconv.Atoi(fields[1])
		require.NoError(t, err)
		children[parent] = append(children[parent], pid)
	}
	var found []int
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		found = append(found, children[queue[0]]...)
		queue = append(queue, children[queue[0]]...)
	}
	return found
}

// gone reports whether a process has ended; one that nobody has waited for yet has.
func gone(pid int) bool {
	state, err := processState(pid)
	return err != nil || state == "Z"
}

// However the experiment is killed while a worker is frozen: within 30 seconds nothing of it is left, neither frozen nor running.
func TestKillingTheExperimentLeavesNothingBehind(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGKILL": syscall.SIGKILL, "SIGINT": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			binary, err := cluster.Binary()
			require.NoError(t, err)
			// What a killed one cannot remove goes with the test. The account that PostgreSQL runs as must get there.
			temporary, err := os.MkdirTemp("", "fencing-test-")
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, os.RemoveAll(temporary)) })
			require.NoError(t, os.Chmod(temporary, 0o755))
			cmd := exec.Command(os.Args[0], "--fencing", "off", "--short", "--lease-ttl", "20s", "--work", "60s", "--binary", binary, "--out", t.TempDir())
			cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+temporary)
			require.NoError(t, cmd.Start())
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()

			var frozen int
			require.Eventually(t, func() bool {
				for _, pid := range descendants(t, cmd.Process.Pid) {
					if state, err := processState(pid); err == nil && state == stopped {
						frozen = pid
					}
				}
				return frozen != 0
			}, 2*time.Minute, tick, "no worker was frozen")
			all := descendants(t, cmd.Process.Pid)
			require.Greater(t, len(all), 8, "databases, Temporal, services, worker")
			stacks := filepath.Join(temporary, "railguard-*")
			there, err := filepath.Glob(stacks)
			require.NoError(t, err)
			require.NotEmpty(t, there)

			require.NoError(t, cmd.Process.Signal(signal))
			require.Eventually(t, func() bool {
				for _, pid := range all {
					if !gone(pid) {
						return false
					}
				}
				return true
			}, 30*time.Second, tick, "something is left of %v; the frozen one was %d", all, frozen)
			err = <-ended
			require.Error(t, err)
			if signal != syscall.SIGKILL {
				require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode())
				left, err := filepath.Glob(stacks)
				require.NoError(t, err)
				require.Empty(t, left, "databases and tokens of a stack that was ended in order")
			}
		})
	}
}
