package sftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// An Error says which operation failed, on which connection.
type Error struct {
	Connection string // its id
	Host       string // "host:port"
	Op         string // such as "open" or "connect"
	Path       string // on the server; empty where there is none
	Err        error
}

// Error begins with the connection, and ends with what to do where that is
// known. It contains no credentials, and words of the server only in quotes.
func (e *Error) Error() string {
	text := fmt.Sprintf("connection %q (%s): %s", e.Connection, e.Host, e.Op)
	if e.Path != "" {
		text += " " + safename.Quote(e.Path)
	}
	return text + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// An advice is an error with what to do about it.
type advice struct {
	err  error
	text string
}

func (e *advice) Error() string { return e.err.Error() + "; " + e.text }
func (e *advice) Unwrap() error { return e.err }

// explain adds what to do about the refusal of a request, and marks as
// permanent what the server will refuse again.
func explain(err error) error {
	s, ok := errors.AsType[*statusError](err)
	if !ok || courier.IsPermanent(err) {
		return err
	}
	text := ""
	switch {
	case errors.Is(s, fs.ErrNotExist):
		text = `check the path, which is taken from the login directory unless it begins with "/"`
	case errors.Is(s, fs.ErrPermission):
		text = "the account on the server needs the right to do this; ask the server's operator"
	case s.code == statusUnsupported, s.code == statusBadMessage, s.code == statusExists:
		return courier.Permanent(err)
	}
	if text == "" {
		return err
	}
	return courier.Permanent(&advice{err, text})
}

// worded is an error with a text for people.
type worded struct {
	text string
	err  error
}

func (e *worded) Error() string { return e.text }
func (e *worded) Unwrap() error { return e.err }

// hostile is an error whose text comes in part from the server.
type hostile struct{ err error }

func (e *hostile) Error() string { return safename.Quote(e.err.Error()) }
func (e *hostile) Unwrap() error { return e.err }

// presentable returns err, quoted if its text could act on a terminal.
func presentable(err error) error {
	if strings.ContainsFunc(err.Error(), func(r rune) bool { return !strconv.IsPrint(r) }) {
		return &hostile{err}
	}
	return err
}

// lostError says that a connection has ended.
type lostError struct{ err error }

func (e *lostError) Error() string {
	switch {
	case errors.Is(e.err, os.ErrDeadlineExceeded):
		return "the connection is lost: nothing has come from the server for too long"
	case errors.Is(e.err, io.EOF), errors.Is(e.err, io.ErrUnexpectedEOF):
		return "the connection is lost: the server has closed it"
	case errors.Is(e.err, net.ErrClosed):
		return "the connection is closed"
	}
	return "the connection is lost: " + presentable(e.err).Error()
}

func (e *lostError) Unwrap() error { return e.err }

// ended returns the cause with which ctx ended, and otherwise err: whatever
// goes wrong after the end of ctx goes wrong because of it.
func ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
