// Package pgproxy forwards connections to a PostgreSQL server message by
// message, and lets a test cut, stall or block them at any one of these. What
// is forwarded of a message is the whole of it or nothing.
//
// The proxy speaks no TLS: it declines a client's request for it, as a server
// without a certificate does.
package pgproxy

import (
	"context"
	"net"
	"net/url"
	"sync"
	"testing"
)

// A Message is one message of the wire protocol.
type Message struct {
	Conn       int    // counts the connections, from 1
	N          int    // counts the messages of the connection in this direction, from 1
	FromServer bool   // or else from the client
	Type       byte   // 0 for messages that have none: those before and including the startup message, and the answer to a request for encryption
	Body       []byte // without type and length; must not be changed
}

// An Action says what becomes of a message and of its connection.
type Action int

const (
	// Pass delivers the message.
	Pass Action = iota

	// CutBefore closes the connection on both sides; the message is not
	// delivered.
	CutBefore

	// CutAfter delivers the message and closes the connection on both sides
	// before anything else is delivered in either direction.
	CutAfter

	// Stall holds the message, and what follows it in its direction, until
	// Release is called or the connection is cut.
	Stall
)

// String returns the name of the action.
func (a Action) String() string {
	switch a {
	case Pass:
		return "Pass"
	case CutBefore:
		return "CutBefore"
	case CutAfter:
		return "CutAfter"
	case Stall:
		return "Stall"
	}
	return "unknown action"
}

// A Proxy listens on a loopback port and connects every client to its server.
// Its methods can be called from many goroutines.
type Proxy struct {
	target   string
	listener net.Listener
	ctx      context.Context // ends with Close
	end      context.CancelFunc
	running  sync.WaitGroup

	judging sync.Mutex // held while f runs
	f       func(Message) Action

	mu    sync.Mutex
	conns map[*conn]bool
	count int
	gate  chan struct{} // while blocked; closed by Unblock
	stall chan struct{} // closed by Release
}

// New starts a proxy in front of the server at target, a "host:port". It ends
// with the test.
func New(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := Listen(target)
	if err != nil {
		t.Fatalf("proxy: %v", err)
	}
	t.Cleanup(p.Close)
	return p
}

// Listen starts a proxy in front of the server at target, a "host:port". The
// caller must call Close.
func Listen(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, listener: l, conns: make(map[*conn]bool), stall: make(chan struct{})}
	p.ctx, p.end = context.WithCancel(context.Background())
	p.running.Go(p.accept)
	return p, nil
}

// Addr returns the "host:port" at which the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL returns the given URL of a database with the address of the proxy in
// place of the server's.
func (p *Proxy) URL(database string) (string, error) {
	u, err := url.Parse(database)
	if err != nil {
		return "", err
	}
	u.Host = p.Addr()
	return u.String(), nil
}

// OnMessage sets the function that decides about every message from now on; nil
// passes all. It is called for one message at a time, of all connections. When
// OnMessage returns, the function that was set before runs no more, so f must
// not call OnMessage itself. It can call the other methods except Close.
func (p *Proxy) OnMessage(f func(Message) Action) {
	p.judging.Lock()
	defer p.judging.Unlock()
	p.f = f
}

// Release lets all messages go that are stalled now.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.stall)
	p.stall = make(chan struct{})
}

// Block stops forwarding in both directions without closing anything, as if a
// cable were pulled. Messages that are about to be delivered still arrive. New
// connections are accepted, and their messages held.
func (p *Proxy) Block() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gate == nil {
		p.gate = make(chan struct{})
	}
}

// Unblock ends what Block began: all that was held is forwarded.
func (p *Proxy) Unblock() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gate != nil {
		close(p.gate)
		p.gate = nil
	}
}

// Cut closes all connections that there are on both sides. New ones can be
// made.
func (p *Proxy) Cut() {
	for _, c := range p.list() {
		c.cut()
	}
}

// Conns returns the number of connections that are open now.
func (p *Proxy) Conns() int { return len(p.list()) }

func (p *Proxy) list() []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]*conn, 0, len(p.conns))
	for c := range p.conns {
		list = append(list, c)
	}
	return list
}

// Close stops listening, closes all connections and waits until nothing of the
// proxy runs any more.
func (p *Proxy) Close() {
	p.end()
	p.listener.Close()
	for _, c := range p.list() {
		c.close()
	}
	p.running.Wait()
}
