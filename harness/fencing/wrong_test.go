//go:build fencing

package main

import (
	"context"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"

	"railguard/deploy/local"
	"railguard/deploy/local/child"
	"railguard/harness/fencing/evidence"
)

// Each of these makes the experiment go wrong on purpose. None may pass, and each must be called by its name.

func TestAThatNeverReachesTheRailIsNoPass(t *testing.T) {
	t.Parallel()
	o := try(t, interference{beforeThaw: func(_ context.Context, a *attempt) error {
		if err := a.a.Signal(syscall.SIGKILL); err != nil {
			return err
		}
		<-a.a.Done()
		return nil
	}}, "--fencing", "on", "--attempts", "2")
	require.Equal(t, exitFailed, o.exit)
	require.Equal(t, evidence.Inconclusive, o.run.Repetitions[0].Last().Verdict)
	require.Contains(t, o.codes(), evidence.NeverReached)
	require.Equal(t, 2, o.run.Summary.Inconclusive, "both tries are shown")
	require.Contains(t, o.out, "0/1 on: not identical; inconclusive 2\n")
}

// asSuperuser changes paydb as nobody in the product can.
func asSuperuser(ctx context.Context, a *attempt, statements ...string) error {
	conn, err := pgx.Connect(ctx, a.stack.PaydbURL())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, sql := range append([]string{`SET session_replication_role = replica`}, statements...) { // no triggers
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

func TestARefusalByTheStateMachineIsNoFence(t *testing.T) {
	t.Parallel()
	t.Run("at the rail", func(t *testing.T) {
		t.Parallel()
		o := try(t, interference{beforeThaw: func(ctx context.Context, a *attempt) error {
			return asSuperuser(ctx, a, `DELETE FROM rail_high_water`) // the guard has forgotten B's token
		}}, "--fencing", "on")
		require.Equal(t, exitFailed, o.exit)
		f := o.run.Repetitions[0].Last().Facts
		require.Len(t, f.Requests, 1, "it looks like a pass")
		require.Equal(t, "duplicate", f.A.Step("SubmitToRail").Outcome)
		require.Contains(t, o.codes(), evidence.NotByTheFence)
	})
	t.Run("at the account", func(t *testing.T) {
		t.Parallel()
		o := try(t, interference{beforeThaw: func(ctx context.Context, a *attempt) error {
			return asSuperuser(ctx, a, `UPDATE account SET fence = 0`)
		}}, "--fencing", "account-only")
		require.Equal(t, exitFailed, o.exit)
		f := o.run.Repetitions[0].Last().Facts
		require.Len(t, f.Ledger, 2, "it looks like a pass")
		require.Equal(t, "notClaimable", f.A.Step("PostLedger").Outcome)
		require.Contains(t, o.codes(), evidence.NotByTheFence)
	})
}

// A guard that says it compares and does not.
func TestOneGuardThatIsNotWiredIsNoPass(t *testing.T) {
	t.Parallel()
	for guard, spoil := range map[string]interference{
		"rail-proxy": {
			env:       map[string][]string{local.RailProxy: {"RAIL_PROXY_FENCING_ENABLED=false"}},
			guardsSay: func(g *evidence.Guards) { g.RailProxy.FencingEnabled = true },
		},
		"payment-resource": {
			env:       map[string][]string{local.PaymentResource: {"PAYMENT_FENCING_ENABLED=false"}},
			guardsSay: func(g *evidence.Guards) { g.PaymentResource.FencingEnabled = true },
		},
	} {
		t.Run(guard, func(t *testing.T) {
			t.Parallel()
			o := try(t, spoil, "--fencing", "on")
			require.Equal(t, exitFailed, o.exit)
			last := o.run.Repetitions[0].Last()
			require.Equal(t, evidence.Diverged, last.Verdict)
			require.Equal(t, evidence.GuardSilent, last.Diagnoses[0].Code)
			require.Contains(t, last.Diagnoses[0].Sentence, guard)
		})
	}
}

func TestASwitchInTheOtherPositionIsRefused(t *testing.T) {
	t.Parallel()
	o := try(t, interference{env: map[string][]string{local.PaymentResource: {"PAYMENT_FENCING_ENABLED=true"}}}, "--fencing", "off")
	require.Equal(t, exitUsage, o.exit)
	require.Contains(t, o.progress, string(evidence.SwitchWrong))
	require.Contains(t, o.progress, "payment-resource says fencingEnabled=true at /info; mode off needs it started with PAYMENT_FENCING_ENABLED=false")
	require.Empty(t, o.run.Repetitions, "nothing was tried")
}

func TestTheWrongProcessIsNoticed(t *testing.T) {
	t.Parallel()
	t.Run("no worker at all", func(t *testing.T) {
		t.Parallel()
		other, err := child.Start(exec.Command("sleep", "600"), syscall.SIGKILL)
		require.NoError(t, err)
		defer func() { require.NoError(t, other.Stop(syscall.SIGKILL, 10*time.Second)) }()
		o := try(t, interference{freeze: func(*attempt) (process, error) { return other, nil }}, "--fencing", "off")
		require.Equal(t, exitFailed, o.exit)
		last := o.run.Repetitions[0].Last()
		require.Equal(t, evidence.Diverged, last.Verdict)
		require.Equal(t, evidence.WrongProcess, last.Diagnoses[0].Code)
		require.Contains(t, last.Diagnoses[0].Sentence, `its command line is "sleep 600"`)
		state, err := processState(other.PID())
		require.NoError(t, err)
		require.Equal(t, "S", state, "it was left alone")
	})
	t.Run("another worker of the same queue", func(t *testing.T) {
		t.Parallel()
		var other *workerProcess
		o := try(t, interference{freeze: func(a *attempt) (_ process, err error) {
			other, err = a.startWorker(a.a.queue, a.file("other.log"), a.workerEnv()...)
			return other, err
		}}, "--fencing", "off", "--work", "15s") // A is still at work when the lease ought to have lapsed
		if other != nil {
			require.NoError(t, other.Stop(syscall.SIGKILL, 10*time.Second))
		}
		require.Equal(t, exitFailed, o.exit)
		last := o.run.Repetitions[0].Last()
		require.Equal(t, evidence.Diverged, last.Verdict)
		require.Equal(t, evidence.LeaseKept, last.Diagnoses[0].Code)
		require.Nil(t, last.Facts.B.Steps, "B was not started")
	})
}

func TestAPauseThatComesTooEarly(t *testing.T) {
	t.Parallel()
	tries := 0
	o := try(t, interference{freezeAt: func(ctx context.Context, a *attempt) error {
		if tries++; tries > 1 {
			return awaitWindowAndOffset(ctx, a)
		}
		return nil // as soon as A's run was started
	}}, "--fencing", "on")
	require.Equal(t, exitShown, o.exit, "another attempt was made")
	attempts := o.run.Repetitions[0].Attempts
	require.Equal(t, evidence.Inconclusive, attempts[0].Verdict)
	require.Equal(t, evidence.PausedTooEarly, attempts[0].Diagnoses[0].Code)
	require.Equal(t, len(attempts)-1, o.run.Summary.Inconclusive)
	require.NotEqual(t, attempts[0].OffsetMillis, attempts[1].OffsetMillis)
	require.NotEqual(t, attempts[0].Facts.PayoutID, attempts[1].Facts.PayoutID)
}

func TestAPauseThatComesTooLate(t *testing.T) {
	t.Parallel()
	o := try(t, interference{freezeAt: func(ctx context.Context, a *attempt) error {
		return await(ctx, func() (bool, error) {
			log, err := a.stub.Requests(ctx, a.facts.PayoutID)
			return err == nil && len(log.Requests) > 0, err
		}, func() string { return "A has not submitted" })
	}}, "--fencing", "on", "--attempts", "1", "--work", "4s")
	require.Equal(t, exitFailed, o.exit)
	require.Equal(t, evidence.Inconclusive, o.run.Repetitions[0].Last().Verdict)
	require.Contains(t, o.codes(), evidence.PausedTooLate)
}

func TestAPauseThatOutlivesTheAttempt(t *testing.T) {
	t.Parallel()
	o := try(t, interference{beforeThaw: func(ctx context.Context, a *attempt) error {
		// Until Temporal has ended A's SubmitToRail: nobody else looks at A's run while its worker is stopped.
		return await(ctx, func() (bool, error) {
			d, err := a.temporal.DescribeWorkflow(ctx, a.facts.A.WorkflowID, a.facts.A.RunID)
			return err == nil && len(d.RawResponse.GetPendingActivities()) == 0 && d.Status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING, err
		}, func() string { return "A's attempt has not timed out" })
	}}, "--fencing", "on", "--attempts", "1")
	require.Equal(t, exitFailed, o.exit)
	require.Equal(t, evidence.Inconclusive, o.run.Repetitions[0].Last().Verdict)
	require.Contains(t, o.codes(), evidence.AttemptEnded)
}

func TestALogOfTheRailThatWasLost(t *testing.T) {
	t.Parallel()
	o := try(t, interference{beforeThaw: func(ctx context.Context, a *attempt) error {
		return a.stack.Process(local.RailStub).Restart(ctx)
	}}, "--fencing", "off")
	require.Equal(t, exitFailed, o.exit)
	last := o.run.Repetitions[0].Last()
	require.Len(t, last.Facts.Requests, 1, "the log alone would say that the rail was called once")
	require.Equal(t, evidence.Diverged, last.Verdict)
	require.Contains(t, o.codes(), evidence.RailLogLost)
	require.Contains(t, o.codes(), evidence.RailLogDiffers)
}
