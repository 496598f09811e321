package stepcall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
)

// An Outcome is the result of one call of a step.
type Outcome struct {
	Outputs json.RawMessage
	Err     error
	Reason  courier.Reason
	// Abandoned says that the step had not returned when the grace period was
	// over.
	Abandoned bool
	Files     []courier.File
	Bytes     int64
	Exited    bool // the step ended its goroutine by runtime.Goexit
	Events    []courier.StepEvent
	Log       string // what the step has logged
	Stack     string // of the step's goroutine, if it panicked, exited or was abandoned
}

// A ConfigError says that a configuration could not be resolved.
type ConfigError struct{ Err error }

// Error says why it could not be resolved.
func (e *ConfigError) Error() string { return e.Err.Error() }

// Unwrap returns why it could not be resolved.
func (e *ConfigError) Unwrap() error { return e.Err }

// Judge gives a failed outcome its reason; ctx is the context of the step. A step that
// returned its result in spite of an ended context has completed.
func (o *Outcome) Judge(ctx context.Context) {
	if o.Err == nil || o.Reason != "" {
		return
	}
	o.Reason = courier.ClassOf(o.Err)
	cause := context.Cause(ctx)
	if t, ok := errors.AsType[*timeoutError](cause); ok {
		o.Reason = t.reason
		if errors.Is(o.Err, context.Canceled) || errors.Is(o.Err, cause) {
			o.Err = t
		} else {
			o.Err = fmt.Errorf("%w; the step returned: %w", t, o.Err)
		}
	}
	if _, ok := errors.AsType[*ConfigError](o.Err); ok && o.Reason == courier.ReasonError {
		o.Reason = courier.ReasonConfig
	}
}

// Limit makes a failure of an outcome that has more bytes than may be stored, or is nested
// deeper.
func (o *Outcome) Limit(most int) {
	const overhead = 32 // of a file, besides its path
	files := 0
	for i := range o.Files {
		files += len(o.Files[i].Path) + overhead
	}
	outputs := len(o.Outputs)
	if outputs+files <= most {
		if depth := jsontext.Depth(o.Outputs); depth > jsontext.MaxDepth {
			o.Outputs, o.Files = nil, nil
			o.fail(fmt.Errorf("the work is done, but its output is nested %d levels deep, more than %d; have the step return it as a text, or in a file", depth, jsontext.MaxDepth))
		}
		return
	}
	o.Outputs, o.Files = nil, nil
	o.fail(fmt.Errorf("the work is done, but its output has %d bytes and the list of its files %d, more than the %d of engine.Options.MaxOutput; "+
		"have the step give less, such as the path of a file with the rest, or raise the limit", outputs, files, most))
}

// fail makes a failure for good of an outcome that is none.
func (o *Outcome) fail(err error) {
	if o.Err == nil {
		o.Err, o.Reason = courier.Permanent(err), courier.ReasonError
	}
}

// RemoveSecrets removes the secrets from an outcome: one that is to be stored fails, and
// the record of a failed attempt does without.
func (o *Outcome) RemoveSecrets(d *courier.Redactor) {
	if d.Empty() {
		return
	}
	named := func(f courier.File) bool { return d.Find(f.Path) != "" }
	if o.Err == nil {
		var err error
		if name := d.Find(string(o.Outputs)); name != "" {
			err = fmt.Errorf("the output contains the secret %q; secrets are never stored, so leave it out", name)
		} else if at := slices.IndexFunc(o.Files, named); at >= 0 {
			path := o.Files[at].Path
			err = fmt.Errorf("the path of a file, %s, contains the secret %q; paths are stored, so leave it out", d.Redact(path), d.Find(path))
		}
		if err != nil {
			o.Err, o.Reason, o.Outputs = courier.Permanent(err), courier.ReasonError, nil
		}
	}
	for i := range o.Events {
		o.Events[i].Payload = withoutSecrets(o.Events[i].Payload, d)
	}
	if o.Err != nil && d.Find(string(o.Outputs)) != "" {
		o.Outputs = nil
	}
	if o.Err != nil && slices.ContainsFunc(o.Files, named) {
		o.Files = slices.DeleteFunc(slices.Clone(o.Files), named)
	}
}

// withoutSecrets returns JSON text in which secrets are replaced.
func withoutSecrets(text json.RawMessage, d *courier.Redactor) json.RawMessage {
	if d.Redact(string(text)) == string(text) {
		return text
	}
	v, err := jsontext.Parse(text)
	if err == nil {
		text, err = jsontext.Append(nil, redacted(v, d))
	}
	if name := d.Find(string(text)); err != nil || name != "" { // it spans several values
		return json.RawMessage(strconv.Quote("[secret]"))
	}
	return text
}

// redacted returns a JSON value in which secrets are replaced.
func redacted(v any, d *courier.Redactor) any {
	switch v := v.(type) {
	case string:
		return d.Redact(v)
	case json.Number:
		if text := d.Redact(v.String()); text != v.String() {
			return text
		}
	case []any:
		for i := range v {
			v[i] = redacted(v[i], d)
		}
	case map[string]any:
		clean := make(map[string]any, len(v))
		for name, x := range v {
			clean[d.Redact(name)] = redacted(x, d)
		}
		return clean
	}
	return v
}
