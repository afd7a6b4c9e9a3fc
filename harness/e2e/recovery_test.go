package e2e

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/harness/cluster"
	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/lockapi"
	"railguard/services/paymentapi"
	"railguard/services/railapi"
	"railguard/services/stubapi"
)

// recoverable makes a payout that an earlier holder claimed, and presented or not, and left.
func recoverable(t *testing.T, fault stubapi.Kind, submit bool) (account, payout string) {
	t.Helper()
	account = shared.NewAccount(t, opening)
	payout = shared.NewPayout(t, account, amount, stubapi.Fault{Kind: fault})
	grant, err := shared.Lock.Acquire(t.Context(), "payout:"+account, "earlier", lockapi.AcquireRequest{TTLMillis: 30_000})
	require.NoError(t, err)
	claim, err := shared.Payment.Claim(t.Context(), grant.FencingToken, "earlier", payout, paymentapi.ClaimRequest{AccountID: account, ExpectedState: paymentapi.Claimable})
	require.NoError(t, err)
	if submit {
		_, err = shared.Rail.Submit(t.Context(), grant.FencingToken, "earlier", claim.IdempotencyKey, railapi.SubmissionRequest{
			PayoutID: payout, AccountID: account, AmountMinor: amount, Currency: "EUR", BeneficiaryRef: "beneficiary-1"})
		if fault == stubapi.None {
			require.NoError(t, err)
		} else {
			require.Error(t, err)
		}
	}
	require.NoError(t, shared.Lock.Release(t.Context(), grant.FencingToken, "payout:"+account, "earlier"))
	return account, payout
}

// Recovery goes by the proxy's own record and never submits what was presented.
func TestRecoveryOfAClaimedPayout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault    stubapi.Kind
		submit   bool
		expected want
	}{
		"no record: submit":  {stubapi.None, false, want{outcome: "posted", state: "POSTED", metric: "posted", submissions: "ACKED", requests: 1, posted: true}},
		"ACKED: post":        {stubapi.None, true, want{outcome: "posted", state: "POSTED", metric: "posted", submissions: "ACKED", requests: 1, posted: true}},
		"REJECTED: failed":   {stubapi.Decline, true, want{outcome: "failed", state: "FAILED", metric: "failed", submissions: "REJECTED", requests: 1}},
		"TIMEOUT: ambiguous": {stubapi.DropBefore, true, want{outcome: "ambiguous", state: "RAIL_AMBIGUOUS", metric: "ambiguous", submissions: "TIMEOUT", requests: 1, reserved: amount}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, payout := recoverable(t, c.fault, c.submit)
			w := shared.NewWorker(t)
			e := verify(t, w, w.Execute(t, payout), c.expected)
			require.Equal(t, 2, e.AttemptCount)
		})
	}
}

func TestRecoveryAfterAFencedSubmissionSubmits(t *testing.T) {
	t.Parallel()
	account, payout := recoverable(t, stubapi.None, false)
	claimed, err := shared.Intake.GetPayout(t.Context(), payout)
	require.NoError(t, err)
	// Between its claim and now, a stale holder was refused at the rail: a FENCED row, nothing presented.
	grant, err := shared.Lock.Acquire(t.Context(), "payout:"+account, "newer", lockapi.AcquireRequest{TTLMillis: 30_000})
	require.NoError(t, err)
	_, err = shared.RailOps.RaiseFence(t.Context(), cluster.Owner, account, fencing.RaiseRequest{Floor: grant.FencingToken, Reason: "a newer holder came"})
	require.NoError(t, err)
	_, err = shared.Rail.Submit(t.Context(), claimed.ClaimToken, "stale", payout, railapi.SubmissionRequest{
		PayoutID: payout, AccountID: account, AmountMinor: amount, Currency: "EUR", BeneficiaryRef: "beneficiary-1"})
	require.Equal(t, apierr.FencedOut, apierr.CodeOf(err))
	require.NoError(t, shared.Lock.Release(t.Context(), grant.FencingToken, "payout:"+account, "newer"))
	w := shared.NewWorker(t)
	verify(t, w, w.Execute(t, payout), want{outcome: "posted", state: "POSTED", metric: "posted", submissions: "FENCED ACKED", requests: 1, posted: true})
}

// The acknowledgement was recorded and the ledger was not: the money has moved, so the next holder posts
// from what is stored with the payout, without asking the proxy.
func TestRecoveryOfAnAckedPayoutPostsWithoutLookingUp(t *testing.T) {
	t.Parallel()
	account := shared.NewAccount(t, opening)
	payout := shared.NewPayout(t, account, amount, stubapi.Fault{Kind: stubapi.DropAfter})
	first := shared.NewWorker(t)
	verify(t, first, first.Execute(t, payout), want{outcome: "ambiguous", state: "RAIL_AMBIGUOUS", metric: "ambiguous", submissions: "TIMEOUT", requests: 1, reserved: amount})
	// A recorded resolution is the way to RAIL_ACKED that leaves the posting to somebody else.
	grant, err := shared.Lock.Acquire(t.Context(), "payout:"+account, "resolver", lockapi.AcquireRequest{TTLMillis: 30_000})
	require.NoError(t, err)
	_, err = shared.Resolver.Resolve(t.Context(), grant.FencingToken, "resolver", payout, paymentapi.ResolutionRequest{
		Outcome: paymentapi.ResolutionSettled, RailReference: "rail-seen-later", Evidence: json.RawMessage(`{"source":"statement"}`), Reason: "found in the rail's statement"})
	require.NoError(t, err)
	require.NoError(t, shared.Lock.Release(t.Context(), grant.FencingToken, "payout:"+account, "resolver"))

	p := proxyTo(t, shared.URL("rail-proxy"))
	w := shared.NewWorker(t, "RAIL_PROXY_URL="+p.URL)
	r := w.Execute(t, payout)
	verify(t, w, r, want{outcome: "posted", state: "POSTED", metric: "posted", submissions: "TIMEOUT", requests: 1, posted: true})
	require.Equal(t, "rail-seen-later", r.RailReference)
	for _, seen := range p.Seen() {
		require.NotContains(t, seen, "submissions", "no look-up and no submit")
	}
}
