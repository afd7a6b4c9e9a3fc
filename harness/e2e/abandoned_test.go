package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/harness/cluster"
	"railguard/harness/faults"
	"railguard/services/fencing"
	"railguard/services/lockapi"
)

// handedBack is a payout that was claimed and given back with nothing presented.
var handedBack = want{outcome: "abandoned", state: "CLAIMED", metric: "abandoned", reserved: amount}

func TestAbandonedWhenTheClaimIsNeverAnswered(t *testing.T) {
	t.Parallel()
	t.Run("and never arrived", func(t *testing.T) {
		t.Parallel()
		w, payout, p := interposed(t, "PAYMENT_RESOURCE_URL", "payment-resource", "/claim", func(string, string, *http.Request) faults.Verdict {
			return faults.Verdict{DropRequest: true}
		})
		e := verify(t, w, w.Execute(t, payout), want{outcome: "abandoned", state: "PENDING", metric: "abandoned"})
		require.Empty(t, e.Claims)
		require.Equal(t, 5, count(p, "/claim"))
	})
	t.Run("but took effect", func(t *testing.T) {
		t.Parallel()
		w, payout, _ := interposed(t, "PAYMENT_RESOURCE_URL", "payment-resource", "/claim", func(string, string, *http.Request) faults.Verdict {
			return faults.Verdict{DropAnswer: true}
		})
		e := verify(t, w, w.Execute(t, payout), handedBack)
		require.Len(t, e.Claims, 1, "every try was the same claim")
		require.False(t, e.Claims[0].Open)
	})
}

func count(p *faults.Proxy, suffix string) int {
	n := 0
	for _, seen := range p.Seen() {
		if len(seen) >= len(suffix) && seen[len(seen)-len(suffix):] == suffix {
			n++
		}
	}
	return n
}

func TestALostAnswerToAClaimIsReplayed(t *testing.T) {
	t.Parallel()
	lost := false
	w, payout, _ := interposed(t, "PAYMENT_RESOURCE_URL", "payment-resource", "/claim", func(string, string, *http.Request) faults.Verdict {
		first := !lost
		lost = true
		return faults.Verdict{DropAnswer: first}
	})
	e := verify(t, w, w.Execute(t, payout), want{outcome: "posted", state: "POSTED", metric: "posted", submissions: "ACKED", requests: 1, posted: true})
	require.Equal(t, 1, e.AttemptCount)
}

func TestAbandonedWhenTheLeaseIsTooShortForTheSubmit(t *testing.T) {
	t.Parallel()
	// 4 s of lease, of which 1.2 s are margin and 2 s the submit: a claim that took a second leaves too little.
	w, payout, _ := interposed(t, "PAYMENT_RESOURCE_URL", "payment-resource", "/claim", func(string, string, *http.Request) faults.Verdict {
		return faults.Verdict{AfterAnswer: func() {
			timer := time.NewTimer(1200 * time.Millisecond)
			defer timer.Stop()
			<-timer.C
		}}
	}, "PAYOUT_LOCK_TTL=4s")
	e := verify(t, w, w.Execute(t, payout), handedBack)
	require.False(t, e.Claims[0].Open)
}

func TestAbandonedWhenTheWorkerNoLongerHoldsTheLock(t *testing.T) {
	t.Parallel()
	w, payout, _ := interposed(t, "PAYMENT_RESOURCE_URL", "payment-resource", "/claim", func(account, _ string, r *http.Request) faults.Verdict {
		return faults.Verdict{AfterAnswer: func() {
			_, err := shared.Revoker.Revoke(t.Context(), cluster.Owner, "payout:"+account, lockapi.RevokeRequest{Operator: "op", Reason: "taken from its holder"})
			require.NoError(t, err)
		}}
	})
	verify(t, w, w.Execute(t, payout), handedBack)
}

func TestAbandonedWhenTheProxyCannotBeReached(t *testing.T) {
	t.Parallel()
	payout := shared.NewPayout(t, shared.NewAccount(t, opening), amount)
	gone := proxyTo(t, shared.URL("rail-proxy"))
	w := shared.NewWorker(t, "RAIL_PROXY_URL="+gone.URL)
	require.NoError(t, gone.Close())
	e := verify(t, w, w.Execute(t, payout), handedBack)
	require.False(t, e.Claims[0].Open)

	// Nothing was presented, so a later pass may submit.
	later := shared.NewWorker(t)
	r := shared.Await(t, later.BeginAs(t, "later-"+payout, payout))
	verify(t, later, r, want{outcome: "posted", state: "POSTED", metric: "posted", submissions: "ACKED", requests: 1, posted: true})
}

// The proxy refuses before admission: nothing was presented, and nothing is written at the proxy.
func TestAbandonedWhenTheProxyRefusesBeforeAdmission(t *testing.T) {
	t.Parallel()
	presented := shared.NewPayout(t, shared.NewAccount(t, opening), amount)
	require.Equal(t, "posted", shared.NewWorker(t).Execute(t, presented).Outcome)
	for name, change := range map[string]func(*http.Request){
		// Another payout was presented under this key.
		"IDEMPOTENCY_CONFLICT": func(r *http.Request) { r.Header.Set("X-Idempotency-Key", presented) },

		"VALIDATION_FAILED": func(r *http.Request) { r.Header.Del("X-Idempotency-Key") },
		"INVALID_TOKEN":     func(r *http.Request) { r.Header.Set(fencing.HeaderToken, "0") },
		"UNAUTHENTICATED":   func(r *http.Request) { r.Header.Set("Authorization", "Bearer nobody") },
		"FORBIDDEN":         func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+shared.Bearer("reader")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, payout, p := interposed(t, "RAIL_PROXY_URL", "rail-proxy", "/submissions", func(_, _ string, r *http.Request) faults.Verdict {
				change(r)
				return faults.Pass
			})
			r := w.Execute(t, payout)
			verify(t, w, r, handedBack)
			require.Contains(t, r.Reason, name)
			require.Equal(t, 1, count(p, "/submissions"))
		})
	}
}

// An answer that the proxy did not write, and a connection that died, leave it unknown whether money moved.
func TestAmbiguousWhenTheProxysAnswerIsLostOrForeign(t *testing.T) {
	t.Parallel()
	for name, verdict := range map[string]faults.Verdict{
		"lost":                                   {DropAnswer: true},
		"a gateway's page":                       {Status: 502, Body: "<html>bad gateway</html>", Forward: true},
		"a code with another's status":           {Status: 400, Body: `{"code":"RAIL_UNAVAILABLE","message":"m"}`, Forward: true},
		"an unknown code":                        {Status: 503, Body: `{"code":"TRY_AGAIN","message":"m"}`, Forward: true},
		"a code that is not the proxy's to give": {Status: 404, Body: `{"code":"NOT_FOUND","message":"m"}`, Forward: true},
		"an internal error":                      {Status: 500, Body: `{"code":"INTERNAL","message":"m"}`, Forward: true},
		"an acknowledgement of nothing":          {Status: 200, Body: `{}`, Forward: true},
		"a truncated acknowledgement":            {Status: 200, Body: `{"submissionId":`, Forward: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, payout, p := interposed(t, "RAIL_PROXY_URL", "rail-proxy", "/submissions", func(_, _ string, r *http.Request) faults.Verdict {
				if r.Method != http.MethodPost {
					return faults.Pass
				}
				return verdict
			})
			// The proxy did record ACKED; the worker did not hear it from an answer it can trust.
			verify(t, w, w.Execute(t, payout), want{outcome: "ambiguous", state: "RAIL_AMBIGUOUS", metric: "ambiguous",
				submissions: "ACKED", requests: 1, reserved: amount})
			require.Equal(t, 1, count(p, "/submissions"))
		})
	}
}

func TestCancelledBeforeTheSubmitIsScheduled(t *testing.T) {
	t.Parallel()
	arrived, goOn := make(chan struct{}), make(chan struct{})
	w, payout, _ := interposed(t, "PAYMENT_RESOURCE_URL", "payment-resource", "/claim", func(string, string, *http.Request) faults.Verdict {
		close(arrived)
		<-goOn
		return faults.Pass
	})
	run := w.Begin(t, payout)
	<-arrived
	require.NoError(t, shared.Temporal.CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()))
	close(goOn)
	e := verify(t, w, shared.Await(t, run), handedBack)
	require.False(t, e.Claims[0].Open)
}

func TestCancelledDuringTheSubmitIsAwaitedAndRecorded(t *testing.T) {
	t.Parallel()
	arrived, goOn := make(chan struct{}), make(chan struct{})
	w, payout, _ := interposed(t, "RAIL_PROXY_URL", "rail-proxy", "/submissions", func(string, string, *http.Request) faults.Verdict {
		close(arrived)
		<-goOn
		return faults.Pass
	})
	run := w.Begin(t, payout)
	<-arrived
	require.NoError(t, shared.Temporal.CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()))
	close(goOn)
	verify(t, w, shared.Await(t, run), want{outcome: "posted", state: "POSTED", metric: "posted", submissions: "ACKED", requests: 1, posted: true})
}
