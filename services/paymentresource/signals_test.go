package paymentresource

import (
	"io"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/services/httpserver"
	"railguard/services/paymentapi"
	"railguard/services/telemetry"
)

// Every series with a closed label set is there at zero from the first scrape: an absent series disarms its alert.
func TestEveryMetricIsThereFromTheFirstScrape(t *testing.T) {
	t.Parallel()
	f := start(t)
	for series, want := range map[string]string{
		`lock_fenced_out_total{resource="account"}`: "0",
		`lock_fenced_out_total{resource="ledger"}`:  "0",
		`fencing_enabled{guard="account"}`:          "1",
		`pgx_pool_max_conns`:                        "8",
		`pgx_pool_acquired_conns`:                   "0",
	} {
		got, ok := f.metric(series)
		require.True(t, ok, series)
		require.Equal(t, want, got, series)
	}
	_, ok := f.metric(`lock_fenced_out_total{resource="rail"}`)
	require.False(t, ok, "the rail's series belongs to the other guard")
}

// No label carries a key, an account, a payout, a token or a raw path.
func TestNoLabelCarriesWhatComesFromOutside(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc-very-visible", 1000)
	p := f.payout("acc-very-visible", 10)
	f.claimed(p, 987654321)
	f.claim(f.payout("acc-very-visible", 10), 987654320)
	f.do(call{as: "reader", method: http.MethodGet, path: "/v1/raw-path-of-nobody"})
	res, err := http.Get(f.base + "/actuator/prometheus") //nolint:noctx // a scrape in a test
	require.NoError(t, err)
	page, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	labels := regexp.MustCompile(`\{[^}]*\}`).FindAllString(string(page), -1)
	require.NotEmpty(t, labels)
	for _, l := range labels {
		for _, leaked := range []string{"acc-very-visible", p.PayoutID, "987654321", "raw-path-of-nobody"} {
			require.NotContains(t, l, leaked)
		}
	}
}

// Not in parallel: the client keeps to the timeouts of production.
func TestTypedClientSpeaksToTheService(t *testing.T) {
	f := start(t)
	f.account("acc", 1000)
	p := f.payout("acc", 10)
	ctx := t.Context()
	executor, operator, resolver, intake := f.typed("executor"), f.typed("alice"), f.typed("resolver"), f.typed("intake")

	claim, err := executor.Claim(ctx, 1, "run-1", p.PayoutID, paymentapi.ClaimRequest{AccountID: "acc", ExpectedState: paymentapi.Claimable})
	require.NoError(t, err)
	_, err = executor.AbandonClaim(ctx, 1, "run-1", p.PayoutID, paymentapi.AbandonRequest{Reason: "short lease"})
	require.NoError(t, err)
	_, err = executor.Claim(ctx, 2, "run-2", p.PayoutID, paymentapi.ClaimRequest{AccountID: "acc", ExpectedState: "CLAIMED"})
	require.NoError(t, err)
	posting, err := executor.Post(ctx, 2, "run-2", claim.IdempotencyKey, p.PayoutID, acknowledgement("r"))
	require.NoError(t, err)
	require.EqualValues(t, 990, posting.BalanceMinor)

	made, err := intake.CreatePayouts(ctx, "cli", paymentapi.CreatePayoutsRequest{Payouts: []paymentapi.CreatePayoutRequest{order("a", "acc", 1), order("b", "acc", 1)}})
	require.NoError(t, err)
	_, err = operator.Cancel(ctx, "cli", made.Payouts[0].PayoutID, paymentapi.CancelRequest{Operator: "alice", Reason: "not wanted"})
	require.NoError(t, err)
	_, err = executor.Claim(ctx, 3, "run-3", made.Payouts[1].PayoutID, paymentapi.ClaimRequest{AccountID: "acc", ExpectedState: paymentapi.Claimable})
	require.NoError(t, err)
	_, err = executor.RecordRailOutcome(ctx, 3, "run-3", made.Payouts[1].PayoutID, made.Payouts[1].PayoutID, paymentapi.RailOutcomeRequest{RailOutcome: "TIMEOUT", Reason: "r"})
	require.NoError(t, err)
	status, err := resolver.Resolve(ctx, 4, "resolver", made.Payouts[1].PayoutID, absent())
	require.NoError(t, err)
	require.Equal(t, paymentapi.Failed, status.State)
	page, err := executor.ListPayouts(ctx, paymentapi.ListPayoutsRequest{State: paymentapi.Posted, Limit: 5, OnePerAccount: true})
	require.NoError(t, err)
	require.Len(t, page.Payouts, 1)
	highest, err := resolver.HighestFence(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 4, highest.Highest)
}

func TestAReachableAddressNeedsTheTokensFile(t *testing.T) {
	t.Parallel()
	_, err := newServer(t.Context(), Config{ListenAddr: "0.0.0.0:0", DatabaseURL: "postgres://x@127.0.0.1:1/x", DatabasePool: 1},
		telemetry.NewLogger(io.Discard, Name))
	require.ErrorIs(t, err, httpserver.ErrOpenToAll)
}

func TestConfigErrorsNameTheVariable(t *testing.T) {
	for name, environment := range map[string]map[string]string{
		"PAYDB_URL":               {},
		"PAYMENT_DB_POOL":         {"PAYDB_URL": "postgres://x@y/z", "PAYMENT_DB_POOL": "0"},
		"PAYMENT_FENCING_ENABLED": {"PAYDB_URL": "postgres://x@y/z", "PAYMENT_FENCING_ENABLED": "perhaps"},
		"PAYMENT_FENCING":         {"PAYDB_URL": "postgres://x@y/z", "PAYMENT_FENCING": "false"},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range environment {
				t.Setenv(variable, value)
			}
			_, err := LoadConfig()
			require.ErrorContains(t, err, name)
		})
	}
	t.Setenv("PAYDB_URL", "postgres://payapp:secret@127.0.0.1/paydb")
	cfg, err := LoadConfig()
	require.NoError(t, err)
	require.Equal(t, Config{ListenAddr: "127.0.0.1:8082", DatabaseURL: "postgres://payapp:secret@127.0.0.1/paydb", DatabasePool: 16, FencingEnabled: true}, cfg)
}
