package activities

import (
	"context"

	"railguard/services/fencing"
	"railguard/services/paymentapi"
)

// AbandonInput hands a claim back.
type AbandonInput struct {
	PayoutID  string `json:"payoutId"`
	AccountID string `json:"accountId"`
	OwnerID   string `json:"ownerId"`
	Reason    string `json:"reason"`
}

// AbandonClaim closes the token's claim; the payout stays CLAIMED. It is itself a fenced write: whoever
// was overtaken is refused here too.
func (a *Activities) AbandonClaim(ctx context.Context, token fencing.Token, in AbandonInput) (WriteResult, error) {
	tag(ctx, token)
	status, err := a.Payments.AbandonClaim(ctx, token, in.OwnerID, in.PayoutID, paymentapi.AbandonRequest{Reason: bounded(in.Reason)})
	return written(in.PayoutID, status, err)
}
