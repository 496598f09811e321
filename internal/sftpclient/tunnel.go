package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier/internal/connerr"
	"golang.org/x/crypto/ssh"
)

// Tunnel opens a channel to addr, "host:port". Closing the channel closes s. If ctx ends before
// the channel is open, s ends too.
func (s *Conn) Tunnel(ctx context.Context, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	number, err := net.LookupPort("tcp", port)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { s.Abort(context.Cause(ctx)) })
	defer stop()
	ch, requests, err := openChannel(s.ssh, s.ended, "direct-tcpip", ssh.Marshal(struct {
		Host   string
		Port   uint32
		Origin string
		From   uint32
	}{host, uint32(number), "127.0.0.1", 0}))
	if refused, ok := errors.AsType[*ssh.OpenChannelError](err); ok {
		return nil, fmt.Errorf("the server in between doesn't connect; check host and port, and that it allows forwarding: %w", &connerr.Hostile{Err: refused})
	} else if err != nil {
		return nil, s.explainLost(err)
	}
	s.running.Go(func() { ssh.DiscardRequests(requests) })
	return &tunnel{Channel: ch, conn: s, addr: addr}, nil
}

// A tunnel is a connection through another connection. Both end together.
type tunnel struct {
	ssh.Channel
	conn *Conn
	addr string
	late atomic.Bool

	mu     sync.Mutex
	timer  *time.Timer
	closed bool
}

var _ net.Conn = (*tunnel)(nil)

// Read reads until the deadline.
func (t *tunnel) Read(p []byte) (int, error) {
	n, err := t.Channel.Read(p)
	if err != nil && t.late.Load() {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// Close ends the tunnel and the connection that carries it.
func (t *tunnel) Close() error {
	t.mu.Lock()
	t.closed = true
	if t.timer != nil {
		t.timer.Stop()
	}
	t.mu.Unlock()
	t.Channel.Close()
	return t.conn.Close()
}

// LocalAddr returns the local address of the connection that carries the tunnel.
func (t *tunnel) LocalAddr() net.Addr { return t.conn.net.LocalAddr() }

// RemoteAddr returns the address at the other end of the tunnel.
func (t *tunnel) RemoteAddr() net.Addr { return tunnelAddr(t.addr) }

type tunnelAddr string

// Network returns "tcp".
func (tunnelAddr) Network() string { return "tcp" }

// String returns "host:port".
func (a tunnelAddr) String() string { return string(a) }

// SetDeadline is SetReadDeadline.
func (t *tunnel) SetDeadline(at time.Time) error { return t.SetReadDeadline(at) }

// SetReadDeadline ends the connection at that time, since a channel cannot be used after an
// abandoned read.
func (t *tunnel) SetReadDeadline(at time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
	if t.closed || at.IsZero() {
		return nil
	}
	t.timer = time.AfterFunc(time.Until(at), func() {
		t.late.Store(true)
		t.conn.Abort(ErrClosed)
	})
	return nil
}

// SetWriteDeadline does nothing: if a write gets no answer, the read deadline ends the
// connection.
func (t *tunnel) SetWriteDeadline(time.Time) error { return nil }
