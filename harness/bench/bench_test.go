package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func TestPercentileIsTheNearestRank(t *testing.T) {
	t.Parallel()
	var values []time.Duration
	for i := 100; i >= 1; i-- {
		values = append(values, time.Duration(i))
	}
	require.Equal(t, time.Duration(50), percentile(values, 50))
	require.Equal(t, time.Duration(99), percentile(values, 99))
	require.Equal(t, time.Duration(100), percentile(values, 100))
	require.Equal(t, time.Duration(7), percentile([]time.Duration{7}, 50))
	require.Equal(t, time.Duration(3), percentile([]time.Duration{3, 1, 2}, 99))
	require.Zero(t, percentile(nil, 50))
}

func TestBlocksTogetherAreAllOfThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ n, parts int }{{500, 4}, {7, 3}, {3, 3}, {1, 1}, {1001, 10}} {
		sum := 0
		for i := range c.parts {
			part := share(c.n, c.parts, i)
			require.GreaterOrEqual(t, part, c.n/c.parts)
			require.LessOrEqual(t, part, c.n/c.parts+1)
			sum += part
		}
		require.Equal(t, c.n, sum)
	}
}

func TestFlagsOutOfRange(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	for _, args := range [][]string{
		{"--payouts", "0"}, {"--accounts", "0"}, {"--in-flight", "0"}, {"--rounds", "0"}, {"--lone", "-1"},
		{"--payouts", "3", "--rounds", "4"}, {"--payouts", "many"}, {"--unknown"}, {"stray"},
	} {
		_, err := parseOptions(args, &out)
		require.Error(t, err, args)
		require.Equal(t, exitUsage, run(t.Context(), args, &out, &out), args)
	}
	o, err := parseOptions(nil, &out)
	require.NoError(t, err)
	require.Equal(t, options{payouts: 500, accounts: 100, inFlight: 50, rounds: 4, lone: 50}, o)
}

func TestTargets(t *testing.T) {
	t.Parallel()
	r := &Report{Settings: Settings{Lone: 1}, Processes: []ProcessUse{
		{Name: "worker", Ours: true, PeakMemoryMiB: 150}, {Name: "lock-server", Ours: true, PeakMemoryMiB: 150.1}, {Name: "temporal", PeakMemoryMiB: 900},
	}}
	r.InFlight.Ratio, r.Lone.Ratio = 0.6, 2.01
	met := map[string]bool{}
	for _, target := range targets(r) {
		met[target.Name] = target.Met
	}
	require.Equal(t, map[string]bool{
		"payouts/s by bare workflows/s, in flight":                true,
		"median of a lone payout by that of a lone bare workflow": false,
		"peak memory of worker":                                   true,
		"peak memory of lock-server":                              false,
	}, met)
	r.InFlight.Ratio, r.Settings.Lone = 0.59, 0
	require.Len(t, targets(r), 3)
	require.False(t, targets(r)[0].Met)
}

func TestRatioIsPayoutToBare(t *testing.T) {
	t.Parallel()
	m := &measurement{meter: newMeter(nil)}
	m.inFlight.of(payoutKind).add(make([]time.Duration, 30), 2*time.Second)
	m.inFlight.of(bareKind).add(make([]time.Duration, 30), time.Second)
	m.lone.of(payoutKind).add([]time.Duration{3 * time.Millisecond}, 3*time.Millisecond)
	m.lone.of(bareKind).add([]time.Duration{2 * time.Millisecond}, 2*time.Millisecond)
	var r Report
	require.NoError(t, m.fill(t.Context(), &r))
	require.InDelta(t, 15, r.InFlight.Payout.PerSecond, 1e-9)
	require.InDelta(t, 0.5, r.InFlight.Ratio, 1e-9)
	require.InDelta(t, 1.5, r.Lone.Ratio, 1e-9)
}

func TestCPURatioIsBareToPayoutOverAllProcesses(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 0.5, cpuRatio([]ProcessUse{{PayoutCPUSeconds: 3, BareCPUSeconds: 2}, {PayoutCPUSeconds: 1}}), 1e-9)
	require.Zero(t, cpuRatio(nil))
}

func TestReportIsTableAndJSON(t *testing.T) {
	t.Parallel()
	r := &Report{
		Settings:  Settings{InFlight: 50, Lone: 1},
		Processes: []ProcessUse{{Name: "worker", Ours: true, PayoutCPUSeconds: 1, CPUMillisPerPayout: 2, PeakMemoryMiB: 42}},
		Steps:     []Step{{Kind: payoutKind, Name: "ClaimPayout", Times: 1, P50Millis: 3}},
		Stalls:    []Stall{{WorkflowID: "payout-1", PauseMillis: 2000, After: "A", Before: "B"}},
		Wrong:     []string{"a payout is FAILED"},
	}
	require.EqualError(t, r.wrong(), "a payout is FAILED")
	require.NoError(t, (&Report{}).wrong())
	r.Targets = targets(r)
	file := filepath.Join(t.TempDir(), "out", "report.json")
	var out bytes.Buffer
	require.NoError(t, r.write(&out, file))
	for _, part := range []string{"payouts, 50 in flight", "worker", "ClaimPayout", "stood still for 2000 ms between A and B", "not met", "WRONG: a payout is FAILED"} {
		require.Contains(t, out.String(), part)
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var back Report
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, r, &back)
}

// event is an event of a history, so many milliseconds after its start.
func event(id int64, millis int, kind enumspb.EventType, attributes func(*historypb.HistoryEvent)) *historypb.HistoryEvent {
	e := &historypb.HistoryEvent{EventId: id, EventType: kind, EventTime: timestamppb.New(time.Unix(1000, 0).Add(time.Duration(millis) * time.Millisecond))}
	if attributes != nil {
		attributes(e)
	}
	return e
}

func oneActivity() []*historypb.HistoryEvent {
	return []*historypb.HistoryEvent{
		event(1, 0, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, nil),
		event(2, 0, enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, nil),
		event(3, 5, enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED, func(e *historypb.HistoryEvent) {
			e.Attributes = &historypb.HistoryEvent_WorkflowTaskStartedEventAttributes{
				WorkflowTaskStartedEventAttributes: &historypb.WorkflowTaskStartedEventAttributes{ScheduledEventId: 2}}
		}),
		event(4, 7, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, func(e *historypb.HistoryEvent) {
			e.Attributes = &historypb.HistoryEvent_WorkflowTaskCompletedEventAttributes{
				WorkflowTaskCompletedEventAttributes: &historypb.WorkflowTaskCompletedEventAttributes{ScheduledEventId: 2, StartedEventId: 3}}
		}),
		event(5, 7, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, func(e *historypb.HistoryEvent) {
			e.Attributes = &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{
				ActivityTaskScheduledEventAttributes: &historypb.ActivityTaskScheduledEventAttributes{ActivityType: &commonpb.ActivityType{Name: "ClaimPayout"}}}
		}),
		event(6, 8, enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED, func(e *historypb.HistoryEvent) {
			e.Attributes = &historypb.HistoryEvent_ActivityTaskStartedEventAttributes{
				ActivityTaskStartedEventAttributes: &historypb.ActivityTaskStartedEventAttributes{ScheduledEventId: 5}}
		}),
		event(7, 308, enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED, func(e *historypb.HistoryEvent) {
			e.Attributes = &historypb.HistoryEvent_ActivityTaskCompletedEventAttributes{
				ActivityTaskCompletedEventAttributes: &historypb.ActivityTaskCompletedEventAttributes{ScheduledEventId: 5, StartedEventId: 6}}
		}),
	}
}

func TestTheStepsOfAHistory(t *testing.T) {
	t.Parallel()
	p := &partition{times: map[string][]time.Duration{}, counts: map[string]int{}}
	p.add(oneActivity(), 310*time.Millisecond)
	require.Equal(t, []Step{
		{Kind: payoutKind, Name: partTaskWaits, Times: 1, P50Millis: 5, MaxMillis: 5},
		{Kind: payoutKind, Name: partTaskRuns, Times: 1, P50Millis: 2, MaxMillis: 2},
		{Kind: payoutKind, Name: partActivityWaits, Times: 1, P50Millis: 1, MaxMillis: 1},
		{Kind: payoutKind, Name: "ClaimPayout", Times: 1, P50Millis: 300, MaxMillis: 300},
		{Kind: payoutKind, Name: partClient, Times: 1, P50Millis: 2, MaxMillis: 2},
		{Kind: payoutKind, Name: partEvents, Times: 7},
	}, p.steps(payoutKind, 1))
}

func TestAPauseIsAStall(t *testing.T) {
	t.Parallel()
	require.Equal(t, []Stall{{WorkflowID: "w", PauseMillis: 300, After: "ActivityTaskStarted", Before: "ActivityTaskCompleted"}}, pauses("w", oneActivity()))
	require.Empty(t, pauses("w", oneActivity()[:6]))
}
