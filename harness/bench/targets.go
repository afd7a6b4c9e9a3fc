package main

import "fmt"

// Target is what a figure should reach, and whether it did.
type Target struct {
	Name string  `json:"name"`
	Want float64 `json:"want"`
	Got  float64 `json:"got"`
	Met  bool    `json:"met"`
	// Most tells an upper bound from a lower one.
	Most bool   `json:"most"`
	Unit string `json:"unit,omitempty"`
}

// What the product is held to. The ratios are to bare workflows of the same run.
const (
	wantThroughputRatio = 0.6
	wantLatencyRatio    = 2.0
	wantMemoryMiB       = 150.0
)

func targets(r *Report) []Target {
	all := []Target{atLeast("payouts/s by bare workflows/s, in flight", wantThroughputRatio, r.InFlight.Ratio)}
	if r.Settings.Lone > 0 {
		all = append(all, atMost("median of a lone payout by that of a lone bare workflow", wantLatencyRatio, r.Lone.Ratio, ""))
	}
	for _, p := range r.Processes {
		if p.Ours {
			all = append(all, atMost(fmt.Sprintf("peak memory of %s", p.Name), wantMemoryMiB, p.PeakMemoryMiB, "MiB"))
		}
	}
	return all
}

func atLeast(name string, want, got float64) Target {
	return Target{Name: name, Want: want, Got: got, Met: got >= want}
}

func atMost(name string, want, got float64, unit string) Target {
	return Target{Name: name, Want: want, Got: got, Met: got <= want, Most: true, Unit: unit}
}
