package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"railguard/deploy/local"
	"railguard/deploy/local/child"
)

// workerProcess is a worker that this program owns: with a task queue and a log of its own, and dead when this program is.
type workerProcess struct {
	*child.Process
	queue   string
	logPath string
}

// startWorker starts a worker on a task queue of its own; env is added, NAME=value.
func (s *system) startWorker(queue, logPath string, env ...string) (*workerProcess, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	cmd := exec.Command(s.binary, "worker")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(local.ChildEnvironment(),
		"LISTEN_ADDR=127.0.0.1:0", "TASK_QUEUE="+queue,
		"LOCK_SERVER_URL="+s.profile.LockServer, "PAYMENT_RESOURCE_URL="+s.profile.PaymentResource, "RAIL_PROXY_URL="+s.profile.RailProxy,
		"CALLER_TOKEN_FILE="+s.profile.Tokens["executor"],
		"TEMPORAL_ADDRESS="+s.profile.TemporalAddress, "TEMPORAL_NAMESPACE="+s.profile.TemporalNamespace,
		"LOCK_SAFETY_MARGIN="+fmt.Sprint(safetyMargin))
	cmd.Env = append(cmd.Env, env...)
	process, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	return &workerProcess{process, queue, logPath}, nil
}

// lastLines are the end of the worker's log, for an error.
func (w *workerProcess) lastLines() string {
	data, err := os.ReadFile(w.logPath)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}

// startRun starts an ExecutePayout on a task queue. A run that is open under the id is an error.
func (s *system) startRun(ctx context.Context, workflowID, queue, payoutID string) (client.WorkflowRun, error) {
	return s.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: workflowID, TaskQueue: queue,
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}, "ExecutePayout", map[string]string{"payoutId": payoutID})
}

// awaitRun waits for a run's result, for the end of the worker that is to bring it, or for the limit.
func awaitRun(ctx context.Context, run client.WorkflowRun, by *workerProcess, limit time.Duration) (result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s has not ended within %v", run.GetID(), limit))
	defer cancel()
	type answer struct {
		result result
		err    error
	}
	answered := make(chan answer, 1)
	go func() {
		var r result
		err := run.Get(ctx, &r)
		answered <- answer{r, err}
	}()
	select {
	case a := <-answered:
		if a.err != nil && ctx.Err() != nil {
			a.err = context.Cause(ctx)
		}
		return a.result, a.err
	case <-by.Done():
		return result{}, &workerEnded{run.GetID(), by}
	}
}

// workerEnded says that a worker process ended before its run did.
type workerEnded struct {
	workflowID string
	worker     *workerProcess
}

func (e *workerEnded) Error() string {
	return fmt.Sprintf("the worker process %d of %s ended by itself (%v); the last lines of its log:\n%s",
		e.worker.PID(), e.workflowID, e.worker.Err(), e.worker.lastLines())
}

// checkBinary refuses a railguard command that is not there.
func checkBinary(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", usage("--binary: %w", err)
	}
	info, err := os.Stat(absolute)
	if err != nil {
		return "", usage("--binary: %w (make build makes it)", err)
	}
	if info.IsDir() || info.Mode().Perm()&0o111 == 0 {
		return "", usage("--binary %s is not a program", path)
	}
	return absolute, nil
}
