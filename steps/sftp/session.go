package sftp

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/connfile"
	"github.com/courierhq/courier/internal/sftpclient"
	"github.com/courierhq/courier/internal/transfer"
)

// A session is an SFTP connection that is open until the execution ends, or
// until the connection fails.
type session struct {
	*sftpclient.Conn
	id     string // of the connection
	addr   string // "host:port"
	redact func(string) string
	limits transfer.Limits // of what the server may cost
}

// fault returns err as the failure of an operation on the session.
func (s *session) fault(op, path string, err error) error {
	return connerr.Fault(connerr.OperationError{Connection: s.id, Host: s.addr, Op: op, Path: path}, err, func(err error) error {
		if status, ok := errors.AsType[*sftpclient.StatusError](err); ok {
			status.Message = s.redact(status.Message) // it may repeat the password
		}
		return explain(err)
	}, newError)
}

// A line holds the session of one connection for one execution, and replaces it
// after it has ended.
type line struct {
	free    chan struct{} // holds its one token while nobody is looking at current
	current *session      // nil before the first, and after the last
	closing context.Context
	close   context.CancelFunc
}

var _ io.Closer = (*line)(nil)

func newLine() *line {
	l := &line{free: sftpclient.NewToken()}
	l.closing, l.close = context.WithCancel(context.Background())
	return l
}

// get returns a session that, as far as is known, works: the existing session
// or a new one.
func (l *line) get(ctx context.Context, open func(context.Context) (*session, error)) (*session, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.closing, func() { cancel(sftpclient.ErrClosed) })()
	select {
	case <-l.free:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { l.free <- struct{}{} }()
	if s := l.current; s != nil && ctx.Err() == nil {
		if s.Alive(ctx) {
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

// Close ends the session and refuses to open another one.
func (l *line) Close() error {
	l.close()
	<-l.free
	defer func() { l.free <- struct{}{} }()
	if l.current == nil {
		return nil
	}
	return l.current.Close()
}

// use calls f with the session of the connection called id. It opens the
// session if the execution has none. While f runs, the end of ctx ends the
// session, so that f returns.
func use(ctx context.Context, job *courier.Context, c Connections, id string, f func(*session) error) error {
	return more(ctx, job, c, id, func(s *session) error {
		s.warn(job.Log())
		return f(s)
	})
}

// more is use for the second and later calls in an attempt: the warnings about
// insecure settings of the connection have already been logged.
func more(ctx context.Context, job *courier.Context, c Connections, id string, f func(*session) error) error {
	l, err := courier.Keep(ctx, job, "sftp:"+id, func(context.Context) (*line, error) { return newLine(), nil })
	if err != nil {
		return err
	}
	s, err := l.get(ctx, func(ctx context.Context) (*session, error) {
		conn, err := connfile.Lookup(ctx, c.Connection, id)
		if err != nil {
			return nil, err
		}
		return dial(ctx, job, c, id, conn)
	})
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { s.Abort(context.Cause(ctx)) })
	returned := false
	defer func() {
		if !stop() || !returned || s.Cause() != nil {
			s.Close()
		}
	}()
	err = f(s)
	returned = true
	return err
}

// warn logs, at every use, the insecure settings of the connection.
func (s *session) warn(log *slog.Logger) {
	for _, text := range s.Warnings() {
		log.Warn(text, "connection", s.id, "host", s.addr)
	}
}

// isLost reports whether err ends a connection, so that a new connection may
// succeed.
func isLost(err error) bool {
	return connerr.IsLost(err) || errors.Is(err, sftpclient.ErrSilence)
}
