// Package ftpclient is a client for FTP servers, with and without TLS.
//
// A [Conn] is a login. It has one control connection, over which it sends one command at a time,
// and makes a data connection for each listing and each file: passive, or active if [Config] says
// so. The data connection uses the host of the control connection; an address in a reply is never
// used. With TLS both connections are encrypted, or nothing is sent. A [Pool] holds several
// logins.
//
// The server is treated as hostile. An unexpected reply ends the connection. The length of
// replies, listings and their lines is limited. A line of a listing in an unknown format is
// counted, but its meaning is not guessed. Names are returned as the server sends them: the
// caller must check them.
//
// An error is a [*ReplyError] if the server refuses a command; the connection can still be used
// then. Otherwise the connection has ended, and Cause says why. A refusal that may mean that the
// file does not exist matches [fs.ErrNotExist]; see [IsMissing]. Errors that a retry cannot fix
// are marked by package failure. Text from the server is in quotes, without secrets.
//
// The client is Courier's own. The usual library, github.com/jlaffaye/ftp, has no active mode,
// leaves out lines of a listing that it cannot read, takes no context for anything but dialing,
// takes an unexpected reply for the reply to the next command, and shows a truncated file only
// when the file is closed. Package internal/test/libraries has a test for each.
//
// The data connection of an upload is closed for writing, read to the end with a deadline, and
// then closed. Otherwise unread data, such as TLS 1.3 tickets, would make the system reset the
// connection, and the server would lose the end of the file. Each session has its own cache of
// TLS sessions, because servers require that data connections resume the TLS session of the
// control connection. A session is not used again after an interrupted transfer, since replies
// can no longer be matched with commands.
package ftpclient

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"time"

	"github.com/courierhq/courier/internal/connerr"
)

// A Conn is a login at an FTP server. It does one thing at a time, for one goroutine; other
// goroutines may only end it.
type Conn struct {
	c    Config
	tls  *tls.Config
	net  *liveConn
	line *controlConn

	banner   string
	state    tls.ConnectionState
	features map[string]string
	home     string // where relative paths start; empty if it was not asked for
	noEPSV   bool   // the server doesn't know it
	hidden   string // the argument with which LIST shows all files, once that is known
	began    time.Time
	unproven bool     // taken from the pool, and nothing was said since
	given    []string // what the configuration gives up
	known    []any    // about the server and what was agreed on, for a log

	mu   sync.Mutex
	data io.Closer // the connection for content, while there is one
	dead error     // why the session has ended
}

// ErrClosed ends a session that is no longer needed.
var ErrClosed = &connerr.LostError{Err: net.ErrClosed}

// End ends the session with cause, unless it has ended before, and returns the cause of the end.
func (s *Conn) End(cause error) error {
	s.mu.Lock()
	if s.dead == nil {
		s.dead = cause
	}
	cause, conn, data := s.dead, s.net, s.data
	s.mu.Unlock()
	if data != nil {
		data.Close()
	}
	conn.Close()
	return cause
}

// Cause returns why the session has ended, or nil if it has not ended.
func (s *Conn) Cause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// carry records the data connection, so that it ends with the session.
func (s *Conn) carry(c io.Closer) {
	s.mu.Lock()
	s.data = c
	dead := s.dead
	s.mu.Unlock()
	if dead != nil && c != nil {
		c.Close()
	}
}

// Reconnect opens the session again after its end. While it runs, the end of ctx ends it.
func (s *Conn) Reconnect(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.connect(ctx)
}

// Warnings describe the insecure settings of the configuration, for human readers.
func (s *Conn) Warnings() []string { return s.given }

// Facts are the properties of the server and of the connection, as pairs for a log.
func (s *Conn) Facts() []any { return s.known }

// freshFor is how long after the last received byte a session is used again without a check that
// the server still answers. The first command then shows that.
const freshFor = 5 * time.Second

// alive reports whether the server still answers.
func (s *Conn) alive(ctx context.Context) bool {
	if s.Cause() != nil {
		return false
	}
	if s.net.quiet() < freshFor {
		return true
	}
	watch := time.AfterFunc(3*freshFor, func() { s.End(ErrClosed) })
	defer watch.Stop()
	defer context.AfterFunc(ctx, func() { s.End(context.Cause(ctx)) })()
	return s.Noop(ctx) == nil
}

// Noop checks that the server answers. A refusal is an answer too.
func (s *Conn) Noop(ctx context.Context) error {
	_, err := s.command(ctx, "NOOP", "")
	if IsReply(err) {
		return nil
	}
	return err
}
