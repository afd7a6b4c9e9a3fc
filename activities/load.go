package activities

import (
	"context"

	"railguard/services/paymentapi"
)

// LoadInput names the payout.
type LoadInput struct {
	PayoutID string `json:"payoutId"`
}

// LoadResult tells which account's lock to ask for. State is advisory: nothing is decided by it.
type LoadResult struct {
	AccountID string                 `json:"accountId"`
	State     paymentapi.PayoutState `json:"state"`
}

// LoadPayout finds the account of a payout that was started by its id alone.
func (a *Activities) LoadPayout(ctx context.Context, in LoadInput) (LoadResult, error) {
	payout, err := a.Payments.GetPayout(ctx, in.PayoutID)
	if err != nil {
		return LoadResult{}, failure(err)
	}
	if payout.PayoutID != in.PayoutID || payout.AccountID == "" {
		return LoadResult{}, otherAnswer("the reading", in.PayoutID)
	}
	return LoadResult{AccountID: bounded(payout.AccountID), State: payout.State}, nil
}
