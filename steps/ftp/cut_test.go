package ftp_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/raced"
)

const (
	cutSize  = 2 << 20
	cutStep  = 16 << 10
	underWay = 48 << 10 // may be lost with a connection: what it buffers, and a record of TLS
)

// A cut ends the first attempt at a byte of the content.
type cut struct {
	kind string
	up   bool
	tls  bool
}

// TestCuts ends transfers at every 16 KiB, in every way: the client is killed,
// the connection for content is reset, becomes a black hole, or ends as if the
// content were complete. Where the loss of the connection is plain, the attempt
// goes on over another, and otherwise the next attempt does.
func TestCuts(t *testing.T) {
	every := raced.Or[int64](16, 4) // steps; each way begins at another one, so that all are taken
	begin := int64(0)
	for _, kind := range []string{"killed", "reset", "black hole", "half-close"} {
		for _, up := range []bool{false, true} {
			for _, encrypted := range []bool{false, true} {
				c, phase := cut{kind, up, encrypted}, begin
				begin = (begin + 1) % every
				t.Run(c.name(), func(t *testing.T) {
					t.Parallel()
					for at := phase * cutStep; at < cutSize; at += every * cutStep {
						bubble(t, func(t *testing.T) { c.test(t, at) })
					}
				})
			}
		}
	}
}

func (c cut) name() string {
	name := c.kind + " down"
	if c.up {
		name = c.kind + " up"
	}
	if c.tls {
		return name + " ftps"
	}
	return name + " ftp"
}

func (c cut) test(t *testing.T, at int64) {
	var first atomic.Bool
	first.Store(true)
	opt := ftpserver.Options{Content: func(_ *ftpserver.Conn, verb string, conn net.Conn) net.Conn {
		if c.kind != "half-close" || !first.Load() {
			return conn
		}
		first.Store(false) // the next one holds
		return &half{Conn: conn, in: at, out: at}
	}}
	if c.tls {
		opt.TLS, opt.RequireReuse = tlsConfig, true
	}
	r := newRig(t, opt)
	r.net.SetLink(func(port, _ int) memnet.Link {
		var l memnet.Link
		if port == 21 || !first.Load() {
			return l
		}
		flow := &l.Down
		if c.up {
			flow = &l.Up
		}
		switch flow.Buffer = 32 << 10; c.kind {
		case "reset":
			flow.CutAfter = &at
			first.Store(false) // the next one holds
		case "black hole":
			flow.StallAfter = &at
			first.Store(false)
		}
		return l
	})
	key, cfg := "ftp.download", object{"remote_path": "f", "local_path": "f", "resume": true}
	if c.up {
		key = "ftp.upload"
		r.putLocal("f", content(cutSize))
	} else {
		r.put("f", content(cutSize))
	}
	switch {
	case c.kind == "killed":
		if !c.kill(t, r, at, key, cfg) {
			return // the end came before the next report
		}
	case c.goesOn(r, at, key, cfg):
		return
	}
	first.Store(false)
	time.Sleep(time.Second) // until the server has written what it got
	target := r.getLocal("f")
	if c.up {
		target = r.get("f")
	}
	if !strings.Contains(target, "no such file") {
		t.Fatalf("cut at %d: the target has %d bytes", at, len(target))
	}
	r.reports = nil
	if _, err := r.retry(t.Context(), key, cfg); err != nil {
		t.Fatalf("cut at %d: %v", at, err)
	}
	if r.get("f") != string(content(cutSize)) || r.getLocal("f") != string(content(cutSize)) {
		t.Fatalf("cut at %d: the content differs", at)
	}
	wantTree(t, r.remote, "f")
	if c.kind == "half-close" && c.up && at > cutSize-underWay {
		return // the server confirmed too little, so what it has proves nothing
	}
	if begun := r.firstReport(); begun < at-underWay {
		t.Errorf("cut at %d: the next attempt began at %d", at, begun)
	}
}

// goesOn checks that an attempt whose connection is cut goes on where it was, and
// succeeds. It reports false if the attempt fails, as it may where the content
// seems to be complete.
func (c cut) goesOn(r *rig, at int64, key string, cfg object) bool {
	r.t.Helper()
	if _, err := r.run(r.t.Context(), key, cfg); err != nil {
		if c.kind != "half-close" {
			r.t.Fatalf("cut at %d: %v", at, err)
		}
		return false
	}
	if r.get("f") != string(content(cutSize)) || r.getLocal("f") != string(content(cutSize)) {
		r.t.Fatalf("cut at %d: the content differs", at)
	}
	wantTree(r.t, r.remote, "f")
	if !strings.Contains(r.log.String(), "the transfer goes on with another") {
		r.t.Errorf("cut at %d: the connection was not lost", at)
	}
	last := int64(0)
	for _, p := range r.reports {
		if p.Done < min(last, at)-underWay { // a black hole swallows what comes after
			r.t.Errorf("cut at %d: after %d bytes it went on at %d", at, last, p.Done)
		}
		last = p.Done
	}
	return true
}

// kill ends the first attempt as the end of its process would: nothing that it
// has open can be used any more. It reports whether there was time for that.
func (c cut) kill(t *testing.T, r *rig, at int64, key string, cfg object) bool {
	typ, _ := r.reg.Lookup(key)
	job := r.job()
	r.onProgress = func(p courier.Progress) {
		if p.Done >= at && p.Done < p.Total {
			r.onProgress = nil
			r.Cut()
			job.Close()
		}
	}
	_, err := typ.Execute(context.Background(), job, configOf(cfg))
	killed := r.onProgress == nil
	if r.onProgress = nil; killed == (err == nil) {
		t.Fatalf("killed at %d: %v; the attempt returned %v", at, killed, err)
	}
	r.res.Close()
	r.res = &courier.Resources{}
	return killed
}

// A half connection ends after so many bytes, as if that were all.
type half struct {
	net.Conn
	in, out int64
}

func (h *half) Read(p []byte) (int, error) {
	if h.in <= 0 {
		return 0, io.EOF
	}
	n, err := h.Conn.Read(p[:min(int64(len(p)), h.in)])
	h.in -= int64(n)
	return n, err
}

func (h *half) Write(p []byte) (int, error) {
	n := min(int64(len(p)), h.out)
	if n > 0 {
		if _, err := h.Conn.Write(p[:n]); err != nil {
			return 0, err
		}
	}
	if h.out -= n; n < int64(len(p)) {
		h.Conn.(interface{ CloseWrite() error }).CloseWrite()
	}
	return len(p), nil
}

// tlsConfig is shared, since reading the key takes longer than the rest.
var tlsConfig = ftpserver.Config()

// TestInterrupted leaves nothing of a cut transfer when there will be no other
// attempt.
func TestInterrupted(t *testing.T) {
	for _, key := range []string{"ftp.download", "ftp.upload"} {
		bubble(t, func(t *testing.T) {
			at := int64(100_000)
			cfg := object{"remote_path": "f", "local_path": "f", "resume": true}
			r := newRig(t, ftpserver.Options{})
			r.net.SetLink(func(int, int) memnet.Link {
				return memnet.Link{Up: memnet.Flow{Buffer: underWay}, Down: memnet.Flow{Buffer: underWay}}
			})
			r.put("keep", nil)
			if key == "ftp.upload" {
				r.putLocal("f", content(cutSize))
			} else {
				r.put("f", content(cutSize))
			}
			if !(cut{kind: "killed"}).kill(t, r, at, key, cfg) {
				t.Fatal("the attempt was not killed")
			}
			typ, _ := r.reg.Lookup(key)
			r.attempt++
			if err := r.cleanup(t.Context(), key, cfg); err != nil {
				t.Fatal(err)
			}
			if left := append(tree(t, r.remote), tree(t, r.work)...); !strings.Contains(strings.Join(left, " "), ".courier-tmp-") {
				t.Errorf("%s: nothing is kept for the next attempt: %q", key, left)
			}
			job := courier.NewContext(courier.ContextConfig{Execution: r.job().Execution(), Step: 3, Attempt: 2, Workspace: r.work, Resources: r.res, Cancelled: true})
			defer job.Close()
			if err := typ.Rollback(t.Context(), job, configOf(cfg)); err != nil {
				t.Fatal(err)
			}
			if left := append(tree(t, r.remote), tree(t, r.work)...); strings.Contains(strings.Join(left, " "), ".courier-tmp-") {
				t.Errorf("%s: left are %q", key, left)
			}
		})
	}
}
