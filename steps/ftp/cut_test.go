package ftp_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/internal/test/steprig"
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
						synctest.Test(t, func(t *testing.T) { c.test(t, at) })
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
		r.PutLocal("f", steprig.Content(cutSize))
	} else {
		r.Put("f", steprig.Content(cutSize))
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
	target := r.GetLocal("f")
	if c.up {
		target = r.Get("f")
	}
	if !strings.Contains(target, "no such file") {
		t.Fatalf("cut at %d: the target has %d bytes", at, len(target))
	}
	r.ForgetReports()
	if _, err := r.Retry(t.Context(), key, cfg); err != nil {
		t.Fatalf("cut at %d: %v", at, err)
	}
	if r.Get("f") != string(steprig.Content(cutSize)) || r.GetLocal("f") != string(steprig.Content(cutSize)) {
		t.Fatalf("cut at %d: the content differs", at)
	}
	steprig.WantTree(t, r.Remote, "f")
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
	r.T.Helper()
	if _, err := r.Run(r.T.Context(), key, cfg); err != nil {
		if c.kind != "half-close" {
			r.T.Fatalf("cut at %d: %v", at, err)
		}
		return false
	}
	if r.Get("f") != string(steprig.Content(cutSize)) || r.GetLocal("f") != string(steprig.Content(cutSize)) {
		r.T.Fatalf("cut at %d: the content differs", at)
	}
	steprig.WantTree(r.T, r.Remote, "f")
	if !strings.Contains(r.Log.String(), "the transfer goes on with another") {
		r.T.Errorf("cut at %d: the connection was not lost", at)
	}
	last := int64(0)
	for _, p := range r.Reports() {
		if p.Done < min(last, at)-underWay { // a black hole swallows what comes after
			r.T.Errorf("cut at %d: after %d bytes it went on at %d", at, last, p.Done)
		}
		last = p.Done
	}
	return true
}

// kill ends the first attempt as the end of its process would: nothing that it
// has open can be used any more. It reports whether there was time for that.
func (c cut) kill(t *testing.T, r *rig, at int64, key string, cfg object) bool {
	typ, _ := r.Registry.Lookup(key)
	job := r.Job()
	r.OnProgress = func(p courier.Progress) {
		if p.Done >= at && p.Done < p.Total {
			r.OnProgress = nil
			r.Cut()
			job.Close()
		}
	}
	_, err := typ.Execute(context.Background(), job, steprig.ConfigOf(cfg))
	killed := r.OnProgress == nil
	if r.OnProgress = nil; killed == (err == nil) {
		t.Fatalf("killed at %d: %v; the attempt returned %v", at, killed, err)
	}
	r.Resources.Close()
	r.Resources = &courier.Resources{}
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
		synctest.Test(t, func(t *testing.T) {
			at := int64(100_000)
			cfg := object{"remote_path": "f", "local_path": "f", "resume": true}
			r := newRig(t, ftpserver.Options{})
			r.net.SetLink(func(int, int) memnet.Link {
				return memnet.Link{Up: memnet.Flow{Buffer: underWay}, Down: memnet.Flow{Buffer: underWay}}
			})
			r.Put("keep", nil)
			if key == "ftp.upload" {
				r.PutLocal("f", steprig.Content(cutSize))
			} else {
				r.Put("f", steprig.Content(cutSize))
			}
			if !(cut{kind: "killed"}).kill(t, r, at, key, cfg) {
				t.Fatal("the attempt was not killed")
			}
			typ, _ := r.Registry.Lookup(key)
			r.Attempt++
			if err := r.Cleanup(t.Context(), key, cfg); err != nil {
				t.Fatal(err)
			}
			if left := append(steprig.Tree(t, r.Remote), steprig.Tree(t, r.Work)...); !strings.Contains(strings.Join(left, " "), ".courier-tmp-") {
				t.Errorf("%s: nothing is kept for the next attempt: %q", key, left)
			}
			job := courier.NewContext(courier.ContextConfig{Execution: r.Job().Execution(), Step: 3, Attempt: 2, Workspace: r.Work, Resources: r.Resources, Cancelled: true})
			defer job.Close()
			if err := typ.Rollback(t.Context(), job, steprig.ConfigOf(cfg)); err != nil {
				t.Fatal(err)
			}
			if left := append(steprig.Tree(t, r.Remote), steprig.Tree(t, r.Work)...); strings.Contains(strings.Join(left, " "), ".courier-tmp-") {
				t.Errorf("%s: left are %q", key, left)
			}
		})
	}
}
