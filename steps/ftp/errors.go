package ftp

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// explain adds what to do about a refusal, and marks as permanent what the
// server will refuse again.
func explain(err error) error {
	r, ok := errors.AsType[*replyError](err)
	if !ok || courier.IsPermanent(err) || r.code < 500 || r.passing() {
		return err
	}
	text := ""
	switch r.code {
	case 530, 532:
		text = "the account may not do this, or isn't logged in; ask the server's operator"
	case 550, 551:
		text = `check that the path exists, which is taken from the login directory unless it begins with "/", and that the account may do this`
	case 552:
		return &advice{err, "the account's space on the server is used up"} // until somebody tidies up
	case 553:
		text = "the server doesn't allow this name, or the account may not write there"
	}
	if text == "" {
		return courier.Permanent(err)
	}
	return courier.Permanent(&advice{err, text})
}

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
