package workers

import (
	"context"
	"log/slog"

	temporallog "go.temporal.io/sdk/log"
)

// sdkLogger makes the SDK's free text one event of ours, so that every line's event is a known word.
func sdkLogger(log *slog.Logger) temporallog.Logger {
	return temporallog.NewStructuredLogger(slog.New(sdkHandler{log.Handler()}))
}

type sdkHandler struct{ slog.Handler }

func (h sdkHandler) Handle(ctx context.Context, r slog.Record) error {
	event := slog.NewRecord(r.Time, r.Level, "temporal_sdk_logged", r.PC)
	event.AddAttrs(slog.String("message", r.Message))
	r.Attrs(func(a slog.Attr) bool {
		event.AddAttrs(a)
		return true
	})
	return h.Handler.Handle(ctx, event)
}

func (h sdkHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return sdkHandler{h.Handler.WithAttrs(attrs)}
}

func (h sdkHandler) WithGroup(name string) slog.Handler {
	return sdkHandler{h.Handler.WithGroup(name)}
}
