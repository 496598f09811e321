package sftp_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/remotetour"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/internal/test/steprig"
)

// moved counts the bytes that clients asked to read or write, by a hook.
func moved(n *atomic.Int64, method string) func(sftpserver.Op) error {
	return func(o sftpserver.Op) error {
		if o.Method == method {
			n.Add(o.Length)
		}
		return nil
	}
}

const aChunk = 255 << 10

// bytes are those that the attempt has moved, by its last report.
func (r *rig) bytes() int64 {
	list := r.Reports()
	return list[len(list)-1].Bytes
}

// TestResumeDownload cuts the connection at many places: an attempt goes on by
// itself, and less than one packet is sent twice for each cut.
func TestResumeDownload(t *testing.T) {
	const size = 2 << 20
	cfg := object{"remote_path": "dir/source", "local_path": "target", "resume": true}
	for n := int64(5000); n < size+size/4; n += 100_000 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, sftpserver.Options{})
			r.Put("dir/source", steprig.Content(size))
			r.net.SetLink(func(i int) memnet.Link {
				if i > 3 {
					return memnet.Link{}
				}
				return memnet.Link{Down: memnet.Flow{CutAfter: &n}}
			})
			_, err := r.Run(t.Context(), "sftp.download", cfg)
			for range 2 {
				if err == nil {
					break
				}
				steprig.WantError(t, err, false, "connection is lost")
				if !strings.Contains(r.GetLocal("target"), "no such file") {
					t.Fatal("the final name appeared too early")
				}
				_, err = r.Retry(t.Context(), "sftp.download", cfg)
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.GetLocal("target") != string(steprig.Content(size)) {
				t.Errorf("cut after %d bytes: the content differs", n)
			}
			steprig.WantTree(t, r.Work, "3/sftp-download-note.courier-tmp", "target")
			var off int64 // all before has been asked for by connections that asked for it to the end
			again := int64(0)
			last := int64(-1)
			for _, o := range r.Ops() {
				if o.Method != "read" || o.Length <= 4<<10 {
					continue
				}
				if o.Offset <= last { // a new connection
					again++
				}
				last, off = o.Offset, o.Offset+o.Length
			}
			if off < size {
				t.Errorf("read up to %d", off)
			}
			if d := int64(r.net.Dialed()) - 1; again > d {
				t.Errorf("%d restarts on %d connections", again, d+1)
			}
		})
	}
}

// TestResumeOnce has the server break the connection when so much is sent, and
// counts what it sends again.
func TestResumeOnce(t *testing.T) {
	const size = 2 << 20
	for cut := 1; cut < 8; cut++ {
		synctest.Test(t, func(t *testing.T) {
			var sent atomic.Int64
			reads := 0
			r := newRig(t, sftpserver.Options{FaultAfter: moved(&sent, "read"), Fault: func(o sftpserver.Op) error {
				if o.Method == "read" {
					if reads++; reads == cut {
						time.Sleep(time.Second) // what was sent arrives
						return sftpserver.ErrDrop
					}
				}
				return nil
			}})
			r.Put("source", steprig.Content(size))
			r.Must(r.Run(t.Context(), "sftp.download", object{"remote_path": "source", "local_path": "x", "resume": true}))
			if r.GetLocal("x") != string(steprig.Content(size)) {
				t.Error("the content differs")
			}
			if twice := sent.Load() - size; twice >= aChunk {
				t.Errorf("cut at read %d: %d bytes were sent twice", cut, twice)
			}
			// A packet may have come twice.
			if got := r.bytes(); got < size || got >= size+aChunk {
				t.Errorf("cut at read %d: %d bytes are counted", cut, got)
			}
			if r.net.Dialed() != 2 {
				t.Errorf("%d connections", r.net.Dialed())
			}
		})
	}
}

// TestResumeChanged changes the source between two attempts, in ways that are
// noticed by size and time, and in one that only the tail tells.
func TestResumeChanged(t *testing.T) {
	const size = 1 << 20
	for name, change := range map[string]func(r *rig){
		"size": func(r *rig) { r.Put("source", steprig.Content(size+1)) },
		"time": func(r *rig) {
			r.Put("source", steprig.Content(size - 1)[:size-1])
			r.Put("source", append([]byte{1}, steprig.Content(size-1)...))
			chtimes(filepath.Join(r.Remote, "source"), time.Now().Add(time.Hour))
		},
		"tail": func(r *rig) {
			info, _ := os.Stat(filepath.Join(r.Remote, "source"))
			r.Put("source", append([]byte{1}, steprig.Content(size-1)...))
			chtimes(filepath.Join(r.Remote, "source"), info.ModTime())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, sftpserver.Options{Fault: nil})
				r.Put("source", steprig.Content(size))
				down := int64(600_000)
				cfg := object{"remote_path": "source", "resume": true}
				r.net.SetLink(func(i int) memnet.Link {
					if i > 1 {
						return memnet.Link{Refuse: errors.New("down")}
					}
					return memnet.Link{Down: memnet.Flow{CutAfter: &down}}
				})
				_, err := r.Run(t.Context(), "sftp.download", cfg)
				steprig.WantError(t, err, false, "down")
				r.net.SetLink(nil)
				change(r)
				out := r.Must(r.Retry(t.Context(), "sftp.download", cfg))
				if r.GetLocal(out["downloaded_file"]) != r.Get("source") {
					t.Error("the content differs")
				}
				steprig.WantTree(t, r.Work, "3/2/source", "3/sftp-download-note.courier-tmp")
			})
		})
	}
}

// TestResumeCancelled keeps a part for a resume, and removes it when the execution
// is cancelled.
func TestResumeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		r := newRig(t, sftpserver.Options{Fault: func(o sftpserver.Op) error {
			if o.Method == "read" {
				if reads++; reads == 3 {
					time.Sleep(time.Second) // what was sent arrives
					return sftpserver.ErrDrop
				}
			}
			return nil
		}})
		r.Put("dir/source", steprig.Content(1<<20))
		for _, cfg := range []object{
			{"remote_path": "dir/source", "resume": true},
			{"remote_path": "dir/source", "resume": true, "local_path": "target"},
			{"remote_path": "dir", "resume": true, "local_path": "in/"},
		} {
			dialed := 0
			reads = 0
			r.net.SetLink(func(int) memnet.Link {
				if dialed++; dialed > 1 {
					return memnet.Link{Refuse: errors.New("down")}
				}
				return memnet.Link{}
			})
			r.Resources.Close()
			r.Resources = &courier.Resources{}
			_, err := r.Run(t.Context(), "sftp.download", cfg)
			steprig.WantError(t, err, false, "down")
			if n := len(steprig.Tree(t, r.Work)); n != 2 {
				t.Errorf("%q, want a part and its note", steprig.Tree(t, r.Work))
			}
			typ, _ := r.Registry.Lookup("sftp.download")
			for _, cancelled := range []bool{false, true} {
				job := courier.NewContext(courier.ContextConfig{
					Execution: "0198c0de-0000-7000-8000-000000000001", Step: 3, Attempt: 1, Workspace: r.Work, Resources: r.Resources, Cancelled: cancelled,
				})
				if err := typ.Rollback(t.Context(), job, steprig.ConfigOf(cfg)); err != nil {
					t.Error(err)
				}
				job.Close()
				if n := len(steprig.Tree(t, r.Work)); n != map[bool]int{false: 2, true: 0}[cancelled] {
					t.Errorf("cancelled=%v: %q", cancelled, steprig.Tree(t, r.Work))
				}
			}
		}
	})
}

// TestAfterDownload deletes or moves what was downloaded, and nothing else.
func TestAfterDownload(t *testing.T) {
	for _, opt := range []sftpserver.Options{{}, {NoPosixRename: true}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, opt)
			remotetour.AfterDownload(&r.Rig, "sftp.download")
		})
	}
}

// TestAfterDownloadAgain loses the answer to the deletion of the source, and
// a new source comes: it is kept, and the outputs are those of the first.
func TestAfterDownloadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{FaultAfter: failing("remove", "/in/a", sftpserver.ErrDrop)})
		r.Put("in/a", []byte("old"))
		cfg := object{"remote_path": "in", "after_transfer": "delete"}
		_, err := r.Run(t.Context(), "sftp.download", cfg)
		steprig.WantError(t, err, false, `delete "in/a"`, "connection is lost")
		r.Put("in/a", []byte("newer"))
		out := r.Must(r.Retry(t.Context(), "sftp.download", cfg))
		if r.GetLocal(out["downloaded_file"]) != "old" || out["downloaded_file"] != "3/2/a" || r.Get("in/a") != "newer" {
			t.Errorf("%v, %q, %q", out, r.GetLocal(out["downloaded_file"]), r.Get("in/a"))
		}
		if err := os.Remove(filepath.Join(r.Work, "3/2/a")); err != nil {
			t.Fatal(err)
		}
		_, err = r.Retry(t.Context(), "sftp.download", cfg)
		steprig.WantError(t, err, true, "an earlier attempt has downloaded it, but it is gone")
	})
}

// TestStableSeconds leaves out what is still being written.
func TestStableSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.Put("in/done", steprig.Content(10))
		r.Put("in/growing", steprig.Content(10))
		grow := func() {
			time.Sleep(25 * time.Second)
			r.Put("in/growing", steprig.Content(11))
			r.Put("in/new", steprig.Content(11))
		}
		go grow()
		out := r.Must(r.Run(t.Context(), "sftp.download", object{"remote_path": "in", "stable_seconds": 40}))
		if out["file_count"] != 1. || out["not_ready_count"] != 2. {
			t.Errorf("%v", out)
		}
		go grow()
		out = r.Must(r.Run(t.Context(), "sftp.list", object{"remote_path": "in", "stable_seconds": 10}))
		if out["file_count"] != 3. {
			t.Errorf("%v", out)
		}
		r.Put("in/growing", steprig.Content(3))
		_, err := r.Run(t.Context(), "sftp.download", object{"remote_path": "in/growing", "stable_seconds": 40})
		steprig.WantError(t, err, false, "it has changed within the 40 seconds")
		began := time.Now()
		r.Must(r.Run(t.Context(), "sftp.download", object{"remote_path": "in/growing", "stable_seconds": 40}))
		if took := time.Since(began); took < 40*time.Second || took > 42*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestBandwidthLimit measures.
func TestBandwidthLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		for i := range 4 {
			r.Put(fmt.Sprintf("in/%d", i), steprig.Content(100_000))
			r.PutLocal(fmt.Sprintf("out/%d", i), steprig.Content(100_000))
		}
		for _, test := range []struct {
			key string
			cfg object
		}{
			{"sftp.download", object{"remote_path": "in", "bandwidth_limit": 10_000}},
			{"sftp.upload", object{"local_path": "out/*", "remote_path": "in/", "bandwidth_limit": 10_000}},
		} {
			began := time.Now()
			r.Must(r.Run(t.Context(), test.key, test.cfg))
			if took := time.Since(began); took < 38*time.Second || took > 45*time.Second {
				t.Errorf("%s: 400 kB with 10 kB/s took %v", test.key, took)
			}
		}
		_, err := r.Run(t.Context(), "sftp.download", object{"remote_path": "in", "bandwidth_limit": 100})
		steprig.WantError(t, err, true, "bandwidth_limit: 100 is too low")
	})
}

// TestChecksum compares with what the partner says, and reads again.
func TestChecksum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.Put("in/x", steprig.Content(300_000))
		cfg := object{"remote_path": "in/x", "checksum": "sidecar"}
		_, err := r.Run(t.Context(), "sftp.download", cfg)
		steprig.WantError(t, err, true, `checksum in "in/x.sha256": no such file`)
		sum := sha256.Sum256(steprig.Content(300_000))
		r.Put("in/x.sha256", []byte(strings.ToUpper(hex.EncodeToString(sum[:]))+"  x\n"))
		r.Must(r.Run(t.Context(), "sftp.download", cfg))
		out := r.Must(r.Run(t.Context(), "sftp.download", object{"remote_path": "in", "checksum": "sidecar"}))
		if out["file_count"] != 1. {
			t.Errorf("%v", out)
		}
		sum[0]++
		r.Put("in/x.sha256", []byte(hex.EncodeToString(sum[:])))
		_, err = r.Run(t.Context(), "sftp.download", cfg)
		steprig.WantError(t, err, false, "the content has the SHA-256", "in/x.sha256")
		r.Put("in/x.sha256", []byte("hello"))
		_, err = r.Run(t.Context(), "sftp.download", cfg)
		steprig.WantError(t, err, true, `it begins with "hello"`)
		r.Must(r.Run(t.Context(), "sftp.download", object{"remote_path": "in/x", "checksum": "read_back"}))
	})
}

// TestSkipIfSame downloads and uploads nothing that is there already.
func TestSkipIfSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.Put("x", steprig.Content(1000))
		chtimes(filepath.Join(r.Remote, "x"), time.Unix(1_600_000_000, 0))
		down := object{"remote_path": "x", "local_path": "x", "skip_if_same": true, "preserve": "all"}
		up := object{"local_path": "x", "remote_path": "y", "skip_if_same": true, "preserve": "times"}
		for range 2 {
			if out := r.Must(r.Run(t.Context(), "sftp.download", down)); out["file_count"] != 1. || out["size"] != 1000. {
				t.Errorf("%v", out)
			}
			if out := r.Must(r.Run(t.Context(), "sftp.upload", up)); out["file_count"] != 1. || out["size"] != 1000. {
				t.Errorf("%v", out)
			}
		}
		if r.Count("read") != 2 || r.Count("write") != 1 { // the end is asked for, too
			t.Errorf("%d reads and %d writes", r.Count("read"), r.Count("write"))
		}
	})
}

// TestPreserve takes times and modes over.
func TestPreserve(t *testing.T) {
	at := time.Unix(1_600_000_000, 0)
	for preserve, want := range map[string]struct {
		mode  os.FileMode
		timed bool
	}{"none": {0o600, false}, "times": {0o600, true}, "modes": {0o640, false}, "all": {0o640, true}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, sftpserver.Options{})
			r.Put("x", steprig.Content(10))
			r.PutLocal("y", steprig.Content(10))
			for _, name := range []string{filepath.Join(r.Remote, "x"), filepath.Join(r.Work, "y")} {
				if err := os.Chmod(name, 0o640); err != nil {
					t.Fatal(err)
				}
				chtimes(name, at)
			}
			r.Must(r.Run(t.Context(), "sftp.download", object{"remote_path": "x", "local_path": "x", "preserve": preserve}))
			r.Must(r.Run(t.Context(), "sftp.upload", object{"local_path": "y", "remote_path": "y", "preserve": preserve}))
			for _, name := range []string{filepath.Join(r.Remote, "y"), filepath.Join(r.Work, "x")} {
				info, err := os.Stat(name)
				if err != nil || info.Mode() != want.mode || info.ModTime().Equal(at) != want.timed {
					t.Errorf("preserve %s: %s has mode %v and time %v", preserve, filepath.Base(name), info.Mode(), info.ModTime())
				}
			}
		})
	}
}

// TestResumeModes gives files the modes that they have without resume.
func TestResumeModes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.Put("x", steprig.Content(10))
		outside := t.TempDir()
		for _, dir := range []string{"", outside + "/"} {
			var modes [2]os.FileMode
			for i, resume := range []bool{false, true} {
				name := fmt.Sprintf("%sx%d", dir, i)
				typ, _ := r.Registry.Lookup("sftp.download")
				job := courier.NewContext(courier.ContextConfig{Execution: "e", Workspace: r.Work, Roots: []string{outside}, Resources: r.Resources})
				if _, err := typ.Execute(t.Context(), job, steprig.ConfigOf(object{"remote_path": "x", "local_path": name, "resume": resume})); err != nil {
					t.Fatal(err)
				}
				info, err := job.Files().Stat(name)
				if err != nil {
					t.Fatal(err)
				}
				modes[i] = info.Mode()
				job.Close()
			}
			if modes[0] != modes[1] {
				t.Errorf("in %q: mode %v, want %v", dir, modes[1], modes[0])
			}
		}
	})
}
