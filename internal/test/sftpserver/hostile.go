package sftpserver

import (
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"
)

// A Script says how a hostile server answers. By default the server pretends to
// be friendly: it has one directory, every other path is a file with the same
// content, and whatever changes something succeeds without an effect.
type Script struct {
	Dir     string  // the directory, absolute; its parents exist too; "" means "/"
	Entries []Entry // what the directory contains; other directories are empty
	Endless bool    // listing the directory repeats the entries for ever
	Content []byte  // of every file

	// Answer may answer a request in the server's place: it writes raw bytes to
	// w, of a packet or not, fitting or not, and reports true. If it reports
	// false, having written nothing, the server answers as it does by default.
	// Writes fail once the connection has ended, so Answer may write for ever.
	// The requests of a session are answered one after the other, those of
	// different sessions at the same time. It may be nil.
	Answer func(r Request, w io.Writer) bool
}

// NewHostile returns a server that needs no directory and answers as script
// says. Logins, hooks for faults and the log of operations work as in [New].
func NewHostile(script Script, opt *Options) (*Server, error) {
	s, err := newServer(opt)
	if err != nil {
		return nil, fmt.Errorf("sftp server: %w", err)
	}
	script.Dir = path.Clean("/" + script.Dir)
	s.script = &script
	return s, nil
}

// answerByScript answers r; the error is that of the channel.
func (s *session) answerByScript(r Request) error {
	r.done = s.ctx.Done()
	answer := s.server.script.Answer
	if err := s.do(r.Op, nil); err != nil {
		_, err = s.channel.Write(r.failure(err))
		return err
	}
	if answer != nil && answer(r, s.channel) {
		return nil
	}
	_, err := s.channel.Write(s.pretend(r))
	return err
}

// pretend returns the friendly answer to r.
func (s *session) pretend(r Request) []byte {
	script, opt := s.server.script, &s.server.opt
	switch r.Method {
	case "init":
		return opt.versionPacket()
	case "realpath":
		return r.Names(Entry{Name: path.Clean("/" + r.Path)})
	case "stat", "lstat":
		return r.Attributes(script.attrs(r.Path))
	case "open", "list":
		if len(s.handles) >= maxHandles {
			return r.failure(errHandles)
		}
		return s.add(r, &handle{path: r.Path})
	case "close":
		delete(s.handles, r.Handle)
	case "readdir":
		return s.pretendList(r)
	case "read":
		content := script.Content
		if r.Offset < 0 || r.Offset >= int64(len(content)) {
			return r.failure(io.EOF)
		}
		content = content[r.Offset:]
		return r.Contents(content[:min(int64(len(content)), r.Length, int64(opt.MaxRead))])
	case "extended":
		if r.Path == extLimits && !opt.NoLimits {
			return opt.limitsPacket(r.ID)
		}
		return r.failure(errUnsupported)
	case "symlink", "":
		return r.failure(errUnsupported)
	}
	return r.Status(fxOK, "")
}

func (s *session) pretendList(r Request) []byte {
	script, h := s.server.script, s.handles[r.Handle]
	total := int64(len(script.Entries))
	if h == nil || total == 0 || path.Clean("/"+h.path) != script.Dir {
		return r.failure(io.EOF)
	}
	var part []Entry
	for len(part) < listPart && (script.Endless || h.sent < total) {
		e := script.Entries[h.sent%total]
		if e.Attrs == nil {
			e.Attrs = new(script.fileAttrs())
		}
		part = append(part, e)
		h.sent++
	}
	if len(part) == 0 {
		return r.failure(io.EOF)
	}
	return r.Names(part...)
}

// attrs returns what is told about p: as in the listing, or about the directory
// and its parents, or about a file.
func (s *Script) attrs(p string) Attrs {
	clean := path.Clean("/" + p)
	if clean == "/" || clean == s.Dir || strings.HasPrefix(s.Dir, clean+"/") {
		return Attrs{Mode: os.ModeDir | 0o700, ModTime: time.Unix(1e9, 0)}
	}
	for _, e := range s.Entries {
		if e.Attrs != nil && strings.TrimSuffix(s.Dir, "/")+"/"+e.Name == p {
			return *e.Attrs
		}
	}
	return s.fileAttrs()
}

func (s *Script) fileAttrs() Attrs {
	return Attrs{Size: int64(len(s.Content)), Mode: 0o600, ModTime: time.Unix(1e9, 0)}
}
