// Package sftp has the steps that work with files on SFTP servers: sftp.list,
// sftp.stat, sftp.download, sftp.upload, sftp.mkdir, sftp.rmdir, sftp.delete and
// sftp.rename.
//
// The steps of an execution share one session per connection, which is opened
// by the first that needs it. Servers prove who they are before credentials
// are sent; see [Connection].
//
// A file gets its final name, here or there, when all of its content has
// arrived, has been compared with the size of the source, and is durable as
// far as the server lets itself be told. Until then it has a name that contains
// ".courier-tmp-". What an interrupted attempt leaves behind is removed by the
// next, or when the execution fails or is cancelled.
//
// Everything that comes from a server is taken to be hostile: names that could
// mean anything but one file are refused and never altered, sizes are checked,
// and its words appear in messages only in quotes.
//
// This package has the connections and sessions. Package internal/remote has what the
// steps do with a server, such as the upload and the renaming, for SFTP and FTP alike.
//
// Package internal/sftpclient is the client: packets of github.com/pkg/sftp behind a guard, on
// connections of golang.org/x/crypto/ssh.
package sftp

import (
	"context"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/sftpclient"
)

// Register adds the steps of this package to r. They find their connections in
// c. It panics if c is nil or a key is taken.
func Register(r *courier.Registry, c Connections) {
	if c == nil {
		panic("sftp: register: the argument c, the Connections, is nil")
	}
	courier.Register(r, "sftp.list", List{c}, options("list", "Lists files in a directory on an SFTP server."))
	courier.Register(r, "sftp.download", Download{c}, options("download", "Downloads files from an SFTP server."))
	courier.Register(r, "sftp.upload", Upload{c}, options("upload", "Uploads files to an SFTP server."))
	courier.Register(r, "sftp.mkdir", Mkdir{c}, options("mkdir", "Makes a directory on an SFTP server, with those above it."))
	courier.Register(r, "sftp.rmdir", Rmdir{c}, options("rmdir", "Removes a directory on an SFTP server."))
	courier.Register(r, "sftp.delete", Delete{c}, options("delete", "Deletes files on an SFTP server."))
	courier.Register(r, "sftp.rename", Rename{c}, options("rename", "Renames a file or directory on an SFTP server."))
	courier.Register(r, "sftp.stat", Stat{c}, options("stat", "Looks at a file or directory on an SFTP server."))
}

func options(verb, doc string) *courier.TypeOptions {
	return remote.TypeOptions(verb, doc)
}

// test tells in the log of the step what is known of the server.
func (s *session) test(ctx context.Context, job *courier.Context) error {
	began := time.Now()
	if _, err := s.Realpath(ctx, "."); err != nil && !sftpclient.IsStatus(err) {
		return s.fault("test", "", err)
	}
	facts := append(slices.Clip(s.Facts()), "round_trip", time.Since(began))
	switch entries, err := s.Peek(ctx, "."); {
	case err == nil:
		facts = append(facts, "entries", entries)
	case sftpclient.IsStatus(err): // the account need not be allowed to
		facts = append(facts, "entries", "refused")
	default:
		return s.fault("test", "", err)
	}
	job.Log().With("connection", s.id, "host", s.addr).Info("the connection works", facts...)
	return nil
}
