package pgproxy_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/test/pgproxy"
)

const patience = 20 * time.Second

// A server answers an opening message with "Z" and sends back what follows. It
// reports every message that arrives, and "end" when a connection ends.
type server struct {
	net.Listener
	seen chan string
}

func newServer(t *testing.T) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{l, make(chan string, 1000)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
		close(s.seen)
	})
	return s
}

func (s *server) serve(conn net.Conn) {
	defer conn.Close()
	body, err := readBody(conn)
	if err != nil {
		s.seen <- "end"
		return
	}
	s.seen <- fmt.Sprintf("opening %q", body)
	conn.Write(message('Z', "I"))
	for {
		kind, body, err := readMessage(conn)
		if err != nil {
			s.seen <- "end"
			if err != io.EOF {
				s.seen <- err.Error()
			}
			return
		}
		if len(body) < 100 {
			s.seen <- fmt.Sprintf("%c %q", kind, body)
		} else {
			s.seen <- fmt.Sprintf("%c %d bytes", kind, len(body))
		}
		conn.Write(message(kind, body))
	}
}

func (s *server) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		select {
		case got := <-s.seen:
			if got != w {
				t.Fatalf("the server saw %s, want %s", got, w)
			}
		case <-time.After(patience):
			t.Fatalf("the server saw nothing, want %s", w)
		}
	}
}

// quiet checks that the server sees nothing for a moment.
func (s *server) quiet(t *testing.T) {
	t.Helper()
	select {
	case got := <-s.seen:
		t.Fatalf("the server saw %s", got)
	case <-time.After(20 * time.Millisecond):
	}
}

func message(kind byte, body string) []byte {
	return append(append([]byte{kind}, binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))...), body...)
}

func opening(body string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4)), body...)
}

const (
	startup = "\x00\x03\x00\x00user\x00u\x00\x00"
	ssl     = "\x04\xd2\x16\x2f"
	gssenc  = "\x04\xd2\x16\x30"
	cancel  = "\x04\xd2\x16\x2e\x00\x00\x00\x01secret"
)

func readBody(r io.Reader) (string, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return "", err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:])-4)
	_, err := io.ReadFull(r, body)
	return string(body), err
}

func readMessage(r io.Reader) (byte, string, error) {
	var kind [1]byte
	if _, err := io.ReadFull(r, kind[:]); err != nil {
		return 0, "", err
	}
	body, err := readBody(r)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return kind[0], body, err
}

// A client is a connection through the proxy.
type client struct {
	*net.TCPConn
	t *testing.T
}

func dial(t *testing.T, p *pgproxy.Proxy) client {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return client{conn.(*net.TCPConn), t}
}

func (c client) send(b []byte) {
	c.t.Helper()
	if _, err := c.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

func (c client) expect(kind byte, body string) {
	c.t.Helper()
	k, b, err := readMessage(c)
	if err != nil || k != kind || b != body {
		c.t.Fatalf("the client got %q %.20q, %v, want %q %.20q", k, b, err, kind, body)
	}
}

func (c client) ends() {
	c.t.Helper()
	if k, b, err := readMessage(c); err != io.EOF {
		c.t.Fatalf("the client got %q %.20q, %v, want the end", k, b, err)
	}
}

// quiet checks that the client gets nothing for a moment.
func (c client) quiet() {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	n, err := c.Read(make([]byte, 1))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("the client got %d bytes, %v", n, err)
	}
	c.SetReadDeadline(time.Now().Add(patience))
}

// open returns a client that has opened its connection.
func open(t *testing.T, p *pgproxy.Proxy, s *server) client {
	t.Helper()
	c := dial(t, p)
	c.send(opening(startup))
	s.expect(t, fmt.Sprintf("opening %q", startup))
	c.expect('Z', "I")
	return c
}
