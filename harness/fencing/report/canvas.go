package report

import (
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// px is a length in the units of a drawing.
type px float64

// String has one decimal: more is not seen.
func (p px) String() string {
	if math.IsNaN(float64(p)) || math.IsInf(float64(p), 0) {
		return "0"
	}
	return strconv.FormatFloat(math.Round(float64(p)*10)/10, 'f', -1, 64)
}

// shape is one thing on a drawing; the template knows how each kind of it is written.
type shape struct {
	Kind   string // rect, hatch, path, text, badge, switch or mark
	Class  string
	X, Y   px
	W, H   px
	D      string // of a path
	Text   string
	Anchor string // of a text: start, middle or end
	Title  string // what a pointer, and a screen reader, is told
	Lane   lane   // of a mark
	Mark   kind   // of a mark
}

// canvas collects shapes, the later ones on top.
type canvas struct {
	ID          string
	Title, Desc string
	Width       px
	Height      px
	Shapes      []shape

	hatched bool
}

func (c *canvas) rect(class string, x, y, w, h px, title string) {
	c.Shapes = append(c.Shapes, shape{Kind: "rect", Class: class, X: x, Y: y, W: max(w, 0), H: h, Title: title})
}

func (c *canvas) path(class, d string) {
	c.Shapes = append(c.Shapes, shape{Kind: "path", Class: class, D: d})
}

func (c *canvas) line(class string, x1, y1, x2, y2 px) {
	c.path(class, "M"+x1.String()+" "+y1.String()+"L"+x2.String()+" "+y2.String())
}

func (c *canvas) text(class, anchor string, x, y px, s string) {
	c.Shapes = append(c.Shapes, shape{Kind: "text", Class: class, Anchor: anchor, X: x, Y: y, Text: s})
}

// axis maps times to a drawing: seconds from the first event.
type axis struct {
	from        time.Time
	seconds     float64
	left, right px
}

// newAxis spans the times that are known. Without any, or with one alone, it is a second long.
func newAxis(times []time.Time, left, right px) axis {
	a := axis{left: left, right: right}
	var last time.Time
	for _, t := range times {
		if t.IsZero() {
			continue
		}
		if a.from.IsZero() || t.Before(a.from) {
			a.from = t
		}
		if t.After(last) {
			last = t
		}
	}
	// Not Sub, which saturates for times that are centuries apart.
	a.seconds = float64(last.Unix()-a.from.Unix()) + float64(last.Nanosecond()-a.from.Nanosecond())/1e9
	if a.seconds <= 0 {
		a.seconds = 1
	}
	return a
}

// since is a time in seconds from the first event.
func (a axis) since(t time.Time) float64 {
	if t.IsZero() || a.from.IsZero() {
		return 0
	}
	return float64(t.Unix()-a.from.Unix()) + float64(t.Nanosecond()-a.from.Nanosecond())/1e9
}

// x is where a time is; a time beyond the axis, or none, is at its end, or its beginning.
func (a axis) x(t time.Time) px {
	return a.left + (a.right-a.left)*px(min(max(a.since(t)/a.seconds, 0), 1))
}

// end is the last moment of the axis.
func (a axis) end() time.Time {
	return a.from.Add(time.Duration(min(a.seconds*1e9, math.MaxInt64/2)))
}

// ticks are round numbers of seconds, about as many as asked for.
func (a axis) ticks(about int) []float64 {
	rough := a.seconds / float64(about)
	step := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if step*factor >= rough {
			step *= factor
			break
		}
	}
	var all []float64
	for i := 0; float64(i)*step <= a.seconds*1.0001; i++ {
		all = append(all, float64(i)*step)
	}
	return all
}

// width estimates how wide a text is, rather too wide than too narrow: the font is whatever the reader has.
func width(s string, size px) px {
	var ems float64
	for _, r := range s {
		switch {
		case r == 'i' || r == 'l' || r == 'j' || r == 'I' || r == ' ' || r == '.' || r == ',' || r == ':' || r == '\'' || r == '|':
			ems += .34
		case r == 'f' || r == 't' || r == 'r' || r == '-' || r == '(' || r == ')':
			ems += .42
		case r == 'm' || r == 'w' || r == 'M' || r == 'W' || r >= 0x2000:
			ems += .98
		case r >= 'A' && r <= 'Z':
			ems += .74
		default:
			ems += .64
		}
	}
	return px(ems) * size
}

// short cuts a text to what fits.
func short(s string, size, room px) string {
	if width(s, size) <= room {
		return s
	}
	for len(s) > 0 && width(s+"…", size) > room {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s + "…"
}

// span is a piece of a row that is taken.
type span struct{ from, to px }

// rows packs labels that must not overlap into as few rows as possible, in the order in which they come.
type rows [][]span

// place returns the first row in which a piece is free, and takes it.
func (r *rows) place(s span) int { return r.placeFrom(0, s) }

// placeFrom is place, not above a row.
func (r *rows) placeFrom(first int, s span) int {
	const gap = 8
	for i, row := range *r {
		free := i >= first
		for _, taken := range row {
			free = free && (s.to+gap <= taken.from || taken.to+gap <= s.from)
		}
		if free {
			(*r)[i] = append(row, s)
			return i
		}
	}
	*r = append(*r, []span{s})
	return len(*r) - 1
}

// Hatched reports whether the drawing needs the pattern of a pause.
func (c canvas) Hatched() bool { return c.hatched }
