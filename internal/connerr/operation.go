package connerr

import (
	"errors"
	"fmt"

	"github.com/courierhq/courier/internal/failure"
	"github.com/courierhq/courier/internal/safename"
)

// An OperationError is the failure of an operation on a connection. The error type of
// a protocol embeds it.
type OperationError struct {
	Connection string // id of the connection
	Host       string // "host:port"
	Op         string // such as "open" or "connect"
	Path       string // on the server; empty if the operation has none
	Err        error
}

// Error begins with the connection, and ends with advice if Err has any. It
// contains no credentials, and text of the server only in quotes.
func (e *OperationError) Error() string {
	text := fmt.Sprintf("connection %q (%s): %s", e.Connection, e.Host, e.Op)
	if e.Path != "" {
		text += " " + safename.Quote(e.Path)
	}
	return text + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *OperationError) Unwrap() error { return e.Err }

// ErrorConnection returns the id of the connection.
func (e *OperationError) ErrorConnection() string { return e.Connection }

func (*OperationError) isOperation() {}

// Fault returns err as the failure of the operation e, in the type that wrap gives it,
// after explain has completed err. It is permanent if err is. Nil stays nil, and so
// does an error that Fault has returned.
func Fault(e OperationError, err error, explain func(error) error, wrap func(OperationError) error) error {
	if err == nil || isFault(err) {
		return err
	}
	e.Err = explain(err)
	if failure.IsPermanent(err) {
		return failure.Permanent(wrap(e))
	}
	return wrap(e)
}

// isFault reports whether Fault has returned err.
func isFault(err error) bool {
	type operation interface{ isOperation() }
	if _, ok := err.(operation); ok {
		return true
	}
	_, ok := errors.Unwrap(err).(operation)
	return ok && failure.IsPermanent(err)
}
