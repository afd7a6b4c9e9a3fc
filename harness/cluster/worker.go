package cluster

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"railguard/deploy/local"
)

// Worker is a worker process with a task queue of its own, so that what it did and counted is one test's doing.
type Worker struct {
	*local.Process
	TaskQueue string
	Cluster   *Cluster
}

// NewWorker starts a worker process for this test alone and stops it when the test ends. env is added to
// its environment, NAME=value.
func (c *Cluster) NewWorker(t testing.TB, env ...string) *Worker {
	t.Helper()
	return c.NewWorkerOn(t, "q-"+uuid.NewString(), env...)
}

// NewWorkerOn is NewWorker on a given task queue.
func (c *Cluster) NewWorkerOn(t testing.TB, taskQueue string, env ...string) *Worker {
	t.Helper()
	process, err := c.StartWorker(t.Context(), "worker-"+uuid.NewString()[:8], append([]string{"TASK_QUEUE=" + taskQueue}, env...)...)
	require.NoError(t, err)
	w := &Worker{Process: process, TaskQueue: taskQueue, Cluster: c}
	t.Cleanup(func() { require.NoError(t, process.Stop()) })
	return w
}

// URL is where the worker tells its health and metrics.
func (w *Worker) URL() string { return fmt.Sprintf("http://127.0.0.1:%d", w.Port()) }

// Result is what ExecutePayout returns, as its JSON says.
type Result struct {
	PayoutID      string `json:"payoutId"`
	AccountID     string `json:"accountId"`
	Outcome       string `json:"outcome"`
	State         string `json:"state"`
	FencingToken  int64  `json:"fencingToken"`
	RailReference string `json:"railReference"`
	Reason        string `json:"reason"`

	// Run is the run that returned it.
	Run client.WorkflowRun `json:"-"`
}

// Input is the input of ExecutePayout.
type Input struct {
	PayoutID  string `json:"payoutId"`
	AccountID string `json:"accountId,omitempty"`
}

// Begin starts ExecutePayout on the worker's queue under the payout's own workflow id.
func (w *Worker) Begin(t testing.TB, payoutID string) client.WorkflowRun {
	t.Helper()
	return w.BeginAs(t, "payout-"+payoutID, payoutID)
}

// BeginAs is Begin under another workflow id.
func (w *Worker) BeginAs(t testing.TB, workflowID, payoutID string) client.WorkflowRun {
	t.Helper()
	run, err := w.Cluster.Temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: workflowID, TaskQueue: w.TaskQueue,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
	}, "ExecutePayout", Input{PayoutID: payoutID})
	require.NoError(t, err)
	return run
}

// Await waits for the result of a run.
func (c *Cluster) Await(t testing.TB, run client.WorkflowRun) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	var r Result
	require.NoError(t, run.Get(ctx, &r))
	r.Run = run
	return r
}

// History reads the whole history of a run.
func (c *Cluster) History(t testing.TB, run client.WorkflowRun) *historypb.History {
	t.Helper()
	var events []*historypb.HistoryEvent
	iterator := c.Temporal.GetWorkflowHistory(t.Context(), run.GetID(), run.GetRunID(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for iterator.HasNext() {
		event, err := iterator.Next()
		require.NoError(t, err)
		events = append(events, event)
	}
	return &historypb.History{Events: events}
}

// Execute runs a payout to its end.
func (w *Worker) Execute(t testing.TB, payoutID string) Result {
	t.Helper()
	return w.Cluster.Await(t, w.Begin(t, payoutID))
}

// Metrics scrapes a process: "name{labels}" as it stands in the exposition → value.
func Metrics(t testing.TB, base string) map[string]float64 {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/metrics", http.NoBody)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	require.Equal(t, http.StatusOK, res.StatusCode)
	values := make(map[string]float64)
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if at := strings.LastIndexByte(line, ' '); at > 0 && line[0] != '#' {
			value, err := strconv.ParseFloat(line[at+1:], 64)
			require.NoError(t, err, line)
			values[line[:at]] = value
		}
	}
	require.NoError(t, lines.Err())
	return values
}

// Executed is how many payouts the worker has counted, by outcome: posted, failed, abandoned, ambiguous.
func (w *Worker) Executed(t testing.TB) map[string]float64 {
	t.Helper()
	metrics := Metrics(t, w.URL())
	counts := make(map[string]float64)
	for _, outcome := range []string{"posted", "failed", "abandoned", "ambiguous"} {
		name := fmt.Sprintf("payout_execute_seconds_count{outcome=%q}", outcome)
		require.Contains(t, metrics, name, "a closed label set exists from the first scrape")
		counts[outcome] = metrics[name]
	}
	return counts
}
