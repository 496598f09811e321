package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/courierhq/courier"
)

// A secretError says that a secret could not be had.
type secretError struct {
	name string
	err  error
}

func (e *secretError) Error() string { return fmt.Sprintf("secret %q: %v", e.name, e.err) }
func (e *secretError) Unwrap() error { return e.err }

// secretFor resolves a secret and remembers to keep it out of whatever is
// stored, logged or shown. It may be called by any goroutine.
func (r *run) secretFor(ctx context.Context, name string) (string, error) {
	return r.e.secretFor(ctx, name, r.secrets)
}

// secretFor resolves a secret, which known remembers.
func (e *Engine) secretFor(ctx context.Context, name string, known *redactor) (string, error) {
	if e.opt.Secrets == nil {
		return "", courier.Permanent(&secretError{name, errors.New("no secrets are configured; set engine.Options.Secrets")})
	}
	v, err := e.opt.Secrets(ctx, name)
	if err != nil {
		return "", &secretError{name, err}
	}
	known.add(name, v)
	return v, nil
}

// A redactor knows the secrets that an execution has used.
type redactor struct {
	mu     sync.Mutex
	values []namedSecret // the longest first, since one may contain another
}

type namedSecret struct{ name, value string }

// minSecret is the shortest secret that is looked for: shorter ones occur by
// chance everywhere.
const minSecret = 4

func (d *redactor) add(name, value string) {
	if len(value) < minSecret {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.ContainsFunc(d.values, func(s namedSecret) bool { return s.value == value }) {
		return
	}
	d.values = append(d.values, namedSecret{name, value})
	slices.SortStableFunc(d.values, func(a, b namedSecret) int { return len(b.value) - len(a.value) })
}

// clean replaces secrets in a text by their names.
func (d *redactor) clean(s string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range d.values {
		s = strings.ReplaceAll(s, v.value, "[secret "+v.name+"]")
	}
	return s
}

// error returns err with a text without secrets; errors.Is and errors.As see
// the original.
func (d *redactor) error(err error) error {
	text, ok := errorText(err)
	if clean := d.clean(text); !ok || clean != text {
		return &redactedError{clean, err}
	}
	return err
}

// errorText is the text of an error; ok is false if the error has none of its
// own, since its method panics, as that of a nil pointer does.
func errorText(err error) (text string, ok bool) {
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("an error of type %T whose method Error panics: %v", err, p)
		}
	}()
	return err.Error(), true
}

type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// maxMessage is how many bytes of an error are kept.
const maxMessage = 8 << 10

// message is the text of an error as it can be stored and shown: without
// secrets, NUL and invalid UTF-8, and not too long.
func (d *redactor) message(err error) string {
	text, _ := errorText(err)
	s := d.clean(text)
	if len(s) > maxMessage {
		s = s[:maxMessage] + "... (cut)"
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// leaks reports a secret in the outputs of a step.
func (d *redactor) leaks(outputs json.RawMessage) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range d.values {
		escaped, err := courier.AppendJSON(nil, v.value)
		if err == nil && bytes.Contains(outputs, escaped[1:len(escaped)-1]) {
			return fmt.Errorf("the output contains the secret %q; secrets are never stored, so leave it out", v.name)
		}
	}
	return nil
}

// A redactHandler keeps secrets out of what a step logs.
type redactHandler struct {
	slog.Handler
	secrets *redactor
}

// Handle hands on the record without secrets.
func (h *redactHandler) Handle(ctx context.Context, rec slog.Record) error {
	if h.secrets.empty() {
		return h.Handler.Handle(ctx, rec)
	}
	clean := slog.NewRecord(rec.Time, rec.Level, h.secrets.clean(rec.Message), rec.PC)
	rec.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, clean)
}

// WithAttrs returns a handler that adds attributes.
func (h *redactHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.attr(a)
	}
	return &redactHandler{h.Handler.WithAttrs(clean), h.secrets}
}

// WithGroup returns a handler that puts attributes into a group.
func (h *redactHandler) WithGroup(name string) slog.Handler {
	return &redactHandler{h.Handler.WithGroup(name), h.secrets}
}

func (h *redactHandler) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, h.secrets.clean(v.String()))
	case slog.KindGroup:
		var attrs []any
		for _, g := range v.Group() {
			attrs = append(attrs, h.attr(g))
		}
		return slog.Group(a.Key, attrs...)
	case slog.KindAny:
		// What it looks like is for the handler to decide, unless it would
		// show a secret.
		if text := fmt.Sprintf("%+v", v.Any()); h.secrets.clean(text) != text {
			return slog.String(a.Key, h.secrets.clean(text))
		}
	}
	return slog.Attr{Key: a.Key, Value: v}
}

func (d *redactor) empty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.values) == 0
}
