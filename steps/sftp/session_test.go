package sftp_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/internal/test/steprig"
)

// TestReconnect loses the connection between steps: that costs no attempt.
func TestReconnect(t *testing.T) {
	for name, lose := range map[string]func(*rig){
		"cut":           func(r *rig) { r.net.Cut() },
		"black hole":    func(r *rig) { r.net.Stall() },
		"black hole, 1": func(r *rig) { r.net.Stall(); time.Sleep(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, sftpserver.Options{})
				r.Put("x", steprig.Content(100))
				r.Must(r.Run(t.Context(), "sftp.list", nil))
				time.Sleep(10 * time.Second) // another step works
				lose(r)
				steprig.Within(t, 20*time.Second, func() { r.Must(r.Run(t.Context(), "sftp.download", object{"remote_path": "x"})) })
				if n := r.net.Dialed(); n != 2 {
					t.Errorf("%d connections, want 2", n)
				}
			})
		})
	}
}

// connectionsOf says how many connections one attempt of a download may lose,
// and whether it goes on with another one.
var connectionsOf = map[bool]time.Duration{false: 1, true: 1 + remote.MaxReconnects}

// TestKeepAlive leaves a connection idle for long, and finds out in time that
// one is dead.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.Must(r.Run(t.Context(), "sftp.list", nil))
		time.Sleep(24 * time.Hour)
		r.Must(r.Run(t.Context(), "sftp.list", nil))
		if n := r.net.Dialed(); n != 1 {
			t.Errorf("%d connections after an idle day, want 1", n)
		}
	})
	for keepAlive, limit := range map[time.Duration]time.Duration{0: 5 * time.Minute, 2 * time.Second: 6 * time.Second, 15 * time.Second: 45 * time.Second} {
		for resume, tries := range connectionsOf {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, sftpserver.Options{})
				r.Put("x", steprig.Content(1<<20))
				n := int64(100_000)
				r.net.SetLink(func(int) memnet.Link { return memnet.Link{Down: memnet.Flow{StallAfter: &n}} })
				r.conn.KeepAlive = &keepAlive
				start := time.Now()
				_, err := r.Run(t.Context(), "sftp.download", object{"remote_path": "x", "resume": resume})
				if took := time.Since(start); took > tries*(limit+time.Second) || took < tries*(limit-time.Second) {
					t.Errorf("keep-alive %v, resume %v: the end came after %v, want %v", keepAlive, resume, took, tries*limit)
				}
				if keepAlive > 0 {
					steprig.WantError(t, err, false, "nothing has come from the server for too long")
				} else {
					steprig.WantError(t, err, false, "the server has stopped answering requests")
				}
			})
		}
	}
}

// TestOperationTimeout has the SFTP server hang while the SSH server lives on.
func TestOperationTimeout(t *testing.T) {
	for _, method := range []string{"stat", "open", "read", "close", "list", "readdir", "realpath"} {
		for resume, tries := range connectionsOf {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, sftpserver.Options{Fault: failing(method, "", sftpserver.ErrHang)})
				r.Put("x", steprig.Content(100))
				r.conn.OperationTimeout = 90 * time.Second
				key, cfg := "sftp.download", object{"remote_path": "x", "resume": resume}
				switch method {
				case "list", "readdir":
					key, cfg, tries = "sftp.list", nil, 1
				case "realpath":
					err := r.Validate(t.Context(), "sftp.list", nil)
					steprig.WantError(t, err, false, "stopped answering")
					return
				}
				steprig.Within(t, tries*91*time.Second, func() {
					_, err := r.Run(t.Context(), key, cfg)
					if method != "close" {
						steprig.WantError(t, err, false, "stopped answering")
					}
				})
			})
		}
	}
}

// TestCancel ends the context at any time of a slow transfer: the step returns
// with the cause at once, leaves nothing open and nothing under a final name, and
// no part once it is rolled back.
func TestCancel(t *testing.T) {
	slow := memnet.Flow{Latency: 50 * time.Millisecond, Rate: 1 << 20}
	for key, cfg := range map[string]object{
		"sftp.download": {"remote_path": "source", "local_path": "target"},
		"sftp.upload":   {"local_path": "source", "remote_path": "target"},
		"sftp.list":     nil,
	} {
		for _, after := range []time.Duration{0, time.Millisecond, 60 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 700 * time.Millisecond, time.Second, 1500 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, sftpserver.Options{})
				r.Put("source", steprig.Content(2<<20))
				r.PutLocal("source", steprig.Content(2<<20))
				r.net.SetLink(func(int) memnet.Link { return memnet.Link{Up: slow, Down: slow} })
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(after, func() { cancel(courier.ErrCancelled) })
				var err error
				steprig.Within(t, after, func() { _, err = r.Run(ctx, key, cfg) })
				if err == nil && key == "sftp.list" {
					return
				}
				if !errors.Is(err, courier.ErrCancelled) || courier.IsPermanent(err) {
					t.Errorf("%s, cancelled after %v: %v", key, after, err)
				}
				for _, dir := range []string{r.Remote, r.Work} {
					for _, f := range steprig.Tree(t, dir) {
						if f == "target" {
							t.Errorf("%s, cancelled after %v: there is a target", key, after)
						}
					}
				}
				if key != "sftp.list" {
					if err := r.Cancel(key, cfg); err != nil {
						t.Error(err)
					}
					steprig.WantTree(t, r.Work, "source")
					steprig.WantTree(t, r.Remote, "source")
				}
			})
		}
	}
}

// TestProgress checks what observers see.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		const size = 3 << 20
		r.PutLocal("x", steprig.Content(size))
		for _, step := range []struct {
			key, item string
			cfg       object
		}{
			{"sftp.upload", "y", object{"local_path": "x", "remote_path": "y"}},
			{"sftp.download", "y", object{"remote_path": "y", "local_path": "z"}},
		} {
			r.ForgetReports()
			seen := false
			r.OnProgress = func(p courier.Progress) {
				if p.Done == size {
					got := r.Get("y")
					if step.key == "sftp.download" {
						got = r.GetLocal("z")
					}
					seen = got == string(steprig.Content(size))
				}
			}
			r.Must(r.Run(t.Context(), step.key, step.cfg))
			last := int64(0)
			for _, p := range r.Reports() {
				if p.Item == "" && p.Stage == "transfer" {
					continue // before the first byte
				}
				if p.Item != step.item || p.Total != size || p.Done < last || p.Bytes != p.Done {
					t.Errorf("%s: report %+v after %d", step.key, p, last)
				}
				last = p.Done
			}
			if last != size || len(r.Reports()) < 10 || !seen {
				t.Errorf("%s: %d reports up to %d; complete when the last came: %v", step.key, len(r.Reports()), last, seen)
			}
		}
	})
}

// TestSlowEnd has the server take minutes to make a file durable. Progress is
// reported meanwhile, so that the step isn't taken for stalled.
func TestSlowEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{Fault: func(o sftpserver.Op) error {
			if o.Method == "fsync" {
				time.Sleep(4 * time.Minute)
			}
			return nil
		}})
		r.PutLocal("x", steprig.Content(1000))
		var longest time.Duration
		last := time.Now()
		r.OnProgress = func(courier.Progress) {
			longest = max(longest, time.Since(last))
			last = time.Now()
		}
		r.Must(r.Run(t.Context(), "sftp.upload", object{"local_path": "x"}))
		if longest > time.Minute {
			t.Errorf("%v without progress", longest)
		}
	})
}

// TestParallel uses the session of an execution from several steps at once, as
// iterations that run in parallel will.
func TestParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		for i := range 10 {
			r.Put(fmt.Sprint(i), steprig.Content(300_000+i))
		}
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				cfg := object{"remote_path": fmt.Sprint(i), "local_path": fmt.Sprintf("%d.down", i)}
				if _, err := r.Run(t.Context(), "sftp.download", cfg); err != nil {
					t.Error(err)
				}
				if r.GetLocal(cfg["local_path"]) != string(steprig.Content(300_000+i)) {
					t.Errorf("file %d differs", i)
				}
			})
		}
		wg.Wait()
		if n := r.net.Dialed(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
	})
}

// TestClosedUnderIt closes what the execution keeps open while a step connects,
// and while it transfers: an abandoned step must come to its end.
func TestClosedUnderIt(t *testing.T) {
	for _, hang := range []string{"connect", "login", "read"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, sftpserver.Options{Fault: failing(hang, "", sftpserver.ErrHang)})
			r.Put("x", steprig.Content(100))
			var done atomic.Bool
			go func() {
				_, err := r.Run(context.WithoutCancel(t.Context()), "sftp.download", object{"remote_path": "x"})
				steprig.WantError(t, err, false, "closed")
				done.Store(true)
			}()
			time.Sleep(time.Second)
			r.Resources.Close()
			synctest.Wait()
			if !done.Load() {
				t.Errorf("hanging at %s, the step goes on after everything was closed", hang)
			}
			time.Sleep(time.Minute)
		})
	}
}

// TestChangingSource changes the file while it is downloaded.
func TestChangingSource(t *testing.T) {
	const size = 1 << 20
	grown := string(steprig.Content(size)) + "more"
	for name, change := range map[string]func(dir string){
		"grows":    func(dir string) { writeInPlace(dir, "x", grown) },
		"shrinks":  func(dir string) { writeInPlace(dir, "x", grown[:size/2]) },
		"touched":  func(dir string) { touch(dir, "x") },
		"replaced": func(dir string) { remove(dir, "x"); writeInPlace(dir, "x", strings.Repeat("n", size)); touch(dir, "x") },
	} {
		for _, at := range []string{"open", "read", "close"} {
			t.Run(name+" at "+at, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var r *rig
					changed := false
					r = newRig(t, sftpserver.Options{FaultAfter: func(o sftpserver.Op) error {
						if o.Method == at && !changed {
							changed = true
							change(r.Remote)
						}
						return nil
					}})
					r.Put("x", steprig.Content(size))
					_, err := r.Run(t.Context(), "sftp.download", object{"remote_path": "x", "local_path": "y"})
					steprig.WantError(t, err, false, "changed")
					steprig.WantTree(t, r.Work)
					r.Must(r.Retry(t.Context(), "sftp.download", object{"remote_path": "x", "local_path": "y"}))
					if r.GetLocal("y") != r.Get("x") {
						t.Error("the content differs")
					}
				})
			})
		}
	}
	// A file that goes away when it has been read is complete: some servers
	// hand out a file only once.
	synctest.Test(t, func(t *testing.T) {
		var r *rig
		r = newRig(t, sftpserver.Options{FaultAfter: func(o sftpserver.Op) error {
			if o.Method == "close" {
				remove(r.Remote, "x")
			}
			return nil
		}})
		r.Put("x", steprig.Content(size))
		r.Must(r.Run(t.Context(), "sftp.download", object{"remote_path": "x", "local_path": "y"}))
		if r.GetLocal("y") != string(steprig.Content(size)) {
			t.Error("the content differs")
		}
	})
}

// TestChangingLocal changes the local file while it is uploaded.
func TestChangingLocal(t *testing.T) {
	const size = 1 << 20
	for name, change := range map[string]func(dir string){
		"grows":   func(dir string) { writeInPlace(dir, "x", string(steprig.Content(size))+"more") },
		"shrinks": func(dir string) { writeInPlace(dir, "x", "less") },
		"touched": func(dir string) { touch(dir, "x") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r *rig
				changed := false
				r = newRig(t, sftpserver.Options{Fault: func(o sftpserver.Op) error {
					if o.Method == "open" && !changed {
						changed = true
						change(r.Work)
					}
					return nil
				}})
				r.PutLocal("x", steprig.Content(size))
				_, err := r.Run(t.Context(), "sftp.upload", object{"local_path": "x"})
				steprig.WantError(t, err, false, "changed")
				steprig.WantTree(t, r.Remote)
				r.Must(r.Retry(t.Context(), "sftp.upload", object{"local_path": "x"}))
				if r.GetLocal("x") != r.Get("x") {
					t.Error("the content differs")
				}
			})
		})
	}
}

func TestValidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.Put("dir/file", nil)
		for _, test := range []struct {
			key   string
			cfg   object
			texts []string // nil means that all is well
		}{
			{"sftp.list", nil, nil},
			{"sftp.list", object{"remote_path": "dir"}, nil},
			{"sftp.list", object{"remote_path": "none"}, []string{`list "none": no such file`}},
			{"sftp.list", object{"remote_path": "dir/file"}, []string{"is not a directory"}},
			{"sftp.list", object{"pattern": "["}, []string{"malformed"}},
			{"sftp.download", object{"remote_path": "dir/file"}, nil},
			{"sftp.download", object{"remote_path": "dir"}, nil},
			{"sftp.download", object{"remote_path": "none"}, []string{`download "none": no such file`}},
			{"sftp.download", object{"remote_path": "dir", "local_path": "/none/x"}, []string{"local_path", "engine.Options.Roots"}},
			{"sftp.upload", object{"local_path": "later"}, nil},
			{"sftp.upload", object{"local_path": "later", "remote_path": "dir"}, nil},
			{"sftp.upload", object{"local_path": "later", "remote_path": "dir/new"}, nil},
			{"sftp.upload", object{"local_path": "later", "remote_path": "dir/file"}, nil},
			{"sftp.upload", object{"local_path": "later", "remote_path": "dir/file", "if_exists": "fail"}, []string{"exists"}},
			{"sftp.upload", object{"local_path": "later", "remote_path": "none/new"}, []string{`upload to "none": no such file`}},
			{"sftp.upload", object{"local_path": "later", "remote_path": "none/"}, []string{`upload to "none/": no such file`}},
			{"sftp.upload", object{"local_path": "later", "remote_path": "dir/file/x"}, []string{`upload to "dir/file`}},
			{"sftp.upload", object{"local_path": "/later"}, []string{"local_path", "engine.Options.Roots"}},
			{"sftp.stat", object{"remote_path": "none"}, nil},
			{"sftp.mkdir", object{"remote_path": "none/x"}, nil},
			{"sftp.mkdir", object{"remote_path": "dir/file"}, []string{"is not a directory"}},
			{"sftp.rmdir", object{"remote_path": "dir"}, nil},
			{"sftp.rmdir", object{"remote_path": "none"}, nil},
			{"sftp.rmdir", object{"remote_path": "dir/file"}, []string{"files are for sftp.delete"}},
			{"sftp.rmdir", object{"remote_path": "/"}, []string{"is not removed"}},
			{"sftp.delete", object{"remote_path": "dir/file"}, nil},
			{"sftp.delete", object{"remote_path": "none", "ignore_missing": false}, []string{`delete "none": no such file`}},
			{"sftp.delete", object{"remote_path": "dir"}, []string{"is a directory"}},
			{"sftp.delete", object{"remote_path": "none", "pattern": "*"}, []string{`list "none": no such file`}},
			{"sftp.rename", object{"source_path": "dir/file", "destination_path": "x"}, nil},
			{"sftp.rename", object{"source_path": "none", "destination_path": "x"}, []string{`rename "none": no such file`}},
		} {
			err := r.Validate(t.Context(), test.key, test.cfg)
			if test.texts == nil && err != nil {
				t.Errorf("%s %v: %v", test.key, test.cfg, err)
			} else if test.texts != nil {
				steprig.WantError(t, err, courier.IsPermanent(err), test.texts...)
			}
		}
		steprig.WantTree(t, r.Remote, "dir/file")
		if r.Count("write", "remove", "rename", "posix-rename", "mkdir", "rmdir") > 0 {
			t.Error("Validate has changed something")
		}
	})
}

// TestUnresolved validates configurations of which parts are known only at run
// time.
func TestUnresolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		for _, key := range []string{"sftp.list", "sftp.download", "sftp.upload"} {
			for _, field := range []string{"connection_id", "remote_path", "local_path"} {
				job := courier.NewContext(courier.ContextConfig{Resources: r.Resources, Unresolved: []string{field}})
				typ, _ := r.Registry.Lookup(key)
				cfg := object{"remote_path": "/", "local_path": "x"}
				if key == "sftp.list" {
					delete(cfg, "local_path")
				}
				if cfg[field] != nil {
					cfg[field] = "context:not.yet"
				}
				if err := typ.Validate(t.Context(), job, steprig.ConfigOf(cfg)); err != nil && field != "local_path" {
					t.Errorf("%s without %s: %v", key, field, err)
				}
				job.Close()
			}
		}
	})
}

// TestLeftovers removes what a crashed attempt left, and nothing else.
func TestLeftovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		long := strings.Repeat("n", 255)
		for _, name := range []string{"x", long} {
			r.PutLocal(name, steprig.Content(10))
			r.Attempt = 1
			var sides []string
			for range 3 {
				sides = append(sides, stepcontext.Of(r.Job()).SideName(name))
				r.Attempt++
			}
			others := []string{"x.courier-tmp", "x.courier-tmp-other-3-1.1", "y" + sides[0]}
			for _, f := range append(sides, others...) {
				r.Put(f, []byte("half"))
			}
			cfg := object{"local_path": name, "remote_path": "."}
			if err := r.Cleanup(t.Context(), "sftp.upload", cfg); err != nil {
				t.Fatal(err)
			}
			steprig.WantTree(t, r.Remote, others...)
			out := r.Must(r.Run(t.Context(), "sftp.upload", cfg))
			if out["uploaded_file"] != name {
				t.Errorf("uploaded %v", out["uploaded_file"])
			}
			for _, f := range append(others, name) {
				remove(r.Remote, f)
			}
		}
		// Where listing is forbidden, too, and for many files.
		for i := range 100 {
			r.PutLocal(fmt.Sprintf("many/%d", i), nil)
		}
		r.Attempt = 2
		for _, f := range []string{"many/7", "many/99"} {
			r.Put(f+strings.TrimPrefix(stepcontext.Of(r.Job()).SideName("x"), "x"), nil)
		}
		r.Put("many/keep", nil)
		if err := r.Cleanup(t.Context(), "sftp.upload", object{"local_path": "many/*", "remote_path": "many"}); err != nil {
			t.Fatal(err)
		}
		steprig.WantTree(t, r.Remote, "many/keep")
		if r.Count("remove") > 50 {
			t.Errorf("%d removals", r.Count("remove"))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{Fault: failing("list", "", fs.ErrPermission)})
		r.PutLocal("x", nil)
		r.Attempt = 7
		r.Put(stepcontext.Of(r.Job()).SideName("x"), nil)
		if err := r.Cleanup(t.Context(), "sftp.upload", object{"local_path": "x"}); err != nil {
			t.Fatal(err)
		}
		steprig.WantTree(t, r.Remote)
	})
}

// TestCleanupDownload removes the unfinished local files of all attempts, and
// needs no server for it.
func TestCleanupDownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.conn.Dial = func(context.Context, string, string) (net.Conn, error) {
			t.Error("Cleanup has connected")
			return nil, errBroken
		}
		r.Attempt = 3
		side := stepcontext.Of(r.Job()).SideName("x")
		for _, f := range []string{"3/1/" + side, "3/2/" + side, "3/3/" + side, "dir/" + side, side} {
			r.PutLocal(f, nil)
		}
		for _, f := range []string{"3/1/keep", "4/1/" + side, "dir/other.courier-tmp-1"} {
			r.PutLocal(f, nil)
		}
		for _, cfg := range []object{{"remote_path": "x"}, {"remote_path": "x", "local_path": "dir"}, {"remote_path": "x", "local_path": "x"}, {"remote_path": "x", "local_path": "none/x"}} {
			if err := r.Cleanup(t.Context(), "sftp.download", cfg); err != nil {
				t.Error(err)
			}
		}
		steprig.WantTree(t, r.Work, "3/1/keep", "4/1/"+side, "dir/other.courier-tmp-1")
	})
}

// TestBigFile moves 32 MiB over a long line, and looks at the time that takes.
// For what else may be configured, 12 MiB do.
// An SSH channel lets 2 MiB through per round trip; several channels do more.
func TestBigFile(t *testing.T) {
	const most, some = 32 << 20, 12 << 20
	openSSH := func(c *ssh.ServerConfig) { c.ServerVersion = "SSH-2.0-OpenSSH_9.9" }
	for _, test := range []struct {
		name     string
		size     int
		opt      sftpserver.Options
		channels int
		sessions int // that are opened, in all
		limit    time.Duration
	}{
		{"one channel", most, sftpserver.Options{}, 0, 1, 800 * time.Millisecond},
		{"OpenSSH", most, sftpserver.Options{Configure: openSSH}, 0, 8, 540 * time.Millisecond},
		{"as configured", some, sftpserver.Options{}, 2, 2, 680 * time.Millisecond},
		{"OpenSSH, as configured", some, sftpserver.Options{Configure: openSSH}, 1, 1, 800 * time.Millisecond},
		{"few sessions", some, sftpserver.Options{Configure: openSSH, MaxSessions: 2}, 0, 4, 680 * time.Millisecond},
		{"one handle", some, sftpserver.Options{Configure: openSSH, Fault: func(o sftpserver.Op) error {
			if o.Method == "open" && o.Flag&os.O_CREATE == 0 && strings.Contains(o.Path, "courier-tmp") {
				return fs.ErrPermission
			}
			return nil
		}}, 0, 8, 800 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, test.opt)
				r.conn.Channels = test.channels
				r.PutLocal("x", steprig.Content(test.size))
				r.Put("y", steprig.Content(test.size))
				r.net.SetLink(func(int) memnet.Link {
					return memnet.Link{Up: memnet.Flow{Latency: 10 * time.Millisecond}, Down: memnet.Flow{Latency: 10 * time.Millisecond}}
				})
				for _, step := range []struct {
					key string
					cfg object
				}{
					{"sftp.upload", object{"local_path": "x", "remote_path": "x"}},
					{"sftp.download", object{"remote_path": "y", "local_path": "y"}},
				} {
					r.again()
					before := r.Count("session")
					start := time.Now()
					r.Must(r.Run(t.Context(), step.key, step.cfg))
					if took := time.Since(start); took > test.limit {
						t.Errorf("%s of %d MiB with 20 ms per round trip took %v, want %v", step.key, test.size>>20, took, test.limit)
					}
					if n := r.Count("session") - before; n > test.sessions {
						t.Errorf("%s: %d sessions, want %d", step.key, n, test.sessions)
					}
				}
				if r.Get("x") != string(steprig.Content(test.size)) || r.GetLocal("y") != string(steprig.Content(test.size)) {
					t.Error("the content differs")
				}
			})
		})
	}
}

// TestManyBigFiles spreads several files over the channels.
func TestManyBigFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.conn.Channels = 3
		for i := range 7 {
			r.Put(fmt.Sprintf("in/%d", i), steprig.Content(1<<20+i))
		}
		r.Put("out/keep", nil)
		r.Must(r.Run(t.Context(), "sftp.download", object{"remote_path": "in", "local_path": "in/"}))
		r.Must(r.Run(t.Context(), "sftp.upload", object{"local_path": "in/*", "remote_path": "out"}))
		for i := range 7 {
			if r.Get(fmt.Sprintf("out/%d", i)) != string(steprig.Content(1<<20+i)) {
				t.Errorf("file %d differs", i)
			}
		}
		if n := r.Count("session"); n != 3 {
			t.Errorf("%d sessions, want 3", n)
		}
	})
}

func writeInPlace(dir, name, text string) {
	os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
}

func touch(dir, name string) {
	name = filepath.Join(dir, name)
	later := time.Now().Add(time.Hour)
	chtimes(name, later)
}
