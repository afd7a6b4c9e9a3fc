package activities

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"railguard/services/httpclient"
	"railguard/services/paymentapi"
	"railguard/services/railapi"
)

// A 200 that is JSON and not the service's own answer to this request must not read as a success, nor as an empty record.
func TestAnAnswerAboutSomethingElseIsNone(t *testing.T) {
	t.Parallel()
	const other = `"payoutId":"01890000-0000-7000-8000-000000000002"`
	mine := `"payoutId":"` + submission.PayoutID + `"`
	steps := map[string]struct {
		do    func(context.Context, *Activities) error
		wrong []string
		right string
	}{
		"load": {func(ctx context.Context, a *Activities) error {
			_, err := a.LoadPayout(ctx, LoadInput{PayoutID: submission.PayoutID})
			return err
		}, []string{`{` + other + `,"accountId":"acc-1"}`, `{` + mine + `}`}, `{` + mine + `,"accountId":"acc-1"}`},
		"post": {func(ctx context.Context, a *Activities) error {
			_, err := a.PostLedger(ctx, token, PostInput{PayoutID: submission.PayoutID})
			return err
		}, []string{`{` + other + `,"state":"POSTED"}`, `{` + mine + `,"state":"RAIL_ACKED"}`}, `{` + mine + `,"state":"POSTED"}`},
		"declined": {func(ctx context.Context, a *Activities) error {
			_, err := a.RecordRailOutcome(ctx, token, OutcomeInput{PayoutID: submission.PayoutID, RailOutcome: railapi.Rejected})
			return err
		}, []string{`{` + other + `,"state":"FAILED"}`, `{` + mine + `,"state":"RAIL_AMBIGUOUS"}`}, `{` + mine + `,"state":"FAILED"}`},
		"ambiguous": {func(ctx context.Context, a *Activities) error {
			_, err := a.RecordRailOutcome(ctx, token, OutcomeInput{PayoutID: submission.PayoutID, RailOutcome: railapi.Timeout})
			return err
		}, []string{`{` + other + `,"state":"RAIL_AMBIGUOUS"}`, `{` + mine + `,"state":"FAILED"}`}, `{` + mine + `,"state":"RAIL_AMBIGUOUS"}`},
		"abandon": {func(ctx context.Context, a *Activities) error {
			_, err := a.AbandonClaim(ctx, token, AbandonInput{PayoutID: submission.PayoutID})
			return err
		}, []string{`{` + other + `,"state":"CLAIMED"}`}, `{` + mine + `,"state":"CLAIMED"}`},
		"lookup": {func(ctx context.Context, a *Activities) error {
			_, err := a.LookupSubmission(ctx, token, LookupInput{PayoutID: submission.PayoutID})
			return err
		}, []string{`{` + other + `,"submissions":[]}`, `{` + mine + `}`, `{` + mine + `,"submissions":[{` + other + `,"outcome":"REJECTED"}]}`},
			`{` + mine + `,"submissions":[{` + mine + `,"outcome":"REJECTED"}]}`},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var answer string
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
			defer service.Close()
			payments, err := paymentapi.NewClient(service.URL, httpclient.Identity{})
			require.NoError(t, err)
			rail, err := railapi.NewClient(service.URL, httpclient.Identity{}, time.Second)
			require.NoError(t, err)
			a := &Activities{Payments: payments, Rail: rail, Log: slog.New(slog.DiscardHandler)}
			for _, answer = range append(step.wrong, `{}`, `null`, `{"status":"ok"}`) {
				var refused *temporal.ApplicationError
				require.ErrorAs(t, step.do(t.Context(), a), &refused, answer)
				require.Equal(t, ErrorBadAnswer, refused.Type())
				require.False(t, refused.NonRetryable())
			}
			answer = step.right
			require.NoError(t, step.do(t.Context(), a))
		})
	}
}
