package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"railguard/harness/fencing/evidence"
	"railguard/services/paymentapi"
)

// The money of an attempt, in minor units.
const (
	openingMinor = 10_000
	amountMinor  = 100
)

// lapseGrace is how much longer than its TTL a lease may be seen to live: the look-up's own time, and a machine's
// that is busy.
const lapseGrace = 5 * time.Second

// interference is how tests make the experiment go wrong on purpose. Every field is nil in an experiment.
type interference struct {
	env         map[string][]string                   // more variables for the stack's processes
	freezeAt    func(context.Context, *attempt) error // instead of waiting for A's submit window and the offset
	freeze      func(*attempt) (process, error)       // instead of A's process
	afterFreeze func(context.Context, *attempt) error // once A is stopped and its lease has lapsed, before B
	beforeThaw  func(context.Context, *attempt) error // once B has ended
	guardsSay   func(*evidence.Guards)                // what the guards said before the run
}

// attempt is one payout that two workers execute, one of them with a hole in its time.
type attempt struct {
	*system
	options options
	dir     string // of its capture
	offset  time.Duration
	facts   evidence.Facts

	a, b       *workerProcess
	frozen     process
	runA, runB client.WorkflowRun
	watch      *leaseWatch
}

// play makes the attempt and gathers its facts. An error says that it could not be made; that an attempt was made and
// shows nothing is told by the facts' Trouble.
func (t *attempt) play(ctx context.Context) (err error) {
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.end(ctx)) }()
	if err := t.prepare(ctx); err != nil {
		return err
	}
	defer func() {
		leases := t.watch.stop()
		if t.facts.Leases == nil {
			t.facts.Leases = leases
		}
	}()
	if err := t.startA(ctx); err != nil {
		return err
	}
	play := t.playPause
	if t.options.pause == evidence.NoPause {
		play = t.playCalm
	}
	if err := play(ctx); err != nil {
		return err
	}
	t.facts.Leases = t.watch.stop()
	return t.collect(ctx)
}

func (t *attempt) trouble(code evidence.Code, format string, args ...any) {
	t.facts.Trouble = append(t.facts.Trouble, evidence.Diagnosis{Code: code, Sentence: fmt.Sprintf(format, args...)})
}

// prepare makes the account and the payout, through the API, and reads the books.
func (t *attempt) prepare(ctx context.Context) error {
	id := uuid.NewString()
	t.facts.AccountID = "fencing-" + id
	if _, err := t.payments.CreateAccount(ctx, ownerID, paymentapi.CreateAccountRequest{AccountID: t.facts.AccountID, Currency: "EUR", OpeningMinor: openingMinor}); err != nil {
		return err
	}
	payout, err := t.payments.CreatePayout(ctx, ownerID, paymentapi.CreatePayoutRequest{
		ExternalRef: id, AccountID: t.facts.AccountID, AmountMinor: amountMinor, Currency: "EUR", BeneficiaryRef: "beneficiary-" + id[:8]})
	if err != nil {
		return err
	}
	t.facts.PayoutID = payout.PayoutID
	t.facts.A = evidence.Worker{TaskQueue: "fencing-a-" + payout.PayoutID, WorkflowID: "payout-" + payout.PayoutID}
	t.facts.B = evidence.Worker{TaskQueue: "fencing-b-" + payout.PayoutID, WorkflowID: "payout-" + payout.PayoutID + "-b"}
	if t.facts.Before, err = t.books(ctx, t.paydb); err != nil {
		return err
	}
	log, err := t.stub.Requests(ctx, payout.PayoutID)
	if err != nil {
		return err
	}
	t.facts.StubStartedBefore = log.StartedAt
	t.watch = watchLeases(ctx, t.locks, "payout:"+t.facts.AccountID)
	return nil
}

func (t *attempt) workerEnv(more ...string) []string {
	return append([]string{"PAYOUT_LOCK_TTL=" + t.options.leaseTTL.String(), "SUBMIT_BUDGET=" + t.options.budget.String()}, more...)
}

func (t *attempt) startA(ctx context.Context) (err error) {
	if t.a, err = t.startWorker(t.facts.A.TaskQueue, t.file("a.log"), t.workerEnv("PAYOUT_WORK_DURATION="+t.options.work.String())...); err != nil {
		return err
	}
	t.facts.A.ProcessID = t.a.PID()
	if t.runA, err = t.startRun(ctx, t.facts.A.WorkflowID, t.facts.A.TaskQueue, t.facts.PayoutID); err != nil {
		return err
	}
	t.facts.A.RunID = t.runA.GetRunID()
	return nil
}

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
	if f := t.options.interference.afterFreeze; f != nil {
		if err := f(ctx, t); err != nil {
			return err
		}
	}
	if err := t.takeOver(ctx); err != nil {
		return err
	}
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

// runLimit bounds a run, beyond what A's work and the lease account for.
const runLimit = 90 * time.Second

// takeOver starts B and lets it finish the payout.
func (t *attempt) takeOver(ctx context.Context) (err error) {
	if t.b, err = t.startWorker(t.facts.B.TaskQueue, t.file("b.log"), t.workerEnv()...); err != nil {
		return err
	}
	t.facts.B.ProcessID = t.b.PID()
	if t.runB, err = t.startRun(ctx, t.facts.B.WorkflowID, t.facts.B.TaskQueue, t.facts.PayoutID); err != nil {
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
	if err := thaw(ctx, t.frozen); err != nil {
		return t.unlessGone(err)
	}
	t.facts.Freeze.ThawedAt = time.Now()
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

// outcome waits for a run's result and notes it. A run that failed has no outcome, and its error as the reason.
func (t *attempt) outcome(ctx context.Context, w *evidence.Worker, run client.WorkflowRun, by *workerProcess) error {
	r, err := awaitRun(ctx, run, by, t.options.work+t.options.leaseTTL+runLimit)
	var failed *temporal.WorkflowExecutionError
	if errors.As(err, &failed) {
		r, err = result{Reason: failed.Error()}, nil
	}
	w.Outcome, w.State, w.Reason = r.Outcome, r.State, r.Reason
	return err
}

// end ends both workers, in whatever state they are: their runs have ended, or nobody waits for them any more. On a system that
// goes on, a run that is still open is terminated: no worker would ever come for it.
func (t *attempt) end(ctx context.Context) error {
	var errs []error
	for _, w := range []*workerProcess{t.a, t.b} {
		if w != nil {
			errs = append(errs, w.Stop(syscall.SIGKILL, 10*time.Second))
		}
	}
	if t.stack != nil {
		return errors.Join(errs...)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	for _, run := range []client.WorkflowRun{t.runA, t.runB} {
		if run == nil {
			continue
		}
		err := t.temporal.TerminateWorkflow(ctx, run.GetID(), run.GetRunID(), "the fencing experiment is over")
		var ended *serviceerror.NotFound
		if err != nil && !errors.As(err, &ended) {
			errs = append(errs, fmt.Errorf("run %s is still open: %w", run.GetID(), err))
		}
	}
	return errors.Join(errs...)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
