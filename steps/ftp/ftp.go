// Package ftp has the steps that work with files on FTP servers: ftp.list, ftp.stat,
// ftp.download, ftp.upload, ftp.mkdir, ftp.rmdir, ftp.delete and ftp.rename. Each also has a key
// that begins with "ftps"; the [Connection], not the key, decides whether and how a connection is
// encrypted.
//
// The steps of an execution share a few sessions per connection, since an FTP session transfers
// one file at a time. They are opened when they are needed, kept alive, and closed with the
// execution.
//
// A file gets its final name, local or remote, when all of its content has arrived and its size
// has been compared with the source. Until then it has a name that contains ".courier-tmp-". The
// unfinished files of an interrupted attempt are removed by the next attempt, unless it continues
// them, or when the execution fails or is cancelled.
//
// Everything that comes from a server is treated as hostile: ambiguous names are refused and
// never altered, the address of a data connection is never taken from a reply, replies and
// listings have limits, and text from the server appears in messages only in quotes. FTP states
// reasons only as free text: a refusal may mean that the file does not exist, or that the account
// has no permission.
//
// This package has the connections and sessions. Package internal/remote implements the
// operations of the steps, such as upload and rename, for both FTP and SFTP.
//
// Package internal/ftpclient is the client; its documentation says why Courier has its own.
package ftp

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/ftpclient"
	"github.com/courierhq/courier/internal/remote"
)

// Register adds the steps of this package to r. They find their connections in
// c. It panics if c is nil or a key is taken.
func Register(r *courier.Registry, c Connections) {
	if c == nil {
		panic("ftp: register: the argument c, the Connections, is nil")
	}
	courier.Register(r, "ftp.list", List{c}, options("list", "Lists files in a directory on an FTP server. An FTP server without MLSD reports modified only to the minute or day, and in its own time zone as if that were UTC."))
	courier.Register(r, "ftp.stat", Stat{c}, options("stat", "Looks at a file or directory on an FTP server."))
	courier.Register(r, "ftp.download", Download{c}, options("download", "Downloads files from an FTP server."))
	courier.Register(r, "ftp.upload", Upload{c}, options("upload", "Uploads files to an FTP server."))
	courier.Register(r, "ftp.mkdir", Mkdir{c}, options("mkdir", "Makes a directory on an FTP server, with those above it."))
	courier.Register(r, "ftp.rmdir", Rmdir{c}, options("rmdir", "Removes a directory on an FTP server."))
	courier.Register(r, "ftp.delete", Delete{c}, options("delete", "Deletes files on an FTP server."))
	courier.Register(r, "ftp.rename", Rename{c}, options("rename", "Renames or moves a file on an FTP server."))
}

func options(verb, doc string) *courier.TypeOptions {
	return remote.TypeOptions(verb, doc, "ftps."+verb)
}

// test logs the properties of the server in the step's log.
func (s *session) test(ctx context.Context, job *courier.Context) error {
	began := time.Now()
	if err := s.Noop(ctx); err != nil {
		return s.fault("test", "", err)
	}
	facts := append(slices.Clip(s.Facts()), "round_trip", time.Since(began))
	// Listing tests the connections for content too. The account need not be
	// allowed to.
	entries := 0
	_, err := s.Conn.List(ctx, ".", false, func(ftpclient.Entry) error { entries++; return nil })
	if refusal, ok := errors.AsType[*ftpclient.ReplyError](err); ok && refusal.Code >= 500 {
		facts = append(facts, "entries", "refused")
	} else if err != nil {
		return s.fault("test", "", err)
	} else {
		facts = append(facts, "entries", entries)
	}
	job.Log().With("connection", s.id, "host", s.addr).Info("the connection works", facts...)
	return nil
}
