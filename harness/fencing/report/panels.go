package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"railguard/harness/fencing/evidence"
)

// The measures of the enlarged pieces below a timeline.
const (
	panelGap   = 18
	panelAbove = 24 // the funnel from the axis
	panelRow   = 18
	maxPanels  = 6
	maxRows    = 14
	tooShort   = 40 // a step that is drawn narrower than this is enlarged
)

// moving is a step of a worker, or one end of a long one.
type moving struct {
	who      string
	step     evidence.Step
	from, to time.Time // what of it lies in the piece
}

// burst is a piece of the axis in which more happens than can be seen on it.
type burst struct {
	from, to time.Time
	steps    []moving
}

// bursts are the pieces to be enlarged. Ends of long steps belong to them: what a step answered is told there.
func (t *drawing) bursts() []burst {
	var all []moving
	workers := map[string]evidence.Worker{"A": t.facts.A}
	if len(t.facts.C) == 0 {
		workers["B"] = t.facts.B
	}
	for who, w := range workers {
		for _, s := range w.Steps {
			began, ended := stepTimes(s)
			if began.IsZero() {
				continue
			}
			if ended.IsZero() {
				all = append(all, moving{who, s, began, began})
				continue
			}
			if t.axis.x(ended)-t.axis.x(began) < tooShort {
				all = append(all, moving{who, s, began, ended})
				continue
			}
			all = append(all, moving{who, s, began, began}, moving{who, s, ended, ended})
		}
	}
	slices.SortFunc(all, func(a, b moving) int {
		return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to), cmp.Compare(a.who, b.who), cmp.Compare(a.step.Name, b.step.Name))
	})
	for gap := t.axis.seconds / 50; ; gap *= 2 {
		if list := cluster(all, gap); len(list) <= maxPanels {
			return list
		}
	}
}

// cluster puts together what is not further apart than the gap, in seconds.
func cluster(all []moving, gap float64) []burst {
	var list []burst
	for _, m := range all {
		last := len(list) - 1
		if last >= 0 && m.from.Sub(list[last].to).Seconds() <= gap {
			list[last].steps = append(list[last].steps, m)
			if m.to.After(list[last].to) {
				list[last].to = m.to
			}
			continue
		}
		list = append(list, burst{m.from, m.to, []moving{m}})
	}
	// One end alone, of a step whose other end is told elsewhere, is no piece of its own.
	return slices.DeleteFunc(list, func(b burst) bool { return len(b.steps) == 1 && b.steps[0].from.Equal(b.steps[0].to) })
}

// panels draws the enlarged pieces, three in a row. Without any it is an empty drawing.
func (t *drawing) panels(id string) canvas {
	c := canvas{ID: id, Width: chartWidth, Title: "The steps of the workers, enlarged"}
	all := t.bursts()
	columns := px(min(len(all), 3))
	w := (chartWidth - (columns-1)*panelGap) / columns
	for start := 0; start < len(all); start += 3 {
		y := c.Height
		for i, b := range all[start:min(start+3, len(all))] {
			c.Height = max(c.Height, t.panel(&c, b, px(i)*(w+panelGap), y, w, start == 0)+8)
		}
	}
	return c
}

// panel draws one piece: a row for each step, its name to the left and its answer to the right.
func (t *drawing) panel(c *canvas, b burst, x, y, w px, funnel bool) px {
	const names, answers = 132, 122
	top := y + panelAbove
	steps := b.steps[:min(len(b.steps), maxRows)]
	height := px(len(steps))*panelRow + 30
	if funnel {
		from, to := t.axis.x(b.from), t.axis.x(b.to)
		c.path("funnel", fmt.Sprintf("M%s %sH%sL%s %sH%sz", from, y, max(to, from+1), x+w, top, x))
	}
	c.rect("panel", x, top, w, height, "")
	margin := b.to.Sub(b.from) / 16 // so that a step that began before is seen to come from there
	inner := newAxis([]time.Time{b.from.Add(-margin), b.to.Add(margin)}, x+names, x+w-answers)
	whose := ""
	if !slices.ContainsFunc(steps, func(m moving) bool { return m.who != steps[0].who }) {
		whose = "worker " + steps[0].who + ", "
	}
	c.text("panel-range", "start", x+10, top+16, fmt.Sprintf("%s%.3f s to %.3f s", whose, t.axis.since(b.from), t.axis.since(b.to)))
	millis := b.to.Sub(b.from).Milliseconds()
	c.text("panel-range", "end", x+w-10, top+16, fmt.Sprintf("%d ms, enlarged %.0f×", millis,
		float64(inner.right-inner.left)/inner.seconds/(float64(t.axis.right-t.axis.left)/t.axis.seconds)))
	for i, m := range steps {
		row := top + 24 + px(i)*panelRow
		began, ended := stepTimes(m.step)
		class, name := "step step-"+whoClass(m.who), m.step.Name
		if whose == "" {
			name = m.who + " " + name
		}
		c.text("panel-name", "start", x+10, row+12, short(name, smallSize, names-12))
		from, to := inner.x(began), inner.x(ended)
		if ended.IsZero() {
			to = inner.right
		}
		c.Desc += fmt.Sprintf("Worker %s, %s. ", m.who, tell(t.axis, m.step))
		c.rect(class, from, row+3, max(to-from, 2), 10, tell(t.axis, m.step))
		answer, answerClass := m.step.Outcome, "panel-name"
		switch {
		case ended.IsZero():
			answer = "no end"
		case ended.After(b.to):
			answer = "goes on"
		case answer == "":
			answer = "ended"
		case answer == "fencedOut":
			answerClass = "panel-name panel-refused"
			answer = "✕ " + answer
		}
		c.text(answerClass, "start", x+w-answers+8, row+12, short(answer, smallSize, answers-14))
	}
	if left := len(b.steps) - len(steps); left > 0 {
		c.text("panel-range", "end", x+w-10, top+height-2, fmt.Sprintf("and %d more", left))
	}
	return top + height
}
