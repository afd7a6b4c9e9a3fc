//go:build fencing

package main

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"railguard/services/paymentapi"
)

// B pays another payout of the account. A's claim stays open and its payout was never presented: neither the state machine nor a
// unique index has a reason to stop A, only the token has.
func TestWhereOnlyTheTokenCanRefuse(t *testing.T) {
	for mode, want := range map[string]struct {
		requests, entries int // for A's payout
		steps             map[string]string
		refusals          map[string]int
	}{
		"off":          {1, 2, map[string]string{"SubmitToRail": "acked", "PostLedger": "accepted"}, map[string]int{}},
		"rail-only":    {0, 0, map[string]string{"SubmitToRail": "fencedOut", "AbandonClaim": "accepted"}, map[string]int{"rail": 1}},
		"account-only": {1, 0, map[string]string{"SubmitToRail": "acked", "PostLedger": "fencedOut"}, map[string]int{"ledger": 1}},
		"on":           {0, 0, map[string]string{"SubmitToRail": "fencedOut", "AbandonClaim": "fencedOut"}, map[string]int{"rail": 1, "account": 1}},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			o := try(t, interference{payoutOfB: func(ctx context.Context, a *attempt) (string, error) {
				other, err := a.payments.CreatePayout(ctx, ownerID, paymentapi.CreatePayoutRequest{
					ExternalRef: uuid.NewString(), AccountID: a.facts.AccountID, AmountMinor: amountMinor, Currency: "EUR", BeneficiaryRef: "beneficiary-1"})
				if err != nil {
					return "", err
				}
				return other.PayoutID, nil
			}}, "--fencing", mode)
			require.Equal(t, exitFailed, o.exit, "the table is about one payout: with two it does not hold")
			f := o.run.Repetitions[0].Last().Facts
			require.Equal(t, "posted", f.B.Outcome)
			require.Len(t, f.Requests, want.requests)
			require.Len(t, f.Ledger, want.entries)
			for step, outcome := range want.steps {
				require.NotNil(t, f.A.Step(step), step)
				require.Equal(t, outcome, f.A.Step(step).Outcome, step)
			}
			refusals := map[string]int{}
			for _, r := range f.Refusals {
				refusals[r.Resource]++
				require.Equal(t, f.A.Token, r.Presented)
				require.Equal(t, f.B.Token, r.Highest)
			}
			require.Equal(t, want.refusals, refusals)
		})
	}
}
