package activities

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/temporal"

	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/money"
	"railguard/services/paymentapi"
)

// ClaimInput claims a payout of the account whose lock is held.
type ClaimInput struct {
	PayoutID  string `json:"payoutId"`
	AccountID string `json:"accountId"`
	OwnerID   string `json:"ownerId"`
}

// ClaimResult is the guard's answer. Of a granted claim PreviousState tells a first claim (PENDING) from
// a recovery; the other fields are what a submission needs.
type ClaimResult struct {
	Outcome        WriteOutcome           `json:"outcome"`
	State          paymentapi.PayoutState `json:"state,omitempty"`
	PreviousState  paymentapi.PayoutState `json:"previousState,omitempty"`
	AmountMinor    int64                  `json:"amountMinor,omitempty"`
	Currency       money.Currency         `json:"currency,omitempty"`
	BeneficiaryRef string                 `json:"beneficiaryRef,omitempty"`
	IdempotencyKey string                 `json:"idempotencyKey,omitempty"`
	Reason         string                 `json:"reason,omitempty"`
}

// ClaimPayout claims the payout under the token, whatever of PENDING, CLAIMED and RAIL_ACKED it finds.
func (a *Activities) ClaimPayout(ctx context.Context, token fencing.Token, in ClaimInput) (ClaimResult, error) {
	tag(ctx, token)
	claim, err := a.Payments.Claim(ctx, token, in.OwnerID, in.PayoutID, paymentapi.ClaimRequest{
		AccountID: in.AccountID, ExpectedState: paymentapi.Claimable,
	})
	if err != nil {
		if apierr.CodeOf(err) == apierr.InsufficientFunds {
			return ClaimResult{Outcome: InsufficientFunds, State: paymentapi.Failed, Reason: bounded(err.Error())}, nil
		}
		if r, ok := refusedBy(err); ok {
			return ClaimResult{Outcome: r.outcome, State: r.state, Reason: r.reason}, nil
		}
		return ClaimResult{}, failure(err)
	}
	if claim.PayoutID != in.PayoutID || claim.AccountID != in.AccountID || claim.ClaimToken != token {
		return ClaimResult{}, temporal.NewApplicationError(fmt.Sprintf("the claim of payout %s under token %d was answered for another", in.PayoutID, token), ErrorBadAnswer)
	}
	a.Log.InfoContext(ctx, "payout_claimed", "payoutId", in.PayoutID, "accountId", in.AccountID,
		"token", token, "ownerId", in.OwnerID, "previousState", claim.PreviousState)
	return ClaimResult{
		Outcome:        Accepted,
		State:          claim.State,
		PreviousState:  claim.PreviousState,
		AmountMinor:    claim.AmountMinor,
		Currency:       claim.Currency,
		BeneficiaryRef: claim.BeneficiaryRef,
		IdempotencyKey: claim.IdempotencyKey,
	}, nil
}
