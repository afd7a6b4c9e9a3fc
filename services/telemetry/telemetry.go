// Package telemetry sets up what every process says about itself: JSON log events and, when an OTLP endpoint is given, traces.
package telemetry

import (
	"context"
	"io"
	"log/slog"
	"os"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"railguard/services/fencing"
)

// NewLogger returns a logger that writes one JSON object a line. The message of a record is its event
// name, snake_case and past tense, under the key "event"; alerts key on it. traceId and spanId are added
// from the context.
func NewLogger(w io.Writer, service string) *slog.Logger {
	handler := slog.NewJSONHandler(w, &slog.HandlerOptions{
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.MessageKey {
				a.Key = "event"
			}
			return a
		},
	})
	return slog.New(traceHandler{handler}).With("service", service)
}

type traceHandler struct{ slog.Handler }

func (h traceHandler) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r.AddAttrs(slog.String("traceId", span.TraceID().String()), slog.String("spanId", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traceHandler{h.Handler.WithAttrs(attrs)}
}

func (h traceHandler) WithGroup(name string) slog.Handler {
	return traceHandler{h.Handler.WithGroup(name)}
}

// EndpointVariable turns tracing on; without it no span is recorded and nothing is sent.
const EndpointVariable = "OTEL_EXPORTER_OTLP_ENDPOINT"

// StartTracing installs the exporter named by the standard OTEL_* variables and returns its shutdown,
// which flushes. Without an endpoint it installs only the propagator.
func StartTracing(ctx context.Context, service string) (func(context.Context) error, error) {
	otel.SetTextMapPropagator(propagation.TraceContext{})
	if os.Getenv(EndpointVariable) == "" {
		return func(context.Context) error { return nil }, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, err
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", service))),
	)
	otel.SetTracerProvider(provider)
	return provider.Shutdown, nil
}

// StartSpan starts a span that carries the token as lock.token, so that filtering on one token shows
// one grant's whole life across the processes. A zero token adds no attribute.
func StartSpan(ctx context.Context, name string, token fencing.Token) (context.Context, trace.Span) {
	ctx, span := otel.Tracer("railguard").Start(ctx, name)
	if token.Valid() {
		span.SetAttributes(attribute.Int64("lock.token", int64(token)))
	}
	return ctx, span
}
