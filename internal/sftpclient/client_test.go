package sftpclient

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
)

// A packet is built by appending to it. It begins with room for its length, its type, and
// room for the id.
type packet []byte

func newPacket(typ byte) packet { return packet{0, 0, 0, 0, typ, 0, 0, 0, 0} }

func (p packet) uint32(v uint32) packet { return binary.BigEndian.AppendUint32(p, v) }
func (p packet) uint64(v uint64) packet { return binary.BigEndian.AppendUint64(p, v) }
func (p packet) string(s string) packet { return append(p.uint32(uint32(len(s))), s...) }

// sealed returns p with its length and the id.
func (p packet) sealed(id uint32) []byte {
	binary.BigEndian.PutUint32(p, uint32(len(p)-4))
	binary.BigEndian.PutUint32(p[5:], id)
	return p
}

// A peer is the other end of a channel. It answers each packet by a function, whose answer
// may be cut off: then the connection ends.
type peer struct {
	*io.PipeReader
	out    *io.PipeWriter
	answer func(typ byte, id uint32, body []byte) []byte
	sent   []byte
}

func newPeer(answer func(typ byte, id uint32, body []byte) []byte) *peer {
	p := &peer{answer: answer}
	p.PipeReader, p.out = io.Pipe()
	return p
}

// Write takes packets, whole or in parts.
func (p *peer) Write(b []byte) (int, error) {
	p.sent = append(p.sent, b...)
	for len(p.sent) >= 9 {
		n := 4 + int(binary.BigEndian.Uint32(p.sent))
		if len(p.sent) < n {
			break
		}
		typ, id, body := p.sent[4], binary.BigEndian.Uint32(p.sent[5:]), bytes.Clone(p.sent[9:n])
		p.sent = p.sent[n:]
		if typ == fxpInit {
			go p.out.Write(newPacket(fxpVersion).sealed(version3))
			continue
		}
		go func() {
			if a := p.answer(typ, id, body); a == nil {
				p.out.Close()
			} else {
				p.out.Write(a)
			}
		}()
	}
	return len(b), nil
}

// Close ends both directions.
func (p *peer) Close() error {
	p.out.Close()
	return p.PipeReader.Close()
}

// clientOf returns a client of a peer.
func clientOf(t testing.TB, p *peer) *Client {
	t.Helper()
	c, err := NewClient(p, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.fail(ErrClosed)
		<-c.drained
	})
	return c
}

// requests are all that a client may ask, by the type of the first request.
var requests = map[byte]func(context.Context, *Client) error{
	fxpRealpath: func(ctx context.Context, c *Client) error { _, err := c.Realpath(ctx, "."); return err },
	fxpStat:     func(ctx context.Context, c *Client) error { _, err := c.Stat(ctx, "x"); return err },
	fxpLstat:    func(ctx context.Context, c *Client) error { _, err := c.Lstat(ctx, "x"); return err },
	fxpOpendir: func(ctx context.Context, c *Client) error {
		return c.List(ctx, "x", 1<<20, func(Entry) error { return nil }, func(int) {})
	},
	fxpRename: func(ctx context.Context, c *Client) error { return c.Rename(ctx, "x", "y") },
	fxpRemove: func(ctx context.Context, c *Client) error { return c.Remove(ctx, "x") },
	fxpMkdir:  func(ctx context.Context, c *Client) error { return c.Mkdir(ctx, "x") },
	fxpRmdir:  func(ctx context.Context, c *Client) error { return c.Rmdir(ctx, "x") },
	fxpSetstat: func(ctx context.Context, c *Client) error {
		return c.SetAttrs(ctx, "x", Attrs{Flags: AttrTimes | AttrPermissions})
	},
	fxpOpen: func(ctx context.Context, c *Client) error { _, err := c.Open(ctx, "x", os.O_RDONLY); return err },
	fxpRead: func(ctx context.Context, c *Client) error {
		f, err := c.Open(ctx, "x", os.O_RDONLY)
		if err != nil {
			return err
		}
		r := Reading{Workers: OneWorker(f), Size: 10, To: io.Discard, Progress: func(int64) {}}
		return r.Run(ctx)
	},
	fxpWrite: func(ctx context.Context, c *Client) error {
		f, err := c.Open(ctx, "x", os.O_WRONLY)
		if err != nil {
			return err
		}
		w := Writing{Workers: OneWorker(f), Size: 1, From: bytes.NewReader([]byte{1}), Progress: func(int64) {}}
		return w.Run(ctx)
	},
}

// good answers any request as a server may.
func good(typ byte, id uint32) []byte {
	switch typ {
	case fxpOpen, fxpOpendir:
		return newPacket(fxpHandle).string("h").sealed(id)
	case fxpStat, fxpLstat:
		return newPacket(fxpAttrs).uint32(0).sealed(id)
	case fxpRealpath:
		return newPacket(fxpName).uint32(1).string("/").string("").uint32(0).sealed(id)
	case fxpRead, fxpReaddir:
		return newPacket(fxpStatus).uint32(statusEOF).sealed(id)
	}
	return newPacket(fxpStatus).uint32(statusOK).sealed(id)
}

// FuzzClient lets the client read whatever a server may send in answer to a request. It must
// not panic, hang, or take more memory than what was sent calls for.
func FuzzClient(f *testing.F) {
	f.Add(byte(fxpStat), []byte(newPacket(fxpStatus).uint32(4).sealed(1)))
	f.Add(byte(fxpLstat), []byte(newPacket(fxpAttrs).uint32(15).uint64(9).sealed(1)))
	f.Add(byte(fxpOpendir), []byte(newPacket(fxpName).uint32(1).string("x").string("").uint32(0).sealed(2)))
	f.Add(byte(fxpOpen), []byte(newPacket(fxpHandle).string("h").sealed(1)))
	f.Add(byte(fxpRead), append(newPacket(fxpData).string("d").sealed(2), newPacket(fxpStatus).uint32(statusEOF).sealed(3)...))
	f.Add(byte(fxpVersion), []byte(newPacket(fxpVersion).string("x").string("y").sealed(3)))
	f.Add(byte(fxpRemove), []byte("welcome"))
	f.Fuzz(func(t *testing.T, at byte, sent []byte) {
		for _, request := range requests {
			p := newPeer(nil)
			p.answer = func(typ byte, id uint32, _ []byte) []byte {
				if typ != at && !(at == fxpOpendir && typ == fxpReaddir) {
					return good(typ, id)
				}
				p.out.Write(append(bytes.Clone(sent), good(typ, id)...))
				return nil // so that it does not wait for the rest of a packet
			}
			c := clientOf(t, p)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if request(ctx, c); ctx.Err() != nil {
				t.Errorf("a request hangs after %q", sent)
			}
			cancel()
		}
		out := newPeer(nil)
		g := newGuard(out, 0, func(err error) error { return err }, func(error) {})
		go func() { out.out.Write(sent); out.out.Close() }()
		got, _ := io.ReadAll(g)
		if !bytes.HasPrefix(sent, got) {
			t.Errorf("of %q the guard has made %q", sent, got)
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
		e, plain := s.entry()
		if got := [3]bool{e.Attrs.IsDir(), e.Attrs.IsLink(), e.Attrs.IsFile()}; got != want || s.bad || e.Name != "x" || plain {
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

// A plenty is a connection on which more is always there to be read.
type plenty struct {
	net.Conn
	reads, deadlines int
}

func (c *plenty) Read(p []byte) (int, error)      { c.reads++; return len(p), nil }
func (c *plenty) SetReadDeadline(time.Time) error { c.deadlines++; return nil }

// TestReadsTogether reads as SSH does, the beginning of a packet and then the rest, which
// reads from the network what is there, with one deadline for many packets.
func TestReadsTogether(t *testing.T) {
	from := &plenty{}
	c := newLiveConn(from)
	c.roll(time.Second)
	const packets = 64
	for range packets {
		for _, n := range []int{4 << 10, 28 << 10} {
			if _, err := io.ReadFull(c, make([]byte, n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if most := packets * 32 << 10 / receiveBuffer; from.reads > most+1 || from.deadlines > most+2 {
		t.Errorf("%d packets took %d reads and %d deadlines, want about %d", packets, from.reads, from.deadlines, most)
	}
}
