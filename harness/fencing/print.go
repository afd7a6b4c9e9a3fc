package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"railguard/harness/fencing/evidence"
	"railguard/harness/fencing/report"
)

// printRepetition prints the verdict table of a repetition, and what its inconclusive attempts were.
func (e *series) printRepetition(r evidence.Repetition) {
	var b strings.Builder
	last := r.Last()
	f := last.Facts
	fmt.Fprintf(&b, "\nrepetition %d of %d: %s   payout %s   account %s\n", r.Number, e.options.repeat, last.Verdict, f.PayoutID, f.AccountID)
	if f.Freeze != nil {
		fmt.Fprintf(&b, "  A: process %d, token tA = %d, stopped (state %s) %v after its last held-check", f.Freeze.ProcessID, f.A.Token, f.Freeze.State,
			f.Freeze.StoppedAt.Sub(f.WindowOpenedAt).Round(time.Millisecond))
		if !f.Freeze.ThawedAt.IsZero() {
			fmt.Fprintf(&b, ", woken %v later", f.Freeze.ThawedAt.Sub(f.Freeze.StoppedAt).Round(time.Millisecond))
		}
		fmt.Fprintf(&b, "\n  B: process %d, token tB = %d\n", f.B.ProcessID, f.B.Token)
	}
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprint(table, "  \tCHECK\tMUST\tIS\tEVIDENCE\n")
	for _, c := range last.Cells {
		mark := "ok"
		if !c.OK {
			mark = "NO"
		}
		_, _ = fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\n", mark, c.Name, c.Must, c.Is, c.Evidence)
	}
	_ = table.Flush() // all of it goes into memory
	for _, attempt := range r.Attempts {
		for _, d := range attempt.Diagnoses {
			fmt.Fprintf(&b, "  attempt %d %s  %s: %s\n", attempt.Number, attempt.Verdict, d.Code, d.Sentence)
		}
	}
	e.print.Lock()
	defer e.print.Unlock()
	_, _ = fmt.Fprint(e.out, b.String()) // verdict.json has it all
}

// printSummary prints what all repetitions together say.
func (e *series) printSummary() {
	var b strings.Builder
	r := e.evidence
	if len(r.Repetitions) == 1 {
		fmt.Fprintf(&b, "\n%s\n", report.Story(r, r.Repetitions[0].Last().Facts))
	}
	fmt.Fprintf(&b, "\nguards: payment-resource fencing %t, rail-proxy fencing %t, by their /info before and after\n",
		r.GuardsBefore.PaymentResource.FencingEnabled, r.GuardsBefore.RailProxy.FencingEnabled)
	for _, c := range r.Counters {
		fmt.Fprintf(&b, "counter %-42s rose by %d; events of all attempts: %d\n", c.Name, c.Delta(), c.Events)
	}
	if e.stack != nil {
		fmt.Fprintf(&b, "invariant checker: %s\n", findings(r.Invariants))
	}
	attempts := 0
	for _, repetition := range r.Repetitions {
		attempts += len(repetition.Attempts)
	}
	fmt.Fprintf(&b, "pause: %s; %s\n", r.Mechanism, offsets(r))
	fmt.Fprintf(&b, "attempts: %d, inconclusive %d\n", attempts, r.Summary.Inconclusive)
	for _, d := range r.Summary.Diagnoses {
		fmt.Fprintf(&b, "%s: %s\n", d.Code, d.Sentence)
	}
	fmt.Fprintf(&b, "evidence: %s\n          %s\n", filepath.Join(e.dir, "report.html"), filepath.Join(e.dir, "verdict.json"))
	fmt.Fprintf(&b, "%s\n", r.Summary.Line)
	e.print.Lock()
	defer e.print.Unlock()
	_, _ = fmt.Fprint(e.out, b.String()) // verdict.json has it all
}

func findings(all []evidence.Finding) string {
	if len(all) == 0 {
		return "no finding"
	}
	var parts []string
	for _, f := range all {
		parts = append(parts, fmt.Sprintf("%s %s (%d rows)", f.Invariant, f.Name, f.Offending))
	}
	return strings.Join(parts, ", ")
}

// offsets are when A was really stopped, after its last held-check, over all attempts.
func offsets(r evidence.Run) string {
	var all []time.Duration
	for _, repetition := range r.Repetitions {
		for _, attempt := range repetition.Attempts {
			if f := attempt.Facts; f.Freeze != nil && !f.WindowOpenedAt.IsZero() {
				all = append(all, f.Freeze.StoppedAt.Sub(f.WindowOpenedAt).Round(time.Millisecond))
			}
		}
	}
	asked := time.Duration(r.Timing.PauseOffsetMillis) * time.Millisecond
	if len(all) == 0 {
		return fmt.Sprintf("seed %d", r.Seed)
	}
	return fmt.Sprintf("%v after the last held-check, give or take a fifth, asked for; %v to %v measured; seed %d", asked, slices.Min(all), slices.Max(all), r.Seed)
}
