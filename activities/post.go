package activities

import (
	"context"
	"time"

	"railguard/services/fencing"
	"railguard/services/paymentapi"
	"railguard/services/railapi"
)

// PostInput posts the ledger of an acknowledged payout. The rail's fields are left out when the payout
// is RAIL_ACKED: they are stored with it.
type PostInput struct {
	PayoutID       string     `json:"payoutId"`
	AccountID      string     `json:"accountId"`
	OwnerID        string     `json:"ownerId"`
	IdempotencyKey string     `json:"idempotencyKey"`
	RailReference  string     `json:"railReference,omitempty"`
	SubmissionID   string     `json:"submissionId,omitempty"`
	SubmittedAt    *time.Time `json:"submittedAt,omitempty"`
	ResolvedAt     *time.Time `json:"resolvedAt,omitempty"`
}

// PostResult is the guard's answer.
type PostResult struct {
	Outcome       WriteOutcome           `json:"outcome"`
	State         paymentapi.PayoutState `json:"state,omitempty"`
	RailReference string                 `json:"railReference,omitempty"`
	BalanceMinor  int64                  `json:"balanceMinor,omitempty"` // of the account, after the debit
	Reason        string                 `json:"reason,omitempty"`
}

// PostLedger posts the ledger under the token. It is repeated until it is answered: a repetition of what
// was posted is answered as before.
func (a *Activities) PostLedger(ctx context.Context, token fencing.Token, in PostInput) (PostResult, error) {
	tag(ctx, token)
	request := paymentapi.PostRequest{
		RailReference: in.RailReference, SubmissionID: in.SubmissionID, SubmittedAt: in.SubmittedAt, ResolvedAt: in.ResolvedAt,
	}
	if in.RailReference != "" {
		request.RailOutcome = string(railapi.Acked)
	}
	posting, err := a.Payments.Post(ctx, token, in.OwnerID, in.IdempotencyKey, in.PayoutID, request)
	if err != nil {
		if r, ok := refusedBy(err); ok {
			return PostResult{Outcome: r.outcome, State: r.state, Reason: r.reason}, nil
		}
		return PostResult{}, failure(err)
	}
	if posting.PayoutID != in.PayoutID || posting.State != paymentapi.Posted {
		return PostResult{}, otherAnswer("the posting", in.PayoutID)
	}
	a.Log.InfoContext(ctx, "payout_posted", "payoutId", in.PayoutID, "accountId", in.AccountID,
		"token", token, "ownerId", in.OwnerID, "railReference", bounded(posting.RailReference))
	return PostResult{
		Outcome:       Accepted,
		State:         posting.State,
		RailReference: bounded(posting.RailReference),
		BalanceMinor:  posting.BalanceMinor,
	}, nil
}
