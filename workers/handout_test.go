package workers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"railguard/services/fencing"
	"railguard/services/paymentapi"
	"railguard/services/railapi"
	"railguard/workflows"
)

// A submission that no worker ever took is the one failure after which it is known that nothing was
// presented. Here the last worker for activities ends between the claim and the submission.
func TestASubmissionThatWasNeverHandedOutHandsTheClaimBack(t *testing.T) {
	t.Parallel()
	c := dial(t, "default")
	in := workflows.PayoutInput{PayoutID: uuid.NewString(), AccountID: "acc-1"}
	var submissions atomic.Int64
	var first atomic.Pointer[running]
	abandoned := make(chan string, 10)
	payments := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/abandon-claim") {
			abandoned <- r.Header.Get(fencing.HeaderToken)
			_ = json.NewEncoder(w).Encode(paymentapi.PayoutStatus{PayoutID: in.PayoutID, State: paymentapi.Claimed})
			return
		}
		// The worker is told to stop while it waits for this answer, and has stopped to poll when it comes.
		first.Load().stop()
		first.Load().awaitReason(t, "draining")
		<-time.After(300 * time.Millisecond)
		_ = json.NewEncoder(w).Encode(paymentapi.Claim{
			PayoutID: in.PayoutID, AccountID: in.AccountID, ClaimToken: 42, AmountMinor: 100, Currency: "EUR",
			State: paymentapi.Claimed, PreviousState: paymentapi.Pending, IdempotencyKey: in.PayoutID,
		})
	}))
	t.Cleanup(payments.Close)
	rail := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			submissions.Add(1)
		}
		_ = json.NewEncoder(w).Encode(railapi.Info{RailTimeoutMillis: 500})
	}))
	t.Cleanup(rail.Close)
	cfg := config(t)
	cfg.LockServerURL, cfg.PaymentResourceURL, cfg.RailProxyURL = granter(t), payments.URL, rail.URL
	cfg.SubmitBudget, cfg.SafetyMargin = 12*time.Second, 0.4 // of the 30 s, 6 s are left for handing it out
	first.Store(start(t, cfg, client.Options{HostPort: temporalAddress}))
	first.Load().awaitReady(t)
	run, err := c.ExecuteWorkflow(t.Context(), workflows.StartOptions(cfg.TaskQueue, in), workflows.ExecutePayoutType, in)
	require.NoError(t, err)
	require.NoError(t, first.Load().wait(t))

	// Workflow tasks go on; activities wait.
	onlyWorkflows := worker.New(c, cfg.TaskQueue, worker.Options{LocalActivityWorkerOnly: true})
	payouts := &workflows.Payouts{Timing: cfg.timing()}
	onlyWorkflows.RegisterWorkflowWithOptions(payouts.ExecutePayout, workflow.RegisterOptions{Name: workflows.ExecutePayoutType})
	require.NoError(t, onlyWorkflows.Start())
	require.Eventually(t, func() bool { return timedOut(t, c, run) == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START }, soon, 100*time.Millisecond)
	onlyWorkflows.Stop()

	start(t, cfg, client.Options{HostPort: temporalAddress})
	var result workflows.PayoutResult
	require.NoError(t, run.Get(t.Context(), &result))
	require.Equal(t, workflows.OutcomeAbandoned, result.Outcome)
	require.Equal(t, "no worker took the submission in time", result.Reason)
	require.Equal(t, fmt.Sprint(result.FencingToken), <-abandoned)
	require.Zero(t, submissions.Load())
}

// timedOut is how an activity of the run timed out, if one did.
func timedOut(t *testing.T, c client.Client, run client.WorkflowRun) enumspb.TimeoutType {
	history := c.GetWorkflowHistory(t.Context(), run.GetID(), run.GetRunID(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event, err := history.Next()
		require.NoError(t, err)
		if failure := event.GetActivityTaskTimedOutEventAttributes().GetFailure(); failure != nil {
			return failure.GetTimeoutFailureInfo().GetTimeoutType()
		}
	}
	return enumspb.TIMEOUT_TYPE_UNSPECIFIED
}
