package connerr

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
)

// The error of a connection that has ended begins with what happened, in words for people.
func TestLostError(t *testing.T) {
	a, b := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 40000}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 22}
	broken := func(op string, err error) error {
		return &net.OpError{Op: op, Net: "tcp", Source: a, Addr: b, Err: os.NewSyscallError(op, err)}
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("read: %w", os.ErrDeadlineExceeded), "the connection is lost: nothing has come from the server for too long"},
		{io.ErrUnexpectedEOF, "the connection is lost: the server has closed it"},
		{net.ErrClosed, "the connection is closed"},
		{broken("read", syscall.ECONNRESET), "the connection is lost: the server, or a firewall before it, has broken it off: read tcp 192.0.2.1:40000->192.0.2.2:22: read: " + syscall.ECONNRESET.Error()},
		{broken("write", syscall.EPIPE), "the connection is lost: the server, or a firewall before it, has broken it off: write tcp 192.0.2.1:40000->192.0.2.2:22: write: " + syscall.EPIPE.Error()},
		{errors.New("bad\x1bpacket"), `the connection is lost: "bad\x1bpacket"`},
	} {
		if got := (&LostError{Err: c.err}).Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
