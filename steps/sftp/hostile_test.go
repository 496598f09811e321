package sftp_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/test/hostile"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/internal/test/steprig"
)

// TestHostileNames lists and downloads from a server that sends such names
// among good ones. Only the good ones may have any effect.
func TestHostileNames(t *testing.T) {
	bad := hostile.Names()
	good := hostile.Odd()
	if runtime.GOOS == "windows" {
		bad = append(bad, hostile.Windows()...)
	} else {
		good = append(good, hostile.Windows()...)
	}
	var entries []sftpserver.Entry
	for i, name := range append(append([]string{}, bad...), good...) {
		entries = append(entries, sftpserver.Entry{Name: name, LongName: "-rw------- 1 0 0 5 " + name})
		if i%3 == 0 {
			entries = append(entries, sftpserver.Entry{Name: "good.csv"}) // listed again and again
		}
	}
	synctest.Test(t, func(t *testing.T) {
		r := newHostile(t, sftpserver.Script{Dir: "/in", Entries: entries, Content: []byte("12345")})
		out := r.Must(r.Run(t.Context(), "sftp.list", object{"remote_path": "/in"}))
		got := map[string]bool{}
		for _, f := range out["file_list"].([]any) {
			f := f.(object)
			name := f["name"].(string)
			got[name] = true
			if f["path"] != "/in/"+name || safename.Check(name) != nil {
				t.Errorf("listed %v", f)
			}
		}
		for _, name := range good {
			if !got[name] {
				t.Errorf("%q is not listed", name)
			}
		}
		// "." and ".." are in every listing, and no cause for alarm.
		if want := len(entries) - len(good) - 2; len(got) != len(good) || out["unsafe_count"] != float64(want) {
			t.Errorf("%d files and %v skipped, want %d and %d", len(got), out["unsafe_count"], len(good), want)
		}
		if log := r.Log.String(); strings.ContainsAny(log, "\x00\x1b\x07\r") || strings.Count(log, "\n") > 20 || !strings.Contains(log, "skipped") {
			t.Errorf("the log has %d lines:\n%.2000q", strings.Count(log, "\n"), log)
		}

		r.Must(r.Run(t.Context(), "sftp.download", object{"remote_path": "/in", "local_path": "down/"}))
		var want []string
		for _, name := range good {
			want = append(want, "down/"+name)
		}
		steprig.WantTree(t, r.Work, want...)
		if info, err := os.ReadDir(filepath.Dir(r.Work)); err != nil || len(info) != 1 {
			t.Errorf("beside the workspace there is %v, %v", info, err)
		}
		for _, o := range r.Ops() {
			if name := strings.TrimPrefix(o.Path, "/in/"); o.Method == "open" && !got[name] {
				t.Errorf("opened %q", o.Path)
			}
		}

		_, err := r.Run(t.Context(), "sftp.list", object{"remote_path": "/in", "on_unsafe_name": "fail"})
		steprig.WantError(t, err, true, `list "/in"`, "entries can't be used", `set on_unsafe_name to "skip"`)
		_, err = r.Run(t.Context(), "sftp.download", object{"remote_path": "/in", "on_unsafe_name": "fail"})
		steprig.WantError(t, err, true, "entries can't be used")
		// What the pattern leaves out does no harm.
		r.Must(r.Run(t.Context(), "sftp.list", object{"remote_path": "/in", "pattern": "größe*", "on_unsafe_name": "fail"}))
	})
}

// TestHostileDelete lists such names to the steps that delete. Only the good
// ones may be asked for.
func TestHostileDelete(t *testing.T) {
	bad := hostile.Names()
	var entries []sftpserver.Entry
	for _, name := range append(bad, "good.csv") {
		entries = append(entries, sftpserver.Entry{Name: name})
	}
	synctest.Test(t, func(t *testing.T) {
		r := newHostile(t, sftpserver.Script{Dir: "/in", Entries: entries, Content: []byte("12345")})
		out := r.Must(r.Run(t.Context(), "sftp.delete", object{"remote_path": "/in", "pattern": "*"}))
		if out["deleted_count"] != 1. || out["deleted_file"] != "/in/good.csv" {
			t.Errorf("%v", out)
		}
		_, err := r.Run(t.Context(), "sftp.rmdir", object{"remote_path": "/in", "recursive": true})
		steprig.WantError(t, err, true, "leads elsewhere")
		for _, o := range r.Ops() {
			if o.Method == "remove" && o.Path != "/in/good.csv" || o.Method == "rmdir" {
				t.Errorf("it asked for %v", o)
			}
		}
	})
}

// TestHostileAttributes lists impossible sizes and times.
func TestHostileAttributes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := func(name string, a sftpserver.Attrs) sftpserver.Entry { return sftpserver.Entry{Name: name, Attrs: &a} }
		then := time.Unix(1e9, 0)
		r := newHostile(t, sftpserver.Script{Dir: "/in", Content: []byte("12345"), Entries: []sftpserver.Entry{
			file("negative", sftpserver.Attrs{Size: -1, Mode: 0o600, ModTime: then}),
			file("lowest", sftpserver.Attrs{Size: math.MinInt64, Mode: 0o600, ModTime: then}),
			file("huge", sftpserver.Attrs{Size: math.MaxInt64, Mode: 0o600, ModTime: then}),
			file("early", sftpserver.Attrs{Size: 5, Mode: 0o600, ModTime: time.Unix(0, 0)}),
			file("late", sftpserver.Attrs{Size: 5, Mode: 0o600, ModTime: time.Unix(1<<32-1, 0)}),
			file("pipe", sftpserver.Attrs{Mode: os.ModeNamedPipe | 0o600, ModTime: then}),
			file("device", sftpserver.Attrs{Mode: os.ModeDevice | 0o600, ModTime: then}),
			file("smaller", sftpserver.Attrs{Size: 4, Mode: 0o600, ModTime: then}),
			file("vast", sftpserver.Attrs{Size: 1 << 30, Mode: 0o600, ModTime: then}),
			file("larger", sftpserver.Attrs{Size: 6, Mode: 0o600, ModTime: then}),
			file("empty", sftpserver.Attrs{Size: 0, Mode: 0o600, ModTime: then}),
		}})
		out := r.Must(r.Run(t.Context(), "sftp.list", object{"remote_path": "/in"}))
		text := fmt.Sprint(out["file_list"])
		if out["file_count"] != 7. || out["unsafe_count"] != 2. || !strings.Contains(text, "2106-02-07T06:28:15Z") || !strings.Contains(text, "1970-01-01T00:00:00Z") || strings.Contains(text, "pipe") {
			t.Errorf("list = %v", out)
		}
		for name, want := range map[string]string{
			"negative": "gives a size of 18446744073709551615 bytes",
			"lowest":   "gives a size of 9223372036854775808 bytes",
			"pipe":     "is not a regular file",
			"device":   "is not a regular file",
			"huge":     "max_bytes allows",
			"vast":     "ends before its size is reached",
			"larger":   "ends before its size is reached",
			"smaller":  "goes on after its size",
			"empty":    "goes on after its size",
		} {
			_, err := r.Run(t.Context(), "sftp.download", object{"remote_path": "/in/" + name})
			steprig.WantError(t, err, strings.Contains(want, "gives") || strings.Contains(want, "regular") || strings.Contains(want, "max_bytes"), want)
		}
		steprig.WantTree(t, r.Work)
	})
}

// TestHostileEndless lists a directory without end, in each of the ways.
func TestHostileEndless(t *testing.T) {
	many := make([]sftpserver.Entry, 1000)
	for i := range many {
		many[i].Name = fmt.Sprintf("%d-%s", i, strings.Repeat("n", 200))
	}
	words := strings.Repeat("l", 2_000) // so that the limit of bytes is reached with few answers
	for name, script := range map[string]sftpserver.Script{
		"same names": {Endless: true, Entries: []sftpserver.Entry{{Name: "a"}, {Name: "b"}}},
		"long names": {Endless: true, Entries: many},
		"bad names":  {Endless: true, Entries: []sftpserver.Entry{{Name: "a/b"}}},
		"no names": {Answer: func(r sftpserver.Request, w io.Writer) bool {
			if r.Method == "readdir" {
				w.Write(r.Names())
			}
			return r.Method == "readdir"
		}},
		"dots": {Endless: true, Entries: []sftpserver.Entry{{Name: ".", LongName: words}, {Name: "..", LongName: words}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newHostile(t, script)
				_, err := r.Run(t.Context(), "sftp.list", object{"remote_path": "/"})
				if err == nil || !strings.Contains(err.Error(), "more than 100000 files") && !strings.Contains(err.Error(), "longer than 64 MiB") && !strings.Contains(err.Error(), "goes on without entries") {
					t.Errorf("error is %v", err)
				}
			})
		})
	}
}

// TestHostilePackets answers each request with nonsense. The step must fail
// without a panic, without a hang and without a file.
func TestHostilePackets(t *testing.T) {
	nonsense := map[string]func(r sftpserver.Request) []byte{
		"nothing":         func(r sftpserver.Request) []byte { return []byte{} },
		"zero length":     func(r sftpserver.Request) []byte { return make([]byte, 4) },
		"short":           func(r sftpserver.Request) []byte { return []byte{0, 0, 0, 1, 103} },
		"no body":         func(r sftpserver.Request) []byte { return r.Packet(104, nil) },
		"huge length":     func(r sftpserver.Request) []byte { return []byte{0xff, 0xff, 0xff, 0xff, 103, 0, 0, 0, 1} },
		"text":            func(r sftpserver.Request) []byte { return []byte("Welcome to \x1b[1mthe machine\r\n") },
		"unknown type":    func(r sftpserver.Request) []byte { return r.Packet(250, []byte("x")) },
		"wrong id":        func(r sftpserver.Request) []byte { r.ID += 1000; return r.Status(0, "") },
		"twice":           func(r sftpserver.Request) []byte { return append(r.Status(4, "no"), r.Status(4, "no")...) },
		"success":         func(r sftpserver.Request) []byte { return r.Status(0, "") },
		"short status":    func(r sftpserver.Request) []byte { return r.Packet(101, []byte{0, 0}) },
		"bare status":     func(r sftpserver.Request) []byte { return r.Packet(101, []byte{0, 0, 0, 4}) },
		"strange status":  func(r sftpserver.Request) []byte { return r.Status(4711, strings.Repeat("\x1b[2J", 10_000)) },
		"end of file":     func(r sftpserver.Request) []byte { return r.Status(1, "") },
		"names without":   func(r sftpserver.Request) []byte { return r.Packet(104, []byte{0xff, 0xff, 0xff, 0xff}) },
		"name too long":   func(r sftpserver.Request) []byte { return r.Packet(104, []byte{0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff}) },
		"short attrs":     func(r sftpserver.Request) []byte { return r.Packet(105, []byte{0, 0, 0, 15, 1}) },
		"attrs with many": func(r sftpserver.Request) []byte { return r.Packet(105, []byte{0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}) },
		"attrs without":   func(r sftpserver.Request) []byte { return r.Packet(105, []byte{0, 0, 0, 0}) },
		"long handle": func(r sftpserver.Request) []byte {
			return r.Packet(102, append([]byte{0, 1, 0, 0}, make([]byte, 1<<16)...))
		},
		"short handle":  func(r sftpserver.Request) []byte { return r.Packet(102, []byte{0, 0, 0, 9, 1}) },
		"no data":       func(r sftpserver.Request) []byte { return r.Contents(nil) },
		"too much data": func(r sftpserver.Request) []byte { return r.Contents(make([]byte, 200<<10)) },
		"data short":    func(r sftpserver.Request) []byte { return r.Packet(103, []byte{0, 0, 1, 0, 1, 2, 3}) },
		"data huge":     func(r sftpserver.Request) []byte { return r.Packet(103, []byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3}) },
		"version again": func(r sftpserver.Request) []byte { return []byte{0, 0, 0, 5, 2, 0, 0, 0, 3} },
		"oversized":     func(r sftpserver.Request) []byte { return r.Oversized(math.MaxInt32) },
	}
	requests := map[string][]string{
		"sftp.list":     {"init", "extended", "list", "readdir", "close"},
		"sftp.download": {"stat", "open", "read", "close"},
		"sftp.upload":   {"stat", "open", "write", "fsync", "close", "posix-rename", "lstat"},
	}
	configs := map[string]object{
		"sftp.list": {"remote_path": "/"}, "sftp.download": {"remote_path": "/x", "local_path": "down"}, "sftp.upload": {"local_path": "x", "remote_path": "/x"},
	}
	content := bytes.Repeat([]byte("x"), 1000)
	for key, methods := range requests {
		for _, method := range methods {
			t.Run(key+"/"+method, func(t *testing.T) {
				t.Parallel()
				for name, answer := range nonsense {
					synctest.Test(t, func(t *testing.T) {
						r := newHostile(t, sftpserver.Script{Content: content, Entries: []sftpserver.Entry{{Name: "x"}}, Answer: func(r sftpserver.Request, w io.Writer) bool {
							if r.Method == method {
								w.Write(answer(r))
							}
							return r.Method == method
						}})
						r.PutLocal("x", content)
						r.conn.ConnectTimeout, r.conn.OperationTimeout = 20*time.Second, 20*time.Second
						var err error
						steprig.Within(t, 90*time.Second, func() { _, err = r.Run(t.Context(), key, configs[key]) })
						if err != nil {
							steprig.WantError(t, err, courier.IsPermanent(err), `connection "partner"`)
							steprig.WantTree(t, r.Work, "x")
						} else if got := r.GetLocal("down"); key == "sftp.download" && got != string(content) {
							t.Errorf("%s: success, with %d bytes", name, len(got))
						}
					})
				}
			})
		}
	}
}

// TestServerText shows what a server prints that should not.
func TestServerText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHostile(t, sftpserver.Script{Answer: func(r sftpserver.Request, w io.Writer) bool {
			io.WriteString(w, "This service allows sftp connections only.\r\n\x1b[2J")
			return true
		}})
		_, err := r.Run(t.Context(), "sftp.list", nil)
		steprig.WantError(t, err, false, "connect", "breaks the SFTP protocol", "This service allows", "start-up script")
	})
	synctest.Test(t, func(t *testing.T) {
		r := newHostile(t, sftpserver.Script{Answer: func(r sftpserver.Request, w io.Writer) bool {
			w.Write([]byte{0, 0, 0, 5, 2, 0, 0, 0, 6})
			return true
		}})
		_, err := r.Run(t.Context(), "sftp.list", nil)
		steprig.WantError(t, err, false, "offers version 6 instead of 3")
	})
}

// TestLimits obeys, or ignores, what a server says about the size of packets.
func TestLimits(t *testing.T) {
	for _, test := range []struct{ read, write, wantRead, wantWrite uint64 }{
		{0, 0, 32 << 10, 32 << 10},
		{1, 1, 512, 512},
		{1000, 2000, 1000, 2000},
		{1 << 40, math.MaxUint64, 255 << 10, 255 << 10},
	} {
		synctest.Test(t, func(t *testing.T) {
			data := bytes.Repeat([]byte("x"), 600_000)
			var largestRead, largestWrite uint64
			r := newHostile(t, sftpserver.Script{Content: data, Answer: func(r sftpserver.Request, w io.Writer) bool {
				switch {
				case r.Method == "read":
					largestRead = max(largestRead, uint64(r.Length))
				case r.Method == "write":
					largestWrite = max(largestWrite, uint64(r.Length))
				case r.Method == "lstat" && strings.Contains(r.Path, ".courier-tmp"):
					w.Write(r.Status(2, ""))
					return true
				case r.Method == "extended" && strings.HasPrefix(r.Path, "limits"):
					var b []byte
					for _, n := range []uint64{1 << 18, test.read, test.write, 10} {
						b = binary.BigEndian.AppendUint64(b, n)
					}
					w.Write(r.Packet(201, b))
					return true
				}
				return false
			}})
			r.PutLocal("x", data)
			r.Must(r.Run(t.Context(), "sftp.download", object{"remote_path": "/y", "local_path": "y"}))
			r.Must(r.Run(t.Context(), "sftp.upload", object{"local_path": "x", "remote_path": "/y"}))
			if largestRead != test.wantRead || largestWrite != test.wantWrite {
				t.Errorf("limits %d and %d: requests of %d and %d, want %d and %d", test.read, test.write, largestRead, largestWrite, test.wantRead, test.wantWrite)
			}
		})
	}
}
