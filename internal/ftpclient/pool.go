package ftpclient

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/courierhq/courier/internal/failure"
)

// A Pool holds logins at one server. Several goroutines may use it; each login
// is used by one of them at a time.
type Pool struct {
	slots   chan struct{} // one token for each session that there may be
	closing context.Context
	close   context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex
	idle []*Conn // the one used last at the end
	open int     // slots taken
}

var _ io.Closer = (*Pool)(nil)

// NewPool returns a pool of at most size connections. Idle connections send a
// command every keepAlive; 0 means never.
func NewPool(size int, keepAlive time.Duration) *Pool {
	p := &Pool{slots: make(chan struct{}, size)}
	for range size {
		p.slots <- struct{}{}
	}
	p.closing, p.close = context.WithCancel(context.Background())
	if keepAlive > 0 {
		p.running.Go(func() { p.keepAlive(keepAlive) })
	}
	return p
}

// Get returns a session that, as far as is known, works: an idle session or a
// new one. If the server accepts no more sessions, it waits until one is idle.
func (p *Pool) Get(ctx context.Context, open func(context.Context) (*Conn, error)) (*Conn, error) {
	for {
		select {
		case <-p.slots:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-p.closing.Done():
			return nil, ErrClosed
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
		if !others || failure.IsPermanent(err) || ctx.Err() != nil {
			p.slots <- struct{}{}
			return nil, err
		}
		// The slot is given up: the server has enough of us. Another one will do.
	}
}

// take finds an idle session that still works, or opens one.
func (p *Pool) take(ctx context.Context, open func(context.Context) (*Conn, error)) (*Conn, error) {
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
		s.End(ErrClosed)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return open(ctx)
}

// Put returns a session to the pool.
func (p *Pool) Put(s *Conn) {
	p.mu.Lock()
	if s.Cause() == nil {
		p.idle = append(p.idle, s)
	}
	p.open--
	closed := p.closing.Err() != nil
	p.mu.Unlock()
	if closed {
		s.End(ErrClosed)
	}
	p.slots <- struct{}{}
}

// keepAlive lets idle sessions send a command every interval, since servers and
// firewalls close silent connections.
func (p *Pool) keepAlive(interval time.Duration) {
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
		idle = slices.DeleteFunc(idle, func(s *Conn) bool { return s.Noop(p.closing) != nil })
		p.mu.Lock()
		p.idle = append(idle, p.idle...)
		p.mu.Unlock()
	}
}

// Close ends the idle sessions, and the sessions in use when they are returned.
// It refuses to open others.
func (p *Pool) Close() error {
	p.close()
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, s := range idle {
		s.End(ErrClosed)
	}
	p.running.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.idle { // that were being kept alive
		s.End(ErrClosed)
	}
	return nil
}
