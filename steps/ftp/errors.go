package ftp

import (
	"errors"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/ftpclient"
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

// explain adds what to do about a refusal, and marks as permanent what the
// server will refuse again.
func explain(err error) error {
	r, ok := errors.AsType[*ftpclient.ReplyError](err)
	if !ok || courier.IsPermanent(err) || r.Code < 500 || r.Passing() {
		return err
	}
	text := ""
	switch r.Code {
	case 530, 532:
		text = "the account may not do this, or isn't logged in; ask the server's operator"
	case 550, 551:
		text = `check that the path exists, which is taken from the login directory unless it begins with "/", and that the account may do this`
	case 552:
		return &connerr.Advice{Err: err, Text: "the account's space on the server is used up"} // until somebody tidies up
	case 553:
		text = "the server doesn't allow this name, or the account may not write there"
	}
	if text == "" {
		return courier.Permanent(err)
	}
	return courier.Permanent(&connerr.Advice{Err: err, Text: text})
}
