package sftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/transfer"
)

// A session is an SFTP connection that lives until the execution is over, or
// until something goes wrong with it.
type session struct {
	id      string // of the connection
	addr    string // "host:port"
	conn    *liveConn
	ssh     ssh.Conn
	ended   <-chan struct{} // closed when ssh has ended
	*client                 // on the first channel
	lanes

	redact   func(string) string // the job's
	offered  []string            // ways to log in that the server offers; nil before the login
	speaks   bool                // whether SFTP is spoken, or other connections are reached through this one
	facts    []any               // about the server and what was agreed on, for a log
	limits   transfer.Limits     // of what the server may cost
	silence  time.Duration       // longest time for which the server may leave all requests unanswered
	warnings []string            // what the configuration gives up
	running  sync.WaitGroup      // whatever serves the connection
}

// errClosed ends a session that nobody needs any more.
var errClosed = &connerr.LostError{Err: net.ErrClosed}

// Close ends the connection at once and waits for what served it. Requests
// that are under way fail.
func (s *session) Close() error {
	s.abort(errClosed)
	s.running.Wait()
	return nil
}

// abort ends the connection without waiting.
func (s *session) abort(cause error) {
	s.client.fail(cause)
}

// fault returns err as the failure of an operation on the session.
func (s *session) fault(op, path string, err error) error {
	if err == nil || isFault(err) {
		return err
	}
	if status, ok := errors.AsType[*statusError](err); ok {
		status.message = s.redact(status.message) // it may repeat the password
	}
	e := error(&Error{Connection: s.id, Host: s.addr, Op: op, Path: path, Err: explain(err)})
	if courier.IsPermanent(err) {
		e = courier.Permanent(e)
	}
	return e
}

// isFault reports whether fault has made err.
func isFault(err error) bool {
	if _, ok := err.(*Error); ok {
		return true
	}
	_, ok := errors.Unwrap(err).(*Error)
	return ok && courier.IsPermanent(err)
}

// A line keeps the session of one connection for one execution, and replaces
// it when it has come to its end.
type line struct {
	free    chan struct{} // holds its one token while nobody is looking at current
	current *session      // nil before the first, and after the last
	closing context.Context
	close   context.CancelFunc
}

var _ io.Closer = (*line)(nil)

func newLine() *line {
	l := &line{free: newToken()}
	l.closing, l.close = context.WithCancel(context.Background())
	return l
}

// get returns a session that works as far as can be told, the one that is
// there or a new one.
func (l *line) get(ctx context.Context, open func(context.Context) (*session, error)) (*session, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.closing, func() { cancel(errClosed) })()
	select {
	case <-l.free:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { l.free <- struct{}{} }()
	if s := l.current; s != nil && ctx.Err() == nil {
		if s.alive(ctx) {
			return s, nil
		}
		// The server may have closed it while other steps were running; that
		// costs no attempt.
		s.Close()
		l.current = nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s, err := open(ctx)
	if err != nil {
		return nil, err
	}
	l.current = s
	return s, nil
}

// Close ends the session and refuses to open another.
func (l *line) Close() error {
	l.close()
	<-l.free
	defer func() { l.free <- struct{}{} }()
	if l.current == nil {
		return nil
	}
	return l.current.Close()
}

// use calls f with the session of the connection called id, which is opened if
// the execution has none. While f runs, the end of ctx ends the session, so
// that f returns.
func use(ctx context.Context, job *courier.Context, c Connections, id string, f func(*session) error) error {
	l, err := courier.Keep(ctx, job, "sftp:"+id, func(context.Context) (*line, error) { return newLine(), nil })
	if err != nil {
		return err
	}
	s, err := l.get(ctx, func(ctx context.Context) (*session, error) {
		conn, err := c.Connection(ctx, id)
		if err != nil {
			err = fmt.Errorf("connection %q: %w", id, err)
			if errors.Is(err, courier.ErrNotFound) {
				err = courier.Permanent(err)
			}
			return nil, err
		}
		return dial(ctx, job, c, id, conn)
	})
	if err != nil {
		return err
	}
	s.warn(job.Log())
	stop := context.AfterFunc(ctx, func() { s.abort(context.Cause(ctx)) })
	returned := false
	defer func() {
		if !stop() || !returned || s.cause() != nil {
			s.Close()
		}
	}()
	err = f(s)
	returned = true
	return err
}

// warn says, at every use, what the configuration of the connection gives up.
func (s *session) warn(log *slog.Logger) {
	for _, text := range s.warnings {
		log.Warn(text, "connection", s.id, "host", s.addr)
	}
}

// freshFor is how long after a sign of life a session is used again without
// asking the server whether it is still there.
const freshFor = 5 * time.Second

// alive reports whether the server still answers.
func (s *session) alive(ctx context.Context) bool {
	if s.cause() != nil {
		return false
	}
	if s.conn.quiet() < freshFor {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, keepAliveMisses*freshFor)
	defer cancel()
	_, err := s.realpath(ctx, ".")
	return err == nil || isStatus(err)
}

// keepAlive asks the server for a sign of life every interval, so that the
// deadline of the connection, which every byte moves on, is kept. It returns
// when the connection ends.
func (s *session) keepAlive(interval time.Duration) {
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
func (s *session) explainLost(err error) error {
	if _, ok := errors.AsType[*protocolError](err); ok {
		return err
	}
	if cause := s.conn.cause(); cause != nil {
		err = cause
	}
	return &connerr.LostError{Err: err}
}

// A liveConn is a connection with a deadline for reading that moves on with
// every read.
type liveConn struct {
	net.Conn
	idle  atomic.Int64 // longest time without a byte, in nanoseconds; 0 means any
	heard atomic.Int64 // when the last byte came, in nanoseconds since begin
	begin time.Time
	err   atomic.Pointer[error]
	once  sync.Once
}

func newLiveConn(c net.Conn) *liveConn { return &liveConn{Conn: c, begin: time.Now()} }

// Read reads what comes within the idle time.
func (c *liveConn) Read(p []byte) (int, error) {
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
