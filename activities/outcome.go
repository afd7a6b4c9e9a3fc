package activities

import (
	"context"

	"railguard/services/fencing"
	"railguard/services/paymentapi"
	"railguard/services/railapi"
)

// OutcomeInput records that the rail declined (REJECTED) or that nobody knows (TIMEOUT).
type OutcomeInput struct {
	PayoutID       string          `json:"payoutId"`
	AccountID      string          `json:"accountId"`
	OwnerID        string          `json:"ownerId"`
	IdempotencyKey string          `json:"idempotencyKey"`
	RailOutcome    railapi.Outcome `json:"railOutcome"`
	SubmissionID   string          `json:"submissionId,omitempty"`
	Reason         string          `json:"reason"`
}

// WriteResult is the guard's answer to a fenced write that has no more to tell than the payout's state.
type WriteResult struct {
	Outcome WriteOutcome           `json:"outcome"`
	State   paymentapi.PayoutState `json:"state,omitempty"`
	Reason  string                 `json:"reason,omitempty"`
}

// RecordRailOutcome records under the token that the payout was declined or is ambiguous. It is repeated
// until it is answered.
func (a *Activities) RecordRailOutcome(ctx context.Context, token fencing.Token, in OutcomeInput) (WriteResult, error) {
	tag(ctx, token)
	status, err := a.Payments.RecordRailOutcome(ctx, token, in.OwnerID, in.IdempotencyKey, in.PayoutID, paymentapi.RailOutcomeRequest{
		RailOutcome: string(in.RailOutcome), SubmissionID: in.SubmissionID, Reason: bounded(in.Reason),
	})
	left := map[railapi.Outcome]paymentapi.PayoutState{railapi.Rejected: paymentapi.Failed, railapi.Timeout: paymentapi.RailAmbiguous}
	if err == nil && status.State != left[in.RailOutcome] {
		return WriteResult{}, otherAnswer("the rail outcome", in.PayoutID)
	}
	return written(in.PayoutID, status, err)
}

// written is the result of a fenced write that is answered with the payout's state.
func written(payoutID string, status *paymentapi.PayoutStatus, err error) (WriteResult, error) {
	if err != nil {
		if r, ok := refusedBy(err); ok {
			return WriteResult{Outcome: r.outcome, State: r.state, Reason: r.reason}, nil
		}
		return WriteResult{}, failure(err)
	}
	if status.PayoutID != payoutID {
		return WriteResult{}, otherAnswer("the write", payoutID)
	}
	return WriteResult{Outcome: Accepted, State: status.State}, nil
}
