package workers

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/client"

	"railguard/workflows"
)

// other stands for a label value outside the closed set: what a caller of Temporal may choose freely
// must not become a series.
const (
	other = "other"
	none  = "none"
)

// sdkLabels are the labels of every metric of the SDK. What it tags beyond them is the same for the
// whole process (namespace, task queue) or not used here.
var sdkLabels = []string{
	"operation", "workflow_type", "activity_type", "worker_type", "poller_type", "failure_reason", "status_code", "cause",
}

// metrics are the worker's own series and the bridge for those of the SDK.
type metrics struct {
	registry       *prometheus.Registry
	sessionLost    prometheus.Counter
	executeSeconds *prometheus.HistogramVec
	types          map[string]map[string]bool // the label values that callers of Temporal choose

	mu       sync.Mutex
	counters map[string]*prometheus.CounterVec
	gauges   map[string]*prometheus.GaugeVec
	timers   map[string]*prometheus.HistogramVec
}

func newMetrics(registry *prometheus.Registry) *metrics {
	m := &metrics{
		registry: registry,
		sessionLost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lock_session_lost_total",
			Help: "Held grants that were found lost.",
		}),
		executeSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    workflows.MetricExecuteSeconds,
			Help:    "Time from the start of a payout's run to its end, by outcome.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2, 5, 10, 30},
		}, []string{"outcome"}),
		types: map[string]map[string]bool{
			"workflow_type": set(workflows.Types()...),
			"activity_type": set(workflows.ActivityTypes()...),
		},
		counters: make(map[string]*prometheus.CounterVec),
		gauges:   make(map[string]*prometheus.GaugeVec),
		timers:   make(map[string]*prometheus.HistogramVec),
	}
	registry.MustRegister(m.sessionLost, m.executeSeconds)
	for _, outcome := range workflows.MetricOutcomes {
		m.executeSeconds.WithLabelValues(outcome) // a series that is absent disarms its alerts
	}
	return m
}

func set(values ...string) map[string]bool {
	s := make(map[string]bool, len(values))
	for _, v := range values {
		s[v] = true
	}
	return s
}

// handler is what the SDK and the workflows record through.
func (m *metrics) handler() client.MetricsHandler { return tagged{m, nil} }

// tagged implements client.MetricsHandler over a set of tags that is never changed.
type tagged struct {
	metrics *metrics
	tags    map[string]string
}

func (t tagged) WithTags(more map[string]string) client.MetricsHandler {
	tags := make(map[string]string, len(t.tags)+len(more))
	for k, v := range t.tags {
		tags[k] = v
	}
	for k, v := range more {
		tags[k] = v
	}
	return tagged{t.metrics, tags}
}

func (t tagged) Counter(name string) client.MetricsCounter {
	vec := lookup(t.metrics, t.metrics.counters, sdkName(name)+"_total", func(name string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: sdkHelp}, sdkLabels)
	})
	counter := vec.WithLabelValues(t.labels()...)
	return counterFunc(func(n int64) { counter.Add(float64(n)) })
}

func (t tagged) Gauge(name string) client.MetricsGauge {
	vec := lookup(t.metrics, t.metrics.gauges, sdkName(name), func(name string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: sdkHelp}, sdkLabels)
	})
	return gaugeFunc(vec.WithLabelValues(t.labels()...).Set)
}

func (t tagged) Timer(name string) client.MetricsTimer {
	if name == workflows.MetricExecuteSeconds {
		return timerFunc(observe(t.metrics.executeSeconds.WithLabelValues(t.tags["outcome"])))
	}
	vec := lookup(t.metrics, t.metrics.timers, sdkName(name)+"_seconds", func(name string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: sdkHelp, Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, sdkLabels)
	})
	return timerFunc(observe(vec.WithLabelValues(t.labels()...)))
}

const sdkHelp = "A metric of Temporal's SDK; its documentation describes it."

// sdkName makes sure that nothing the SDK may add later takes the name of one of ours.
func sdkName(name string) string {
	if strings.HasPrefix(name, "temporal_") {
		return name
	}
	return "temporal_" + name
}

// labels are the values of sdkLabels, each from its closed set.
func (t tagged) labels() []string {
	values := make([]string, len(sdkLabels))
	for i, label := range sdkLabels {
		value := t.tags[label]
		if value == "" {
			value = none
		}
		if known, limited := t.metrics.types[label]; limited && value != none && !known[value] {
			value = other
		}
		values[i] = value
	}
	return values
}

// lookup finds the collector of a name, or makes and registers it.
func lookup[V prometheus.Collector](m *metrics, known map[string]V, name string, create func(string) V) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	vec, ok := known[name]
	if !ok {
		vec = create(name)
		m.registry.MustRegister(vec)
		known[name] = vec
	}
	return vec
}

func observe(o prometheus.Observer) func(time.Duration) {
	return func(d time.Duration) { o.Observe(d.Seconds()) }
}

type (
	counterFunc func(int64)
	gaugeFunc   func(float64)
	timerFunc   func(time.Duration)
)

func (f counterFunc) Inc(n int64)          { f(n) }
func (f gaugeFunc) Update(v float64)       { f(v) }
func (f timerFunc) Record(d time.Duration) { f(d) }
