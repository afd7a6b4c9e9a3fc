package evidence

import (
	"fmt"
	"strings"
)

// The activities whose answers decide, and the words of their results.
const (
	submitToRail = "SubmitToRail"
	abandonClaim = "AbandonClaim"
	postLedger   = "PostLedger"

	fencedOut = "fencedOut"
	notHeld   = "notHeld"
)

// Judge compares the facts of an attempt with what its mode must show. It returns the table and the verdict, and for
// every verdict but Matched at least one diagnosis.
func Judge(m Mode, p Pause, f Facts) ([]Cell, Verdict, []Diagnosis) {
	cells := Cells(m, p, f)
	why := append([]Diagnosis(nil), f.Trouble...)
	why = append(why, doubts(f)...)
	if p == Stop {
		why = append(why, breaches(m, f)...)
		why = append(why, unasked(f)...)
	}
	for _, d := range why {
		if !inconclusive[d.Code] {
			return cells, Diverged, why
		}
	}
	if len(why) > 0 {
		return cells, Inconclusive, why
	}
	if p == Stop {
		why = compare(m, f)
	}
	for _, c := range cells {
		if !c.OK {
			why = append(why, diagnose(CellDiffers, "%s: must be %s, is %s (%s)", c.Name, c.Must, c.Is, c.Evidence))
		}
	}
	if len(why) > 0 {
		return cells, Diverged, why
	}
	return cells, Matched, nil
}

func diagnose(code Code, format string, args ...any) Diagnosis {
	return Diagnosis{code, fmt.Sprintf(format, args...)}
}

// doubts are reasons not to believe the evidence itself.
func doubts(f Facts) []Diagnosis {
	var all []Diagnosis
	if !f.StubStartedBefore.Equal(f.StubStartedAfter) {
		all = append(all, diagnose(RailLogLost, "the rail stub was restarted during the attempt (it started at %s, now at %s): its log is kept in memory and proves nothing",
			clock(f.StubStartedBefore), clock(f.StubStartedAfter)))
	}
	if presented := len(f.presented()); presented != len(f.Requests) {
		all = append(all, diagnose(RailLogDiffers, "rail-proxy recorded %d submissions of the payout as presented, the rail's own log has %d requests", presented, len(f.Requests)))
	}
	return all
}

// breaches are what a guard that is on may never let happen, whatever else became of the attempt: it comes before any excuse.
func breaches(m Mode, f Facts) []Diagnosis {
	var all []Diagnosis
	if m.RailGuard() && len(f.Requests) > 1 {
		all = append(all, diagnose(GuardSilent, "rail-proxy is on and the rail received %d requests for one payout", len(f.Requests)))
	}
	if pairs, _ := f.pairs(); m.AccountGuard() && pairs > 1 {
		all = append(all, diagnose(GuardSilent, "payment-resource is on and posted one payout %d times", pairs))
	}
	return all
}

// unasked are reasons why the attempt did not put the question to the guards.
func unasked(f Facts) []Diagnosis {
	submit := f.A.Step(submitToRail)
	switch {
	case submit == nil:
		return []Diagnosis{diagnose(NeverReached, "A's run has no %s: it ended %q before (%s)", submitToRail, f.A.Outcome, orNone(f.A.Reason))}
	case submit.Outcome == "timedOut":
		return []Diagnosis{diagnose(AttemptEnded, "Temporal ended A's %s before A woke up: the pause was longer than the attempt may take", submitToRail)}
	case submit.Outcome == notHeld, submit.Outcome == "unavailable":
		return []Diagnosis{diagnose(NeverReached, "A stopped by itself before it reached the rail guard (%s: %s)", submit.Outcome, orNone(submit.Reason))}
	case submit.Outcome == "":
		return []Diagnosis{diagnose(NeverReached, "A's %s has no result", submitToRail)}
	}
	if f.B.Outcome == "posted" && f.A.Token > 0 && f.B.Token > 0 && (f.lease(f.A.Token) == nil || f.lease(f.B.Token) == nil) {
		return []Diagnosis{diagnose(GrantNotSeen, "the look-ups of the lock missed a grant, so nothing can be said of when it was given")}
	}
	switch f.B.Outcome {
	case "abandoned", "ambiguous", "contended":
		return []Diagnosis{diagnose(BDidNotFinish, "B was to finish the payout and ended %q (%s): there was nothing for A's stale token to collide with", f.B.Outcome, orNone(f.B.Reason))}
	}
	return nil
}

// compare names what the guards did that the mode does not allow, and what they failed to do.
func compare(m Mode, f Facts) []Diagnosis {
	var all []Diagnosis
	want := Expect(m)
	if f.A.Token <= 0 || f.B.Token <= f.A.Token {
		all = append(all, diagnose(TokensNotRising, "B's token %d is not above A's %d", f.B.Token, f.A.Token))
	}
	guards := []struct {
		name      string
		mustDo    bool
		step      *Step
		refusals  int
		otherwise string
	}{
		{"rail-proxy", want.RailRefused, f.A.Step(submitToRail), len(f.refused(f.A.Token, "rail")), "DUPLICATE_SUBMISSION"},
		{"payment-resource", want.AccountRefused, f.accountStep(), len(f.refused(f.A.Token, "account", "ledger")), "PAYOUT_NOT_CLAIMABLE"},
	}
	for _, g := range guards {
		refused := g.refusals > 0 && g.step != nil && g.step.Outcome == fencedOut
		switch {
		case g.mustDo && !refused && g.step != nil && (g.step.Outcome == "duplicate" || g.step.Outcome == "notClaimable"):
			all = append(all, diagnose(NotByTheFence, "%s refused A, but not by the fence: %s answered %s (%s, or such), which is the state machine's refusal and proves nothing about tokens",
				g.name, g.step.Name, g.step.Outcome, g.otherwise))
		case g.mustDo && !refused:
			all = append(all, diagnose(GuardSilent, "%s did not refuse A's stale token %d: is this guard wired at all?", g.name, f.A.Token))
		case !g.mustDo && g.refusals > 0:
			all = append(all, diagnose(GuardRefused, "%s refused A's token %d although its switch is off", g.name, f.A.Token))
		}
	}
	if m == Off && len(f.Requests) < 2 {
		all = append(all, diagnose(MovedOnce, "both guards are off and the rail received %d request(s): the experiment is broken, for nothing else can have prevented the second", len(f.Requests)))
	}
	return all
}

// accountStep is the step in which A met the account guard after it woke: the post of an accepted submission, else the hand-back.
func (f Facts) accountStep() *Step {
	if s := f.A.Step(postLedger); s != nil {
		return s
	}
	return f.A.Step(abandonClaim)
}

// refused are the refusals of a token at the resources, for a token that is at least B's: a guard that names another highest
// token than the one that took over has not compared the two.
func (f Facts) refused(token int64, resources ...string) []Refusal {
	var all []Refusal
	for _, r := range f.Refusals {
		for _, resource := range resources {
			if r.Resource == resource && r.Presented == token && r.Highest >= f.B.Token {
				all = append(all, r)
			}
		}
	}
	return all
}

// pairs counts the entry groups that are one debit of the account and one credit elsewhere, each of the payout's amount.
func (f Facts) pairs() (n int, fences []int64) {
	type group struct{ debits, credits, entries int }
	groups := make(map[string]*group)
	var order []string
	fence := make(map[string]int64)
	for _, e := range f.Ledger {
		g := groups[e.EntryGroup]
		if g == nil {
			g = &group{}
			groups[e.EntryGroup] = g
			order = append(order, e.EntryGroup)
		}
		g.entries++
		switch {
		case e.AmountMinor != f.AmountMinor:
		case e.Direction == "DEBIT" && e.AccountID == f.AccountID:
			g.debits++
			fence[e.EntryGroup] = e.Fence
		case e.Direction == "CREDIT" && e.AccountID != f.AccountID:
			g.credits++
		}
	}
	for _, id := range order {
		g := groups[id]
		if g.entries == 2 && g.debits == 1 && g.credits == 1 {
			n++
			fences = append(fences, fence[id])
		}
	}
	return n, fences
}

// entriesUnder counts the ledger entries that carry a token.
func (f Facts) entriesUnder(token int64) int {
	n := 0
	for _, e := range f.Ledger {
		if e.Fence == token {
			n++
		}
	}
	return n
}

func orNone(s string) string {
	if s == "" {
		return "no reason told"
	}
	return s
}

func join(parts []string) string {
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, "; ")
}
