package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"railguard/harness/fencing/evidence"
)

// The measures of a timeline.
const (
	chartWidth = 1200
	plotLeft   = 186
	plotRight  = 1100 // the rest is for the words at the ends of the runs
	workerLane = 82
	laneGap    = 6
	markRow    = 25
	labelSize  = 12.5
	smallSize  = 11
)

// drawing is a timeline in the making.
type drawing struct {
	canvas
	facts evidence.Facts
	axis  axis
}

// resource is the lane of a resource.
type resource struct {
	where      lane
	name, what string
	guard      *evidence.GuardInfo // nil: it has no switch
	y, height  px
	marks      []placedMark
}

// timeline draws an attempt: the two workers and the three resources on one time axis, and below it, as a drawing of the
// same width, the steps that are too short to be seen on it.
func timeline(id string, run evidence.Run, f evidence.Facts) (chart, enlarged canvas) {
	t := &drawing{canvas: canvas{ID: id, Width: chartWidth, hatched: true}, facts: f, axis: newAxis(times(f), plotLeft, plotRight)}
	t.Title = fmt.Sprintf("Timeline of payout %s", f.PayoutID)
	t.Desc = Story(run, f)

	laneA := px(14 + 17*t.flags(false, 0))
	laneB := laneA + workerLane + laneGap
	y := laneB + workerLane + 2*laneGap
	t.laneBox(laneA, workerLane, "a")
	t.laneBox(laneB, workerLane, "b")
	all := marks(f)
	resources := []resource{
		{where: railGuard, name: "Rail guard", what: "rail-proxy", guard: &run.GuardsBefore.RailProxy},
		{where: rail, name: "The rail", what: many(len(f.Requests), "request")},
		{where: accountGuard, name: "Account guard", what: "payment-resource", guard: &run.GuardsBefore.PaymentResource},
	}
	for i := range resources {
		r := &resources[i]
		r.y = y
		r.marks, r.height = t.pack(all, r.where)
		t.laneBox(y, r.height, "resource")
		y += r.height + laneGap
	}
	t.ticks(laneA, y)
	t.through(resources[0], resources[1])
	t.flags(true, laneB+workerLane)
	t.worker(laneA, "A", []evidence.Worker{f.A}, "token "+token(f.A.Token))
	if len(f.C) > 0 {
		t.worker(laneB, "B", f.C, many(len(f.C), "run"))
	} else {
		t.worker(laneB, "B", []evidence.Worker{f.B}, "token "+token(f.B.Token))
	}
	t.freeze(laneA)
	for _, r := range resources {
		t.head(r)
		for _, m := range r.marks {
			t.mark(m, r)
		}
	}
	t.Height = y + 18
	return t.canvas, t.panels(id + "-steps")
}

// workersB are the runs in B's lane: the one that took over, or all that asked in vain.
func workersB(f evidence.Facts) []evidence.Worker {
	if len(f.C) > 0 {
		return f.C
	}
	return []evidence.Worker{f.B}
}

// times are the moments that the axis must show. A lease's expiry counts only when it was waited for.
func times(f evidence.Facts) []time.Time {
	all := []time.Time{f.WindowOpenedAt}
	for _, w := range append([]evidence.Worker{f.A}, workersB(f)...) {
		all = append(all, w.StartedAt, w.EndedAt)
		for _, s := range w.Steps {
			all = append(all, s.ScheduledAt, value(s.StartedAt), value(s.EndedAt))
		}
	}
	if f.Freeze != nil {
		all = append(all, f.Freeze.StoppedAt, f.Freeze.ThawedAt)
	}
	for _, l := range f.Leases {
		all = append(all, l.AcquiredAt)
		if !l.EndedAt.IsZero() {
			all = append(all, heldUntil(l))
		}
	}
	for _, m := range marks(f) {
		all = append(all, m.at)
	}
	return all
}

func value(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// heldUntil is when a grant ended: by its expiry, or before that by a release.
func heldUntil(l evidence.Lease) time.Time {
	if !l.EndedAt.IsZero() && l.EndedAt.Before(l.ExpiresAt) {
		return l.EndedAt
	}
	return l.ExpiresAt
}

func (t *drawing) laneBox(y, height px, class string) {
	t.rect("lane lane-"+class, 0, y, chartWidth, height, "")
}

func (t *drawing) ticks(top, bottom px) {
	for _, s := range t.axis.ticks(12) {
		x := t.axis.left + (t.axis.right-t.axis.left)*px(s/t.axis.seconds)
		t.line("grid", x, top, x, bottom)
		t.text("tick", "middle", x, bottom+12, fmt.Sprintf("%g s", round(s)))
	}
}

// round takes the noise of the arithmetic from a tick.
func round(s float64) float64 {
	var r float64
	_, _ = fmt.Sscanf(fmt.Sprintf("%.6g", s), "%g", &r) // what was just printed can be read
	return r
}

// flag is a moment in the lives of the workers that is named above them.
type flag struct {
	at    time.Time
	label string
	class string
}

// moments are what a reader looks for first.
func moments(f evidence.Facts) []flag {
	var all []flag
	add := func(at time.Time, class, format string, args ...any) {
		if !at.IsZero() {
			all = append(all, flag{at, fmt.Sprintf(format, args...), class})
		}
	}
	add(f.WindowOpenedAt, "a", "A's submit window opens")
	if f.Freeze != nil {
		add(f.Freeze.StoppedAt, "stop", "A stopped")
		add(f.Freeze.ThawedAt, "stop", "A woken")
	}
	for _, l := range f.Leases {
		switch {
		case l.Token == f.A.Token && lapsed(f, l):
			add(l.ExpiresAt, "a", "A's lease lapses")
		case l.Token == f.B.Token && len(f.C) == 0:
			add(l.AcquiredAt, "b", "B granted token %d", l.Token)
		}
	}
	slices.SortStableFunc(all, func(a, b flag) int { return a.at.Compare(b.at) })
	return all
}

// lapsed reports whether A's grant ran out while A's run went on.
func lapsed(f evidence.Facts, l evidence.Lease) bool {
	return !heldUntil(l).Before(l.ExpiresAt) && !l.ExpiresAt.IsZero() && (f.A.EndedAt.After(l.ExpiresAt) || f.A.EndedAt.IsZero() && !l.EndedAt.IsZero())
}

// flags draws the moments, down to the bottom of the workers' lanes, and returns how many rows they take.
func (t *drawing) flags(draw bool, bottom px) int {
	var taken rows
	previous, row := span{}, 0
	for _, f := range moments(t.facts) {
		x := t.axis.x(f.at)
		label := fmt.Sprintf("%s %.2f s", f.label, t.axis.since(f.at))
		w := width(label, labelSize)
		text, anchor, s := x+5, "start", span{x, x + 5 + w}
		if s.to > chartWidth {
			text, anchor, s = x-5, "end", span{x - 5 - w, x}
		}
		// One below the other as they come, where they come at once.
		if s.from > previous.to {
			row = -1
		}
		row = taken.placeFrom(row+1, s)
		previous = s
		if draw {
			y := px(17*row + 4)
			t.line("flag flag-"+f.class, x, y, x, bottom)
			t.text("flag-text", anchor, text, y+11, label)
		}
	}
	return len(taken)
}

// worker draws a lane: what the lock says above, what the process does below.
func (t *drawing) worker(y px, who string, runs []evidence.Worker, sub string) {
	class := strings.ToLower(who)
	t.Shapes = append(t.Shapes, shape{Kind: "badge", Class: "who-" + class, X: 20, Y: y + 24, Text: who})
	t.text("lane-name", "start", 38, y+27, "Worker "+who)
	t.text("lane-sub", "start", 10, y+50, short(sub, smallSize, plotLeft-20))
	if pid := runs[len(runs)-1].ProcessID; pid != 0 {
		t.text("lane-sub", "start", 10, y+66, fmt.Sprintf("process %d", pid))
	}
	t.text("row-name", "end", plotLeft-8, y+24, "lock")
	t.text("row-name", "end", plotLeft-8, y+61, "run")
	t.leases(y+8, who, class)
	for i, w := range runs {
		t.run(y+53, class, w, len(runs) == 1, i)
	}
	if len(runs) > 1 {
		t.text("end-text", "start", t.axis.x(runs[0].StartedAt)+6, y+24.5, contention(runs))
	}
	if who == "A" && !t.facts.WindowOpenedAt.IsZero() {
		x := t.axis.x(t.facts.WindowOpenedAt)
		t.path("window", fmt.Sprintf("M%s %sl-5 -8h10z", x, y+47))
	}
}

// leases draws the grants of a worker: solid while held, an empty dashed frame from the expiry to the end of the run.
func (t *drawing) leases(y px, who, class string) {
	const height = 24
	for _, l := range t.facts.Leases {
		if (l.Token == t.facts.A.Token) != (who == "A") {
			continue
		}
		from, to := t.axis.x(l.AcquiredAt), t.axis.x(heldUntil(l))
		title := fmt.Sprintf("lease under token %d: from %.3f s, %s, expiry %.3f s", l.Token, t.axis.since(l.AcquiredAt), many(l.Renewals, "renewal"), t.axis.since(l.ExpiresAt))
		t.rect("lease lease-"+class, from, y, max(to-from, 2), height, title)
		label := fmt.Sprintf("holds the lock, token %d", l.Token)
		if w := width(label, labelSize); who == "A" && lapsed(t.facts, l) && w+12 > to-from {
			label = "holds the lock" // what is to the right is taken
		}
		w := width(label, labelSize)
		switch {
		case w+12 <= to-from:
			t.text("lease-text", "start", from+8, y+16.5, label)
		case who == "A" && lapsed(t.facts, l):
		case to+6+w < chartWidth:
			t.text("label", "start", to+6, y+16.5, label)
		default:
			t.text("label", "end", from-6, y+16.5, label)
		}
		if who == "A" && lapsed(t.facts, l) {
			end := t.axis.right
			if !t.facts.A.EndedAt.IsZero() {
				end = t.axis.x(t.facts.A.EndedAt)
			}
			t.rect("lapsed", to, y, end-to, height, "after the expiry: A does not hold the lock")
			if label := "lapsed: A does not hold the lock"; width(label, labelSize)+12 <= end-to {
				t.text("lapsed-text", "middle", to+(end-to)/2, y+16.5, label)
			}
		}
	}
}

// run draws a run: a thin line while it lasts, a bar for each step, and how it ended.
func (t *drawing) run(y px, class string, w evidence.Worker, alone bool, i int) {
	if w.StartedAt.IsZero() && len(w.Steps) == 0 {
		return
	}
	from, to := t.axis.x(w.StartedAt), t.axis.right
	if !w.EndedAt.IsZero() {
		to = t.axis.x(w.EndedAt)
	}
	t.line("run run-"+class, from, y+4, to, y+4)
	t.line("run run-"+class, from, y-2, from, y+10)
	for _, s := range w.Steps {
		begin, end := t.step(s)
		t.rect("step step-"+class, begin, y-3, max(end-begin, 1.5), 14, tell(t.axis, s))
		if from, room := t.seen(class, s, begin, end); alone && width(s.Name, smallSize)+10 <= room {
			t.text("step-text", "start", from+6, y+8, s.Name)
		}
	}
	if w.EndedAt.IsZero() {
		return
	}
	t.line("run-end run-"+class, to, y-5, to, y+13)
	if alone {
		t.text("end-text", "start", to+6, y+8.5, short(orNone(w.Outcome), labelSize, chartWidth-to-8))
	}
}

// seen is the longest part of a step's bar that the pause does not cover.
func (t *drawing) seen(class string, s evidence.Step, begin, end px) (from, room px) {
	f := t.facts.Freeze
	if class != "a" || f == nil || f.StoppedAt.IsZero() {
		return begin, end - begin
	}
	before, after := min(t.axis.x(f.StoppedAt), end)-begin, px(0)
	if !f.ThawedAt.IsZero() {
		after = end - max(t.axis.x(f.ThawedAt), begin)
	}
	if after > before {
		return end - after, after
	}
	return begin, before
}

// step is where a step begins and ends: one without an end goes on to the end of the axis.
func (t *drawing) step(s evidence.Step) (from, to px) {
	began, ended := stepTimes(s)
	if ended.IsZero() {
		ended = t.axis.end()
	}
	return t.axis.x(began), t.axis.x(ended)
}

func stepTimes(s evidence.Step) (began, ended time.Time) {
	began = s.ScheduledAt
	if s.StartedAt != nil {
		began = *s.StartedAt
	}
	return began, value(s.EndedAt)
}

// tell is a step in words.
func tell(a axis, s evidence.Step) string {
	began, ended := stepTimes(s)
	text := fmt.Sprintf("%s: from %.3f s", s.Name, a.since(began))
	if !ended.IsZero() {
		text += fmt.Sprintf(" to %.3f s", a.since(ended))
	}
	if s.Outcome != "" {
		text += ", " + s.Outcome
	}
	if s.Reason != "" {
		text += " (" + s.Reason + ")"
	}
	return text
}

// contention counts how the runs of B ended.
func contention(runs []evidence.Worker) string {
	if n := turnedAway(runs); n < len(runs) {
		return fmt.Sprintf("%d of %d runs turned away by the lock: contended", n, len(runs))
	}
	return fmt.Sprintf("%d runs, each turned away by the lock: contended", len(runs))
}

// turnedAway counts the runs that asked for the lock and did not get it.
func turnedAway(runs []evidence.Worker) int {
	n := 0
	for _, w := range runs {
		if w.Outcome == "contended" && w.Token == 0 {
			n++
		}
	}
	return n
}

// freeze draws the pause over A's run.
func (t *drawing) freeze(y px) {
	f := t.facts.Freeze
	if f == nil || f.StoppedAt.IsZero() {
		return
	}
	from, to := t.axis.x(f.StoppedAt), t.axis.right
	label := "STOPPED, never woken"
	if !f.ThawedAt.IsZero() {
		to = t.axis.x(f.ThawedAt)
		label = fmt.Sprintf("STOPPED for %.2f s", f.ThawedAt.Sub(f.StoppedAt).Seconds())
	}
	t.Shapes = append(t.Shapes, shape{Kind: "hatch", Class: "pause", X: from, Y: y + 38, W: max(to-from, 2), H: workerLane - 44,
		Title: fmt.Sprintf("process %d stopped, state %s, from %.3f s", f.ProcessID, orNone(f.State), t.axis.since(f.StoppedAt))})
	if width(label, labelSize)+16 <= to-from {
		t.text("pause-text", "middle", from+(to-from)/2, y+61.5, label)
	}
}

// placedMark is a mark with its place: marks of one moment are set one below the other.
type placedMark struct {
	mark
	x     px
	row   int
	right bool // the label is to the right of the mark
}

// pack finds a place for every mark of a lane, and the lane's height.
func (t *drawing) pack(all []mark, where lane) ([]placedMark, px) {
	var taken rows
	var list []placedMark
	for _, m := range all {
		if m.lane != where {
			continue
		}
		p := placedMark{mark: m, x: t.axis.x(m.at), right: true}
		w := width(m.label, labelSize)
		s := span{p.x - 10, p.x + p.reach() + w}
		if left := p.x - p.reach() - w; s.to > chartWidth-4 && left > plotLeft {
			p.right, s = false, span{left, p.x + 10}
		}
		p.row = taken.place(s)
		list = append(list, p)
	}
	return list, max(px(len(taken))*markRow+14, 42)
}

// reach is how far from the mark its label begins.
func (p placedMark) reach() px {
	if p.kind == harmful {
		return 19
	}
	return 14
}

func (p placedMark) y(r resource) px { return r.y + 20 + px(p.row)*markRow }

// through joins what the rail guard let through with what arrived at the rail: a refused one has no continuation.
func (t *drawing) through(guard, arrived resource) {
	for _, a := range arrived.marks {
		for _, g := range guard.marks {
			if g.kind != refused && a.token != 0 && g.token == a.token {
				t.line("through", g.x, g.y(guard), a.x, a.y(arrived))
				break
			}
		}
	}
}

func (t *drawing) mark(p placedMark, r resource) {
	when := "at a time that is not known"
	if !p.at.IsZero() {
		when = fmt.Sprintf("at %.3f s", t.axis.since(p.at))
	}
	title := fmt.Sprintf("%s, %s %s: %s, %s (%s)", r.name, p.who, when, p.kind, p.label, p.detail)
	t.Desc += " " + title + "."
	y := p.y(r)
	t.Shapes = append(t.Shapes, shape{Kind: "mark", Class: "who-" + whoClass(p.who), X: p.x, Y: y, Text: p.who, Title: title, Lane: p.lane, Mark: p.kind})
	class, x, anchor := "label", p.x+p.reach(), "start"
	if p.kind == harmful || p.kind == refused {
		class += " label-" + string(p.kind)
	}
	if !p.right {
		x, anchor = p.x-p.reach(), "end"
	}
	t.text(class, anchor, x, y+4.5, p.label)
}

func whoClass(who string) string {
	if who == "?" {
		return "unknown"
	}
	return strings.ToLower(who)
}

// head names a resource's lane and tells how its switch stands.
func (t *drawing) head(r resource) {
	middle := r.y + r.height/2
	t.text("lane-name", "start", 10, middle-2, r.name)
	t.text("lane-sub", "start", 10, middle+14, r.what)
	if r.guard == nil {
		return
	}
	class, word := "switch-off", "off"
	if r.guard.FencingEnabled {
		class, word = "switch-on", "on"
	}
	t.Shapes = append(t.Shapes, shape{Kind: "switch", Class: class, X: plotLeft - 44, Y: middle - 10, Text: word,
		Title: fmt.Sprintf("fencingEnabled=%t at /info of %s", r.guard.FencingEnabled, orNone(r.guard.Service))})
}

func token(n int64) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprint(n)
}

// many is a number with its noun.
func many(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
