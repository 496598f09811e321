package sftp_test

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/internal/test/steprig"
)

const (
	cutSize    = 2 << 20
	cutStep    = 16 << 10
	cutLogin   = 4 << 10  // about what each side sends before the content
	cutAround  = 24 << 10 // at most what two connections take beside the content
	cutRate    = 16 << 20 // bytes per second, so that what a process has not read when it is killed is little
	cutPrelude = "old"    // what has the final name before
)

// A cut ends the connection of the first attempt at a byte of the content.
type cut struct {
	kind string
	up   bool
}

// TestCuts ends transfers at every 16 KiB, in every way: the client is killed,
// the connection is reset, becomes a black hole, or ends as if all were said.
// The final name shows the old content until the next attempt is done, which
// goes on where the first was.
func TestCuts(t *testing.T) {
	every := raced.Or[int64](16, 4) // steps; each way begins at another one, so that all are taken
	begin := int64(0)
	for _, kind := range []string{"killed", "reset", "black hole", "half-close"} {
		for _, up := range []bool{false, true} {
			c, phase := cut{kind, up}, begin
			begin = (begin + 1) % every
			t.Run(c.name(), func(t *testing.T) {
				t.Parallel()
				for at := phase * cutStep; at < cutSize; at += every * cutStep {
					synctest.Test(t, func(t *testing.T) { c.test(t, at) })
				}
			})
		}
	}
}

func (c cut) name() string {
	if c.up {
		return c.kind + " up"
	}
	return c.kind + " down"
}

// A cutting is one case.
type cutting struct {
	cut
	*rig
	at       int64
	first    atomic.Bool  // attempt
	received atomic.Int64 // bytes that reached the client
	written  atomic.Int64 // bytes that the server was told to write, and did
}

func (c cut) test(t *testing.T, at int64) {
	k := &cutting{cut: c, at: at}
	k.first.Store(true)
	k.rig = newRig(t, sftpserver.Options{FaultAfter: moved(&k.written, "write")})
	k.net.SetLink(k.link)
	k.conn.Dial = k.dial
	key, cfg := "sftp.download", object{"remote_path": "f", "local_path": "g", "resume": true}
	if c.up {
		key, cfg = "sftp.upload", object{"local_path": "f", "remote_path": "g", "resume": true}
		k.PutLocal("f", steprig.Content(cutSize))
		k.Put("g", []byte(cutPrelude))
	} else {
		k.Put("f", steprig.Content(cutSize))
		k.PutLocal("g", []byte(cutPrelude))
	}
	if c.kind == "killed" {
		if !k.kill(key, cfg) {
			return // the end came before the next report
		}
	} else if _, err := k.Run(t.Context(), key, cfg); err == nil {
		t.Fatalf("cut at %d: the attempt succeeded", at)
	}
	time.Sleep(time.Second) // until the server has written what it got
	if got := k.target(); got != cutPrelude {
		t.Fatalf("cut at %d: the target has %d bytes", at, len(got))
	}
	k.first.Store(false)
	if _, err := k.Retry(t.Context(), key, cfg); err != nil {
		t.Fatalf("cut at %d: %v", at, err)
	}
	if k.target() != string(steprig.Content(cutSize)) {
		t.Fatalf("cut at %d: the content differs", at)
	}
	steprig.WantTree(t, k.Remote, map[bool][]string{true: {"g"}, false: {"f"}}[c.up]...)
	twice := k.received.Load() - cutSize - cutAround
	if c.up {
		twice = k.written.Load() - cutSize
	}
	if twice >= aChunk {
		t.Errorf("cut at %d: %d bytes were sent twice", at, twice)
	}
}

func (k *cutting) target() string {
	if k.up {
		return k.Get("g")
	}
	return k.GetLocal("g")
}

// link cuts the first connection, and lets the first attempt make no other.
func (k *cutting) link(n int) memnet.Link {
	var l memnet.Link
	if !k.first.Load() {
		return l
	}
	if n > 1 {
		l.Refuse = syscall.ECONNREFUSED
		return l
	}
	flow, at := &l.Down, k.at+cutLogin
	if k.up {
		flow = &l.Up
	}
	switch k.kind {
	case "killed":
		l.Up.Rate, l.Down.Rate = cutRate, cutRate
	case "reset":
		flow.CutAfter = &at
	case "black hole":
		flow.StallAfter = &at
	}
	return l
}

func (k *cutting) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := k.net.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	h := &half{Conn: conn.(*memnet.Conn), received: &k.received, in: -1, out: -1}
	if k.first.Load() && k.kind == "half-close" {
		if k.up {
			h.out = k.at + cutLogin
		} else {
			h.in = k.at + cutLogin
		}
	}
	return h, nil
}

// kill ends the first attempt as the end of its process would: nothing that it
// has open can be used any more. It reports whether there was time for that.
func (k *cutting) kill(key string, cfg object) bool {
	typ, _ := k.Registry.Lookup(key)
	job := k.Job()
	k.OnProgress = func(p courier.Progress) {
		if p.Done >= k.at && p.Done < p.Total {
			k.OnProgress = nil
			k.net.Cut()
			job.Close()
		}
	}
	_, err := typ.Execute(context.Background(), job, steprig.ConfigOf(cfg))
	killed := k.OnProgress == nil
	if k.OnProgress = nil; killed == (err == nil) {
		k.T.Fatalf("killed at %d: %v; the attempt returned %v", k.at, killed, err)
	}
	k.again()
	return killed
}

// A half connection ends in one direction after so many bytes, as if that were
// all; negative means never.
type half struct {
	*memnet.Conn
	received *atomic.Int64
	in, out  int64
}

func (h *half) Read(p []byte) (int, error) {
	if h.in == 0 {
		return 0, io.EOF
	}
	if h.in > 0 {
		p = p[:min(int64(len(p)), h.in)]
	}
	n, err := h.Conn.Read(p)
	if h.in > 0 {
		h.in -= int64(n)
	}
	h.received.Add(int64(n))
	return n, err
}

func (h *half) Write(p []byte) (int, error) {
	if h.out < 0 {
		return h.Conn.Write(p)
	}
	n := min(int64(len(p)), h.out)
	if n > 0 {
		if _, err := h.Conn.Write(p[:n]); err != nil {
			return 0, err
		}
	}
	if h.out -= n; n < int64(len(p)) {
		return len(p), h.Conn.CloseWrite()
	}
	return len(p), nil
}
