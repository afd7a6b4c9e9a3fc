package workflows

import (
	"errors"

	"go.temporal.io/sdk/temporal"

	"railguard/activities"
	"railguard/services/fencing"
	"railguard/services/railapi"
)

// settle ends a payout by the proxy's own record of its submission, never by elapsed time.
func (e *execution) settle(token fencing.Token, claim activities.ClaimResult, found activities.LookupResult) (ending, error) {
	switch found.Outcome {
	case activities.FoundAcked:
		return e.post(token, claim, acknowledgement{found.RailReference, found.SubmissionID, found.SubmittedAt, found.ResolvedAt})
	case activities.FoundRejected:
		return e.declined(token, claim, found.SubmissionID, "the rail declined")
	}
	return e.ambiguous(token, claim, found.SubmissionID, "the rail-proxy's record has no answer of the rail")
}

// post posts the ledger: the money has moved, so nothing cancels it and it is repeated until answered.
func (e *execution) post(token fencing.Token, claim activities.ClaimResult, ack acknowledgement) (ending, error) {
	e.railReference = ack.railReference
	var posted activities.PostResult
	err := e.do(postLedger, e.options.post(), "Post the ledger", &posted,
		token, activities.PostInput{
			PayoutID:       e.payoutID,
			AccountID:      e.accountID,
			OwnerID:        e.ownerID,
			IdempotencyKey: claim.IdempotencyKey,
			RailReference:  ack.railReference,
			SubmissionID:   ack.submissionID,
			SubmittedAt:    ack.submittedAt,
			ResolvedAt:     ack.resolvedAt,
		})
	if err != nil {
		return unlessPermanent(err, ending{OutcomeAbandoned, "the posting was not answered: " + short(err)})
	}
	e.told(posted.State)
	if posted.RailReference != "" {
		e.railReference = posted.RailReference
	}
	return afterWrite(posted.Outcome, ending{OutcomePosted, ""}, posted.Reason), nil
}

func (e *execution) declined(token fencing.Token, claim activities.ClaimResult, submissionID, reason string) (ending, error) {
	return e.record(token, claim, railapi.Rejected, submissionID, ending{OutcomeFailed, reason})
}

func (e *execution) ambiguous(token fencing.Token, claim activities.ClaimResult, submissionID, reason string) (ending, error) {
	return e.record(token, claim, railapi.Timeout, submissionID, ending{OutcomeAmbiguous, reason})
}

func (e *execution) record(token fencing.Token, claim activities.ClaimResult, outcome railapi.Outcome, submissionID string, then ending) (ending, error) {
	var recorded activities.WriteResult
	err := e.do(recordRailOutcome, e.options.recordOutcome(), "Record the rail's answer: "+string(outcome), &recorded,
		token, activities.OutcomeInput{
			PayoutID:       e.payoutID,
			AccountID:      e.accountID,
			OwnerID:        e.ownerID,
			IdempotencyKey: claim.IdempotencyKey,
			RailOutcome:    outcome,
			SubmissionID:   submissionID,
			Reason:         then.reason,
		})
	if err != nil {
		return unlessPermanent(err, ending{OutcomeAbandoned, "the record was not answered: " + short(err)})
	}
	e.told(recorded.State)
	return afterWrite(recorded.Outcome, then, recorded.Reason), nil
}

// afterWrite is how the run ends after a guard's answer to a post or a record.
func afterWrite(outcome activities.WriteOutcome, accepted ending, reason string) ending {
	switch outcome {
	case activities.Accepted:
		return accepted
	case activities.FencedOut:
		return ending{OutcomeFenced, reason}
	}
	return ending{OutcomeAbandoned, reason}
}

// unlessPermanent ends the run in order, unless the step's error is a refusal that no repetition can
// change: then the run fails with it, so that a person sees it.
func unlessPermanent(err error, otherwise ending) (ending, error) {
	if refused := permanent(err); refused != nil {
		return ending{}, refused
	}
	return otherwise, nil
}

// permanent returns the error with which the run fails, of the same type, or nil. A bad answer is never
// one: the service itself did not write it, so it refuses nothing.
func permanent(err error) error {
	var refused *temporal.ApplicationError
	if errors.As(err, &refused) && refused.NonRetryable() && refused.Type() != activities.ErrorBadAnswer {
		return temporal.NewNonRetryableApplicationError(refused.Message(), refused.Type(), nil)
	}
	return nil
}

// short is the cause of a step's failure, without the SDK's own wording around it.
func short(err error) string {
	var step *temporal.ActivityError
	if errors.As(err, &step) && step.Unwrap() != nil {
		err = step.Unwrap()
	}
	var application *temporal.ApplicationError
	if errors.As(err, &application) {
		return application.Message()
	}
	return err.Error()
}
