// Package sftpclient is a client for SFTP servers: SSH login and version 3 of the
// protocol, as draft-ietf-secsh-filexfer-02 and OpenSSH's PROTOCOL describe it. Packets are
// those of github.com/pkg/sftp; a guard below it refuses what breaks the protocol.
//
// A [Conn] is an SSH connection with SFTP on one channel. Its methods are safe for concurrent
// use; any number of requests may be in flight. Large files use more channels if the round-trip
// time is long. [Reading] and [Writing] transfer a file with many requests in flight. The server
// is authenticated before credentials are sent; see [Config].
//
// The server is treated as hostile. Lengths are checked before memory is allocated, and a packet
// that answers no request ends the connection. Names are returned as the server sends them: the
// caller must check them. A value that the server has not sent, such as a size, is distinct from
// zero; see [Attrs].
//
// An error is a [*StatusError] if the server refuses a request; the connection can still be used
// then. Otherwise it is the error that has ended the connection, or the cause of ctx. A
// [*StatusError] matches [fs.ErrNotExist], [fs.ErrExist] and [fs.ErrPermission]. Errors that a
// retry cannot fix are marked by package failure. Text from the server is in quotes, without
// secrets.
//
// # Throughput
//
// Up to 4 MiB of requests are in flight on a channel, 32 small files or 8 others at a time. A
// large file uses 8 channels if the server is OpenSSH and the round-trip time is more than 5 ms:
// an SSH channel transfers about 2 MiB per round trip, and other servers may be unable to write
// one file through several handles. Independent requests are sent together. A small upload waits
// five times: open; write; sync; close and size; rename. A small download waits three times: size
// and open; content; close and size.
//
// Each use of the library begins in a goroutine of its own, and the next starts when the request
// of the one before is written, so that requests that depend on each other go out in order and
// are answered in one round trip. A use cannot be cancelled: a file with abandoned requests is
// closed when they have ended, and if that takes more than 5 s, the connection is closed. The
// guard refuses to send the request with which Remove of the library removes a directory. An
// entry of a listing counts for at least 128 bytes of the limit of 64 MiB, which is what it takes
// in memory.
//
// This package parses lines of known host keys itself, with the same meaning as in OpenSSH. A
// line that OpenSSH ignores because it cannot read it is an error if it may concern the server.
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

// A Conn is an SSH connection, with SFTP on one or more channels of it. It is safe for concurrent
// use. The first error of the connection, or a protocol violation, ends it; then every request
// fails with that error.
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

// ErrClosed ends a connection that is no longer needed.
var ErrClosed = &connerr.LostError{Err: net.ErrClosed}

// Close ends the connection at once and waits for the goroutines that serve it. Requests in
// flight fail.
func (s *Conn) Close() error {
	s.Abort(ErrClosed)
	s.running.Wait()
	return nil
}

// Abort ends the connection with cause, without waiting.
func (s *Conn) Abort(cause error) {
	s.Client.fail(cause)
}

// Warnings describe the insecure settings of the configuration, for human readers.
func (s *Conn) Warnings() []string { return s.given }

// Facts are the properties of the server and of the connection, as pairs for a log.
func (s *Conn) Facts() []any { return s.known }

// freshFor is how long after the last received byte a session is used again without a check that
// the server still answers.
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

// keepAlive sends the server a request every interval, so that its answer moves the deadline of
// the connection. It returns when the connection ends.
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

// explainLost returns the error of the connection itself, if there is one: the layers above only
// report that it has ended.
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

// receiveBuffer is the number of bytes read from the network at once. SSH itself reads 4 KiB, and
// then the rest of a packet, each with a system call and a new deadline.
const receiveBuffer = 128 << 10

// Read reads data that arrives within the idle time.
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

// note keeps the first error, which states the reason.
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

// quiet returns the time since the last byte arrived.
func (c *liveConn) quiet() time.Duration {
	return time.Since(c.begin) - time.Duration(c.heard.Load())
}

// roll starts to limit the time without a byte, also for the current read.
func (c *liveConn) roll(idle time.Duration) {
	c.idle.Store(int64(idle))
	if idle > 0 {
		c.Conn.SetReadDeadline(time.Now().Add(idle))
	}
}
