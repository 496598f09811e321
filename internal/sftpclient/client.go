package sftpclient

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/pkg/sftp"

	"github.com/courierhq/courier/internal/connerr"
)

// A Client speaks SFTP over one channel of an SSH connection. It uses the client of package sftp
// behind a [guard]. Any number of requests may be in flight. It is safe for concurrent use.
//
// It ends together with the other channels of the connection: after the first error of one of
// them, or when the server violates the protocol, every request fails with that error.
type Client struct {
	*connState
	sftp  *sftp.Client
	guard *guard

	ReadChunk, WriteChunk int // most file data in a packet

	drained chan struct{} // closed when no more answers come

	mu   sync.Mutex
	rtt  time.Duration // the shortest time that a request took; 0 before the first
	sync time.Duration // how long the server took last to make a small file durable
}

// A connState says whether and why a connection has ended.
type connState struct {
	end  func()        // ends the connection; called once
	dead chan struct{} // closed when err is set
	mu   sync.Mutex
	err  error
}

func newConnState(end func()) *connState { return &connState{end: end, dead: make(chan struct{})} }

// fail ends the connection with err, unless it has ended before.
func (f *connState) fail(err error) {
	f.mu.Lock()
	first := f.err == nil
	if first {
		f.err = err
		close(f.dead)
	}
	f.mu.Unlock()
	if first {
		f.end()
	}
}

// Cause returns the error with which the connection has ended, or nil if it has not ended.
func (f *connState) Cause() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// A protocolError says that the server sent something invalid.
type protocolError struct{ text string }

func (e *protocolError) Error() string { return "the server breaks the SFTP protocol: " + e.text }

// ErrSilence ends a client whose server no longer answers requests.
var ErrSilence = errors.New("the server has stopped answering requests")

// NewClient starts SFTP over ch, such as a pipe to a program that serves it. The client closes ch
// when it ends. Silence is the longest time to wait for an answer; 0 means no limit.
func NewClient(ch io.ReadWriteCloser, silence time.Duration) (*Client, error) {
	state := newConnState(func() { ch.Close() })
	c, err := newClient(ch, state, silence, func(err error) error { return &connerr.LostError{Err: err} }, nil)
	if err != nil {
		ch.Close()
		return nil, err
	}
	go c.receive()
	return c, nil
}

// newClient exchanges versions with the server. It asks for the server's limits, unless like,
// another client of the same server, has them. The caller then runs receive until it returns.
func newClient(ch io.ReadWriter, f *connState, silence time.Duration, lost func(error) error, like *Client) (*Client, error) {
	c := &Client{connState: f, ReadChunk: DefaultChunk, WriteChunk: DefaultChunk, drained: make(chan struct{})}
	c.guard = newGuard(ch, silence, func(err error) error {
		if _, ok := errors.AsType[*protocolError](err); ok {
			return err
		}
		return lost(err)
	}, f.fail)
	var err error
	if c.sftp, err = sftp.NewClientPipe(c.guard, c.guard); err != nil {
		if c.guard.err != nil {
			return nil, c.guard.err
		}
		return nil, &protocolError{err.Error()}
	}
	if like != nil {
		c.ReadChunk, c.WriteChunk = like.ReadChunk, like.WriteChunk
	} else if version, _ := c.sftp.HasExtension(extLimits); version == "1" {
		if err := c.limits(); err != nil {
			f.fail(err)
			return nil, c.Cause()
		}
	}
	// The greater of both: what is asked for at once is never more than its own.
	return c, sftp.MaxPacketUnchecked(max(c.ReadChunk, c.WriteChunk))(c.sftp)
}

// A laterError reader delays an error until all data has been read. A channel of a lost
// connection returns the error together with the data that arrived before.
type laterError struct{ r io.Reader }

// Read implements io.Reader.
func (p laterError) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if n > 0 {
		err = nil
	}
	return n, err
}

// NewToken returns a channel that is used as a lock: whoever has taken its token must put it
// back. Unlike with a mutex, a goroutine can wait for it and for something else.
func NewToken() chan struct{} {
	token := make(chan struct{}, 1)
	token <- struct{}{}
	return token
}

// limits asks the server for its packet limits.
func (c *Client) limits() error {
	began := time.Now()
	asked := c.guard.ask(extLimits, "")
	select {
	case <-asked.done:
		c.rtt = time.Since(began)
		if asked.typ != fxpExtendedReply {
			return nil // it has advertised what it doesn't do
		}
		s := scanner{rest: asked.body}
		s.uint64() // of a whole packet
		read, write := s.uint64(), s.uint64()
		if s.bad {
			return &protocolError{"its limits are damaged"}
		}
		c.ReadChunk, c.WriteChunk = chunkWithin(read), chunkWithin(write)
		return nil
	case <-c.dead:
		return c.Cause()
	}
}

// chunkWithin returns the number of data bytes per packet for a limit of the server; 0 means that
// the server stated none.
func chunkWithin(limit uint64) int {
	if limit == 0 {
		return DefaultChunk
	}
	return int(max(minChunk, min(limit, maxChunk)))
}

// receive waits until no more answers arrive.
func (c *Client) receive() {
	c.sftp.Wait()
	c.guard.ended()
	close(c.drained)
}

// start calls f, one use of the library's client, which begins with a request of the type of cl.
// It returns when the request has been written, so that requests are in the order of the calls to
// start.
func (c *Client) start(ctx context.Context, cl *call, f func() (int, error)) error {
	g := c.guard
	select {
	case <-g.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.dead:
		return c.Cause()
	}
	cl.sent, cl.done = make(chan struct{}), make(chan struct{})
	g.mu.Lock()
	g.next = cl
	g.mu.Unlock()
	go func() {
		cl.n, cl.err = f()
		g.mu.Lock()
		unsent := g.next == cl
		if unsent {
			g.next = nil
		}
		g.mu.Unlock()
		if unsent {
			g.turn <- struct{}{}
		}
		close(cl.done)
	}()
	select {
	case <-cl.sent:
	case <-cl.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.dead:
		return c.Cause()
	}
	return nil
}

// await waits until done reports an answer.
func (c *Client) await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.dead:
	}
	select { // it may have been the last thing that came
	case <-done:
		return nil
	case <-c.drained:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-done:
		return nil
	default:
		return c.Cause()
	}
}

// wait waits until the call has ended, and returns its error. A refused request returns a
// [*StatusError].
func (c *Client) wait(ctx context.Context, cl *call) error {
	if err := c.await(ctx, cl.done); err != nil {
		return err
	}
	return c.result(cl)
}

// result returns the error of an ended call.
func (c *Client) result(cl *call) error {
	if cl.err == nil {
		return nil
	}
	if cl.status != nil {
		return cl.status
	}
	if err := c.Cause(); err != nil {
		return err
	}
	return c.broken(cl.err.Error())
}

// broken ends the client because of a protocol violation by the server.
func (c *Client) broken(text string) error {
	err := &protocolError{text}
	c.fail(err)
	return err
}

// do makes a request and waits for its answer.
func (c *Client) do(ctx context.Context, cl *call, f func() error) error {
	begin := time.Now()
	err := c.start(ctx, cl, func() (int, error) { return 0, f() })
	if err == nil {
		err = c.wait(ctx, cl)
	}
	if took := time.Since(begin); err == nil || IsStatus(err) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.rtt == 0 || took < c.rtt {
			c.rtt = took
		}
	}
	return err
}

// distance returns the shortest time in which the server has answered.
func (c *Client) distance() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rtt
}

// noteSync records how long the server took to make a small file durable.
func (c *Client) noteSync(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sync = took
}

func (c *Client) syncTime() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sync
}
