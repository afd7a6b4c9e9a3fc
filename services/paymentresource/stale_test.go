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
	for name, write := range map[string]func(f *fixture, p paymentapi.Payout) reply{
		"post with the acknowledgement": func(f *fixture, p paymentapi.Payout) reply { return f.post(p, 1, acknowledgement("r-1")) },
		"post after the acknowledgement": func(f *fixture, p paymentapi.Payout) reply {
			f.t.Helper()
			_, err := f.owner.Exec(f.t.Context(), `
				INSERT INTO payout_transition (payout_id, from_state, to_state, token, owner_id, reason) VALUES
					($1, 'CLAIMED', 'RAIL_SUBMITTED', 1, 'run-1', 'r'), ($1, 'RAIL_SUBMITTED', 'RAIL_ACKED', 1, 'run-1', 'r')`, p.PayoutID)
			require.NoError(f.t, err)
			_, err = f.owner.Exec(f.t.Context(), `UPDATE payout SET state = 'RAIL_SUBMITTED' WHERE payout_id = $1`, p.PayoutID)
			require.NoError(f.t, err)
			_, err = f.owner.Exec(f.t.Context(), `UPDATE payout SET state = 'RAIL_ACKED', rail_reference = 'r-1' WHERE payout_id = $1`, p.PayoutID)
			require.NoError(f.t, err)
			return f.post(p, 1, paymentapi.PostRequest{})
		},
		"declined":  func(f *fixture, p paymentapi.Payout) reply { return f.outcome(p, 1, "REJECTED") },
		"ambiguous": func(f *fixture, p paymentapi.Payout) reply { return f.outcome(p, 1, "TIMEOUT") },
		"hand back": func(f *fixture, p paymentapi.Payout) reply { return f.abandon(p, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			f.account("a", 1000)
			stale, newer := f.payout("a", 10), f.payout("a", 20)
			f.claimed(stale, 1)
			f.claimed(newer, 2)
			first := write(f, stale).refused(apierr.FencedOut)
			require.Equal(t, http.StatusConflict, first.status)
			before := f.snapshot()
			if name != "post after the acknowledgement" {
				write(f, stale).refused(apierr.FencedOut)
			}
			require.Equal(t, before, f.snapshot())
			require.Equal(t, int64(30), f.getAccount("a").ReservedMinor)
			require.Equal(t, int64(1000), f.getAccount("a").BalanceMinor)
		})
	}
}
