package sftp

import (
	"errors"
	"io/fs"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/sftpclient"
)

// An Error is the failure of an operation on a connection. It has the fields
// Connection (its id), Host ("host:port"), Op (such as "open" or "connect"), Path (on
// the server) and Err.
type Error struct{ connerr.OperationError }

func newError(e connerr.OperationError) error { return &Error{e} }

// explain adds advice to an error about a refused request. It marks the error as permanent if the
// server will refuse the request again.
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
