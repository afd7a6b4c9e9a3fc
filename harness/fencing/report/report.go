// Package report draws a run of the fencing experiment as one HTML page that needs nothing but itself: no script, no
// network, no font. What it says is derived from the facts of the run, not from what the mode promises.
package report

import (
	_ "embed" // the page and its style
	"fmt"
	"html/template"
	"io"
	"slices"

	"railguard/harness/fencing/evidence"
)

//go:embed page.gohtml
var pageText string

//go:embed style.css
var style string

var page = template.Must(template.New("page").Parse(pageText))

// maxDrawn bounds the timelines on a page; verdict.json has the facts of all attempts.
const maxDrawn = 60

// Write writes the page of a run.
func Write(w io.Writer, run evidence.Run) error {
	if err := page.Execute(w, newView(run)); err != nil {
		return fmt.Errorf("report of mode %s: %w", run.Mode, err)
	}
	return nil
}

// view is what the page shows.
type view struct {
	Style       template.CSS
	Title       string
	Brief, Long string
	Run         evidence.Run
	Control     bool
	Verdict     badge
	Story       string // of the first repetition
	Others      string
	Tiles       []tile
	Particulars []fact
	Squares     []square
	Repetitions []repetition
}

// badge is a verdict as a word, a sign of its own shape, and a class.
type badge struct{ Word, Sign, Class string }

var badges = map[evidence.Verdict]badge{
	evidence.Matched:      {"MATCHED", "✓", "good"},
	evidence.Diverged:     {"DIVERGED", "✕", "bad"},
	evidence.Inconclusive: {"INCONCLUSIVE", "?", "open"},
}

func badgeOf(v evidence.Verdict) badge {
	if b, ok := badges[v]; ok {
		return b
	}
	return badge{orNone(string(v)), "?", "open"}
}

// fact is a name and what it is.
type fact struct{ Name, Value string }

// tile is one of the facts that are seen first.
type tile struct {
	Name, Big, Small string
	Badge            badge // of what may not be
}

// square stands for one repetition in the grid of all.
type square struct {
	Anchor int
	Number int
	Badge  badge
	Tries  int // inconclusive attempts before the one that counts
	Text   string
}

type repetition struct {
	Anchor   int // its place on the page
	Number   int
	First    bool
	Badge    badge
	Brief    string
	Last     *attempt
	Earlier  []attempt
	Attempts int
}

// attempt is one attempt on the page.
type attempt struct {
	ID      string
	Number  int
	Badge   badge
	Facts   evidence.Facts
	Story   string
	Cells   []evidence.Cell
	Why     []evidence.Diagnosis
	Capture string
	Offset  string
	Drawn   bool
	Chart   canvas
	Steps   canvas
	Flow    canvas
	Read    bool // the books, afterwards
	Equal   bool
	Off     string // what the balance and the sum differ by, in words
	Stale   bool   // the fence of the account went back
	Moved   int
	Legend  bool
	Told    bool // the story is at the head of the page
}

func newView(run evidence.Run) view {
	v := view{Style: template.CSS(style), Title: title(run.Mode), Run: run, Control: run.Pause == evidence.NoPause}
	v.Brief, v.Long = promise(run.Mode, run.Pause)
	v.Verdict = badge{"NOT AS IT MUST BE", "✕", "bad"}
	if run.Summary.Passed {
		v.Verdict = badge{"AS IT MUST BE", "✓", "good"}
	}
	v.Particulars = particulars(run)
	v.Others = others(run)
	drawn := 0
	for i, r := range run.Repetitions {
		shown := repetition{Anchor: i + 1, Number: r.Number, First: i == 0, Attempts: len(r.Attempts), Badge: badge{"NO ATTEMPT", "?", "open"}}
		s := square{Anchor: i + 1, Number: r.Number}
		for j, a := range r.Attempts {
			last := j == len(r.Attempts)-1
			// Those that did not match are drawn in any case: they are the ones that are looked into.
			draw := drawn < maxDrawn || a.Verdict != evidence.Matched
			if draw {
				drawn++
			}
			one := newAttempt(run, fmt.Sprintf("r%d-%d", i+1, j+1), a, draw)
			if !last {
				shown.Earlier = append(shown.Earlier, one)
				if a.Verdict == evidence.Inconclusive {
					s.Tries++
				}
				continue
			}
			one.Legend, one.Told = i == 0, i == 0
			shown.Last, shown.Badge, shown.Brief = &one, one.Badge, briefly(a.Facts)
			if i == 0 {
				v.Story, v.Tiles = one.Story, tiles(a.Facts)
			}
		}
		s.Badge = shown.Badge
		s.Text = fmt.Sprintf("repetition %d: %s", r.Number, s.Badge.Word)
		if s.Tries > 0 {
			s.Text += fmt.Sprintf(", after %d inconclusive", s.Tries)
		}
		v.Squares = append(v.Squares, s)
		v.Repetitions = append(v.Repetitions, shown)
	}
	return v
}

// others says of which repetition the story is, and what the rest showed.
func others(run evidence.Run) string {
	n, identical := len(run.Repetitions), run.Summary.Identical
	switch {
	case n == 0:
		return "No repetition was made."
	case n == 1:
		return ""
	case identical == n:
		return fmt.Sprintf("This is repetition %d; all %d showed the same verdict.", run.Repetitions[0].Number, n)
	}
	return fmt.Sprintf("This is repetition %d; %d of %d showed what the mode must show.", run.Repetitions[0].Number, identical, n)
}

func newAttempt(run evidence.Run, id string, a evidence.Attempt, draw bool) attempt {
	f := a.Facts
	one := attempt{ID: id, Number: a.Number, Badge: badgeOf(a.Verdict), Facts: f, Story: Story(run, f), Cells: a.Cells, Why: a.Diagnoses, Capture: a.CaptureDir,
		Offset: millis(a.OffsetMillis), Read: read(f.After), Equal: f.After.BalanceMinor == f.After.SumMinor, Off: difference(f.After), Stale: f.After.Fence < f.B.Token, Moved: moved(f), Drawn: draw}
	if draw {
		one.Chart, one.Steps = timeline(id, run, f)
		one.Flow = flow(id, f)
	}
	return one
}

// briefly is an attempt in one line, for a repetition that is closed.
func briefly(f evidence.Facts) string {
	if !read(f.After) {
		return "the books were not read"
	}
	sign := "="
	if f.After.BalanceMinor != f.After.SumMinor {
		sign = "≠"
	}
	return fmt.Sprintf("%s at the rail · balance %d %s sum %d · A %s, B %s", many(len(f.Requests), "request"), f.After.BalanceMinor, sign, f.After.SumMinor,
		orNone(f.A.Outcome), orNone(f.B.Outcome))
}

// The signs on a tile. They say what happened to the money, which is not whether the mode showed what it must.
var (
	fine  = badge{"as it should be", "✓", "fine"}
	alarm = badge{"harm", "!", "alarm"}
)

// tiles are what a reader sees first.
func tiles(f evidence.Facts) []tile {
	n := moved(f)
	rail := tile{Name: "Money moved at the rail", Big: fmt.Sprintf("%d×", n), Small: many(len(f.Requests), "request")}
	if amount := f.AmountMinor; amount > 0 {
		rail.Small = fmt.Sprintf("%d left for a payout of %d", amount*int64(n), amount)
	}
	books := tile{Name: "Balance and ledger sum", Big: fmt.Sprintf("%d = %d", f.After.BalanceMinor, f.After.SumMinor), Small: "the books add up", Badge: fine}
	switch {
	case !read(f.After):
		books = tile{Name: books.Name, Big: "–", Small: "not read"}
	case f.After.BalanceMinor != f.After.SumMinor:
		books = tile{Name: books.Name, Big: fmt.Sprintf("%d ≠ %d", f.After.BalanceMinor, f.After.SumMinor), Small: difference(f.After), Badge: alarm}
	}
	switch {
	case n == 1:
		rail.Badge = fine
	case n > 1:
		rail.Badge = alarm
	}
	guards := tile{Name: "Refused by a guard", Big: "nothing", Small: "no token was refused"}
	if len(f.Refusals) > 0 {
		var names []string
		inOrder := slices.SortedStableFunc(slices.Values(f.Refusals), func(a, b evidence.Refusal) int { return a.At.Compare(b.At) })
		for _, r := range inOrder {
			names = append(names, r.Resource)
		}
		guards.Big, guards.Small = often(len(names)), fmt.Sprintf("%s: token %d %s %d", join(names), inOrder[0].Presented, sign(inOrder[0]), inOrder[0].Highest)
	}
	ended := tile{Name: "A ended / B ended", Big: orNone(f.A.Outcome) + " / " + orNone(f.B.Outcome),
		Small: fmt.Sprintf("token %s / token %s", token(f.A.Token), token(f.B.Token))}
	if len(f.C) > 0 {
		ended.Small = fmt.Sprintf("token %s / %d runs without a grant", token(f.A.Token), ungranted(f.C))
	}
	return []tile{rail, books, guards, ended}
}

func ungranted(runs []evidence.Worker) int {
	n := 0
	for _, w := range runs {
		if w.Token == 0 {
			n++
		}
	}
	return n
}

func join(words []string) string {
	switch len(words) {
	case 0:
		return ""
	case 1:
		return words[0]
	}
	text := words[0]
	for _, w := range words[1 : len(words)-1] {
		text += ", " + w
	}
	return text + " and " + words[len(words)-1]
}

// particulars are how the run was made.
func particulars(run evidence.Run) []fact {
	t := run.Timing
	offset := ""
	if run.Pause != evidence.NoPause {
		offset = fmt.Sprintf("pause %s after the submit window opens, varied by the seed; ", millis(t.PauseOffsetMillis))
	}
	return []fact{
		{"How A is stopped", orNone(run.Mechanism)},
		{"Timing", fmt.Sprintf("lease %s, A's work %s, %srail timeout %s, submit budget %s",
			millis(t.LeaseMillis), millis(t.WorkMillis), offset, millis(t.RailTimeoutMillis), millis(t.SubmitBudgetMillis))},
		{"Account guard, /info", info(run.GuardsBefore.PaymentResource, run.GuardsAfter.PaymentResource)},
		{"Rail guard, /info", info(run.GuardsBefore.RailProxy, run.GuardsAfter.RailProxy)},
		{"Seed", fmt.Sprintf("%d; %d at a time; stack %s", run.Seed, run.Parallel, orNone(run.Stack))},
		{"Run", fmt.Sprintf("%s to %s", clock(run.StartedAt), clock(run.EndedAt))},
	}
}

// info is what a guard said of itself before and after.
func info(before, after evidence.GuardInfo) string {
	text := fmt.Sprintf("%s %s: fencingEnabled=%t", orNone(before.Service), before.Version, before.FencingEnabled)
	if before.RailTimeoutMillis > 0 {
		text += ", rail timeout " + millis(before.RailTimeoutMillis)
	}
	if before == after {
		return text + ", the same afterwards"
	}
	return fmt.Sprintf("%s; afterwards %s %s: fencingEnabled=%t", text, orNone(after.Service), after.Version, after.FencingEnabled)
}

// manySquares is how many repetitions are too many for the head of the page.
const manySquares = 104

// Few reports whether the grid of the repetitions is beside the verdict. Of one alone there is none: it would say the same.
func (v view) Few() bool { return len(v.Squares) > 1 && !v.Many() }

// Many reports whether the grid of the repetitions is at the end of the page.
func (v view) Many() bool { return len(v.Squares) > manySquares }

// Clean reports whether the invariant checker was asked and found nothing.
func (v view) Clean() bool { return v.Run.Invariants != nil && len(v.Run.Invariants) == 0 }

// Picture is a drawing with the class that it is styled by.
func (attempt) Picture(class string, c canvas) picture { return picture{class, c} }

type picture struct {
	Class  string
	Canvas canvas
}
