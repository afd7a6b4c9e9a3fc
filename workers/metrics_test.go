package workers

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"railguard/workflows"
)

func gather(t *testing.T, r *prometheus.Registry) map[string][]*dto.Metric {
	families, err := r.Gather()
	require.NoError(t, err)
	byName := make(map[string][]*dto.Metric)
	for _, family := range families {
		byName[family.GetName()] = family.GetMetric()
	}
	return byName
}

func label(m *dto.Metric, name string) string {
	for _, pair := range m.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}

func TestEveryOutcomeExistsAtZero(t *testing.T) {
	r := prometheus.NewRegistry()
	newMetrics(r)
	series := gather(t, r)
	var outcomes []string
	for _, m := range series["payout_execute_seconds"] {
		outcomes = append(outcomes, label(m, "outcome"))
		require.Zero(t, m.GetHistogram().GetSampleCount())
	}
	require.ElementsMatch(t, []string{"posted", "failed", "abandoned", "ambiguous"}, outcomes)
	require.Len(t, series["lock_session_lost_total"], 1)
}

func TestAWorkflowsTimerIsTheHistogram(t *testing.T) {
	r := prometheus.NewRegistry()
	h := newMetrics(r).handler().WithTags(map[string]string{"namespace": "default", "workflow_type": "ExecutePayout"})
	h.WithTags(map[string]string{"outcome": "posted"}).Timer(workflows.MetricExecuteSeconds).Record(1500 * time.Millisecond)
	for _, m := range gather(t, r)["payout_execute_seconds"] {
		require.Len(t, m.GetLabel(), 1, "the SDK's own tags stay away from it")
		if label(m, "outcome") == "posted" {
			require.Equal(t, uint64(1), m.GetHistogram().GetSampleCount())
			require.InDelta(t, 1.5, m.GetHistogram().GetSampleSum(), 1e-9)
		}
	}
}

func TestTheSDKsMetricsHaveClosedLabels(t *testing.T) {
	r := prometheus.NewRegistry()
	h := newMetrics(r).handler().WithTags(map[string]string{
		"workflow_type": "ExecutePayout", "activity_type": "none", "client_name": "temporal_go", "task_queue": "payout-acc-7", "something_new": "x",
	})
	h.Counter("temporal_request").Inc(2)
	h.WithTags(map[string]string{"workflow_type": "payout-0198a1b2"}).Counter("temporal_request").Inc(1)
	h.WithTags(map[string]string{"operation": "PollWorkflowTaskQueue"}).Timer("temporal_request_latency").Record(time.Second)
	h.Gauge("temporal_num_pollers").Update(16)
	series := gather(t, r)
	require.Len(t, series["temporal_request_total"], 2)
	for _, m := range series["temporal_request_total"] {
		require.Len(t, m.GetLabel(), len(sdkLabels))
		require.Contains(t, []string{"ExecutePayout", other}, label(m, "workflow_type"))
		require.Equal(t, none, label(m, "activity_type"))
	}
	require.InDelta(t, 16, series["temporal_num_pollers"][0].GetGauge().GetValue(), 0)
	require.Equal(t, "PollWorkflowTaskQueue", label(series["temporal_request_latency_seconds"][0], "operation"))
}

func TestTagsAreNotShared(t *testing.T) {
	base := newMetrics(prometheus.NewRegistry()).handler().WithTags(map[string]string{"operation": "a"})
	_ = base.WithTags(map[string]string{"operation": "b"})
	require.Equal(t, "a", base.(tagged).tags["operation"])
}
