// Package failure marks errors with what they mean for a repetition. It is a
// package of its own so that clients for a protocol, which know nothing of steps,
// give the marks that package courier reads.
package failure

import "errors"

type permanent struct{ err error }

func (e permanent) Error() string { return e.err.Error() }
func (e permanent) Unwrap() error { return e.err }

// Permanent marks err as one that repeating can't cure. Its text stays as it is.
// Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

// IsPermanent reports whether err or an error it wraps was marked by
// [Permanent].
func IsPermanent(err error) bool {
	_, ok := errors.AsType[permanent](err)
	return ok
}

// ErrLogin is matched by errors that [LoginRefused] has marked.
var ErrLogin = errors.New("courier: login refused")

type login struct{ err error }

func (e login) Error() string        { return e.err.Error() }
func (e login) Unwrap() error        { return e.err }
func (e login) Is(target error) bool { return target == ErrLogin }

// LoginRefused marks err as one that matches [ErrLogin]. Its text stays as it is.
// LoginRefused(nil) is nil.
func LoginRefused(err error) error {
	if err == nil {
		return nil
	}
	return login{err}
}
