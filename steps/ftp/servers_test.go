package ftp_test

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/ftpdtest"
	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/steps/ftp"
)

// A real is a server that is installed on the machine.
type real struct {
	name  string
	start func(testing.TB, ftpdtest.Security) *ftpdtest.Server
	how   ftpdtest.Security
}

var reals = []real{
	{"vsftpd plain", ftpdtest.VSFTPD, ftpdtest.Plain},
	{"vsftpd explicit", ftpdtest.VSFTPD, ftpdtest.Explicit},
	{"vsftpd implicit", ftpdtest.VSFTPD, ftpdtest.Implicit},
	{"proftpd plain", ftpdtest.ProFTPD, ftpdtest.Plain},
	{"proftpd explicit", ftpdtest.ProFTPD, ftpdtest.Explicit},
	{"proftpd implicit", ftpdtest.ProFTPD, ftpdtest.Implicit},
	{"pure-ftpd plain", ftpdtest.PureFTPD, ftpdtest.Plain},
	{"pure-ftpd explicit", ftpdtest.PureFTPD, ftpdtest.Explicit},
}

// newReal starts a server and returns a rig without one of its own.
func newReal(t *testing.T, w real) (*rig, *ftpdtest.Server) {
	t.Helper()
	s := w.start(t, w.how)
	r := &rig{t: t, work: filepath.Join(t.TempDir(), "work"), remote: s.Dir, path: s.Path, attempt: 1, res: &courier.Resources{}}
	t.Cleanup(func() { r.res.Close() })
	r.conn = ftp.Connection{
		Host: "127.0.0.1", Port: s.Port(), Username: s.User, Password: s.Password,
		Security: [...]string{"none", "explicit", "implicit"}[w.how],
	}
	if w.how != ftpdtest.Plain {
		r.conn.Authorities = ftpserver.ServerCertificate
	}
	ftp.Register(&r.reg, connections(func() ftp.Connection { return r.conn }))
	return r, s
}

// TestServers runs all steps against real servers.
func TestServers(t *testing.T) {
	for _, w := range reals {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			r, _ := newReal(t, w)
			r.tour()
		})
		if w.how == ftpdtest.Explicit {
			t.Run(w.name+" active", func(t *testing.T) {
				t.Parallel()
				r, _ := newReal(t, w)
				r.conn.Active = true
				r.tour()
			})
			t.Run(w.name+" TLS 1.2 PASV", func(t *testing.T) {
				t.Parallel()
				r, _ := newReal(t, w)
				r.conn.MaxTLS, r.conn.DisableEPSV, r.conn.DisableMLSD = "1.2", true, true
				r.tour()
			})
		}
	}
}

// TestSizesOfDirectories runs all steps against a server without MLST that answers SIZE
// and MDTM for directories.
func TestSizesOfDirectories(t *testing.T) {
	r := newRig(t, ftpserver.Options{NoMLSD: true, SizesAll: true})
	r.tour()
	r.put("to/keep", nil)
	r.put("f", content(10))
	r.must(r.run(t.Context(), "ftp.rename", object{"source_path": "f", "destination_path": "to/g"}))
	out := r.must(r.run(t.Context(), "ftp.rmdir", object{"remote_path": "to", "recursive": true}))
	if out["existed"] != true {
		t.Errorf("rmdir: %v", out)
	}
	wantTree(t, r.remote)
}

// at is the path of a file on the server.
func (r *rig) at(name string) string {
	if strings.HasSuffix(name, "/") {
		return path.Join(r.path, name) + "/"
	}
	return path.Join(r.path, name)
}

// tour runs one step after the other.
func (r *rig) tour() {
	t, ctx := r.t, context.Background()
	t.Helper()
	const size = 3_000_000
	at := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
	r.putLocal("out/big", content(size))
	r.putLocal("out/empty", nil)
	r.putLocal("out/grüße aus köln.txt", content(11))
	if err := os.Chtimes(filepath.Join(r.work, "out/big"), at, at); err != nil {
		t.Fatal(err)
	}
	for _, typ := range []string{"ftp.list", "ftp.upload"} {
		if err := r.validate(ctx, typ, object{"local_path": "out/*", "remote_path": r.at(".")}); err != nil {
			if typ == "ftp.list" {
				err = r.validate(ctx, typ, object{"remote_path": r.at(".")})
			}
			if err != nil {
				t.Fatalf("validate %s: %v", typ, err)
			}
		}
	}
	r.must(r.run(ctx, "ftp.mkdir", object{"remote_path": r.at("a/b c")}))
	out := r.must(r.run(ctx, "ftps.upload", object{"local_path": "out/*", "remote_path": r.at("a/b c/"), "preserve": "times", "checksum": "read_back"}))
	if out["file_count"] != 3.0 {
		t.Errorf("upload: %v", out)
	}
	// Again: onto files that exist.
	r.must(r.run(ctx, "ftp.upload", object{"local_path": "out/*", "remote_path": r.at("a/b c")}))
	wantTree(t, r.remote, "a/b c/big", "a/b c/empty", "a/b c/grüße aus köln.txt")
	if r.get("a/b c/big") != string(content(size)) {
		t.Error("uploaded content differs")
	}
	out = r.must(r.run(ctx, "ftp.list", object{"remote_path": r.at("a"), "pattern": "**"}))
	if out["file_count"] != 3.0 || out["unsafe_count"] != 0.0 {
		t.Errorf("list: %v", out)
	}
	out = r.must(r.run(ctx, "ftp.stat", object{"remote_path": r.at("a/b c/big")}))
	if out["size"] != float64(size) || out["is_directory"] != false || out["modified"] == nil {
		t.Errorf("stat: %v", out)
	}
	out = r.must(r.run(ctx, "ftp.stat", object{"remote_path": r.at("a/b c")}))
	if out["is_directory"] != true {
		t.Errorf("stat: %v", out)
	}
	out = r.must(r.run(ctx, "ftp.stat", object{"remote_path": r.at("a/none")}))
	if out["exists"] != false {
		t.Errorf("stat: %v", out)
	}
	_, err := r.run(ctx, "ftp.stat", object{"remote_path": r.at("a/none"), "ignore_missing": false})
	wantError(t, err, true, "a/none", "the server refuses")
	out = r.must(r.run(ctx, "ftp.download", object{"remote_path": r.at("a"), "pattern": "**/*", "local_path": "in/"}))
	if out["file_count"] != 3.0 || r.getLocal("in/b c/big") != string(content(size)) || r.getLocal("in/b c/empty") != "" {
		t.Errorf("download: %v", out)
	}
	r.must(r.run(ctx, "ftp.rename", object{"source_path": r.at("a/b c/big"), "destination_path": r.at("a/b c/empty")}))
	r.must(r.run(ctx, "ftp.delete", object{"remote_path": r.at("a/b c"), "pattern": "*.txt"}))
	wantTree(t, r.remote, "a/b c/empty")
	r.must(r.run(ctx, "ftp.download", object{"remote_path": r.at("a/b c/empty"), "local_path": "moved", "after_transfer": "delete"}))
	if r.getLocal("moved") != string(content(size)) {
		t.Error("downloaded content differs")
	}
	wantTree(t, r.remote)
	r.tourOfTrees()
	r.must(r.run(ctx, "ftp.upload", object{"local_path": "out/*", "remote_path": r.at("a/")}))
	r.must(r.run(ctx, "ftp.rmdir", object{"remote_path": r.at("a"), "recursive": true}))
	if entries, err := os.ReadDir(r.remote); err != nil || len(entries) > 0 {
		t.Errorf("left are %v, %v", entries, err)
	}
}

// tourOfTrees moves directories there and back, with all that belongs to files.
func (r *rig) tourOfTrees() {
	t, ctx := r.t, context.Background()
	t.Helper()
	r.putLocal("tree/x", content(100))
	r.putLocal("tree/sub/deep/y", content(5000))
	up := object{"local_path": "tree/**", "remote_path": r.at("a/"), "checksum": "sidecar", "done_file": "*.done", "preserve": "times", "after_transfer": "move", "move_to": "sent"}
	out := r.must(r.run(ctx, "ftp.upload", up))
	if out["file_count"] != 2.0 || r.getLocal("sent/sub/deep/y") != string(content(5000)) {
		t.Errorf("upload: %v", out)
	}
	wantTree(t, r.remote, "a/sub/deep/y", "a/sub/deep/y.done", "a/sub/deep/y.sha256", "a/x", "a/x.done", "a/x.sha256")
	r.put("a/sub/deep/unfinished", nil)
	down := object{"remote_path": r.at("a"), "pattern": "**", "local_path": "back/", "checksum": "sidecar", "done_file": "*.done", "after_transfer": "move", "move_to": r.at("a/old")}
	out = r.must(r.run(ctx, "ftp.download", down))
	if out["file_count"] != 2.0 || out["not_ready_count"] != 1.0 || r.getLocal("back/sub/deep/y") != string(content(5000)) || r.getLocal("back/x") != string(content(100)) {
		t.Errorf("download: %v", out)
	}
	if r.get("a/old/sub/deep/y") != string(content(5000)) || r.get("a/old/x") != string(content(100)) {
		t.Errorf("what was downloaded is not in its place: %q", tree(t, r.remote))
	}
	r.must(r.run(ctx, "ftp.delete", object{"remote_path": r.at("a"), "pattern": "**"}))
	wantTree(t, r.remote)
}

// TestResumeServers interrupts transfers with real servers, and goes on.
func TestResumeServers(t *testing.T) {
	const size = 20_000_000
	for _, w := range reals {
		for _, key := range []string{"ftp.download", "ftp.upload"} {
			t.Run(w.name+" "+key, func(t *testing.T) {
				t.Parallel()
				r, s := newReal(t, w)
				cfg := object{"local_path": "file", "remote_path": r.at("file"), "resume": true}
				if key == "ftp.upload" {
					r.putLocal("file", content(size))
				} else if err := s.Write("file", content(size)); err != nil {
					t.Fatal(err)
				}
				r.onProgress = func(p courier.Progress) {
					if p.Done > size/2 && p.Done < size && r.attempt == 1 {
						s.Cut()
					}
				}
				if _, err := r.run(t.Context(), key, cfg); err == nil {
					t.Fatal("a cut transfer succeeded")
				}
				time.Sleep(50 * time.Millisecond) // until the server has written what it got
				r.reports = nil
				r.must(r.retry(t.Context(), key, cfg))
				if r.get("file") != string(content(size)) || r.getLocal("file") != string(content(size)) {
					t.Error("the content differs")
				}
				wantTree(t, r.remote, "file")
				if first := r.firstReport(); first <= 0 {
					t.Errorf("the second attempt began at %d", first)
				}
			})
		}
	}
}

// firstReport is how far the first file was when the transfer began.
func (r *rig) firstReport() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.reports {
		if p.Total > 0 {
			return p.Done
		}
	}
	return -1
}

// TestTail uploads with TLS 1.3 to vsftpd, which loses the end of a file if the
// connection is reset.
func TestTail(t *testing.T) {
	r, _ := newReal(t, real{"vsftpd", ftpdtest.VSFTPD, ftpdtest.Explicit})
	r.conn.MinTLS = "1.3"
	const size = 64 << 20
	r.putLocal("file", content(size))
	for i := range 6 {
		name := fmt.Sprintf("file%d", i)
		r.must(r.run(t.Context(), "ftp.upload", object{"local_path": "file", "remote_path": r.at(name)}))
		if r.get(name) != string(content(size)) {
			t.Fatalf("upload %d differs", i)
		}
		remove(r.remote, name)
	}
}

func remove(dir, name string) { os.Remove(filepath.Join(dir, filepath.FromSlash(name))) }
