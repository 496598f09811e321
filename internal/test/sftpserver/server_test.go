package sftpserver_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/courierhq/courier/internal/test/sftpserver"
)

func TestRoundTrip(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		roundTrip(t, r, r.client(sftp.UseConcurrentWrites(true)))
	})
}

func TestRoundTripTCP(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("serve", func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- r.Serve(l) }()
		known := filepath.Join(t.TempDir(), "known_hosts")
		if err := os.WriteFile(known, []byte(r.KnownHostsLine(l.Addr().String())+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		config := r.ada()
		if config.HostKeyCallback, err = knownhosts.New(known); err != nil {
			t.Fatal(err)
		}
		conn, err := ssh.Dial("tcp", l.Addr().String(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		c, err := sftp.NewClient(conn, sftp.UseConcurrentWrites(true), sftp.MaxPacketUnchecked(255<<10))
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, r, c)
		if err := errors.Join(c.Close(), r.Close(), <-done); err != nil {
			t.Errorf("Close: %v", err)
		}
		if conn.Wait() == nil {
			t.Error("the connection outlived the server")
		}
		if err := r.Serve(l); err != nil {
			t.Errorf("Serve after Close = %v, want nil", err)
		}
	})
	for i := 0; runtime.NumGoroutine() > before; i++ {
		if i == 1000 {
			buf := make([]byte, 1<<20)
			t.Fatalf("goroutines left:\n%s", buf[:runtime.Stack(buf, true)])
		}
		time.Sleep(time.Millisecond) // those of package ssh end on their own
	}
}

// roundTrip does with c whatever the server can.
func roundTrip(t *testing.T, r *rig, c *sftp.Client) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	want := make([]byte, 3<<20+17)
	rand.NewChaCha8([32]byte{}).Read(want)

	must(c.Mkdir("in"))
	f, err := c.OpenFile("in/a.bin.tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	must(err)
	n, err := f.ReadFrom(bytes.NewReader(want))
	must(err)
	must(f.Sync())
	must(f.Close())
	if n != int64(len(want)) || r.get("in/a.bin.tmp") != string(want) {
		t.Errorf("uploaded %d of %d bytes, or other ones", n, len(want))
	}
	if info, err := os.Stat(filepath.Join(r.dir, "in/a.bin.tmp")); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode of a new file = %v, %v, want 0600", info.Mode(), err)
	}
	must(c.Rename("in/a.bin.tmp", "/in/a.bin"))
	when := time.Unix(1234567890, 0)
	must(c.Chtimes("in/a.bin", when, when))
	must(c.Chmod("in/a.bin", 0o4640))
	for _, stat := range []func(string) (os.FileInfo, error){c.Stat, c.Lstat} {
		info, err := stat("/in/a.bin")
		must(err)
		if info.Size() != int64(len(want)) || !info.ModTime().Equal(when) || info.Mode() != 0o640 {
			t.Errorf("Stat = %d bytes, %v, %v", info.Size(), info.ModTime(), info.Mode())
		}
	}

	f, err = c.Open("in/a.bin")
	must(err)
	var got bytes.Buffer
	_, err = f.WriteTo(&got)
	must(err)
	must(f.Close())
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("downloaded %d of %d bytes, or other ones", got.Len(), len(want))
	}

	f, err = c.OpenFile("in/a.bin", os.O_RDWR)
	must(err)
	must(f.Truncate(5))
	_, err = f.WriteAt([]byte("hello"), 0)
	must(err)
	text := make([]byte, 5)
	_, err = f.ReadAt(text, 0)
	must(err)
	must(f.Close())
	f, err = c.OpenFile("in/a.bin", os.O_WRONLY|os.O_APPEND)
	must(err)
	_, err = f.Write([]byte(" world"))
	must(err)
	must(f.Close())
	if string(text) != "hello" || r.get("in/a.bin") != "hello world" {
		t.Errorf("read %q, file is %q", text, r.get("in/a.bin"))
	}

	for i := range 250 {
		r.put(fmt.Sprintf("many/%03d \xe4", i), []byte("x"))
	}
	infos, err := c.ReadDir("many")
	must(err)
	if len(infos) != 250 || infos[7].Name() != "007 \xe4" || infos[7].Size() != 1 {
		t.Errorf("ReadDir = %d entries, the eighth is %q of %d bytes", len(infos), infos[7].Name(), infos[7].Size())
	}

	if _, err := c.OpenFile("in/a.bin", os.O_WRONLY|os.O_CREATE|os.O_EXCL); err == nil {
		t.Error("an exclusive open of an existing file succeeded")
	}
	if err := c.Chown("in/a.bin", 1, 1); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Chown = %v, want refused", err)
	}
	if c.PosixRename("/", "new") == nil || c.Rename("/", "new") == nil || c.Rename("many", "many/deeper") == nil {
		t.Error("an impossible rename succeeded")
	}
	if c.Remove("many") == nil || c.RemoveDirectory("in/a.bin") == nil || c.RemoveDirectory("/") == nil {
		t.Error("Remove of the wrong kind of file succeeded")
	}
	must(c.Remove("in/a.bin"))
	must(c.RemoveDirectory("in"))
	if _, err := c.Stat("in"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat of a removed directory = %v, want not exist", err)
	}
	wd, err := c.Getwd()
	must(err)
	if wd != "/" {
		t.Errorf("Getwd = %q, want /", wd)
	}
}

func TestRename(t *testing.T) {
	for _, test := range []struct {
		name    string
		opt     sftpserver.Options
		rename  func(c *sftp.Client) func(from, to string) error
		offered bool
		want    string
	}{
		{"plain", sftpserver.Options{}, func(c *sftp.Client) func(a, b string) error { return c.Rename }, true, "old"},
		{"plain, replacing", sftpserver.Options{RenameReplaces: true}, func(c *sftp.Client) func(a, b string) error { return c.Rename }, true, "new"},
		{"posix", sftpserver.Options{}, func(c *sftp.Client) func(a, b string) error { return c.PosixRename }, true, "new"},
		{"no posix", sftpserver.Options{NoPosixRename: true}, func(c *sftp.Client) func(a, b string) error { return c.PosixRename }, false, "old"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, test.opt)
				r.put("a", []byte("new"))
				r.put("b", []byte("old"))
				r.put("d/x", nil)
				c := r.client()
				if _, ok := c.HasExtension("posix-rename@openssh.com"); ok != test.offered {
					t.Errorf("posix-rename offered = %v, want %v", ok, test.offered)
				}
				err := test.rename(c)("/a", "/b")
				if ok := test.want == "new"; r.get("b") != test.want || (err == nil) != ok {
					t.Errorf("rename = %v, file is %q, want %q", err, r.get("b"), test.want)
				}
				if r.get("a") != "new" && test.want == "old" {
					t.Error("a refused rename moved the file")
				}
				if err := c.Rename("d", "e"); err != nil {
					t.Errorf("rename of a directory: %v", err)
				}
				if err := c.Rename("gone", "f"); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("rename of nothing = %v, want not exist", err)
				}
			})
		})
	}
}

func TestExtensions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{NoFsync: true, NoLimits: true})
		c := r.client()
		for _, name := range []string{"fsync@openssh.com", "limits@openssh.com", "statvfs@openssh.com", "hardlink@openssh.com"} {
			if _, ok := c.HasExtension(name); ok {
				t.Errorf("%s is offered", name)
			}
		}
		if _, err := c.StatVFS("/"); code(err) != 8 {
			t.Errorf("StatVFS = %v, want unsupported", err)
		}
		if err := c.Link("a", "b"); code(err) != 8 && code(err) != 3 {
			t.Errorf("Link = %v, want unsupported or refused", err)
		}
	})
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{MaxRead: 1000})
		s := r.raw()
		version := s.exchange(1, []byte{0, 0, 0, 3})
		if want := "\x00\x00\x00\x03" + str("posix-rename@openssh.com") + str("1") + str("fsync@openssh.com") + str("1") + str("limits@openssh.com") + str("1"); string(version) != "\x02"+want {
			t.Errorf("version = %q, want %q", version, want)
		}
		limits := s.exchange(200, []byte("\x00\x00\x00\x07"+str("limits@openssh.com")))
		if want := "\xc9\x00\x00\x00\x07\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x03\xe8\x00\x00\x00\x00\x00\x03\xfc\x00\x00\x00\x00\x00\x00\x00\x04\x00"; string(limits) != want {
			t.Errorf("limits = %q, want %q", limits, want)
		}
	})
}

// TestEscape tries to leave the directory in every way a path can.
func TestEscape(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		outside := filepath.Join(filepath.Dir(r.dir), "canary")
		if err := os.WriteFile(outside, []byte("alive"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.put("inside", []byte("in"))
		for name, target := range map[string]string{"abs": outside, "rel": "../canary", "up": "..", "fine": "inside"} {
			if err := os.Symlink(target, filepath.Join(r.dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		c := r.client()
		for _, p := range []string{"../canary", "/../canary", "x/../../canary", outside, "abs", "rel", "up/canary", "/up/../../canary", "./up/canary", "up", "a\x00b", "..", ""} {
			if f, err := c.Open(p); err == nil {
				f.Close()
				t.Errorf("Open(%q) succeeded", p)
			}
			if p != "abs" && p != "rel" {
				if f, err := c.OpenFile(p, os.O_WRONLY|os.O_TRUNC); err == nil {
					f.Close()
					t.Errorf("OpenFile(%q) succeeded", p)
				}
			}
			if f, err := c.OpenFile(path.Join(p, "made"), os.O_WRONLY|os.O_CREATE); err == nil {
				f.Close() // inside, if ".." was cut off
				c.Remove(path.Join(p, "made"))
			}
			if err := c.Truncate(p, 0); err == nil {
				t.Errorf("Truncate(%q) succeeded", p)
			}
			c.Chmod(p, 0)
			c.Chtimes(p, time.Unix(1, 0), time.Unix(1, 0))
			c.PosixRename("inside", path.Join(p, "moved"))
			c.PosixRename(path.Join(p, "moved"), "inside")
		}
		for _, p := range []string{"abs", "rel", "up"} {
			if _, err := c.Stat(p); err == nil {
				t.Errorf("Stat(%q) followed the link", p)
			}
			if info, err := c.Lstat(p); err != nil || info.Mode().Type() != os.ModeSymlink {
				t.Errorf("Lstat(%q) = %v, %v, want a link", p, info, err)
			}
			if _, err := c.ReadLink(p); code(err) != 3 {
				t.Errorf("ReadLink(%q) = %v, want refused", p, err)
			}
		}
		if err := c.Symlink("/etc/passwd", "new"); code(err) != 3 {
			t.Errorf("Symlink = %v, want refused", err)
		}
		if f, err := c.Open("fine"); err != nil {
			t.Errorf("a link that stays inside was refused: %v", err)
		} else {
			f.Close()
		}
		b, err := os.ReadFile(outside)
		info, _ := os.Stat(outside)
		files, _ := os.ReadDir(filepath.Dir(r.dir))
		if string(b) != "alive" || err != nil || info.Mode() != 0o600 || info.ModTime().Unix() == 1 || len(files) != 2 {
			t.Errorf("outside: canary = %q, %v, %v, %d files, want it untouched and alone with the root", b, err, info, len(files))
		}
	})
}
