package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"railguard/activities"
	"railguard/services/httpclient"
	"railguard/services/lockapi"
)

// The limits of single calls, as the clients have them.
const (
	paymentCall = 3 * time.Second
	renewCall   = 2 * time.Second
)

func timings() map[string]activities.Timing {
	return map[string]activities.Timing{
		"defaults":          {LockTTL: 30 * time.Second, LockWait: 2 * time.Second, SafetyMargin: 0.3, SubmitBudget: 10 * time.Second},
		"experiment":        {LockTTL: 5 * time.Second, LockWait: 2 * time.Second, SafetyMargin: 0.3, SubmitBudget: 2 * time.Second, WorkDuration: 20 * time.Second},
		"short experiment":  {LockTTL: 3 * time.Second, LockWait: time.Second, SafetyMargin: 0.3, SubmitBudget: time.Second, WorkDuration: 6 * time.Second},
		"longest lock wait": {LockTTL: 60 * time.Second, LockWait: 30 * time.Second, SafetyMargin: 0.6, SubmitBudget: 20 * time.Second},
	}
}

func TestTheTimesFitIntoEachOther(t *testing.T) {
	for name, timing := range timings() {
		t.Run(name, func(t *testing.T) {
			o := options{timing}
			for step, limits := range map[string]workflow.ActivityOptions{
				"load": o.load(), "claim": o.claim(time.Second), "post": o.post(), "recordOutcome": o.recordOutcome(), "abandon": o.abandon(),
			} {
				require.Greater(t, limits.StartToCloseTimeout, paymentCall, "%s: the call ends before the step does", step)
			}
			reads := time.Duration(httpclient.Reads.Retries+1)*httpclient.Reads.Whole + time.Duration(httpclient.Reads.Retries)*50*time.Millisecond
			require.Greater(t, o.lookup().StartToCloseTimeout, reads)
			require.Greater(t, o.load().StartToCloseTimeout, reads)
			require.Greater(t, o.release().StartToCloseTimeout, renewCall)
			require.Greater(t, o.acquire().StartToCloseTimeout, lockapi.AcquireBound(timing.LockWait), "the step covers its own five tries")

			submit := o.submit(time.Second)
			require.Greater(t, submit.StartToCloseTimeout, timing.SubmitBound(), "adoption, work and the whole call end before Temporal gives up")
			require.Equal(t, timing.SubmitBudget+timing.WorkDuration+5*time.Second, submit.StartToCloseTimeout)
			require.Zero(t, submit.HeartbeatTimeout)
			require.Zero(t, submit.ScheduleToCloseTimeout, "it would count the work twice")

			longest := LongestActivity(timing)
			for _, limits := range []workflow.ActivityOptions{o.load(), o.acquire(), o.claim(time.Second), o.lookup(), submit, o.post(), o.recordOutcome(), o.abandon(), o.release()} {
				require.GreaterOrEqual(t, longest, limits.StartToCloseTimeout)
			}
			require.Less(t, timing.Reserve(timing.LockTTL), timing.LockTTL, "a fresh lease covers a submission")
		})
	}
}

func TestHowOftenEachStepIsTried(t *testing.T) {
	o := options{timings()["defaults"]}
	for step, c := range map[string]struct {
		options  workflow.ActivityOptions
		attempts int32
	}{
		"LoadPayout":        {o.load(), 5},
		"AcquireLock":       {o.acquire(), 3},
		"ClaimPayout":       {o.claim(time.Second), 5},
		"LookupSubmission":  {o.lookup(), 5},
		"SubmitToRail":      {o.submit(time.Second), 1},
		"PostLedger":        {o.post(), 0},
		"RecordRailOutcome": {o.recordOutcome(), 0},
		"AbandonClaim":      {o.abandon(), 3},
		"ReleaseLock":       {o.release(), 1},
	} {
		require.Equal(t, c.attempts, c.options.RetryPolicy.MaximumAttempts, "%s (0 is no limit)", step)
	}
	require.Equal(t, 30*time.Second, o.post().RetryPolicy.MaximumInterval)
	require.Equal(t, 30*time.Second, o.recordOutcome().RetryPolicy.MaximumInterval)
	require.Panics(t, func() { attempts(0) }, "0 would be no limit")
}

func TestTheLeaseIsReckonedFromTheTryThatWasGranted(t *testing.T) {
	scheduled := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	held := newLease(activities.AcquireResult{FencingToken: 7, TTLMillis: 30_000, SpentMillis: 4_000, ReserveMillis: 19_000}, scheduled)
	at := scheduled.Add
	require.Equal(t, 30*time.Second, held.remaining(at(4*time.Second)), "waiting for the lock costs nothing")
	require.Equal(t, 28*time.Second, held.remaining(at(6*time.Second)), "queueing does")
	require.Equal(t, 9*time.Second, held.spare(at(6*time.Second)))
	require.Zero(t, held.spare(at(15*time.Second)))
	require.Negative(t, held.remaining(at(35*time.Second)))

	submit := options{timings()["defaults"]}.submit(held.spare(at(6 * time.Second)))
	require.Equal(t, held.remaining(at(6*time.Second)), submit.ScheduleToStartTimeout+19*time.Second,
		"handed out at the last moment, a submission still ends within the lease less the margin")
}
