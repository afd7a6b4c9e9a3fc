package main

import (
	"flag"
	"fmt"
	"io"
)

// options say how much is measured.
type options struct {
	payouts  int // in the throughput part, and as many bare workflows
	accounts int // that the payouts are spread over, in turn
	inFlight int // workflows that are under way at once in the throughput part
	rounds   int // pairs of blocks that the throughput part is cut into
	lone     int // payouts of the latency part, one after another, and as many bare workflows

	jsonFile   string // where the report is written as JSON; "" for nowhere
	profileDir string // where CPU profiles of the product's processes are written; "" for none
	keep       bool   // leave the data folder with its logs where it is
}

func parseOptions(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.IntVar(&o.payouts, "payouts", 500, "payouts of the throughput part, and as many bare workflows")
	flags.IntVar(&o.accounts, "accounts", 100, "accounts that the payouts are spread over; with fewer than --in-flight, waiting for locks is measured too")
	flags.IntVar(&o.inFlight, "in-flight", 50, "workflows under way at once in the throughput part")
	flags.IntVar(&o.rounds, "rounds", 4, "pairs of blocks, payouts against bare workflows, that the throughput part is cut into")
	flags.IntVar(&o.lone, "lone", 50, "payouts of the latency part, one after another, each followed by a bare workflow; 0 leaves the part out")
	flags.StringVar(&o.jsonFile, "json", "", "`file` to write the report to, as JSON")
	flags.StringVar(&o.profileDir, "profile", "", "`folder` for CPU profiles of the product's processes, taken while payouts are in flight")
	flags.BoolVar(&o.keep, "keep", false, "keep the data folder, with the logs")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return o, o.validate()
}

func (o options) validate() error {
	for _, bound := range []struct {
		flag       string
		value, min int
	}{
		{"payouts", o.payouts, 1}, {"accounts", o.accounts, 1}, {"in-flight", o.inFlight, 1}, {"rounds", o.rounds, 1}, {"lone", o.lone, 0},
	} {
		if bound.value < bound.min {
			return fmt.Errorf("--%s %d: want at least %d", bound.flag, bound.value, bound.min)
		}
	}
	if o.rounds > o.payouts {
		return fmt.Errorf("--rounds %d: want at most one for each of the %d payouts", o.rounds, o.payouts)
	}
	return nil
}
