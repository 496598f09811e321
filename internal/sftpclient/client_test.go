package sftpclient

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connerr"
)

// A pipe is a channel to a server that has written its answers in advance.
type pipe struct {
	io.Reader
	io.Writer
}

func newTestClient(in io.Reader) *Client {
	return prepareClient(pipe{in, io.Discard}, newConnState(func() {}), 0, func(err error) error { return &connerr.LostError{Err: err} })
}

// FuzzClient lets the client read whatever a server may send. It must not
// panic, hang, or take more memory than what was sent calls for.
func FuzzClient(f *testing.F) {
	frame := func(typ byte, id uint32, body ...byte) []byte {
		p := newPacket(typ, len(body))
		p = append(p, body...)
		p.seal(id)
		return p
	}
	f.Add(frame(fxpStatus, 1, 0, 0, 0, 4))
	f.Add(frame(fxpAttrs, 1, 0, 0, 0, 15, 0, 0, 0, 0, 0, 0, 0, 9))
	f.Add(frame(fxpName, 1, 0, 0, 0, 1, 0, 0, 0, 1, 'x', 0, 0, 0, 0, 0, 0, 0, 0))
	f.Add(frame(fxpHandle, 1, 0, 0, 0, 1, 'h'))
	f.Add(append(frame(fxpData, 1, 0, 0, 0, 1, 'd'), frame(fxpStatus, 2, 0, 0, 0, 1)...))
	f.Add(frame(fxpVersion, 3, 0, 0, 0, 1, 'x', 0, 0, 0, 1, 'y'))
	f.Add([]byte("welcome"))
	requests := []func(context.Context, *Client) error{
		func(ctx context.Context, c *Client) error { _, err := c.Realpath(ctx, "."); return err },
		func(ctx context.Context, c *Client) error { _, err := c.Stat(ctx, "x"); return err },
		func(ctx context.Context, c *Client) error { _, err := c.Open(ctx, "x", FlagRead); return err },
		func(ctx context.Context, c *Client) error { _, _, err := c.readdir(ctx, "h"); return err },
		func(ctx context.Context, c *Client) error { return c.Rename(ctx, "x", "y") },
		func(ctx context.Context, c *Client) error {
			r := Reading{Workers: OneWorker(c, "h"), Size: 1, To: io.Discard, Progress: func(int64) {}}
			return r.Run(ctx)
		},
		func(ctx context.Context, c *Client) error {
			w := Writing{Workers: OneWorker(c, "h"), Size: 1, From: bytes.NewReader([]byte{1}), Progress: func(int64) {}}
			return w.Run(ctx)
		},
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		for _, request := range requests {
			// The answers must not come before the requests.
			in, out := io.Pipe()
			c := newTestClient(in)
			done := make(chan struct{})
			go func() { defer close(done); c.receive() }()
			go func() { out.Write(sent); out.Close() }()
			request(t.Context(), c)
			c.fail(ErrClosed)
			in.Close()
			<-done
		}
		c := newTestClient(bytes.NewReader(sent))
		if c.version() == nil {
			c.limits()
		}
	})
}

func TestAttrs(t *testing.T) {
	file := func(flags uint32, size uint64, mode, mtime uint32) Attrs { return Attrs{flags, size, mode, mtime} }
	all := uint32(AttrSize | AttrPermissions | AttrTimes)
	for _, test := range []struct {
		a, b Attrs
		same bool
	}{
		{file(all, 1, ModeRegular, 5), file(all, 1, ModeRegular|0o644, 5), true},
		{file(all, 1, ModeRegular, 5), file(all, 2, ModeRegular, 5), false},
		{file(all, 1, ModeRegular, 5), file(all, 1, ModeRegular, 6), false},
		{file(all, 0, 0, 0), file(AttrSize, 0, 0, 0), false},
		{file(AttrSize, 7, 0, 0), file(AttrSize, 7, 0, 0), true},
	} {
		if got := test.a.SameFile(test.b); got != test.same {
			t.Errorf("%+v and %+v: same is %v", test.a, test.b, got)
		}
	}
	if _, err := (Attrs{}).FileSize(); err == nil {
		t.Error("a size that was not sent is taken for one")
	}
	if n, err := file(all, math.MaxInt64, 0, 0).FileSize(); n != math.MaxInt64 || err != nil {
		t.Errorf("size = %d, %v", n, err)
	}
	if _, err := file(all, math.MaxInt64+1, 0, 0).FileSize(); err == nil {
		t.Error("a size of 2^63 is accepted")
	}
	if !(Attrs{}).Modified().IsZero() || file(all, 0, 0, 1e9).Modified() != time.Unix(1e9, 0).UTC() {
		t.Error("modified is wrong")
	}
}

// TestLongNames takes the type of entries from the form for people where there
// is no other.
func TestLongNames(t *testing.T) {
	for long, want := range map[string][3]bool{
		"drwxr-xr-x 1 0 0 0 x": {true, false, false}, "lrwxrwxrwx x": {false, true, false},
		"-rw------- x": {false, false, true}, "": {false, false, true}, "nonsense": {false, false, true},
	} {
		p := packet{}.string("x").string(long).uint32(0)
		s := scanner{rest: p}
		e := s.entry()
		if got := [3]bool{e.Attrs.IsDir(), e.Attrs.IsLink(), e.Attrs.IsFile()}; got != want || s.bad || e.Name != "x" {
			t.Errorf("%q: directory, link, file = %v, want %v", long, got, want)
		}
	}
}

func TestStatusErrors(t *testing.T) {
	for code, want := range map[uint32]string{
		statusFailure: `the server reports a failure (its words: "no \x1b[2J")`,
		4711:          `the server reports status 4711 (its words: "no \x1b[2J")`,
	} {
		if got := (&StatusError{code, "no \x1b[2J"}).Error(); got != want {
			t.Errorf("status %d: %s, want %s", code, got, want)
		}
	}
	if got := (&StatusError{statusNoSuchFile, "No such file"}).Error(); got != "no such file or directory" {
		t.Error(got)
	}
	if !IsStatus(fmt.Errorf("open: %w", &StatusError{StatusExists, ""})) || IsStatus(ErrClosed) {
		t.Error("isStatus is wrong")
	}
}

// TestIDs lets the ids of requests wrap around past one that waits.
func TestIDs(t *testing.T) {
	c := newTestClient(bytes.NewReader(nil))
	first, err := c.register(newCall(nil))
	if err != nil {
		t.Fatal(err)
	}
	c.id = math.MaxUint32
	var seen []uint32
	for range 3 {
		id, err := c.register(newCall(nil))
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, id)
	}
	for _, id := range seen {
		if id == first {
			t.Errorf("ids %v: that of a waiting request was used again", seen)
		}
	}
	c.fail(ErrClosed)
	if _, err := c.register(newCall(nil)); !errors.Is(err, ErrClosed) {
		t.Errorf("register = %v", err)
	}
}

func TestTail(t *testing.T) {
	var s tail
	for range 100 {
		s.Write(bytes.Repeat([]byte("x"), 100))
	}
	s.Write([]byte("the end\r\n"))
	if got := s.shown(strings.Clone); len(got) > tailSize || got[len(got)-7:] != "the end" {
		t.Errorf("tail = %q", got)
	}
	s.Write(binary.BigEndian.AppendUint64(make([]byte, 10*tailSize), 0x656e64))
	if got := s.shown(strings.Clone); len(got) > tailSize || got[len(got)-3:] != "end" {
		t.Errorf("tail = %q", got)
	}
}

// TestHandshakeConcealsPassword has a server that repeats the password when it
// hangs up.
func TestHandshakeConcealsPassword(t *testing.T) {
	var secrets courier.Redactor
	secrets.Add("password", "horse battery")
	s := &Conn{redact: secrets.Redact}
	err := s.handshakeError(errors.New("ssh: disconnect, reason 14: tried horse battery"), "ada", new(hostKeyCheck))
	if text := err.Error(); strings.Contains(text, "horse") || !strings.Contains(text, "tried [secret password]") || !errors.Is(err, courier.ErrLogin) {
		t.Errorf("error %v", err)
	}
}
