package sftp_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/internal/test/steprig"
)

// TestResumeUpload breaks the connection at the n-th write and counts what is
// sent again.
func TestResumeUpload(t *testing.T) {
	const size = 2 << 20
	for cut := 1; cut < 9; cut++ {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				var taken atomic.Int64
				writes := 0
				drop := func(o sftpserver.Op) error {
					if o.Method == "write" {
						if writes++; writes == cut {
							return sftpserver.ErrDrop
						}
					}
					return nil
				}
				opt := sftpserver.Options{Fault: drop, FaultAfter: moved(&taken, "write")}
				if after {
					opt = sftpserver.Options{FaultAfter: func(o sftpserver.Op) error {
						return errors.Join(moved(&taken, "write")(o), drop(o))
					}}
				}
				r := newRig(t, opt)
				r.PutLocal("x", steprig.Content(size))
				r.Put("dir/x", []byte("old"))
				r.Must(r.Run(t.Context(), "sftp.upload", object{"local_path": "x", "remote_path": "dir/x", "resume": true}))
				if r.Get("dir/x") != string(steprig.Content(size)) {
					t.Error("the content differs")
				}
				steprig.WantTree(t, r.Remote, "dir/x")
				if twice := taken.Load() - size; twice >= aChunk {
					t.Errorf("cut at write %d: %d bytes were sent twice", cut, twice)
				}
				// What the server has taken and not confirmed is not counted.
				if got := r.bytes(); got <= 0 || got >= size+aChunk || got < size && cut == 1 && !after {
					t.Errorf("cut at write %d: %d bytes are counted", cut, got)
				}
			})
		}
	}
}

// TestResumeUploadRefused has a server that refuses to open a file for writing that is
// there, as one before an object store does: the whole file is uploaded, once, and the log
// says so.
func TestResumeUploadRefused(t *testing.T) {
	const size = 2 << 20
	synctest.Test(t, func(t *testing.T) {
		var taken atomic.Int64
		opened, cut := 0, false
		r := newRig(t, sftpserver.Options{FaultAfter: moved(&taken, "write"), Fault: func(o sftpserver.Op) error {
			switch {
			case o.Method == "open" && o.Flag&os.O_WRONLY != 0 && o.Flag&os.O_TRUNC == 0:
				opened++
				return errors.New("operation unsupported")
			case o.Method == "write" && o.Offset > size/2 && !cut:
				cut = true
				return sftpserver.ErrDrop
			}
			return nil
		}})
		r.PutLocal("x", steprig.Content(size))
		r.Must(r.Run(t.Context(), "sftp.upload", object{"local_path": "x", "remote_path": "x", "resume": true}))
		if r.Get("x") != string(steprig.Content(size)) || !cut || opened != 1 {
			t.Errorf("the content differs, or was not resumed: cut %v, tried %d times", cut, opened)
		}
		steprig.WantTree(t, r.Remote, "x")
		if log := r.Log.String(); strings.Count(log, "all of the file is uploaded again") != 1 {
			t.Errorf("log: %s", log)
		}
	})
}

// TestResumeUploadCut cuts the connection at many bytes, for two attempts.
func TestResumeUploadCut(t *testing.T) {
	const size = 1 << 20
	cfg := object{"local_path": "x", "remote_path": "dir/x", "resume": true}
	for n := int64(4000); n < size+size/4; n += 90_000 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, sftpserver.Options{})
			r.PutLocal("x", steprig.Content(size))
			r.Put("dir/x", []byte("old"))
			r.net.SetLink(func(i int) memnet.Link {
				if i > 4 {
					return memnet.Link{}
				}
				return memnet.Link{Up: memnet.Flow{CutAfter: &n}}
			})
			_, err := r.Run(t.Context(), "sftp.upload", cfg)
			for range 2 {
				if err == nil {
					break
				}
				steprig.WantError(t, err, false, "lost")
				if r.Get("dir/x") != "old" {
					t.Fatal("the final name shows something else too early")
				}
				_, err = r.Retry(t.Context(), "sftp.upload", cfg)
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Get("dir/x") != string(steprig.Content(size)) {
				t.Errorf("cut after %d: the content differs", n)
			}
			steprig.WantTree(t, r.Remote, "dir/x")
		})
	}
}

// TestResumeUploadHole leaves a part with a hole, as a server may that works on
// several requests at once, after the process was killed: the hole is filled.
func TestResumeUploadHole(t *testing.T) {
	const size = 6 << 20
	for name, damage := range map[string]func(part []byte) []byte{
		"hole":      func(b []byte) []byte { clear(b[len(b)-3<<20 : len(b)-2<<20]); return b },
		"all wrong": func(b []byte) []byte { clear(b); return b },
		"too long":  func(b []byte) []byte { return append(b, make([]byte, size)...) },
		"gone":      func([]byte) []byte { return nil },
		"right":     func(b []byte) []byte { return b },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var taken atomic.Int64
				writes := 0
				r := newRig(t, sftpserver.Options{FaultAfter: moved(&taken, "write"), Fault: func(o sftpserver.Op) error {
					if o.Method == "write" {
						if writes++; writes == 21 {
							return sftpserver.ErrHang
						}
					}
					return nil
				}})
				r.PutLocal("x", steprig.Content(size))
				cfg := object{"local_path": "x", "resume": true}
				ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, errors.New("killed"))
				defer cancel()
				_, err := r.Run(ctx, "sftp.upload", cfg)
				steprig.WantError(t, err, false, "killed")
				parts := steprig.Tree(t, r.Remote)
				if len(parts) != 1 || !strings.HasPrefix(parts[0], "x.courier-tmp-") {
					t.Fatalf("%q, want a part", parts)
				}
				for _, f := range steprig.Tree(t, r.Work) { // a killed process has not noted down how far it was
					if strings.Contains(f, "sftp-part-") {
						text := steprig.Read(r.Work, f)
						i := strings.Index(text, `"acked":`)
						steprig.Write(t, r.Work, f, []byte(text[:i]+`"acked":0}`))
					}
				}
				part := damage([]byte(r.Get(parts[0])))
				if part == nil {
					remove(r.Remote, parts[0])
				} else {
					r.Put(parts[0], part)
				}
				taken.Store(0)
				r.Must(r.Retry(t.Context(), "sftp.upload", cfg))
				if r.Get("x") != string(steprig.Content(size)) {
					t.Error("the content differs")
				}
				steprig.WantTree(t, r.Remote, "x")
				if name == "right" && taken.Load() > size-20*aChunk {
					t.Errorf("%d bytes were sent again", taken.Load())
				}
			})
		})
	}
}

// TestResumeUploadChanged changes the source between two attempts, and cancels.
func TestResumeUploadChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		r := newRig(t, sftpserver.Options{Fault: func(o sftpserver.Op) error {
			if o.Method == "write" && o.Offset > 300_000 && broken {
				return errBroken
			}
			return nil
		}})
		r.PutLocal("x", steprig.Content(1<<20))
		cfg := object{"local_path": "x", "resume": true}
		_, err := r.Run(t.Context(), "sftp.upload", cfg)
		steprig.WantError(t, err, false, `upload "x"`)
		first := steprig.Tree(t, r.Remote)
		r.PutLocal("x", steprig.Content(1<<20+1))
		_, err = r.Retry(t.Context(), "sftp.upload", cfg)
		steprig.WantError(t, err, false, `upload "x"`)
		second := steprig.Tree(t, r.Remote)
		if len(first) != 1 || len(second) != 1 || slices.Equal(first, second) {
			t.Errorf("parts are %q and %q", first, second)
		}
		typ, _ := r.Registry.Lookup("sftp.upload")
		for _, cancelled := range []bool{false, true} {
			job := courier.NewContext(courier.ContextConfig{
				Execution: "0198c0de-0000-7000-8000-000000000001", Step: 3, Attempt: 2, Workspace: r.Work, Resources: r.Resources, Cancelled: cancelled,
			})
			if err := typ.Rollback(t.Context(), job, steprig.ConfigOf(cfg)); err != nil {
				t.Error(err)
			}
			job.Close()
			if n := len(steprig.Tree(t, r.Remote)); n != map[bool]int{false: 1, true: 0}[cancelled] {
				t.Errorf("cancelled=%v: %q", cancelled, steprig.Tree(t, r.Remote))
			}
		}
		broken = false
		r.Must(r.Retry(t.Context(), "sftp.upload", cfg))
		steprig.WantTree(t, r.Remote, "x")
	})
}

// TestAfterUpload deletes or moves what was uploaded, and writes companions.
func TestAfterUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.PutLocal("out/a", []byte("a"))
		r.PutLocal("out/sub/b", []byte("b"))
		r.Put("in/a", nil)
		r.Put("in/sub/keep", nil)
		cfg := object{"local_path": "out/**", "remote_path": "in", "if_exists": "skip", "after_transfer": "move", "move_to": "sent", "checksum": "sidecar", "done_file": "done-*"}
		r.Must(r.Run(t.Context(), "sftp.upload", cfg))
		steprig.WantTree(t, r.Remote, "in/a", "in/sub/b", "in/sub/b.sha256", "in/sub/done-b", "in/sub/keep")
		steprig.WantTree(t, r.Work, ".notes/3/sftp-upload-note.courier-tmp", "out/a", "sent/sub/b")
		sum := sha256.Sum256([]byte("b"))
		if got := r.Get("in/sub/b.sha256"); got != hex.EncodeToString(sum[:])+"  b\n" {
			t.Errorf("sidecar = %q", got)
		}
		// Again, after the answer was lost: nothing happens, and the outputs are the same.
		r.PutLocal("out/sub/b", []byte("new"))
		out := r.Must(r.Retry(t.Context(), "sftp.upload", cfg))
		if out["file_count"] != 1. || r.Get("in/sub/b") != "b" || r.GetLocal("out/sub/b") != "new" {
			t.Errorf("%v", out)
		}
		if err := os.Remove(filepath.Join(r.Work, ".notes/3/sftp-upload-note.courier-tmp")); err != nil {
			t.Fatal(err)
		}
		r.Must(r.Run(t.Context(), "sftp.upload", object{"local_path": "out/sub/b", "remote_path": "in/sub/", "after_transfer": "delete"}))
		steprig.WantTree(t, r.Work, ".notes/3/sftp-upload-note.courier-tmp", "out/a", "sent/sub/b")
		if r.Get("in/sub/b") != "new" {
			t.Error("the new file was not uploaded")
		}
	})
}

// TestTransferOptions checks what is said about wrong options.
func TestTransferOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		for _, test := range []struct {
			cfg  object
			text string
		}{
			{object{"after_transfer": "shred"}, "after_transfer"},
			{object{"after_transfer": "archive"}, "move_to: is missing"},
			{object{"after_transfer": "move"}, "move_to: is missing"},
			{object{"move_to": "x"}, "after_transfer is \"keep\""},
			{object{"preserve": "owner"}, "preserve"},
			{object{"checksum": "md5"}, "checksum"},
			{object{"done_file": "*"}, "done_file"},
			{object{"done_file": "*.*"}, "done_file"},
			{object{"done_file": "../*"}, "done_file"},
			{object{"stable_seconds": -1}, "stable_seconds"},
			{object{"bandwidth_limit": -5}, "bandwidth_limit"},
		} {
			for _, key := range []string{"sftp.download", "sftp.upload"} {
				cfg := object{"remote_path": "x", "local_path": "y"}
				for k, v := range test.cfg {
					cfg[k] = v
				}
				_, err := r.Run(t.Context(), key, cfg)
				steprig.WantError(t, err, true, test.text)
			}
		}
		if r.net.Dialed() != 0 {
			t.Error("it has connected nevertheless")
		}
	})
}
