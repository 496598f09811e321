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
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/steprig"
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
				synctest.Test(t, func(t *testing.T) {
					cfg := object{"remote_path": "f", "local_path": "f", "resume": true}
					r := newRig(t, ftpserver.Options{})
					r.net.SetLink(func(int, int) memnet.Link { // the server has most of what was sent
						return memnet.Link{Up: memnet.Flow{Buffer: underWay}, Down: memnet.Flow{Buffer: underWay}}
					})
					source := filepath.Join(r.Remote, "f")
					if key == "ftp.upload" {
						source = filepath.Join(r.Work, "f")
						r.PutLocal("f", steprig.Content(cutSize))
					} else {
						r.Put("f", steprig.Content(cutSize))
					}
					if !(cut{kind: "killed"}).kill(t, r, 1<<20, key, cfg) {
						t.Fatal("the attempt was not killed")
					}
					if err := change(source); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second) // until the server has written what it got
					r.ForgetReports()
					r.Must(r.Retry(t.Context(), key, cfg))
					if r.Get("f") != r.GetLocal("f") {
						t.Error("the contents differ")
					}
					first := r.firstReport()
					if (first > 0) != (name == "nothing") {
						t.Errorf("the next attempt began at %d", first)
					}
					if got := r.Reports()[len(r.Reports())-1].Bytes; got != cutSize-first && name == "nothing" {
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
	synctest.Test(t, func(t *testing.T) {
		cfg := object{"remote_path": "f", "local_path": "f", "resume": true}
		late := false
		var r *rig
		r = newRig(t, ftpserver.Options{Answer: on2("APPE", func(*ftpserver.Conn) bool {
			late = true
			for _, name := range steprig.Tree(t, r.Remote) {
				f, err := os.OpenFile(filepath.Join(r.Remote, name), os.O_APPEND|os.O_WRONLY, 0)
				if err == nil {
					_, err = f.Write(steprig.Content(5000))
					err = errors.Join(err, f.Close())
				}
				if err != nil {
					t.Error(err)
				}
			}
			return false
		})})
		r.net.SetLink(func(int, int) memnet.Link { return memnet.Link{Up: memnet.Flow{Buffer: underWay}} })
		r.PutLocal("f", steprig.Content(cutSize))
		if !(cut{kind: "killed"}).kill(t, r, 1<<20, "ftp.upload", cfg) {
			t.Fatal("the attempt was not killed")
		}
		time.Sleep(time.Second) // until the server has written what it got
		r.Must(r.Retry(t.Context(), "ftp.upload", cfg))
		if !late || r.Get("f") != string(steprig.Content(cutSize)) {
			t.Errorf("the content differs; the attempt went on: %v", late)
		}
		steprig.WantTree(t, r.Remote, "f")
	})
}

// TestNoRestart goes on with a server that can't: from the beginning.
func TestNoRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := object{"remote_path": "f", "local_path": "f", "resume": true}
		r := newRig(t, ftpserver.Options{NoRest: true})
		r.Put("f", steprig.Content(cutSize))
		if !(cut{kind: "killed"}).kill(t, r, 1<<20, "ftp.download", cfg) {
			t.Fatal("the attempt was not killed")
		}
		r.Must(r.Retry(t.Context(), "ftp.download", cfg))
		if r.GetLocal("f") != string(steprig.Content(cutSize)) {
			t.Error("the content differs")
		}
	})
}

// TestSkip leaves files that are there already.
func TestSkip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ftpserver.Options{})
		r.Put("f", steprig.Content(1000))
		out := r.Must(r.Run(t.Context(), "ftp.download", object{"remote_path": "f", "local_path": "f", "resume": true}))
		if out["skipped"] != false {
			t.Errorf("first: %v", out)
		}
		r.PutLocal("f", steprig.Content(1000))
		out = r.Must(r.Run(t.Context(), "ftp.download", object{"remote_path": "f", "local_path": "f", "resume": true}))
		if out["skipped"] != false || out["file_count"] != 1. {
			t.Errorf("a file of the same size is left by resume: %v", out)
		}
		r.PutLocal("f", []byte("mine"))
		out = r.Must(r.Run(t.Context(), "ftp.download", object{"remote_path": "f", "local_path": "f", "if_exists": "skip"}))
		if out["skipped"] != true || out["reason"] != "file_exists" || r.GetLocal("f") != "mine" {
			t.Errorf("skip: %v", out)
		}
		out = r.Must(r.Run(t.Context(), "ftp.upload", object{"remote_path": "f", "local_path": "f", "if_exists": "skip"}))
		if out["skipped"] != true || r.Get("f") != string(steprig.Content(1000)) {
			t.Errorf("upload: %v", out)
		}
		_, err := r.Run(t.Context(), "ftp.upload", object{"remote_path": "f", "local_path": "f", "if_exists": "fail"})
		steprig.WantError(t, err, true, "exists")
		_, err = r.Run(t.Context(), "ftp.rename", object{"source_path": "f", "destination_path": "f/../f", "if_exists": "fail"})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestAside moves the file that was there before back when the execution is
// cancelled between the two renamings.
func TestAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		r := newRig(t, ftpserver.Options{NoRenameOver: true, Answer: on2("RNTO", func(c *ftpserver.Conn) bool {
			third := n.Add(1) == 3 // the first is refused, the second moves aside
			if third {
				cancel()
			}
			return third
		})})
		r.Put("f", []byte("old"))
		r.PutLocal("f", steprig.Content(1000))
		cfg := object{"remote_path": "f", "local_path": "f"}
		if _, err := r.Run(ctx, "ftp.upload", cfg); err == nil {
			t.Fatal("the attempt succeeded")
		}
		if !strings.Contains(r.Get("f"), "no such file") {
			t.Fatalf("the file was not moved aside: %.20q", r.Get("f"))
		}
		job := courier.NewContext(courier.ContextConfig{Execution: r.Job().Execution(), Step: 3, Attempt: 1, Workspace: r.Work, Resources: r.Resources, Cancelled: true})
		defer job.Close()
		typ, _ := r.Registry.Lookup("ftp.upload")
		if err := typ.Rollback(t.Context(), job, steprig.ConfigOf(cfg)); err != nil {
			t.Fatal(err)
		}
		if r.Get("f") != "old" {
			t.Errorf("the file that was there before is %q", r.Get("f"))
		}
		steprig.WantTree(t, r.Remote, "f")
	})
}

// TestDeletedOnlyWhatWasDownloaded keeps a remote file that was changed after
// it was downloaded.
func TestDeletedOnlyWhatWasDownloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *rig
		var stats atomic.Int64
		r = newRig(t, ftpserver.Options{Answer: func(c *ftpserver.Conn, verb, argument string) bool {
			if verb == "MLST" && argument == "dir/f" {
				if stats.Add(1) == 3 { // before and after the transfer; then before deleting
					r.Put("dir/f", []byte("a new one"))
				}
			}
			return false
		}})
		r.Put("dir/f", steprig.Content(1000))
		r.Must(r.Run(t.Context(), "ftp.download", object{"remote_path": "dir", "local_path": "in/", "after_transfer": "delete"}))
		if r.Get("dir/f") != "a new one" || !strings.Contains(r.Log.String(), "it stays") {
			t.Errorf("the new file is %q; log: %s", r.Get("dir/f"), r.Log.String())
		}
	})
}

// TestServerFull has no room. What was written is removed.
func TestServerFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := func(c *ftpserver.Conn, verb, argument string) bool {
			if verb != "STOR" {
				return false
			}
			c.Reply("552 quota exceeded")
			return true
		}
		r := newRig(t, ftpserver.Options{Answer: full})
		r.PutLocal("f", steprig.Content(1000))
		_, err := r.Run(t.Context(), "ftp.upload", object{"remote_path": "f", "local_path": "f"})
		steprig.WantError(t, err, false, `552 "quota exceeded"`, "space on the server is used up")
		steprig.WantTree(t, r.Remote)
	})
}

// TestReadOnly writes to a directory that can't be written.
func TestReadOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ftpserver.Options{Answer: func(c *ftpserver.Conn, verb, argument string) bool {
			if verb == "STOR" || verb == "MKD" {
				c.Reply("553 read-only")
				return true
			}
			return false
		}})
		r.PutLocal("f", steprig.Content(1000))
		_, err := r.Run(t.Context(), "ftp.upload", object{"remote_path": "f", "local_path": "f"})
		steprig.WantError(t, err, true, `553 "read-only"`)
		_, err = r.Run(t.Context(), "ftp.upload", object{"remote_path": "none/f", "local_path": "f"})
		steprig.WantError(t, err, true, `remote directory "none" doesn't exist`)
		_, err = r.Run(t.Context(), "ftp.mkdir", object{"remote_path": "x"})
		steprig.WantError(t, err, true, `make directory "x"`, "read-only")
	})
}

// TestResumeUploadRefused has a server that refuses to go on with a file: the whole file
// is uploaded, once, and the log says so.
func TestResumeUploadRefused(t *testing.T) {
	const size = 2 << 20
	synctest.Test(t, func(t *testing.T) {
		refused := 0
		r := newRig(t, ftpserver.Options{Answer: func(c *ftpserver.Conn, verb, _ string) bool {
			if verb != "APPE" {
				return false
			}
			refused++
			c.Reply("550 not on this storage")
			return true
		}})
		r.PutLocal("x", steprig.Content(size))
		cfg := object{"local_path": "x", "remote_path": "x", "resume": true}
		ctx, cancel := context.WithCancel(t.Context())
		r.OnProgress = func(p courier.Progress) {
			if p.Done > size/2 {
				cancel()
			}
		}
		if _, err := r.Run(ctx, "ftp.upload", cfg); err == nil {
			t.Fatal("an upload that was interrupted succeeded")
		}
		r.OnProgress = nil
		r.Must(r.Retry(t.Context(), "ftp.upload", cfg))
		if r.Get("x") != string(steprig.Content(size)) || refused != 1 {
			t.Errorf("the content differs, or APPE was tried %d times", refused)
		}
		steprig.WantTree(t, r.Remote, "x")
		if log := r.Log.String(); strings.Count(log, "all of the file is uploaded again") != 1 {
			t.Errorf("log: %s", log)
		}
	})
}
