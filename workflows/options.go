package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"railguard/activities"
)

// The time limits of one attempt. A call to the payment-resource takes 3 s at most and a read of the
// rail-proxy 3 s with its repetitions; the second beyond is for the worker.
const (
	stepLimit    = 4 * time.Second
	releaseLimit = 3 * time.Second
	acquireSlack = 2 * time.Second
	submitSlack  = 5 * time.Second // covers the adoption of the lease, and then some
)

// options are the activity options of a worker. They are in no history, so a change of the configuration cannot
// break a replay; what the workflow decides by comes out of activity results.
type options struct{ timing activities.Timing }

// LongestActivity is the longest start-to-close of all steps: a worker that shuts down waits as long.
func LongestActivity(t activities.Timing) time.Duration {
	o := options{t}
	return max(stepLimit, releaseLimit, o.acquire().StartToCloseTimeout, o.submit(0).StartToCloseTimeout)
}

func (o options) load() workflow.ActivityOptions {
	return workflow.ActivityOptions{StartToCloseTimeout: stepLimit, RetryPolicy: attempts(5)}
}

func (o options) acquire() workflow.ActivityOptions {
	return workflow.ActivityOptions{StartToCloseTimeout: o.timing.AcquireBound() + acquireSlack, RetryPolicy: attempts(3)}
}

// claim is tried only while the lease lasts: a later claim would be made in the name of a lock that
// another may hold.
func (o options) claim(remaining time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{StartToCloseTimeout: stepLimit, ScheduleToCloseTimeout: remaining, RetryPolicy: attempts(5)}
}

func (o options) lookup() workflow.ActivityOptions {
	return workflow.ActivityOptions{StartToCloseTimeout: stepLimit, RetryPolicy: attempts(5)}
}

// submit happens once (INV-02). It must be handed out while what remains of the lease still covers it.
func (o options) submit(scheduleToStart time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		StartToCloseTimeout:    o.timing.SubmitBudget + submitSlack + o.timing.WorkDuration,
		ScheduleToStartTimeout: scheduleToStart,
		RetryPolicy:            attempts(1),
	}
}

func (o options) post() workflow.ActivityOptions {
	return workflow.ActivityOptions{StartToCloseTimeout: stepLimit, RetryPolicy: untilAnswered()}
}

func (o options) recordOutcome() workflow.ActivityOptions {
	return workflow.ActivityOptions{StartToCloseTimeout: stepLimit, RetryPolicy: untilAnswered()}
}

func (o options) abandon() workflow.ActivityOptions {
	return workflow.ActivityOptions{StartToCloseTimeout: stepLimit, RetryPolicy: attempts(3)}
}

func (o options) release() workflow.ActivityOptions {
	return workflow.ActivityOptions{StartToCloseTimeout: releaseLimit, RetryPolicy: attempts(1)}
}

// attempts is a policy of at most n attempts, n at least 1: Temporal takes 0 for no limit.
func attempts(n int32) *temporal.RetryPolicy {
	if n < 1 {
		panic("workflows: a bounded retry policy needs at least one attempt")
	}
	return &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: time.Second, MaximumAttempts: n}
}

// untilAnswered has no limit. It is for writes that are fenced and answered again as before.
func untilAnswered() *temporal.RetryPolicy {
	return &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second}
}
