package sftpserver_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/sftp"

	"github.com/courierhq/courier/internal/test/sftpserver"
)

// operations are client calls, each with the operation that a fault has to hit.
// They work on the files in/a and in/b; those marked lose nothing if skipped.
var operations = []struct {
	method string
	skips  bool
	call   func(c *sftp.Client) error
}{
	{"open", false, func(c *sftp.Client) error { return opened(c.Open("/in/a"))((*sftp.File).Close) }},
	{"read", false, func(c *sftp.Client) error {
		return opened(c.Open("/in/a"))(func(f *sftp.File) error { _, err := f.ReadAt(make([]byte, 3), 0); return err })
	}},
	{"write", true, func(c *sftp.Client) error {
		return opened(c.OpenFile("/in/a", os.O_WRONLY))(func(f *sftp.File) error { _, err := f.Write([]byte("new")); return err })
	}},
	{"fsync", true, func(c *sftp.Client) error {
		return opened(c.OpenFile("/in/a", os.O_WRONLY))((*sftp.File).Sync)
	}},
	{"close", true, func(c *sftp.Client) error { return opened(c.Open("/in/a"))((*sftp.File).Close) }},
	{"list", false, func(c *sftp.Client) error { _, err := c.ReadDir("/in"); return err }},
	{"readdir", false, func(c *sftp.Client) error { _, err := c.ReadDir("/in"); return err }},
	{"stat", false, func(c *sftp.Client) error { _, err := c.Stat("/in/a"); return err }},
	{"lstat", false, func(c *sftp.Client) error { _, err := c.Lstat("/in/a"); return err }},
	{"realpath", false, func(c *sftp.Client) error { _, err := c.RealPath("in/a"); return err }},
	{"setstat", true, func(c *sftp.Client) error { return c.Truncate("/in/a", 1) }},
	{"rename", true, func(c *sftp.Client) error { return c.Rename("/in/a", "/in/c") }},
	{"posix-rename", true, func(c *sftp.Client) error { return c.PosixRename("/in/a", "/in/b") }},
	{"remove", true, func(c *sftp.Client) error { return c.Remove("/in/a") }},
	{"mkdir", true, func(c *sftp.Client) error { return c.Mkdir("/in/new") }},
	{"rmdir", true, func(c *sftp.Client) error { return c.RemoveDirectory("/empty") }},
}

// opened calls f with a file that was opened, and closes it.
func opened(file *sftp.File, err error) func(func(*sftp.File) error) error {
	return func(f func(*sftp.File) error) error {
		if err != nil {
			return err
		}
		return errors.Join(f(file), ignoreClosed(file.Close()))
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// tree returns the names and contents under the root.
func (r *rig) tree() string {
	var b strings.Builder
	err := filepath.WalkDir(r.dir, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(r.dir, p)
		b.WriteString(rel)
		if err == nil && d.Type().IsRegular() {
			fmt.Fprintf(&b, "=%s", r.get(rel))
		}
		b.WriteString(" ")
		return err
	})
	if err != nil {
		r.t.Error(err)
	}
	return b.String()
}

func (r *rig) fill() {
	r.put("in/a", []byte("aaa"))
	r.put("in/b", []byte("bbb"))
	if err := os.Mkdir(filepath.Join(r.dir, "empty"), 0o700); err != nil {
		r.t.Fatal(err)
	}
}

// TestFaults makes every operation go wrong in every way.
func TestFaults(t *testing.T) {
	boom := errors.New("quota exceeded")
	for _, op := range operations {
		run := func(name string, f func(t *testing.T)) {
			t.Run(op.method+"/"+name, func(t *testing.T) { bubble(t, f) })
		}
		run("none", func(t *testing.T) {
			r := newRig(t, sftpserver.Options{})
			r.fill()
			if err := op.call(r.client()); err != nil {
				t.Errorf("without a fault: %v", err)
			}
			if r.Count(op.method) == 0 {
				t.Errorf("%s isn't among %v", op.method, r.Ops())
			}
		})
		run("error", func(t *testing.T) {
			for _, e := range []struct {
				err  error
				code uint32
			}{{boom, 4}, {fs.ErrNotExist, 2}, {fmt.Errorf("no: %w", fs.ErrPermission), 3}, {sftp.ErrSSHFxBadMessage, 5}} {
				r := newRig(t, sftpserver.Options{Fault: failing(op.method, "", e.err)})
				r.fill()
				before := r.tree()
				err := op.call(r.client())
				if err == nil || code(err) != e.code || e.err == boom && !strings.Contains(err.Error(), boom.Error()) {
					t.Errorf("Fault %v: client got %v (code %d), want code %d", e.err, err, code(err), e.code)
				}
				if after := r.tree(); after != before {
					t.Errorf("a failed operation had an effect:\n%s\n%s", before, after)
				}
			}
		})
		run("after", func(t *testing.T) {
			r := newRig(t, sftpserver.Options{FaultAfter: failing(op.method, "", boom)})
			r.fill()
			before := r.tree()
			err := op.call(r.client())
			if op.method == "remove" { // the client library goes on with rmdir
				err = errors.Join(err, boom)
			}
			if err == nil || !strings.Contains(err.Error(), boom.Error()) {
				t.Errorf("client got %v, want %v", err, boom)
			}
			if changes := op.skips && op.method != "close" && op.method != "fsync"; changes != (r.tree() != before) {
				t.Errorf("tree changed: %v, want %v", !changes, changes)
			}
		})
		run("skip", func(t *testing.T) {
			r := newRig(t, sftpserver.Options{Fault: failing(op.method, "", sftpserver.ErrSkip)})
			r.fill()
			before := r.tree()
			if err := op.call(r.client()); (err == nil) != op.skips {
				t.Errorf("client got %v, want success: %v", err, op.skips)
			}
			if r.tree() != before {
				t.Error("a skipped operation had an effect")
			}
		})
		run("drop", func(t *testing.T) {
			r := newRig(t, sftpserver.Options{Fault: failing(op.method, "", sftpserver.ErrDrop)})
			r.fill()
			before := r.tree()
			start := time.Now()
			if err := op.call(r.client()); err == nil || time.Since(start) != 0 {
				t.Errorf("client got %v after %v, want a lost connection at once", err, time.Since(start))
			}
			r.ssh.Wait()
			if r.tree() != before {
				t.Error("a dropped operation had an effect")
			}
		})
		run("hang", func(t *testing.T) {
			r := newRig(t, sftpserver.Options{Fault: failing(op.method, "", sftpserver.ErrHang)})
			r.fill()
			before := r.tree()
			done := make(chan error)
			c := r.client()
			go func() { done <- op.call(c) }()
			select {
			case err := <-done:
				t.Errorf("client got %v, want no answer", err)
			case <-time.After(time.Hour):
				r.Close()
				<-done
			}
			if r.tree() != before {
				t.Error("an operation that hung had an effect")
			}
		})
	}
}

// TestHangUntilGone has a client that gives up waiting.
func TestHangUntilGone(t *testing.T) {
	for _, method := range []string{"connect", "login", "session", "sftp", "stat"} {
		t.Run(method, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, sftpserver.Options{LoginTimeout: time.Hour, Fault: failing(method, "", sftpserver.ErrHang)})
				done := make(chan struct{})
				go func() {
					defer close(done)
					conn, err := r.login(r.ada())
					if err != nil {
						return
					}
					if c, err := sftp.NewClient(conn); err == nil {
						c.Stat("/")
					}
				}()
				time.Sleep(time.Minute)
				synctest.Wait()
				r.net.Cut()
				<-done // without Server.Close
				if r.Count(method) != 1 {
					t.Errorf("%d times %s, want once", r.Count(method), method)
				}
			})
		})
	}
}

// TestDropPipelined drops the connection while further requests are under way.
func TestDropPipelined(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{Fault: failing("mkdir", "/a", sftpserver.ErrDrop)})
		s := r.raw()
		s.exchange(1, []byte{0, 0, 0, 3})
		body := "\x00\x00\x00\x01%s\x00\x00\x00\x00"
		s.w.Write(append(packet(14, fmt.Sprintf(body, str("a"))), packet(14, fmt.Sprintf(body, str("b")))...))
		r.ssh.Wait()
		r.Close()
		if r.tree() != ". " || r.Count("mkdir") != 1 {
			t.Errorf("tree is %q after %d mkdir, want nothing after one", r.tree(), r.Count("mkdir"))
		}
	})
}

// TestCloseWaits closes a server whose hook takes its time.
func TestCloseWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var ended atomic.Bool
		r := newRig(t, sftpserver.Options{Fault: func(o sftpserver.Op) error {
			if o.Method == "stat" {
				<-o.Done()
				time.Sleep(time.Minute)
				ended.Store(true)
			}
			return nil
		}})
		c := r.client()
		go c.Stat("/")
		synctest.Wait()
		r.Close()
		if !ended.Load() {
			t.Error("Close returned while a hook was running")
		}
	})
}

// TestDone has a hook that waits by itself.
func TestDone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var ended atomic.Int32
		r := newRig(t, sftpserver.Options{Fault: func(o sftpserver.Op) error {
			if o.Method == "stat" {
				<-o.Done()
				ended.Add(1)
			}
			return nil
		}})
		c := r.client()
		go c.Stat("/")
		synctest.Wait()
		if ended.Load() != 0 {
			t.Error("Done before the end")
		}
		r.net.Cut()
		synctest.Wait()
		if ended.Load() != 1 {
			t.Error("not Done after the connection's end")
		}
		for _, o := range r.Ops() {
			if o.Done() != nil {
				t.Errorf("%v in the log has a channel", o)
			}
		}
	})
}

func TestLoginTimeout(t *testing.T) {
	for name, opt := range map[string]sftpserver.Options{
		"silent client": {},
		"hanging login": {Fault: failing("login", "", sftpserver.ErrHang)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				opt.LoginTimeout = time.Minute
				r := newRig(t, opt)
				start := time.Now()
				if name == "silent client" {
					c, _ := r.net.DialContext(t.Context(), "tcp", "")
					defer c.Close()
					io.Copy(io.Discard, c)
				} else if _, err := r.login(r.ada()); err == nil {
					t.Error("login succeeded")
				}
				if time.Since(start) != time.Minute {
					t.Errorf("the server waited %v, want a minute", time.Since(start))
				}
			})
		})
	}
}

// TestLastWrite fails or loses the last chunk of an upload, as a full disk does.
func TestLastWrite(t *testing.T) {
	const size = 100_000
	for _, fault := range []error{errors.New("disk full"), sftpserver.ErrSkip} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sftpserver.Options{Fault: func(o sftpserver.Op) error {
				if o.Method == "write" && o.Offset+o.Length == size {
					return fault
				}
				return nil
			}})
			f, err := r.client().OpenFile("a", os.O_WRONLY|os.O_CREATE)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.ReadFrom(bytes.NewReader(make([]byte, size)))
			if lies := fault == sftpserver.ErrSkip; (err == nil) != lies {
				t.Errorf("fault %v: ReadFrom = %v", fault, err)
			}
			f.Close()
			if n := len(r.get("a")); n != size/32768*32768 {
				t.Errorf("%d bytes arrived, want all but the last chunk", n)
			}
		})
	}
}

func TestShortReads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{MaxRead: 1000})
		want := bytes.Repeat([]byte("0123456789"), 10_000)
		r.put("a", want)
		f, err := r.client().Open("a")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		got := make([]byte, 32<<10)
		if n, err := f.ReadAt(got, 5000); n != len(got) || err != nil || !bytes.Equal(got, want[5000:5000+n]) {
			t.Errorf("ReadAt = %d, %v", n, err)
		}
		reads := slices.DeleteFunc(r.Ops(), func(o sftpserver.Op) bool { return o.Method != "read" })
		if len(reads) != 33 || reads[1] != (sftpserver.Op{Method: "read", Path: "/a", Offset: 6000, Length: 31768}) {
			t.Errorf("%d reads, the second is %v", len(reads), reads[1])
		}
	})
}

// TestReadOnce shows how hooks make a mailbox, whose files are gone once they
// have been read, and spoilt when they are looked at while open.
func TestReadOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var dir string
		r := newRig(t, sftpserver.Options{FaultAfter: func(o sftpserver.Op) error {
			if o.Method == "close" {
				return os.Remove(filepath.Join(dir, o.Path))
			}
			return nil
		}})
		dir = r.dir
		r.put("letter", []byte("dear ada"))
		c := r.client()
		f, err := c.Open("letter")
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(f); string(b) != "dear ada" || err != nil {
			t.Errorf("ReadAll = %q, %v", b, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if _, err := c.Stat("letter"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Stat = %v, want not exist", err)
		}
	})
}

func TestLies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hostile := []string{"a", "../../etc/x", "..", ".", "", "/", "x/..", `..\..\win`, "new\r\nline", "a\x00b", "-rf", strings.Repeat("n", 5000), "\xff\xfe"}
		r := newRig(t, sftpserver.Options{
			Names: func(dir string, names []string) []string {
				if dir != "/in" || !slices.Equal(names, []string{"a", "b"}) {
					t.Errorf("Names(%q, %q)", dir, names)
				}
				return hostile
			},
			Attrs: func(p string, a *sftpserver.Attrs) {
				if p == "/in/a" {
					*a = sftpserver.Attrs{Size: math.MinInt64, Mode: os.ModeSymlink | 0o777, ModTime: time.Unix(1<<32-1, 0)}
				}
			},
		})
		r.fill()
		c := r.client()
		infos, err := c.ReadDir("/in")
		if err != nil {
			t.Fatal(err)
		}
		// The client library drops "." and ".." and takes the base of the rest.
		if len(infos) != len(hostile)-2 || infos[0].Size() != math.MinInt64 {
			t.Errorf("%d entries, the first of %d bytes", len(infos), infos[0].Size())
		}
		info, err := c.Stat("/in/a")
		if err != nil || info.Size() != math.MinInt64 || info.Mode() != os.ModeSymlink|0o777 || info.ModTime().Unix() != 1<<32-1 {
			t.Errorf("Stat = %v, %v", info, err)
		}
		if info, err := c.Stat("/in/b"); err != nil || info.Size() != 3 {
			t.Errorf("Stat of an honest file = %v, %v", info, err)
		}
	})
}

func TestOps(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		c := r.client()
		f, err := c.OpenFile("a b", os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
		if err != nil {
			t.Fatal(err)
		}
		f.Write([]byte("12345"))
		f.Chmod(0o600)
		f.Truncate(2)
		f.Sync()
		f.Stat()
		f.Close()
		c.PosixRename("a b", "c")
		c.ReadDir("/")
		c.Remove("gone")
		abandoned, err := c.Open("c")
		if err != nil || abandoned == nil {
			t.Fatal(err)
		}
		c.Close()
		r.Close()
		var got []string
		for _, o := range r.Ops() {
			got = append(got, o.String())
		}
		want := []string{
			`connect "192.0.2.2:1024"`, `login "ada"`, "session", "sftp", "init",
			fmt.Sprintf(`open "/a b" flag %#x`, os.O_WRONLY|os.O_CREATE|os.O_TRUNC),
			`write "/a b" [0:5]`, `setstat "/a b"`, `setstat "/a b" size 2`, `fsync "/a b"`, `stat "/a b"`, `close "/a b"`,
			`posix-rename "/a b" to "/c"`,
			`list "/"`, `readdir "/" after 0`, `readdir "/" after 1`, `close "/"`,
			`remove "/gone"`, `rmdir "/gone"`, // the client library tries both
			`open "/c" flag 0x0`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("Ops:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if r.Count("open", "close") != 4 {
			t.Errorf("Count = %d, want 2 open and 2 close", r.Count("open", "close"))
		}
	})
}
