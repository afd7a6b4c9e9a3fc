package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/services/paymentapi"
	"railguard/workflows"
)

func TestTheDemonstrationFailsWhenAPayoutIsNotAsExpected(t *testing.T) {
	as := func(ref string, outcome workflows.Outcome, state paymentapi.PayoutState, requests int) executed {
		return executed{workflows.PayoutResult{Outcome: outcome}, &paymentapi.Payout{ExternalRef: ref, State: state}, requests}
	}
	good := []executed{
		as("demo-0001", workflows.OutcomePosted, paymentapi.Posted, 1),
		as("demo-0009", workflows.OutcomeFailed, paymentapi.Failed, 1),
		as("demo-0018", workflows.OutcomeAmbiguous, paymentapi.RailAmbiguous, 1),
		as("demo-0024", workflows.OutcomeFailed, paymentapi.Failed, 0),
	}
	require.NoError(t, judge(good))
	for name, bad := range map[string]executed{
		"twice at the rail":            as("demo-0001", workflows.OutcomePosted, paymentapi.Posted, 2),
		"not posted":                   as("demo-0001", workflows.OutcomeContended, paymentapi.Pending, 0),
		"posted though declined":       as("demo-0009", workflows.OutcomePosted, paymentapi.Posted, 1),
		"failed though nobody knows":   as("demo-0018", workflows.OutcomeFailed, paymentapi.Failed, 1),
		"at the rail without funds":    as("demo-0024", workflows.OutcomeFailed, paymentapi.Failed, 1),
		"the workflow says other than": as("demo-0001", workflows.OutcomeFailed, paymentapi.Posted, 1),
	} {
		t.Run(name, func(t *testing.T) {
			err := judge(append([]executed{bad}, good...))
			require.ErrorContains(t, err, "1 of 5 payouts")
			require.ErrorContains(t, err, bad.payout.ExternalRef)
		})
	}
}
