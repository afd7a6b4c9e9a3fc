package report

import (
	"fmt"

	"railguard/harness/fencing/evidence"
)

// The measures of the money figure.
const (
	flowWidth  = 460
	flowLeft   = 132
	flowBars   = 230
	flowRow    = 34
	flowBlocks = 12 // more are drawn as one bar
)

// flow draws what left the account by each account of it: the payout's own amount is a line, and what lies beyond it stands out.
func flow(id string, f evidence.Facts) canvas {
	c := canvas{ID: id + "-money", Width: flowWidth, Title: "What left the account, by each account of it"}
	unit := f.AmountMinor
	sources := []struct {
		name, from string
		value      int64
		known      bool
	}{
		{"left at the rail", "its own log", unit * int64(moved(f)), unit > 0 || moved(f) == 0},
		{"ledger entries", "their sum", f.Before.SumMinor - f.After.SumMinor, read(f.After)},
		{"balance", "the account's row", f.Before.BalanceMinor - f.After.BalanceMinor, read(f.After)},
	}
	most := max(unit, 1)
	for _, s := range sources {
		most = max(most, s.value)
	}
	length := func(n int64) px { return px(max(n, 0)) / px(most) * flowBars }
	const top = 30
	for i, s := range sources {
		y := top + px(i)*flowRow
		c.text("flow-name", "start", 0, y+13, s.name)
		c.text("lane-sub", "start", 0, y+26, s.from)
		if !s.known {
			c.text("flow-name", "start", flowLeft, y+19, "not known")
			continue
		}
		within := s.value
		if unit > 0 {
			within = min(within, unit)
		}
		c.blocks("flow-due", y, 0, length(within), count(within, unit))
		class := "flow-value"
		if s.value > within {
			c.blocks("flow-over", y, length(unit), length(s.value)-length(unit), count(s.value-unit, unit))
			class += " flow-value-over"
		}
		c.text(class, "start", flowLeft+length(s.value)+10, y+19, signed(-s.value))
		c.Desc += fmt.Sprintf("%s: %d. ", s.name, s.value)
	}
	if unit > 0 {
		x := flowLeft + length(unit)
		c.line("flow-line", x, top-10, x, top+3*flowRow-2)
		c.text("flow-payout", "middle", x, top-15, fmt.Sprintf("the payout: %d", unit))
		c.Desc += fmt.Sprintf("The payout: %d.", unit)
	}
	c.Height = top + 3*flowRow + 4
	return c
}

// blocks draws a length as so many equal pieces.
func (c *canvas) blocks(class string, y, from, length px, n int) {
	if length <= 0 {
		return
	}
	each := length / px(n)
	for i := range n {
		c.rect(class, flowLeft+from+px(i)*each+1, y+2, each-2, 22, "")
	}
}

// count is how many payouts an amount is, where that is a number to be drawn.
func count(value, unit int64) int {
	if unit <= 0 || value%unit != 0 || value/unit > flowBlocks {
		return 1
	}
	return max(int(value/unit), 1)
}

// signed is an amount with a real minus.
func signed(n int64) string {
	if n < 0 {
		return fmt.Sprintf("−%d", -n)
	}
	return fmt.Sprint(n)
}
