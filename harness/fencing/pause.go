package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"railguard/harness/fencing/evidence"
)

// lapseGrace is how much longer than its TTL a lease may be seen to live: the look-up's own time, and a machine's
// that is busy.
const lapseGrace = 5 * time.Second

// playPause is the experiment: freeze A in its submission, let the lease lapse, let B finish, thaw A.
func (t *attempt) playPause(ctx context.Context) error {
	at := awaitWindowAndOffset
	if t.options.interference.freezeAt != nil {
		at = t.options.interference.freezeAt
	}
	if err := at(ctx, t); err != nil {
		return err
	}
	if _, ended, err := runTimes(ctx, t.temporal, t.facts.A.WorkflowID, t.facts.A.RunID); err != nil || !ended.IsZero() {
		return errors.Join(err, t.outcome(ctx, &t.facts.A, t.runA, t.a)) // A gave up by itself: there is nothing to stop
	}
	if frozen, err := t.freezeA(ctx); err != nil || !frozen {
		return err
	}
	if asked, err := t.isInside(ctx); err != nil {
		return err
	} else if !asked {
		return t.letGo(ctx)
	}
	if lapsed, err := t.awaitLapse(ctx); err != nil || !lapsed {
		return err
	}
	t.say("A's lease has lapsed; B starts")
	if err := t.takeOver(ctx); err != nil {
		return err
	}
	t.say("B ended %s; A is woken", t.facts.B.Outcome)
	if f := t.options.interference.beforeThaw; f != nil {
		if err := f(ctx, t); err != nil {
			return err
		}
	}
	return t.letGo(ctx)
}

// windowLimit bounds how long A may take from its start to its submit window.
const windowLimit = 90 * time.Second

// awaitWindow waits until A says that it is past its last held-check: an event that A itself writes. It returns without
// one when A's run has ended: it will open no window any more.
func (t *attempt) awaitWindow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, windowLimit)
	defer cancel()
	return await(ctx, func() (bool, error) {
		if opened, err := t.readWindow(ctx); opened || err != nil {
			return opened, err
		}
		select {
		case <-t.a.Done():
			return false, &workerEnded{t.facts.A.WorkflowID, t.a}
		default:
		}
		_, ended, err := runTimes(ctx, t.temporal, t.facts.A.WorkflowID, t.facts.A.RunID)
		return !ended.IsZero(), err
	}, func() string {
		return "worker A has not opened its submit window; the last lines of its log:\n" + t.a.lastLines()
	})
}

// readWindow looks for A's event, and for the token in A's own history.
func (t *attempt) readWindow(ctx context.Context) (opened bool, err error) {
	if !t.facts.WindowOpenedAt.IsZero() {
		return true, nil
	}
	events, err := (&logFile{path: t.a.logPath}).events("submit_window_opened")
	if err != nil {
		return false, err
	}
	for _, e := range events {
		if e.PayoutID != t.facts.PayoutID {
			continue
		}
		t.facts.WindowOpenedAt, t.facts.WindowToken = e.Time, e.Token
		_, t.facts.A.Token, err = readHistory(ctx, t.temporal, t.facts.A.WorkflowID, t.facts.A.RunID)
		return true, err
	}
	return false, nil
}

// awaitWindowAndOffset also lets A work for a while, as long as this attempt is to.
func awaitWindowAndOffset(ctx context.Context, t *attempt) error {
	if err := t.awaitWindow(ctx); err != nil || t.facts.WindowOpenedAt.IsZero() {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(t.facts.WindowOpenedAt.Add(t.offset))):
		return nil
	}
}

// freezeA stops A's process and proves that it is A's and that it is stopped.
func (t *attempt) freezeA(ctx context.Context) (frozen bool, err error) {
	t.frozen = t.a
	if f := t.options.interference.freeze; f != nil {
		if t.frozen, err = f(t); err != nil {
			return false, err
		}
	}
	if wrong := identify(t.frozen, t.facts.A.TaskQueue); wrong != nil {
		t.trouble(evidence.WrongProcess, "%v; nothing was stopped", wrong)
		return false, nil //nolint:nilerr // it is what the attempt shows
	}
	if err := freeze(ctx, t.frozen); err != nil {
		return false, err
	}
	state, err := processState(t.frozen.PID())
	t.facts.Freeze = &evidence.Freeze{ProcessID: t.frozen.PID(), State: state, StoppedAt: time.Now()}
	t.say("A, process %d, is about to submit under token %d, and is stopped", t.frozen.PID(), t.facts.A.Token)
	return true, err
}

// isInside checks, with A stopped, that A is past its last held-check, inside SubmitToRail, and that nothing of its
// submission has left.
func (t *attempt) isInside(ctx context.Context) (bool, error) {
	opened, err := t.readWindow(ctx)
	if err != nil {
		return false, err
	}
	if !opened {
		t.trouble(evidence.PausedTooEarly, "A was stopped before it was past its last held-check: on waking it would find its lease gone by itself, and no guard would be asked")
		return false, nil
	}
	if t.facts.WindowToken != t.facts.A.Token {
		return false, fmt.Errorf("the event of worker A names token %d, its history %d", t.facts.WindowToken, t.facts.A.Token)
	}
	if _, over := t.watch.seen(t.facts.A.Token); over {
		t.trouble(evidence.LapsedBefore, "A's lease under token %d was over before A was stopped: it was not the pause that lost it", t.facts.A.Token)
		return false, nil
	}
	log, err := t.stub.Requests(ctx, t.facts.PayoutID)
	if err != nil {
		return false, err
	}
	submissions, err := t.submissions(ctx, t.paydb)
	if err != nil {
		return false, err
	}
	if len(log.Requests) > 0 || len(submissions) > 0 {
		t.trouble(evidence.PausedTooLate, "A had submitted before it was stopped: rail-proxy has %d records of the payout and the rail %d requests", len(submissions), len(log.Requests))
		return false, nil
	}
	in, err := inside(ctx, t.temporal, t.facts.A.WorkflowID, t.facts.A.RunID, "SubmitToRail")
	if err != nil {
		return false, err
	}
	if !in {
		t.trouble(evidence.PausedTooLate, "A was not inside SubmitToRail when it was stopped")
	}
	return in, nil
}

// awaitLapse waits until A's lease is over, by the lock-server's word. A process that really holds the lock and really is
// stopped cannot renew it.
func (t *attempt) awaitLapse(ctx context.Context) (bool, error) {
	limit := t.options.leaseTTL + lapseGrace
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := await(within, func() (bool, error) {
		_, over := t.watch.seen(t.facts.A.Token)
		return over, nil
	}, func() string { return "the lease of worker A lives on" })
	if held, _ := t.watch.seen(t.facts.A.Token); !held {
		return false, fmt.Errorf("the lock-server was never seen to have granted token %d", t.facts.A.Token)
	}
	if err != nil && ctx.Err() == nil {
		t.trouble(evidence.LeaseKept, "A's lease under token %d still lives %v after process %d was stopped: somebody renews it, so that process is not the one that holds it",
			t.facts.A.Token, limit, t.facts.Freeze.ProcessID)
		return false, nil
	}
	return err == nil, err
}

// takeOver starts B and lets it finish the payout.
func (t *attempt) takeOver(ctx context.Context) (err error) {
	if t.b, err = t.startWorker(t.facts.B.TaskQueue, t.file("b.log"), t.workerEnv()...); err != nil {
		return err
	}
	t.facts.B.ProcessID = t.b.PID()
	payoutID := t.facts.PayoutID
	if f := t.options.interference.payoutOfB; f != nil {
		if payoutID, err = f(ctx, t); err != nil {
			return err
		}
	}
	if t.runB, err = t.startRun(ctx, t.facts.B.WorkflowID, t.facts.B.TaskQueue, payoutID); err != nil {
		return err
	}
	t.facts.B.RunID = t.runB.GetRunID()
	return t.outcome(ctx, &t.facts.B, t.runB, t.b)
}

// letGo thaws A and waits for the end of its run.
func (t *attempt) letGo(ctx context.Context) error {
	if state, err := processState(t.frozen.PID()); err != nil || state != stopped {
		t.trouble(evidence.NeverReached, "process %d was not stopped any more when it was to be woken (state %s)", t.frozen.PID(), orNone(state))
	}
	t.facts.Freeze.ThawedAt = time.Now() // before the signal: what A does afterwards is later
	if err := thaw(ctx, t.frozen); err != nil {
		return t.unlessGone(err)
	}
	return t.unlessGone(t.outcome(ctx, &t.facts.A, t.runA, t.a))
}

// unlessGone turns the end of A's process into a trouble: it never reached the rail.
func (t *attempt) unlessGone(err error) error {
	select {
	case <-t.a.Done():
		if err != nil {
			t.trouble(evidence.NeverReached, "A's process %d ended (%v) before its run did", t.a.PID(), t.a.Err())
		}
		return nil
	default:
		return err
	}
}
