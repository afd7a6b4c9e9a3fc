package local_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"railguard/deploy/local"
)

// binary is the railguard binary, built once for this package's tests.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "railguard-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "railguard")
	if out, err := exec.Command("go", "build", "-o", binary, "railguard").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v: %s\n", err, out)
		return 1
	}
	return m.Run()
}

func start(t *testing.T, o local.Options) *local.Stack {
	t.Helper()
	o.Binary, o.Volatile = binary, true
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stack, err := local.Start(ctx, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stack.Stop()) })
	return stack
}

// stopAndExpectNothing stops the stack and looks for what may be left of it.
func stopAndExpectNothing(t *testing.T, stack *local.Stack) {
	t.Helper()
	all := pids(stack)
	require.NoError(t, stack.Stop())
	for _, pid := range all {
		require.Falsef(t, alive(pid), "process %d outlived Stop: %s", pid, commandLine(pid))
	}
	require.NoDirExists(t, stack.DataDir())
}

// pids are the process ids of everything that the stack runs.
func pids(stack *local.Stack) []int {
	all := []int{stack.LockDB().PID(), stack.PayDB().PID()}
	for _, name := range []string{local.LockServer, local.PaymentResource, local.RailProxy, local.RailStub, local.Worker, local.Temporal} {
		if p := stack.Process(name); p != nil {
			all = append(all, p.PID())
		}
	}
	return all
}

func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func TestBusyPortIsNamedBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	port := l.Addr().(*net.TCPAddr).Port
	_, err = local.Start(context.Background(), local.Options{Binary: binary, Ports: local.Ports{RailProxy: port}})
	require.ErrorContains(t, err, "port "+strconv.Itoa(port)+" of rail-proxy is busy")
	require.ErrorContains(t, err, "--rail-proxy-port")

	_, err = local.Start(context.Background(), local.Options{Binary: binary, Ports: local.Ports{RailProxy: 20999, UI: 20999}})
	require.ErrorContains(t, err, "given to both rail-proxy and ui")
}

// query returns the first column of the first row as text, "" without rows.
func query(t *testing.T, url, statement string) string {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(ctx)) }()
	rows, err := conn.Query(ctx, statement)
	require.NoError(t, err)
	defer rows.Close()
	var value any
	for rows.Next() {
		values, err := rows.Values()
		require.NoError(t, err)
		value = values[0]
	}
	require.NoError(t, rows.Err())
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}
