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
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/remotetour"
	"github.com/courierhq/courier/internal/test/steprig"
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
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, opt)
			remotetour.AfterDownload(&r.Rig, "ftp.download")
		})
	}
}

// TestArchive moves whole trees, each file under a name of its own.
func TestArchive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ftpserver.Options{})
		stamped := regexp.MustCompile(`-\d{8}T\d{6}\.\d{6}Z`)
		for round := range 2 {
			r.Put("in/a.csv", []byte("a"))
			r.Put("in/sub/b", []byte("b"))
			r.Put("sent/keep", nil)
			r.Work = filepath.Join(filepath.Dir(r.Work), fmt.Sprint("work", round))
			r.PutLocal("out/a.csv", []byte("a"))
			r.PutLocal("out/sub/b", []byte("b"))
			out := r.Must(r.Run(t.Context(), "ftp.download", object{"remote_path": "in", "pattern": "**", "after_transfer": "archive", "move_to": "old"}))
			if out["file_count"] != 2. {
				t.Errorf("%v", out)
			}
			r.Must(r.Run(t.Context(), "ftp.upload", object{"local_path": "out/**", "remote_path": "sent/", "after_transfer": "archive", "move_to": "old"}))
			var names []string
			for _, name := range steprig.Tree(t, filepath.Join(r.Work, "old")) {
				names = append(names, stamped.ReplaceAllString(name, "-T"))
			}
			if got := strings.Join(names, " "); got != "a-T.csv sub/b-T" {
				t.Errorf("archived are %q", got)
			}
			time.Sleep(time.Second)
		}
		names := steprig.Tree(t, filepath.Join(r.Remote, "old"))
		if len(names) != 4 || !stamped.MatchString(names[0]) || !strings.HasSuffix(names[0], "Z.csv") || !strings.HasPrefix(names[2], "sub/b-") {
			t.Errorf("archived are %q", names)
		}
	})
}

// TestAfterDownloadAgain loses the answer to the deletion of the source, and a
// new source comes: it is kept, and the outputs are those of the first.
func TestAfterDownloadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *rig
		r = newRig(t, ftpserver.Options{Answer: losing("DELE", 1, func(name string) { os.Remove(filepath.Join(r.Remote, name)) })})
		r.Put("in/a", []byte("old"))
		cfg := object{"remote_path": "in", "after_transfer": "delete"}
		_, err := r.Run(t.Context(), "ftp.download", cfg)
		steprig.WantError(t, err, false, `delete "in/a"`, "connection is lost")
		r.Put("in/a", []byte("newer"))
		out := r.Must(r.Retry(t.Context(), "ftp.download", cfg))
		if r.GetLocal(out["downloaded_file"]) != "old" || r.Get("in/a") != "newer" {
			t.Errorf("%v, %q, %q", out, r.GetLocal(out["downloaded_file"]), r.Get("in/a"))
		}
		if err := os.Remove(filepath.Join(r.Work, out["downloaded_file"].(string))); err != nil {
			t.Fatal(err)
		}
		_, err = r.Retry(t.Context(), "ftp.download", cfg)
		steprig.WantError(t, err, true, "an earlier attempt has downloaded it, but it is gone or has changed")
	})
}

// TestStableSeconds leaves out what is still being written.
func TestStableSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ftpserver.Options{})
		r.Put("in/done", steprig.Content(10))
		r.Put("in/growing", steprig.Content(10))
		grow := func() {
			time.Sleep(25 * time.Second)
			r.Put("in/growing", steprig.Content(11))
			r.Put("in/new", steprig.Content(11))
		}
		go grow()
		out := r.Must(r.Run(t.Context(), "ftp.download", object{"remote_path": "in", "stable_seconds": 40}))
		if out["file_count"] != 1. || out["not_ready_count"] != 2. {
			t.Errorf("%v", out)
		}
		go grow()
		out = r.Must(r.Run(t.Context(), "ftp.list", object{"remote_path": "in", "stable_seconds": 10}))
		if out["file_count"] != 3. || out["not_ready_count"] != 0. {
			t.Errorf("%v", out)
		}
		go func() {
			time.Sleep(25 * time.Second)
			r.Put("in/growing", steprig.Content(3))
			r.PutLocal("out/growing", steprig.Content(4))
		}()
		_, err := r.Run(t.Context(), "ftp.download", object{"remote_path": "in/growing", "stable_seconds": 40})
		steprig.WantError(t, err, false, "it has changed within the 40 seconds")
		r.PutLocal("out/done", steprig.Content(5))
		go func() {
			time.Sleep(25 * time.Second)
			r.PutLocal("out/growing", steprig.Content(6))
		}()
		began := time.Now()
		out = r.Must(r.Run(t.Context(), "ftp.upload", object{"local_path": "out/*", "remote_path": "in/", "stable_seconds": 40}))
		if took := time.Since(began); out["file_count"] != 1. || took < 40*time.Second || took > 42*time.Second {
			t.Errorf("%v; it took %v", out, took)
		}
	})
}

// TestBandwidthLimit measures.
func TestBandwidthLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ftpserver.Options{})
		for i := range 4 {
			r.Put(fmt.Sprintf("in/%d", i), steprig.Content(100_000))
			r.PutLocal(fmt.Sprintf("out/%d", i), steprig.Content(100_000))
		}
		for _, test := range []struct {
			key string
			cfg object
		}{
			{"ftp.download", object{"remote_path": "in", "bandwidth_limit": 10_000}},
			{"ftp.upload", object{"local_path": "out/*", "remote_path": "in/", "bandwidth_limit": 10_000}},
		} {
			began := time.Now()
			r.Must(r.Run(t.Context(), test.key, test.cfg))
			if took := time.Since(began); took < 38*time.Second || took > 45*time.Second {
				t.Errorf("%s: 400 kB with 10 kB/s took %v", test.key, took)
			}
		}
	})
}

// TestChecksum compares with what the partner says, and reads again.
func TestChecksum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lie atomic.Bool
		r := newRig(t, ftpserver.Options{Answer: func(c *ftpserver.Conn, verb, argument string) bool {
			if verb != "RETR" || !lie.CompareAndSwap(true, false) {
				return false
			}
			return sends("RETR", func(conn net.Conn) error { _, err := conn.Write(steprig.Content(300_001)[1:]); return err })(c, verb, argument)
		}})
		r.Put("in/x", steprig.Content(300_000))
		cfg := object{"remote_path": "in/x", "checksum": "sidecar", "local_path": "x", "resume": true}
		_, err := r.Run(t.Context(), "ftp.download", cfg)
		steprig.WantError(t, err, true, `checksum in "in/x.sha256"`, "550")
		sum := sha256.Sum256(steprig.Content(300_000))
		r.Put("in/x.sha256", []byte(strings.ToUpper(hex.EncodeToString(sum[:]))+"  x\n"))
		r.Must(r.Run(t.Context(), "ftp.download", cfg))
		out := r.Must(r.Run(t.Context(), "ftp.download", object{"remote_path": "in", "checksum": "sidecar"}))
		if out["file_count"] != 1. {
			t.Errorf("%v", out)
		}
		sum[0]++
		r.Put("in/x.sha256", []byte(hex.EncodeToString(sum[:])))
		cfg = object{"remote_path": "in/x", "checksum": "sidecar"}
		_, err = r.Run(t.Context(), "ftp.download", cfg)
		steprig.WantError(t, err, false, "the content has the SHA-256", "in/x.sha256")
		r.Put("in/x.sha256", []byte("hello"))
		_, err = r.Run(t.Context(), "ftp.download", cfg)
		steprig.WantError(t, err, true, `it begins with "hello"`)
		r.Put("in/x.sha256", steprig.Content(5000))
		_, err = r.Run(t.Context(), "ftp.download", cfg)
		steprig.WantError(t, err, true, "is not a file with a checksum")
		cfg = object{"remote_path": "in/x", "checksum": "read_back", "local_path": "y"}
		r.Must(r.Run(t.Context(), "ftp.download", cfg))
		lie.Store(true)
		_, err = r.Run(t.Context(), "ftp.download", cfg)
		steprig.WantError(t, err, false, "the content differs when it is read again")
		if r.GetLocal("y") != string(steprig.Content(300_000)) {
			t.Error("the file was replaced nevertheless")
		}
	})
}

// TestSkipIfSame downloads and uploads nothing that is there already.
func TestSkipIfSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var moved atomic.Int64
		r := newRig(t, ftpserver.Options{Fault: func(verb, _ string) error {
			if verb == "RETR" || verb == "STOR" {
				moved.Add(1)
			}
			return nil
		}})
		r.Put("x", steprig.Content(1000))
		at := time.Unix(1_600_000_000, 0)
		if err := os.Chtimes(filepath.Join(r.Remote, "x"), at, at); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			out := r.Must(r.Run(t.Context(), "ftp.download", object{"remote_path": "x", "local_path": "x", "skip_if_same": true}))
			if out["file_count"] != 1. || out["size"] != 1000. || out["skipped"] != false {
				t.Errorf("%v", out)
			}
			out = r.Must(r.Run(t.Context(), "ftp.upload", object{"local_path": "x", "remote_path": "y", "skip_if_same": true, "preserve": "times"}))
			if out["file_count"] != 1. || out["size"] != 1000. {
				t.Errorf("%v", out)
			}
		}
		if n := moved.Load(); n != 2 {
			t.Errorf("%d transfers, want 2", n)
		}
		r.Must(r.Run(t.Context(), "ftp.download", object{"remote_path": "x", "local_path": "z", "preserve": "none"}))
		if info, err := os.Stat(filepath.Join(r.Work, "z")); err != nil || info.ModTime().Equal(at) {
			t.Errorf("the time was taken over: %v, %v", info.ModTime(), err)
		}
	})
}

// TestAfterUpload deletes or moves what was uploaded, and writes companions.
func TestAfterUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ftpserver.Options{})
		r.PutLocal("out/a", []byte("a"))
		r.PutLocal("out/sub/b", []byte("b"))
		r.Put("in/a", nil)
		cfg := object{"local_path": "out/**", "remote_path": "in", "if_exists": "skip", "after_transfer": "move", "move_to": "sent", "checksum": "sidecar", "done_file": "done-*"}
		r.Must(r.Run(t.Context(), "ftp.upload", cfg))
		steprig.WantTree(t, r.Remote, "in/a", "in/sub/b", "in/sub/b.sha256", "in/sub/done-b")
		if r.GetLocal("sent/sub/b") != "b" || r.GetLocal("out/a") != "a" {
			t.Errorf("local files are %q", steprig.Tree(t, r.Work))
		}
		sum := sha256.Sum256([]byte("b"))
		if got := r.Get("in/sub/b.sha256"); got != hex.EncodeToString(sum[:])+"  b\n" {
			t.Errorf("sidecar = %q", got)
		}
		// Again, after the answer was lost: nothing happens, and the outputs are the same.
		r.PutLocal("out/sub/b", []byte("new"))
		out := r.Must(r.Retry(t.Context(), "ftp.upload", cfg))
		if out["file_count"] != 1. || r.Get("in/sub/b") != "b" || r.GetLocal("out/sub/b") != "new" {
			t.Errorf("%v", out)
		}
		r.Work = filepath.Join(t.TempDir(), "other")
		r.PutLocal("out/sub/b", []byte("new"))
		r.Must(r.Run(t.Context(), "ftp.upload", object{"local_path": "out/sub/b", "remote_path": "in/sub/", "after_transfer": "delete"}))
		if r.Get("in/sub/b") != "new" || !strings.Contains(r.GetLocal("out/sub/b"), "no such file") {
			t.Errorf("%q, %q", r.Get("in/sub/b"), r.GetLocal("out/sub/b"))
		}
	})
}

// TestNoParent makes the directories that a pattern finds, but not remote_path.
func TestNoParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ftpserver.Options{})
		r.PutLocal("out/sub/deep/b", []byte("b"))
		_, err := r.Run(t.Context(), "ftp.upload", object{"local_path": "out/**", "remote_path": "typo/"})
		steprig.WantError(t, err, true, `make directory "typo/sub"`)
		r.Put("in/keep", nil)
		r.Must(r.Run(t.Context(), "ftp.upload", object{"local_path": "out/**", "remote_path": "in/"}))
		steprig.WantTree(t, r.Remote, "in/keep", "in/sub/deep/b")
		r.Put("in/other/x", nil)
		r.PutLocal("out/other", []byte("b"))
		_, err = r.Run(t.Context(), "ftp.upload", object{"local_path": "out/**", "remote_path": "in/"})
		steprig.WantError(t, err, true, `upload "in/other": is a directory`)
	})
}

// TestTransferOptions checks what is said about wrong options.
func TestTransferOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
			{object{"preserve": "all"}, "preserve: \"all\" is not one of the possible values"},
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
				_, err := r.Run(t.Context(), key, cfg)
				steprig.WantError(t, err, true, test.text)
			}
		}
		_, err := r.Run(t.Context(), "ftp.list", object{"stable_seconds": 100_000})
		steprig.WantError(t, err, true, "stable_seconds: must be at most 86400")
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
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, ftpserver.Options{NoMLSD: c.verb == "CWD", Answer: on2(c.verb, func(conn *ftpserver.Conn) bool {
					conn.Reply(c.reply)
					return true
				})})
				r.Put("x/y", nil)
				out, err := r.Run(t.Context(), key, object{"remote_path": "x"})
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
	r.Put("inv.csv", steprig.Content(10))
	cfg := object{"source_path": "inv.csv", "destination_path": "out/deep/inv.csv"}
	want := []string{`rename "inv.csv"`, `destination_path: the remote directory "out/deep" doesn't exist`, "set make_directories"}
	steprig.WantError(t, r.Validate(t.Context(), "ftp.rename", cfg), true, want...)
	_, err := r.Run(t.Context(), "ftp.rename", cfg)
	steprig.WantError(t, err, true, want...)
	steprig.WantError(t, r.Validate(t.Context(), "ftp.rename", object{"source_path": "inv.csv", "destination_path": "out/"}), true, `the remote directory "out" doesn't exist`)
	steprig.WantTree(t, r.Remote, "inv.csv")

	cfg["make_directories"] = true
	if err := r.Validate(t.Context(), "ftp.rename", cfg); err != nil {
		t.Error(err)
	}
	out := r.Must(r.Run(t.Context(), "ftp.rename", cfg))
	if out["renamed_file"] != "out/deep/inv.csv" {
		t.Errorf("%v", out)
	}
	steprig.WantTree(t, r.Remote, "out/deep/inv.csv")
	if err := r.Validate(t.Context(), "ftp.rename", object{"source_path": "out/deep/inv.csv", "destination_path": "out"}); err != nil {
		t.Errorf("into a directory that is there: %v", err)
	}
}
