package sftpserver

import (
	"errors"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
)

// maxHandles is how many files and listings a session may have open.
const maxHandles = 1024

var (
	errHandle       = errors.New("no such handle")
	errHandles      = errors.New("too many open files")
	errNotRegular   = errors.New("not a regular file")
	errNotDirectory = errors.New("not a directory")
	errUnsupported  = errors.New("operation unsupported")
	errMalformed    = errors.New("malformed packet")
)

// A session is an SFTP session. It answers one request after the other, as the
// server of OpenSSH does, so the order of operations is the client's, and a
// fault hits the same operation every time. Package sftp's request server is no
// substitute: it works on several packets at once, with data races that a
// hostile client can provoke, goes on answering after Serve has returned, and
// its list of extensions belongs to the whole process.
type session struct {
	*conn
	channel io.ReadWriter
	handles map[string]*handle
	opened  int
	data    []byte // for what is read
}

// A handle is a file or listing that the client has open.
type handle struct {
	path   string
	file   *os.File // nil for listings, and in hostile servers
	append bool     // writes go to the end
	names  []string // of the listing that have not been sent
	sent   int64    // names of the listing that have been sent
}

// serve answers the requests that come from channel until its client is gone.
func (c *conn) serve(channel io.ReadWriter) {
	s := &session{conn: c, channel: channel, handles: make(map[string]*handle)}
	defer s.close()
	var packet []byte
	for {
		var err error
		if packet, err = readPacket(channel, packet); err != nil {
			return
		}
		r := parseRequest(packet)
		if h := s.handles[r.Handle]; h != nil && r.byHandle {
			r.Path = h.path
			if r.Method == "readdir" {
				r.Offset = h.sent
			}
		}
		if c.server.script != nil {
			err = s.answerByScript(r)
		} else {
			_, err = channel.Write(s.answer(r))
		}
		if err != nil || c.dropped.Load() {
			return
		}
	}
}

func (s *session) close() {
	for _, h := range s.handles {
		if h.file != nil {
			h.file.Close()
		}
	}
}

// answer does what r asks for and returns the packet that says so.
func (s *session) answer(r Request) []byte {
	if !r.byHandle && r.Method != "init" && r.Method != "extended" {
		r.Path = s.server.opt.absolute(r.Path)
	}
	if r.Method == "rename" || r.Method == "posix-rename" {
		r.Target = s.server.opt.absolute(r.Target)
	}
	var reply []byte
	err := s.do(r.Op, func() (err error) {
		if r.short {
			return errMalformed
		}
		reply, err = s.perform(r)
		return err
	})
	switch {
	case err != nil:
		return r.failure(err)
	case reply == nil:
		return r.Status(fxOK, "")
	}
	return reply
}

// absolute returns the clean absolute path that a client's path stands for.
func (o *Options) absolute(p string) string {
	if !path.IsAbs(p) {
		p = path.Join("/", o.Home, p)
	}
	return path.Clean(p)
}

// failure returns the status answer that tells err, as do returns it.
func (r Request) failure(err error) []byte { return r.Status(statusCode(err), err.Error()) }

// perform does what r asks for. It returns nil if success is all there is to
// tell.
func (s *session) perform(r Request) ([]byte, error) {
	opt, name := &s.server.opt, local(r.Path)
	switch r.Method {
	case "init":
		return opt.versionPacket(), nil
	case "open":
		return s.open(r)
	case "read":
		return s.read(r)
	case "write":
		return nil, s.write(r)
	case "close":
		return nil, s.closeHandle(r)
	case "fsync":
		if !opt.NoFsync {
			return nil, s.fsync(r)
		}
	case "list":
		return s.list(r)
	case "readdir":
		return s.readdir(r)
	case "stat", "lstat":
		return s.stat(r)
	case "realpath":
		return r.Names(Entry{Name: r.Path, LongName: r.Path}), nil
	case "setstat":
		return nil, s.setstat(r)
	case "rename":
		if opt.RenameReplaces {
			return nil, s.root().Rename(name, local(r.Target))
		}
		return nil, s.renameNew(name, local(r.Target))
	case "posix-rename":
		if !opt.NoPosixRename {
			return nil, s.root().Rename(name, local(r.Target))
		}
	case "remove", "rmdir":
		return nil, s.remove(name, r.Method == "rmdir")
	case "mkdir":
		return nil, s.root().Mkdir(name, 0o700)
	case "symlink":
		return nil, os.ErrPermission
	case "extended":
		if r.Path == extLimits && !opt.NoLimits {
			return opt.limitsPacket(r.ID), nil
		}
	}
	return nil, errUnsupported
}

func (s *session) root() *os.Root { return s.server.root }

// local returns the name under the root of an absolute, cleaned path.
func local(p string) string {
	if p = strings.TrimPrefix(p, "/"); p != "" {
		return p
	}
	return "."
}

// add gives h a handle and returns the answer that tells it to the client.
func (s *session) add(r Request, h *handle) []byte {
	s.opened++
	name := strconv.Itoa(s.opened)
	s.handles[name] = h
	return r.Packet(fxpHandle, appendString(nil, name))
}
