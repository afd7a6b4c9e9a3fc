package report_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/harness/fencing/evidence"
	"railguard/harness/fencing/report"
)

// samples are a run of every mode and the control.
func samples(t *testing.T) map[string]evidence.Run {
	t.Helper()
	all := map[string]evidence.Run{"control": control(t)}
	for _, m := range evidence.Modes {
		all[string(m)] = sample(t, m)
	}
	for name, run := range all {
		require.True(t, run.Summary.Passed, "the sample %s is not a good one: %v", name, run.Summary.Diagnoses)
	}
	return all
}

func TestThePageNeedsNothingButItself(t *testing.T) {
	for name, run := range samples(t) {
		page, text := written(t, run)
		require.Empty(t, page.find("script"), name)
		require.Empty(t, page.find("link"), name)
		require.False(t, strings.Contains(text, "://"), name)
		require.False(t, strings.Contains(text, "@import"), name)
		require.False(t, strings.Contains(text, "@font-face"), name)
		for _, reference := range regexp.MustCompile(`(?:\b(?:src|srcset|href|action|data)="|url\(\s*)([^")]*)`).FindAllStringSubmatch(text, -1) {
			require.True(t, strings.HasPrefix(reference[1], "#"), "%s refers to %q", name, reference[1])
		}
	}
}

// Every request and every refusal of the facts has exactly one mark, in its lane and with its shape.
func TestEveryRequestHasOneMark(t *testing.T) {
	runs := samples(t)
	add := func(name string, from evidence.Mode, change func(*evidence.Facts)) {
		run := sample(t, from)
		change(facts(&run))
		runs[name] = run
	}
	add("a refusal without a record", evidence.On, func(f *evidence.Facts) { f.Submissions = f.Submissions[:1] })
	add("a record without a refusal", evidence.On, func(f *evidence.Facts) { f.Refusals = nil })
	add("refused twice, recorded once", evidence.On, func(f *evidence.Facts) { f.Refusals = append(f.Refusals, only(f.Refusals, "rail")...) })
	add("all at one moment", evidence.Off, func(f *evidence.Facts) {
		for i := range f.Requests {
			f.Requests[i].ReceivedAt = f.WindowOpenedAt
		}
		for i := range f.Submissions {
			f.Submissions[i].SubmittedAt = f.WindowOpenedAt
		}
	})
	add("no times", evidence.On, func(f *evidence.Facts) {
		f.Requests[0].ReceivedAt, f.Submissions[0].SubmittedAt, f.Claims[0].ClaimedAt, f.Refusals[0].At = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	})
	add("a request of nobody", evidence.On, func(f *evidence.Facts) { f.Submissions = nil })
	for name, run := range runs {
		f := facts(&run)
		var fencedRecords, eventsAtRail, eventsAtAccount int
		for _, s := range f.Submissions {
			if s.Outcome == "FENCED" {
				fencedRecords++
			}
		}
		for _, r := range f.Refusals {
			if r.Resource == "rail" {
				eventsAtRail++
			} else {
				eventsAtAccount++
			}
		}
		groups := map[string]bool{}
		for _, e := range f.Ledger {
			groups[e.EntryGroup] = true
		}
		want := map[string][2]int{ // not refused, refused
			"rail-guard":    {len(f.Submissions) - fencedRecords, max(fencedRecords, eventsAtRail)},
			"rail":          {len(f.Requests), 0},
			"account-guard": {len(f.Claims) + len(groups), eventsAtAccount},
		}
		page, _ := written(t, run)
		got := map[string][2]int{"rail-guard": {}, "rail": {}, "account-guard": {}}
		for _, m := range drawn(t, page).find("g", "mark") {
			n := got[m.attr["data-lane"]]
			circles, crosses := len(m.find("circle", "body")), len(m.find("path", "cross"))
			require.Equal(t, 1, circles+crosses, "%s: a mark has one shape", name)
			require.Equal(t, m.has("refused"), crosses == 1, name)
			n[crosses]++
			got[m.attr["data-lane"]] = n
		}
		require.Equal(t, want, got, name)
	}
}

// labels are the words beside the marks of a timeline.
func labels(chart *node) []string {
	var all []string
	for _, l := range chart.find("text", "label") {
		all = append(all, l.words())
	}
	return all
}

func TestWhatTheMarksSay(t *testing.T) {
	for mode, want := range map[evidence.Mode][]string{
		evidence.Off:         {"submit, token 8", "submit, stale token 7 accepted", "money moved (#1)", "money moved again (#2)", "claim, token 7", "claim, token 8", "post, token 8", "post, stale token 7 accepted"},
		evidence.RailOnly:    {"submit, token 8", "A presented 7 < highest 8", "money moved (#1)", "claim, token 7", "claim, token 8", "post, token 8"},
		evidence.AccountOnly: {"submit, token 8", "submit, stale token 7 accepted", "money moved (#1)", "money moved again (#2)", "claim, token 7", "claim, token 8", "post, token 8", "A presented 7 < highest 8"},
		evidence.On:          {"submit, token 8", "A presented 7 < highest 8", "money moved (#1)", "claim, token 7", "claim, token 8", "post, token 8", "A presented 7 < highest 8"},
	} {
		page, _ := written(t, sample(t, mode))
		chart := drawn(t, page)
		got := labels(chart)
		require.Equal(t, "holds the lock, token 8", got[0], mode)
		require.Equal(t, want, got[1:], mode)
		harmful := 0
		for _, l := range want {
			if strings.Contains(l, "stale") || strings.Contains(l, "again") {
				harmful++
			}
		}
		require.Len(t, chart.find("g", "mark", "harmful"), harmful, mode)
		for _, m := range chart.find("g", "mark", "harmful") {
			require.Len(t, m.find("circle", "ring"), 1, "harm is told by a shape, not by a colour alone")
		}
	}
}

func TestTheInequalityIsThereOnlyWhenTheBooksDiffer(t *testing.T) {
	for name, run := range samples(t) {
		page, _ := written(t, run)
		differ := facts(&run).After.BalanceMinor != facts(&run).After.SumMinor
		require.Equal(t, name == "off", differ)
		want := 0
		if differ {
			want = 1
		}
		require.Len(t, page.find("", "inequality"), want, name)
		require.Len(t, page.find("p", "equation", "unequal"), want, name)
		require.Len(t, page.find("p", "equation", "equal"), 1-want, name)
		require.Equal(t, differ, strings.Contains(page.find("div", "tiles")[0].words(), "≠"), name)
	}
	run := sample(t, evidence.On)
	facts(&run).After = evidence.Books{}
	page, text := written(t, run)
	require.Empty(t, page.find("p", "equation"), "books that were not read do not add up")
	require.False(t, strings.Contains(strings.ToLower(text), "the books add up"))
}

func number(t *testing.T, n *node, attr string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(n.attr[attr], 64)
	require.NoError(t, err, "%s of %v", attr, n)
	return v
}

// scale reads the axis from its ticks: where the first event is, and the width of a second.
func scale(t *testing.T, chart *node) (zero, second float64) {
	t.Helper()
	ticks := chart.find("text", "tick")
	require.Greater(t, len(ticks), 2)
	last := ticks[len(ticks)-1]
	seconds, err := strconv.ParseFloat(strings.TrimSuffix(last.words(), " s"), 64)
	require.NoError(t, err)
	require.Equal(t, "0 s", ticks[0].words())
	zero = number(t, ticks[0], "x")
	return zero, (number(t, last, "x") - zero) / seconds
}

// What is drawn lies where its times say.
func TestTheBandsLieOnTheAxis(t *testing.T) {
	for _, mode := range evidence.Modes {
		run := sample(t, mode)
		f := facts(&run)
		page, _ := written(t, run)
		chart := drawn(t, page)
		zero, second := scale(t, chart)
		at := func(when time.Time) float64 { return zero + second*when.Sub(f.A.StartedAt).Seconds() }
		covers := func(class string, from, to time.Time) {
			bands := chart.find("rect", class)
			require.Len(t, bands, 1, "%s: %s", mode, class)
			x := number(t, bands[0], "x")
			require.InDelta(t, at(from), x, 0.5, "%s: %s begins", mode, class)
			require.InDelta(t, at(to), x+number(t, bands[0], "width"), 0.5, "%s: %s ends", mode, class)
		}
		covers("pause", f.Freeze.StoppedAt, f.Freeze.ThawedAt)
		covers("lease-a", f.Leases[0].AcquiredAt, f.Leases[0].ExpiresAt)
		covers("lapsed", f.Leases[0].ExpiresAt, f.A.EndedAt)
		covers("lease-b", f.Leases[1].AcquiredAt, f.Leases[1].EndedAt) // released, not lapsed
		for _, m := range chart.find("g", "mark") {
			if m.attr["data-lane"] != "rail" {
				continue
			}
			x := regexp.MustCompile(`[\d.]+`).FindString(m.attr["transform"])
			near := false
			for _, r := range f.Requests {
				near = near || math.Abs(at(r.ReceivedAt)-must(strconv.ParseFloat(x, 64))) < 0.5
			}
			require.True(t, near, "%s: a request at x %s", mode, x)
		}
	}
}

func must(v float64, err error) float64 {
	if err != nil {
		panic(err)
	}
	return v
}

func TestTheControlHasNoPause(t *testing.T) {
	run := control(t)
	page, _ := written(t, run)
	chart := drawn(t, page)
	require.Empty(t, chart.find("rect", "pause"))
	require.Empty(t, chart.find("rect", "lapsed"))
	require.Len(t, chart.find("path", "run-end", "run-b"), 3, "every run of B is drawn")
	require.Contains(t, chart.words(), "3 runs, each turned away by the lock: contended")
	require.Contains(t, page.find("h1")[0].words(), "nothing stops")
}

// box is the room of a text, by the widths of a common font.
type box struct {
	left, right, y float64
	text           string
}

func boxes(t *testing.T, chart *node, size float64, class string) []box {
	t.Helper()
	var all []box
	for _, n := range chart.find("text", class) {
		w := float64(len([]rune(n.words()))) * size * 0.56
		b := box{left: number(t, n, "x"), y: number(t, n, "y"), text: n.words()}
		if n.attr["text-anchor"] == "end" {
			b.left -= w
		}
		b.right = b.left + w
		all = append(all, b)
	}
	return all
}

func TestWordsDoNotCoverEachOther(t *testing.T) {
	runs := samples(t)
	burst := sample(t, evidence.On)
	f := facts(&burst)
	moment := f.Leases[1].AcquiredAt
	f.Requests[0].ReceivedAt, f.Submissions[0].SubmittedAt, f.Submissions[1].SubmittedAt = moment, moment, moment
	f.Freeze.ThawedAt, f.Leases[0].ExpiresAt, f.Leases[0].EndedAt = moment, moment, moment
	for i := range f.Refusals {
		f.Refusals[i].At = moment.Add(time.Millisecond)
	}
	for i := range 5 {
		f.Claims = append(f.Claims, evidence.Claim{Token: int64(8 + i), Outcome: "GRANTED", ClaimedAt: moment.Add(time.Duration(i) * time.Millisecond)})
	}
	runs["everything at once"] = burst
	for name, run := range runs {
		page, _ := written(t, run)
		for _, kind := range []string{"label", "flag-text"} {
			all := boxes(t, drawn(t, page), 12.5, kind)
			for i, a := range all {
				require.GreaterOrEqual(t, a.left, 0.0, "%s: %q", name, a.text)
				require.LessOrEqual(t, a.right, 1200.0, "%s: %q", name, a.text)
				for _, b := range all[:i] {
					require.False(t, math.Abs(a.y-b.y) < 13 && a.left < b.right && b.left < a.right, "%s: %q covers %q", name, a.text, b.text)
				}
			}
		}
	}
}

func TestTextIsEscaped(t *testing.T) {
	const evil = `<script>alert(1)</script>"'&<b onclick="x">`
	run := repeated(sample(t, evidence.On), 2)
	run.Mechanism, run.Stack, run.Mode, run.Summary.Line = evil, evil, evidence.Mode(evil), evil
	run.GuardsBefore.RailProxy.Version, run.GuardsBefore.PaymentResource.Service = evil, evil
	run.Counters = append(run.Counters, evidence.Counter{Name: evil})
	run.Invariants = []evidence.Finding{{Invariant: evil, Name: evil, Sentence: evil}}
	run.Summary.Diagnoses = []evidence.Diagnosis{{Code: evil, Sentence: evil}}
	a := run.Repetitions[0].Attempts[0]
	f := a.Facts
	f.PayoutID, f.AccountID, f.A.Outcome, f.B.Outcome, f.After.PayoutState = evil, evil, evil, evil, evil
	f.A.Steps = []evidence.Step{{Name: evil, ScheduledAt: f.A.StartedAt, StartedAt: &f.A.StartedAt, EndedAt: &f.A.EndedAt, Outcome: evil, Reason: evil}}
	f.Submissions = []evidence.Submission{{Token: 7, Outcome: evil, SubmittedAt: f.A.StartedAt}}
	f.Claims = []evidence.Claim{{Token: 7, Outcome: evil, EndReason: evil, ClaimedAt: f.A.StartedAt}}
	f.Refusals = []evidence.Refusal{{At: f.A.EndedAt, Resource: evil, Presented: 7, Highest: 8}}
	f.Freeze = &evidence.Freeze{State: evil, StoppedAt: f.A.StartedAt}
	a.Facts, a.CaptureDir, a.Verdict = f, evil, evidence.Verdict(evil)
	a.Cells = []evidence.Cell{{Name: evil, Must: evil, Is: evil, Evidence: evil}}
	a.Diagnoses = []evidence.Diagnosis{{Code: evil, Sentence: evil}}
	run.Repetitions[0].Attempts = []evidence.Attempt{a}
	page, text := written(t, run)
	require.Empty(t, page.find("script"))
	require.False(t, strings.Contains(text, "<script"), "<script")
	require.Empty(t, page.find("b", "onclick"))
	require.False(t, strings.Contains(text, "<b onclick"), "<b onclick")
	require.Greater(t, strings.Count(page.words(), evil), 12, "what was read is shown as it was read")
}

func TestOneSectionForEachRepetition(t *testing.T) {
	run := repeated(sample(t, evidence.Off), 20)
	inconclusive := run.Repetitions[4].Attempts[0]
	inconclusive.Verdict, inconclusive.Diagnoses = evidence.Inconclusive, []evidence.Diagnosis{{Code: evidence.PausedTooLate, Sentence: "too late for the question"}}
	second := run.Repetitions[4].Attempts[0]
	second.Number = 2
	run.Repetitions[4].Attempts = []evidence.Attempt{inconclusive, second}
	run.Repetitions[7].Attempts = []evidence.Attempt{inconclusive}
	run.Summary = evidence.Summarize(run)
	page, text := written(t, run)
	require.Less(t, len(text), 1_000_000)

	all := page.find("details", "repetition")
	require.Len(t, all, 20)
	ids := map[string]bool{}
	for i, r := range all {
		_, open := r.attr["open"]
		require.Equal(t, i == 0, open, "only the first is open")
		sections := r.find("section")
		require.Len(t, sections, 1)
		ids["#"+sections[0].attr["id"]] = true
		want := 1
		if i == 4 {
			want = 2
		}
		require.Len(t, r.find("figure", "timeline"), want, "repetition %d", i+1)
	}
	squares := page.find("ol", "grid")[0].find("a")
	require.Len(t, squares, 20)
	for i, s := range squares {
		require.True(t, ids[s.attr["href"]], "%s leads nowhere", s.attr["href"])
		require.Equal(t, i != 7, s.has("good"))
	}
	require.Contains(t, squares[4].words(), "1?")
	alone, _ := written(t, sample(t, evidence.Off))
	require.Empty(t, alone.find("ol", "grid"), "one square says no more than the verdict beside it")
	earlier := all[4].find("details", "earlier")
	require.Len(t, earlier, 1)
	require.Contains(t, earlier[0].words(), "INCONCLUSIVE")
	require.Contains(t, earlier[0].words(), "too late for the question")
	require.Contains(t, all[7].find("summary")[0].words(), "INCONCLUSIVE")
	require.Contains(t, page.find("div", "result")[0].words(), "NOT AS IT MUST BE")
	require.Contains(t, page.find("div", "result")[0].words(), run.Summary.Line)
}

func TestManyRepetitionsStaySmall(t *testing.T) {
	page, text := written(t, repeated(sample(t, evidence.On), 400))
	require.Len(t, page.find("details", "repetition"), 400)
	require.Len(t, page.find("ol", "grid")[0].find("a"), 400)
	require.Less(t, len(text), 5_000_000)
	require.Len(t, page.find("figure", "timeline"), 60)
	require.True(t, strings.Contains(text, "verdict.json has the facts"))
}

func TestTheStoryComesFromTheFacts(t *testing.T) {
	for name, want := range map[string]string{
		"off": "A woke with token 7 after the account had moved to token 8; no guard refused it. " +
			"The rail was called twice: 200 minor units left for a payout of 100. The balance says 9900 and the ledger sums to 9800: the balance shows 100 more than the ledger leaves.",
		"rail-only": "A woke with token 7 after the account had moved to token 8; the rail guard refused it. " +
			"The rail was called once: 100 minor units left for a payout of 100. The balance says 9900 and so does the sum of the ledger.",
		"account-only": "A woke with token 7 after the account had moved to token 8; the account guard refused it. " +
			"The rail was called twice: 200 minor units left for a payout of 100. The balance says 9900 and so does the sum of the ledger.",
		"on": "A woke with token 7 after the account had moved to token 8; the rail guard refused it, then the account guard did. " +
			"The rail was called once: 100 minor units left for a payout of 100. The balance says 9900 and so does the sum of the ledger.",
		"control": "A held the lock under token 7 and was seen to renew it 12 times; B asked 3 times and was turned away 3 times. " +
			"The rail was called once: 100 minor units left for a payout of 100. The balance says 9900 and so does the sum of the ledger.",
	} {
		run := samples(t)[name]
		page, _ := written(t, run)
		require.Equal(t, want, strings.TrimSpace(page.find("p", "story")[0].words()), name)
		// The promise of another mode changes nothing about what was seen.
		run.Mode = evidence.On
		page, _ = written(t, run)
		require.Equal(t, want, strings.TrimSpace(page.find("p", "story")[0].words()), name)
	}
	run := sample(t, evidence.Off)
	facts(&run).Claims = facts(&run).Claims[:1]
	page, _ := written(t, run)
	require.Contains(t, page.find("p", "story")[0].words(), "A woke with token 7 after B had been granted token 8")
	facts(&run).Freeze = nil
	facts(&run).Requests = nil
	page, _ = written(t, run)
	require.Contains(t, page.find("p", "story")[0].words(), "A was never stopped. The rail was never called.")
}

func TestTheHead(t *testing.T) {
	run := sample(t, evidence.On)
	page, _ := written(t, run)
	require.Equal(t, "Both guards on: money must move once", page.find("h1")[0].words())
	head := page.find("header")[0].words()
	for _, want := range []string{"AS IT MUST BE", run.Summary.Line, run.Mechanism, "lease 5s, A's work 20s, pause 1s", "7; 1 at a time", "fencingEnabled=true", "payment-resource", "rail-proxy"} {
		require.Contains(t, head, want)
	}
	page, _ = written(t, sample(t, evidence.Off))
	require.Equal(t, "Both guards off: money must move twice", page.find("h1")[0].words())
	run.GuardsAfter.RailProxy.FencingEnabled = false
	page, _ = written(t, run)
	require.Contains(t, page.find("header")[0].words(), "afterwards rail-proxy (devel): fencingEnabled=false")
}

func TestTheTables(t *testing.T) {
	run := sample(t, evidence.On)
	run.Counters[0].After = 5
	run.Repetitions[0].Attempts[0].Cells[2].OK = false
	run.Invariants = []evidence.Finding{{Invariant: "INV-03", Name: "balance-is-entries", Sentence: "the books differ", Offending: 3}}
	page, _ := written(t, run)
	rows := page.find("div", "verdicts")[0].find("tr")
	require.Len(t, rows, 1+len(run.Repetitions[0].Attempts[0].Cells))
	for i, c := range run.Repetitions[0].Attempts[0].Cells {
		for _, want := range []string{c.Name, c.Must, c.Is, c.Evidence} {
			require.Contains(t, rows[i+1].words(), want)
		}
		require.Equal(t, i == 2, rows[i+1].has("not"))
	}
	whole := page.find("section", "run")[0]
	require.Len(t, whole.find("tr", "not"), 1, "the counter that the events do not account for")
	require.Contains(t, whole.words(), "the books differ")
	run.Invariants = []evidence.Finding{}
	page, _ = written(t, run)
	require.Contains(t, page.find("section", "run")[0].words(), "the books are clean")
	run.Invariants = nil
	page, _ = written(t, run)
	require.Contains(t, page.find("section", "run")[0].words(), "was not asked")
}

// Whatever is missing or odd, there is a page, and nothing on it is drawn outside its drawing.
func TestOddRuns(t *testing.T) {
	odd := func(change func(*evidence.Run, *evidence.Facts)) evidence.Run {
		run := sample(t, evidence.On)
		change(&run, facts(&run))
		return run
	}
	century := func(f *evidence.Facts) { f.A.EndedAt = f.A.EndedAt.AddDate(600, 0, 0) }
	for name, run := range map[string]evidence.Run{
		"nothing":       {},
		"no repetition": {Mode: evidence.Off, Repetitions: []evidence.Repetition{}},
		"no attempt":    {Mode: evidence.Off, Repetitions: []evidence.Repetition{{Number: 1}, {}}},
		"empty attempt": {Mode: evidence.Off, Pause: evidence.Stop, Repetitions: []evidence.Repetition{{Attempts: []evidence.Attempt{{}, {}}}}},
		"empty control": {Mode: evidence.Off, Pause: evidence.NoPause, Repetitions: []evidence.Repetition{{Attempts: []evidence.Attempt{{}}}}},
		"no freeze":     odd(func(_ *evidence.Run, f *evidence.Facts) { f.Freeze = nil }),
		"never thawed":  odd(func(_ *evidence.Run, f *evidence.Facts) { f.Freeze.ThawedAt = time.Time{} }),
		"thawed before": odd(func(_ *evidence.Run, f *evidence.Facts) { f.Freeze.ThawedAt = f.Freeze.StoppedAt.Add(-time.Second) }),
		"no leases":     odd(func(_ *evidence.Run, f *evidence.Facts) { f.Leases = nil }),
		"A did not end": odd(func(_ *evidence.Run, f *evidence.Facts) { f.A.EndedAt, f.A.Steps[3].EndedAt = time.Time{}, nil }),
		"B did not run": odd(func(_ *evidence.Run, f *evidence.Facts) { f.B = evidence.Worker{} }),
		"no tokens":     odd(func(_ *evidence.Run, f *evidence.Facts) { f.A.Token, f.B.Token = 0, 0 }),
		"equal tokens":  odd(func(_ *evidence.Run, f *evidence.Facts) { f.B.Token = f.A.Token }),
		"six centuries": odd(func(_ *evidence.Run, f *evidence.Facts) { century(f) }),
		"huge tokens":   odd(func(_ *evidence.Run, f *evidence.Facts) { huge(f) }),
		"no ledger":     odd(func(_ *evidence.Run, f *evidence.Facts) { f.Ledger = nil }),
		"money came in": odd(func(_ *evidence.Run, f *evidence.Facts) {
			f.After.BalanceMinor, f.After.SumMinor = math.MaxInt64, math.MinInt64+1
		}),
		"many requests":  odd(func(_ *evidence.Run, f *evidence.Facts) { many(f) }),
		"unknown words":  odd(func(r *evidence.Run, _ *evidence.Facts) { r.Mode, r.Pause = "half", "nap" }),
		"steps together": odd(func(_ *evidence.Run, f *evidence.Facts) { together(f) }),
	} {
		page, text := written(t, run)
		require.False(t, strings.Contains(text, "NaN"), name)
		require.False(t, strings.Contains(text, "Inf"), name)
		require.False(t, strings.Contains(text, "ZgotmplZ"), name)
		require.NotEmpty(t, page.find("h1"), name)
		for _, svg := range page.find("svg", "chart") {
			view := strings.Fields(svg.attr["viewBox"])
			require.Len(t, view, 4, name)
			if view[0] != "0" || view[2] == "40" { // the legend
				continue
			}
			w := must(strconv.ParseFloat(view[2], 64))
			for _, r := range svg.find("rect") {
				if r.attr["x"] == "" {
					continue
				}
				x, wide := number(t, r, "x"), number(t, r, "width")
				require.GreaterOrEqual(t, wide, 0.0, name)
				require.GreaterOrEqual(t, x, -0.1, name)
				require.LessOrEqual(t, x+wide, w+2.1, "%s: %v", name, r.attr)
			}
		}
	}
	page, _ := written(t, odd(func(_ *evidence.Run, f *evidence.Facts) { huge(f) }))
	require.Contains(t, drawn(t, page).words(), "A presented 9007199254740991 < highest 9223372036854775807")
}

func huge(f *evidence.Facts) {
	f.A.Token, f.B.Token = 1<<53-1, math.MaxInt64
	for i := range f.Refusals {
		f.Refusals[i].Presented, f.Refusals[i].Highest = f.A.Token, f.B.Token
	}
	f.Submissions[1].Token = f.A.Token
}

func many(f *evidence.Facts) {
	for i := range 200 {
		f.Requests = append(f.Requests, evidence.Request{Sequence: int64(i), ReceivedAt: f.WindowOpenedAt, MoneyMoved: true})
	}
}

func together(f *evidence.Facts) {
	for i := range 60 {
		at := f.A.StartedAt.Add(time.Duration(i) * 300 * time.Millisecond)
		f.A.Steps = append(f.A.Steps, evidence.Step{Name: "LoadPayout", ScheduledAt: at, EndedAt: &at})
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestAFailedWriteIsTold(t *testing.T) {
	require.ErrorContains(t, report.Write(full{}, sample(t, evidence.On)), "no space left")
}

func TestTheDrawingsAreNamed(t *testing.T) {
	page, _ := written(t, repeated(sample(t, evidence.Off), 3))
	ids := map[string]*node{}
	for _, n := range page.find("") {
		if id := n.attr["id"]; id != "" {
			require.Nil(t, ids[id], "id %s is used twice", id)
			ids[id] = n
		}
	}
	pictures := 0
	for _, svg := range page.find("svg") {
		if svg.attr["role"] != "img" {
			continue
		}
		pictures++
		for _, id := range strings.Fields(svg.attr["aria-labelledby"]) {
			require.NotNil(t, ids[id], id)
			require.NotEmpty(t, strings.TrimSpace(ids[id].words()), id)
		}
	}
	require.Equal(t, 9, pictures)
	for _, th := range page.find("th") {
		require.Contains(t, []string{"col", "row"}, th.attr["scope"])
		require.NotEmpty(t, strings.TrimSpace(th.words()))
	}
	// A band that refers to a pattern finds it in its own drawing: another may be hidden.
	for _, svg := range page.find("svg", "chart") {
		for _, band := range svg.find("rect", "pause") {
			id := strings.TrimSuffix(strings.TrimPrefix(band.attr["fill"], "url(#"), ")")
			require.NotNil(t, ids[id], id)
		}
	}
}

// Text is legible in both colour schemes: at least 4.5 to 1.
func TestContrast(t *testing.T) {
	data, err := os.ReadFile("style.css")
	require.NoError(t, err)
	schemes := strings.SplitN(string(data), "prefers-color-scheme: dark", 2)
	require.Len(t, schemes, 2)
	light := schemes[0]
	dark, _, found := strings.Cut(schemes[1], "* {")
	require.True(t, found)
	variable := regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6});`)
	for name, scheme := range map[string]string{"light": light, "dark": dark} {
		colours := map[string]float64{}
		for _, m := range variable.FindAllStringSubmatch(scheme, -1) {
			colours[m[1]] = luminance(t, m[2])
		}
		for _, pair := range [][2]string{
			{"ink", "ground"}, {"ink", "panel"}, {"soft", "ground"}, {"soft", "panel"}, {"ink", "a-soft"}, {"ink", "b-soft"}, {"ink", "hatch-ground"},
			{"good", "ground"}, {"good", "good-soft"}, {"bad", "ground"}, {"bad", "panel"}, {"bad", "bad-soft"}, {"open", "ground"}, {"open", "open-soft"},
			{"on-fill", "a"}, {"on-fill", "b"}, {"on-fill", "soft"}, {"ground", "good"}, {"ground", "bad"}, {"ground", "ink"}, {"ink", "bad-soft"}, {"ink", "good-soft"},
		} {
			a, b := colours[pair[0]], colours[pair[1]]
			require.Contains(t, colours, pair[0])
			require.Contains(t, colours, pair[1])
			require.GreaterOrEqual(t, (max(a, b)+0.05)/(min(a, b)+0.05), 4.5, "%s: %s on %s", name, pair[0], pair[1])
		}
	}
}

// luminance is a colour's relative luminance, as the accessibility guidelines compute it.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	var rgb [3]int
	_, err := fmt.Sscanf(hex, "%02x%02x%02x", &rgb[0], &rgb[1], &rgb[2])
	require.NoError(t, err)
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		c := float64(rgb[i]) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}
