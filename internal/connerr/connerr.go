// Package connerr has the errors that clients for a protocol return about the
// server and the connection to it: that the connection is lost, what to do about a
// refusal, and words of the server, which are shown in quotes only.
package connerr

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/courierhq/courier/internal/failure"
	"github.com/courierhq/courier/internal/safename"
)

// An Advice is an error with what to do about it.
type Advice struct {
	Err  error
	Text string // without a full stop
}

// Error ends with the advice.
func (e *Advice) Error() string { return e.Err.Error() + "; " + e.Text }

// Unwrap returns the error without the advice.
func (e *Advice) Unwrap() error { return e.Err }

// A Hostile is an error whose text comes in part from the server, and is quoted
// for that.
type Hostile struct{ Err error }

// Error is in quotes.
func (e *Hostile) Error() string { return safename.Quote(e.Err.Error()) }

// Unwrap returns the error as it was.
func (e *Hostile) Unwrap() error { return e.Err }

// Presentable returns err, quoted if its text could act on a terminal.
func Presentable(err error) error {
	if strings.ContainsFunc(err.Error(), func(r rune) bool { return !strconv.IsPrint(r) }) {
		return &Hostile{err}
	}
	return err
}

// A LostError says that a connection has ended.
type LostError struct{ Err error }

// Error says how the connection has ended.
func (e *LostError) Error() string {
	switch {
	case errors.Is(e.Err, os.ErrDeadlineExceeded):
		return "the connection is lost: nothing has come from the server for too long"
	case errors.Is(e.Err, io.EOF), errors.Is(e.Err, io.ErrUnexpectedEOF):
		return "the connection is lost: the server has closed it"
	case errors.Is(e.Err, net.ErrClosed):
		return "the connection is closed"
	case errors.Is(e.Err, syscall.ECONNRESET), errors.Is(e.Err, syscall.EPIPE):
		return "the connection is lost: the server, or a firewall before it, has broken it off: " + Presentable(e.Err).Error()
	}
	return "the connection is lost: " + Presentable(e.Err).Error()
}

// Unwrap returns how it ended.
func (e *LostError) Unwrap() error { return e.Err }

// ErrorClass says that the connection is to blame, and not what is at its ends.
func (e *LostError) ErrorClass() string { return failure.Connection }

// IsLost reports whether err is the end of a connection, and not of what is at
// its ends.
func IsLost(err error) bool {
	_, ok := errors.AsType[*LostError](err)
	return ok
}

// Ended returns the cause with which ctx ended, and otherwise err: whatever
// goes wrong after the end of ctx goes wrong because of it.
func Ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// ErrChanged says that a file isn't what it was before it was transferred.
var ErrChanged = errors.New("the file was changed or replaced during the transfer; the next attempt starts from the beginning")
