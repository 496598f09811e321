// Package secret resolves secrets and keeps them out of text, wherever the engine and the
// packages of its subjects use them.
package secret

import (
	"context"
	"errors"
	"fmt"

	"github.com/courierhq/courier"
)

// An Error is the error of a secret that could not be resolved.
type Error struct {
	Name string
	Err  error
}

// Error names the secret and says why it could not be resolved.
func (e *Error) Error() string { return fmt.Sprintf("secret %q: %v", e.Name, e.Err) }

// Unwrap returns why it could not be resolved.
func (e *Error) Unwrap() error { return e.Err }

// ErrorClass is that of [courier.ReasonSecret], whatever kept the secret away.
func (e *Error) ErrorClass() string { return string(courier.ReasonSecret) }

// Resolve resolves a secret by a function, nil if there are no secrets, and adds it to
// known. Its error is an *[Error].
func Resolve(ctx context.Context, q courier.SecretRequest, resolve func(context.Context, courier.SecretRequest) (string, error), known *Redactor) (string, error) {
	if resolve == nil {
		return "", courier.Permanent(&Error{q.Name, errors.New("no secrets are configured; set engine.Options.Secrets")})
	}
	v, err := resolve(ctx, q)
	if err != nil {
		return "", &Error{q.Name, err}
	}
	known.Add(q.Name, v)
	return v, nil
}
