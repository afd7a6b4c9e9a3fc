//go:build fencing

package main

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"railguard/deploy/local"
	"railguard/harness/fencing/evidence"
	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/paymentapi"
)

// Both guards are on and say that they are off: nothing moves twice, and that is the experiment's own failure.
func TestAnOffThatDoesNotCorruptIsAFault(t *testing.T) {
	t.Parallel()
	o := try(t, interference{
		env: map[string][]string{local.PaymentResource: {"PAYMENT_FENCING_ENABLED=true"}, local.RailProxy: {"RAIL_PROXY_FENCING_ENABLED=true"}},
		guardsSay: func(g *evidence.Guards) {
			g.PaymentResource.FencingEnabled, g.RailProxy.FencingEnabled = false, false
		},
	}, "--fencing", "off")
	require.Equal(t, exitFailed, o.exit)
	require.Contains(t, o.codes(), evidence.MovedOnce)
	require.Contains(t, o.codes(), evidence.GuardRefused)
}

// codesOfRun are the codes of the summary.
func (o outcome) codesOfRun() []evidence.Code {
	var all []evidence.Code
	for _, d := range o.run.Summary.Diagnoses {
		all = append(all, d.Code)
	}
	return all
}

func TestARefusalThatNoAttemptAccountsForIsNoticed(t *testing.T) {
	t.Parallel()
	o := try(t, interference{beforeThaw: func(ctx context.Context, a *attempt) error {
		id, err := identity(a.profile.Tokens["executor"])
		if err != nil {
			return err
		}
		executor, err := paymentapi.NewClient(a.profile.PaymentResource, id)
		if err != nil {
			return err
		}
		account := "foreign-" + uuid.NewString()
		if _, err := a.payments.CreateAccount(ctx, ownerID, paymentapi.CreateAccountRequest{AccountID: account, Currency: "EUR", OpeningMinor: openingMinor}); err != nil {
			return err
		}
		for _, token := range []int64{5, 4} { // the second one is stale
			payout, err := a.payments.CreatePayout(ctx, ownerID, paymentapi.CreatePayoutRequest{
				ExternalRef: uuid.NewString(), AccountID: account, AmountMinor: amountMinor, Currency: "EUR", BeneficiaryRef: "beneficiary-1"})
			if err != nil {
				return err
			}
			_, err = executor.Claim(ctx, fencing.Token(token), ownerID, payout.PayoutID, paymentapi.ClaimRequest{AccountID: account, ExpectedState: "CLAIMABLE"})
			if err != nil && apierr.CodeOf(err) != apierr.FencedOut {
				return err
			}
		}
		return nil
	}}, "--fencing", "on")
	require.Equal(t, exitFailed, o.exit)
	require.Equal(t, evidence.Matched, o.run.Repetitions[0].Last().Verdict, "the attempt itself is as it must be")
	require.Contains(t, o.codesOfRun(), evidence.CountersDiffer)
	require.Contains(t, o.out, "1/1 on: identical, and not believed; inconclusive")
}

func TestBooksThatAreWrongElsewhereAreNoticed(t *testing.T) {
	t.Parallel()
	o := try(t, interference{beforeThaw: func(ctx context.Context, a *attempt) error {
		return asSuperuser(ctx, a, `INSERT INTO account (account_id, kind, currency, balance_minor) VALUES ('foreign', 'CUSTOMER', 'EUR', 5)`)
	}}, "--fencing", "on")
	require.Equal(t, exitFailed, o.exit)
	require.Equal(t, []evidence.Code{evidence.BooksDiffer}, o.codesOfRun())
	require.Equal(t, "INV-03", o.run.Invariants[0].Invariant)
}
