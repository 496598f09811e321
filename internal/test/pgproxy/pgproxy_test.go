package pgproxy_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/test/pgproxy"
)

func TestMessages(t *testing.T) {
	s := newServer(t)
	p := pgproxy.New(t, s.Addr().String())
	var got []string
	p.OnMessage(func(m pgproxy.Message) pgproxy.Action {
		from := "client"
		if m.FromServer {
			from = "server"
		}
		got = append(got, fmt.Sprintf("%d %s %d %q %q", m.Conn, from, m.N, m.Type, m.Body))
		return pgproxy.Pass
	})
	c := dial(t, p)
	for _, ask := range []string{gssenc, ssl} {
		c.send(opening(ask))
		answer := make([]byte, 1)
		if _, err := io.ReadFull(c, answer); err != nil || answer[0] != 'N' {
			t.Fatalf("answer %q, %v", answer, err)
		}
	}
	c.send(opening(startup))
	s.expect(t, fmt.Sprintf("opening %q", startup))
	c.expect('Z', "I")
	c.send(append(message('Q', "one"), message('S', "")...))
	s.expect(t, `Q "one"`, `S ""`)
	c.expect('Q', "one")
	c.expect('S', "")
	c.CloseWrite()
	s.expect(t, "end")
	c.ends()

	c = dial(t, p)
	c.send(opening(cancel))
	s.expect(t, fmt.Sprintf("opening %q", cancel))
	p.OnMessage(nil)
	want := []string{
		`1 client 1 '\x00' "\x04\xd2\x160"`,
		`1 server 1 '\x00' "N"`,
		`1 client 2 '\x00' "\x04\xd2\x16/"`,
		`1 server 2 '\x00' "N"`,
		`1 client 3 '\x00' "\x00\x03\x00\x00user\x00u\x00\x00"`,
		`1 server 3 'Z' "I"`,
		`1 client 4 'Q' "one"`,
		`1 client 5 'S' ""`,
		`1 server 4 'Q' "one"`,
		`1 server 5 'S' ""`,
		`2 client 1 '\x00' "\x04\xd2\x16.\x00\x00\x00\x01secret"`,
	}
	slices.Sort(got) // the order of the two directions is open
	slices.Sort(want)
	if got = slices.DeleteFunc(got, func(m string) bool { return strings.HasPrefix(m, "2 server") }); !slices.Equal(got, want) {
		t.Errorf("messages:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestWholeOrNothing(t *testing.T) {
	s := newServer(t)
	p := pgproxy.New(t, s.Addr().String())
	c := open(t, p, s)
	large := strings.Repeat("x", 20<<20)
	var sending sync.WaitGroup
	sending.Go(func() { c.send(message('d', large)) })
	c.expect('d', large)
	sending.Wait()
	s.expect(t, fmt.Sprintf("d %d bytes", len(large)))
	text := message('Q', "in pieces")
	for _, b := range text[:len(text)-1] {
		c.send([]byte{b})
	}
	s.quiet(t)
	c.send(text[len(text)-1:])
	s.expect(t, `Q "in pieces"`)
	c.expect('Q', "in pieces")
	c.send(text[:7])
	c.CloseWrite()
	s.expect(t, "end")
	c.ends()
	s.quiet(t) // which would report a part of a message now
}

func TestMalformed(t *testing.T) {
	s := newServer(t)
	p := pgproxy.New(t, s.Addr().String())
	for _, b := range []string{"\x00\x00\x00\x07abc", "\x7f\x00\x00\x00", "GET / HTTP/1.1\r\n\r\n"} {
		c := dial(t, p)
		c.send([]byte(b))
		c.ends()
		s.expect(t, "end")
	}
	c := open(t, p, s)
	c.send([]byte("Q\x00\x00\x00\x03"))
	c.ends()
	s.expect(t, "end")
}

func TestCutAtMessage(t *testing.T) {
	for _, tt := range []struct {
		name   string
		action pgproxy.Action
		server bool
		sees   []string // the server, of the client's messages one and two
		gets   []string // the client
	}{
		{"before the server gets it", pgproxy.CutBefore, false, nil, nil},
		{"after the server got it", pgproxy.CutAfter, false, []string{`Q "one"`}, nil},
		{"before the client gets it", pgproxy.CutBefore, true, []string{`Q "one"`}, nil},
		{"after the client got it", pgproxy.CutAfter, true, []string{`Q "one"`}, []string{"one"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t)
			p := pgproxy.New(t, s.Addr().String())
			p.OnMessage(func(m pgproxy.Message) pgproxy.Action {
				if m.Type == 'Q' && m.FromServer == tt.server {
					return tt.action
				}
				return pgproxy.Pass
			})
			c := open(t, p, s)
			other := open(t, p, s)
			c.send(message('Q', "one"))
			s.expect(t, tt.sees...)
			for _, want := range tt.gets {
				c.expect('Q', want)
			}
			c.ends()
			c.Write(message('Q', "two")) // which is lost
			s.expect(t, "end")
			other.send(message('X', ""))
			other.expect('X', "")
			s.expect(t, `X ""`)
		})
	}
}

// TestCutAfterLarge cuts behind a message that its client does not read at once,
// while more comes from there. The larger one fills all buffers.
func TestCutAfterLarge(t *testing.T) {
	for _, size := range []int{1 << 20, 20 << 20} {
		s := newServer(t)
		p := pgproxy.New(t, s.Addr().String())
		judged := make(chan bool, 1)
		p.OnMessage(func(m pgproxy.Message) pgproxy.Action {
			if m.FromServer && m.Type == 'd' {
				judged <- true
				return pgproxy.CutAfter
			}
			return pgproxy.Pass
		})
		c := open(t, p, s)
		large := strings.Repeat("x", size)
		c.send(message('d', large))
		s.expect(t, fmt.Sprintf("d %d bytes", size))
		<-judged
		for range 100 {
			c.send(message('Q', large[:10_000]))
		}
		c.expect('d', large)
		c.ends()
		s.expect(t, "end") // and none of the others
	}
}

// TestCutDuringDelivery cuts from the other direction while a large message is
// being delivered.
func TestCutDuringDelivery(t *testing.T) {
	s := newServer(t)
	p := pgproxy.New(t, s.Addr().String())
	judged := make(chan bool, 1)
	p.OnMessage(func(m pgproxy.Message) pgproxy.Action {
		switch {
		case m.FromServer && m.Type == 'd':
			judged <- true
		case m.Type == 'X':
			judged <- true
			return pgproxy.CutBefore
		}
		return pgproxy.Pass
	})
	c := open(t, p, s)
	large := strings.Repeat("x", 20<<20)
	c.send(message('d', large))
	<-judged
	c.send(message('X', ""))
	<-judged
	kind, body, err := readMessage(c)
	if err != io.EOF && (err != nil || kind != 'd' || body != large) {
		t.Errorf("the client got %q with %d bytes, %v, which is neither all nor nothing", kind, len(body), err)
	}
}

// TestCutSilent cuts a client that takes no notice.
func TestCutSilent(t *testing.T) {
	s := newServer(t)
	p := pgproxy.New(t, s.Addr().String())
	open(t, p, s)
	p.Cut()
	s.expect(t, "end")
	for range 1000 {
		if p.Conns() == 0 {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Error("the connection is still there")
}

func TestStall(t *testing.T) {
	s := newServer(t)
	p := pgproxy.New(t, s.Addr().String())
	p.OnMessage(func(m pgproxy.Message) pgproxy.Action {
		if string(m.Body) == "stalled" && m.FromServer {
			return pgproxy.Stall
		}
		return pgproxy.Pass
	})
	c := open(t, p, s)
	other := open(t, p, s)
	c.send(append(message('Q', "stalled"), message('Q', "after")...))
	s.expect(t, `Q "stalled"`, `Q "after"`)
	c.quiet()
	other.send(message('Q', "other"))
	other.expect('Q', "other")
	s.expect(t, `Q "other"`)
	p.Release()
	c.expect('Q', "stalled")
	c.expect('Q', "after")

	c.send(message('Q', "stalled"))
	s.expect(t, `Q "stalled"`)
	p.Cut()
	c.ends()
	other.ends()
	s.expect(t, "end", "end")
}

// TestReleaseInTime releases a message from another goroutine as soon as its
// function knows of it.
func TestReleaseInTime(t *testing.T) {
	s := newServer(t)
	p := pgproxy.New(t, s.Addr().String())
	known := make(chan struct{})
	p.OnMessage(func(m pgproxy.Message) pgproxy.Action {
		if m.Type != 'Q' || m.FromServer {
			return pgproxy.Pass
		}
		known <- struct{}{}
		known <- struct{}{}
		return pgproxy.Stall
	})
	c := open(t, p, s)
	c.send(message('Q', "stalled"))
	<-known
	p.Release()
	<-known
	c.expect('Q', "stalled")
}

func TestBlock(t *testing.T) {
	s := newServer(t)
	p := pgproxy.New(t, s.Addr().String())
	c, leaves := open(t, p, s), open(t, p, s)
	p.Block()
	p.Block() // changes nothing
	c.send(message('Q', "one"))
	leaves.Close()
	late := dial(t, p)
	late.send(opening(startup))
	s.quiet(t) // neither a message nor an end
	c.quiet()
	p.Unblock()
	late.expect('Z', "I")
	c.expect('Q', "one")
	seen := []string{<-s.seen, <-s.seen, <-s.seen}
	slices.Sort(seen)
	if want := []string{`Q "one"`, "end", fmt.Sprintf("opening %q", startup)}; !slices.Equal(seen, want) {
		t.Errorf("the server saw %q, want %q", seen, want)
	}
	p.Unblock()

	p.Block()
	c.send(message('Q', "two"))
	p.Cut()
	c.ends()
	s.expect(t, "end", "end")
	p.Unblock()
	again := open(t, p, s)
	again.send(message('Q', "three"))
	again.expect('Q', "three")
}

// TestFromFunction calls methods from the function that decides.
func TestFromFunction(t *testing.T) {
	s := newServer(t)
	p := pgproxy.New(t, s.Addr().String())
	p.OnMessage(func(m pgproxy.Message) pgproxy.Action {
		switch {
		case m.FromServer:
		case string(m.Body) == "cut":
			p.Cut()
		case string(m.Body) == "block":
			p.Block()
		}
		return pgproxy.Pass
	})
	c := open(t, p, s)
	c.send(message('Q', "cut"))
	c.ends()
	s.expect(t, "end")
	c = open(t, p, s)
	c.send(message('Q', "block"))
	s.expect(t, `Q "block"`)
	c.quiet()
	p.Unblock()
	p.OnMessage(nil)
	c.send(message('Q', "cut"))
	s.expect(t, `Q "cut"`)
}

func TestUnreachable(t *testing.T) {
	s := newServer(t)
	s.Close()
	c, err := net.Dial("tcp", pgproxy.New(t, s.Addr().String()).Addr())
	if err != nil {
		return // the reset came early
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if n, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v from a server that is away", n, err)
	}
}

func TestClose(t *testing.T) {
	s := newServer(t)
	p, err := pgproxy.Listen(s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p.OnMessage(func(m pgproxy.Message) pgproxy.Action {
		if string(m.Body) == "stalled" {
			return pgproxy.Stall
		}
		return pgproxy.Pass
	})
	var all []client
	for range 20 {
		all = append(all, open(t, p, s))
	}
	if n := p.Conns(); n != 20 {
		t.Errorf("%d connections", n)
	}
	for i, c := range all {
		c.send(message('Q', []string{"stalled", "goes"}[i%2]))
	}
	p.Block()
	p.Close()
	p.Close()
	for _, c := range all {
		io.Copy(io.Discard, c)
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if i := bytes.Index(stacks, []byte("pgproxy.(*Proxy)")); i >= 0 {
		t.Errorf("still running: %.500s", stacks[i:])
	}
	if n := p.Conns(); n != 0 {
		t.Errorf("%d connections after Close", n)
	}
}

// TestManyAtOnce has connections come, go and be cut from all sides.
func TestManyAtOnce(t *testing.T) {
	s := newServer(t)
	go func() {
		for range s.seen { // until the end of the test
		}
	}()
	p := pgproxy.New(t, s.Addr().String())
	count := 0
	p.OnMessage(func(m pgproxy.Message) pgproxy.Action {
		count++
		switch {
		case count%97 == 0:
			return pgproxy.CutBefore
		case count%89 == 0:
			return pgproxy.CutAfter
		case count%13 == 0:
			return pgproxy.Stall
		}
		return pgproxy.Pass
	})
	var clients sync.WaitGroup
	for i := range 16 {
		clients.Go(func() {
			for j := range 20 {
				c, err := net.Dial("tcp", p.Addr())
				if err != nil {
					t.Error(err)
					return
				}
				c.SetDeadline(time.Now().Add(patience))
				c.Write(opening(startup))
				for k := range 10 {
					want := fmt.Sprint(i, j, k)
					c.Write(message('Q', want))
					kind, got, err := readMessage(c)
					if kind == 'Z' {
						kind, got, err = readMessage(c)
					}
					if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.ErrUnexpectedEOF) || err == nil && (kind != 'Q' || got != want) {
						t.Errorf("%q %q, %v, want %q", kind, got, err, want)
					}
					if err != nil {
						break
					}
				}
				c.Close()
			}
		})
	}
	done := make(chan struct{})
	var releasing sync.WaitGroup
	releasing.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
				p.Release()
			}
		}
	})
	clients.Wait()
	close(done)
	releasing.Wait()
	p.OnMessage(nil)
	if count < 1000 {
		t.Errorf("%d messages", count)
	}
}
