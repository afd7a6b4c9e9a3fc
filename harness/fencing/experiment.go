package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"railguard/harness/fencing/evidence"
)

// experiment makes the experiment, shows it and keeps it. The error says why it does not count as shown.
func experiment(ctx context.Context, o options, out, progress io.Writer) (err error) {
	started := time.Now()
	var saying sync.Mutex
	say := func(format string, args ...any) {
		saying.Lock()
		defer saying.Unlock()
		_, _ = fmt.Fprintf(progress, format+"\n", args...) // a lost progress line harms nobody
	}
	say("fencing %s, pause %s, %d repetition(s), %d at once, seed %d", o.mode, o.pause, o.repeat, o.parallel, o.seed)
	dir, err := newCapture(o.outDir, o.mode, o.pause, started)
	if err != nil {
		return err
	}
	s, err := openSystem(ctx, o, progress)
	if err != nil {
		_ = os.Remove(dir) // it is empty, and one that stays harms nobody
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	e := &series{system: s, options: o, dir: dir, out: out, say: say}
	e.evidence = evidence.Run{Mode: o.mode, Pause: o.pause, Mechanism: o.pause.Mechanism(), Seed: o.seed, Parallel: o.parallel, Stack: o.stack, StartedAt: started}
	if err := e.run(ctx); err != nil {
		if os.Remove(dir) == nil { // nothing was captured
			return err
		}
		return fmt.Errorf("%w\nwhat was captured is in %s", err, dir)
	}
	if err := writeVerdict(dir, e.evidence); err != nil {
		return err
	}
	e.printSummary()
	if o.keep {
		e.stayUp(ctx)
	}
	if !e.evidence.Summary.Passed {
		return &verdictError{fmt.Errorf("%s did not show what it must show", o.mode)}
	}
	return nil
}

// series is all repetitions of one run, on one system.
type series struct {
	*system
	options options
	dir     string
	out     io.Writer
	say     func(format string, args ...any)

	evidence evidence.Run
	print    sync.Mutex
}

// run makes all repetitions, and what is read once before and after them.
func (e *series) run(ctx context.Context) (err error) {
	if e.evidence.GuardsBefore, err = e.guards(ctx); err != nil {
		return err
	}
	if f := e.options.interference.guardsSay; f != nil {
		f(&e.evidence.GuardsBefore)
	}
	if err := e.admit(); err != nil {
		return err
	}
	e.evidence.Timing = e.options.timing()
	e.evidence.Timing.RailTimeoutMillis = e.evidence.GuardsBefore.RailProxy.RailTimeoutMillis
	before, err := e.snapshot(ctx)
	if err != nil {
		return err
	}
	if err := e.repeat(ctx); err != nil {
		return err
	}
	after, err := e.snapshot(ctx)
	if err != nil {
		return err
	}
	if e.evidence.Counters, err = counters(before, after, e.evidence.Repetitions); err != nil {
		return err
	}
	if e.stack != nil { // a database with a life of its own says nothing about this run
		if e.evidence.Invariants, err = e.checkInvariants(ctx); err != nil {
			return err
		}
	}
	if e.evidence.GuardsAfter, err = e.guards(ctx); err != nil {
		return err
	}
	e.evidence.EndedAt = time.Now()
	e.evidence.Summary = evidence.Summarize(e.evidence)
	return errors.Join(
		writeSnapshot(e.dir, "before", before), writeSnapshot(e.dir, "after", after),
		writeJSON(filepath.Join(e.dir, "info.json"), map[string]any{"before": e.evidence.GuardsBefore, "after": e.evidence.GuardsAfter}),
	)
}

// admit refuses a system on which the mode could not show anything.
func (e *series) admit() error {
	var errs []error
	for _, d := range evidence.Switches(e.options.mode, e.evidence.GuardsBefore) {
		errs = append(errs, fmt.Errorf("%s: %s", d.Code, d.Sentence))
	}
	if len(errs) > 0 && e.stack == nil {
		errs = append(errs, fmt.Errorf("start it with: railguard dev --env payment-resource:PAYMENT_FENCING_ENABLED=%t --env rail-proxy:RAIL_PROXY_FENCING_ENABLED=%t",
			e.options.mode.AccountGuard(), e.options.mode.RailGuard()))
	}
	if err := errors.Join(errs...); err != nil {
		return &usageError{err}
	}
	if told := time.Duration(e.evidence.GuardsBefore.RailProxy.RailTimeoutMillis) * time.Millisecond; told >= e.options.budget {
		return usage("rail-proxy waits %v for the rail, no less than the workers' --submit-budget of %v: start it with a shorter one (railguard dev --env rail-proxy:RAIL_TIMEOUT=%v), or lengthen --submit-budget and --lease-ttl",
			told, e.options.budget, e.options.budget/2)
	}
	return nil
}

// repeat makes the repetitions, several at once.
func (e *series) repeat(ctx context.Context) error {
	e.evidence.Repetitions = make([]evidence.Repetition, e.options.repeat)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(e.options.parallel)
	for i := range e.options.repeat {
		group.Go(func() (err error) {
			if err := ctx.Err(); err != nil {
				return err
			}
			e.evidence.Repetitions[i], err = e.repetition(ctx, i+1)
			if err != nil {
				return fmt.Errorf("repetition %d: %w", i+1, err)
			}
			e.printRepetition(e.evidence.Repetitions[i])
			return nil
		})
	}
	return group.Wait()
}

// repetition tries until an attempt is conclusive, a bounded number of times, each time with another offset.
func (e *series) repetition(ctx context.Context, number int) (evidence.Repetition, error) {
	r := evidence.Repetition{Number: number}
	for try := 1; try <= e.options.attempts; try++ {
		attempt, err := e.attempt(ctx, number, try)
		if err != nil {
			return r, err
		}
		r.Attempts = append(r.Attempts, attempt)
		if attempt.Verdict != evidence.Inconclusive {
			break
		}
		e.say("repetition %d, attempt %d: %s: %s", number, try, attempt.Verdict, attempt.Diagnoses[0].Sentence)
	}
	return r, nil
}

func (e *series) attempt(ctx context.Context, repetition, try int) (evidence.Attempt, error) {
	name := fmt.Sprintf("%03d", repetition)
	if try > 1 {
		name = fmt.Sprintf("%03d.%d", repetition, try)
	}
	t := &attempt{
		system: e.system, options: e.options, dir: filepath.Join(e.dir, name), offset: e.offset(repetition, try),
		say: func(format string, args ...any) { e.say("repetition %d: %s", repetition, fmt.Sprintf(format, args...)) },
	}
	if err := t.play(ctx); err != nil {
		return evidence.Attempt{}, err
	}
	lastOfB(&t.facts)
	a := evidence.Attempt{Number: try, Facts: t.facts, CaptureDir: name, OffsetMillis: t.offset.Milliseconds()}
	a.Cells, a.Verdict, a.Diagnoses = evidence.Judge(e.options.mode, e.options.pause, t.facts)
	return a, t.writeFacts()
}

// offset is how long A works before it is stopped: what was asked for, give or take a fifth, by the seed.
func (e *series) offset(repetition, try int) time.Duration {
	random := rand.New(rand.NewPCG(e.options.seed, uint64(repetition)<<8|uint64(try)))
	return time.Duration(float64(e.options.pauseOffset) * (0.8 + 0.4*random.Float64()))
}

// stayUp leaves the system as it is until Ctrl-C.
func (e *series) stayUp(ctx context.Context) {
	e.say("\nThe system is still up, with the switches of mode %s. Ctrl-C ends it.", e.options.mode)
	e.say("  web UI     %s", e.profile.UI)
	e.say("  paydb      export PAYDB_URL='%s'", e.profile.PaydbURL)
	e.say("             psql \"$PAYDB_URL\" -c 'SELECT payout_id, presented_token, outcome, submitted_at FROM rail_submission ORDER BY submitted_at'")
	e.say("             psql \"$PAYDB_URL\" -c 'SELECT payout_id, direction, amount_minor, fence, created_at FROM ledger_entry WHERE payout_id IS NOT NULL ORDER BY id'")
	e.say("             RAIL_STUB_URL=%s %s check", e.profile.RailStub, e.binary)
	e.say("  logs       %s", e.profile.Logs)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	_ = e.stack.Wait(ctx) // the verdict is out; how the system ends changes nothing about it
}
