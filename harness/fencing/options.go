package main

import (
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"railguard/harness/fencing/evidence"
)

// options say which experiment is made, how often and against what.
type options struct {
	mode        evidence.Mode
	pause       evidence.Pause
	repeat      int
	attempts    int // of one repetition, while they are inconclusive
	parallel    int
	seed        uint64
	leaseTTL    time.Duration
	work        time.Duration
	pauseOffset time.Duration
	railTimeout time.Duration
	budget      time.Duration // SUBMIT_BUDGET of the workers
	short       bool
	stack       string
	profilePath string
	keep        bool
	binary      string
	outDir      string

	interference interference
}

// The stacks.
const (
	localStack   = "local"
	runningStack = "running"
)

// safetyMargin is the worker's LOCK_SAFETY_MARGIN, of the lease.
const safetyMargin = 0.30

// maxRepeat, maxParallel and maxAttempts bound what one machine is asked to do.
const (
	maxRepeat   = 1000
	maxParallel = 64
	maxAttempts = 20
)

// timing is what --short changes.
type timing struct{ leaseTTL, work, pauseOffset, railTimeout, budget time.Duration }

// The lease leaves room for the submission: it exceeds SUBMIT_BUDGET and the safety margin, and SUBMIT_BUDGET the rail's timeout.
var (
	usual = timing{leaseTTL: 5 * time.Second, work: 20 * time.Second, pauseOffset: time.Second, railTimeout: time.Second, budget: 2 * time.Second}
	short = timing{leaseTTL: 3 * time.Second, work: 6 * time.Second, pauseOffset: time.Second, railTimeout: 500 * time.Millisecond, budget: time.Second}
)

func (o *options) flags(c *cobra.Command) {
	f := c.Flags()
	f.SortFlags = false
	f.StringVar((*string)(&o.mode), "fencing", "", "which guards compare tokens: off, rail-only, account-only or on")
	f.StringVar((*string)(&o.pause), "pause", string(evidence.Stop), "how A is stopped: stop (SIGSTOP) or none (the control: nothing stops)")
	f.IntVar(&o.repeat, "repeat", 1, "repetitions, each with its own account, payout, task queues and workers")
	f.IntVar(&o.parallel, "parallel", 1, "repetitions under way at once")
	f.IntVar(&o.attempts, "attempts", 4, "how often a repetition is tried, each time with another offset, while its attempts are inconclusive")
	f.Uint64Var(&o.seed, "seed", 0, "seed of the pause offsets (default: from the clock; it is printed)")
	f.BoolVar(&o.short, "short", false, "the short timing: lease 3s, work 6s, rail timeout 500ms, submit budget 1s")
	f.DurationVar(&o.leaseTTL, "lease-ttl", usual.leaseTTL, "lease of both workers")
	f.DurationVar(&o.work, "work", usual.work, "how long A works between its last check of the lease and its request to the rail")
	f.DurationVar(&o.pauseOffset, "pause-offset", usual.pauseOffset, "how long A has been working when it is stopped; each attempt varies it by a fifth")
	f.DurationVar(&o.railTimeout, "rail-timeout", usual.railTimeout, "RAIL_TIMEOUT of rail-proxy, on a stack of our own")
	f.DurationVar(&o.budget, "submit-budget", usual.budget, "SUBMIT_BUDGET of both workers")
	f.StringVar(&o.stack, "stack", localStack, "local starts a system for this run; running uses the one of railguard dev, whose switches must fit")
	f.StringVar(&o.profilePath, "profile", "", "profile of the running stack (default: $RAILGUARD_PROFILE, else the one that railguard dev left)")
	f.BoolVar(&o.keep, "keep", false, "leave the system up afterwards, until Ctrl-C, with the web UI, to look at it")
	f.StringVar(&o.binary, "binary", "", "the railguard command whose workers are frozen (default: bin/railguard of this checkout)")
	f.StringVar(&o.outDir, "out", "", "folder for the captures (default: harness/fencing-demo/out of this checkout)")
}

// settle applies --short below the flags that were given, and refuses what cannot work.
func (o *options) settle(c *cobra.Command) (options, error) {
	s := *o
	if s.short {
		for name, value := range map[string]struct{ to, from *time.Duration }{
			"lease-ttl": {&s.leaseTTL, &short.leaseTTL}, "work": {&s.work, &short.work}, "pause-offset": {&s.pauseOffset, &short.pauseOffset},
			"rail-timeout": {&s.railTimeout, &short.railTimeout}, "submit-budget": {&s.budget, &short.budget},
		} {
			if !c.Flags().Changed(name) {
				*value.to = *value.from
			}
		}
	}
	if !c.Flags().Changed("seed") {
		s.seed = uint64(time.Now().UnixNano())
	}
	if err := s.locate(); err != nil {
		return s, err
	}
	return s, s.validate(c)
}

// locate finds the checkout: this program lies in its bin folder.
func (o *options) locate() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	root := filepath.Dir(filepath.Dir(self))
	if o.binary == "" {
		o.binary = filepath.Join(root, "bin", "railguard")
	}
	if o.outDir == "" {
		o.outDir = filepath.Join(root, "harness", "fencing-demo", "out")
	}
	return nil
}

func (o options) validate(c *cobra.Command) error {
	switch {
	case o.mode == "":
		return usage("--fencing is missing: want off, rail-only, account-only or on")
	case !slices.Contains(evidence.Modes, o.mode):
		return usage("--fencing %q: want off, rail-only, account-only or on", o.mode)
	case o.pause != evidence.Stop && o.pause != evidence.NoPause:
		return usage("--pause %q: want stop or none", o.pause)
	case o.stack != localStack && o.stack != runningStack:
		return usage("--stack %q: want local or running", o.stack)
	case o.repeat < 1 || o.repeat > maxRepeat:
		return usage("--repeat %d: want 1 to %d", o.repeat, maxRepeat)
	case o.parallel < 1 || o.parallel > maxParallel:
		return usage("--parallel %d: want 1 to %d", o.parallel, maxParallel)
	case o.attempts < 1 || o.attempts > maxAttempts:
		return usage("--attempts %d: want 1 to %d", o.attempts, maxAttempts)
	case o.stack == localStack && o.profilePath != "":
		return usage("--profile names a running stack: it needs --stack running")
	case o.stack == runningStack && c.Flags().Changed("rail-timeout"):
		return usage("--rail-timeout is for a stack of our own; the running one has its own RAIL_TIMEOUT")
	case o.stack == runningStack && o.keep:
		return usage("--keep is for a stack of our own; the running one stays up anyway")
	}
	return o.validateTiming()
}

// validateTiming asserts what the experiment needs of its constants.
func (o options) validateTiming() error {
	reserve := o.budget + time.Duration(safetyMargin*float64(o.leaseTTL))
	switch {
	case o.leaseTTL < time.Second || o.leaseTTL > time.Minute:
		return usage("--lease-ttl %v: a worker takes 1s to 1m", o.leaseTTL)
	case o.railTimeout <= 0:
		return usage("--rail-timeout %v: want more than 0", o.railTimeout)
	case o.budget <= 0:
		return usage("--submit-budget %v: want more than 0", o.budget)
	case o.stack == localStack && o.budget <= o.railTimeout:
		return usage("--submit-budget %v must exceed --rail-timeout %v, or a worker would give up before the rail-proxy does", o.budget, o.railTimeout)
	case o.leaseTTL <= reserve:
		return usage("--lease-ttl %v must exceed --submit-budget and the safety margin of 30%%, %v together", o.leaseTTL, reserve)
	case o.work <= o.leaseTTL:
		return usage("--work %v must exceed --lease-ttl %v, or A would be done before its lease could lapse", o.work, o.leaseTTL)
	case o.work > 10*time.Minute:
		return usage("--work %v: want at most 10m", o.work)
	case o.pauseOffset <= 0:
		return usage("--pause-offset %v: want more than 0; before its work A has not passed its last check", o.pauseOffset)
	case o.pauseOffset+o.pauseOffset/5 >= o.work:
		return usage("--pause-offset %v, varied by a fifth, must stay below --work %v, or A would have submitted before it is stopped", o.pauseOffset, o.work)
	}
	return nil
}

func (o options) timing() evidence.Timing {
	return evidence.Timing{
		LeaseMillis: o.leaseTTL.Milliseconds(), WorkMillis: o.work.Milliseconds(), PauseOffsetMillis: o.pauseOffset.Milliseconds(),
		RailTimeoutMillis: o.railTimeout.Milliseconds(), SubmitBudgetMillis: o.budget.Milliseconds(),
	}
}
