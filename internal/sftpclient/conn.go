// Package sftpclient is a client for SFTP servers: SSH login and version 3 of the
// protocol, as draft-ietf-secsh-filexfer-02 and OpenSSH's PROTOCOL describe it. Packets are
// those of github.com/pkg/sftp; a guard below it refuses what breaks the protocol.
//
// A [Conn] is an SSH connection with SFTP on one channel. Its methods may be called
// by several goroutines; any number of requests may be under way. Large files use
// further channels where the server is far away. [Reading] and [Writing] move a file
// with many requests under way. The server proves who it is before credentials are
// sent; see [Config].
//
// The server is taken to be hostile. Lengths are checked before memory is taken for
// them, and what is not an answer to a request ends the connection. Names come as
// the server sends them: the caller judges them. What the server has not told, such
// as a size, is distinct from zero; see [Attrs].
//
// An error is a [*StatusError] if the server refuses a request, with which the
// connection lives on; otherwise it is what the connection has ended with, or the
// cause with which ctx has ended. A [*StatusError] matches [fs.ErrNotExist],
// [fs.ErrExist] and [fs.ErrPermission]. Errors that repeating can't cure are marked
// by package failure. Words of the server are in quotes, without secrets.
//
// # Throughput
//
// Up to 4 MiB of requests are under way on a channel, 32 small files or 8 others at a time. A
// large file goes over 8 channels if the server is OpenSSH and more than 5 ms away: a channel of
// SSH passes about 2 MiB per round trip, and other servers may not write one file through
// several handles. Requests that do not wait for each other are sent together. A small upload
// waits five times: open; write; sync; close and size; rename. A small download waits three
// times: size and open; content; close and size.
//
// Each use of the library begins in a goroutine of its own, and the next starts when the request
// of the one before is written, so that requests that depend on each other go out in order and
// are answered in one round trip. A use cannot be given up: a file whose requests were given up
// is closed when they have ended, and if that takes more than 5 s, the connection is given up.
// The guard refuses to send the request by which Remove of the library removes a directory. An
// entry of a listing counts for at least 128 bytes of the limit of 64 MiB, which is what it
// takes in memory.
//
// Lines of known host keys mean what OpenSSH means, by code of this package. A line that OpenSSH
// overlooks is an error if it may be about the server.
package sftpclient

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier/internal/connerr"
	"golang.org/x/crypto/ssh"
)

// A Conn is an SSH connection, with SFTP on one or more channels of it. Several
// goroutines may use it. The first error of the connection, or what breaks the
// protocol, ends it; every request fails with that error then.
type Conn struct {
	addr    string // "host:port"
	net     *liveConn
	ssh     ssh.Conn
	ended   <-chan struct{} // closed when ssh has ended
	*Client                 // on the first channel
	channels

	redact  func(string) string
	offered []string       // ways to log in that the server offers; nil before the login
	speaks  bool           // whether SFTP is spoken, or other connections are reached through this one
	known   []any          // about the server and what was agreed on, for a log
	silence time.Duration  // longest time for which the server may leave all requests unanswered
	given   []string       // what the configuration gives up
	running sync.WaitGroup // whatever serves the connection
}

// ErrClosed ends a connection that nobody needs any more.
var ErrClosed = &connerr.LostError{Err: net.ErrClosed}

// Close ends the connection at once and waits for what served it. Requests
// that are under way fail.
func (s *Conn) Close() error {
	s.Abort(ErrClosed)
	s.running.Wait()
	return nil
}

// Abort ends the connection with cause, without waiting.
func (s *Conn) Abort(cause error) {
	s.Client.fail(cause)
}

// Warnings say what the configuration gives up, in words for people.
func (s *Conn) Warnings() []string { return s.given }

// Facts are about the server and what was agreed on, in pairs for a log.
func (s *Conn) Facts() []any { return s.known }

// freshFor is how long after a sign of life a session is used again without
// asking the server whether it is still there.
const freshFor = 5 * time.Second

// Alive reports whether the server still answers.
func (s *Conn) Alive(ctx context.Context) bool {
	if s.Cause() != nil {
		return false
	}
	if s.net.quiet() < freshFor {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, keepAliveMisses*freshFor)
	defer cancel()
	_, err := s.Realpath(ctx, ".")
	return err == nil || IsStatus(err)
}

// keepAlive asks the server for a sign of life every interval, so that the
// deadline of the connection, which every byte moves on, is kept. It returns
// when the connection ends.
func (s *Conn) keepAlive(interval time.Duration) {
	timer := time.NewTicker(interval)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.dead:
			return
		}
		// Any answer will do, a refusal too.
		if _, _, err := s.ssh.SendRequest("keepalive@openssh.com", true, nil); err != nil {
			return
		}
	}
}

// explainLost returns the error of the connection itself where there is one:
// the layers above only say that it has ended.
func (s *Conn) explainLost(err error) error {
	if _, ok := errors.AsType[*protocolError](err); ok {
		return err
	}
	if cause := s.net.cause(); cause != nil {
		err = cause
	}
	return &connerr.LostError{Err: err}
}

// A liveConn is a connection with a deadline for reading that moves on with
// every read.
type liveConn struct {
	net.Conn
	in    *bufio.Reader // of what a receiver reads
	idle  atomic.Int64  // longest time without a byte, in nanoseconds; 0 means any
	heard atomic.Int64  // when the last byte came, in nanoseconds since begin
	begin time.Time
	err   atomic.Pointer[error]
	once  sync.Once
}

func newLiveConn(c net.Conn) *liveConn {
	l := &liveConn{Conn: c, begin: time.Now()}
	l.in = bufio.NewReaderSize(receiver{l}, receiveBuffer)
	return l
}

// receiveBuffer is how much is read from the network at once. SSH reads 4 KiB, and then what
// a packet has beyond them, with a call of the system and a new deadline for each.
const receiveBuffer = 128 << 10

// Read reads what comes within the idle time.
func (c *liveConn) Read(p []byte) (int, error) { return c.in.Read(p) }

// A receiver reads from the network.
type receiver struct{ *liveConn }

func (c receiver) Read(p []byte) (int, error) {
	if idle := time.Duration(c.idle.Load()); idle > 0 {
		c.Conn.SetReadDeadline(time.Now().Add(idle))
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.heard.Store(int64(time.Since(c.begin)))
	}
	c.note(err)
	return n, err
}

// Write writes p.
func (c *liveConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.note(err)
	return n, err
}

// Close closes the connection once.
func (c *liveConn) Close() error {
	err := net.ErrClosed
	c.once.Do(func() { err = c.Conn.Close() })
	return err
}

// note keeps the first error, which is the one that tells the reason.
func (c *liveConn) note(err error) {
	if err != nil {
		c.err.CompareAndSwap(nil, &err)
	}
}

func (c *liveConn) cause() error {
	if p := c.err.Load(); p != nil {
		return *p
	}
	return nil
}

// quiet is how long ago the last byte came.
func (c *liveConn) quiet() time.Duration {
	return time.Since(c.begin) - time.Duration(c.heard.Load())
}

// roll begins to limit the time without a byte. The read that is under way is
// limited too.
func (c *liveConn) roll(idle time.Duration) {
	c.idle.Store(int64(idle))
	if idle > 0 {
		c.Conn.SetReadDeadline(time.Now().Add(idle))
	}
}
