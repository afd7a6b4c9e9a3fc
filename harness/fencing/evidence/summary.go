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
	switch {
	case s.Identical < s.Repetitions:
		word = "not identical"
	case !s.Passed:
		word = "identical, and not believed"
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

// broken are the invariants that a mode breaks: those that it must, and those that it may.
func broken(m Mode) (must, may []string) {
	switch m {
	case Off:
		return []string{"INV-02", "INV-03"}, []string{"INV-01", "INV-05"}
	case AccountOnly:
		return []string{"INV-02"}, []string{"INV-01"}
	}
	return nil, nil
}

// books compares the findings of the invariant checker with the mode: money that moved twice must be found, and
// nothing else may be. Where the checker was not asked, it says nothing.
func books(r Run) []Diagnosis {
	if r.Invariants == nil {
		return nil
	}
	var must, may []string
	if r.Pause == Stop && len(r.Repetitions) > 0 {
		must, may = broken(r.Mode)
	}
	var all []Diagnosis
	for _, f := range r.Invariants {
		if !slices.Contains(must, f.Invariant) && !slices.Contains(may, f.Invariant) {
			all = append(all, diagnose(BooksDiffer, "%s %s: %s (%d rows)", f.Invariant, f.Name, f.Sentence, f.Offending))
		}
	}
	for _, invariant := range must {
		if !slices.ContainsFunc(r.Invariants, func(f Finding) bool { return f.Invariant == invariant }) {
			all = append(all, diagnose(BooksDiffer, "the invariant checker finds nothing against %s, which mode %s must break", invariant, r.Mode))
		}
	}
	return all
}
