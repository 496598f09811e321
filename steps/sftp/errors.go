package sftp

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/sftpclient"
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

// explain adds what to do about the refusal of a request, and marks as
// permanent what the server will refuse again.
func explain(err error) error {
	s, ok := errors.AsType[*sftpclient.StatusError](err)
	if !ok || courier.IsPermanent(err) {
		return err
	}
	text := ""
	switch {
	case errors.Is(s, fs.ErrNotExist):
		text = `check the path, which is taken from the login directory unless it begins with "/"`
	case errors.Is(s, fs.ErrPermission):
		text = "the account on the server needs the right to do this; ask the server's operator"
	case s.Code == sftpclient.StatusUnsupported, s.Code == sftpclient.StatusBadMessage, s.Code == sftpclient.StatusExists:
		return courier.Permanent(err)
	}
	if text == "" {
		return err
	}
	return courier.Permanent(&connerr.Advice{Err: err, Text: text})
}
