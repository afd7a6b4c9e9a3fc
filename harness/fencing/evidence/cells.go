package evidence

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Cells is the verdict table of an attempt: one line for each thing that the mode says, with its evidence.
func Cells(m Mode, p Pause, f Facts) []Cell {
	if p == NoPause {
		return calmCells(f)
	}
	want := Expect(m)
	pairs, fences := f.pairs()
	rail := f.refused(f.A.Token, "rail")
	others := len(f.Refusals) - len(f.of(f.A.Token))
	account := f.refused(f.A.Token, "account", "ledger")
	duplicates := f.duplicates(f.A.Token)
	stale := f.A.Token < f.B.Token && f.After.Fence == f.A.Token
	accountMust, atAccount := "0", len(account) == 0
	if want.AccountRefused {
		accountMust, atAccount = "≥1", len(account) >= 1
	}
	railMust := count(want.RailRefused)
	return []Cell{
		{Name: "requests the rail received", Must: strconv.Itoa(want.RailRequests), Is: strconv.Itoa(len(f.Requests)),
			OK:       len(f.Requests) == want.RailRequests && f.moved() == want.RailRequests && slices.Equal(f.presented(), want.tokens(f)),
			Evidence: fmt.Sprintf("rail-stub's log: %s; rail-proxy's records: presented under %v", requests(f.Requests), f.presented())},
		{Name: "ledger pairs", Must: strconv.Itoa(want.LedgerPairs), Is: strconv.Itoa(pairs),
			OK:       pairs == want.LedgerPairs && len(f.Ledger) == 2*pairs && slices.Equal(fences, want.posted(f)) && f.marked(m),
			Evidence: fmt.Sprintf("ledger_entry: %d entries, posted under %v", len(f.Ledger), fences)},
		f.balance(want.BalanceIsSum, int64(pairs)),
		{Name: "stale tA applied last", Must: word(want.StaleLast), Is: word(stale), OK: stale == want.StaleLast && (stale || f.After.Fence == f.B.Token),
			Evidence: fmt.Sprintf("account.fence %d, tA %d, tB %d", f.After.Fence, f.A.Token, f.B.Token)},
		yesNo("rail-proxy FENCED_OUT for tA", want.RailRefused, refusedStep(f.A.Step(submitToRail)) && len(rail) > 0 && f.fencedRows() > 0,
			fmt.Sprintf("%s; FENCED records: %d", refusals(rail, f.A.Step(submitToRail)), f.fencedRows())),
		yesNo("payment-resource FENCED_OUT for tA, zero rows", want.AccountRefused,
			refusedStep(f.accountStep()) && len(account) > 0 && f.entriesUnder(f.A.Token) == 0,
			fmt.Sprintf("%s; ledger entries under tA: %d", refusals(account, f.accountStep()), f.entriesUnder(f.A.Token))),
		{Name: "fenced_out rail / account + ledger", Must: railMust + " / " + accountMust, Is: fmt.Sprintf("%d / %d", len(rail), len(account)),
			OK: len(rail) == number(want.RailRefused) && atAccount && others == 0, Evidence: fmt.Sprintf("the guards' fenced_out events for this account and tA; for other tokens: %d", others)},
		{Name: "rail duplicates attempted", Must: strconv.Itoa(want.DuplicateEvents), Is: strconv.Itoa(len(duplicates)),
			OK: len(duplicates) == want.DuplicateEvents, Evidence: "rail-proxy's duplicate_rail_submission_attempted events for this payout and tA"},
		{Name: "outcome of A / B", Must: want.OutcomeA + " / " + want.OutcomeB, Is: orDash(f.A.Outcome) + " / " + orDash(f.B.Outcome),
			OK:       f.A.Outcome == want.OutcomeA && f.B.Outcome == want.OutcomeB && f.After.PayoutState == "POSTED",
			Evidence: "results of " + f.A.WorkflowID + " and " + f.B.WorkflowID + "; the payout is " + orDash(f.After.PayoutState)},
		yesNo("tB above tA", true, f.A.Token > 0 && f.B.Token > f.A.Token, fmt.Sprintf("tA %d, tB %d, from the histories", f.A.Token, f.B.Token)),
		f.exclusion(),
		f.order(),
	}
}

// order is the experiment itself: A was past its last check, then stopped, then without a lease, then B began and ended, then A was
// woken, and only then did A meet the rail guard.
func (f Facts) order() Cell {
	const name = "check, stop, lapse, B, wake, submit: in this order"
	a, submit := f.lease(f.A.Token), f.A.Step(submitToRail)
	if f.Freeze == nil || a == nil || submit == nil || submit.EndedAt == nil {
		return yesNo(name, true, false, "A was not stopped, its grant was not seen, or it has not submitted")
	}
	moments := []time.Time{f.WindowOpenedAt, f.Freeze.StoppedAt, a.EndedAt, f.B.StartedAt, f.B.EndedAt, f.Freeze.ThawedAt, *submit.EndedAt}
	for _, s := range f.Submissions {
		if s.Token == f.A.Token {
			moments = append(moments, s.SubmittedAt)
		}
	}
	ordered := f.WindowToken == f.A.Token && f.Freeze.State == "T" && f.Freeze.ProcessID == f.A.ProcessID && f.A.ProcessID != f.B.ProcessID
	for i, moment := range moments[:7] {
		ordered = ordered && !moment.IsZero() && (i == 0 || !moment.Before(moments[i-1]))
	}
	for _, submitted := range moments[7:] {
		ordered = ordered && !submitted.Before(f.Freeze.ThawedAt)
	}
	return yesNo(name, true, ordered, fmt.Sprintf("A (process %d) stopped in state %s at %s, lease over %s, B %s to %s, A woken %s", f.Freeze.ProcessID, f.Freeze.State,
		clock(f.Freeze.StoppedAt), clock(a.EndedAt), clock(f.B.StartedAt), clock(f.B.EndedAt), clock(f.Freeze.ThawedAt)))
}

// balance compares the balance with the sum of the entries. Both must also be what the payout leaves: the balance one payout less than
// before, the sum one for each pair.
func (f Facts) balance(must bool, pairs int64) Cell {
	is := f.After.BalanceMinor == f.After.SumMinor
	right := f.Before.BalanceMinor == f.Before.SumMinor && f.After.BalanceMinor == f.Before.BalanceMinor-f.AmountMinor && f.After.SumMinor == f.Before.SumMinor-pairs*f.AmountMinor
	return Cell{Name: "balance = signed sum", Must: word(must), Is: word(is), OK: is == must && right,
		Evidence: fmt.Sprintf("balance %d, sum of entries %d, both %d before a payout of %d", f.After.BalanceMinor, f.After.SumMinor, f.Before.SumMinor, f.AmountMinor)}
}

// marked reports whether rows say of themselves which guard was on when they were written.
func (f Facts) marked(m Mode) bool {
	for _, e := range f.Ledger {
		if e.Guarded != m.AccountGuard() {
			return false
		}
	}
	for _, s := range f.Submissions {
		if s.Guarded != m.RailGuard() {
			return false
		}
	}
	return true
}

// of are the refusals of one token, wherever.
func (f Facts) of(token int64) []Refusal {
	var all []Refusal
	for _, r := range f.Refusals {
		if r.Presented == token {
			all = append(all, r)
		}
	}
	return all
}

// exclusion is the lock-server's part: it grants the lock to B once A's lease has expired, and not before. It never trusts the lock
// with money; it shows that the lock is not at fault.
func (f Facts) exclusion() Cell {
	a, b := f.lease(f.A.Token), f.lease(f.B.Token)
	if a == nil || b == nil {
		return yesNo("B granted after A's lease expired", true, false, "not both grants were seen") // unasked has said so already
	}
	return yesNo("B granted after A's lease expired", true, !b.AcquiredAt.Before(a.ExpiresAt),
		fmt.Sprintf("tA expired at %s, tB granted at %s", clock(a.ExpiresAt), clock(b.AcquiredAt)))
}

func (f Facts) lease(token int64) *Lease {
	for i := range f.Leases {
		if f.Leases[i].Token == token {
			return &f.Leases[i]
		}
	}
	return nil
}

// fencedRows counts rail-proxy's own records of having refused tA.
func (f Facts) fencedRows() int {
	n := 0
	for _, s := range f.Submissions {
		n += number(s.Token == f.A.Token && s.Outcome == "FENCED")
	}
	return n
}

// calmCells is the table of the control, the same in every mode: the lock alone suffices while nothing stops.
func calmCells(f Facts) []Cell {
	pairs, fences := f.pairs()
	contended, tokens := 0, 0
	for _, run := range f.C {
		if acquire := run.Step("AcquireLock"); run.Outcome == "contended" && run.Token == 0 && run.EndedAt.Before(f.A.EndedAt) &&
			acquire != nil && strings.HasPrefix(acquire.Reason, "LOCK_CONTENDED") {
			contended++
		}
		if run.Token != 0 {
			tokens++
		}
	}
	renewed := 0
	for _, lease := range f.Leases {
		if lease.Token == f.A.Token {
			renewed += lease.Renewals
		}
	}
	posted := true
	for _, run := range f.C {
		posted = posted && run.Outcome == "contended"
	}
	return []Cell{
		{Name: "requests the rail received", Must: "1", Is: strconv.Itoa(len(f.Requests)), OK: len(f.Requests) == 1 && f.moved() == 1,
			Evidence: "rail-stub's log: " + requests(f.Requests)},
		{Name: "ledger pairs", Must: "1", Is: strconv.Itoa(pairs), OK: pairs == 1 && len(f.Ledger) == 2,
			Evidence: fmt.Sprintf("ledger_entry: %d entries, posted under %v", len(f.Ledger), fences)},
		f.balance(true, int64(pairs)),
		yesNo("posted under tA", true, f.A.Token > 0 && len(fences) == 1 && fences[0] == f.A.Token, fmt.Sprintf("posted under %v, tA %d", fences, f.A.Token)),
		yesNo("A renewed through its work", true, renewed >= 2, fmt.Sprintf("later expiries of A's lease that were seen: %d", renewed)),
		yesNo("B contended while A held", true, contended >= 1, fmt.Sprintf("runs of B that ended with LOCK_CONTENDED, without a token, before A's: %d of %d", contended, len(f.C))),
		{Name: "fenced_out rail / account + ledger", Must: "0 / 0", OK: len(f.Refusals) == 0,
			Is:       fmt.Sprintf("%d / %d", len(f.atResource("rail")), len(f.Refusals)-len(f.atResource("rail"))),
			Evidence: "the guards' fenced_out events for this account"},
		{Name: "rail duplicates attempted", Must: "0", Is: strconv.Itoa(len(f.Duplicates)), OK: len(f.Duplicates) == 0,
			Evidence: "rail-proxy's duplicate_rail_submission_attempted events for this payout"},
		{Name: "outcome of A / B", Must: "posted / contended", Is: orDash(f.A.Outcome) + " / " + outcomes(f.C), OK: f.A.Outcome == "posted" && posted && len(f.C) > 0,
			Evidence: fmt.Sprintf("results of %s and of %d runs of %s; grants that B got: %d", f.A.WorkflowID, len(f.C), f.B.WorkflowID, tokens)},
	}
}

func (f Facts) duplicates(token int64) []Duplicate {
	var all []Duplicate
	for _, d := range f.Duplicates {
		if d.Presented == token {
			all = append(all, d)
		}
	}
	return all
}

func (f Facts) atResource(resource string) []Refusal {
	var all []Refusal
	for _, r := range f.Refusals {
		if r.Resource == resource {
			all = append(all, r)
		}
	}
	return all
}

func refusedStep(s *Step) bool { return s != nil && s.Outcome == fencedOut }

func word(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func yesNo(name string, must, is bool, evidence string) Cell {
	return Cell{Name: name, Must: word(must), Is: word(is), OK: must == is, Evidence: evidence}
}

func count(b bool) string { return strconv.Itoa(number(b)) }

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

func requests(all []Request) string {
	var parts []string
	for _, r := range all {
		part := fmt.Sprintf("#%d at %s", r.Sequence, clock(r.ReceivedAt))
		if !r.MoneyMoved {
			part += ", no money moved"
		}
		parts = append(parts, part)
	}
	return join(parts)
}

// moved counts the requests that moved the payout's amount.
func (f Facts) moved() int {
	n := 0
	for _, r := range f.Requests {
		n += number(r.MoneyMoved && r.AmountMinor == f.AmountMinor && r.ClientRef == f.PayoutID)
	}
	return n
}

// presented are the tokens under which rail-proxy presented the payout, in that order.
func (f Facts) presented() []int64 {
	var tokens []int64
	for _, s := range f.Submissions {
		if s.presented() {
			tokens = append(tokens, s.Token)
		}
	}
	return tokens
}

// tokens are those under which the payout must have been presented: B's, and where nothing stops A, A's after it.
func (e Expectation) tokens(f Facts) []int64 { return []int64{f.B.Token, f.A.Token}[:e.RailRequests] }

// posted are the tokens under which it must have been posted.
func (e Expectation) posted(f Facts) []int64 { return []int64{f.B.Token, f.A.Token}[:e.LedgerPairs] }

func refusals(all []Refusal, step *Step) string {
	var parts []string
	for _, r := range all {
		parts = append(parts, fmt.Sprintf("%s: presented %d, highest %d", r.Resource, r.Presented, r.Highest))
	}
	if step == nil {
		return join(parts)
	}
	return fmt.Sprintf("%s; %s answered %s", join(parts), step.Name, orDash(step.Outcome))
}

// outcomes are the distinct outcomes of runs.
func outcomes(runs []Worker) string {
	var parts []string
	seen := make(map[string]bool)
	for _, run := range runs {
		if !seen[run.Outcome] {
			seen[run.Outcome] = true
			parts = append(parts, orDash(run.Outcome))
		}
	}
	return join(parts)
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// clock is a time of day in UTC, to the millisecond.
func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }
