package evidence

import (
	"fmt"
	"slices"
)

// Summarize is the verdict over a whole run: every repetition, the switches before and after, the counters and the
// invariants.
func Summarize(r Run) Summary {
	s := Summary{Repetitions: len(r.Repetitions), Diagnoses: []Diagnosis{}}
	s.Diagnoses = append(s.Diagnoses, Switches(r.Mode, r.GuardsBefore)...)
	s.Diagnoses = append(s.Diagnoses, Switches(r.Mode, r.GuardsAfter)...)
	for _, repetition := range r.Repetitions {
		for _, attempt := range repetition.Attempts {
			if attempt.Verdict == Inconclusive {
				s.Inconclusive++
			}
		}
		last := repetition.Last()
		if last.Verdict == Matched {
			s.Identical++
			continue
		}
		for _, d := range last.Diagnoses {
			s.Diagnoses = append(s.Diagnoses, Diagnosis{d.Code, fmt.Sprintf("repetition %d, %s: %s", repetition.Number, last.Verdict, d.Sentence)})
		}
	}
	for _, c := range r.Counters {
		if c.Delta() != c.Events {
			s.Diagnoses = append(s.Diagnoses, diagnose(CountersDiffer, "%s rose by %d, the guards' events for all attempts are %d", c.Name, c.Delta(), c.Events))
		}
	}
	s.Diagnoses = append(s.Diagnoses, books(r)...)
	s.Passed = s.Repetitions > 0 && s.Identical == s.Repetitions && len(s.Diagnoses) == 0
	word := "identical"
	if s.Identical < s.Repetitions {
		word = "not identical"
	}
	mode := string(r.Mode)
	if r.Pause == NoPause {
		mode += ", no pause"
	}
	s.Line = fmt.Sprintf("%d/%d %s: %s; inconclusive %d", s.Identical, s.Repetitions, mode, word, s.Inconclusive)
	return s
}

// Switches compares what the guards say of themselves with the mode.
func Switches(m Mode, g Guards) []Diagnosis {
	var all []Diagnosis
	for _, guard := range []struct {
		name, variable string
		is, must       bool
	}{
		{"payment-resource", "PAYMENT_FENCING_ENABLED", g.PaymentResource.FencingEnabled, m.AccountGuard()},
		{"rail-proxy", "RAIL_PROXY_FENCING_ENABLED", g.RailProxy.FencingEnabled, m.RailGuard()},
	} {
		if guard.is != guard.must {
			all = append(all, diagnose(SwitchWrong, "%s says fencingEnabled=%t at /info; mode %s needs it started with %s=%t", guard.name, guard.is, m, guard.variable, guard.must))
		}
	}
	return all
}

// books compares the findings of the invariant checker with the mode: money that moved twice must be found, and
// nothing else may be. Where the checker was not asked, it says nothing.
func books(r Run) []Diagnosis {
	if r.Invariants == nil {
		return nil
	}
	if r.Pause == NoPause || len(r.Repetitions) == 0 {
		return unexpected(r.Invariants, nil)
	}
	var must []string
	want := Expect(r.Mode)
	if want.RailRequests > 1 {
		must = append(must, "INV-02")
	}
	if !want.BalanceIsSum {
		must = append(must, "INV-03")
	}
	all := unexpected(r.Invariants, must)
	for _, invariant := range must {
		if !slices.ContainsFunc(r.Invariants, func(f Finding) bool { return f.Invariant == invariant }) {
			all = append(all, diagnose(BooksDiffer, "the invariant checker finds nothing against %s, which mode %s must break", invariant, r.Mode))
		}
	}
	return all
}

// unexpected are findings in a run that must leave the books clean.
func unexpected(findings []Finding, broken []string) []Diagnosis {
	if len(broken) > 0 {
		return nil
	}
	var all []Diagnosis
	for _, f := range findings {
		all = append(all, diagnose(BooksDiffer, "%s %s: %s (%d rows)", f.Invariant, f.Name, f.Sentence, f.Offending))
	}
	return all
}
