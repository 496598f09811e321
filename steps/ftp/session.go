package ftp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/remote"
)

// A session is a login at an FTP server. It does one thing at a time, for one
// goroutine; others may only end it.
type session struct {
	id       string // of the connection
	addr     string // "host:port"
	c        Connection
	password string
	redact   func(string) string // the job's
	tls      *tls.Config
	conn     *liveConn
	line     *line

	banner   string
	state    tls.ConnectionState
	features map[string]string
	home     string // where relative paths start; empty if it was not asked for
	noEPSV   bool   // the server doesn't know it
	hidden   string // the argument with which LIST shows all files, once that is known
	began    time.Time
	unproven bool     // taken from the pool, and nothing was said since
	warnings []string // what the configuration gives up
	facts    []any    // about the server and what was agreed on, for a log

	mu   sync.Mutex
	data io.Closer // the connection for content, while there is one
	dead error     // why the session has ended
}

// errClosed ends a session that nobody needs any more.
var errClosed = &connerr.LostError{Err: net.ErrClosed}

// end ends the session, unless it has ended, and returns why it has.
func (s *session) end(cause error) error {
	s.mu.Lock()
	if s.dead == nil {
		s.dead = cause
	}
	cause, conn, data := s.dead, s.conn, s.data
	s.mu.Unlock()
	if data != nil {
		data.Close()
	}
	conn.Close()
	return cause
}

// cause is why the session has ended; nil if it has not.
func (s *session) cause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// carry notes the connection for content, so that it ends with the session.
func (s *session) carry(c io.Closer) {
	s.mu.Lock()
	s.data = c
	dead := s.dead
	s.mu.Unlock()
	if dead != nil && c != nil {
		c.Close()
	}
}

// again begins the session anew after its end. While it runs, the end of ctx
// ends it.
func (s *session) again(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.connect(ctx)
}

// fault returns err as the failure of an operation on the session.
func (s *session) fault(op, path string, err error) error {
	if err == nil || isFault(err) {
		return err
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

// A pool keeps the sessions of one connection for one execution.
type pool struct {
	slots   chan struct{} // one token for each session that there may be
	closing context.Context
	close   context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex
	idle []*session // the one used last at the end
	open int        // slots taken
}

var _ io.Closer = (*pool)(nil)

func newPool(c Connection) *pool {
	p := &pool{slots: make(chan struct{}, c.MaxSessions)}
	for range c.MaxSessions {
		p.slots <- struct{}{}
	}
	p.closing, p.close = context.WithCancel(context.Background())
	if *c.KeepAlive > 0 {
		p.running.Go(func() { p.keepAlive(*c.KeepAlive) })
	}
	return p
}

// get returns a session that works as far as can be told, one that is idle or
// a new one. If the server takes no more, it waits for one.
func (p *pool) get(ctx context.Context, open func(context.Context) (*session, error)) (*session, error) {
	for {
		select {
		case <-p.slots:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-p.closing.Done():
			return nil, errClosed
		}
		p.mu.Lock()
		p.open++
		p.mu.Unlock()
		s, err := p.take(ctx, open)
		if err == nil {
			return s, nil
		}
		p.mu.Lock()
		p.open--
		others := p.open > 0 || len(p.idle) > 0
		p.mu.Unlock()
		if !others || courier.IsPermanent(err) || ctx.Err() != nil {
			p.slots <- struct{}{}
			return nil, err
		}
		// The slot is given up: the server has enough of us. Another one will do.
	}
}

// take finds an idle session that still works, or opens one.
func (p *pool) take(ctx context.Context, open func(context.Context) (*session, error)) (*session, error) {
	for {
		p.mu.Lock()
		n := len(p.idle)
		if n == 0 {
			p.mu.Unlock()
			break
		}
		s := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		if s.alive(ctx) {
			s.unproven = true
			return s, nil
		}
		// The server may have closed it while other steps were running; that
		// costs no attempt.
		s.end(errClosed)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return open(ctx)
}

// put takes a session back.
func (p *pool) put(s *session) {
	p.mu.Lock()
	if s.cause() == nil {
		p.idle = append(p.idle, s)
	}
	p.open--
	closed := p.closing.Err() != nil
	p.mu.Unlock()
	if closed {
		s.end(errClosed)
	}
	p.slots <- struct{}{}
}

// keepAlive lets idle sessions say something every interval, for servers and
// firewalls drop silent ones.
func (p *pool) keepAlive(interval time.Duration) {
	timer := time.NewTicker(interval)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-p.closing.Done():
			return
		}
		p.mu.Lock()
		idle := p.idle
		p.idle = nil // others open new ones meanwhile, if there are slots
		p.mu.Unlock()
		idle = slices.DeleteFunc(idle, func(s *session) bool { return s.noop(p.closing) != nil })
		p.mu.Lock()
		p.idle = append(idle, p.idle...)
		p.mu.Unlock()
	}
}

// Close ends the sessions that are idle, and those in use when they are put
// back, and refuses to open others.
func (p *pool) Close() error {
	p.close()
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, s := range idle {
		s.end(errClosed)
	}
	p.running.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.idle { // that were being kept alive
		s.end(errClosed)
	}
	return nil
}

// use calls f with a session of the connection called id, which is opened if
// none is idle. While f runs, the end of ctx ends the session, so that f
// returns.
func use(ctx context.Context, job *courier.Context, c Connections, id string, f func(*session) error) error {
	return more(ctx, job, c, id, func(s *session) error {
		s.warn(job.Log())
		return f(s)
	})
}

// more is use for the second time in an attempt and later: what the
// configuration of the connection gives up has been said.
func more(ctx context.Context, job *courier.Context, c Connections, id string, f func(*session) error) error {
	conn, err := c.Connection(ctx, id)
	if err != nil {
		err = fmt.Errorf("connection %q: %w", id, err)
		if errors.Is(err, courier.ErrNotFound) {
			err = courier.Permanent(err)
		}
		return err
	}
	p, err := courier.Keep(ctx, job, "ftp:"+id, func(context.Context) (*pool, error) {
		full, err := conn.withDefaults()
		if err != nil {
			return nil, courier.Permanent(&Error{Connection: id, Host: conn.address(), Op: "connect", Err: err})
		}
		return newPool(full), nil
	})
	if err != nil {
		return err
	}
	s, err := p.get(ctx, func(ctx context.Context) (*session, error) { return dial(ctx, job, id, conn) })
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { s.end(context.Cause(ctx)) })
	returned := false
	defer func() {
		if !stop() || !returned {
			s.end(errClosed)
		}
		p.put(s)
	}()
	err = f(s)
	returned = true
	return err
}

// reconnecting calls f, which moves a file over a session. If it goes on where it
// was, it is called again when the connection was lost.
func reconnecting(ctx context.Context, job *courier.Context, id string, resumes bool, f func() error) error {
	if !resumes {
		return f()
	}
	return remote.Reconnecting(ctx, job, id, isLost, f)
}

// isLost reports whether err is the end of a connection, so that another may do
// better: of that for commands, or of that for content, if the server says so.
func isLost(err error) bool {
	if r, ok := errors.AsType[*replyError](err); ok {
		return r.code == 425 || r.code == 426
	}
	return connerr.IsLost(err)
}

// warn says, at every use, what the configuration of the connection gives up.
func (s *session) warn(log *slog.Logger) {
	for _, text := range s.warnings {
		log.Warn(text, "connection", s.id, "host", s.addr)
	}
}

// freshFor is how long after a sign of life a session is used again without
// asking the server whether it is still there: the first command will tell.
const freshFor = 5 * time.Second

// alive reports whether the server still answers.
func (s *session) alive(ctx context.Context) bool {
	if s.cause() != nil {
		return false
	}
	if s.conn.quiet() < freshFor {
		return true
	}
	watch := time.AfterFunc(3*freshFor, func() { s.end(errClosed) })
	defer watch.Stop()
	defer context.AfterFunc(ctx, func() { s.end(context.Cause(ctx)) })()
	return s.noop(ctx) == nil
}

// noop asks for a sign of life. A refusal is one too.
func (s *session) noop(ctx context.Context) error {
	_, err := s.command(ctx, "NOOP", "")
	if isReply(err) {
		return nil
	}
	return err
}
