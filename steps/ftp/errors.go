package ftp

import (
	"errors"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/ftpclient"
)

// An Error is the failure of an operation on a connection. It has the fields
// Connection (its id), Host ("host:port"), Op (such as "open" or "connect"), Path (on
// the server) and Err.
type Error struct{ connerr.OperationError }

func newError(e connerr.OperationError) error { return &Error{e} }

// explain adds advice to an error about a refusal. It marks the error as permanent if the server
// will refuse the command again.
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
