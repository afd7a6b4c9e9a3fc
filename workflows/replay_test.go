package workflows

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"railguard/activities"
)

// The recorded histories are those of real runs. A change of workflow code that breaks the replay of one
// would block runs that are open somewhere: it is versioned, and the history stays as it is.
func histories(t *testing.T) map[string]*historypb.History {
	files, err := filepath.Glob(filepath.Join("testdata", "histories", "*.json"))
	require.NoError(t, err)
	found := make(map[string]*historypb.History, len(files))
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		found[filepath.Base(file)] = parse(t, data)
	}
	return found
}

func parse(t *testing.T, data []byte) *historypb.History {
	history, err := client.HistoryFromJSON(bytes.NewReader(data), client.HistoryJSONOptions{})
	require.NoError(t, err)
	return history
}

func replay(timing activities.Timing, history *historypb.History) error {
	replayer := worker.NewWorkflowReplayer()
	payouts := &Payouts{Timing: timing}
	replayer.RegisterWorkflowWithOptions(payouts.ExecutePayout, workflow.RegisterOptions{Name: ExecutePayoutType})
	return replayer.ReplayWorkflowHistory(log.NewStructuredLogger(slog.New(slog.DiscardHandler)), history)
}

func TestEveryRecordedHistoryReplays(t *testing.T) {
	reconfigured := activities.Timing{LockTTL: 5 * time.Second, LockWait: time.Second, SafetyMargin: 0.5, SubmitBudget: time.Second, WorkDuration: time.Minute}
	for name, history := range histories(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, replay(timings()["defaults"], history))
			require.NoError(t, replay(reconfigured, history), "what a run decided does not depend on the configuration of the worker that replays it")
		})
	}
}

func TestEveryOutcomeIsRecorded(t *testing.T) {
	outcomes := map[Outcome]int{}
	badInput := 0
	for name, history := range histories(t) {
		last := history.GetEvents()[len(history.GetEvents())-1]
		if failure := last.GetWorkflowExecutionFailedEventAttributes().GetFailure(); failure != nil {
			require.Equal(t, ErrorBadInput, failure.GetApplicationFailureInfo().GetType(), name)
			badInput++
			continue
		}
		var result PayoutResult
		require.NoError(t, json.Unmarshal(last.GetWorkflowExecutionCompletedEventAttributes().GetResult().GetPayloads()[0].GetData(), &result), name)
		outcomes[result.Outcome]++
	}
	for _, outcome := range []Outcome{OutcomePosted, OutcomeFailed, OutcomeAmbiguous, OutcomeFenced, OutcomeAbandoned, OutcomeContended} {
		require.Positive(t, outcomes[outcome], outcome)
	}
	require.Positive(t, badInput)
}

func TestAHistoryOfOtherCodeDoesNotReplay(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "histories", "Posted.json"))
	require.NoError(t, err)
	other := bytes.ReplaceAll(data, []byte(`"`+postLedger+`"`), []byte(`"`+recordRailOutcome+`"`))
	require.NotEqual(t, data, other)
	require.Error(t, replay(timings()["defaults"], parse(t, other)), "or a replay proves nothing")
}
