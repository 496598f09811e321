package core

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/secret"
)

// RedactHandler returns a handler that keeps secrets out of what h writes.
func RedactHandler(h slog.Handler, secrets *secret.Redactor) slog.Handler {
	return &redactHandler{h, secrets}
}

// A redactHandler keeps secrets out of a log.
type redactHandler struct {
	slog.Handler
	secrets *secret.Redactor
}

// Handle hands on the record without secrets.
func (h *redactHandler) Handle(ctx context.Context, rec slog.Record) error {
	if h.secrets.Empty() {
		return h.Handler.Handle(ctx, rec)
	}
	clean := slog.NewRecord(rec.Time, rec.Level, h.secrets.Clean(rec.Message), rec.PC)
	rec.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, clean)
}

// WithAttrs returns a handler that adds attributes.
func (h *redactHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := attrs
	if !h.secrets.Empty() {
		clean = make([]slog.Attr, len(attrs))
		for i, a := range attrs {
			clean[i] = h.attr(a)
		}
	}
	return &redactHandler{h.Handler.WithAttrs(clean), h.secrets}
}

// WithGroup returns a handler that puts attributes into a group.
func (h *redactHandler) WithGroup(name string) slog.Handler {
	return &redactHandler{h.Handler.WithGroup(h.secrets.Clean(name)), h.secrets}
}

// attr is an attribute without secrets. What it looks like is for the handler
// to decide, unless it would show one.
func (h *redactHandler) attr(a slog.Attr) slog.Attr {
	a.Key, a.Value = h.secrets.Clean(a.Key), a.Value.Resolve()
	switch a.Value.Kind() {
	case slog.KindGroup:
		group := slices.Clone(a.Value.Group())
		for i := range group {
			group[i] = h.attr(group[i])
		}
		a.Value = slog.GroupValue(group...)
	case slog.KindAny:
		for _, text := range shownAs(a.Value.Any()) {
			if clean := h.secrets.Clean(text); clean != text {
				a.Value = slog.StringValue(clean)
				break
			}
		}
	case slog.KindTime, slog.KindDuration, slog.KindBool:
	default:
		if text := a.Value.String(); h.secrets.Clean(text) != text {
			a.Value = slog.StringValue(h.secrets.Clean(text))
		}
	}
	return a
}

// shownAs is what handlers write for a value.
func shownAs(v any) []string {
	if b, ok := v.([]byte); ok {
		return []string{string(b)}
	}
	texts := []string{fmt.Sprintf("%+v", v)}
	if _, ok := v.(error); ok {
		return texts
	}
	func() {
		defer func() { _ = recover() }() // as the handler will have to
		if raw, err := json.Marshal(v); err == nil {
			texts = append(texts, string(raw))
		}
	}()
	return texts
}

// Changed writes to the log what has changed besides executions, who has changed it, and
// why.
func Changed(log *slog.Logger, kind, name, change string, by courier.By, more ...slog.Attr) {
	attrs := append([]slog.Attr{slog.String(strings.ReplaceAll(kind, " ", "_"), name), slog.Any("by", by)}, more...)
	log.LogAttrs(context.Background(), slog.LevelInfo, kind+" "+change, attrs...)
}

// Explained is [Changed] where a reason was given, and does nothing otherwise. It is for
// what the store records with the actor alone.
func Explained(log *slog.Logger, kind, name, change string, by courier.By, more ...slog.Attr) {
	if by.Reason != "" {
		Changed(log, kind, name, change, by, more...)
	}
}
