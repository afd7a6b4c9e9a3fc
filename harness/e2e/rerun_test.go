package e2e

import (
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"railguard/harness/cluster"
)

// resetToBeforeSubmit does what `temporal workflow reset` does, to the workflow task that scheduled the submit.
func resetToBeforeSubmit(t *testing.T, run client.WorkflowRun) client.WorkflowRun {
	t.Helper()
	var point int64
	for _, event := range shared.History(t, run).Events {
		if a := event.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == "SubmitToRail" {
			point = a.GetWorkflowTaskCompletedEventId()
		}
	}
	require.Positive(t, point)
	answer, err := shared.Temporal.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: "default", RequestId: uuid.NewString(), Reason: "test", WorkflowTaskFinishEventId: point,
		WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: run.GetID(), RunId: run.GetRunID()},
	})
	require.NoError(t, err)
	return shared.Temporal.GetWorkflow(t.Context(), run.GetID(), answer.GetRunId())
}

func TestResetOfAFinishedPayoutSubmitsNothing(t *testing.T) {
	t.Parallel()
	payout := shared.NewPayout(t, shared.NewAccount(t, opening), amount)
	w := shared.NewWorker(t)
	run := w.Begin(t, payout)
	verify(t, w, shared.Await(t, run), postedOnce)
	before := shared.Evidence(t, payout)
	again := resetToBeforeSubmit(t, run)
	r := shared.Await(t, again)
	require.NotEqual(t, "posted", r.Outcome)
	require.Equal(t, before, shared.Evidence(t, payout), "the second history changed nothing")
}

// A reset of a running workflow leaves its submission running beside the new one: the same token twice.
func TestResetOfARunningPayoutSubmitsOnce(t *testing.T) {
	t.Parallel()
	payout := shared.NewPayout(t, shared.NewAccount(t, opening), amount)
	p := proxyTo(t, shared.URL("rail-proxy"))
	arrived, release := held(p, http.MethodPost, "/submissions")
	w := shared.NewWorker(t, "RAIL_PROXY_URL="+p.URL)
	run := w.Begin(t, payout)
	<-arrived
	again := resetToBeforeSubmit(t, run)
	r := shared.Await(t, again)
	close(release)
	require.Equal(t, "posted", r.Outcome)
	e := shared.Evidence(t, payout)
	require.Len(t, e.Requests, 1)
	require.Equal(t, 1, e.Presented())
	require.Equal(t, "POSTED", e.State)
}

// The input is all that a person types; each mistake ends the workflow with a sentence that names it.
func TestBadInputIsRefusedAndNothingIsTouched(t *testing.T) {
	t.Parallel()
	w := shared.NewWorker(t)
	payout := shared.NewPayout(t, shared.NewAccount(t, opening), amount)
	for name, input := range map[string][]any{
		"no input":              {},
		"null":                  {nil},
		"a string":              {"payout"},
		"an unknown field":      {map[string]any{"payoutId": payout, "force": true}},
		"a payout id of no use": {map[string]any{"payoutId": "7"}},
		"no payout id":          {map[string]any{"accountId": "a"}},
		"a wrong type":          {map[string]any{"payoutId": 7}},
		"a bad account id":      {map[string]any{"payoutId": payout, "accountId": "a b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run, err := shared.Temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: uuid.NewString(), TaskQueue: w.TaskQueue}, "ExecutePayout", input...)
			require.NoError(t, err)
			requireBadInput(t, run.Get(t.Context(), nil))
			requireUntouched(t, payout)
			record(t, shared, run)
		})
	}
	t.Run("a payout that is not there", func(t *testing.T) {
		t.Parallel()
		run, err := shared.Temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: uuid.NewString(), TaskQueue: w.TaskQueue},
			"ExecutePayout", cluster.Input{PayoutID: uuid.NewString()})
		require.NoError(t, err)
		requireBadInput(t, run.Get(t.Context(), nil))
	})
	t.Run("another account than the payout's", func(t *testing.T) {
		t.Parallel()
		other := shared.NewAccount(t, opening)
		run, err := shared.Temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: uuid.NewString(), TaskQueue: w.TaskQueue},
			"ExecutePayout", cluster.Input{PayoutID: payout, AccountID: other})
		require.NoError(t, err)
		requireBadInput(t, run.Get(t.Context(), nil))
		account, err := shared.Intake.GetAccount(t.Context(), other)
		require.NoError(t, err)
		require.Zero(t, account.Fence, "the fence of an account whose payout it is not stays where it was")
		require.True(t, shared.LockIsFree(t, other))
		requireUntouched(t, payout)
	})
}

func requireUntouched(t *testing.T, payout string) {
	t.Helper()
	e := shared.Evidence(t, payout)
	require.Equal(t, "PENDING", e.State)
	require.Empty(t, e.Claims)
}

func requireBadInput(t *testing.T, err error) {
	t.Helper()
	var application *temporal.ApplicationError
	require.ErrorAs(t, err, &application)
	require.Equal(t, "BadInput", application.Type())
	require.NotEmpty(t, application.Message())
}
