package sftpserver

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/pkg/sftp"
)

// Errors with a meaning of their own when a hook of [Options] returns them.
var (
	// ErrDrop cuts the connection; the client gets no answer.
	ErrDrop = errors.New("connection dropped")

	// ErrHang never answers, nor anything later in the same SFTP session. The
	// operation waits until the connection ends or the server is closed.
	ErrHang = errors.New("operation hangs")

	// ErrSkip, from Options.Fault, tells the client that the operation succeeded
	// without doing it. It works for write, fsync, close, setstat, rename,
	// posix-rename, remove, mkdir and rmdir; other operations fail.
	ErrSkip = errors.New("operation skipped")
)

// An Op is an operation that a client asked for. Method is one of
//
//	connect       a client has connected; Path is its address
//	login         a client has proved who it is; Path is the user name
//	session       it opens a channel
//	sftp          it asks for the SFTP subsystem on that channel
//	init          it begins the SFTP session
//	open          Flag says how, in the way of os.OpenFile
//	read, write   Length bytes at Offset; Length is what was asked for
//	fsync         by handle
//	close         of a file or listing; not when a connection ends
//	list          opens a directory
//	readdir       reads the next part of a listing, after Offset names
//	stat          also by handle
//	lstat
//	realpath
//	setstat       by path or handle; Length is the new size, or -1 to keep it
//	rename        the plain one; Target is the new path
//	posix-rename  the one that replaces
//	remove        of a file
//	mkdir, rmdir
//	symlink       making and reading symbolic links; always refused
//	extended      any other extension of the protocol; Path is its name
//
// and empty for a packet of unknown type.
//
// Errors that the hooks return for connect end the connection, those for
// login, session and sftp refuse it.
type Op struct {
	Method string
	Path   string // absolute, cleaned, with slashes
	Target string
	Flag   int
	Offset int64
	Length int64

	done <-chan struct{}
}

// Done returns a channel that is closed when waiting makes no sense any more:
// the connection of the operation has ended, its time for the login is over, or
// the server is closed. It is nil in the result of [Server.Ops].
func (o Op) Done() <-chan struct{} { return o.done }

// String returns the operation in one line, for messages of tests.
func (o Op) String() string {
	var b strings.Builder
	b.WriteString(o.Method)
	if o.Path != "" {
		fmt.Fprintf(&b, " %q", o.Path)
	}
	if o.Target != "" {
		fmt.Fprintf(&b, " to %q", o.Target)
	}
	switch o.Method {
	case "open":
		fmt.Fprintf(&b, " flag %#x", o.Flag)
	case "read", "write":
		fmt.Fprintf(&b, " [%d:%d]", o.Offset, o.Offset+o.Length)
	case "readdir":
		fmt.Fprintf(&b, " after %d", o.Offset)
	case "setstat":
		if o.Length >= 0 {
			fmt.Fprintf(&b, " size %d", o.Length)
		}
	}
	return b.String()
}

// maxOps is how many operations are remembered; then the oldest are forgotten.
// Longer paths are cut.
const (
	maxOps  = 1 << 16
	maxPath = 8 << 10
)

// An opLog remembers operations in the order in which they began.
type opLog struct {
	mu    sync.Mutex
	ops   []Op // a ring once it has maxOps
	begin int  // of the ring
	count map[string]int
}

func (l *opLog) add(o Op) {
	o.done = nil
	if len(o.Path) > maxPath {
		o.Path = strings.Clone(o.Path[:maxPath])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == nil {
		l.count = make(map[string]int)
	}
	l.count[o.Method]++
	if len(l.ops) < maxOps {
		l.ops = append(l.ops, o)
		return
	}
	l.ops[l.begin] = o
	l.begin = (l.begin + 1) % maxOps
}

// Ops returns the operations that clients asked for, refused and failed ones
// included, in the order in which they began. Only the last 65,536 are kept, with
// the first 8 KiB of their paths.
func (s *Server) Ops() []Op {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return slices.Concat(s.log.ops[s.log.begin:], s.log.ops[:s.log.begin])
}

// Count returns how many operations with one of the methods clients asked for.
func (s *Server) Count(methods ...string) int {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	n := 0
	for _, m := range methods {
		n += s.log.count[m]
	}
	return n
}

// do records o and calls f, which may be nil, with the hooks around it. It
// returns what the client is to be told.
func (c *conn) do(o Op, f func() error) error {
	if c.dropped.Load() {
		return ErrDrop // requests that were under way when the connection was cut have no effect
	}
	s := c.server
	o.done = c.ctx.Done()
	s.log.add(o)
	if s.opt.Fault != nil {
		if err := c.settle(s.opt.Fault(o)); err == ErrSkip && skippable(o.Method) {
			return nil
		} else if err != nil {
			return status(err)
		}
	}
	if f != nil {
		if err := f(); err != nil {
			return status(err)
		}
	}
	if s.opt.FaultAfter != nil {
		return status(c.settle(s.opt.FaultAfter(o)))
	}
	return nil
}

// settle acts upon those errors of hooks that have a meaning of their own.
func (c *conn) settle(err error) error {
	switch {
	case errors.Is(err, ErrDrop):
		c.dropped.Store(true)
		c.net.Close() // before returning, so that no answer can get out
		return ErrDrop
	case errors.Is(err, ErrHang):
		<-c.ctx.Done()
		c.dropped.Store(true)
		return ErrHang
	case errors.Is(err, ErrSkip):
		return ErrSkip
	}
	return err
}

func skippable(method string) bool {
	switch method {
	case "write", "fsync", "close", "setstat", "rename", "posix-rename", "remove", "mkdir", "rmdir":
		return true
	}
	return false
}

// status removes the paths that the file system puts into its errors.
func status(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}

// statusCode returns the code of an answer that tells err.
func statusCode(err error) uint32 {
	for _, s := range []struct {
		err  error
		code uint32
	}{
		{io.EOF, fxEOF},
		{fs.ErrNotExist, fxNoSuchFile},
		{fs.ErrPermission, fxPermissionDenied},
		{errMalformed, fxBadMessage},
		{errUnsupported, fxOpUnsupported},
		{sftp.ErrSSHFxEOF, fxEOF},
		{sftp.ErrSSHFxNoSuchFile, fxNoSuchFile},
		{sftp.ErrSSHFxPermissionDenied, fxPermissionDenied},
		{sftp.ErrSSHFxBadMessage, fxBadMessage},
		{sftp.ErrSSHFxNoConnection, fxNoConnection},
		{sftp.ErrSSHFxConnectionLost, fxConnectionLost},
		{sftp.ErrSSHFxOpUnsupported, fxOpUnsupported},
	} {
		if errors.Is(err, s.err) {
			return s.code
		}
	}
	return fxFailure
}
