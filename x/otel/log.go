package courierotel

import (
	"context"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/courierhq/courier"
)

// A logHandler adds the ids of the trace and the span to log records. They are from the context,
// or else from the execution that the record is about.
type logHandler struct {
	slog.Handler
	i         *Instrumentation
	execution courier.ExecutionID
}

// Handle implements [slog.Handler].
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() && h.execution != "" {
		span = h.i.spanOf(h.execution)
	}
	if span.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.Handler = h.Handler.WithAttrs(attrs)
	for _, a := range attrs {
		if a.Key == "execution" {
			c.execution = courier.ExecutionID(fmt.Sprint(a.Value.Any()))
		}
	}
	return &c
}

// WithGroup implements [slog.Handler].
func (h *logHandler) WithGroup(name string) slog.Handler {
	c := *h
	c.Handler = h.Handler.WithGroup(name)
	return &c
}
