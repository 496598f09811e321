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

// Secrets are those of one execution: where they come from, which it has used, and what is
// known of them, so that it is kept out of whatever is stored, logged or shown. Those that
// it has used and that have not been asked for since the claim are unknown: text can contain
// them. The fields are set before the first use; the methods may be called by several
// goroutines.
type Secrets struct {
	Source func(context.Context, courier.SecretRequest) (string, error) // nil if there are none
	Most   int                                                          // how many the execution may use
	*secret.Redactor

	mu      sync.Mutex
	used    []courier.SecretUse // replaced, never changed in place
	unknown []courier.SecretUse
}

// Claimed sets the secrets that the execution has used before its claim.
func (s *Secrets) Claimed(used []courier.SecretUse) { s.used, s.unknown = used, used }

// Used returns the secrets that the execution has used, to be stored.
func (s *Secrets) Used() []courier.SecretUse {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// Resolve returns the value of a secret, which counts as used. Its error is a
// *[secret.Error].
func (s *Secrets) Resolve(ctx context.Context, q courier.SecretRequest) (string, error) {
	v, err := secret.Resolve(ctx, q, s.Source, s.Redactor)
	if err == nil {
		err = s.add(q)
	}
	if err != nil {
		return "", err
	}
	return v, nil
}

// maxSecretName is how many bytes the name of a secret may have.
const maxSecretName = 1000

// add adds a secret that was used.
func (s *Secrets) add(q courier.SecretRequest) error {
	use := courier.SecretUse{Name: q.Name, Version: q.Version, Step: q.Step, ID: q.ID, Type: q.Type, Param: q.Param}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch i := s.index(q.Name); {
	case i >= 0 && !s.used[i].Refused:
	case i >= 0:
		s.replace(i, use)
	case len(q.Name) > maxSecretName:
		return courier.Permanent(&secret.Error{Name: q.Name[:60] + "...", Err: fmt.Errorf("its name has %d bytes, more than %d; nothing was done with it", len(q.Name), maxSecretName)})
	case len(s.used) >= s.Most:
		return courier.Permanent(&secret.Error{Name: q.Name, Err: fmt.Errorf("the execution has used %d other secrets, the most of engine.Options.MaxSecrets; nothing was done with this one: raise the limit, or divide the job", s.Most)})
	default:
		s.used = append(slices.Clone(s.used), use)
	}
	s.known(q.Name)
	return nil
}

// Lost adds a secret that the attempt of a lost worker may have used. It is not kept unless it
// can be had.
func (s *Secrets) Lost(use courier.SecretUse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.index(use.Name) < 0 {
		s.unknown = append(slices.Clone(s.unknown), use)
	}
}

func (s *Secrets) index(name string) int {
	return slices.IndexFunc(s.used, func(use courier.SecretUse) bool { return use.Name == name })
}

func (s *Secrets) replace(i int, use courier.SecretUse) {
	s.used = slices.Clone(s.used)
	s.used[i] = use
}

func (s *Secrets) known(name string) {
	s.unknown = slices.DeleteFunc(slices.Clone(s.unknown), func(use courier.SecretUse) bool { return use.Name == name })
}

// Recall asks for the unknown secrets, with the request by which each was allowed, so that
// they are kept out of text. X has what all the requests have. A secret that is refused for
// good stays unknown; refused is called if it was not refused before. The error is that of
// one that can't be had now.
func (s *Secrets) Recall(ctx context.Context, x courier.SecretRequest, refused func(courier.SecretUse, error)) error {
	s.mu.Lock()
	unknown := s.unknown
	s.mu.Unlock()
	for _, use := range unknown {
		q := x
		q.Name, q.Version, q.Step, q.ID, q.Type, q.Param = use.Name, use.Version, use.Step, use.ID, use.Type, use.Param
		err := s.recall(ctx, q)
		if err != nil && !courier.IsPermanent(err) {
			return fmt.Errorf("a secret that the execution has used before, in step %d: %w", use.Step, err)
		}
		s.mu.Lock()
		was := use.Refused
		use.Refused = err != nil
		i := s.index(use.Name)
		switch {
		case i >= 0 && was != use.Refused:
			s.replace(i, use)
		case i < 0 && err == nil:
			s.used = append(slices.Clone(s.used), use)
		}
		s.known(use.Name)
		s.mu.Unlock()
		if err != nil && !was && i >= 0 {
			refused(use, err)
		}
	}
	return nil
}

// Known reports whether none of the secrets is unknown.
func (s *Secrets) Known() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.unknown) == 0
}

// recall asks for one secret. A worker without secrets refuses none for good.
func (s *Secrets) recall(ctx context.Context, q courier.SecretRequest) error {
	if s.Source == nil {
		return &secret.Error{Name: q.Name, Err: errors.New("this worker has no secrets; set engine.Options.Secrets, as in the worker that has used it")}
	}
	_, err := secret.Resolve(ctx, q, s.Source, s.Redactor)
	return err
}
