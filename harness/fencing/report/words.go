package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"railguard/harness/fencing/evidence"
)

// title is the mode in words.
func title(m evidence.Mode) string {
	switch m {
	case evidence.Off:
		return "Both guards off"
	case evidence.RailOnly:
		return "Only the rail guard on"
	case evidence.AccountOnly:
		return "Only the account guard on"
	case evidence.On:
		return "Both guards on"
	}
	return fmt.Sprintf("Mode %q", string(m))
}

// promise is what a run in this mode must show, and in a few words.
func promise(m evidence.Mode, p evidence.Pause) (brief, long string) {
	if p == evidence.NoPause {
		return "nothing stops, money must move once",
			"The control. A must hold the lock all through its work, B must be turned away while it does; one request, one posting, books that add up. " +
				"The lock alone suffices until a process stops."
	}
	if !slices.Contains(evidence.Modes, m) {
		return "", ""
	}
	want := evidence.Expect(m)
	brief = "money must move " + often(want.RailRequests)
	if want.LedgerPairs != want.RailRequests {
		brief += ", and be booked " + often(want.LedgerPairs)
	}
	books := "and must add up"
	if !want.BalanceIsSum {
		books = "and must stop adding up"
	}
	long = fmt.Sprintf("The rail must be called %s. The books must show the payout %s %s.", often(want.RailRequests), often(want.LedgerPairs), books)
	var who []string
	if want.RailRefused {
		who = append(who, "the rail guard")
	}
	if want.AccountRefused {
		who = append(who, "the account guard")
	}
	if len(who) == 0 {
		return brief, long + " Nothing may refuse A."
	}
	return brief, long + " " + sentence(strings.Join(who, " and ")+" must refuse A's stale token.")
}

// Story is what was seen in an attempt, in a sentence or three, from its facts alone.
func Story(run evidence.Run, f evidence.Facts) string {
	var said []string
	for _, s := range []string{opening(run, f), money(f), books(f)} {
		if s != "" {
			said = append(said, sentence(s))
		}
	}
	return strings.Join(said, " ")
}

// opening tells what became of the two workers.
func opening(run evidence.Run, f evidence.Facts) string {
	if len(f.C) > 0 || f.Freeze == nil && run.Pause == evidence.NoPause {
		return calm(f)
	}
	refusals := refusalsOf(f, f.A.Token)
	var lead string
	switch {
	case f.Freeze == nil:
		lead = "A was never stopped"
	case f.Freeze.ThawedAt.IsZero():
		return fmt.Sprintf("A was stopped under token %d and never woken.", f.A.Token)
	case f.B.Token > f.A.Token && f.A.Token > 0:
		how := "B had been granted"
		if slices.ContainsFunc(f.Claims, func(c evidence.Claim) bool { return c.Token == f.B.Token }) {
			how = "the account had moved to"
		}
		lead = fmt.Sprintf("A woke with token %d after %s token %d", f.A.Token, how, f.B.Token)
	default:
		lead = fmt.Sprintf("A woke with token %s, and B's was %s", token(f.A.Token), token(f.B.Token))
	}
	switch len(refusals) {
	case 0:
		if f.Freeze == nil {
			return lead + "."
		}
		return lead + "; no guard refused it."
	case 1:
		return fmt.Sprintf("%s; %s refused it.", lead, refusals[0])
	}
	return fmt.Sprintf("%s; %s refused it, then %s did.", lead, refusals[0], strings.Join(refusals[1:], ", then "))
}

// refusalsOf names the guards that refused a token, in the order in which they did.
func refusalsOf(f evidence.Facts, presented int64) []string {
	var all []string
	for _, r := range slices.SortedStableFunc(slices.Values(f.Refusals), func(a, b evidence.Refusal) int { return a.At.Compare(b.At) }) {
		if r.Presented != presented {
			continue
		}
		name := "the account guard"
		if r.Resource == "rail" {
			name = "the rail guard"
		}
		if len(all) == 0 || all[len(all)-1] != name {
			all = append(all, name)
		}
	}
	return all
}

// calm tells the control.
func calm(f evidence.Facts) string {
	if f.A.Token == 0 {
		return ""
	}
	renewals := 0
	for _, l := range f.Leases {
		if l.Token == f.A.Token {
			renewals += l.Renewals
		}
	}
	text := fmt.Sprintf("A held the lock under token %d and was seen to renew it %s", f.A.Token, often(renewals))
	if len(f.C) == 0 {
		return text + "; B never asked."
	}
	text += fmt.Sprintf("; B asked %s and was turned away %s", often(len(f.C)), often(turnedAway(f.C)))
	if granted := len(f.C) - ungranted(f.C); granted > 0 {
		text += fmt.Sprintf(", and was granted it %s, once A had released it", often(granted))
	}
	return text + "."
}

// money tells how often the rail was called and what left.
func money(f evidence.Facts) string {
	if len(f.Requests) == 0 {
		return "the rail was never called."
	}
	text := fmt.Sprintf("the rail was called %s", often(len(f.Requests)))
	if amount := f.AmountMinor; amount > 0 {
		return fmt.Sprintf("%s: %d minor units left for a payout of %d.", text, amount*int64(moved(f)), amount)
	}
	return fmt.Sprintf("%s and moved money %s.", text, often(moved(f)))
}

// books tells whether they add up.
func books(f evidence.Facts) string {
	b := f.After
	if !read(b) {
		return "the books were not read afterwards."
	}
	if b.BalanceMinor == b.SumMinor {
		return fmt.Sprintf("the balance says %d and so does the sum of the ledger.", b.BalanceMinor)
	}
	return fmt.Sprintf("the balance says %d and the ledger sums to %d: %s.", b.BalanceMinor, b.SumMinor, difference(b))
}

// read reports whether the books were read at all: an attempt may have ended before.
func read(b evidence.Books) bool { return b != (evidence.Books{}) }

// difference tells what the balance and the sum of the entries differ by, and in which direction.
func difference(b evidence.Books) string {
	if d := b.BalanceMinor - b.SumMinor; d < 0 {
		return fmt.Sprintf("the balance shows %d less than the ledger leaves", -d)
	}
	return fmt.Sprintf("the balance shows %d more than the ledger leaves", b.BalanceMinor-b.SumMinor)
}

// moved counts the requests that moved money.
func moved(f evidence.Facts) int {
	n := 0
	for _, r := range f.Requests {
		if r.MoneyMoved {
			n++
		}
	}
	return n
}

// often is how often something happened, in words.
func often(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// sentence begins with a capital letter.
func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func millis(n int64) string { return (time.Duration(n) * time.Millisecond).String() }

func clock(t time.Time) string {
	if t.IsZero() {
		return "not known"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}
