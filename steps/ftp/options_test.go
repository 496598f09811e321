package ftp_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/test/ftpserver"
)

// losing loses the connection in place of the n-th answer to a command, which is
// carried out before.
func losing(verb string, n int64, do func(argument string)) func(*ftpserver.Conn, string, string) bool {
	var seen atomic.Int64
	return func(c *ftpserver.Conn, v, argument string) bool {
		if v != verb || seen.Add(1) != n {
			return false
		}
		do(argument)
		c.Close()
		return true
	}
}

// TestAfterDownload deletes or moves what was downloaded, and nothing else.
func TestAfterDownload(t *testing.T) {
	for _, opt := range []ftpserver.Options{{}, {NoRenameOver: true}} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, opt)
			for _, name := range []string{"in/a", "in/b", "in/c", "in/a.done", "in/b.done", "old/a"} {
				r.put(name, []byte(name))
			}
			out := r.must(r.run(t.Context(), "ftp.download", object{"remote_path": "in", "done_file": "*.done", "after_transfer": "move", "move_to": "old"}))
			if out["file_count"] != 2. || out["not_ready_count"] != 1. {
				t.Errorf("%v", out)
			}
			wantTree(t, r.remote, "in/c", "old/a", "old/b")
			if r.get("old/a") != "in/a" {
				t.Error("the file of that name was not replaced")
			}
			r.work = filepath.Join(t.TempDir(), "other")
			r.must(r.run(t.Context(), "ftp.download", object{"remote_path": "in/c", "after_transfer": "delete"}))
			wantTree(t, r.remote, "old/a", "old/b")
			_, err := r.run(t.Context(), "ftp.download", object{"remote_path": "in/none", "done_file": "*.done"})
			wantError(t, err, true, "no such file")
			r.put("in/d", nil)
			_, err = r.run(t.Context(), "ftp.download", object{"remote_path": "in/d", "done_file": "*.done"})
			wantError(t, err, false, `its done_file "in/d.done" is not there yet`)
			_, err = r.run(t.Context(), "ftp.download", object{"remote_path": "in", "done_file": "*.done"})
			wantError(t, err, false, "1 that are not yet")
		})
	}
}

// TestArchive moves whole trees, each file under a name of its own.
func TestArchive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, ftpserver.Options{})
		stamped := regexp.MustCompile(`-\d{8}T\d{6}\.\d{6}Z`)
		for round := range 2 {
			r.put("in/a.csv", []byte("a"))
			r.put("in/sub/b", []byte("b"))
			r.put("sent/keep", nil)
			r.work = filepath.Join(filepath.Dir(r.work), fmt.Sprint("work", round))
			r.putLocal("out/a.csv", []byte("a"))
			r.putLocal("out/sub/b", []byte("b"))
			out := r.must(r.run(t.Context(), "ftp.download", object{"remote_path": "in", "pattern": "**", "after_transfer": "archive", "move_to": "old"}))
			if out["file_count"] != 2. {
				t.Errorf("%v", out)
			}
			r.must(r.run(t.Context(), "ftp.upload", object{"local_path": "out/**", "remote_path": "sent/", "after_transfer": "archive", "move_to": "old"}))
			var names []string
			for _, name := range tree(t, filepath.Join(r.work, "old")) {
				names = append(names, stamped.ReplaceAllString(name, "-T"))
			}
			if got := strings.Join(names, " "); got != "a-T.csv sub/b-T" {
				t.Errorf("archived are %q", got)
			}
			time.Sleep(time.Second)
		}
		names := tree(t, filepath.Join(r.remote, "old"))
		if len(names) != 4 || !stamped.MatchString(names[0]) || !strings.HasSuffix(names[0], "Z.csv") || !strings.HasPrefix(names[2], "sub/b-") {
			t.Errorf("archived are %q", names)
		}
	})
}

// TestAfterDownloadAgain loses the answer to the deletion of the source, and a
// new source comes: it is kept, and the outputs are those of the first.
func TestAfterDownloadAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var r *rig
		r = newRig(t, ftpserver.Options{Answer: losing("DELE", 1, func(name string) { os.Remove(filepath.Join(r.remote, name)) })})
		r.put("in/a", []byte("old"))
		cfg := object{"remote_path": "in", "after_transfer": "delete"}
		_, err := r.run(t.Context(), "ftp.download", cfg)
		wantError(t, err, false, `delete "in/a"`, "connection is lost")
		r.put("in/a", []byte("newer"))
		out := r.must(r.retry(t.Context(), "ftp.download", cfg))
		if r.getLocal(out["downloaded_file"]) != "old" || r.get("in/a") != "newer" {
			t.Errorf("%v, %q, %q", out, r.getLocal(out["downloaded_file"]), r.get("in/a"))
		}
		if err := os.Remove(filepath.Join(r.work, out["downloaded_file"].(string))); err != nil {
			t.Fatal(err)
		}
		_, err = r.retry(t.Context(), "ftp.download", cfg)
		wantError(t, err, true, "an earlier attempt has downloaded it, but it is gone or has changed")
	})
}

// TestStableSeconds leaves out what is still being written.
func TestStableSeconds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, ftpserver.Options{})
		r.put("in/done", content(10))
		r.put("in/growing", content(10))
		grow := func() {
			time.Sleep(25 * time.Second)
			r.put("in/growing", content(11))
			r.put("in/new", content(11))
		}
		go grow()
		out := r.must(r.run(t.Context(), "ftp.download", object{"remote_path": "in", "stable_seconds": 40}))
		if out["file_count"] != 1. || out["not_ready_count"] != 2. {
			t.Errorf("%v", out)
		}
		go grow()
		out = r.must(r.run(t.Context(), "ftp.list", object{"remote_path": "in", "stable_seconds": 10}))
		if out["file_count"] != 3. || out["not_ready_count"] != 0. {
			t.Errorf("%v", out)
		}
		go func() {
			time.Sleep(25 * time.Second)
			r.put("in/growing", content(3))
			r.putLocal("out/growing", content(4))
		}()
		_, err := r.run(t.Context(), "ftp.download", object{"remote_path": "in/growing", "stable_seconds": 40})
		wantError(t, err, false, "it has changed within the 40 seconds")
		r.putLocal("out/done", content(5))
		go func() {
			time.Sleep(25 * time.Second)
			r.putLocal("out/growing", content(6))
		}()
		began := time.Now()
		out = r.must(r.run(t.Context(), "ftp.upload", object{"local_path": "out/*", "remote_path": "in/", "stable_seconds": 40}))
		if took := time.Since(began); out["file_count"] != 1. || took < 40*time.Second || took > 42*time.Second {
			t.Errorf("%v; it took %v", out, took)
		}
	})
}

// TestBandwidthLimit measures.
func TestBandwidthLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, ftpserver.Options{})
		for i := range 4 {
			r.put(fmt.Sprintf("in/%d", i), content(100_000))
			r.putLocal(fmt.Sprintf("out/%d", i), content(100_000))
		}
		for _, test := range []struct {
			key string
			cfg object
		}{
			{"ftp.download", object{"remote_path": "in", "bandwidth_limit": 10_000}},
			{"ftp.upload", object{"local_path": "out/*", "remote_path": "in/", "bandwidth_limit": 10_000}},
		} {
			began := time.Now()
			r.must(r.run(t.Context(), test.key, test.cfg))
			if took := time.Since(began); took < 38*time.Second || took > 45*time.Second {
				t.Errorf("%s: 400 kB with 10 kB/s took %v", test.key, took)
			}
		}
	})
}

// TestChecksum compares with what the partner says, and reads again.
func TestChecksum(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var lie atomic.Bool
		r := newRig(t, ftpserver.Options{Answer: func(c *ftpserver.Conn, verb, argument string) bool {
			if verb != "RETR" || !lie.CompareAndSwap(true, false) {
				return false
			}
			return sends("RETR", func(conn net.Conn) error { _, err := conn.Write(content(300_001)[1:]); return err })(c, verb, argument)
		}})
		r.put("in/x", content(300_000))
		cfg := object{"remote_path": "in/x", "checksum": "sidecar", "local_path": "x", "resume": true}
		_, err := r.run(t.Context(), "ftp.download", cfg)
		wantError(t, err, true, `checksum in "in/x.sha256"`, "550")
		sum := sha256.Sum256(content(300_000))
		r.put("in/x.sha256", []byte(strings.ToUpper(hex.EncodeToString(sum[:]))+"  x\n"))
		r.must(r.run(t.Context(), "ftp.download", cfg))
		out := r.must(r.run(t.Context(), "ftp.download", object{"remote_path": "in", "checksum": "sidecar"}))
		if out["file_count"] != 1. {
			t.Errorf("%v", out)
		}
		sum[0]++
		r.put("in/x.sha256", []byte(hex.EncodeToString(sum[:])))
		cfg = object{"remote_path": "in/x", "checksum": "sidecar"}
		_, err = r.run(t.Context(), "ftp.download", cfg)
		wantError(t, err, false, "the content has the SHA-256", "in/x.sha256")
		r.put("in/x.sha256", []byte("hello"))
		_, err = r.run(t.Context(), "ftp.download", cfg)
		wantError(t, err, true, `it begins with "hello"`)
		r.put("in/x.sha256", content(5000))
		_, err = r.run(t.Context(), "ftp.download", cfg)
		wantError(t, err, true, "is no file with a checksum")
		cfg = object{"remote_path": "in/x", "checksum": "read_back", "local_path": "y"}
		r.must(r.run(t.Context(), "ftp.download", cfg))
		lie.Store(true)
		_, err = r.run(t.Context(), "ftp.download", cfg)
		wantError(t, err, false, "the content differs when it is read again")
		if r.getLocal("y") != string(content(300_000)) {
			t.Error("the file was replaced nevertheless")
		}
	})
}

// TestSkipIfSame downloads and uploads nothing that is there already.
func TestSkipIfSame(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var moved atomic.Int64
		r := newRig(t, ftpserver.Options{Fault: func(verb, _ string) error {
			if verb == "RETR" || verb == "STOR" {
				moved.Add(1)
			}
			return nil
		}})
		r.put("x", content(1000))
		at := time.Unix(1_600_000_000, 0)
		if err := os.Chtimes(filepath.Join(r.remote, "x"), at, at); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			out := r.must(r.run(t.Context(), "ftp.download", object{"remote_path": "x", "local_path": "x", "skip_if_same": true}))
			if out["file_count"] != 1. || out["size"] != 1000. || out["skipped"] != false {
				t.Errorf("%v", out)
			}
			out = r.must(r.run(t.Context(), "ftp.upload", object{"local_path": "x", "remote_path": "y", "skip_if_same": true, "preserve": "times"}))
			if out["file_count"] != 1. || out["size"] != 1000. {
				t.Errorf("%v", out)
			}
		}
		if n := moved.Load(); n != 2 {
			t.Errorf("%d transfers, want 2", n)
		}
		r.must(r.run(t.Context(), "ftp.download", object{"remote_path": "x", "local_path": "z", "preserve": "none"}))
		if info, err := os.Stat(filepath.Join(r.work, "z")); err != nil || info.ModTime().Equal(at) {
			t.Errorf("the time was taken over: %v, %v", info.ModTime(), err)
		}
	})
}

// TestAfterUpload deletes or moves what was uploaded, and writes companions.
func TestAfterUpload(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, ftpserver.Options{})
		r.putLocal("out/a", []byte("a"))
		r.putLocal("out/sub/b", []byte("b"))
		r.put("in/a", nil)
		cfg := object{"local_path": "out/**", "remote_path": "in", "if_exists": "skip", "after_transfer": "move", "move_to": "sent", "checksum": "sidecar", "done_file": "done-*"}
		r.must(r.run(t.Context(), "ftp.upload", cfg))
		wantTree(t, r.remote, "in/a", "in/sub/b", "in/sub/b.sha256", "in/sub/done-b")
		if r.getLocal("sent/sub/b") != "b" || r.getLocal("out/a") != "a" {
			t.Errorf("local files are %q", tree(t, r.work))
		}
		sum := sha256.Sum256([]byte("b"))
		if got := r.get("in/sub/b.sha256"); got != hex.EncodeToString(sum[:])+"  b\n" {
			t.Errorf("sidecar = %q", got)
		}
		// Again, after the answer was lost: nothing happens, and the outputs are the same.
		r.putLocal("out/sub/b", []byte("new"))
		out := r.must(r.retry(t.Context(), "ftp.upload", cfg))
		if out["file_count"] != 1. || r.get("in/sub/b") != "b" || r.getLocal("out/sub/b") != "new" {
			t.Errorf("%v", out)
		}
		r.work = filepath.Join(t.TempDir(), "other")
		r.putLocal("out/sub/b", []byte("new"))
		r.must(r.run(t.Context(), "ftp.upload", object{"local_path": "out/sub/b", "remote_path": "in/sub/", "after_transfer": "delete"}))
		if r.get("in/sub/b") != "new" || !strings.Contains(r.getLocal("out/sub/b"), "no such file") {
			t.Errorf("%q, %q", r.get("in/sub/b"), r.getLocal("out/sub/b"))
		}
	})
}

// TestNoParent makes the directories that a pattern finds, but not remote_path.
func TestNoParent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, ftpserver.Options{})
		r.putLocal("out/sub/deep/b", []byte("b"))
		_, err := r.run(t.Context(), "ftp.upload", object{"local_path": "out/**", "remote_path": "typo/"})
		wantError(t, err, true, `make directory "typo/sub"`)
		r.put("in/keep", nil)
		r.must(r.run(t.Context(), "ftp.upload", object{"local_path": "out/**", "remote_path": "in/"}))
		wantTree(t, r.remote, "in/keep", "in/sub/deep/b")
		r.put("in/other/x", nil)
		r.putLocal("out/other", []byte("b"))
		_, err = r.run(t.Context(), "ftp.upload", object{"local_path": "out/**", "remote_path": "in/"})
		wantError(t, err, true, `upload "in/other": is a directory`)
	})
}

// TestTransferOptions checks what is said about wrong options.
func TestTransferOptions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, ftpserver.Options{})
		for _, test := range []struct {
			cfg  object
			text string
		}{
			{object{"after_transfer": "shred"}, "after_transfer"},
			{object{"after_transfer": "archive"}, "move_to: is missing"},
			{object{"after_transfer": "move"}, "move_to: is missing"},
			{object{"move_to": "x"}, "after_transfer is \"keep\""},
			{object{"preserve": "owner"}, "preserve"},
			{object{"preserve": "all"}, "preserve: \"all\" is none of the possible values"},
			{object{"checksum": "md5"}, "checksum"},
			{object{"done_file": "*"}, "done_file"},
			{object{"done_file": "*.*"}, "done_file"},
			{object{"done_file": "../*"}, "done_file"},
			{object{"stable_seconds": -1}, "stable_seconds"},
			{object{"bandwidth_limit": -5}, "bandwidth_limit"},
			{object{"bandwidth_limit": 100}, "bandwidth_limit: 100 is too low"},
		} {
			for _, key := range []string{"ftp.download", "ftp.upload"} {
				cfg := object{"remote_path": "x", "local_path": "y"}
				for k, v := range test.cfg {
					cfg[k] = v
				}
				_, err := r.run(t.Context(), key, cfg)
				wantError(t, err, true, test.text)
			}
		}
		_, err := r.run(t.Context(), "ftp.list", object{"stable_seconds": 100_000})
		wantError(t, err, true, "stable_seconds: must be at most 86400")
		if len(r.net.Dials()) != 0 {
			t.Error("it has connected nevertheless")
		}
	})
}

// TestRefusedIsNotMissing: a server that refuses to look, for now or for lack of rights,
// has not said that there is nothing.
func TestRefusedIsNotMissing(t *testing.T) {
	for _, c := range []struct {
		verb, reply string
		missing     bool
	}{
		{"MLST", "550 No such file or directory", true},
		{"MLST", "550 Could not get it", true},
		{"MLST", "550 no such file, or access is denied", true},
		{"MLST", "550 Permission denied", false},
		{"MLST", "550 file busy, try again later", false},
		{"CWD", "550 Failed to change directory", true},
		{"CWD", "451 local error", false},
		{"CWD", "421 going down", false},
	} {
		for key, says := range map[string]string{"ftp.stat": "exists", "ftp.delete": "existed", "ftp.rmdir": "existed"} {
			bubble(t, func(t *testing.T) {
				r := newRig(t, ftpserver.Options{NoMLSD: c.verb == "CWD", Answer: on2(c.verb, func(conn *ftpserver.Conn) bool {
					conn.Reply(c.reply)
					return true
				})})
				r.put("x/y", nil)
				out, err := r.run(t.Context(), key, object{"remote_path": "x"})
				if (err == nil) != c.missing || c.missing && out[says] != false {
					t.Errorf("%s, %s: %v, %v", c.reply, key, out, err)
				}
			})
		}
	}
}

// TestRenameIntoMissingDirectory: the error names the directory that is missing, in a dry
// run too; with make_directories it is made.
func TestRenameIntoMissingDirectory(t *testing.T) {
	r := newRig(t, ftpserver.Options{})
	r.put("inv.csv", content(10))
	cfg := object{"source_path": "inv.csv", "destination_path": "out/deep/inv.csv"}
	want := []string{`rename "inv.csv"`, `destination_path: the remote directory "out/deep" doesn't exist`, "set make_directories"}
	wantError(t, r.validate(t.Context(), "ftp.rename", cfg), true, want...)
	_, err := r.run(t.Context(), "ftp.rename", cfg)
	wantError(t, err, true, want...)
	wantError(t, r.validate(t.Context(), "ftp.rename", object{"source_path": "inv.csv", "destination_path": "out/"}), true, `the remote directory "out" doesn't exist`)
	wantTree(t, r.remote, "inv.csv")

	cfg["make_directories"] = true
	if err := r.validate(t.Context(), "ftp.rename", cfg); err != nil {
		t.Error(err)
	}
	out := r.must(r.run(t.Context(), "ftp.rename", cfg))
	if out["renamed_file"] != "out/deep/inv.csv" {
		t.Errorf("%v", out)
	}
	wantTree(t, r.remote, "out/deep/inv.csv")
	if err := r.validate(t.Context(), "ftp.rename", object{"source_path": "out/deep/inv.csv", "destination_path": "out"}); err != nil {
		t.Errorf("into a directory that is there: %v", err)
	}
}
