package paymentresource

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/paymentapi"
)

func TestPostIsReplayedAndCountedNowhere(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	p := f.payout("acc", 10)
	f.claimed(p, 1)
	var first, again paymentapi.Posting
	f.post(p, 1, acknowledgement("r-1")).into(http.StatusOK, &first)

	// The next payout raises the fence and moves the balance; the repeated answer is still the first one.
	next := f.payout("acc", 100)
	f.claimed(next, 2)
	f.post(next, 2, acknowledgement("r-2")).into(http.StatusOK, &paymentapi.Posting{})
	before := f.snapshot()
	f.post(p, 1, acknowledgement("r-1")).into(http.StatusOK, &again)
	require.Equal(t, first, again)
	f.post(p, 1, nil).into(http.StatusOK, &again)
	require.Equal(t, first, again)
	require.EqualValues(t, 990, again.BalanceMinor)
	f.post(p, 1, acknowledgement("another")).refused(apierr.IdempotencyConflict)
	require.Equal(t, before, f.snapshot())
	f.fencedOut(0, 0)
	f.sound()
}

func TestPostUnderAnOlderTokenIsFencedOut(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	p := f.payout("acc", 10)
	f.claimed(p, 1)
	f.claimed(p, 2)
	before := f.snapshot()
	f.post(p, 1, acknowledgement("r")).refused(apierr.FencedOut).detail("presentedToken", 1).detail("highestToken", 2).
		detail("resourceType", "ledger").detail("resourceId", "acc").detail("ownerId", owner(1))
	require.Equal(t, before, f.snapshot(), "not even the acknowledgement is recorded")
	f.fencedOut(0, 1)

	f.post(p, 2, acknowledgement("r")).into(http.StatusOK, &paymentapi.Posting{})
	f.post(p, 1, acknowledgement("r")).refused(apierr.FencedOut) // the fence speaks before the state does
	f.fencedOut(0, 2)
	f.sound()
}

// The edges of fence <= token: equal is what a claim leaves, and above needs a claim of its own.
func TestPostNeedsTheClaimOfThisPayout(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	p, other := f.payout("acc", 10), f.payout("acc", 10)
	f.claimed(p, 1)
	f.claimed(other, 2)
	before := f.snapshot()
	// 2 is the account's newest token, 3 is newer than all: neither claimed this payout.
	f.post(p, 2, acknowledgement("r")).refused(apierr.PayoutNotClaimable).detail("state", "CLAIMED")
	f.post(p, 3, acknowledgement("r")).refused(apierr.PayoutNotClaimable)
	require.Equal(t, before, f.snapshot())
	f.fencedOut(0, 0)

	f.claimed(p, 4)
	require.Equal(t, 200, f.abandon(p, 4).status)
	before = f.snapshot()
	f.post(p, 4, acknowledgement("r")).refused(apierr.PayoutNotClaimable) // the claim is closed
	require.Equal(t, before, f.snapshot())
	f.fencedOut(0, 0)
}

func TestPostAfterTheFenceWasRaisedFromOutside(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	p := f.payout("acc", 10)
	f.claimed(p, 5)
	f.raise("acc", 5)
	f.post(p, 5, acknowledgement("r")).into(http.StatusOK, &paymentapi.Posting{}) // equal is not above
	p = f.payout("acc", 10)
	f.claimed(p, 6)
	f.raise("acc", 7)
	f.post(p, 6, acknowledgement("r")).refused(apierr.FencedOut).detail("highestToken", 7)
}

// The acknowledgement is a transaction of its own: it stays when the ledger cannot be written, and the post then
// goes on from it, without the rail's fields, under the same token or a newer one.
func TestPostGoesOnFromACommittedAcknowledgement(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	ctx := context.Background()
	for token, name := range map[int64]string{0: "the same token", 1: "a newer token"} {
		t.Run(name, func(t *testing.T) {
			f := f.on(t)
			token += int64(f.getAccount("acc").Fence) + 1
			p := f.payout("acc", 10)
			f.claimed(p, token)
			_, err := f.owner.Exec(ctx, `ALTER TABLE ledger_entry ADD CONSTRAINT broken CHECK (payout_id IS NULL) NOT VALID`)
			require.NoError(t, err)
			f.post(p, token, acknowledgement("r-1")).refused(apierr.Internal)
			got := f.getPayout(p.PayoutID)
			require.Equal(t, paymentapi.RailAcked, got.State)
			require.Equal(t, "r-1", got.RailReference)
			a := f.getAccount("acc")
			require.EqualValues(t, 10, a.ReservedMinor)
			_, err = f.owner.Exec(ctx, `ALTER TABLE ledger_entry DROP CONSTRAINT broken`)
			require.NoError(t, err)

			if name == "a newer token" {
				token++
				require.Equal(t, paymentapi.RailAcked, f.claimed(p, token).PreviousState)
			}
			f.post(p, token, acknowledgement("r-2")).refused(apierr.IdempotencyConflict) // the reference is written once
			var posting paymentapi.Posting
			f.post(p, token, nil).into(http.StatusOK, &posting)
			require.Equal(t, "r-1", posting.RailReference)
			require.Equal(t, fencing.Token(token), posting.Entries[0].Fence)
		})
	}
	require.EqualValues(t, 980, f.getAccount("acc").BalanceMinor)
	f.sound()
	f.fencedOut(0, 0)
}

func TestPostOfAClaimedPayoutNeedsTheRailsFields(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	p := f.payout("acc", 10)
	f.claimed(p, 1)
	before := f.snapshot()
	r := f.post(p, 1, nil).refused(apierr.ValidationFailed)
	require.Contains(t, r.err.Details["fields"], "railReference")
	require.Equal(t, before, f.snapshot())
}

func TestPostUnderAnotherIdempotencyKey(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	p, other := f.payout("acc", 10), f.payout("acc", 10)
	f.claimed(p, 1)
	before := f.snapshot()
	for _, key := range []string{other.PayoutID, "made-up"} {
		f.do(call{as: "executor", path: "/v1/payouts/" + p.PayoutID + "/post", token: 1, owner: "o", key: key, body: acknowledgement("r")}).
			refused(apierr.IdempotencyConflict)
		f.do(call{as: "executor", path: "/v1/payouts/" + p.PayoutID + "/rail-outcome", token: 1, owner: "o", key: key,
			body: paymentapi.RailOutcomeRequest{RailOutcome: "TIMEOUT", Reason: "r"}}).refused(apierr.IdempotencyConflict)
	}
	require.Equal(t, before, f.snapshot())
}

func TestConcurrentRepeatsOfOnePost(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	p := f.payout("acc", 10)
	f.claimed(p, 1)
	answers := make([]paymentapi.Posting, 16)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() { f.post(p, 1, acknowledgement("r")).into(http.StatusOK, &answers[i]) })
	}
	wg.Wait()
	for _, a := range answers {
		require.Equal(t, answers[0], a)
	}
	require.Equal(t, 2, one[int](f, `SELECT count(*) FROM ledger_entry WHERE payout_id IS NOT NULL`))
	f.sound()
	f.fencedOut(0, 0)
}

// A funding between claim and post is kept: the debit is relative, not what the claim remembered.
func TestPostKeepsAFundingThatCameBetween(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	p := f.payout("acc", 10)
	f.claimed(p, 1)
	f.do(call{as: "intake", path: "/v1/accounts/acc/funding", owner: "o", body: paymentapi.FundingRequest{ExternalRef: "f-1", AmountMinor: 500}}).
		into(http.StatusCreated, &paymentapi.Funding{})
	var posting paymentapi.Posting
	f.post(p, 1, acknowledgement("r")).into(http.StatusOK, &posting)
	require.EqualValues(t, 1490, posting.BalanceMinor)
	f.sound()
}

// The two times are readings of another database's clock. One that was set back in between is no reason to leave the
// ledger behind the money.
func TestPostWhenTheRailsClockWentBack(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("a", 1000)
	p := f.payout("a", 10)
	f.claimed(p, 1)
	ack := acknowledgement("r-1")
	ack.SubmittedAt, ack.ResolvedAt = ack.ResolvedAt, ack.SubmittedAt
	var posting paymentapi.Posting
	f.post(p, 1, ack).into(http.StatusOK, &posting)
	require.Equal(t, paymentapi.Posted, posting.State)
}
