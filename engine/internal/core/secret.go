package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/courierhq/courier"
)

// A SecretError is the error of a secret that could not be resolved.
type SecretError struct {
	Name string
	Err  error
}

// Error names the secret and says why it could not be resolved.
func (e *SecretError) Error() string { return fmt.Sprintf("secret %q: %v", e.Name, e.Err) }

// Unwrap returns why it could not be resolved.
func (e *SecretError) Unwrap() error { return e.Err }

// ErrorClass is that of [courier.ReasonSecret], whatever kept the secret away.
func (e *SecretError) ErrorClass() string { return string(courier.ReasonSecret) }

// PlainSecretError returns err, or for a *[SecretError] one for the place of the secret in a
// configuration, which already names it. It does not unwrap: the error of a secret that does
// not exist is no reason to count a step as not checked.
func PlainSecretError(err error) error {
	if e, ok := errors.AsType[*SecretError](err); ok {
		return &plainSecretError{e}
	}
	return err
}

type plainSecretError struct{ *SecretError }

func (e *plainSecretError) Error() string { return e.Err.Error() }
func (e *plainSecretError) Unwrap() error { return nil }

// AskSecret asks a function whether a secret may be used that a parameter names, and drops
// it if it is returned. Without a function it may. The error does not contain the name, since it may be the secret itself,
// which somebody has given in the place of its name.
func AskSecret(ctx context.Context, q courier.SecretRequest, resolve func(context.Context, courier.SecretRequest) (string, error)) (err error) {
	if resolve == nil {
		return nil // the worker that resolves it asks
	}
	ctx, cancel := context.WithTimeout(ctx, StoreTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("Options.Secrets panicked")
		}
	}()
	if _, err = resolve(ctx, q); err == nil {
		return nil
	}
	var given Redactor
	given.Add("named by params."+q.Param, q.Name)
	text := given.Message(err)
	if courier.IsPermanent(err) {
		return courier.Permanent(errors.New(text))
	}
	return errors.New(text)
}

// ResolveSecret resolves a secret by a function, nil if there are no secrets, and adds it
// to known. Its error is a *[SecretError].
func ResolveSecret(ctx context.Context, q courier.SecretRequest, resolve func(context.Context, courier.SecretRequest) (string, error), known *Redactor) (string, error) {
	if resolve == nil {
		return "", courier.Permanent(&SecretError{q.Name, errors.New("no secrets are configured; set engine.Options.Secrets")})
	}
	v, err := resolve(ctx, q)
	if err != nil {
		return "", &SecretError{q.Name, err}
	}
	known.Add(q.Name, v)
	return v, nil
}
