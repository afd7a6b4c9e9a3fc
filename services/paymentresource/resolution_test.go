package paymentresource

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
	"railguard/services/paymentapi"
)

// ambiguous makes an account with one payout of 10 in RAIL_AMBIGUOUS, claimed under token 1.
func (f *fixture) ambiguous(account string) paymentapi.Payout {
	f.t.Helper()
	f.account(account, 1000)
	p := f.payout(account, 10)
	f.claimed(p, 1)
	require.Equal(f.t, http.StatusOK, f.outcome(p, 1, "TIMEOUT").status)
	return p
}

func settled(reference string) paymentapi.ResolutionRequest {
	return paymentapi.ResolutionRequest{Outcome: "SETTLED", RailReference: reference, Evidence: []byte(`{"transfer":"seen"}`), Reason: "the rail knows it"}
}

func absent() paymentapi.ResolutionRequest {
	return paymentapi.ResolutionRequest{Outcome: "ABSENT", Evidence: []byte(`{"transfers":0}`), Reason: "the rail knows none"}
}

func naming(r paymentapi.ResolutionRequest, second string) paymentapi.ResolutionRequest {
	r.SecondOperator = second
	return r
}

func evidence(r paymentapi.ResolutionRequest) paymentapi.ResolutionRequest {
	r.EvidenceOnly = true
	return r
}

func TestResolutionRecordsWhoDecided(t *testing.T) {
	t.Parallel()
	f := start(t)
	p := f.ambiguous("acc")
	var status paymentapi.PayoutStatus
	f.resolve("alice", p, 2, settled("ref-9")).into(http.StatusOK, &status)
	require.Equal(t, paymentapi.PayoutStatus{PayoutID: p.PayoutID, AccountID: "acc", State: paymentapi.RailAcked,
		StateReason: "the rail knows it", RailReference: "ref-9"}, status)
	require.Equal(t, `alice SETTLED ref-9 2 {"transfer": "seen"} none`, one[string](f,
		`SELECT concat_ws(' ', decided_by, outcome, rail_reference, token, evidence, coalesce(second_operator, 'none')) FROM payout_resolution`))
	require.EqualValues(t, 2, f.getAccount("acc").Fence)
}

func TestResolutionIsReplayedAndFenced(t *testing.T) {
	t.Parallel()
	f := start(t)
	p := f.ambiguous("acc")
	f.raise("acc", 5) // the resolver's own token: it raised both fences before it looked
	before := f.snapshot()
	f.resolve("resolver", p, 4, absent()).refused(apierr.FencedOut).detail("highestToken", 5).detail("resourceType", "account")
	require.Equal(t, before, f.snapshot())
	f.fencedOut(1, 0)

	var first, again paymentapi.PayoutStatus
	f.resolve("resolver", p, 5, absent()).into(http.StatusOK, &first) // equal: fence <= token
	f.raise("acc", 9)
	before = f.snapshot()
	f.resolve("resolver", p, 5, absent()).into(http.StatusOK, &again)
	require.Equal(t, first, again)
	f.resolve("resolver", p, 5, settled("r")).refused(apierr.IdempotencyConflict)
	f.resolve("alice", p, 9, absent()).refused(apierr.PayoutNotClaimable).detail("state", "FAILED")
	f.resolve("alice", p, 8, absent()).refused(apierr.FencedOut) // the fence speaks before the state does
	require.Equal(t, before, f.snapshot())
	f.fencedOut(2, 0)
	f.sound()
}

func TestOnlyAPersonAbandons(t *testing.T) {
	t.Parallel()
	f := start(t)
	p := f.ambiguous("acc")
	r := paymentapi.ResolutionRequest{Outcome: "ABANDONED", Reason: "paid by hand"}
	before := f.snapshot()
	f.resolve("resolver", p, 2, r).refused(apierr.Forbidden)
	require.Equal(t, before, f.snapshot())
	require.Equal(t, http.StatusOK, f.resolve("alice", p, 2, r).status)
	require.Zero(t, f.getAccount("acc").ReservedMinor)
}

func TestEvidenceDecidesNothing(t *testing.T) {
	t.Parallel()
	f := start(t)
	p := f.ambiguous("acc")
	var status paymentapi.PayoutStatus
	f.resolve("resolver", p, 2, evidence(absent())).into(http.StatusAccepted, &status)
	require.Equal(t, paymentapi.RailAmbiguous, status.State)
	before := f.snapshot()
	f.resolve("resolver", p, 2, evidence(absent())).into(http.StatusAccepted, &status)
	f.resolve("resolver", p, 2, evidence(settled("x"))).refused(apierr.IdempotencyConflict)
	require.Equal(t, before, f.snapshot())
	require.EqualValues(t, 10, f.getAccount("acc").ReservedMinor)
	// The resolver may come to another conclusion later; its own evidence does not bind it.
	require.Equal(t, http.StatusOK, f.resolve("resolver", p, 3, settled("late-1")).status)
}

func TestWhatContradictsTheEvidence(t *testing.T) {
	t.Parallel()
	f := start(t)
	abandoned := paymentapi.ResolutionRequest{Outcome: "ABANDONED", Reason: "paid by hand"}
	for name, c := range map[string]struct {
		evidence, decision paymentapi.ResolutionRequest
		contradicts        bool
	}{
		"settled, and an operator says absent":         {settled("r"), absent(), true},
		"settled, and an operator abandons":            {settled("r"), abandoned, true},
		"settled, and an operator names another one":   {settled("r"), settled("q"), true},
		"settled, and an operator agrees":              {settled("r"), settled("r"), false},
		"absent, and an operator says settled":         {absent(), settled("r"), true},
		"absent, and an operator agrees":               {absent(), absent(), false},
		"absent, and an operator abandons":             {absent(), abandoned, false},
		"absent, then settled, and an operator agrees": {settled("r"), settled("r"), false},
	} {
		t.Run(name, func(t *testing.T) {
			f := f.on(t)
			p := f.ambiguous("acc-" + p8name(name))
			if name[:12] == "absent, then" {
				require.Equal(t, http.StatusAccepted, f.resolve("resolver", p, 2, evidence(absent())).status)
			}
			require.Equal(t, http.StatusAccepted, f.resolve("resolver", p, 3, evidence(c.evidence)).status)
			before := f.snapshot()
			r := f.resolve("alice", p, 4, c.decision)
			if c.contradicts {
				require.Contains(t, r.refused(apierr.ValidationFailed).err.Details["fields"], "secondOperator")
				require.Equal(t, before, f.snapshot())
			} else {
				require.Equal(t, http.StatusOK, r.status, "%s", r.body)
			}
		})
	}
}

func p8name(s string) string {
	letters := make([]rune, 0, len(s))
	for _, r := range s {
		if r != ' ' && r != ',' {
			letters = append(letters, r)
		}
	}
	return string(letters)
}

func TestAContradictionNeedsTwoOperatorsOfTheirOwn(t *testing.T) {
	t.Parallel()
	f := start(t)
	p := f.ambiguous("acc")
	require.Equal(t, http.StatusAccepted, f.resolve("resolver", p, 2, evidence(absent())).status)

	var status paymentapi.PayoutStatus
	f.resolve("alice", p, 3, naming(settled("r"), "bob")).into(http.StatusAccepted, &status)
	require.Equal(t, paymentapi.RailAmbiguous, status.State)
	before := f.snapshot()
	f.resolve("alice", p, 3, naming(settled("r"), "bob")).into(http.StatusAccepted, &status) // said again: not twice
	f.resolve("alice", p, 3, naming(settled("r"), "alice")).refused(apierr.ValidationFailed) // not with oneself
	f.resolve("bob", p, 3, settled("r")).refused(apierr.ValidationFailed)                    // approving is naming the other
	f.resolve("resolver", p, 3, naming(settled("r"), "alice")).refused(apierr.ValidationFailed)
	require.Equal(t, before, f.snapshot())

	// Neither somebody who was not named, nor another decision, completes it.
	require.Equal(t, http.StatusAccepted, f.resolve("carol", p, 3, naming(settled("r"), "alice")).status)
	require.Equal(t, http.StatusAccepted, f.resolve("bob", p, 3, naming(settled("other"), "alice")).status)
	require.Equal(t, paymentapi.RailAmbiguous, f.getPayout(p.PayoutID).State)

	f.resolve("bob", p, 4, naming(settled("r"), "alice")).into(http.StatusOK, &status)
	require.Equal(t, paymentapi.RailAcked, status.State)
	require.Equal(t, "alice bob", one[string](f, `SELECT decided_by || ' ' || second_operator FROM payout_resolution`))
	f.resolve("bob", p, 4, naming(settled("r"), "alice")).into(http.StatusOK, &status) // a repeat
	f.resolve("alice", p, 3, naming(settled("r"), "bob")).into(http.StatusAccepted, &status)
	require.Equal(t, paymentapi.RailAmbiguous, status.State, "answered as before")
	f.fencedOut(0, 0)
	f.sound()
}

func TestNamingASecondOperatorAsksForApprovalEvenWithoutContradiction(t *testing.T) {
	t.Parallel()
	f := start(t)
	p := f.ambiguous("acc")
	require.Equal(t, http.StatusAccepted, f.resolve("alice", p, 2, naming(absent(), "bob")).status)
	require.Equal(t, http.StatusOK, f.resolve("bob", p, 2, naming(absent(), "alice")).status)
	require.Equal(t, paymentapi.Failed, f.getPayout(p.PayoutID).State)
}

func TestFenceIsRaisedAndNeverLowered(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	f.account("other", 1000)
	highest := func() int64 {
		var h struct {
			Highest int64 `json:"highest"`
		}
		f.do(call{as: "operator-less", method: http.MethodGet, path: "/v1/fences/highest"}).refused(apierr.Unauthenticated)
		f.do(call{as: "reader", method: http.MethodGet, path: "/v1/fences/highest"}).into(http.StatusOK, &h)
		return h.Highest
	}
	require.Zero(t, highest())
	var fence struct{ Fence int64 }
	for _, c := range []struct{ floor, want int64 }{{7, 7}, {7, 7}, {3, 7}, {8, 8}, {1 << 50, 1 << 50}, {9, 1 << 50}} {
		f.raise("acc", c.floor).into(http.StatusOK, &fence)
		require.Equal(t, c.want, fence.Fence)
	}
	require.EqualValues(t, 1<<50, highest())
	f.claim(f.payout("acc", 1), 9).refused(apierr.FencedOut)
	require.EqualValues(t, 0, f.getAccount("other").Fence)
	f.raise("nobody", 5).refused(apierr.NotFound)
	f.raise("clearing.EUR", 5).refused(apierr.NotFound)
}
