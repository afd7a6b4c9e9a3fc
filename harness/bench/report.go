package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"railguard/workflows"
)

// Report is everything that one run found out. Processes and Elsewhere are about the part in flight, Steps and Stalls about
// the lone workflows.
type Report struct {
	StartedAt time.Time                 `json:"startedAt"`
	Machine   Machine                   `json:"machine"`
	Settings  Settings                  `json:"settings"`
	InFlight  Comparison                `json:"inFlight"`
	Lone      Comparison                `json:"lone"`
	Outcomes  map[workflows.Outcome]int `json:"outcomes"` // of all payouts, those of the warm-up included
	Wrong     []string                  `json:"wrong"`    // what is wrong with the payouts; the figures are worth nothing then
	Processes []ProcessUse              `json:"processes"`
	// CPURatio is the CPU time of a bare workflow, all processes together, by that of a payout. Where CPU is what is short it is the ratio of
	// the throughputs too, and what other programs do meanwhile disturbs it less.
	CPURatio  float64   `json:"cpuRatio"`
	Elsewhere Elsewhere `json:"elsewhere"`
	Steps     []Step    `json:"steps"`
	Stalls    []Stall   `json:"stalls"`
	Targets   []Target  `json:"targets"`
}

// Settings are the options that the figures depend on.
type Settings struct {
	Payouts  int  `json:"payouts"`
	Accounts int  `json:"accounts"`
	InFlight int  `json:"inFlight"`
	Rounds   int  `json:"rounds"`
	Lone     int  `json:"lone"`
	Profiled bool `json:"profiled"` // a profiler took its share
}

func settingsOf(o options) Settings {
	return Settings{Payouts: o.payouts, Accounts: o.accounts, InFlight: o.inFlight, Rounds: o.rounds, Lone: o.lone, Profiled: o.profileDir != ""}
}

// ProcessUse is what one process, or one database with all its processes, has cost.
type ProcessUse struct {
	Name               string  `json:"name"`
	Ours               bool    `json:"ours"` // one of the product's
	PayoutCPUSeconds   float64 `json:"payoutCpuSeconds"`
	BareCPUSeconds     float64 `json:"bareCpuSeconds"`
	CPUMillisPerPayout float64 `json:"cpuMillisPerPayout"`
	CPUMillisPerBare   float64 `json:"cpuMillisPerBare"`
	PeakMemoryMiB      float64 `json:"peakMemoryMiB"` // resident
	// GrowthKiBPerPayout is by how much the peak grew after the warm-up, for each payout; in Temporal, which keeps
	// everything in memory here, for a payout and a bare workflow together.
	GrowthKiBPerPayout float64 `json:"growthKiBPerPayout"`
}

// Elsewhere is the CPU time that went to nobody who was watched. The more it is, the less the figures are worth.
type Elsewhere struct {
	PayoutCPUSeconds    float64 `json:"payoutCpuSeconds"`
	BareCPUSeconds      float64 `json:"bareCpuSeconds"`
	PayoutStolenSeconds float64 `json:"payoutStolenSeconds"` // by other guests of the same host
	BareStolenSeconds   float64 `json:"bareStolenSeconds"`
}

func (m *measurement) processes() ([]ProcessUse, error) {
	var all []ProcessUse
	n := float64(m.options.payouts)
	for _, w := range m.meter.watched {
		peak, err := m.meter.peak(w)
		if err != nil {
			return nil, err
		}
		payout, bare := m.meter.used[payoutKind][w.name].Seconds(), m.meter.used[bareKind][w.name].Seconds()
		all = append(all, ProcessUse{
			Name: w.name, Ours: w.ours, PayoutCPUSeconds: payout, BareCPUSeconds: bare,
			CPUMillisPerPayout: payout * 1000 / n, CPUMillisPerBare: bare * 1000 / n,
			PeakMemoryMiB:      float64(peak) / (1 << 20),
			GrowthKiBPerPayout: float64(peak-m.meter.base[w.name]) / (1 << 10) / float64(m.options.payouts+m.options.lone),
		})
	}
	return all, nil
}

func cpuRatio(all []ProcessUse) float64 {
	var payout, bare float64
	for _, p := range all {
		payout, bare = payout+p.PayoutCPUSeconds, bare+p.BareCPUSeconds
	}
	return ratio(bare, payout)
}

func (m *measurement) elsewhere() Elsewhere {
	return Elsewhere{
		PayoutCPUSeconds: m.meter.others[payoutKind].Seconds(), BareCPUSeconds: m.meter.others[bareKind].Seconds(),
		PayoutStolenSeconds: m.meter.stolen[payoutKind].Seconds(), BareStolenSeconds: m.meter.stolen[bareKind].Seconds(),
	}
}

// wrong is what is wrong with the payouts, as an error.
func (r *Report) wrong() error {
	if len(r.Wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(r.Wrong, "; "))
}

// write prints the report as tables, and as JSON to a file unless that is "".
func (r *Report) write(out io.Writer, jsonFile string) error {
	if jsonFile != "" {
		data, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(jsonFile), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(jsonFile, append(data, '\n'), 0o644); err != nil {
			return err
		}
	}
	_, err := io.WriteString(out, r.text())
	return err
}

// kilobytes reads "123 kB".
func kilobytes(s string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(s, " kB"), 10, 64) // 0 where it is not told
	return n
}
