// Package sftp has the steps that work with files on SFTP servers: sftp.list,
// sftp.stat, sftp.download, sftp.upload, sftp.mkdir, sftp.rmdir, sftp.delete and
// sftp.rename.
//
// The steps of an execution share one session per connection. The first step that needs the
// session opens it. Servers are authenticated before credentials are sent; see [Connection].
//
// A file gets its final name, local or remote, when all of its content has arrived, its size has
// been compared with the source, and it is durable as far as the server supports that. Until then
// it has a name that contains ".courier-tmp-". The unfinished files of an interrupted attempt are
// removed by the next attempt, or when the execution fails or is cancelled.
//
// Everything that comes from a server is treated as hostile: ambiguous names are refused and
// never altered, sizes are checked, and text from the server appears in messages only in quotes.
//
// This package has the connections and sessions. Package internal/remote implements the
// operations of the steps, such as upload and rename, for both SFTP and FTP.
//
// Package internal/sftpclient is the client: github.com/pkg/sftp over connections of
// golang.org/x/crypto/ssh, with a guard that checks the packets.
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

// test logs the properties of the server in the step's log.
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
