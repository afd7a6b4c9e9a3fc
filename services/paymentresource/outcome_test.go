package paymentresource

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
	"railguard/services/paymentapi"
)

func TestRailOutcomeIsReplayed(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	for token, outcome := range map[int64]string{10: "REJECTED", 20: "TIMEOUT"} {
		p := f.payout("acc", 10)
		fence := int64(f.getAccount("acc").Fence)
		token += fence
		f.claimed(p, token)
		var first, again paymentapi.PayoutStatus
		f.outcome(p, token, outcome).into(http.StatusOK, &first)
		f.claimed(f.payout("acc", 1), token+1) // the fence has gone on
		before := f.snapshot()
		f.outcome(p, token, outcome).into(http.StatusOK, &again)
		require.Equal(t, first, again)
		other := map[string]string{"REJECTED": "TIMEOUT", "TIMEOUT": "REJECTED"}[outcome]
		f.outcome(p, token, other).refused(apierr.IdempotencyConflict)
		require.Equal(t, before, f.snapshot())
	}
	f.fencedOut(0, 0)
	f.sound()
}

func TestAmbiguityIsToldOnceAndStaysUnderEveryToken(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	p := f.payout("acc", 10)
	f.claimed(p, 1)
	require.Equal(t, 200, f.outcome(p, 1, "TIMEOUT").status)
	require.Equal(t, 200, f.outcome(p, 1, "TIMEOUT").status)
	told := f.log.events(t, "payout_ambiguous")
	require.Len(t, told, 1)
	require.Equal(t, "ERROR", told[0]["level"])
	require.Equal(t, p.PayoutID, told[0]["payoutId"])
	before := f.snapshot()
	f.claim(p, 2).refused(apierr.PayoutNotClaimable).detail("state", "RAIL_AMBIGUOUS")
	f.post(p, 2, acknowledgement("r")).refused(apierr.PayoutNotClaimable)
	f.post(p, 1, acknowledgement("r")).refused(apierr.PayoutNotClaimable)
	f.outcome(p, 2, "REJECTED").refused(apierr.PayoutNotClaimable)
	f.abandon(p, 1).refused(apierr.PayoutNotClaimable)
	f.cancel(p, "give up").refused(apierr.PayoutNotClaimable)
	require.Equal(t, before, f.snapshot())
	require.EqualValues(t, 10, f.getAccount("acc").ReservedMinor, "the money may be gone")
}

func TestRailOutcomeAndAbandonUnderAnOlderToken(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	p := f.payout("acc", 10)
	f.claimed(p, 1)
	f.claimed(p, 2)
	before := f.snapshot()
	f.outcome(p, 1, "REJECTED").refused(apierr.FencedOut).detail("resourceType", "account").detail("highestToken", 2)
	f.outcome(p, 1, "TIMEOUT").refused(apierr.FencedOut)
	f.abandon(p, 1).refused(apierr.FencedOut).detail("resourceType", "account")
	require.Equal(t, before, f.snapshot())
	f.fencedOut(3, 0)
	// A newer token that claimed something else is not enough either; that is no incident.
	f.claimed(f.payout("acc", 1), 3)
	f.outcome(p, 3, "TIMEOUT").refused(apierr.PayoutNotClaimable)
	f.abandon(p, 3).refused(apierr.PayoutNotClaimable)
	f.fencedOut(3, 0)
}

func TestAbandonHandsTheClaimBack(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	p := f.payout("acc", 10)
	f.claimed(p, 1)
	var first, again paymentapi.PayoutStatus
	f.abandon(p, 1).into(http.StatusOK, &first)
	require.Equal(t, paymentapi.Claimed, first.State)
	require.EqualValues(t, 10, f.getAccount("acc").ReservedMinor)
	require.Equal(t, "HANDED_BACK not enough lease left", one[string](f, `SELECT end_reason || ' ' || end_note FROM payout_claim`))

	f.outcome(p, 1, "TIMEOUT").refused(apierr.PayoutNotClaimable) // closed is closed
	f.claimed(p, 2)
	f.post(p, 2, acknowledgement("r")).into(http.StatusOK, &paymentapi.Posting{})
	before := f.snapshot()
	f.abandon(p, 1).into(http.StatusOK, &again) // a repeat, long after: answered as before
	require.Equal(t, first, again)
	f.abandon(p, 2).refused(apierr.PayoutNotClaimable).detail("state", "POSTED")
	require.Equal(t, before, f.snapshot())
	f.fencedOut(0, 0)
	f.sound()
}

func TestAbandonBeforeAnyClaim(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	p := f.payout("acc", 10)
	before := f.snapshot()
	f.abandon(p, 1).refused(apierr.PayoutNotClaimable).detail("state", "PENDING")
	require.Equal(t, before, f.snapshot())
	f.claimed(p, 1)
}

func TestCancelIsReplayed(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	p := f.payout("acc", 10)
	var first, again paymentapi.PayoutStatus
	f.cancel(p, "typing error").into(http.StatusOK, &first)
	require.Equal(t, paymentapi.Abandoned, first.State)
	require.Contains(t, first.StateReason, "alice")
	before := f.snapshot()
	f.cancel(p, "typing error").into(http.StatusOK, &again)
	require.Equal(t, first, again)
	f.cancel(p, "another reason").refused(apierr.PayoutNotClaimable).detail("state", "ABANDONED")
	require.Equal(t, before, f.snapshot())
}
