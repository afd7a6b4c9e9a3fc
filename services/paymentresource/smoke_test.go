package paymentresource

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/services/fencing"
	"railguard/services/paymentapi"
)

func TestAPayoutFromAccountToPosting(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc-1", 10_000)
	p := f.payout("acc-1", 100)
	require.Equal(t, paymentapi.Pending, p.State)

	c := f.claimed(p, 7)
	require.Equal(t, paymentapi.Claim{PayoutID: p.PayoutID, AccountID: "acc-1", AmountMinor: 100, Currency: "EUR",
		BeneficiaryRef: p.BeneficiaryRef, State: paymentapi.Claimed, PreviousState: paymentapi.Pending, ClaimToken: 7, AccountFence: 7,
		AttemptCount: 1, IdempotencyKey: p.PayoutID}, c)
	a := f.getAccount("acc-1")
	require.Equal(t, paymentapi.Account{AccountID: "acc-1", Kind: paymentapi.Customer, Currency: "EUR", BalanceMinor: 10_000,
		ReservedMinor: 100, AvailableMinor: 9_900, Fence: 7, LedgerSumMinor: 10_000}, a)

	var posting paymentapi.Posting
	f.post(p, 7, acknowledgement("rail-1")).into(http.StatusOK, &posting)
	require.Equal(t, paymentapi.Posted, posting.State)
	require.Equal(t, "rail-1", posting.RailReference)
	require.EqualValues(t, 9_900, posting.BalanceMinor)
	require.Len(t, posting.Entries, 2)
	require.Equal(t, "acc-1", posting.Entries[0].AccountID)
	require.Equal(t, "DEBIT", posting.Entries[0].Direction)
	require.Equal(t, "clearing.EUR", posting.Entries[1].AccountID)
	require.Equal(t, "CREDIT", posting.Entries[1].Direction)
	for _, e := range posting.Entries {
		require.EqualValues(t, 100, e.AmountMinor)
		require.Equal(t, fencing.Token(7), e.Fence)
	}

	a = f.getAccount("acc-1")
	require.Equal(t, paymentapi.Account{AccountID: "acc-1", Kind: paymentapi.Customer, Currency: "EUR", BalanceMinor: 9_900,
		AvailableMinor: 9_900, Fence: 7, LedgerSumMinor: 9_900}, a)
	require.EqualValues(t, 100, f.getAccount("clearing.EUR").BalanceMinor)
	require.EqualValues(t, -10_000, f.getAccount("funding.EUR").BalanceMinor)

	var moves []paymentapi.PayoutState
	got := f.getPayout(p.PayoutID)
	for _, tr := range got.Transitions {
		moves = append(moves, tr.ToState)
	}
	require.Equal(t, []paymentapi.PayoutState{paymentapi.Pending, paymentapi.Claimed, paymentapi.RailSubmitted, paymentapi.RailAcked,
		paymentapi.Posted}, moves)
	f.sound()
	f.fencedOut(0, 0)
}
