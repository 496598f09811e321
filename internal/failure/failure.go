// Package failure marks errors with what they mean for a repetition, and with their
// class. It is a
// package of its own so that clients for a protocol, which know nothing of steps,
// give the marks that package courier reads.
package failure

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"
)

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

// The classes that clients for a protocol give; package courier lists them all.
const (
	Connection = "connection"
	Login      = "login"
	Timeout    = "timeout"
	NotFound   = "not_found"
	Exists     = "exists"
	Permission = "permission"
	Quota      = "quota"
	Space      = "space"
	Integrity  = "integrity"
	Invalid    = "invalid"
	Secret     = "secret"
)

type classified struct {
	err   error
	class string
}

func (e classified) Error() string { return e.err.Error() }
func (e classified) Unwrap() error { return e.err }

// Is reports whether target is [ErrLogin], and the class that of refused logins.
func (e classified) Is(target error) bool { return target == ErrLogin && e.class == Login }

// ErrorClass returns the class; other types of errors whose class is always the same
// have this method too.
func (e classified) ErrorClass() string { return e.class }

// WithClass marks err as one of a class. Its text stays as it is. WithClass(nil,
// class) is nil.
func WithClass(err error, class string) error {
	if err == nil {
		return nil
	}
	return classified{err, class}
}

// ErrLogin is matched by errors of the class [Login].
var ErrLogin = errors.New("courier: login refused")

// Class returns the class of err: that of the outermost error in it that has a method
// ErrorClass, or one that follows from an error of the standard library. It is empty
// where neither is there.
func Class(err error) string {
	type classifier interface {
		error
		ErrorClass() string
	}
	if e, ok := errors.AsType[classifier](err); ok {
		return e.ErrorClass()
	}
	for _, known := range known {
		if errors.Is(err, known.err) {
			return known.class
		}
	}
	_, operation := errors.AsType[*net.OpError](err)
	if _, lookup := errors.AsType[*net.DNSError](err); operation || lookup {
		return Connection
	}
	return ""
}

// ConnectionOf returns the id of the connection that err is about: that of the outermost error in
// it that has a method ErrorConnection. It is empty where none is there.
func ConnectionOf(err error) string {
	type connected interface {
		error
		ErrorConnection() string
	}
	if e, ok := errors.AsType[connected](err); ok {
		return e.ErrorConnection()
	}
	return ""
}

// known are errors of the standard library, the most telling first: the errors of
// system calls match several.
var known = []struct {
	err   error
	class string
}{
	{syscall.ENOSPC, Space}, {syscall.EDQUOT, Space}, {syscall.EFBIG, Space}, {syscall.EROFS, Permission},
	{fs.ErrNotExist, NotFound}, {fs.ErrExist, Exists}, {fs.ErrPermission, Permission},
	{net.ErrClosed, Connection}, {os.ErrDeadlineExceeded, Connection},
	{context.DeadlineExceeded, Timeout},
	{syscall.ECONNRESET, Connection}, {syscall.ECONNREFUSED, Connection}, {syscall.EPIPE, Connection},
}
