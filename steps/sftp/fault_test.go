package sftp_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
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

// errBroken is a failure of the server that may pass.
var errBroken = errors.New("\x1b[31mout of\r\norder")

// A trial is a step with the outcome that it must have, whatever happens on
// the way.
type trial struct {
	key  string
	cfg  object
	opt  sftpserver.Options
	old  string // what has the target's name before; "" means nothing has
	size int
}

func (tr trial) upload() bool { return tr.key == "sftp.upload" }

func (tr trial) set(r *rig) {
	if tr.upload() {
		r.PutLocal("source", steprig.Content(tr.size))
		r.Put("dir/keep", nil)
		if tr.old != "" {
			r.Put("dir/target", []byte(tr.old))
		}
		return
	}
	r.Put("dir/source", steprig.Content(tr.size))
	r.Put("dir/other", steprig.Content(10))
	if tr.old != "" {
		r.PutLocal("target", []byte(tr.old))
	}
}

// target reads what has the final name.
func (tr trial) target(r *rig) string {
	if tr.upload() {
		return r.Get("dir/target")
	}
	return r.GetLocal("target")
}

// between checks what must hold after an attempt that failed.
func (tr trial) between(r *rig, what string) {
	r.T.Helper()
	got := tr.target(r)
	missing := strings.Contains(got, "no such file")
	switch {
	case got == string(steprig.Content(tr.size)) || got == tr.old || missing && tr.old == "":
	case missing && tr.opt.NoPosixRename && slices.ContainsFunc(steprig.Tree(r.T, r.Remote), func(f string) bool {
		return strings.Contains(f, ".old.courier-tmp-") && r.Get(f) == tr.old
	}): // it was moved aside
	default:
		r.T.Errorf("%s: the target has %d bytes (%.60q) after a failure", what, len(got), got)
	}
}

// after checks the outcome.
func (tr trial) after(r *rig, what string) {
	r.T.Helper()
	if tr.target(r) != string(steprig.Content(tr.size)) {
		r.T.Errorf("%s: the content differs", what)
	}
	if tr.upload() {
		steprig.WantTree(r.T, r.Remote, "dir/keep", "dir/target")
		steprig.WantTree(r.T, r.Work, "source")
	} else {
		steprig.WantTree(r.T, r.Remote, "dir/other", "dir/source")
		steprig.WantTree(r.T, r.Work, "target")
	}
}

func trials(size int) map[string]trial {
	upload := object{"local_path": "source", "remote_path": "dir/target"}
	return map[string]trial{
		"download over":                {key: "sftp.download", cfg: object{"remote_path": "dir/source", "local_path": "target", "resume": false}, size: size, old: "old"},
		"upload over":                  {key: "sftp.upload", cfg: upload, size: size, old: "old"},
		"upload without posix-rename":  {key: "sftp.upload", cfg: upload, size: size, opt: sftpserver.Options{NoPosixRename: true, NoFsync: true}},
		"upload over, no posix-rename": {key: "sftp.upload", cfg: upload, size: size, old: "old", opt: sftpserver.Options{NoPosixRename: true}},
		"upload unless there":          {key: "sftp.upload", cfg: object{"local_path": "source", "remote_path": "dir/target", "if_exists": "fail"}, size: size},
	}
}

// nth returns a hook that returns err for the n-th operation, counting from 0,
// and how many operations it saw.
func nth(n int, err error) (hook func(sftpserver.Op) error, hit func() string) {
	var mu sync.Mutex
	i, what := -1, ""
	return func(o sftpserver.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if i++; i == n {
				what = o.String()
				return err
			}
			return nil
		}, func() string {
			mu.Lock()
			defer mu.Unlock()
			return what
		}
}

// TestEveryOperation makes each operation of the server fail, break the
// connection, or hang, before or after its effect. Then the step must succeed,
// or fail soon and succeed when it is repeated.
func TestEveryOperation(t *testing.T) {
	const size = 600_000
	faults := []struct {
		name  string
		err   error
		after bool
	}{
		{"failing", errBroken, false}, {"failing after", errBroken, true},
		{"dropped", sftpserver.ErrDrop, false}, {"dropped after", sftpserver.ErrDrop, true},
		{"hanging", sftpserver.ErrHang, false},
		{"skipped", sftpserver.ErrSkip, false},
	}
	for name, tr := range trials(size) {
		for _, fault := range faults {
			t.Run(name+"/"+fault.name, func(t *testing.T) {
				t.Parallel()
				for n := 0; ; n += raced.Or(9, 1) {
					what := ""
					synctest.Test(t, func(t *testing.T) {
						what = tr.disturb(t, n, fault.err, fault.after)
					})
					if what == "" {
						if n < 8 {
							t.Errorf("only %d operations", n)
						}
						return
					}
				}
			})
		}
	}
}

// disturb runs the trial with a fault at the n-th operation and says which that
// was.
func (tr trial) disturb(t *testing.T, n int, fault error, after bool) string {
	hook, hit := nth(n, fault)
	opt := tr.opt
	if after {
		opt.FaultAfter = hook
	} else {
		opt.Fault = hook
	}
	r := newRig(t, opt)
	tr.set(r)
	stalled := errors.New("stalled")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, stalled)
	defer cancel()
	var err error
	steprig.Within(t, time.Minute+time.Second, func() { _, err = r.Run(ctx, tr.key, tr.cfg) })
	what := hit()
	if what == "" {
		if err != nil {
			t.Errorf("undisturbed: %v", err)
		}
		return ""
	}
	switch {
	case err == nil && errors.Is(fault, sftpserver.ErrSkip) && (strings.HasPrefix(what, "write") || strings.HasPrefix(what, "remove")):
		return what // lies that only read_back, and nobody, finds out
	case err == nil:
		tr.after(r, what)
		return what
	case courier.IsPermanent(err) && !strings.HasPrefix(what, "login") && !strings.HasPrefix(what, "sftp"):
		t.Errorf("%s: permanent error %v", what, err)
	case ctx.Err() != nil && !errors.Is(err, stalled) && !strings.Contains(what, "connect") && !strings.Contains(what, "login"):
		t.Errorf("%s: %v, want the cause of the end of the context", what, err)
	case strings.ContainsAny(err.Error(), "\x1b\r"):
		t.Errorf("%s: the error is not escaped: %q", what, err)
	}
	tr.between(r, what)
	if _, err := r.Retry(t.Context(), tr.key, tr.cfg); err != nil {
		t.Errorf("%s: again: %v", what, err)
	}
	tr.after(r, what)
	return what
}

// TestCutEverywhere breaks the connection after so many bytes in one direction,
// from the first byte of the handshake to the end.
func TestCutEverywhere(t *testing.T) {
	const size = 1 << 20
	for name, tr := range trials(size) {
		if tr.opt.NoFsync || tr.cfg["if_exists"] != nil {
			continue
		}
		for _, up := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/up=%v", name, up), func(t *testing.T) {
				t.Parallel()
				step, broken := int64(700), 0
				for n := int64(0); ; n += step {
					if n > 10_000 {
						step = 64 << 10
					}
					whole := false
					synctest.Test(t, func(t *testing.T) { whole = tr.cut(t, n, up) })
					if whole {
						break
					}
					broken++
				}
				if broken < 5 {
					t.Errorf("only %d places", broken)
				}
			})
		}
	}
}

// cut runs the trial on a connection that breaks, and reports whether it was
// over before that.
func (tr trial) cut(t *testing.T, n int64, up bool) bool {
	r := newRig(t, tr.opt)
	tr.set(r)
	r.net.SetLink(func(i int) memnet.Link {
		switch {
		case i > 1:
			return memnet.Link{}
		case up:
			return memnet.Link{Up: memnet.Flow{CutAfter: &n}}
		}
		return memnet.Link{Down: memnet.Flow{CutAfter: &n}}
	})
	what := fmt.Sprintf("cut after %d bytes", n)
	_, err := r.Run(t.Context(), tr.key, tr.cfg)
	if err == nil {
		tr.after(r, what)
		return r.net.Dialed() == 1
	}
	steprig.WantError(t, err, false, `connection "partner"`)
	tr.between(r, what)
	if _, err := r.Retry(t.Context(), tr.key, tr.cfg); err != nil {
		t.Errorf("%s: again: %v", what, err)
	}
	tr.after(r, what)
	return false
}

// TestLastWrite has the server refuse the last write: a quota is used up. No
// file of another size may ever get the name.
func TestLastWrite(t *testing.T) {
	for _, size := range []int{1, 32 << 10, 255<<10 + 1, 1 << 20} {
		for _, opt := range []sftpserver.Options{{}, {NoLimits: true}} {
			synctest.Test(t, func(t *testing.T) {
				full := true
				opt.Fault = func(o sftpserver.Op) error {
					if o.Method == "write" && o.Offset+o.Length == int64(size) && full {
						return errors.New("disk quota exceeded")
					}
					return nil
				}
				r := newRig(t, opt)
				r.PutLocal("x", steprig.Content(size))
				_, err := r.Run(t.Context(), "sftp.upload", object{"local_path": "x"})
				steprig.WantError(t, err, false, `upload "x"`, `"disk quota exceeded"`)
				steprig.WantTree(t, r.Remote)
				full = false
				r.Must(r.Retry(t.Context(), "sftp.upload", object{"local_path": "x"}))
				steprig.WantTree(t, r.Remote, "x")
			})
		}
	}
}

// TestSilentLoss has the server confirm writes that it doesn't make.
func TestSilentLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lossy := true
		r := newRig(t, sftpserver.Options{Fault: func(o sftpserver.Op) error {
			if o.Method == "write" && o.Offset > 0 && lossy {
				return sftpserver.ErrSkip
			}
			return nil
		}})
		r.PutLocal("x", steprig.Content(600_000))
		_, err := r.Run(t.Context(), "sftp.upload", object{"local_path": "x"})
		steprig.WantError(t, err, false, "the server has 261120 bytes of 600000, although it confirmed all of them")
		steprig.WantTree(t, r.Remote)
		lossy = false
		r.Must(r.Retry(t.Context(), "sftp.upload", object{"local_path": "x"}))
	})
}

// TestReadBack finds a hole that the size doesn't show.
func TestReadBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lossy := true
		r := newRig(t, sftpserver.Options{Fault: func(o sftpserver.Op) error {
			if o.Method == "write" && o.Offset == 0 && lossy {
				return sftpserver.ErrSkip
			}
			return nil
		}})
		r.PutLocal("x", steprig.Content(600_000))
		cfg := object{"local_path": "x", "checksum": "read_back"}
		_, err := r.Run(t.Context(), "sftp.upload", cfg)
		steprig.WantError(t, err, false, "the server has other content than was sent")
		steprig.WantTree(t, r.Remote)
		lossy = false
		r.Must(r.Retry(t.Context(), "sftp.upload", cfg))
		if r.Get("x") != string(steprig.Content(600_000)) {
			t.Error("the content differs")
		}
	})
}

// TestRefusals checks what is said when the server refuses an operation, and
// that the refusals that will last are not tried again.
func TestRefusals(t *testing.T) {
	download := object{"remote_path": "source", "local_path": "target"}
	upload := object{"local_path": "local", "remote_path": "target"}
	for _, test := range []struct {
		method    string
		err       error
		key       string
		cfg       object
		permanent bool
		texts     []string
	}{
		{"stat", fs.ErrPermission, "sftp.download", download, true, []string{`download "source": permission denied`, "ask the server's operator"}},
		{"open", fs.ErrPermission, "sftp.download", download, true, []string{`download "source": permission denied`}},
		{"open", fs.ErrNotExist, "sftp.download", download, true, []string{"no such file"}},
		{"open", errBroken, "sftp.download", download, false, []string{`its words: "\x1b[31mout of\r\norder"`}},
		{"read", fs.ErrPermission, "sftp.download", download, true, []string{"permission denied"}},
		{"read", errBroken, "sftp.download", download, false, []string{"reports a failure"}},
		{"open", fs.ErrPermission, "sftp.upload", upload, true, []string{`upload "target": permission denied`}},
		{"open", fs.ErrNotExist, "sftp.upload", upload, true, []string{`remote directory "." doesn't exist`}},
		{"write", fs.ErrPermission, "sftp.upload", upload, true, []string{"permission denied"}},
		{"fsync", errBroken, "sftp.upload", upload, false, []string{"reports a failure"}},
		{"close", errBroken, "sftp.upload", upload, false, []string{"reports a failure"}},
		{"posix-rename", errBroken, "sftp.upload", upload, false, []string{"renaming the complete file"}},
		{"posix-rename", fs.ErrPermission, "sftp.upload", upload, true, []string{"renaming the complete file: permission denied"}},
		{"list", fs.ErrPermission, "sftp.list", nil, true, []string{`list ".": permission denied`}},
		{"readdir", errBroken, "sftp.list", nil, false, []string{`list ".": the server reports a failure`}},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, sftpserver.Options{Fault: failing(test.method, "", test.err)})
			r.Put("source", steprig.Content(100))
			r.Put("target", []byte("old"))
			r.PutLocal("local", steprig.Content(100))
			_, err := r.Run(t.Context(), test.key, test.cfg)
			steprig.WantError(t, err, test.permanent, append(test.texts, `connection "partner" (files.example.com:22)`)...)
			steprig.WantTree(t, r.Remote, "source", "target")
			steprig.WantTree(t, r.Work, "local")
			if r.Get("target") != "old" || r.net.Dialed() != 1 {
				t.Errorf("%s: target %q after %d connections", test.method, r.Get("target"), r.net.Dialed())
			}
		})
	}
}

// TestRenameRefused has a server without posix-rename refuse renaming at
// various points; the file that was there must stay or come back.
func TestRenameRefused(t *testing.T) {
	for refused := range 3 {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			r := newRig(t, sftpserver.Options{NoPosixRename: true, Fault: func(o sftpserver.Op) error {
				if o.Method == "rename" {
					if n++; n > refused && n <= 3 {
						return errBroken
					}
				}
				return nil
			}})
			r.Put("target", []byte("old"))
			r.PutLocal("local", steprig.Content(100))
			cfg := object{"local_path": "local", "remote_path": "target"}
			_, err := r.Run(t.Context(), "sftp.upload", cfg)
			steprig.WantError(t, err, false, map[int]string{0: "moving that aside fails", 1: "moving that aside fails", 2: "renaming the complete file"}[refused])
			if got := r.Get("target"); got != "old" {
				t.Errorf("refused from the %dth on: target = %q", refused, got)
			}
			steprig.WantTree(t, r.Remote, "target")
			n = 4
			r.Must(r.Retry(t.Context(), "sftp.upload", cfg))
			steprig.WantTree(t, r.Remote, "target")
			if r.Get("target") != string(steprig.Content(100)) {
				t.Error("the content differs")
			}
		})
	}
}

// TestRestore ends an execution while the old file is moved aside: Cleanup
// brings it back.
func TestRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r := newRig(t, sftpserver.Options{NoPosixRename: true, Fault: func(o sftpserver.Op) error {
			if o.Method == "rename" {
				if n++; n >= 3 {
					return sftpserver.ErrDrop
				}
			}
			return nil
		}})
		r.Put("target", []byte("old"))
		r.PutLocal("local", steprig.Content(100))
		cfg := object{"local_path": "local", "remote_path": "target"}
		_, err := r.Run(t.Context(), "sftp.upload", cfg)
		steprig.WantError(t, err, false, "connection is lost")
		if got := r.Get("target"); !strings.Contains(got, "no such file") {
			t.Fatalf("target = %q, want it to be moved aside", got)
		}
		n = -100
		if err := r.Cleanup(t.Context(), "sftp.upload", cfg); err != nil {
			t.Fatal(err)
		}
		if got := r.Get("target"); got != "old" {
			t.Errorf("target = %q after Cleanup", got)
		}
		steprig.WantTree(t, r.Remote, "target")
	})
}

// TestLostReply takes the answer to the renaming away. The step finds out on a
// new connection, and whoever waits for the file gets it once.
func TestLostReply(t *testing.T) {
	for _, taken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var r *rig
			renames := 0
			r = newRig(t, sftpserver.Options{FaultAfter: func(o sftpserver.Op) error {
				if o.Method != "posix-rename" {
					return nil
				}
				renames++
				if taken { // by whoever waits for the file
					remove(r.Remote, "x")
				}
				return sftpserver.ErrDrop
			}})
			r.PutLocal("x", steprig.Content(1000))
			out := r.Must(r.Run(t.Context(), "sftp.upload", object{"local_path": "x"}))
			if out["uploaded_file"] != "x" || renames != 1 || r.net.Dialed() != 2 {
				t.Errorf("%v after %d renames on %d connections", out, renames, r.net.Dialed())
			}
			if taken {
				steprig.WantTree(t, r.Remote)
			} else {
				steprig.WantTree(t, r.Remote, "x")
			}
		})
	}
}

// TestLostForGood takes the server away during the renaming. What is said names
// the file, and both losses.
func TestLostForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{Fault: failing("posix-rename", "", sftpserver.ErrDrop)})
		r.net.SetLink(func(i int) memnet.Link {
			if i > 1 {
				return memnet.Link{Refuse: syscall.ECONNREFUSED}
			}
			return memnet.Link{}
		})
		r.PutLocal("x", steprig.Content(1000))
		_, err := r.Run(t.Context(), "sftp.upload", object{"local_path": "x"})
		steprig.WantError(t, err, false, `connection "partner" (files.example.com:22): upload "x": the connection is lost`, "connecting again to see the outcome", "connection refused")
		if n := strings.Count(err.Error(), "connection is lost"); n != 1 {
			t.Errorf("the loss is told %d times: %v", n, err)
		}
	})
}

// TestManyFilesFault fails one of several files.
func TestManyFilesFault(t *testing.T) {
	for _, fault := range []error{errBroken, sftpserver.ErrDrop} {
		synctest.Test(t, func(t *testing.T) {
			var broken atomic.Bool
			broken.Store(true)
			r := newRig(t, sftpserver.Options{Fault: func(o sftpserver.Op) error {
				if !broken.Load() {
					return nil
				}
				if o.Path == "/in/17" && o.Method == "read" || strings.HasPrefix(o.Path, "/out/17") && o.Method == "write" {
					return fault
				}
				return nil
			}})
			var in, out, all []string
			for i := range 40 {
				name := fmt.Sprintf("%d", i)
				r.Put("in/"+name, steprig.Content(300_000))
				in, out, all = append(in, "in/"+name), append(out, "out/"+name), append(all, "in/"+name, "out/"+name)
			}
			r.Put("out/0", nil)
			download := object{"remote_path": "in", "local_path": "in/"}
			_, err := r.Run(t.Context(), "sftp.download", download)
			steprig.WantError(t, err, false, `connection "partner" (files.example.com:22): download "in/`)
			if fault == errBroken && !strings.Contains(err.Error(), "in/17") {
				t.Error(err)
			}
			for _, f := range steprig.Tree(t, r.Work) {
				if strings.Contains(f, ".courier-tmp") {
					t.Errorf("%s was left behind", f)
				}
			}
			broken.Store(false)
			r.Must(r.Retry(t.Context(), "sftp.download", download))
			steprig.WantTree(t, r.Work, in...)

			broken.Store(true)
			upload := object{"local_path": "in/*", "remote_path": "out"}
			_, err = r.Run(t.Context(), "sftp.upload", upload)
			steprig.WantError(t, err, false, `upload "out/`)
			broken.Store(false)
			r.Must(r.Retry(t.Context(), "sftp.upload", upload))
			steprig.WantTree(t, r.Remote, all...)
			for _, f := range out {
				if r.Get(f) != string(steprig.Content(300_000)) {
					t.Errorf("%s differs", f)
				}
			}
		})
	}
}
