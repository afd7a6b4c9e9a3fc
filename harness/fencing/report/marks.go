package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"railguard/harness/fencing/evidence"
)

// lane is a place where requests arrive.
type lane string

const (
	railGuard    lane = "rail-guard"
	rail         lane = "rail"
	accountGuard lane = "account-guard"
)

// kind is what became of a request. Each has a shape of its own.
type kind string

const (
	accepted kind = "accepted"
	harmful  kind = "harmful" // accepted, and it should not have been: a stale token, or money that had moved already
	idle     kind = "idle"    // accepted, and nothing was done
	refused  kind = "refused" // by a token
)

// mark is one request as one resource saw it.
type mark struct {
	at     time.Time
	lane   lane
	kind   kind
	who    string // A, B, or ? where the facts do not tell
	label  string
	detail string
	token  int64
}

// marks are all requests of an attempt, each once, by lane and time.
func marks(f evidence.Facts) []mark {
	who := owner(f)
	var all []mark
	all = append(all, atAccountGuard(f, who)...)
	all = append(all, atRailGuard(f, who)...)
	all = append(all, atRail(f, who)...)
	slices.SortStableFunc(all, func(a, b mark) int { return a.at.Compare(b.at) })
	return all
}

// owner tells whose token it is.
func owner(f evidence.Facts) func(token int64) string {
	return func(token int64) string {
		switch {
		case token == 0:
			return "?"
		case token == f.A.Token:
			return "A"
		case token == f.B.Token, slices.ContainsFunc(f.C, func(w evidence.Worker) bool { return w.Token == token }):
			return "B"
		}
		return "?"
	}
}

func atAccountGuard(f evidence.Facts, who func(int64) string) []mark {
	var all []mark
	for _, c := range f.Claims {
		m := mark{at: c.ClaimedAt, lane: accountGuard, kind: accepted, who: who(c.Token), token: c.Token, label: "claim",
			detail: "claim " + c.Outcome}
		if c.Outcome != "GRANTED" {
			m.kind, m.label = idle, "claim "+c.Outcome
		}
		if c.EndReason != "" {
			m.detail += ", ended " + c.EndReason
		}
		all = append(all, m)
	}
	for _, p := range postings(f.Ledger) {
		all = append(all, mark{at: p[0].CreatedAt, lane: accountGuard, kind: accepted, who: who(p[0].Fence), token: p[0].Fence, label: "post",
			detail: fmt.Sprintf("post of %d ledger entries", len(p))})
	}
	stale(all)
	for _, r := range f.Refusals {
		if r.Resource != "rail" {
			all = append(all, refusal(r, accountGuard, who))
		}
	}
	return all
}

// postings are the ledger entries by the request that wrote them.
func postings(entries []evidence.Entry) [][]evidence.Entry {
	var all [][]evidence.Entry
	for _, e := range entries {
		i := slices.IndexFunc(all, func(group []evidence.Entry) bool { return group[0].EntryGroup == e.EntryGroup })
		if i < 0 {
			all = append(all, []evidence.Entry{e})
			continue
		}
		all[i] = append(all[i], e)
	}
	return all
}

// atRailGuard has one mark for each submission: the record of a refused one and the event of its refusal are one request.
func atRailGuard(f evidence.Facts, who func(int64) string) []mark {
	events := slices.DeleteFunc(slices.Clone(f.Refusals), func(r evidence.Refusal) bool { return r.Resource != "rail" })
	var passed, stopped []mark
	for _, s := range f.Submissions {
		m := mark{at: s.SubmittedAt, lane: railGuard, kind: accepted, who: who(s.Token), token: s.Token, label: "submit",
			detail: "submission, outcome " + orNone(s.Outcome)}
		switch s.Outcome {
		case "FENCED":
			m.kind, m.label, m.detail = refused, fmt.Sprintf("%s presented %d", m.who, s.Token), "FENCED, without an event of the guard"
			if i := nearest(events, s); i >= 0 {
				m.label, m.detail = m.who+" "+compared(events[i]), "FENCED_OUT by the rail guard"
				events = slices.Delete(events, i, i+1)
			}
			if slices.ContainsFunc(f.Duplicates, func(d evidence.Duplicate) bool { return d.Presented == s.Token }) {
				m.detail += ", which also saw that the payout had been presented before"
			}
			stopped = append(stopped, m)
			continue
		case "ACKED":
		case "UNSENT":
			m.kind, m.label = idle, "not sent"
		case "":
			m.label = "submit, no outcome"
		default:
			m.label = "submit, " + s.Outcome
		}
		passed = append(passed, m)
	}
	stale(passed)
	for _, r := range events {
		stopped = append(stopped, refusal(r, railGuard, who))
	}
	return append(passed, stopped...)
}

// nearest finds the event that belongs to a refused submission.
func nearest(events []evidence.Refusal, s evidence.Submission) int {
	best := -1
	for i, r := range events {
		if r.Presented == s.Token && (best < 0 || r.At.Sub(s.SubmittedAt).Abs() < events[best].At.Sub(s.SubmittedAt).Abs()) {
			best = i
		}
	}
	return best
}

// atRail has the requests of the rail's own log. The rail knows no tokens; a request is that of the latest submission before it.
func atRail(f evidence.Facts, who func(int64) string) []mark {
	requests := slices.SortedStableFunc(slices.Values(f.Requests), func(a, b evidence.Request) int { return a.ReceivedAt.Compare(b.ReceivedAt) })
	taken := make([]bool, len(f.Submissions))
	var all []mark
	moved := 0
	for i, r := range requests { // numbered within the payout: the log's own numbers count every payout's
		m := mark{at: r.ReceivedAt, lane: rail, kind: accepted, who: "?", label: fmt.Sprintf("money moved (#%d)", i+1), detail: "request in the rail's own log"}
		last := -1
		for j, s := range f.Submissions {
			if !taken[j] && presented(s) && !s.SubmittedAt.After(r.ReceivedAt) && (last < 0 || s.SubmittedAt.After(f.Submissions[last].SubmittedAt)) {
				last = j
			}
		}
		if last >= 0 {
			taken[last] = true
			m.who, m.token = who(f.Submissions[last].Token), f.Submissions[last].Token
			m.detail += fmt.Sprintf(", of the submission under token %d", m.token)
		}
		switch {
		case !r.MoneyMoved:
			m.kind, m.label = idle, fmt.Sprintf("nothing moved (#%d)", i+1)
		case moved > 0:
			m.kind, m.label = harmful, fmt.Sprintf("money moved again (#%d)", i+1)
			moved++
		default:
			moved++
		}
		all = append(all, m)
	}
	return all
}

// presented reports whether a submission reached the rail, or may have.
func presented(s evidence.Submission) bool { return s.Outcome != "FENCED" && s.Outcome != "UNSENT" }

// stale finds what a resource accepted under a token below one that it had accepted before, and completes the labels.
func stale(all []mark) {
	slices.SortStableFunc(all, func(a, b mark) int { return a.at.Compare(b.at) })
	var highest int64
	for i := range all {
		m := &all[i]
		if m.token < highest {
			m.kind = harmful
			m.label = fmt.Sprintf("%s, stale token %d accepted", m.label, m.token)
			m.detail += fmt.Sprintf(", although token %d had been accepted before", highest)
			continue
		}
		highest = m.token
		m.label = fmt.Sprintf("%s, token %d", m.label, m.token)
	}
}

func refusal(r evidence.Refusal, where lane, who func(int64) string) mark {
	return mark{at: r.At, lane: where, kind: refused, who: who(r.Presented), token: r.Presented, label: who(r.Presented) + " " + compared(r),
		detail: "FENCED_OUT, resource " + r.Resource}
}

// compared is a refusal in numbers.
func compared(r evidence.Refusal) string {
	return fmt.Sprintf("presented %d %s highest %d", r.Presented, sign(r), r.Highest)
}

// sign is how the two tokens of a refusal compare: only < is right.
func sign(r evidence.Refusal) string {
	return map[int]string{-1: "<", 0: "=", 1: ">"}[cmp.Compare(r.Presented, r.Highest)]
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
