package ftp_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/memnet"
)

// TestOtherSource cuts a transfer, and changes the source before the next
// attempt. That begins anew: what is there is the beginning of something else.
func TestOtherSource(t *testing.T) {
	other := bytes.ToUpper(bytes.Repeat([]byte("other "), cutSize/6))
	for _, key := range []string{"ftp.download", "ftp.upload"} {
		for name, change := range map[string]func(string) error{
			"content": func(file string) error {
				return errors.Join(os.WriteFile(file, other, 0o600), os.Chtimes(file, time.Time{}, time.Now().Add(time.Hour)))
			},
			"time only": func(file string) error { return os.Chtimes(file, time.Time{}, time.Now().Add(time.Hour)) },
			"nothing":   func(string) error { return nil },
		} {
			t.Run(key+" "+name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					cfg := object{"remote_path": "f", "local_path": "f", "resume": true}
					r := newRig(t, ftpserver.Options{})
					r.net.SetLink(func(int, int) memnet.Link { // the server has most of what was sent
						return memnet.Link{Up: memnet.Flow{Buffer: underWay}, Down: memnet.Flow{Buffer: underWay}}
					})
					source := filepath.Join(r.remote, "f")
					if key == "ftp.upload" {
						source = filepath.Join(r.work, "f")
						r.putLocal("f", content(cutSize))
					} else {
						r.put("f", content(cutSize))
					}
					if !(cut{kind: "killed"}).kill(t, r, 1<<20, key, cfg) {
						t.Fatal("the attempt was not killed")
					}
					if err := change(source); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second) // until the server has written what it got
					r.reports = nil
					r.must(r.retry(t.Context(), key, cfg))
					if r.get("f") != r.getLocal("f") {
						t.Error("the contents differ")
					}
					first := r.firstReport()
					if (first > 0) != (name == "nothing") {
						t.Errorf("the next attempt began at %d", first)
					}
					if got := r.reports[len(r.reports)-1].Bytes; got != cutSize-first && name == "nothing" {
						t.Errorf("%d bytes are counted of %d from %d on", got, cutSize, first)
					}
				})
			})
		}
	}
}

// TestLateWriter goes on with an upload to a server that is still writing what
// it got from the attempt before: what it has is not what it will have.
func TestLateWriter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := object{"remote_path": "f", "local_path": "f", "resume": true}
		late := false
		var r *rig
		r = newRig(t, ftpserver.Options{Answer: on2("APPE", func(*ftpserver.Conn) bool {
			late = true
			for _, name := range tree(t, r.remote) {
				f, err := os.OpenFile(filepath.Join(r.remote, name), os.O_APPEND|os.O_WRONLY, 0)
				if err == nil {
					_, err = f.Write(content(5000))
					err = errors.Join(err, f.Close())
				}
				if err != nil {
					t.Error(err)
				}
			}
			return false
		})})
		r.net.SetLink(func(int, int) memnet.Link { return memnet.Link{Up: memnet.Flow{Buffer: underWay}} })
		r.putLocal("f", content(cutSize))
		if !(cut{kind: "killed"}).kill(t, r, 1<<20, "ftp.upload", cfg) {
			t.Fatal("the attempt was not killed")
		}
		time.Sleep(time.Second) // until the server has written what it got
		r.must(r.retry(t.Context(), "ftp.upload", cfg))
		if !late || r.get("f") != string(content(cutSize)) {
			t.Errorf("the content differs; the attempt went on: %v", late)
		}
		wantTree(t, r.remote, "f")
	})
}

// TestNoRestart goes on with a server that can't: from the beginning.
func TestNoRestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := object{"remote_path": "f", "local_path": "f", "resume": true}
		r := newRig(t, ftpserver.Options{NoRest: true})
		r.put("f", content(cutSize))
		if !(cut{kind: "killed"}).kill(t, r, 1<<20, "ftp.download", cfg) {
			t.Fatal("the attempt was not killed")
		}
		r.must(r.retry(t.Context(), "ftp.download", cfg))
		if r.getLocal("f") != string(content(cutSize)) {
			t.Error("the content differs")
		}
	})
}

// TestSkip leaves files that are there already.
func TestSkip(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, ftpserver.Options{})
		r.put("f", content(1000))
		out := r.must(r.run(t.Context(), "ftp.download", object{"remote_path": "f", "local_path": "f", "resume": true}))
		if out["skipped"] != false {
			t.Errorf("first: %v", out)
		}
		r.putLocal("f", content(1000))
		out = r.must(r.run(t.Context(), "ftp.download", object{"remote_path": "f", "local_path": "f", "resume": true}))
		if out["skipped"] != false || out["file_count"] != 1. {
			t.Errorf("a file of the same size is left by resume: %v", out)
		}
		r.putLocal("f", []byte("mine"))
		out = r.must(r.run(t.Context(), "ftp.download", object{"remote_path": "f", "local_path": "f", "if_exists": "skip"}))
		if out["skipped"] != true || out["reason"] != "file_exists" || r.getLocal("f") != "mine" {
			t.Errorf("skip: %v", out)
		}
		out = r.must(r.run(t.Context(), "ftp.upload", object{"remote_path": "f", "local_path": "f", "if_exists": "skip"}))
		if out["skipped"] != true || r.get("f") != string(content(1000)) {
			t.Errorf("upload: %v", out)
		}
		_, err := r.run(t.Context(), "ftp.upload", object{"remote_path": "f", "local_path": "f", "if_exists": "fail"})
		wantError(t, err, true, "exists")
		_, err = r.run(t.Context(), "ftp.rename", object{"source_path": "f", "destination_path": "f/../f", "if_exists": "fail"})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestAside moves the file that was there before back when the execution is
// cancelled between the two renamings.
func TestAside(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var n atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		r := newRig(t, ftpserver.Options{NoRenameOver: true, Answer: on2("RNTO", func(c *ftpserver.Conn) bool {
			third := n.Add(1) == 3 // the first is refused, the second moves aside
			if third {
				cancel()
			}
			return third
		})})
		r.put("f", []byte("old"))
		r.putLocal("f", content(1000))
		cfg := object{"remote_path": "f", "local_path": "f"}
		if _, err := r.run(ctx, "ftp.upload", cfg); err == nil {
			t.Fatal("the attempt succeeded")
		}
		if !strings.Contains(r.get("f"), "no such file") {
			t.Fatalf("the file was not moved aside: %.20q", r.get("f"))
		}
		job := courier.NewContext(courier.ContextConfig{Execution: r.job().Execution(), Step: 3, Attempt: 1, Workspace: r.work, Resources: r.res, Cancelled: true})
		defer job.Close()
		typ, _ := r.reg.Lookup("ftp.upload")
		if err := typ.Rollback(t.Context(), job, configOf(cfg)); err != nil {
			t.Fatal(err)
		}
		if r.get("f") != "old" {
			t.Errorf("the file that was there before is %q", r.get("f"))
		}
		wantTree(t, r.remote, "f")
	})
}

// TestDeletedOnlyWhatWasDownloaded keeps a remote file that was changed after
// it was downloaded.
func TestDeletedOnlyWhatWasDownloaded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var r *rig
		var stats atomic.Int64
		r = newRig(t, ftpserver.Options{Answer: func(c *ftpserver.Conn, verb, argument string) bool {
			if verb == "MLST" && argument == "dir/f" {
				if stats.Add(1) == 3 { // before and after the transfer; then before deleting
					r.put("dir/f", []byte("a new one"))
				}
			}
			return false
		}})
		r.put("dir/f", content(1000))
		r.must(r.run(t.Context(), "ftp.download", object{"remote_path": "dir", "local_path": "in/", "after_transfer": "delete"}))
		if r.get("dir/f") != "a new one" || !strings.Contains(r.log.String(), "it stays") {
			t.Errorf("the new file is %q; log: %s", r.get("dir/f"), r.log.String())
		}
	})
}

// TestServerFull has no room. What was written is removed.
func TestServerFull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		full := func(c *ftpserver.Conn, verb, argument string) bool {
			if verb != "STOR" {
				return false
			}
			c.Reply("552 quota exceeded")
			return true
		}
		r := newRig(t, ftpserver.Options{Answer: full})
		r.putLocal("f", content(1000))
		_, err := r.run(t.Context(), "ftp.upload", object{"remote_path": "f", "local_path": "f"})
		wantError(t, err, false, `552 "quota exceeded"`, "space on the server is used up")
		wantTree(t, r.remote)
	})
}

// TestReadOnly writes to a directory that can't be written.
func TestReadOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, ftpserver.Options{Answer: func(c *ftpserver.Conn, verb, argument string) bool {
			if verb == "STOR" || verb == "MKD" {
				c.Reply("553 read-only")
				return true
			}
			return false
		}})
		r.putLocal("f", content(1000))
		_, err := r.run(t.Context(), "ftp.upload", object{"remote_path": "f", "local_path": "f"})
		wantError(t, err, true, `553 "read-only"`)
		_, err = r.run(t.Context(), "ftp.upload", object{"remote_path": "none/f", "local_path": "f"})
		wantError(t, err, true, `remote directory "none" doesn't exist`)
		_, err = r.run(t.Context(), "ftp.mkdir", object{"remote_path": "x"})
		wantError(t, err, true, `make directory "x"`, "read-only")
	})
}

// TestResumeUploadRefused has a server that refuses to go on with a file: the whole file
// is uploaded, once, and the log says so.
func TestResumeUploadRefused(t *testing.T) {
	const size = 2 << 20
	bubble(t, func(t *testing.T) {
		refused := 0
		r := newRig(t, ftpserver.Options{Answer: func(c *ftpserver.Conn, verb, _ string) bool {
			if verb != "APPE" {
				return false
			}
			refused++
			c.Reply("550 not on this storage")
			return true
		}})
		r.putLocal("x", content(size))
		cfg := object{"local_path": "x", "remote_path": "x", "resume": true}
		ctx, cancel := context.WithCancel(t.Context())
		r.onProgress = func(p courier.Progress) {
			if p.Done > size/2 {
				cancel()
			}
		}
		if _, err := r.run(ctx, "ftp.upload", cfg); err == nil {
			t.Fatal("an upload that was interrupted succeeded")
		}
		r.onProgress = nil
		r.must(r.retry(t.Context(), "ftp.upload", cfg))
		if r.get("x") != string(content(size)) || refused != 1 {
			t.Errorf("the content differs, or APPE was tried %d times", refused)
		}
		wantTree(t, r.remote, "x")
		if log := r.log.text.String(); strings.Count(log, "all of the file is uploaded again") != 1 {
			t.Errorf("log: %s", log)
		}
	})
}
