package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
)

// A secretError is the error of a secret that could not be resolved.
type secretError struct {
	name string
	err  error
}

func (e *secretError) Error() string { return fmt.Sprintf("secret %q: %v", e.name, e.err) }
func (e *secretError) Unwrap() error { return e.err }

// ErrorClass is that of [courier.ReasonSecret], whatever kept the secret away.
func (e *secretError) ErrorClass() string { return string(courier.ReasonSecret) }

// secretFor resolves a secret and remembers to keep it out of whatever is
// stored, logged or shown. It may be called by any goroutine.
func (r *run) secretFor(ctx context.Context, q courier.SecretRequest) (string, error) {
	return r.e.secretFor(ctx, q, r.secrets.Redactor)
}

// secretFor resolves a secret, which known remembers.
func (e *Engine) secretFor(ctx context.Context, q courier.SecretRequest, known *core.Redactor) (string, error) {
	if e.opt.Secrets == nil {
		return "", courier.Permanent(&secretError{q.Name, errors.New("no secrets are configured; set engine.Options.Secrets")})
	}
	v, err := e.opt.Secrets(ctx, q)
	if err != nil {
		return "", &secretError{q.Name, err}
	}
	known.Add(q.Name, v)
	return v, nil
}

// A redactor is a [core.Redactor] that also checks the outputs and files of a step.
type redactor struct{ *core.Redactor }

// leaks reports a secret in the outputs of a step.
func (d *redactor) leaks(outputs json.RawMessage) error {
	if d.Empty() {
		return nil
	}
	if name := d.Find(string(outputs)); name != "" {
		return fmt.Errorf("the output contains the secret %q; secrets are never stored, so leave it out", name)
	}
	return nil
}

// clear removes the secrets from an outcome: one that is to be stored fails, and
// the record of a failed attempt does without.
func (d *redactor) clear(o *outcome) {
	if d.Empty() {
		return
	}
	named := func(f courier.File) bool { return d.Find(f.Path) != "" }
	if o.err == nil {
		err := d.leaks(o.outputs)
		if at := slices.IndexFunc(o.files, named); err == nil && at >= 0 {
			err = fmt.Errorf("the path of a file, %s, contains the secret %q; paths are stored, so leave it out", d.Clean(o.files[at].Path), d.Find(o.files[at].Path))
		}
		if err != nil {
			o.err, o.reason, o.outputs = courier.Permanent(err), courier.ReasonError, nil
		}
	}
	if o.err != nil && slices.ContainsFunc(o.files, named) {
		o.files = slices.DeleteFunc(slices.Clone(o.files), named)
	}
}
