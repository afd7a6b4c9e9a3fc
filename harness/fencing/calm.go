package main

import (
	"context"
	"fmt"
	"time"

	"railguard/harness/fencing/evidence"
)

// calmWait is B's PAYOUT_LOCK_WAIT in the control: it asks often and gives up early, so that several of its runs end while
// A holds the lock.
const calmWait = 100 * time.Millisecond

// playCalm is the control: nothing stops. A works on and renews its lease, and B asks for the lock all the while.
func (t *attempt) playCalm(ctx context.Context) (err error) {
	if err := t.awaitWindow(ctx); err != nil {
		return err
	}
	if t.b, err = t.startWorker(t.facts.B.TaskQueue, t.file("b.log"), t.workerEnv("PAYOUT_LOCK_WAIT="+calmWait.String())...); err != nil {
		return err
	}
	t.facts.B.ProcessID = t.b.PID()
	ended := make(chan error, 1)
	go func() { ended <- t.outcome(ctx, &t.facts.A, t.runA, t.a) }()
	for {
		w := t.facts.B
		run, err := t.startRun(ctx, w.WorkflowID, w.TaskQueue, t.facts.PayoutID)
		if err == nil {
			w.RunID, t.runB = run.GetRunID(), run
			err = t.outcome(ctx, &w, run, t.b)
		}
		if err != nil {
			return fmt.Errorf("run %d of B: %w", len(t.facts.C)+1, err)
		}
		t.facts.C = append(t.facts.C, w)
		select {
		case err := <-ended:
			return err
		default:
		}
	}
}

// lastOfB lets the last of B's runs stand for B where one is asked for.
func lastOfB(f *evidence.Facts) {
	if len(f.C) > 0 {
		f.B = f.C[len(f.C)-1]
	}
}
