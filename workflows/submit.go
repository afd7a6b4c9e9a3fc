package workflows

import (
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"railguard/activities"
	"railguard/services/fencing"
)

// submit presents the payout to the rail, once. Nothing blocks between the last look at cancellation and
// at the lease and the moment when the submission is scheduled.
func (e *execution) submit(token fencing.Token, held lease, claim activities.ClaimResult) (ending, error) {
	if e.cancelled() {
		return e.handBack(token, OutcomeAbandoned, "cancelled before the submission"), nil
	}
	spare := held.spare(workflow.Now(e.ctx))
	if spare <= 0 {
		return e.handBack(token, OutcomeAbandoned, "the lease is too short to cover the submission"), nil
	}
	result, err := e.submitOnce(token, spare, claim)
	if err != nil {
		if neverHandedOut(err) {
			return e.handBack(token, OutcomeAbandoned, "no worker took the submission in time"), nil
		}
		return e.unknown(token, claim, short(err))
	}
	switch result.Outcome {
	case activities.Acked:
		return e.post(token, claim, acknowledgement{result.RailReference, result.SubmissionID, result.SubmittedAt, result.ResolvedAt})
	case activities.Rejected:
		return e.declined(token, claim, result.SubmissionID, result.Reason)
	case activities.Ambiguous:
		return e.ambiguous(token, claim, result.SubmissionID, result.Reason)
	case activities.SubmitFencedOut:
		return e.handBack(token, OutcomeFenced, result.Reason), nil
	case activities.Unavailable, activities.NotHeld:
		return e.handBack(token, OutcomeAbandoned, result.Reason), nil
	case activities.Duplicate:
		// The claim is not handed back: the payout was presented, and a recovery completes it from the record.
		workflow.GetLogger(e.ctx).Error("the payout had been submitted before", "payoutId", e.payoutID, "token", token)
		return ending{OutcomeAbandoned, result.Reason}, nil
	}
	return e.unknown(token, claim, "the submission answered an outcome that is not known")
}

// unknown follows a submission of which nothing is known: it may have run, may run later, may never run.
// One look-up may show that it was answered; whatever else it shows, the payout is ambiguous. There is
// never a second submission (INV-02).
func (e *execution) unknown(token fencing.Token, claim activities.ClaimResult, reason string) (ending, error) {
	found, err := e.lookup(token)
	if err != nil || found.Outcome == activities.NothingPresented {
		return e.ambiguous(token, claim, "", "the submission's end is unknown: "+reason)
	}
	return e.settle(token, claim, found)
}

// neverHandedOut reports whether a step failed without ever having been given to a worker.
func neverHandedOut(err error) bool {
	var step *temporal.ActivityError
	var timeout *temporal.TimeoutError
	return errors.As(err, &step) && step.StartedEventID() == 0 &&
		errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
}

// acknowledgement is the rail's yes; it is empty when it is stored with the payout already.
type acknowledgement struct {
	railReference, submissionID string
	submittedAt, resolvedAt     *time.Time
}
