package sftpserver_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pkg/sftp"

	"github.com/courierhq/courier/internal/test/sftpserver"
)

// newHostile starts a hostile server for ada.
func newHostile(t *testing.T, script sftpserver.Script, opt sftpserver.Options) *rig {
	t.Helper()
	opt.Users = map[string]string{"ada": "secret"}
	s, err := sftpserver.NewHostile(script, &opt)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, s, "")
}

// TestHostileFriendly uses a hostile server as if it were a good one.
func TestHostileFriendly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		content := bytes.Repeat([]byte("0123456789"), 20_000)
		r := newHostile(t, sftpserver.Script{
			Dir:     "/in/deep",
			Entries: []sftpserver.Entry{{Name: "a"}, {Name: "b", Attrs: &sftpserver.Attrs{Size: math.MaxInt64, Mode: 0o644, ModTime: time.Unix(7, 0)}}},
			Content: content,
		}, sftpserver.Options{MaxRead: 10_000})
		c := r.client()
		for dir, want := range map[string]int{"/in/deep": 2, "/in": 0, "/in/deep/": 2} {
			if infos, err := c.ReadDir(dir); err != nil || len(infos) != want {
				t.Errorf("ReadDir(%q) = %v, %v, want %d entries", dir, infos, err, want)
			}
		}
		for p, want := range map[string]string{
			"/": "drwx------ 0", "/in": "drwx------ 0", "/in/deep": "drwx------ 0",
			"/in/deep/a": "-rw------- 200000", "/in/deep/b": "-rw-r--r-- 9223372036854775807", "/x": "-rw------- 200000",
		} {
			info, err := c.Stat(p)
			if err != nil || fmt.Sprint(info.Mode(), " ", info.Size()) != want {
				t.Errorf("Stat(%q) = %v, %v, want %s", p, info, err, want)
			}
		}
		f, err := c.Open("/in/deep/a")
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer // not io.ReadAll: beyond its packet size, the client library takes a short answer for the end
		if n, err := io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{f}, make([]byte, 32<<10)); err != nil || !bytes.Equal(got.Bytes(), content) {
			t.Errorf("Copy = %d bytes, %v", n, err)
		}
		f.Close()
		f, err = c.OpenFile("/new", os.O_WRONLY|os.O_CREATE|os.O_EXCL)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Write([]byte("hello"))
		if err := errors.Join(err, f.Truncate(2), f.Sync(), f.Close(), c.Rename("a", "b"), c.PosixRename("a", "b"), c.Remove("a"), c.Mkdir("a")); err != nil {
			t.Errorf("changes: %v", err)
		}
		if _, err := c.StatVFS("/"); code(err) != 8 {
			t.Errorf("StatVFS = %v, want unsupported", err)
		}
		ops := fmt.Sprint(r.Ops())
		for _, want := range []string{
			fmt.Sprintf(`open "/new" flag %#x`, os.O_WRONLY|os.O_CREATE|os.O_EXCL), `write "/new" [0:5]`, `setstat "/new" size 2`,
			`fsync "/new"`, `rename "a" to "b"`, `posix-rename "a" to "b"`, `readdir "/in/deep" after 2`, `read "/in/deep/a" [10000:`,
		} {
			if !strings.Contains(ops, want) {
				t.Errorf("Ops lacks %s:\n%s", want, ops)
			}
		}
	})
}

// TestHostileNames sends names that no decent server sends.
func TestHostileNames(t *testing.T) {
	names := []string{"../../../../etc/cron.d/x", "/abs/x", "x/..", "..", ".", "/", "", `..\..\win`, "new\r\nline", "a\x00b", "-rf", "\xff\xfe", strings.Repeat("n", 70_000), "CON", "a:b", "trailing. "}
	var entries []sftpserver.Entry
	for _, name := range names {
		entries = append(entries, sftpserver.Entry{Name: name, LongName: "-rw------- 1 " + name})
	}
	bubble(t, func(t *testing.T) {
		r := newHostile(t, sftpserver.Script{Entries: entries}, sftpserver.Options{})
		s := r.raw()
		s.exchange(1, []byte{0, 0, 0, 3})
		handle := s.exchange(11, []byte("\x00\x00\x00\x01"+str("/")))
		answer := s.exchange(12, append([]byte("\x00\x00\x00\x02"), handle[5:]...))
		if answer[0] != 104 || binary.BigEndian.Uint32(answer[5:]) != uint32(len(names)) {
			t.Fatalf("answer of type %d", answer[0])
		}
		rest := answer[9:]
		take := func() string {
			n := binary.BigEndian.Uint32(rest)
			s := string(rest[4 : 4+n])
			rest = rest[4+n:]
			return s
		}
		for _, want := range names {
			if got, long := take(), take(); got != want || long != "-rw------- 1 "+want {
				t.Errorf("name %.40q (%.40q), want %.40q", got, long, want)
			}
			rest = rest[24:]
		}
		if answer := s.exchange(12, append([]byte("\x00\x00\x00\x03"), handle[5:]...)); answer[0] != 101 || answer[8] != 1 {
			t.Errorf("after the names: %q, want the end", answer)
		}

		// Under such names there is a file like any other.
		f, err := r.client().Open("/" + names[8])
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if !slices.ContainsFunc(r.Ops(), func(o sftpserver.Op) bool { return o.Method == "open" && o.Path == "/new\r\nline" }) {
			t.Errorf("Ops lacks the raw path: %v", r.Ops())
		}
	})
}

func TestHostileEndless(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		r := newHostile(t, sftpserver.Script{Endless: true, Entries: []sftpserver.Entry{{Name: "a"}, {Name: "b"}, {Name: "c"}}},
			sftpserver.Options{Fault: func(o sftpserver.Op) error {
				if o.Method == "readdir" {
					if n++; n == 1000 {
						cancel()
					}
				}
				return nil
			}})
		_, err := r.client().ReadDirContext(ctx, "/")
		if !errors.Is(err, context.Canceled) {
			t.Errorf("ReadDirContext = %v, want it to go on until cancelled", err)
		}
	})
}

// TestHostileAnswers lets the script answer by itself.
func TestHostileAnswers(t *testing.T) {
	flood := func(_ sftpserver.Request, w io.Writer) bool {
		for p := make([]byte, 1<<16); ; {
			if _, err := w.Write(p); err != nil {
				return true
			}
		}
	}
	for _, test := range []struct {
		name, method string
		answer       func(r sftpserver.Request, w io.Writer) bool
	}{
		{"oversized", "read", func(r sftpserver.Request, w io.Writer) bool { w.Write(r.Oversized(1 << 30)); return true }},
		{"truncated", "read", func(r sftpserver.Request, w io.Writer) bool { w.Write(r.Oversized(20_000)); return true }},
		{"more data than asked for", "read", func(r sftpserver.Request, w io.Writer) bool { w.Write(r.Contents(make([]byte, 200_000))); return true }},
		{"another id", "stat", func(r sftpserver.Request, w io.Writer) bool { r.ID += 77; w.Write(r.Status(0, "")); return true }},
		{"another type", "stat", func(r sftpserver.Request, w io.Writer) bool { w.Write(r.Packet(103, nil)); return true }},
		{"no version", "init", func(r sftpserver.Request, w io.Writer) bool { w.Write(r.Status(0, "")); return true }},
		{"silence", "init", func(sftpserver.Request, io.Writer) bool { return true }},
		{"endless", "list", flood},
		{"denied", "open", func(r sftpserver.Request, w io.Writer) bool { w.Write(r.Status(3, "go away")); return true }},
		{"odd entries", "readdir", func(r sftpserver.Request, w io.Writer) bool {
			w.Write(r.Names(sftpserver.Entry{Name: "x/.."}, sftpserver.Entry{}))
			w.Write(r.Status(1, "")) // to a request that nobody made
			return true
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newHostile(t, sftpserver.Script{
					Content: []byte("content"),
					Answer: func(r sftpserver.Request, w io.Writer) bool {
						return r.Method == test.method && test.answer(r, w)
					},
				}, sftpserver.Options{})
				done := make(chan error, 1)
				conn, err := r.login(r.ada())
				if err != nil {
					t.Fatal(err)
				}
				go func() { done <- useAll(asResult(sftp.NewClient(conn))) }()
				select {
				case <-done:
				case <-time.After(time.Hour):
					conn.Close() // what a client's watchdog has to do
					<-done
				}
				if r.Count(test.method) == 0 {
					t.Errorf("no %s among %v", test.method, r.Ops())
				}
			})
		})
	}
}

type result struct {
	*sftp.Client
	err error
}

func asResult(c *sftp.Client, err error) result { return result{c, err} }

// useAll calls what the answers above are for; a client library may do anything
// but panic or hang with them.
func useAll(c result) error {
	if c.err != nil {
		return c.err
	}
	_, statErr := c.Stat("/a")
	_, listErr := c.ReadDir("/")
	f, err := c.Open("/a")
	if err == nil {
		_, err = f.ReadAt(make([]byte, 10), 0)
		f.Close()
	}
	return errors.Join(statErr, listErr, err)
}

// TestHostileFaults has the hooks at work in a hostile server.
func TestHostileFaults(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newHostile(t, sftpserver.Script{}, sftpserver.Options{Fault: failing("stat", "/a", os.ErrNotExist)})
		c := r.client()
		if _, err := c.Stat("/a"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("Stat = %v, want not exist", err)
		}
		if _, err := c.Stat("/b"); err != nil {
			t.Errorf("Stat of another file: %v", err)
		}
	})
	bubble(t, func(t *testing.T) {
		r := newHostile(t, sftpserver.Script{}, sftpserver.Options{Fault: failing("stat", "", sftpserver.ErrDrop)})
		if _, err := r.client().Stat("/a"); err == nil {
			t.Error("Stat on a dropped connection succeeded")
		}
	})
	if _, err := sftpserver.NewHostile(sftpserver.Script{}, nil); err == nil {
		t.Error("NewHostile without users succeeded")
	}
}
