package e2e

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/harness/cluster"
	"railguard/harness/faults"
	"railguard/services/fencing"
	"railguard/services/lockapi"
	"railguard/services/railapi"
	"railguard/services/stubapi"
)

const (
	opening = int64(10_000)
	amount  = int64(100)
)

// want is what one payout must have left behind, everywhere.
type want struct {
	outcome     string // of the workflow
	state       string
	metric      string // the outcome under which the worker counted it, "" for none
	submissions string // the proxy's outcomes, oldest first, space separated
	requests    int    // what the rail received
	posted      bool   // two ledger legs and the money gone, else none
	reserved    int64
}

func verify(t *testing.T, w *cluster.Worker, r cluster.Result, expected want) cluster.Evidence {
	t.Helper()
	e := w.Cluster.Evidence(t, r.PayoutID)
	require.Equal(t, expected.outcome, r.Outcome, "%+v", r)
	require.Equal(t, expected.state, e.State)
	require.Equal(t, expected.state, r.State)
	var outcomes []string
	for _, s := range e.Submissions {
		outcomes = append(outcomes, s.Outcome)
	}
	require.Equal(t, expected.submissions, strings.Join(outcomes, " "))
	require.LessOrEqual(t, e.Presented(), 1, "INV-02")
	require.Len(t, e.Requests, expected.requests, "the rail's own log")
	balance := opening
	if expected.posted {
		require.Len(t, e.Entries, 2)
		balance -= amount
	} else {
		require.Empty(t, e.Entries)
	}
	require.Equal(t, balance, e.Account.BalanceMinor)
	require.Equal(t, balance, e.Account.LedgerSumMinor)
	require.Equal(t, expected.reserved, e.Account.ReservedMinor)
	counts := map[string]float64{"posted": 0, "failed": 0, "abandoned": 0, "ambiguous": 0}
	if expected.metric != "" {
		counts[expected.metric] = 1
	}
	require.Equal(t, counts, w.Executed(t))
	if expected.outcome != "contended" {
		require.True(t, w.Cluster.LockIsFree(t, r.AccountID), "the lock is released on every branch")
		require.Positive(t, r.FencingToken)
	}
	require.Equal(t, e.Account.AccountID, r.AccountID)
	record(t, w.Cluster, r.Run)
	return e
}

func TestPosted(t *testing.T) {
	t.Parallel()
	account := shared.NewAccount(t, opening)
	payout := shared.NewPayout(t, account, amount)
	w := shared.NewWorker(t)
	r := w.Execute(t, payout)
	e := verify(t, w, r, want{outcome: "posted", state: "POSTED", metric: "posted", submissions: "ACKED", requests: 1, posted: true})
	require.Equal(t, []string{">PENDING", "PENDING>CLAIMED", "CLAIMED>RAIL_SUBMITTED", "RAIL_SUBMITTED>RAIL_ACKED", "RAIL_ACKED>POSTED"}, e.Transitions)
	require.NotEmpty(t, r.RailReference)
	require.Equal(t, r.FencingToken, e.ClaimToken)
	require.Equal(t, fencing.Token(r.FencingToken), e.Account.Fence)
	for _, entry := range e.Entries {
		require.Equal(t, amount, entry.AmountMinor)
		require.Equal(t, r.FencingToken, entry.Fence)
	}
	require.NotEqual(t, e.Entries[0].Direction, e.Entries[1].Direction)
}

func TestDeclined(t *testing.T) {
	t.Parallel()
	payout := shared.NewPayout(t, shared.NewAccount(t, opening), amount, stubapi.Fault{Kind: stubapi.Decline})
	w := shared.NewWorker(t)
	e := verify(t, w, w.Execute(t, payout), want{outcome: "failed", state: "FAILED", metric: "failed", submissions: "REJECTED", requests: 1})
	require.Equal(t, []string{">PENDING", "PENDING>CLAIMED", "CLAIMED>RAIL_SUBMITTED", "RAIL_SUBMITTED>FAILED"}, e.Transitions)
}

func TestInsufficientFunds(t *testing.T) {
	t.Parallel()
	account := shared.NewAccount(t, opening)
	payout := shared.NewPayout(t, account, opening+1)
	w := shared.NewWorker(t)
	e := verify(t, w, w.Execute(t, payout), want{outcome: "failed", state: "FAILED", metric: "failed"})
	require.Equal(t, []string{">PENDING", "PENDING>FAILED"}, e.Transitions)
	require.Equal(t, "INSUFFICIENT_FUNDS", e.Claims[0].Outcome)
}

// Whatever the rail does but answer plainly is unknown: money may have moved, so the reservation stays and nobody submits again.
func TestAmbiguousForEveryAnswerThatIsNotPlain(t *testing.T) {
	t.Parallel()
	for _, kind := range []stubapi.Kind{stubapi.Hang, stubapi.ServerError, stubapi.DropBefore, stubapi.DropAfter,
		stubapi.MalformedAck, stubapi.TruncatedAck, stubapi.DoubleAck, stubapi.UnexpectedStatus} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			fault := stubapi.Fault{Kind: kind}
			if kind == stubapi.Hang {
				late := int64(3000)
				fault.LatencyMillis = &late
			}
			payout := shared.NewPayout(t, shared.NewAccount(t, opening), amount, fault)
			w := shared.NewWorker(t)
			e := verify(t, w, w.Execute(t, payout), want{outcome: "ambiguous", state: "RAIL_AMBIGUOUS", metric: "ambiguous",
				submissions: "TIMEOUT", requests: 1, reserved: amount})
			require.Equal(t, []string{">PENDING", "PENDING>CLAIMED", "CLAIMED>RAIL_SUBMITTED", "RAIL_SUBMITTED>RAIL_AMBIGUOUS"}, e.Transitions)
		})
	}
}

func TestContendedWhileAnotherHoldsTheLock(t *testing.T) {
	t.Parallel()
	account := shared.NewAccount(t, opening)
	payout := shared.NewPayout(t, account, amount)
	_, err := shared.Lock.Acquire(t.Context(), "payout:"+account, "another", lockapi.AcquireRequest{TTLMillis: 60_000})
	require.NoError(t, err)
	w := shared.NewWorker(t)
	verify(t, w, w.Execute(t, payout), want{outcome: "contended", state: "PENDING"})
}

func TestContendedWhileTheLockServiceCannotBeReached(t *testing.T) {
	t.Parallel()
	payout := shared.NewPayout(t, shared.NewAccount(t, opening), amount)
	gone := proxyTo(t, shared.URL("lock-server"))
	w := shared.NewWorker(t, "LOCK_SERVER_URL="+gone.URL)
	require.NoError(t, gone.Close())
	verify(t, w, w.Execute(t, payout), want{outcome: "contended", state: "PENDING"})
}

func TestContendedWhenThePayoutIsNotClaimable(t *testing.T) {
	t.Parallel()
	payout := shared.NewPayout(t, shared.NewAccount(t, opening), amount)
	first, again := shared.NewWorker(t), shared.NewWorker(t)
	verify(t, first, first.Execute(t, payout), want{outcome: "posted", state: "POSTED", metric: "posted", submissions: "ACKED", requests: 1, posted: true})
	r := shared.Await(t, again.BeginAs(t, "again-"+payout, payout))
	verify(t, again, r, want{outcome: "contended", state: "POSTED", submissions: "ACKED", requests: 1, posted: true})
}

func proxyTo(t *testing.T, target string) *faults.Proxy {
	t.Helper()
	p, err := faults.NewProxy(target)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// on is a rule that gives its verdict to the requests whose path ends so, and lets the others pass.
func on(suffix string, verdict func(*http.Request) faults.Verdict) func(*http.Request) faults.Verdict {
	return func(r *http.Request) faults.Verdict {
		if strings.HasSuffix(r.URL.Path, suffix) {
			return verdict(r)
		}
		return faults.Pass
	}
}

// interposed is one payout whose worker reaches one of its services through a proxy with a rule.
func interposed(t *testing.T, variable, service, suffix string, verdict func(account, payout string, r *http.Request) faults.Verdict, env ...string) (*cluster.Worker, string, *faults.Proxy) {
	t.Helper()
	account := shared.NewAccount(t, opening)
	payout := shared.NewPayout(t, account, amount)
	p := proxyTo(t, shared.URL(service))
	p.Rule(on(suffix, func(r *http.Request) faults.Verdict { return verdict(account, payout, r) }))
	return shared.NewWorker(t, append(env, variable+"="+p.URL)...), payout, p
}

func raise(t *testing.T, account string) {
	highest, err := shared.Operator.HighestFence(t.Context())
	require.NoError(t, err)
	_, err = shared.Operator.RaiseFence(t.Context(), cluster.Owner, account, fencing.RaiseRequest{Floor: highest.Highest + 1_000_000, Reason: "a newer holder came"})
	require.NoError(t, err)
}

// A newer token reached the account before this step's own write: the write is refused, and the run ends.
func TestFencedOutAtTheAccount(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step, suffix, state, submissions string
		fault                            stubapi.Kind
		requests                         int
		reserved                         int64
	}{
		{"claim", "/claim", "PENDING", "", stubapi.None, 0, 0},
		// The acknowledgement is recorded before the ledger is touched, under the claim's own token.
		{"rail outcome", "/rail-outcome", "CLAIMED", "REJECTED", stubapi.Decline, 1, amount},
		{"post", "/post", "CLAIMED", "ACKED", stubapi.None, 1, amount},
	} {
		t.Run(c.step, func(t *testing.T) {
			t.Parallel()
			account := shared.NewAccount(t, opening)
			payout := shared.NewPayout(t, account, amount, stubapi.Fault{Kind: c.fault})
			p := proxyTo(t, shared.URL("payment-resource"))
			var once sync.Once
			p.Rule(on(c.suffix, func(*http.Request) faults.Verdict {
				once.Do(func() { raise(t, account) })
				return faults.Pass
			}))
			w := shared.NewWorker(t, "PAYMENT_RESOURCE_URL="+p.URL)
			e := verify(t, w, w.Execute(t, payout), want{outcome: "fenced", state: c.state, metric: "abandoned",
				submissions: c.submissions, requests: c.requests, reserved: c.reserved})
			require.Empty(t, e.Entries, "INV-05")
		})
	}
}

func TestFencedOutAtTheRailHandsTheClaimBack(t *testing.T) {
	t.Parallel()
	w, payout, _ := interposed(t, "RAIL_PROXY_URL", "rail-proxy", "/submissions", func(account, _ string, _ *http.Request) faults.Verdict {
		_, err := shared.RailOps.RaiseFence(t.Context(), cluster.Owner, account, fencing.RaiseRequest{Floor: 1 << 40, Reason: "a newer holder came"})
		require.NoError(t, err)
		return faults.Pass
	})
	e := verify(t, w, w.Execute(t, payout), want{outcome: "fenced", state: "CLAIMED", metric: "abandoned", submissions: "FENCED", reserved: amount})
	require.False(t, e.Claims[0].Open)
}

func TestDuplicateSubmissionIsLeftToRecovery(t *testing.T) {
	t.Parallel()
	w, payout, p := interposed(t, "RAIL_PROXY_URL", "rail-proxy", "/submissions", func(account, payout string, r *http.Request) faults.Verdict {
		// The same token presents the same payout first, as a run that was reset while it submitted would.
		token, err := fencing.Parse(r.Header.Get(fencing.HeaderToken))
		require.NoError(t, err)
		_, err = shared.Rail.Submit(t.Context(), token, cluster.Owner, r.Header.Get("X-Idempotency-Key"),
			railapi.SubmissionRequest{PayoutID: payout, AccountID: account, AmountMinor: amount, Currency: "EUR", BeneficiaryRef: "beneficiary-1"})
		require.NoError(t, err)
		return faults.Pass
	})
	r := w.Execute(t, payout)
	verify(t, w, r, want{outcome: "abandoned", state: "CLAIMED", metric: "abandoned", submissions: "ACKED", requests: 1, reserved: amount})

	p.Rule(nil)
	recovery := shared.NewWorker(t)
	r = shared.Await(t, recovery.BeginAs(t, "recovery-"+payout, payout))
	verify(t, recovery, r, want{outcome: "posted", state: "POSTED", metric: "posted", submissions: "ACKED", requests: 1, posted: true})
}
