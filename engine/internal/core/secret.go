package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/secret"
	"github.com/courierhq/courier/internal/storecall"
)

// PlainSecretError returns err, or for a *[secret.Error] one for the place of the secret in a
// configuration, which already names it. It does not unwrap: the error of a secret that does
// not exist is no reason to count a step as not checked.
func PlainSecretError(err error) error {
	if e, ok := errors.AsType[*secret.Error](err); ok {
		return &plainSecretError{e.Err}
	}
	return err
}

type plainSecretError struct{ err error }

func (e *plainSecretError) Error() string      { return e.err.Error() }
func (e *plainSecretError) ErrorClass() string { return string(courier.ReasonSecret) }

// AskSecret asks a function whether a secret may be used that a parameter names, and drops
// it if it is returned. Without a function it may. The error does not contain the name, since it may be the secret itself,
// which somebody has given in the place of its name.
func AskSecret(ctx context.Context, q courier.SecretRequest, resolve func(context.Context, courier.SecretRequest) (string, error)) (err error) {
	if resolve == nil {
		return nil // the worker that resolves it asks
	}
	ctx, cancel := context.WithTimeout(ctx, storecall.Timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("Options.Secrets panicked")
		}
	}()
	if _, err = resolve(ctx, q); err == nil {
		return nil
	}
	var given secret.Redactor
	given.Add("named by params."+q.Param, q.Name)
	text := given.Message(err)
	if courier.IsPermanent(err) {
		return courier.Permanent(errors.New(text))
	}
	return errors.New(text)
}

// UsedSecrets are the secrets that an execution has used. They may be used by several
// goroutines. Those that have not been asked for since the claim are unknown: text can
// contain them.
type UsedSecrets struct {
	mu      sync.Mutex
	list    []courier.SecretUse // replaced, never changed in place
	unknown []courier.SecretUse
}

// Begin sets the secrets that the execution has used before its claim.
func (u *UsedSecrets) Begin(list []courier.SecretUse) { u.list, u.unknown = list, list }

// List returns the secrets, to be stored.
func (u *UsedSecrets) List() []courier.SecretUse {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.list
}

// maxSecretName is how many bytes the name of a secret may have.
const maxSecretName = 1000

// Add adds a secret that was used; most is how many there may be.
func (u *UsedSecrets) Add(q courier.SecretRequest, most int) error {
	use := courier.SecretUse{Name: q.Name, Version: q.Version, Step: q.Step, ID: q.ID, Type: q.Type, Param: q.Param}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch i := u.index(q.Name); {
	case i >= 0 && !u.list[i].Refused:
	case i >= 0:
		u.replace(i, use)
	case len(q.Name) > maxSecretName:
		return courier.Permanent(&secret.Error{Name: q.Name[:60] + "...", Err: fmt.Errorf("its name has %d bytes, more than %d; nothing was done with it", len(q.Name), maxSecretName)})
	case len(u.list) >= most:
		return courier.Permanent(&secret.Error{Name: q.Name, Err: fmt.Errorf("the execution has used %d other secrets, the most of engine.Options.MaxSecrets; nothing was done with this one: raise the limit, or divide the job", most)})
	default:
		u.list = append(slices.Clone(u.list), use)
	}
	u.known(q.Name)
	return nil
}

// Lost adds a secret that the attempt of a lost worker may have used. It is not kept unless it
// can be had.
func (u *UsedSecrets) Lost(use courier.SecretUse) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.index(use.Name) < 0 {
		u.unknown = append(slices.Clone(u.unknown), use)
	}
}

func (u *UsedSecrets) index(name string) int {
	return slices.IndexFunc(u.list, func(use courier.SecretUse) bool { return use.Name == name })
}

func (u *UsedSecrets) replace(i int, use courier.SecretUse) {
	u.list = slices.Clone(u.list)
	u.list[i] = use
}

func (u *UsedSecrets) known(name string) {
	u.unknown = slices.DeleteFunc(slices.Clone(u.unknown), func(use courier.SecretUse) bool { return use.Name == name })
}

// Recall asks for the unknown secrets, with the request by which each was allowed, so that
// the redactor of resolve has them. A secret that is refused for good stays unknown; refused
// is called if it was not refused before. The error is that of one that can't be had now.
func (u *UsedSecrets) Recall(ctx context.Context, x courier.SecretRequest, resolve func(context.Context, courier.SecretRequest) error, refused func(courier.SecretUse, error)) error {
	u.mu.Lock()
	unknown := u.unknown
	u.mu.Unlock()
	for _, use := range unknown {
		q := x
		q.Name, q.Version, q.Step, q.ID, q.Type, q.Param = use.Name, use.Version, use.Step, use.ID, use.Type, use.Param
		err := resolve(ctx, q)
		if err != nil && !courier.IsPermanent(err) {
			return fmt.Errorf("a secret that the execution has used before, in step %d: %w", use.Step, err)
		}
		u.mu.Lock()
		was := use.Refused
		use.Refused = err != nil
		i := u.index(use.Name)
		switch {
		case i >= 0 && was != use.Refused:
			u.replace(i, use)
		case i < 0 && err == nil:
			u.list = append(slices.Clone(u.list), use)
		}
		u.known(use.Name)
		u.mu.Unlock()
		if err != nil && !was && i >= 0 {
			refused(use, err)
		}
	}
	return nil
}

// Known reports whether none of the secrets is unknown.
func (u *UsedSecrets) Known() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.unknown) == 0
}

// RecallSecret is [secret.Resolve] for [UsedSecrets.Recall]: a worker without secrets refuses none
// for good.
func RecallSecret(ctx context.Context, q courier.SecretRequest, resolve func(context.Context, courier.SecretRequest) (string, error), known *secret.Redactor) error {
	if resolve == nil {
		return &secret.Error{Name: q.Name, Err: errors.New("this worker has no secrets; set engine.Options.Secrets, as in the worker that has used it")}
	}
	_, err := secret.Resolve(ctx, q, resolve, known)
	return err
}
