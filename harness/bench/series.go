package main

import (
	"slices"
	"time"
)

// Series is what was measured of one kind of workflow. Latency is the time from the start call to the result, as the client sees it.
type Series struct {
	Count     int     `json:"count"`
	Seconds   float64 `json:"seconds"` // of all blocks together; of the lone ones, the sum of their latencies
	PerSecond float64 `json:"perSecond"`
	P50Millis float64 `json:"p50Millis"`
	P99Millis float64 `json:"p99Millis"`
	MaxMillis float64 `json:"maxMillis"`

	latencies []time.Duration
	spent     time.Duration
}

// add takes the latencies of a block and the time that it took as a whole.
func (s *Series) add(latencies []time.Duration, spent time.Duration) {
	s.latencies = append(s.latencies, latencies...)
	s.spent += spent
}

func (s *Series) finish() {
	s.Count = len(s.latencies)
	s.Seconds = s.spent.Seconds()
	if s.spent > 0 {
		s.PerSecond = float64(s.Count) / s.Seconds
	}
	s.P50Millis, s.P99Millis = millis(percentile(s.latencies, 50)), millis(percentile(s.latencies, 99))
	s.MaxMillis = millis(percentile(s.latencies, 100))
}

// percentile is the smallest of the values that at least p per cent of them do not exceed (nearest rank); 0 of none.
func percentile(values []time.Duration, p int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Comparison holds payouts against bare workflows that ran in turn with them.
type Comparison struct {
	Payout Series  `json:"payout"`
	Bare   Series  `json:"bare"`
	Ratio  float64 `json:"ratio"` // payout to bare: of the throughputs in flight, of the medians when alone
}

func (c *Comparison) of(k kind) *Series {
	if k == payoutKind {
		return &c.Payout
	}
	return &c.Bare
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
