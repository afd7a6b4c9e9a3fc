package paymentresource

import (
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/paymentapi"
)

func TestClaimComparesStrictly(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	held := f.payout("acc", 10)
	f.claimed(held, 50)
	for _, token := range []int64{49, 50} { // equal too: a token claims one payout, and the strict comparison says so
		p := f.payout("acc", 10)
		before := f.snapshot()
		f.claim(p, token).refused(apierr.FencedOut).detail("presentedToken", token).detail("highestToken", 50).
			detail("resourceType", "account").detail("resourceId", "acc").detail("ownerId", owner(token))
		require.Equal(t, before, f.snapshot())
	}
	require.Equal(t, fencing.Token(51), f.claimed(f.payout("acc", 10), 51).AccountFence)
	f.fencedOut(2, 0)
	for _, e := range f.log.events(t, "fenced_out") {
		require.Equal(t, "ERROR", e["level"])
		require.Equal(t, "account", e["resource"])
		require.Equal(t, "acc", e["resourceId"])
		require.Contains(t, e, "presentedToken")
		require.Contains(t, e, "highestToken")
		require.Contains(t, e, "ownerId")
	}
}

func TestFencesOfAccountsAreTheirOwn(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("one", 1000)
	f.account("two", 1000)
	f.claimed(f.payout("one", 10), 50)
	f.claimed(f.payout("two", 10), 7)
	require.EqualValues(t, 50, f.getAccount("one").Fence)
	require.EqualValues(t, 7, f.getAccount("two").Fence)
}

func TestClaimOfAnotherAccountsPayoutWritesNothing(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("mine", 1000)
	f.account("locked", 1000)
	p := f.payout("mine", 10)
	before := f.snapshot()
	for _, account := range []string{"locked", "nobody"} {
		r := f.do(call{as: "executor", path: "/v1/payouts/" + p.PayoutID + "/claim", token: 5, owner: "o",
			body: paymentapi.ClaimRequest{AccountID: account, ExpectedState: paymentapi.Claimable}}).refused(apierr.ValidationFailed)
		require.Contains(t, r.err.Details["fields"], "accountId")
	}
	require.Equal(t, before, f.snapshot(), "the fence of an account whose lock is not held must not move")
	f.fencedOut(0, 0)
}

func TestClaimKeepsToTheExpectedState(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	claim := func(p paymentapi.Payout, token int64, expected string) reply {
		return f.do(call{as: "executor", path: "/v1/payouts/" + p.PayoutID + "/claim", token: token, owner: "o",
			body: paymentapi.ClaimRequest{AccountID: "acc", ExpectedState: expected}})
	}
	p := f.payout("acc", 10)
	before := f.snapshot()
	claim(p, 1, "CLAIMED").refused(apierr.PayoutNotClaimable).detail("state", "PENDING")
	claim(p, 1, "RAIL_ACKED").refused(apierr.PayoutNotClaimable)
	require.Equal(t, before, f.snapshot(), "a refused claim does not raise the fence")
	claim(p, 1, "PENDING").into(http.StatusOK, &paymentapi.Claim{})
	claim(p, 2, "PENDING").refused(apierr.PayoutNotClaimable).detail("state", "CLAIMED")
	claim(p, 2, "CLAIMED").into(http.StatusOK, &paymentapi.Claim{})
	f.fencedOut(0, 0)
}

func TestGrantedClaimIsReplayedWhileItIsOpenAndTheFenceItsOwn(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	p := f.payout("acc", 10)
	first := f.claimed(p, 3)
	before := f.snapshot()
	require.Equal(t, first, f.claimed(p, 3))
	require.Equal(t, before, f.snapshot())

	second := f.claimed(p, 4) // a recovery
	require.Equal(t, paymentapi.Claimed, second.PreviousState)
	require.Equal(t, second, f.claimed(p, 4), "a recovery is replayed as a recovery")
	f.fencedOut(0, 0)

	f.claim(p, 3).refused(apierr.FencedOut).detail("highestToken", 4)
	f.fencedOut(1, 0)

	f.raise("acc", 9)
	f.claim(p, 4).refused(apierr.FencedOut).detail("highestToken", 9)
	f.fencedOut(2, 0)

	f.claimed(p, 10)
	require.Equal(t, 200, f.abandon(p, 10).status)
	f.claim(p, 10).refused(apierr.FencedOut) // closed: the token is used up
	require.Equal(t, paymentapi.Claimed, f.getPayout(p.PayoutID).State)
}

func TestRefusedClaimIsReplayedForEver(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 100)
	p := f.payout("acc", 101)
	f.claim(p, 1).refused(apierr.InsufficientFunds)
	require.EqualValues(t, 1, f.getAccount("acc").Fence)
	require.Equal(t, "INSUFFICIENT_FUNDS", f.getPayout(p.PayoutID).StateReason)
	before := f.snapshot()
	f.claim(p, 1).refused(apierr.InsufficientFunds)
	require.Equal(t, before, f.snapshot())

	f.claimed(f.payout("acc", 10), 2)
	f.claim(p, 1).refused(apierr.InsufficientFunds) // an older token, and still no incident
	f.fencedOut(0, 0)
	f.claim(p, 3).refused(apierr.PayoutNotClaimable).detail("state", "FAILED")
}

func TestReservationsAddUp(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 100)
	sixty, forty, penny := f.payout("acc", 60), f.payout("acc", 40), f.payout("acc", 1)
	f.claimed(sixty, 1)
	f.claimed(forty, 2) // exactly what is available
	require.Equal(t, paymentapi.Account{AccountID: "acc", Kind: paymentapi.Customer, Currency: "EUR", BalanceMinor: 100, ReservedMinor: 100,
		Fence: 2, LedgerSumMinor: 100}, f.getAccount("acc"))
	f.claim(penny, 3).refused(apierr.InsufficientFunds)
	f.claimed(forty, 4) // a recovery reserves nothing more
	require.EqualValues(t, 100, f.getAccount("acc").ReservedMinor)
	require.Equal(t, 200, f.outcome(forty, 4, "REJECTED").status)
	require.EqualValues(t, 60, f.getAccount("acc").ReservedMinor)
	f.claimed(f.payout("acc", 40), 5) // what was released can be reserved again
	f.claimed(sixty, 6)
	require.Equal(t, 200, f.post(sixty, 6, acknowledgement("r")).status)
	a := f.getAccount("acc")
	require.EqualValues(t, 40, a.BalanceMinor)
	require.EqualValues(t, 40, a.ReservedMinor)
	f.sound()
}

func TestReservationAtTheEndOfTheNumbers(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", math.MaxInt64)
	all, one := f.payout("acc", math.MaxInt64), f.payout("acc", 1)
	f.claimed(all, 1)
	f.claim(one, 2).refused(apierr.InsufficientFunds)
	require.EqualValues(t, int64(math.MaxInt64), f.getAccount("acc").ReservedMinor)
	f.claimed(all, math.MaxInt64) // the last token that there can be
	var posting paymentapi.Posting
	f.post(all, math.MaxInt64, acknowledgement("r")).into(http.StatusOK, &posting)
	require.Zero(t, posting.BalanceMinor)
	f.sound()
}

// INV-01: whatever order the requests arrive in, those accepted carry rising tokens.
func TestConcurrentClaimsAreAcceptedInTheOrderOfTheirTokens(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1_000_000)
	const goroutines, each = 16, 12
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	type try struct {
		p     paymentapi.Payout
		token int64
	}
	tries := make([][]try, goroutines)
	for i := range tries {
		for n := range each {
			// The range rises slowly and overlaps, so that there are many winners; tokens repeat over payouts.
			tries[i] = append(tries[i], try{f.payout("acc", 1), int64(n*8) + 1 + random.Int64N(32)})
		}
	}
	var wg sync.WaitGroup
	granted := make([][]int64, goroutines)
	for i := range tries {
		wg.Go(func() {
			for _, one := range tries[i] {
				r := f.claim(one.p, one.token)
				if r.status == http.StatusOK {
					granted[i] = append(granted[i], one.token)
				} else {
					r.refused(apierr.FencedOut)
				}
			}
		})
	}
	wg.Wait()
	rows, err := f.owner.Query(context.Background(), `SELECT token FROM payout_transition WHERE to_state = 'CLAIMED' ORDER BY id`)
	require.NoError(t, err)
	accepted, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(t, err)
	total := 0
	for _, g := range granted {
		total += len(g)
	}
	require.Len(t, accepted, total)
	require.Greater(t, total, 3)
	for i := 1; i < len(accepted); i++ {
		require.Greater(t, accepted[i], accepted[i-1], "accepted in this order: %v", accepted)
	}
	require.EqualValues(t, accepted[len(accepted)-1], f.getAccount("acc").Fence)
	require.EqualValues(t, total, f.getAccount("acc").ReservedMinor)
	f.fencedOut(goroutines*each-total, 0)
	f.sound()
}

// The same request at the same time, as a retry that overtakes the lost one: one effect, one answer.
func TestConcurrentRepeatsOfOneClaim(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	p := f.payout("acc", 10)
	answers := make([]paymentapi.Claim, 16)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() { f.claim(p, 5).into(http.StatusOK, &answers[i]) })
	}
	wg.Wait()
	for _, a := range answers {
		require.Equal(t, answers[0], a)
	}
	require.Equal(t, 1, one[int](f, `SELECT count(*) FROM payout_claim`))
	require.Equal(t, 1, f.getPayout(p.PayoutID).AttemptCount)
	f.fencedOut(0, 0)
}

// A claim that waits for the account behind a newer one is refused when the newer one commits: the comparison
// is made on the row as it then is.
func TestClaimThatWaitsBehindANewerOne(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	older := f.payout("acc", 10)
	ctx := context.Background()
	tx, err := f.owner.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `UPDATE account SET fence = 9 WHERE account_id = 'acc'`)
	require.NoError(t, err)
	answer := make(chan reply, 1)
	go func() { answer <- f.claim(older, 8) }()
	require.Eventually(t, func() bool {
		return one[int](f, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 1
	}, eventually, eventuallyEvery)
	require.NoError(t, tx.Commit(ctx))
	select {
	case r := <-answer:
		r.refused(apierr.FencedOut).detail("highestToken", 9)
	case <-time.After(eventually):
		require.Fail(t, "no answer")
	}
}
