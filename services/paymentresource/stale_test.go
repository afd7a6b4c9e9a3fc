package paymentresource

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
	"railguard/services/paymentapi"
)

// The everyday stale token: its own claim is still open, and a newer token has claimed another payout of the account.
// The refusal must be judged by what stood before the statements of the refused attempt: an attempt that is rolled
// back must never be taken for an earlier success and answered as a replay.
func TestAStaleTokenWithAnOpenClaimIsFencedOutAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	const token, newerToken = 3, 4
	claimed := func(f *fixture, p paymentapi.Payout) { f.claimed(p, token) }
	acked := func(f *fixture, p paymentapi.Payout) {
		f.claimed(p, 1)
		require.Equal(f.t, http.StatusOK, f.outcome(p, 1, "TIMEOUT").status)
		require.Equal(f.t, http.StatusOK, f.resolve("resolver", p, 2, paymentapi.ResolutionRequest{
			Outcome: "SETTLED", RailReference: "found-1", Evidence: []byte(`{"row":"ACKED"}`), Reason: "found"}).status)
		require.Equal(f.t, paymentapi.RailAcked, f.claimed(p, token).State)
	}
	for name, c := range map[string]struct {
		before func(*fixture, paymentapi.Payout)
		write  func(*fixture, paymentapi.Payout) reply
	}{
		"post with the acknowledgement":  {claimed, func(f *fixture, p paymentapi.Payout) reply { return f.post(p, token, acknowledgement("r-1")) }},
		"post after the acknowledgement": {acked, func(f *fixture, p paymentapi.Payout) reply { return f.post(p, token, paymentapi.PostRequest{}) }},
		"declined":                       {claimed, func(f *fixture, p paymentapi.Payout) reply { return f.outcome(p, token, "REJECTED") }},
		"ambiguous":                      {claimed, func(f *fixture, p paymentapi.Payout) reply { return f.outcome(p, token, "TIMEOUT") }},
		"hand back":                      {claimed, func(f *fixture, p paymentapi.Payout) reply { return f.abandon(p, token) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			f.account("a", 1000)
			stale, newer := f.payout("a", 10), f.payout("a", 20)
			c.before(f, stale)
			f.claimed(newer, newerToken)
			before := f.snapshot()
			for range 2 {
				c.write(f, stale).refused(apierr.FencedOut).detail("presentedToken", token).detail("highestToken", newerToken)
			}
			require.Equal(t, before, f.snapshot())
		})
	}
}
