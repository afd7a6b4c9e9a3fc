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

// interference is how tests make the experiment go wrong on purpose. Every field is nil in an experiment.
type interference struct {
	env        map[string][]string                             // more variables for the stack's processes
	freezeAt   func(context.Context, *attempt) error           // instead of waiting for A's submit window and the offset
	freeze     func(*attempt) (process, error)                 // instead of A's process
	payoutOfB  func(context.Context, *attempt) (string, error) // instead of A's payout
	beforeThaw func(context.Context, *attempt) error           // once B has ended
	guardsSay  func(*evidence.Guards)                          // what the guards said before the run
}

// attempt is one payout that two workers execute, one of them with a hole in its time.
type attempt struct {
	*system
	options options
	say     func(format string, args ...any) // what happens, as it happens
	dir     string                           // of its capture
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
	defer t.watch.stop()
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
	t.facts.PayoutID, t.facts.AmountMinor = payout.PayoutID, payout.AmountMinor
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

// runLimit bounds a run, beyond what A's work and the lease account for.
const runLimit = 90 * time.Second

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
