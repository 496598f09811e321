package memnet

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// A Link describes a connection. The zero Link has no faults.
type Link struct {
	Up     Flow  // from the dialing to the accepting side
	Down   Flow  // from the accepting to the dialing side
	Refuse error // what dialing fails with; nil connects
}

// A Conn is one side of a connection. It implements [net.Conn], and CloseWrite
// as [net.TCPConn] has it. Its methods may be called by any number of
// goroutines.
//
// After one side's Close the other reads what is still buffered, then [io.EOF];
// its writes fail with [syscall.EPIPE]. Errors other than [io.EOF] are
// *[net.OpError] values.
type Conn struct {
	in, out       *stream
	local, remote net.Addr
	closing       sync.Once
	onClose       func() // may be nil
}

var _ net.Conn = (*Conn)(nil)

// Pipe returns the two sides of a connection that needs no listener. It ignores
// link.Refuse.
func Pipe(link Link) (dialer, accepter *Conn) {
	return connect(link,
		&net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 1024},
		&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 22})
}

func connect(link Link, from, to net.Addr) (near, far *Conn) {
	up, down := newStream(link.Up), newStream(link.Down)
	near = &Conn{in: down, out: up, local: from, remote: to}
	far = &Conn{in: up, out: down, local: to, remote: from}
	if up.exhausted() || down.exhausted() {
		near.Cut()
	}
	return near, far
}

// Read waits until there are bytes to read, the other side has closed, the
// connection is cut, or the read deadline has passed.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	if err != nil && err != io.EOF {
		err = c.opError("read", err)
	}
	return n, err
}

// Write returns once all of p is buffered. It waits while the buffer is full,
// until the other side reads, the connection ends, or the write deadline has
// passed.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	if c.out.exhausted() {
		c.Cut()
	}
	if err != nil {
		err = c.opError("write", err)
	}
	return n, err
}

// Close ends both directions and wakes whoever waits on this side or the other.
// What was written before still reaches the other side. Closing twice is
// harmless.
func (c *Conn) Close() error {
	c.closing.Do(func() {
		c.out.closeWriter(net.ErrClosed)
		c.in.closeReader(c.out.stalled())
		if c.onClose != nil {
			c.onClose()
		}
	})
	return nil
}

// CloseWrite ends the direction away from this side: the other side reads what
// is buffered, then [io.EOF]. Reading goes on.
func (c *Conn) CloseWrite() error {
	c.out.closeWriter(syscall.EPIPE)
	return nil
}

// Cut breaks the connection, as if a router had reset it: both sides read what
// is already buffered, then fail with [syscall.ECONNRESET]. Writes fail at once.
func (c *Conn) Cut() {
	c.out.cut()
	c.in.cut()
}

// Stall makes the connection a black hole: whatever is written from now on, by
// either side, vanishes, and neither side learns that the other has closed.
// Writes succeed without end, so that no one waits for a full buffer while
// holding a lock; see [Flow] for why that matters.
func (c *Conn) Stall() {
	c.out.stall()
	c.in.stall()
}

// Sent returns how many bytes this side has written, vanished ones included.
func (c *Conn) Sent() int64 { return c.out.written() }

// Received returns how many bytes the other side has written, vanished ones
// included.
func (c *Conn) Received() int64 { return c.in.written() }

// LocalAddr returns the address of this side, a *[net.TCPAddr].
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the address of the other side, a *[net.TCPAddr].
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets the read and the write deadline. A zero t means none.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline makes reads, those in progress included, fail with
// [os.ErrDeadlineExceeded] once t has passed. A zero t means never.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.in.setDeadline(&c.in.readBy, t)
}

// SetWriteDeadline makes writes, those in progress included, fail with
// [os.ErrDeadlineExceeded] once t has passed. A zero t means never.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.out.setDeadline(&c.out.writeBy, t)
}

func (c *Conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: c.local.Network(), Source: c.local, Addr: c.remote, Err: err}
}
