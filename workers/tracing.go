package workers

import (
	"context"
	"os"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"

	"railguard/services/telemetry"
)

// spanNames give the steps of a payout the same names in every process's traces.
var spanNames = map[string]string{
	"RunWorkflow:ExecutePayout":     "payout.execute",
	"RunActivity:LoadPayout":        "payment.load",
	"RunActivity:AcquireLock":       "lock.acquire",
	"RunActivity:ClaimPayout":       "payment.claim",
	"RunActivity:LookupSubmission":  "rail.lookup",
	"RunActivity:SubmitToRail":      "rail.submit",
	"RunActivity:PostLedger":        "ledger.post",
	"RunActivity:RecordRailOutcome": "payment.rail_outcome",
	"RunActivity:AbandonClaim":      "payment.abandon",
	"RunActivity:ReleaseLock":       "lock.release",
}

// tracing is what a worker traces with; nothing without an OTLP endpoint.
func tracing() ([]interceptor.ClientInterceptor, error) {
	if os.Getenv(telemetry.EndpointVariable) == "" {
		return nil, nil
	}
	return tracingWith(otel.Tracer("railguard"))
}

// tracingWith is the interceptor that makes a run and its steps one trace.
func tracingWith(tracer trace.Tracer) ([]interceptor.ClientInterceptor, error) {
	traced, err := opentelemetry.NewTracingInterceptor(opentelemetry.TracerOptions{
		Tracer:                  tracer,
		AllowInvalidParentSpans: true,
		DisableQueryTracing:     true,
		SpanStarter:             startSpan,
	})
	if err != nil {
		return nil, err
	}
	return []interceptor.ClientInterceptor{traced}, nil
}

func startSpan(ctx context.Context, t trace.Tracer, name string, options ...trace.SpanStartOption) trace.Span {
	if strings.HasPrefix(name, "StartActivity:") {
		// The scheduling of a step is no span of its own: the step hangs below the run directly.
		return trace.SpanFromContext(ctx)
	}
	if ours, ok := spanNames[name]; ok {
		name = ours
	}
	_, span := t.Start(ctx, name, options...)
	return span
}
