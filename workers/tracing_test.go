package workers

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.temporal.io/sdk/client"

	"railguard/services/apierr"
	"railguard/services/httpclient"
	"railguard/services/lockapi"
	"railguard/workflows"
)

// granter grants every lock under token 42 and lets it be released.
func granter(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/acquire") {
			_ = json.NewEncoder(w).Encode(lockapi.Grant{OwnerID: r.Header.Get(httpclient.HeaderOwnerID), FencingToken: 42, TTLMillis: 30_000})
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// fencer refuses every write.
func fencer(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(apierr.New(apierr.FencedOut, "a newer token was seen"))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestARunAndItsStepsAreOneTraceThatNamesTheToken(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)).Tracer("test")
	interceptors, err := tracingWith(tracer)
	require.NoError(t, err)
	c := dial(t, "default")
	cfg := config(t)
	cfg.LockServerURL, cfg.PaymentResourceURL = granter(t), fencer(t)
	start(t, cfg, client.Options{HostPort: temporalAddress, Interceptors: interceptors}).awaitReady(t)

	in := workflows.PayoutInput{PayoutID: uuid.NewString(), AccountID: "acc-1"}
	run, err := c.ExecuteWorkflow(t.Context(), workflows.StartOptions(cfg.TaskQueue, in), workflows.ExecutePayoutType, in)
	require.NoError(t, err)
	var result workflows.PayoutResult
	require.NoError(t, run.Get(t.Context(), &result))
	require.Equal(t, workflows.OutcomeFenced, result.Outcome)

	byName := map[string]tracetest.SpanStub{}
	require.Eventually(t, func() bool {
		for _, span := range spans.GetSpans() {
			byName[span.Name] = span
		}
		return len(byName) == 4
	}, soon, 20*time.Millisecond, "the last span may end after the result is there")
	for _, name := range []string{"payout.execute", "lock.acquire", "payment.claim", "lock.release"} {
		span, ok := byName[name]
		require.True(t, ok, name)
		require.Equal(t, byName["payout.execute"].SpanContext.TraceID(), span.SpanContext.TraceID(), name)
		token := int64(0)
		for _, attribute := range span.Attributes {
			if attribute.Key == "lock.token" {
				token = attribute.Value.AsInt64()
			}
		}
		require.Equal(t, int64(42), token, name)
		if name != "payout.execute" {
			require.Equal(t, byName["payout.execute"].SpanContext.SpanID(), span.Parent.SpanID(), name)
		}
	}
}
