package memnet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/internal/test/memnet"
)

// pattern returns n bytes that differ from their neighbours.
func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i) ^ byte(i>>8) ^ byte(i>>16)
	}
	return p
}

func TestTransfer(t *testing.T) {
	links := map[string]memnet.Link{
		"plain":   {},
		"tiny":    {Up: memnet.Flow{Buffer: 700}, Down: memnet.Flow{Buffer: 99}},
		"latency": {Up: memnet.Flow{Latency: time.Second}, Down: memnet.Flow{Latency: time.Minute}},
		"rate":    {Up: memnet.Flow{Rate: 1000}, Down: memnet.Flow{Rate: 1 << 30, Latency: time.Millisecond}},
	}
	for name, link := range links {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := memnet.Pipe(link)
				want := pattern(300_001)
				var wg sync.WaitGroup
				for _, c := range []*memnet.Conn{a, b} {
					wg.Go(func() {
						if n, err := io.Copy(struct{ io.Writer }{c}, bytes.NewReader(want)); err != nil || n != int64(len(want)) {
							t.Errorf("Copy = %d, %v", n, err)
						}
						c.CloseWrite()
					})
					wg.Go(func() {
						got, err := io.ReadAll(c)
						if err != nil || !bytes.Equal(got, want) {
							t.Errorf("ReadAll = %d bytes, %v, want %d equal ones", len(got), err, len(want))
						}
					})
				}
				wg.Wait()
				if a.Sent() != int64(len(want)) || a.Received() != int64(len(want)) {
					t.Errorf("Sent, Received = %d, %d, want %d", a.Sent(), a.Received(), len(want))
				}
				a.Close()
				b.Close()
			})
		})
	}
}

func TestLatencyAndRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memnet.Pipe(memnet.Link{Up: memnet.Flow{Latency: 10 * time.Second, Rate: 100}})
		defer a.Close()
		defer b.Close()
		start := time.Now()
		a.Write(make([]byte, 200)) // 2 s to send
		a.Write(make([]byte, 300)) // 3 s more
		if d := time.Since(start); d != 0 {
			t.Errorf("Write took %v, want no time", d)
		}
		p := make([]byte, 1000)
		for _, want := range []struct {
			n int
			d time.Duration
		}{{200, 12 * time.Second}, {300, 15 * time.Second}} {
			n, err := b.Read(p)
			if d := time.Since(start); n != want.n || err != nil || d != want.d {
				t.Errorf("Read = %d, %v after %v, want %d after %v", n, err, d, want.n, want.d)
			}
		}
	})
}

// TestBounded writes more than fits while nobody reads.
func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memnet.Pipe(memnet.Link{})
		for range 100_000 { // what has been read takes no room
			a.Write([]byte("x"))
			b.Read(make([]byte, 2))
		}
		a.SetWriteDeadline(time.Now().Add(time.Hour))
		total := 0
		for {
			n, err := a.Write([]byte("one byte at a time")[:1])
			total += n
			if err != nil {
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("Write = %v, want a deadline error", err)
				}
				break
			}
		}
		if total < 1<<19 || total > 1<<20 {
			t.Errorf("%d bytes fit into the buffer, want at most 1 MiB", total)
		}
		go b.Close()
		a.SetWriteDeadline(time.Time{})
		if _, err := a.Write(make([]byte, 1<<21)); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("Write to a closed reader = %v, want EPIPE", err)
		}
		a.Close()
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memnet.Pipe(memnet.Link{})
		a.Write([]byte("last words"))
		a.Close()
		a.Close()
		if got, err := io.ReadAll(b); string(got) != "last words" || err != nil {
			t.Errorf("ReadAll = %q, %v", got, err)
		}
		if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("Write to a closed side = %v, want EPIPE", err)
		}
		if _, err := a.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Write after Close = %v, want ErrClosed", err)
		}
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Read after Close = %v, want ErrClosed", err)
		}
		b.Close()
	})
}

// TestCloseWakes closes while both sides read and both write into full buffers.
func TestCloseWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memnet.Pipe(memnet.Link{Up: memnet.Flow{Buffer: 1}, Down: memnet.Flow{Buffer: 1}})
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { io.ReadAll(io.LimitReader(b, 1)) })
			wg.Go(func() { a.Write(make([]byte, 100)) })
			wg.Go(func() { b.Write(make([]byte, 100)) })
		}
		synctest.Wait()
		a.Close()
		wg.Wait()
		b.Close()
	})
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memnet.Pipe(memnet.Link{})
		defer a.Close()
		defer b.Close()
		start := time.Now()
		a.SetReadDeadline(start.Add(time.Minute))
		_, err := a.Read(make([]byte, 1))
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(start) != time.Minute {
			t.Errorf("Read = %v after %v, want a timeout after a minute", err, time.Since(start))
		}

		// A later deadline revives the connection, and shortening it wakes a reader.
		a.SetDeadline(time.Time{})
		done := make(chan error)
		go func() { _, err := a.Read(make([]byte, 1)); done <- err }()
		synctest.Wait()
		a.SetReadDeadline(time.Now().Add(-time.Second))
		if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read = %v, want a deadline error", err)
		}
		a.SetReadDeadline(time.Now().Add(time.Second))
		a.SetReadDeadline(time.Now().Add(time.Hour))
		go func() { time.Sleep(time.Minute); b.Write([]byte("x")) }()
		if n, err := a.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("Read = %d, %v after the deadline moved", n, err)
		}
	})
}

func TestCutAfter(t *testing.T) {
	for _, n := range []int64{0, 1, 99, 100, 101, 250} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := memnet.Pipe(memnet.Link{Up: memnet.Flow{CutAfter: &n}})
				defer a.Close()
				defer b.Close()
				sent := 0
				for range 3 {
					k, err := a.Write(pattern(100))
					sent += k
					if err != nil && !errors.Is(err, syscall.ECONNRESET) {
						t.Errorf("Write = %v, want a reset", err)
					}
				}
				got, err := io.ReadAll(b)
				if int64(len(got)) != n || int64(sent) != n || !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("%d bytes sent, ReadAll = %d bytes, %v, want %d and a reset", sent, len(got), err, n)
				}
				if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("Write the other way = %v, want a reset", err)
				}
				if _, err := a.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("Read the other way = %v, want a reset", err)
				}
			})
		})
	}
}

func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memnet.Pipe(memnet.Link{Up: memnet.Flow{StallAfter: new(int64(3))}})
		if n, err := a.Write(make([]byte, 1<<22)); n != 1<<22 || err != nil {
			t.Errorf("Write = %d, %v, want it swallowed", n, err)
		}
		b.Write([]byte("the other way works"))
		if n, err := a.Read(make([]byte, 100)); n != 19 || err != nil {
			t.Errorf("Read the other way = %d, %v", n, err)
		}
		b.SetReadDeadline(time.Now().Add(time.Hour))
		got, err := io.ReadAll(b)
		if len(got) != 3 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("ReadAll = %d bytes, %v, want 3 and a deadline error", len(got), err)
		}
		a.Close()
		if n, err := b.Write(make([]byte, 1<<22)); n != 1<<22 || err != nil {
			t.Errorf("Write to a side whose end was never heard of = %d, %v", n, err)
		}
		b.SetReadDeadline(time.Now().Add(time.Hour))
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read = %v, want a deadline error, not the end", err)
		}
		b.Close()
	})
}

func TestListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		boom := errors.New("boom")
		l.SetLink(func(n int) memnet.Link {
			switch n {
			case 2:
				return memnet.Link{Refuse: boom}
			case 3:
				return memnet.Link{Up: memnet.Flow{Latency: time.Second}, Down: memnet.Flow{Latency: 2 * time.Second}}
			}
			return memnet.Link{}
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					if !errors.Is(err, net.ErrClosed) {
						t.Errorf("Accept = %v, want ErrClosed", err)
					}
					return
				}
				wg.Go(func() { io.Copy(c, c); c.Close() })
			}
		})
		dial := func() (net.Conn, error) { return l.DialContext(t.Context(), "tcp", "example.com:22") }

		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := net.SplitHostPort(c.RemoteAddr().String()); err != nil || c.RemoteAddr().String() != l.Addr().String() {
			t.Errorf("RemoteAddr = %v, %v, want %v", c.RemoteAddr(), err, l.Addr())
		}
		c.Write([]byte("echo"))
		got := make([]byte, 4)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "echo" {
			t.Errorf("Read = %q, %v", got, err)
		}
		if _, err := dial(); !errors.Is(err, boom) {
			t.Errorf("DialContext = %v, want boom", err)
		}
		start := time.Now()
		late, err := dial()
		if err != nil || time.Since(start) != 3*time.Second {
			t.Errorf("DialContext = %v after %v, want a connection after 3s", err, time.Since(start))
		}

		l.Stall()
		c.Write([]byte("gone"))
		c.SetReadDeadline(time.Now().Add(time.Minute))
		if n, err := c.Read(got); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read from a black hole = %d, %v", n, err)
		}
		l.Cut()
		c.SetReadDeadline(time.Time{})
		if _, err := c.Read(got); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Read = %v, want a reset", err)
		}
		l.Close()
		l.Close()
		wg.Wait()
		if _, err := dial(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("DialContext after Close = %v, want refused", err)
		}
		if l.Dialed() != 4 {
			t.Errorf("Dialed = %d, want 4", l.Dialed())
		}
		c.Close()
		late.Close()
	})
}

func TestDialGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		l.SetLink(func(int) memnet.Link { return memnet.Link{Up: memnet.Flow{Latency: time.Hour}} })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := l.DialContext(ctx, "tcp", ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("DialContext = %v, want the context's error", err)
		}
		cancel()
		l.SetLink(nil)
		if _, err := l.DialContext(ctx, "tcp", ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("DialContext with an ended context = %v, want its error", err)
		}
	})
}

// TestUnaccepted closes a listener while a connection waits to be accepted.
func TestUnaccepted(t *testing.T) {
	l := memnet.Listen()
	c, err := l.DialContext(t.Context(), "tcp", "")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("Read = %v, want a reset", err)
	}
	c.Close()

	l = memnet.Listen()
	for n := range 1000 {
		c, err := l.DialContext(t.Context(), "tcp", "")
		if err != nil {
			if n == 0 || !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("dial %d: %v, want refused", n, err)
			}
			return
		}
		defer c.Close()
	}
	t.Error("1000 connections wait to be accepted, want a bound")
}

// TestRandom runs writers and readers of random sizes in real time, for the
// race detector.
func TestRandom(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		a, b := memnet.Pipe(memnet.Link{Up: memnet.Flow{Buffer: 1 + rnd.IntN(5000)}})
		want := pattern(100_000)
		var wg sync.WaitGroup
		wg.Go(func() {
			defer a.Close()
			for p := want; len(p) > 0; {
				n := min(len(p), 1+rand.IntN(9000))
				if _, err := a.Write(p[:n]); err != nil {
					t.Errorf("Write: %v", err)
					return
				}
				p = p[n:]
			}
		})
		var got []byte
		for {
			p := make([]byte, 1+rnd.IntN(9000))
			n, err := b.Read(p)
			got = append(got, p[:n]...)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		wg.Wait()
		b.Close()
		if !bytes.Equal(got, want) {
			t.Errorf("seed %d: got %d bytes, want %d equal ones", seed, len(got), len(want))
		}
	}
}
