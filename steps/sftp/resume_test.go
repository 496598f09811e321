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
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/sftpserver"
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
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reports[len(r.reports)-1].Bytes
}

// TestResumeDownload cuts the connection at many places: an attempt goes on by
// itself, and less than one packet is sent twice for each cut.
func TestResumeDownload(t *testing.T) {
	const size = 2 << 20
	cfg := object{"remote_path": "dir/source", "local_path": "target", "resume": true}
	for n := int64(5000); n < size+size/4; n += 100_000 {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sftpserver.Options{})
			r.put("dir/source", content(size))
			r.net.SetLink(func(i int) memnet.Link {
				if i > 3 {
					return memnet.Link{}
				}
				return memnet.Link{Down: memnet.Flow{CutAfter: &n}}
			})
			_, err := r.run(t.Context(), "sftp.download", cfg)
			for range 2 {
				if err == nil {
					break
				}
				wantError(t, err, false, "connection is lost")
				if !strings.Contains(r.getLocal("target"), "no such file") {
					t.Fatal("the final name appeared too early")
				}
				_, err = r.retry(t.Context(), "sftp.download", cfg)
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.getLocal("target") != string(content(size)) {
				t.Errorf("cut after %d bytes: the content differs", n)
			}
			wantTree(t, r.work, "3/sftp-download-note.courier-tmp", "target")
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
		bubble(t, func(t *testing.T) {
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
			r.put("source", content(size))
			r.must(r.run(t.Context(), "sftp.download", object{"remote_path": "source", "local_path": "x", "resume": true}))
			if r.getLocal("x") != string(content(size)) {
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
		"size": func(r *rig) { r.put("source", content(size+1)) },
		"time": func(r *rig) {
			r.put("source", content(size - 1)[:size-1])
			r.put("source", append([]byte{1}, content(size-1)...))
			chtimes(filepath.Join(r.remote, "source"), time.Now().Add(time.Hour))
		},
		"tail": func(r *rig) {
			info, _ := os.Stat(filepath.Join(r.remote, "source"))
			r.put("source", append([]byte{1}, content(size-1)...))
			chtimes(filepath.Join(r.remote, "source"), info.ModTime())
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, sftpserver.Options{Fault: nil})
				r.put("source", content(size))
				down := int64(600_000)
				cfg := object{"remote_path": "source", "resume": true}
				r.net.SetLink(func(i int) memnet.Link {
					if i > 1 {
						return memnet.Link{Refuse: errors.New("down")}
					}
					return memnet.Link{Down: memnet.Flow{CutAfter: &down}}
				})
				_, err := r.run(t.Context(), "sftp.download", cfg)
				wantError(t, err, false, "down")
				r.net.SetLink(nil)
				change(r)
				out := r.must(r.retry(t.Context(), "sftp.download", cfg))
				if r.getLocal(out["downloaded_file"]) != r.get("source") {
					t.Error("the content differs")
				}
				wantTree(t, r.work, "3/2/source", "3/sftp-download-note.courier-tmp")
			})
		})
	}
}

// TestResumeCancelled keeps a part for a resume, and removes it when the execution
// is cancelled.
func TestResumeCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
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
		r.put("dir/source", content(1<<20))
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
			r.res.Close()
			r.res = &courier.Resources{}
			_, err := r.run(t.Context(), "sftp.download", cfg)
			wantError(t, err, false, "down")
			if n := len(tree(t, r.work)); n != 2 {
				t.Errorf("%q, want a part and its note", tree(t, r.work))
			}
			typ, _ := r.reg.Lookup("sftp.download")
			for _, cancelled := range []bool{false, true} {
				job := courier.NewContext(courier.ContextConfig{
					Execution: "0198c0de-0000-7000-8000-000000000001", Step: 3, Attempt: 1, Workspace: r.work, Resources: r.res, Cancelled: cancelled,
				})
				if err := typ.Rollback(t.Context(), job, configOf(cfg)); err != nil {
					t.Error(err)
				}
				job.Close()
				if n := len(tree(t, r.work)); n != map[bool]int{false: 2, true: 0}[cancelled] {
					t.Errorf("cancelled=%v: %q", cancelled, tree(t, r.work))
				}
			}
		}
	})
}

// TestAfterDownload deletes or moves what was downloaded, and nothing else.
func TestAfterDownload(t *testing.T) {
	for _, opt := range []sftpserver.Options{{}, {NoPosixRename: true}} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, opt)
			for _, name := range []string{"in/a", "in/b", "in/c", "in/a.done", "in/b.done", "archive/a"} {
				r.put(name, []byte(name))
			}
			out := r.must(r.run(t.Context(), "sftp.download", object{"remote_path": "in", "done_file": "*.done", "after_transfer": "move", "move_to": "archive"}))
			if out["file_count"] != 2. || out["not_ready_count"] != 1. {
				t.Errorf("%v", out)
			}
			wantTree(t, r.remote, "archive/a", "archive/b", "in/c")
			if r.get("archive/a") != "in/a" {
				t.Error("the archived file was not replaced")
			}
			r.work = filepath.Join(t.TempDir(), "other")
			r.must(r.run(t.Context(), "sftp.download", object{"remote_path": "in/c", "after_transfer": "delete"}))
			wantTree(t, r.remote, "archive/a", "archive/b")
			_, err := r.run(t.Context(), "sftp.download", object{"remote_path": "in/none", "done_file": "*.done"})
			wantError(t, err, true, "no such file")
			r.put("in/d", nil)
			_, err = r.run(t.Context(), "sftp.download", object{"remote_path": "in/d", "done_file": "*.done"})
			wantError(t, err, false, `its done_file "in/d.done" is not there yet`)
			_, err = r.run(t.Context(), "sftp.download", object{"remote_path": "in", "done_file": "*.done"})
			wantError(t, err, false, "1 that are not yet")
		})
	}
}

// TestAfterDownloadAgain loses the answer to the deletion of the source, and
// a new source comes: it is kept, and the outputs are those of the first.
func TestAfterDownloadAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{FaultAfter: failing("remove", "/in/a", sftpserver.ErrDrop)})
		r.put("in/a", []byte("old"))
		cfg := object{"remote_path": "in", "after_transfer": "delete"}
		_, err := r.run(t.Context(), "sftp.download", cfg)
		wantError(t, err, false, `delete "in/a"`, "connection is lost")
		r.put("in/a", []byte("newer"))
		out := r.must(r.retry(t.Context(), "sftp.download", cfg))
		if r.getLocal(out["downloaded_file"]) != "old" || out["downloaded_file"] != "3/2/a" || r.get("in/a") != "newer" {
			t.Errorf("%v, %q, %q", out, r.getLocal(out["downloaded_file"]), r.get("in/a"))
		}
		if err := os.Remove(filepath.Join(r.work, "3/2/a")); err != nil {
			t.Fatal(err)
		}
		_, err = r.retry(t.Context(), "sftp.download", cfg)
		wantError(t, err, true, "an earlier attempt has downloaded it, but it is gone")
	})
}

// TestStableSeconds leaves out what is still being written.
func TestStableSeconds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.put("in/done", content(10))
		r.put("in/growing", content(10))
		grow := func() {
			time.Sleep(25 * time.Second)
			r.put("in/growing", content(11))
			r.put("in/new", content(11))
		}
		go grow()
		out := r.must(r.run(t.Context(), "sftp.download", object{"remote_path": "in", "stable_seconds": 40}))
		if out["file_count"] != 1. || out["not_ready_count"] != 2. {
			t.Errorf("%v", out)
		}
		go grow()
		out = r.must(r.run(t.Context(), "sftp.list", object{"remote_path": "in", "stable_seconds": 10}))
		if out["file_count"] != 3. {
			t.Errorf("%v", out)
		}
		r.put("in/growing", content(3))
		_, err := r.run(t.Context(), "sftp.download", object{"remote_path": "in/growing", "stable_seconds": 40})
		wantError(t, err, false, "it has changed within the 40 seconds")
		began := time.Now()
		r.must(r.run(t.Context(), "sftp.download", object{"remote_path": "in/growing", "stable_seconds": 40}))
		if took := time.Since(began); took < 40*time.Second || took > 42*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestBandwidthLimit measures.
func TestBandwidthLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		for i := range 4 {
			r.put(fmt.Sprintf("in/%d", i), content(100_000))
			r.putLocal(fmt.Sprintf("out/%d", i), content(100_000))
		}
		for _, test := range []struct {
			key string
			cfg object
		}{
			{"sftp.download", object{"remote_path": "in", "bandwidth_limit": 10_000}},
			{"sftp.upload", object{"local_path": "out/*", "remote_path": "in/", "bandwidth_limit": 10_000}},
		} {
			began := time.Now()
			r.must(r.run(t.Context(), test.key, test.cfg))
			if took := time.Since(began); took < 38*time.Second || took > 45*time.Second {
				t.Errorf("%s: 400 kB with 10 kB/s took %v", test.key, took)
			}
		}
		_, err := r.run(t.Context(), "sftp.download", object{"remote_path": "in", "bandwidth_limit": 100})
		wantError(t, err, true, "bandwidth_limit: 100 is too low")
	})
}

// TestChecksum compares with what the partner says, and reads again.
func TestChecksum(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.put("in/x", content(300_000))
		cfg := object{"remote_path": "in/x", "checksum": "sidecar"}
		_, err := r.run(t.Context(), "sftp.download", cfg)
		wantError(t, err, true, `checksum in "in/x.sha256": no such file`)
		sum := sha256.Sum256(content(300_000))
		r.put("in/x.sha256", []byte(strings.ToUpper(hex.EncodeToString(sum[:]))+"  x\n"))
		r.must(r.run(t.Context(), "sftp.download", cfg))
		out := r.must(r.run(t.Context(), "sftp.download", object{"remote_path": "in", "checksum": "sidecar"}))
		if out["file_count"] != 1. {
			t.Errorf("%v", out)
		}
		sum[0]++
		r.put("in/x.sha256", []byte(hex.EncodeToString(sum[:])))
		_, err = r.run(t.Context(), "sftp.download", cfg)
		wantError(t, err, false, "the content has the SHA-256", "in/x.sha256")
		r.put("in/x.sha256", []byte("hello"))
		_, err = r.run(t.Context(), "sftp.download", cfg)
		wantError(t, err, true, `it begins with "hello"`)
		r.must(r.run(t.Context(), "sftp.download", object{"remote_path": "in/x", "checksum": "read_back"}))
	})
}

// TestSkipIfSame downloads and uploads nothing that is there already.
func TestSkipIfSame(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.put("x", content(1000))
		chtimes(filepath.Join(r.remote, "x"), time.Unix(1_600_000_000, 0))
		down := object{"remote_path": "x", "local_path": "x", "skip_if_same": true, "preserve": "all"}
		up := object{"local_path": "x", "remote_path": "y", "skip_if_same": true, "preserve": "times"}
		for range 2 {
			if out := r.must(r.run(t.Context(), "sftp.download", down)); out["file_count"] != 1. || out["size"] != 1000. {
				t.Errorf("%v", out)
			}
			if out := r.must(r.run(t.Context(), "sftp.upload", up)); out["file_count"] != 1. || out["size"] != 1000. {
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
		bubble(t, func(t *testing.T) {
			r := newRig(t, sftpserver.Options{})
			r.put("x", content(10))
			r.putLocal("y", content(10))
			for _, name := range []string{filepath.Join(r.remote, "x"), filepath.Join(r.work, "y")} {
				if err := os.Chmod(name, 0o640); err != nil {
					t.Fatal(err)
				}
				chtimes(name, at)
			}
			r.must(r.run(t.Context(), "sftp.download", object{"remote_path": "x", "local_path": "x", "preserve": preserve}))
			r.must(r.run(t.Context(), "sftp.upload", object{"local_path": "y", "remote_path": "y", "preserve": preserve}))
			for _, name := range []string{filepath.Join(r.remote, "y"), filepath.Join(r.work, "x")} {
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
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.put("x", content(10))
		outside := t.TempDir()
		for _, dir := range []string{"", outside + "/"} {
			var modes [2]os.FileMode
			for i, resume := range []bool{false, true} {
				name := fmt.Sprintf("%sx%d", dir, i)
				typ, _ := r.reg.Lookup("sftp.download")
				job := courier.NewContext(courier.ContextConfig{Execution: "e", Workspace: r.work, Roots: []string{outside}, Resources: r.res})
				if _, err := typ.Execute(t.Context(), job, configOf(object{"remote_path": "x", "local_path": name, "resume": resume})); err != nil {
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
