package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"railguard/deploy/local"
	"railguard/deploy/local/child"
)

const (
	bareWorkerCommand = "bare-worker"
	bareQueue         = "bench-bare"
	bareWorkflowType  = "Bare"
	bareActivityType  = "Nothing"
	// bareSteps is the number of activities of a payout that ends POSTED: acquire, claim, submit, post, release.
	bareSteps = 5
)

// bare is the engine's ceiling: a workflow that schedules one activity after another, like a payout, with nothing to do in any.
func bare(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 4 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	for range bareSteps {
		if err := workflow.ExecuteActivity(ctx, bareActivityType).Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

func nothing(context.Context) error { return nil }

// bareWorkerOptions are those of the product's worker in what costs time.
func bareWorkerOptions() worker.Options {
	const executions, pollers = 200, 16
	return worker.Options{
		MaxConcurrentActivityExecutionSize:     executions,
		MaxConcurrentWorkflowTaskExecutionSize: executions,
		MaxConcurrentActivityTaskPollers:       pollers,
		MaxConcurrentWorkflowTaskPollers:       pollers,
		StickyScheduleToStartTimeout:           time.Second,
	}
}

// runBareWorker is the process that runs the bare workflows, as the product's worker runs the payouts.
func runBareWorker(ctx context.Context) error {
	c, err := dialTemporal(ctx, os.Getenv("TEMPORAL_ADDRESS"))
	if err != nil {
		return err
	}
	defer c.Close()
	w := worker.New(c, bareQueue, bareWorkerOptions())
	w.RegisterWorkflowWithOptions(bare, workflow.RegisterOptions{Name: bareWorkflowType})
	w.RegisterActivityWithOptions(nothing, activity.RegisterOptions{Name: bareActivityType})
	if err := w.Start(); err != nil {
		return err
	}
	<-ctx.Done()
	w.Stop()
	return nil
}

// startBareWorker runs this program again as the bare workflows' worker.
func startBareWorker(stack *local.Stack) (*child.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(stack.LogDir(), bareWorkerCommand+".log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	cmd := exec.Command(self, bareWorkerCommand)
	cmd.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+stack.TemporalAddress())
	cmd.Stdout, cmd.Stderr = log, log
	return child.Start(cmd, syscall.SIGKILL)
}

// bareRunner starts bare workflows and waits for each.
type bareRunner struct{ temporal client.Client }

func (b bareRunner) execute(ctx context.Context) (workflowID string, err error) {
	run, err := b.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "bare-" + uuid.NewString(), TaskQueue: bareQueue}, bareWorkflowType)
	if err != nil {
		return "", fmt.Errorf("start of a bare workflow: %w", err)
	}
	if err := run.Get(ctx, nil); err != nil {
		return "", fmt.Errorf("bare workflow %s: %w", run.GetID(), err)
	}
	return run.GetID(), nil
}

var errNoAddress = errors.New("TEMPORAL_ADDRESS must be set")

func dialTemporal(ctx context.Context, address string) (client.Client, error) {
	if address == "" {
		return nil, errNoAddress
	}
	return client.DialContext(ctx, client.Options{HostPort: address, Namespace: local.Namespace, Logger: silent{}})
}

// silent is the Temporal client's logger: what goes wrong is returned.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}
