package evidence_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/harness/fencing/evidence"
)

const (
	tokenA  = 7
	tokenB  = 8
	account = "acme"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

func entries(token int64, group string, when time.Time) []evidence.Entry {
	return []evidence.Entry{
		{ID: token * 10, EntryGroup: group, AccountID: account, Direction: "DEBIT", AmountMinor: 100, Fence: token, Guarded: true, CreatedAt: when},
		{ID: token*10 + 1, EntryGroup: group, AccountID: "clearing.EUR", Direction: "CREDIT", AmountMinor: 100, Fence: token, Guarded: true, CreatedAt: when},
	}
}

// facts are what a mode must show.
func facts(m evidence.Mode) evidence.Facts {
	end := at(20.2)
	step := func(name, outcome string) evidence.Step {
		return evidence.Step{Name: name, ScheduledAt: at(0.1), StartedAt: &start, EndedAt: &end, Outcome: outcome}
	}
	f := evidence.Facts{
		AccountID: account, PayoutID: "p", AmountMinor: 100, WindowOpenedAt: at(0.3), WindowToken: tokenA,
		Freeze:            &evidence.Freeze{ProcessID: 42, State: "T", StoppedAt: at(1.3), ThawedAt: at(7.5)},
		A:                 evidence.Worker{ProcessID: 42, WorkflowID: "payout-p", Token: tokenA},
		B:                 evidence.Worker{ProcessID: 43, WorkflowID: "payout-p-b", Token: tokenB, StartedAt: at(6.7), EndedAt: at(7.4), Outcome: "posted", State: "POSTED", Steps: []evidence.Step{step("SubmitToRail", "acked")}},
		Leases:            []evidence.Lease{{Token: tokenA, AcquiredAt: at(0.1), ExpiresAt: at(6.3), EndedAt: at(6.4)}, {Token: tokenB, AcquiredAt: at(6.9), ExpiresAt: at(12)}},
		StubStartedBefore: start, StubStartedAfter: start,
		Requests:    []evidence.Request{{Sequence: 1, ClientRef: "p", AmountMinor: 100, ReceivedAt: at(7.1), MoneyMoved: true}},
		Submissions: []evidence.Submission{{SubmissionID: "b", Token: tokenB, Outcome: "ACKED", SubmittedAt: at(7)}},
		Ledger:      entries(tokenB, "group-b", at(7.3)),
		Before:      evidence.Books{BalanceMinor: 10_000, SumMinor: 10_000, PayoutState: "PENDING"},
		After:       evidence.Books{BalanceMinor: 9_900, SumMinor: 9_900, Fence: tokenB, RailHighest: tokenB, PayoutState: "POSTED"},
	}
	if m.RailGuard() {
		f.Submissions = append(f.Submissions, evidence.Submission{SubmissionID: "a", Token: tokenA, Outcome: "FENCED", SubmittedAt: at(20.1)})
		f.Refusals = append(f.Refusals, evidence.Refusal{At: at(20.1), Resource: "rail", Presented: tokenA, Highest: tokenB})
		f.Duplicates = append(f.Duplicates, evidence.Duplicate{At: at(20.1), Presented: tokenA})
		f.A.Outcome = "fenced"
		f.A.Steps = []evidence.Step{step("SubmitToRail", "fencedOut"), step("AbandonClaim", "accepted")}
	} else {
		f.Submissions = append(f.Submissions, evidence.Submission{SubmissionID: "a", Token: tokenA, Outcome: "ACKED", SubmittedAt: at(20.1)})
		f.Requests = append(f.Requests, evidence.Request{Sequence: 2, ClientRef: "p", AmountMinor: 100, ReceivedAt: at(20.1), MoneyMoved: true})
		f.A.Steps = []evidence.Step{step("SubmitToRail", "acked"), step("PostLedger", "accepted")}
	}
	switch m {
	case evidence.On:
		f.Refusals = append(f.Refusals, evidence.Refusal{At: at(20.2), Resource: "account", Presented: tokenA, Highest: tokenB})
		f.A.Steps[1].Outcome = "fencedOut"
	case evidence.AccountOnly:
		f.Refusals = append(f.Refusals, evidence.Refusal{At: at(20.2), Resource: "ledger", Presented: tokenA, Highest: tokenB})
		f.A.Steps[1].Outcome = "fencedOut"
		f.A.Outcome = "fenced"
	case evidence.Off:
		f.Ledger = append(f.Ledger, entries(tokenA, "group-a", at(20.2))...)
		f.After.SumMinor, f.After.Fence = 9_800, tokenA
		f.A.Outcome = "posted"
	}
	for i := range f.Submissions {
		f.Submissions[i].Guarded = m.RailGuard()
	}
	for i := range f.Ledger {
		f.Ledger[i].Guarded = m.AccountGuard()
	}
	return f
}

func TestEveryModeMatchesItsOwnFactsAndNoOther(t *testing.T) {
	for _, shown := range evidence.Modes {
		for _, asked := range evidence.Modes {
			cells, verdict, why := evidence.Judge(asked, evidence.Stop, facts(shown))
			require.Len(t, cells, 12)
			if shown == asked {
				require.Equal(t, evidence.Matched, verdict, "%v", why)
				require.Empty(t, why)
				for _, c := range cells {
					require.True(t, c.OK, "%+v", c)
					require.NotEmpty(t, c.Evidence, c.Name)
				}
				continue
			}
			require.Equal(t, evidence.Diverged, verdict, "facts of %s, mode %s", shown, asked)
			require.NotEmpty(t, why)
		}
	}
}

// The table of the experiment, cell by cell, as the design has it.
func TestTheTable(t *testing.T) {
	want := map[evidence.Mode][]string{
		evidence.Off:         {"2", "2", "no", "yes", "no", "no", "0 / 0", "0", "posted / posted", "yes", "yes", "yes"},
		evidence.RailOnly:    {"1", "1", "yes", "no", "yes", "no", "1 / 0", "1", "fenced / posted", "yes", "yes", "yes"},
		evidence.AccountOnly: {"2", "1", "yes", "no", "no", "yes", "0 / ≥1", "0", "fenced / posted", "yes", "yes", "yes"},
		evidence.On:          {"1", "1", "yes", "no", "yes", "yes", "1 / ≥1", "1", "fenced / posted", "yes", "yes", "yes"},
	}
	for mode, musts := range want {
		var got []string
		for _, c := range evidence.Cells(mode, evidence.Stop, facts(mode)) {
			got = append(got, c.Must)
		}
		require.Equal(t, musts, got, mode)
	}
}

func step(f *evidence.Facts, name string) *evidence.Step { return f.A.Step(name) }

// Every way to be wrong, or to look right for the wrong reason.
func TestWhatIsNotAPass(t *testing.T) {
	for _, c := range []struct {
		name    string
		mode    evidence.Mode
		spoil   func(*evidence.Facts)
		verdict evidence.Verdict
		code    evidence.Code
	}{
		{"the lease check stopped A", evidence.On, func(f *evidence.Facts) {
			step(f, "SubmitToRail").Outcome = "notHeld"
			f.Refusals, f.Duplicates, f.Submissions = f.Refusals[1:], nil, f.Submissions[:1]
		}, evidence.Inconclusive, evidence.NeverReached},
		{"A handed back before it submitted", evidence.On, func(f *evidence.Facts) {
			f.A.Steps, f.A.Outcome, f.Refusals, f.Duplicates, f.Submissions = f.A.Steps[1:], "abandoned", nil, nil, f.Submissions[:1]
		}, evidence.Inconclusive, evidence.NeverReached},
		{"A found no proxy", evidence.RailOnly, func(f *evidence.Facts) { step(f, "SubmitToRail").Outcome = "unavailable" }, evidence.Inconclusive, evidence.NeverReached},
		{"A has no answer", evidence.RailOnly, func(f *evidence.Facts) { step(f, "SubmitToRail").Outcome = "" }, evidence.Inconclusive, evidence.NeverReached},
		{"the pause outlived the attempt", evidence.On, func(f *evidence.Facts) { step(f, "SubmitToRail").Outcome = "timedOut" }, evidence.Inconclusive, evidence.AttemptEnded},
		{"the rail left B without an answer", evidence.On, func(f *evidence.Facts) { f.B.Outcome = "ambiguous" }, evidence.Inconclusive, evidence.BDidNotFinish},
		{"the rail guard refused by the state machine", evidence.On, func(f *evidence.Facts) {
			step(f, "SubmitToRail").Outcome, f.Refusals = "duplicate", f.Refusals[1:]
		}, evidence.Diverged, evidence.NotByTheFence},
		{"the account guard refused by the state machine", evidence.AccountOnly, func(f *evidence.Facts) {
			step(f, "PostLedger").Outcome, f.Refusals = "notClaimable", nil
		}, evidence.Diverged, evidence.NotByTheFence},
		{"fenced out without an event", evidence.On, func(f *evidence.Facts) { f.Refusals = f.Refusals[1:] }, evidence.Diverged, evidence.GuardSilent},
		{"an event without a refusal", evidence.RailOnly, func(f *evidence.Facts) { step(f, "SubmitToRail").Outcome = "rejected" }, evidence.Diverged, evidence.GuardSilent},
		{"a refusal of another token", evidence.RailOnly, func(f *evidence.Facts) { f.Refusals[0].Presented = 3 }, evidence.Diverged, evidence.GuardSilent},
		{"a refusal that names no higher token", evidence.RailOnly, func(f *evidence.Facts) { f.Refusals[0].Highest = 0 }, evidence.Diverged, evidence.GuardSilent},
		{"a refusal without a record", evidence.On, func(f *evidence.Facts) { f.Submissions = f.Submissions[:1] }, evidence.Diverged, evidence.CellDiffers},
		{"the lock was granted twice", evidence.On, func(f *evidence.Facts) { f.Leases[1].AcquiredAt = at(6.2) }, evidence.Diverged, evidence.CellDiffers},
		{"a grant that nobody saw", evidence.On, func(f *evidence.Facts) { f.Leases = f.Leases[:1] }, evidence.Inconclusive, evidence.GrantNotSeen},
		{"never stopped", evidence.On, func(f *evidence.Facts) { f.Freeze = nil }, evidence.Diverged, evidence.CellDiffers},
		{"not stopped by a signal", evidence.On, func(f *evidence.Facts) { f.Freeze.State = "S" }, evidence.Diverged, evidence.CellDiffers},
		{"another process was stopped", evidence.On, func(f *evidence.Facts) { f.Freeze.ProcessID = 44 }, evidence.Diverged, evidence.CellDiffers},
		{"A and B are one process", evidence.On, func(f *evidence.Facts) { f.B.ProcessID = 42 }, evidence.Diverged, evidence.CellDiffers},
		{"never woken", evidence.On, func(f *evidence.Facts) { f.Freeze.ThawedAt = time.Time{} }, evidence.Diverged, evidence.CellDiffers},
		{"woken before B had ended", evidence.On, func(f *evidence.Facts) { f.Freeze.ThawedAt = at(7.3) }, evidence.Diverged, evidence.CellDiffers},
		{"no window", evidence.On, func(f *evidence.Facts) { f.WindowOpenedAt = time.Time{} }, evidence.Diverged, evidence.CellDiffers},
		{"the window of another grant", evidence.On, func(f *evidence.Facts) { f.WindowToken = tokenB }, evidence.Diverged, evidence.CellDiffers},
		{"the lease was over before the stop", evidence.On, func(f *evidence.Facts) { f.Leases[0].EndedAt = at(1.2) }, evidence.Diverged, evidence.CellDiffers},
		{"B began while A held", evidence.On, func(f *evidence.Facts) { f.B.StartedAt = at(6.3) }, evidence.Diverged, evidence.CellDiffers},
		{"A submitted before it was woken", evidence.On, func(f *evidence.Facts) { f.Submissions[1].SubmittedAt = at(7.2) }, evidence.Diverged, evidence.CellDiffers},
		{"the rail moved another amount", evidence.On, func(f *evidence.Facts) { f.Requests[0].AmountMinor = 1 }, evidence.Diverged, evidence.CellDiffers},
		{"a request for another payout", evidence.On, func(f *evidence.Facts) { f.Requests[0].ClientRef = "q" }, evidence.Diverged, evidence.CellDiffers},
		{"nothing was booked", evidence.On, func(f *evidence.Facts) { f.After.BalanceMinor, f.After.SumMinor = 10_000, 10_000 }, evidence.Diverged, evidence.CellDiffers},
		{"off differs by something else", evidence.Off, func(f *evidence.Facts) { f.After.SumMinor = 10_500 }, evidence.Diverged, evidence.CellDiffers},
		{"off posted twice under B's token", evidence.Off, func(f *evidence.Facts) { f.Ledger = append(f.Ledger[:2:2], entries(tokenB, "group-c", at(20))...) }, evidence.Diverged, evidence.CellDiffers},
		{"posted under A's token", evidence.RailOnly, func(f *evidence.Facts) {
			f.Ledger[0].Fence, f.Ledger[1].Fence = tokenA, tokenA
		}, evidence.Diverged, evidence.CellDiffers},
		{"the fence was lost", evidence.On, func(f *evidence.Facts) { f.After.Fence = 0 }, evidence.Diverged, evidence.CellDiffers},
		{"B was refused as well", evidence.Off, func(f *evidence.Facts) {
			f.Refusals = append(f.Refusals, evidence.Refusal{Resource: "rail", Presented: tokenB, Highest: tokenB})
		}, evidence.Diverged, evidence.CellDiffers},
		{"the payout is not POSTED", evidence.On, func(f *evidence.Facts) { f.After.PayoutState = "FAILED" }, evidence.Diverged, evidence.CellDiffers},
		{"rows written with the guard off", evidence.On, func(f *evidence.Facts) { f.Ledger[0].Guarded = false }, evidence.Diverged, evidence.CellDiffers},
		{"records written with the guard off", evidence.On, func(f *evidence.Facts) { f.Submissions[0].Guarded = false }, evidence.Diverged, evidence.CellDiffers},
		{"a breach behind an excuse", evidence.On, func(f *evidence.Facts) {
			step(f, "SubmitToRail").Outcome = "timedOut"
			f.Requests = append(f.Requests, f.Requests[0])
			f.Submissions[1].Outcome = "ACKED"
		}, evidence.Diverged, evidence.GuardSilent},
		{"two postings behind an excuse", evidence.AccountOnly, func(f *evidence.Facts) {
			step(f, "SubmitToRail").Outcome = "timedOut"
			f.Ledger = append(f.Ledger, entries(tokenA, "group-a", at(20))...)
		}, evidence.Diverged, evidence.GuardSilent},
		{"only the rail guard is wired", evidence.On, func(f *evidence.Facts) { *f = facts(evidence.RailOnly) }, evidence.Diverged, evidence.GuardSilent},
		{"only the account guard is wired", evidence.On, func(f *evidence.Facts) { *f = facts(evidence.AccountOnly) }, evidence.Diverged, evidence.GuardSilent},
		{"a guard that is off refuses", evidence.Off, func(f *evidence.Facts) { *f = facts(evidence.RailOnly) }, evidence.Diverged, evidence.GuardRefused},
		{"off does not corrupt", evidence.Off, func(f *evidence.Facts) {
			f.Requests, f.Submissions = f.Requests[:1], f.Submissions[:1]
		}, evidence.Diverged, evidence.MovedOnce},
		{"the tokens are equal", evidence.On, func(f *evidence.Facts) { f.B.Token = tokenA }, evidence.Diverged, evidence.TokensNotRising},
		{"A has no token", evidence.On, func(f *evidence.Facts) { f.A.Token = 0 }, evidence.Diverged, evidence.TokensNotRising},
		{"the rail's log was lost", evidence.Off, func(f *evidence.Facts) { f.StubStartedAfter = at(9) }, evidence.Diverged, evidence.RailLogLost},
		{"the rail's log is short", evidence.On, func(f *evidence.Facts) { f.Requests = nil }, evidence.Diverged, evidence.RailLogDiffers},
		{"the wrong process was stopped", evidence.On, func(f *evidence.Facts) {
			f.Trouble = []evidence.Diagnosis{{Code: evidence.WrongProcess, Sentence: "s"}}
		}, evidence.Diverged, evidence.WrongProcess},
		{"stopped too early", evidence.On, func(f *evidence.Facts) {
			f.Trouble = []evidence.Diagnosis{{Code: evidence.PausedTooEarly, Sentence: "s"}}
		}, evidence.Inconclusive, evidence.PausedTooEarly},
		{"the rail moved no money", evidence.Off, func(f *evidence.Facts) { f.Requests[1].MoneyMoved = false }, evidence.Diverged, evidence.CellDiffers},
		{"both requests were B's", evidence.Off, func(f *evidence.Facts) { f.Submissions[1].Token = tokenB }, evidence.Diverged, evidence.CellDiffers},
		{"a stale row was written", evidence.On, func(f *evidence.Facts) { f.Ledger = append(f.Ledger, entries(tokenA, "group-a", at(20))...) }, evidence.Diverged, evidence.GuardSilent},
		{"half a pair", evidence.On, func(f *evidence.Facts) { f.Ledger = f.Ledger[:1] }, evidence.Diverged, evidence.CellDiffers},
		{"a pair of unequal legs", evidence.On, func(f *evidence.Facts) { f.Ledger[1].AmountMinor = 99 }, evidence.Diverged, evidence.CellDiffers},
		{"books that do not add up", evidence.On, func(f *evidence.Facts) { f.After.SumMinor = 9_800 }, evidence.Diverged, evidence.CellDiffers},
		{"books that add up in off", evidence.Off, func(f *evidence.Facts) { f.After.SumMinor = 9_900 }, evidence.Diverged, evidence.CellDiffers},
		{"B's token stayed last in off", evidence.Off, func(f *evidence.Facts) { f.After.Fence = tokenB }, evidence.Diverged, evidence.CellDiffers},
		{"no duplicate was noticed", evidence.On, func(f *evidence.Facts) { f.Duplicates = nil }, evidence.Diverged, evidence.CellDiffers},
		{"A's run has another end", evidence.On, func(f *evidence.Facts) { f.A.Outcome = "abandoned" }, evidence.Diverged, evidence.CellDiffers},
		{"refused twice at the rail", evidence.RailOnly, func(f *evidence.Facts) { f.Refusals = append(f.Refusals, f.Refusals[0]) }, evidence.Diverged, evidence.CellDiffers},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := facts(c.mode)
			c.spoil(&f)
			_, verdict, why := evidence.Judge(c.mode, evidence.Stop, f)
			require.Equal(t, c.verdict, verdict, "%v", why)
			require.Contains(t, codes(why), c.code)
			for _, d := range why {
				require.NotEmpty(t, d.Sentence)
			}
		})
	}
}

func codes(why []evidence.Diagnosis) []evidence.Code {
	var all []evidence.Code
	for _, d := range why {
		all = append(all, d.Code)
	}
	return all
}

// calm is what the control must show.
func calm() evidence.Facts {
	f := facts(evidence.RailOnly)
	f.Freeze, f.Refusals, f.Duplicates, f.Submissions = nil, nil, nil, f.Submissions[:1]
	f.Submissions[0].Token = tokenA
	f.Ledger = entries(tokenA, "group-a", at(20.2))
	f.A = evidence.Worker{WorkflowID: "payout-p", Token: tokenA, Outcome: "posted", EndedAt: at(20.3)}
	f.Leases = []evidence.Lease{{Token: tokenA, AcquiredAt: at(0.1), ExpiresAt: at(25), Renewals: 11}}
	f.C = []evidence.Worker{{Outcome: "contended", EndedAt: at(3), Steps: []evidence.Step{{Name: "AcquireLock", Outcome: "contended", Reason: "LOCK_CONTENDED: another owner"}}},
		{Outcome: "contended", Token: tokenB, EndedAt: at(20.4)}}
	return f
}

func TestTheControl(t *testing.T) {
	for _, mode := range evidence.Modes {
		_, verdict, why := evidence.Judge(mode, evidence.NoPause, calm())
		require.Equal(t, evidence.Matched, verdict, "%s: %v", mode, why)
	}
	for name, spoil := range map[string]func(*evidence.Facts){
		"two requests":               func(f *evidence.Facts) { f.Requests = append(f.Requests, f.Requests[0]) },
		"two pairs":                  func(f *evidence.Facts) { f.Ledger = append(f.Ledger, entries(tokenB, "group-b", at(1))...) },
		"books that do not add up":   func(f *evidence.Facts) { f.After.SumMinor-- },
		"posted under B's token":     func(f *evidence.Facts) { f.Ledger = entries(tokenB, "group-b", at(1)) },
		"a lease that was not kept":  func(f *evidence.Facts) { f.Leases[0].Renewals = 1 },
		"B never asked in time":      func(f *evidence.Facts) { f.C = f.C[1:] },
		"the lock-server was ill":    func(f *evidence.Facts) { f.C[0].Steps[0].Reason = "RAIL_UNAVAILABLE: out of order" },
		"B was granted A's lock":     func(f *evidence.Facts) { f.C[0].Token = tokenB },
		"B posted":                   func(f *evidence.Facts) { f.C[1].Outcome = "posted" },
		"B never ran":                func(f *evidence.Facts) { f.C = nil },
		"a refusal":                  func(f *evidence.Facts) { f.Refusals = []evidence.Refusal{{Resource: "account", Presented: tokenA}} },
		"a duplicate":                func(f *evidence.Facts) { f.Duplicates = []evidence.Duplicate{{Presented: tokenA}} },
		"A did not finish":           func(f *evidence.Facts) { f.A.Outcome = "abandoned" },
		"a rail that was restarted":  func(f *evidence.Facts) { f.StubStartedAfter = at(2) },
		"B outlived A and never was": func(f *evidence.Facts) { f.C[0].EndedAt = at(21) },
	} {
		f := calm()
		spoil(&f)
		_, verdict, why := evidence.Judge(evidence.On, evidence.NoPause, f)
		require.Equal(t, evidence.Diverged, verdict, name)
		require.NotEmpty(t, why, name)
	}
}

// whole is a run of n repetitions that shows what its mode must show.
func whole(m evidence.Mode, n int) evidence.Run {
	r := evidence.Run{Mode: m, Pause: evidence.Stop, Invariants: []evidence.Finding{}}
	r.GuardsBefore.PaymentResource.FencingEnabled, r.GuardsBefore.RailProxy.FencingEnabled = m.AccountGuard(), m.RailGuard()
	r.GuardsAfter = r.GuardsBefore
	for i := range n {
		a := evidence.Attempt{Number: 1, Facts: facts(m)}
		a.Cells, a.Verdict, a.Diagnoses = evidence.Judge(m, evidence.Stop, a.Facts)
		r.Repetitions = append(r.Repetitions, evidence.Repetition{Number: i + 1, Attempts: []evidence.Attempt{a}})
	}
	if !m.RailGuard() {
		r.Invariants = append(r.Invariants, evidence.Finding{Invariant: "INV-02", Name: "presented-once", Offending: 2})
	}
	if m == evidence.Off {
		r.Invariants = append(r.Invariants, evidence.Finding{Invariant: "INV-03", Name: "balance-is-entries", Offending: 1})
	}
	r.Counters = []evidence.Counter{{Name: "lock_fenced_out_total", Before: 4, After: 6, Events: 2}}
	return r
}

func TestTheSummaryOfARun(t *testing.T) {
	for _, mode := range evidence.Modes {
		s := evidence.Summarize(whole(mode, 20))
		require.True(t, s.Passed, "%s: %v", mode, s.Diagnoses)
		require.Equal(t, fmt.Sprintf("20/20 %s: identical; inconclusive 0", mode), s.Line)
	}
}

func TestAnInconclusiveAttemptIsShownAndNeverAPass(t *testing.T) {
	r := whole(evidence.On, 3)
	gaveUp := facts(evidence.On)
	gaveUp.A.Step("SubmitToRail").Outcome = "notHeld"
	attempt := evidence.Attempt{Number: 1, Facts: gaveUp}
	attempt.Cells, attempt.Verdict, attempt.Diagnoses = evidence.Judge(evidence.On, evidence.Stop, gaveUp)

	r.Repetitions[1].Attempts = append([]evidence.Attempt{attempt}, r.Repetitions[1].Attempts...)
	s := evidence.Summarize(r)
	require.True(t, s.Passed)
	require.Equal(t, "3/3 on: identical; inconclusive 1", s.Line)

	r.Repetitions[1].Attempts = []evidence.Attempt{attempt, attempt}
	s = evidence.Summarize(r)
	require.False(t, s.Passed)
	require.Equal(t, "2/3 on: not identical; inconclusive 2", s.Line)
	require.Equal(t, []evidence.Code{evidence.NeverReached}, codes(s.Diagnoses))
}

func TestARunIsJudgedByMoreThanItsRepetitions(t *testing.T) {
	for name, c := range map[string]struct {
		mode  evidence.Mode
		spoil func(*evidence.Run)
		code  evidence.Code
	}{
		"no repetition":                 {evidence.On, func(r *evidence.Run) { r.Repetitions = nil }, ""},
		"a switch off before":           {evidence.On, func(r *evidence.Run) { r.GuardsBefore.RailProxy.FencingEnabled = false }, evidence.SwitchWrong},
		"a switch off after":            {evidence.On, func(r *evidence.Run) { r.GuardsAfter.PaymentResource.FencingEnabled = false }, evidence.SwitchWrong},
		"a switch on in off":            {evidence.Off, func(r *evidence.Run) { r.GuardsBefore.PaymentResource.FencingEnabled = true }, evidence.SwitchWrong},
		"a counter beyond the events":   {evidence.On, func(r *evidence.Run) { r.Counters[0].After++ }, evidence.CountersDiffer},
		"events beyond the counter":     {evidence.On, func(r *evidence.Run) { r.Counters[0].Events++ }, evidence.CountersDiffer},
		"a finding in on":               {evidence.On, func(r *evidence.Run) { r.Invariants = []evidence.Finding{{Invariant: "INV-03"}} }, evidence.BooksDiffer},
		"account-only breaks the books": {evidence.AccountOnly, func(r *evidence.Run) { r.Invariants = append(r.Invariants, evidence.Finding{Invariant: "INV-03"}) }, evidence.BooksDiffer},
		"off breaks something else":     {evidence.Off, func(r *evidence.Run) { r.Invariants = append(r.Invariants, evidence.Finding{Invariant: "INV-08"}) }, evidence.BooksDiffer},
		"off finds nothing at the rail": {evidence.Off, func(r *evidence.Run) { r.Invariants = r.Invariants[1:] }, evidence.BooksDiffer},
		"off finds balanced books":      {evidence.Off, func(r *evidence.Run) { r.Invariants = r.Invariants[:1] }, evidence.BooksDiffer},
		"the control breaks the books":  {evidence.Off, func(r *evidence.Run) { r.Pause = evidence.NoPause }, evidence.BooksDiffer},
	} {
		r := whole(c.mode, 2)
		c.spoil(&r)
		s := evidence.Summarize(r)
		require.False(t, s.Passed, name)
		require.NotContains(t, s.Line, "identical; ", "the last line is what is read: %s", name)
		if c.code != "" {
			require.Contains(t, codes(s.Diagnoses), c.code, name)
		}
	}
}

func TestACheckerThatWasNotAskedSaysNothing(t *testing.T) {
	r := whole(evidence.Off, 1)
	r.Invariants = nil
	require.True(t, evidence.Summarize(r).Passed)
}
