package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
)

// runner starts a workflow of one kind and waits for its end. It is called from several goroutines.
type runner interface {
	execute(ctx context.Context) (workflowID string, err error)
}

// measurement is one run.
type measurement struct {
	options  options
	system   *system
	meter    *meter
	runners  map[kind]runner
	progress io.Writer

	inFlight, lone Comparison
	loneRuns       map[kind][]loneRun
}

// loneRun is a workflow that ran alone, with what the client measured of it.
type loneRun struct {
	workflowID string
	latency    time.Duration
}

// measure starts a system, measures, and stops it again. A report comes with an error when stopping failed: its figures hold.
func measure(ctx context.Context, o options, progress io.Writer) (*Report, error) {
	s, err := startSystem(ctx, o, progress)
	if err != nil {
		return nil, err
	}
	report, err := measureOn(ctx, s, o, progress)
	return report, errors.Join(err, s.stop())
}

// measureOn measures on a running system. There is a report or an error.
func measureOn(ctx context.Context, s *system, o options, progress io.Writer) (*Report, error) {
	warmup := 2 * o.inFlight
	executed := warmup + o.payouts + o.lone
	payouts, err := newPayouts(ctx, s, executed, o.accounts)
	if err != nil {
		return nil, err
	}
	m := &measurement{
		options: o, system: s, meter: newMeter(s.watched()), progress: progress,
		runners:  map[kind]runner{payoutKind: payouts, bareKind: bareRunner{s.temporal}},
		loneRuns: map[kind][]loneRun{},
	}
	report := &Report{StartedAt: time.Now().UTC(), Settings: settingsOf(o)}
	if report.Machine, err = describeMachine(ctx, s); err != nil {
		return nil, err
	}
	if err := m.run(ctx, warmup); err != nil {
		return nil, err
	}
	if report.Wrong, err = wrongs(ctx, s, executed, payouts.outcomes); err != nil {
		return nil, err
	}
	report.Outcomes = payouts.outcomes
	if err := m.fill(ctx, report); err != nil {
		return nil, err
	}
	return report, nil
}

func (m *measurement) run(ctx context.Context, warmup int) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	watching := make(chan error, 1)
	go func() { watching <- m.meter.watchTrees(ctx) }()
	m.say("warming up with %d payouts and %d bare workflows", warmup, warmup)
	for _, k := range []kind{payoutKind, bareKind} {
		if _, _, err := m.block(ctx, k, warmup); err != nil {
			return err
		}
	}
	if err := m.meter.begin(); err != nil {
		return err
	}
	for round := range m.options.rounds {
		if err := m.round(ctx, round); err != nil {
			return err
		}
	}
	if err := m.runLone(ctx); err != nil {
		return err
	}
	stop()
	return <-watching
}

func (m *measurement) say(format string, args ...any) {
	_, _ = fmt.Fprintf(m.progress, format+"\n", args...) // a lost progress line harms nobody
}

// round runs one block of each kind. The order changes from round to round, so that neither a drift of the machine nor
// what a block leaves behind favours one kind.
func (m *measurement) round(ctx context.Context, round int) error {
	order := []kind{payoutKind, bareKind}
	if round%2 == 1 {
		order = []kind{bareKind, payoutKind}
	}
	n := share(m.options.payouts, m.options.rounds, round)
	for _, k := range order {
		err := m.meter.during(ctx, k, func() error { return m.timedBlock(ctx, k, n) })
		if err != nil {
			return err
		}
	}
	return nil
}

// share is how many of n belong to part i of parts: all parts together n, none more than one larger than another.
func share(n, parts, i int) int { return (i+1)*n/parts - i*n/parts }

func (m *measurement) timedBlock(ctx context.Context, k kind, n int) error {
	stopProfiles, err := m.startProfiles(k)
	if err != nil {
		return err
	}
	latencies, spent, err := m.block(ctx, k, n)
	if err := errors.Join(err, stopProfiles()); err != nil {
		return err
	}
	m.inFlight.of(k).add(latencies, spent)
	m.say("%-7s %4d in %6.2f s: %5.1f/s", k, n, spent.Seconds(), float64(n)/spent.Seconds())
	return nil
}

// block runs n workflows, with as many under way at once as the options say, and returns the latency of each and the time of all.
func (m *measurement) block(ctx context.Context, k kind, n int) ([]time.Duration, time.Duration, error) {
	latencies := make([]time.Duration, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(m.options.inFlight)
	began := time.Now()
	for i := range n {
		group.Go(func() error {
			started := time.Now()
			_, err := m.runners[k].execute(ctx)
			latencies[i] = time.Since(started)
			return err
		})
	}
	err := group.Wait()
	return latencies, time.Since(began), err
}

// loneRest is between two lone workflows: the engine finishes what the one before has left over.
const loneRest = 50 * time.Millisecond

// runLone runs one payout and one bare workflow in turn, each alone.
func (m *measurement) runLone(ctx context.Context) error {
	if m.options.lone > 0 {
		m.say("%d payouts and %d bare workflows, one after another", m.options.lone, m.options.lone)
	}
	for range m.options.lone {
		for _, k := range []kind{payoutKind, bareKind} {
			if err := rest(ctx, loneRest); err != nil {
				return err
			}
			started := time.Now()
			id, err := m.runners[k].execute(ctx)
			if err != nil {
				return err
			}
			latency := time.Since(started)
			m.lone.of(k).add([]time.Duration{latency}, latency)
			m.loneRuns[k] = append(m.loneRuns[k], loneRun{id, latency})
		}
	}
	return nil
}

// fill makes the report of what was measured.
func (m *measurement) fill(ctx context.Context, r *Report) error {
	for _, c := range []*Comparison{&m.inFlight, &m.lone} {
		c.Payout.finish()
		c.Bare.finish()
	}
	m.inFlight.Ratio = ratio(m.inFlight.Payout.PerSecond, m.inFlight.Bare.PerSecond)
	m.lone.Ratio = ratio(m.lone.Payout.P50Millis, m.lone.Bare.P50Millis)
	r.InFlight, r.Lone = m.inFlight, m.lone
	var err error
	if r.Processes, err = m.processes(); err != nil {
		return err
	}
	r.CPURatio, r.Elsewhere = cpuRatio(r.Processes), m.elsewhere()
	if r.Steps, r.Stalls, err = m.explain(ctx); err != nil {
		return err
	}
	r.Targets = targets(r)
	return nil
}
