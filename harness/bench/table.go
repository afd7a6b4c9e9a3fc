package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// text is the report as a person reads it.
func (r *Report) text() string {
	var b strings.Builder
	m := r.Machine
	printf := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format, args...) } // a builder does not fail
	printf("\n%d CPUs (%s), %d MiB, Linux %s, load %s before; %s, PostgreSQL %s, Temporal %s; a durable commit takes %.2f ms\n",
		m.CPUs, m.CPUModel, m.MemoryMiB, m.Kernel, m.LoadAverage, m.Go, m.PostgreSQL, m.Temporal, m.CommitMillis)
	if r.Settings.Profiled {
		printf("A profiler took its share: these figures are for where the time goes, not for how much it is.\n")
	}
	b.WriteString(r.speedTable())
	b.WriteString(r.processTable())
	b.WriteString(r.stepTable())
	b.WriteString(r.targetTable())
	for _, w := range r.Wrong {
		printf("WRONG: %s\n", w)
	}
	return b.String()
}

// columns aligns rows of tab-separated cells under a title.
func columns(title string, rows []string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "\n%s\n", title) // a builder does not fail
	for _, row := range rows {
		_, _ = fmt.Fprintln(w, row)
	}
	_ = w.Flush()
	lines := strings.Split(b.String(), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ") // of cells that are empty
	}
	return strings.Join(lines, "\n")
}

func (r *Report) speedTable() string {
	rows := []string{"\tcount\tper second\tp50 ms\tp99 ms\tmax ms"}
	add := func(name string, s Series) {
		rows = append(rows, fmt.Sprintf("%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f", name, s.Count, s.PerSecond, s.P50Millis, s.P99Millis, s.MaxMillis))
	}
	inFlight := fmt.Sprintf("%d in flight", r.Settings.InFlight)
	add("payouts, "+inFlight, r.InFlight.Payout)
	add("bare workflows, "+inFlight, r.InFlight.Bare)
	rows = append(rows, fmt.Sprintf("ratio of the throughputs\t\t%.2f", r.InFlight.Ratio))
	if r.Settings.Lone > 0 {
		add("payouts, alone", r.Lone.Payout)
		add("bare workflows, alone", r.Lone.Bare)
		rows = append(rows, fmt.Sprintf("ratio of the medians\t\t\t%.2f", r.Lone.Ratio))
	}
	return columns("Speed", rows)
}

func (r *Report) processTable() string {
	rows := []string{"\tCPU s, payouts\tms per payout\tCPU s, bare\tms per bare\tpeak MiB\tgrowth, KiB per payout"}
	var payout, bare, perPayout, perBare float64
	for _, p := range r.Processes {
		rows = append(rows, fmt.Sprintf("%s\t%.2f\t%.1f\t%.2f\t%.1f\t%.0f\t%.0f",
			p.Name, p.PayoutCPUSeconds, p.CPUMillisPerPayout, p.BareCPUSeconds, p.CPUMillisPerBare, p.PeakMemoryMiB, p.GrowthKiBPerPayout))
		payout, bare = payout+p.PayoutCPUSeconds, bare+p.BareCPUSeconds
		perPayout, perBare = perPayout+p.CPUMillisPerPayout, perBare+p.CPUMillisPerBare
	}
	e := r.Elsewhere
	rows = append(rows,
		fmt.Sprintf("together\t%.2f\t%.1f\t%.2f\t%.1f\t", payout, perPayout, bare, perBare),
		fmt.Sprintf("ratio of bare to payout\t\t%.2f\t\t\t", r.CPURatio),
		fmt.Sprintf("other processes\t%.2f\t\t%.2f\t\t", e.PayoutCPUSeconds, e.BareCPUSeconds),
		fmt.Sprintf("taken by the host\t%.2f\t\t%.2f\t\t", e.PayoutStolenSeconds, e.BareStolenSeconds))
	return columns("CPU time in flight, and memory", rows)
}

func (r *Report) stepTable() string {
	if len(r.Steps) == 0 {
		return ""
	}
	rows := []string{"\t\ttimes\tp50 ms\tmax ms"}
	for _, s := range r.Steps {
		if s.Name == partEvents {
			rows = append(rows, fmt.Sprintf("%s\t%s\t%.1f\t\t", s.Kind, s.Name, s.Times))
			continue
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%.1f\t%.1f\t%.1f", s.Kind, s.Name, s.Times, s.P50Millis, s.MaxMillis))
	}
	text := columns("Where the time of a lone workflow goes, all times of a step together", rows)
	for _, s := range r.Stalls {
		text += fmt.Sprintf("%s stood still for %.0f ms between %s and %s\n", s.WorkflowID, s.PauseMillis, s.After, s.Before)
	}
	return text
}

func (r *Report) targetTable() string {
	var rows []string
	for _, t := range r.Targets {
		bound, verdict := "at least", "not met"
		if t.Most {
			bound = "at most"
		}
		if t.Met {
			verdict = "met"
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s %g%s\tgot %.2f", verdict, t.Name, bound, t.Want, unit(t.Unit), t.Got))
	}
	return columns("Targets", rows)
}

func unit(u string) string {
	if u == "" {
		return ""
	}
	return " " + u
}
