package paymentresource

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
	"railguard/services/paymentapi"
)

// What the guard protects from, shown with the guard off: A claims and is paused, B recovers the claim and finishes,
// A wakes and posts. Each does what its lock once allowed.
func TestWithoutTheGuardAnUpdateIsLost(t *testing.T) {
	t.Parallel()
	f := start(t, unguarded)
	f.account("acc", 10_000)
	p := f.payout("acc", 100)
	const tA, tB = 1, 2
	f.claimed(p, tA)
	require.Equal(t, paymentapi.Claimed, f.claimed(p, tB).PreviousState)
	var b, a paymentapi.Posting
	f.post(p, tB, acknowledgement("b")).into(http.StatusOK, &b)
	f.post(p, tA, acknowledgement("a")).into(http.StatusOK, &a)
	require.EqualValues(t, 9_900, b.BalanceMinor)
	require.EqualValues(t, 9_900, a.BalanceMinor)

	account := f.getAccount("acc")
	require.EqualValues(t, 9_900, account.BalanceMinor)
	require.EqualValues(t, 9_800, account.LedgerSumMinor, "the balance is not the sum of the entries any more")
	require.Zero(t, account.ReservedMinor)
	require.EqualValues(t, tA, account.Fence, "the fence has moved backwards")
	require.Equal(t, 4, one[int](f, `SELECT count(*) FROM ledger_entry WHERE payout_id IS NOT NULL AND NOT guarded`))
	require.Equal(t, paymentapi.Posted, f.getPayout(p.PayoutID).State)
	f.fencedOut(0, 0)

	var again paymentapi.Posting
	before := f.snapshot()
	f.post(p, tA, acknowledgement("a")).into(http.StatusOK, &again)
	require.Equal(t, a, again)
	require.Equal(t, before, f.snapshot(), "a repeat is still a repeat")
}

// The same steps with the guard on: the second one is refused, and nothing is lost.
func TestWithTheGuardTheSameStepsLoseNothing(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 10_000)
	p := f.payout("acc", 100)
	const tA, tB = 1, 2
	f.claimed(p, tA)
	f.claimed(p, tB)
	f.post(p, tB, acknowledgement("b")).into(http.StatusOK, &paymentapi.Posting{})
	f.post(p, tA, acknowledgement("a")).refused(apierr.FencedOut)
	account := f.getAccount("acc")
	require.EqualValues(t, 9_900, account.BalanceMinor)
	require.EqualValues(t, 9_900, account.LedgerSumMinor)
	require.EqualValues(t, tB, account.Fence)
	f.fencedOut(0, 1)
	f.sound()
}

func TestWithoutTheGuardTokensAreNotCompared(t *testing.T) {
	t.Parallel()
	f := start(t, unguarded)
	f.account("acc", 1000)
	first, second := f.payout("acc", 10), f.payout("acc", 10)
	newer := f.claimed(first, 9)
	f.claimed(second, 3)
	require.EqualValues(t, 3, f.getAccount("acc").Fence)
	require.Equal(t, newer, f.claimed(first, 9), "a repeat is still a repeat")
	f.abandon(first, 9).into(http.StatusOK, &paymentapi.PayoutStatus{})
	f.abandon(first, 9).into(http.StatusOK, &paymentapi.PayoutStatus{})
	f.abandon(first, 8).refused(apierr.PayoutNotClaimable)
	require.EqualValues(t, 3, f.getAccount("acc").Fence, "handing back only closes the claim")
	f.outcome(second, 3, "REJECTED").into(http.StatusOK, &paymentapi.PayoutStatus{})
	f.post(first, 9, nil).refused(apierr.ValidationFailed)
	f.post(first, 9, acknowledgement("r")).into(http.StatusOK, &paymentapi.Posting{}) // closed, and accepted
	f.fencedOut(0, 0)
}

// What no switch opens: the state machine, RAIL_AMBIGUOUS, and the fence of a resolution.
func TestNoSwitchFailsOpen(t *testing.T) {
	t.Parallel()
	f := start(t, unguarded)
	p := f.ambiguous("acc")
	before := f.snapshot()
	f.claim(p, 5).refused(apierr.PayoutNotClaimable)
	f.post(p, 1, acknowledgement("r")).refused(apierr.PayoutNotClaimable)
	f.post(p, 7, acknowledgement("r")).refused(apierr.PayoutNotClaimable)
	f.outcome(p, 1, "REJECTED").refused(apierr.IdempotencyConflict)
	require.Equal(t, before, f.snapshot())
	f.raise("acc", 10)
	f.resolve("resolver", p, 9, absent()).refused(apierr.FencedOut)
	require.Equal(t, http.StatusOK, f.resolve("resolver", p, 10, absent()).status)

	never := f.payout("acc", 10)
	f.post(never, 3, acknowledgement("r")).refused(apierr.PayoutNotClaimable)
}

func TestTheSwitchIsSeen(t *testing.T) {
	t.Parallel()
	for guarded, want := range map[bool]string{true: "1", false: "0"} {
		f := start(t, func(c *Config) { c.FencingEnabled = guarded })
		got, ok := f.metric(`fencing_enabled{guard="account"}`)
		require.True(t, ok)
		require.Equal(t, want, got)
		var info struct{ FencingEnabled bool }
		f.do(call{method: http.MethodGet, path: "/info"}).into(http.StatusOK, &info)
		require.Equal(t, guarded, info.FencingEnabled)
		warned := f.log.events(t, "fencing_disabled")
		require.Len(t, warned, map[bool]int{true: 0, false: 1}[guarded])
	}
}
