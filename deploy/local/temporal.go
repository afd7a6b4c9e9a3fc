package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"railguard/deploy/local/freeport"
)

// temporalSettings let the development server poll its queues without pause. With its defaults (20 polls a second)
// every hop of a workflow waits for 50 ms: a lone workflow of five activities takes 550 ms instead of 50.
var temporalSettings = []string{
	"system.enableActivityEagerExecution=true",
	"history.transferProcessorMaxPollRPS=2000",
	"history.timerProcessorMaxPollRPS=2000",
	"history.visibilityProcessorMaxPollRPS=200",
	"matching.numTaskqueueReadPartitions=1",
	"matching.numTaskqueueWritePartitions=1",
}

// ErrNoTemporal says that the Temporal command line, which has the development server in it, is not there.
var ErrNoTemporal = errors.New("the temporal command was not found: run `make tool-temporal`, put it on PATH, or set TEMPORAL_CLI")

// FindTemporal finds the temporal command: TEMPORAL_CLI, then PATH, then .tools/bin in the folder of the railguard
// binary or the working folder, or in one above.
func FindTemporal(binary string) (string, error) {
	if path := os.Getenv("TEMPORAL_CLI"); path != "" {
		if _, err := exec.LookPath(path); err != nil {
			return "", fmt.Errorf("TEMPORAL_CLI: %w", err)
		}
		return path, nil
	}
	if path, err := exec.LookPath("temporal"); err == nil {
		return path, nil
	}
	starts := []string{filepath.Dir(binary)}
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	for _, dir := range starts {
		for ; ; dir = filepath.Dir(dir) {
			path := filepath.Join(dir, ".tools", "bin", "temporal")
			if _, err := exec.LookPath(path); err == nil {
				return path, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", ErrNoTemporal
}

func (s *Stack) startTemporal(ctx context.Context) error {
	path, err := FindTemporal(s.binary)
	if err != nil {
		return err
	}
	s.temporalPath = path
	s.progress("starting Temporal's development server (in memory)")
	plan := service{
		name: Temporal, port: Temporal, grace: 15 * time.Second,
		command: func(port int) ([]string, []string, error) {
			argv, err := s.temporalCommand(path, port)
			env := append(ChildEnvironment(), "GOGC=400") // it allocates much and keeps little
			return argv, append(env, s.options.Env[Temporal]...), err
		},
		ready: temporalReady,
	}
	_, err = s.launch(ctx, plan)
	return err
}

// temporalCommand has no --db-filename: with its file SQLite the server fails under load.
func (s *Stack) temporalCommand(path string, port int) ([]string, error) {
	argv := []string{path, "server", "start-dev", "--ip", "127.0.0.1", "--port", strconv.Itoa(port), "--log-level", "error",
		"--disable-config-file", "--disable-config-env"}
	for _, flag := range []string{"--http-port", "--metrics-port"} {
		free, err := freeport.Pick()
		if err != nil {
			return nil, err
		}
		argv = append(argv, flag, strconv.Itoa(free))
	}
	if s.options.Headless {
		argv = append(argv, "--headless")
	} else {
		ui, _, err := s.choose("ui")
		if err != nil {
			return nil, err
		}
		s.uiPort = ui
		argv = append(argv, "--ui-ip", "127.0.0.1", "--ui-port", strconv.Itoa(ui))
	}
	for _, setting := range temporalSettings {
		argv = append(argv, "--dynamic-config-value", setting)
	}
	return argv, nil
}

// temporalReady asks for the namespace itself: the server's health turns green before the namespace can be used.
func temporalReady(ctx context.Context, port int) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	// A gRPC client that is refused once waits for a second; a socket does not.
	socket, err := (&net.Dialer{}).DialContext(ctx, "tcp", address(port))
	if err != nil {
		return err
	}
	_ = socket.Close() // nothing was sent on it
	c, err := client.DialContext(ctx, client.Options{HostPort: address(port), Namespace: Namespace, Logger: silent{}})
	if err != nil {
		return err
	}
	defer c.Close()
	answer, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: Namespace})
	if err != nil {
		return err
	}
	if state := answer.GetNamespaceInfo().GetState(); state != enumspb.NAMESPACE_STATE_REGISTERED {
		return fmt.Errorf("namespace %s is %v", Namespace, state)
	}
	_, err = c.WorkflowService().ListWorkflowExecutions(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: Namespace, PageSize: 1})
	return err
}

// silent is a Temporal client's logger: a server that is still starting is no news.
type silent struct{}

var _ sdklog.Logger = silent{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}

func address(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

// TemporalAddress is host:port of the Temporal frontend.
func (s *Stack) TemporalAddress() string { return address(s.Process(Temporal).Port()) }

// TemporalCommand is what a person types for the Temporal command line that the stack uses.
func (s *Stack) TemporalCommand() string {
	if path, err := exec.LookPath("temporal"); err == nil && path == s.temporalPath {
		return "temporal"
	}
	if dir, err := os.Getwd(); err == nil {
		if short, err := filepath.Rel(dir, s.temporalPath); err == nil && filepath.IsLocal(short) {
			return short
		}
	}
	return s.temporalPath
}

// UIURL is the address of Temporal's web UI; "" when Headless.
func (s *Stack) UIURL() string {
	if s.uiPort == 0 {
		return ""
	}
	return "http://" + address(s.uiPort)
}
