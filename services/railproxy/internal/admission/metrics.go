package admission

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"railguard/services/railapi"
)

// metrics of the guard. Every series exists at zero from the start: an absent one would disarm its alert.
type metrics struct {
	fencedOut   prometheus.Counter
	duplicates  prometheus.Counter
	submissions *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer, guarded bool) *metrics {
	fencedOut := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lock_fenced_out_total", Help: "Writes refused because a newer token was seen; healthy at zero.",
	}, []string{"resource"})
	enabled := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "fencing_enabled", Help: "1 while the guard judges tokens, 0 while its kill switch is off.",
	}, []string{"guard"})
	m := &metrics{
		fencedOut: fencedOut.WithLabelValues("rail"),
		duplicates: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rail_duplicate_attempted_total", Help: "Attempts to present a payout again; healthy at zero.",
		}),
		submissions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rail_submission_total", Help: "Recorded submissions, by what became of them.",
		}, []string{"outcome"}),
	}
	for _, outcome := range []railapi.Outcome{railapi.Acked, railapi.Rejected, railapi.Timeout, railapi.Fenced, railapi.Unsent} {
		m.submissions.WithLabelValues(label(outcome))
	}
	enabled.WithLabelValues("rail").Set(0)
	if guarded {
		enabled.WithLabelValues("rail").Set(1)
	}
	registry.MustRegister(fencedOut, enabled, m.duplicates, m.submissions)
	return m
}

func (m *metrics) recorded(outcome railapi.Outcome) {
	m.submissions.WithLabelValues(label(outcome)).Inc()
}

func label(outcome railapi.Outcome) string { return strings.ToLower(string(outcome)) }
