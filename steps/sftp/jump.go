package sftp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connerr"
)

// maxJumps is over how many servers a connection may lead.
const maxJumps = 5

// through returns a Dial function that goes over the SSH server of the
// connection called id.
func through(job *courier.Context, all Connections, id string, above []string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		if slices.Contains(above, id) || len(above) > maxJumps {
			return nil, courier.Permanent(fmt.Errorf("jump: the connections %s lead in a circle or over more than %d servers",
				strings.Join(append(slices.Clone(above), id), ", "), maxJumps))
		}
		c, err := all.Connection(ctx, id)
		if err != nil {
			err = fmt.Errorf("jump: connection %q: %w", id, err)
			if errors.Is(err, courier.ErrNotFound) {
				err = courier.Permanent(err)
			}
			return nil, err
		}
		s, err := dialVia(ctx, job, all, id, c, false, above...)
		if err != nil {
			return nil, err
		}
		s.warn(job.Log())
		conn, err := s.tunnel(ctx, addr)
		if err != nil {
			s.Close()
			return nil, s.fault("jump to "+addr, "", err)
		}
		return conn, nil
	}
}

// tunnel opens a channel to addr. It ends, with the whole session, when ctx ends
// before it is there.
func (s *session) tunnel(ctx context.Context, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	number, err := net.LookupPort("tcp", port)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { s.abort(context.Cause(ctx)) })
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
	return &tunnel{Channel: ch, session: s, addr: addr}, nil
}

// A tunnel is a connection through another one, which ends with it.
type tunnel struct {
	ssh.Channel
	session *session
	addr    string
	late    atomic.Bool

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

// Close ends the connection and that through which it leads.
func (t *tunnel) Close() error {
	t.mu.Lock()
	t.closed = true
	if t.timer != nil {
		t.timer.Stop()
	}
	t.mu.Unlock()
	t.Channel.Close()
	return t.session.Close()
}

// LocalAddr is the address of this end of the connection in between.
func (t *tunnel) LocalAddr() net.Addr { return t.session.conn.LocalAddr() }

// RemoteAddr is the address that the tunnel leads to.
func (t *tunnel) RemoteAddr() net.Addr { return tunnelAddr(t.addr) }

type tunnelAddr string

// Network returns "tcp".
func (tunnelAddr) Network() string { return "tcp" }

// String returns "host:port".
func (a tunnelAddr) String() string { return string(a) }

// SetDeadline is SetReadDeadline.
func (t *tunnel) SetDeadline(at time.Time) error { return t.SetReadDeadline(at) }

// SetReadDeadline ends the connection at that time, since a channel can't go on
// after a read that was given up.
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
		t.session.abort(errClosed)
	})
	return nil
}

// SetWriteDeadline does nothing: what is written without an answer is noticed
// by the deadline for reading.
func (t *tunnel) SetWriteDeadline(time.Time) error { return nil }
