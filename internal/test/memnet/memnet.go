// Package memnet is a network inside the process: connections and a listener
// that behave like TCP but use no sockets, so that real protocols can be
// tested in virtual time.
//
// Everything that waits here waits in a way that a testing/synctest bubble
// recognizes as durably blocked. Unlike net.Pipe, a connection buffers what is
// written to it: protocols in which both sides speak first, such as SSH, do not
// deadlock on it. The buffer is bounded, so memory stays constant.
//
// A [Link] says what goes wrong on a connection: where it is cut, from which
// byte on its data vanishes, how long bytes travel and how many of them per
// second.
package memnet

import (
	"context"
	"net"
	"sync"
	"syscall"
	"time"
)

// backlog is how many connections may wait for Accept; further ones are refused.
const backlog = 128

// A Listener accepts the connections that are made with its own DialContext.
// Its methods may be called by any number of goroutines.
type Listener struct {
	addr *net.TCPAddr

	mu      sync.Mutex
	arrived *sync.Cond // on mu: waiting or closed has changed
	waiting []*Conn
	closed  bool
	dialed  int
	link    func(n int) Link
	open    map[*Conn]struct{} // accepting sides that are not closed
}

var _ net.Listener = (*Listener)(nil)

// Listen returns a listener without faults. It has the address 192.0.2.1:22,
// which is reserved for documentation and so never belongs to a real host.
func Listen() *Listener {
	l := &Listener{
		addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 22},
		open: make(map[*Conn]struct{}),
	}
	l.arrived = sync.NewCond(&l.mu)
	return l
}

// SetLink makes link decide what happens to the connections dialed from now on.
// It is given the number of the connection, counting from 1, and may be called
// by several goroutines. A nil link means no faults.
func (l *Listener) SetLink(link func(n int) Link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.link = link
}

// DialContext connects to l, whatever network and addr say; its signature is
// that of [net.Dialer.DialContext]. The result is a *[Conn]. Connecting takes
// one round trip of the link's latency and does not wait for Accept. The error
// is a *[net.OpError] when l is closed, when the link refuses, or when ctx ends
// first.
func (l *Listener) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	l.dialed++
	n := l.dialed
	choose := l.link
	l.mu.Unlock()

	var link Link
	if choose != nil {
		link = choose(n)
	}
	if err := sleep(ctx, link.Up.Latency+link.Down.Latency); err != nil {
		return nil, l.dialError(err)
	}
	if link.Refuse != nil {
		return nil, l.dialError(link.Refuse)
	}

	from := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 1024 + (n-1)%(1<<16-1024)}
	near, far := connect(link, from, l.addr)
	if !l.offer(far) {
		near.Close()
		far.Close()
		return nil, l.dialError(syscall.ECONNREFUSED)
	}
	return near, nil
}

// sleep waits for d or for the end of ctx, whose error it returns.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Listener) dialError(err error) error {
	return &net.OpError{Op: "dial", Net: l.addr.Network(), Addr: l.addr, Err: err}
}

// offer queues c for Accept and reports whether there was room for it.
func (l *Listener) offer(c *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.waiting) >= backlog {
		return false
	}
	c.onClose = func() { l.forget(c) }
	l.open[c] = struct{}{}
	l.waiting = append(l.waiting, c)
	l.arrived.Signal()
	return true
}

func (l *Listener) forget(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
}

// Accept waits for the next connection, which is a *[Conn]. After Close its
// error is a *[net.OpError] that wraps [net.ErrClosed].
func (l *Listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting) == 0 && !l.closed {
		l.arrived.Wait()
	}
	if l.closed {
		return nil, &net.OpError{Op: "accept", Net: l.addr.Network(), Addr: l.addr, Err: net.ErrClosed}
	}
	c := l.waiting[0]
	l.waiting = l.waiting[1:]
	return c, nil
}

// Close makes Accept and DialContext fail and cuts the connections that nobody
// has accepted. Accepted connections live on. Closing twice is harmless.
func (l *Listener) Close() error {
	l.mu.Lock()
	l.closed = true
	waiting := l.waiting
	l.waiting = nil
	l.arrived.Broadcast()
	l.mu.Unlock()

	for _, c := range waiting {
		c.Cut()
		c.Close()
	}
	return nil
}

// Addr returns the address of l, a *[net.TCPAddr].
func (l *Listener) Addr() net.Addr { return l.addr }

// Cut cuts every connection of l, as [Conn.Cut] does.
func (l *Listener) Cut() {
	for _, c := range l.conns() {
		c.Cut()
	}
}

// Stall makes every connection of l a black hole, as [Conn.Stall] does.
func (l *Listener) Stall() {
	for _, c := range l.conns() {
		c.Stall()
	}
}

// Dialed returns how many connections were dialed, refused ones included.
func (l *Listener) Dialed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dialed
}

func (l *Listener) conns() []*Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	conns := make([]*Conn, 0, len(l.open))
	for c := range l.open {
		conns = append(conns, c)
	}
	return conns
}
