// Package ftpclient is a client for FTP servers, with and without TLS.
//
// A [Conn] is a login. It has one control connection, over which it does one thing
// at a time, and makes a data connection for each listing and each file: passive,
// or active where [Config] says so. The data connection goes to the host of the
// control connection; an address in a reply is never used. With TLS both
// connections are encrypted, or nothing is sent. A [Pool] keeps several logins.
//
// The server is taken to be hostile. A reply that no command has asked for ends the
// connection. The length of replies, listings and their lines is limited. A line of
// a listing that is in no known form is counted and never guessed. Names come as the
// server sends them: the caller judges them.
//
// An error is a [*ReplyError] if the server refuses a command, with which the
// connection lives on; otherwise the connection has ended, and Cause says why. A
// refusal that may mean that there is no such file matches [fs.ErrNotExist]; see
// [IsMissing]. Errors that repeating can't cure are marked by package failure. Words
// of the server are in quotes, without secrets.
//
// The client is Courier's own. The usual library, github.com/jlaffaye/ftp, has no active mode,
// leaves out lines of a listing that it cannot read, takes no context for anything but dialing,
// lets a reply that was not asked for count for the next command, and shows a truncated file
// only when the file is closed. Package internal/test/libraries has a test for each.
//
// An upload is closed for writing, read to the end with a deadline, and closed. What was not
// read, such as the tickets of TLS 1.3, makes the system reset the connection, and the server
// lose the end of the file. Each session has a cache of TLS sessions of its own, because servers
// demand that content resumes the TLS session of the commands. A session is not used again after
// a transfer was interrupted, since replies can't be matched with commands then.
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

// A Conn is a login at an FTP server. It does one thing at a time, for one
// goroutine; others may only end it.
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

// ErrClosed ends a session that nobody needs any more.
var ErrClosed = &connerr.LostError{Err: net.ErrClosed}

// End ends the session, unless it has ended, and returns why it has.
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

// Cause is why the session has ended; nil if it has not.
func (s *Conn) Cause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// carry notes the connection for content, so that it ends with the session.
func (s *Conn) carry(c io.Closer) {
	s.mu.Lock()
	s.data = c
	dead := s.dead
	s.mu.Unlock()
	if dead != nil && c != nil {
		c.Close()
	}
}

// Reconnect begins the session anew after its end. While it runs, the end of ctx
// ends it.
func (s *Conn) Reconnect(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.connect(ctx)
}

// Warnings say what the configuration gives up, in words for people.
func (s *Conn) Warnings() []string { return s.given }

// Facts are about the server and what was agreed on, in pairs for a log.
func (s *Conn) Facts() []any { return s.known }

// freshFor is how long after a sign of life a session is used again without
// asking the server whether it is still there: the first command will tell.
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

// Noop asks for a sign of life. A refusal is one too.
func (s *Conn) Noop(ctx context.Context) error {
	_, err := s.command(ctx, "NOOP", "")
	if IsReply(err) {
		return nil
	}
	return err
}
