package ftp_test

import (
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
	"github.com/courierhq/courier/internal/test/remotetour"
	"github.com/courierhq/courier/internal/test/steprig"
	"github.com/courierhq/courier/steps/ftp"
)

// A real is a server that is installed on the machine.
type real struct {
	name  string
	start func(testing.TB, ftpdtest.Security) *ftpdtest.Server
	how   ftpdtest.Security

	// passiveOnly: version 1.5.7 of pyftpdlib loses sessions in active mode. It
	// unregisters the descriptor of a connection for content after it was closed,
	// when another session may have it.
	passiveOnly bool
}

var reals = []real{
	{name: "vsftpd plain", start: ftpdtest.VSFTPD, how: ftpdtest.Plain},
	{name: "vsftpd explicit", start: ftpdtest.VSFTPD, how: ftpdtest.Explicit},
	{name: "vsftpd implicit", start: ftpdtest.VSFTPD, how: ftpdtest.Implicit},
	{name: "proftpd plain", start: ftpdtest.ProFTPD, how: ftpdtest.Plain},
	{name: "proftpd explicit", start: ftpdtest.ProFTPD, how: ftpdtest.Explicit},
	{name: "proftpd implicit", start: ftpdtest.ProFTPD, how: ftpdtest.Implicit},
	{name: "pure-ftpd plain", start: ftpdtest.PureFTPD, how: ftpdtest.Plain},
	{name: "pure-ftpd explicit", start: ftpdtest.PureFTPD, how: ftpdtest.Explicit},
	{name: "pyftpdlib plain", start: ftpdtest.PyFTPDLib, how: ftpdtest.Plain},
	{name: "pyftpdlib explicit", start: ftpdtest.PyFTPDLib, how: ftpdtest.Explicit, passiveOnly: true},
	{name: "inetutils plain", start: ftpdtest.Inetutils, how: ftpdtest.Plain},
}

// newReal starts a server and returns a rig without one of its own.
func newReal(t *testing.T, w real) (*rig, *ftpdtest.Server) {
	t.Helper()
	s := w.start(t, w.how)
	r := &rig{Rig: steprig.Rig{T: t, Work: filepath.Join(t.TempDir(), "work"), Remote: s.Dir, Attempt: 1, Resources: &courier.Resources{}}, path: s.Path}
	t.Cleanup(func() { r.Resources.Close() })
	r.conn = ftp.Connection{
		Host: "127.0.0.1", Port: s.Port(), Username: s.User, Password: s.Password,
		Security: [...]string{"none", "explicit", "implicit"}[w.how],
	}
	if w.how != ftpdtest.Plain {
		r.conn.Authorities = ftpserver.ServerCertificate
	}
	ftp.Register(&r.Registry, connections(func() ftp.Connection { return r.conn }))
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
			if !w.passiveOnly {
				t.Run(w.name+" active", func(t *testing.T) {
					t.Parallel()
					r, _ := newReal(t, w)
					r.conn.Active = true
					r.tour()
				})
			}
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
	r.Put("to/keep", nil)
	r.Put("f", steprig.Content(10))
	r.Must(r.Run(t.Context(), "ftp.rename", object{"source_path": "f", "destination_path": "to/g"}))
	out := r.Must(r.Run(t.Context(), "ftp.rmdir", object{"remote_path": "to", "recursive": true}))
	if out["existed"] != true {
		t.Errorf("rmdir: %v", out)
	}
	steprig.WantTree(t, r.Remote)
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
	r.T.Helper()
	ctx, family := r.T.Context(), "ftp"
	if r.conn.Security != "none" {
		family = "ftps"
	}
	remotetour.Tour{
		TB: r.T, Family: family, Work: r.Work, Remote: r.Remote, Path: r.path,
		Run:      func(key string, cfg object) (object, error) { return r.Run(ctx, key, cfg) },
		Validate: func(key string, cfg object) error { return r.Validate(ctx, key, cfg) },
		Reconnect: func() {
			r.Resources.Close()
			r.Resources = &courier.Resources{}
		},
	}.Go()
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
					r.PutLocal("file", steprig.Content(size))
				} else if err := s.Write("file", steprig.Content(size)); err != nil {
					t.Fatal(err)
				}
				r.OnProgress = func(p courier.Progress) {
					if p.Done > size/2 && p.Done < size && r.Attempt == 1 {
						s.Cut()
					}
				}
				if _, err := r.Run(t.Context(), key, cfg); err == nil {
					t.Fatal("a cut transfer succeeded")
				}
				time.Sleep(50 * time.Millisecond) // until the server has written what it got
				r.ForgetReports()
				r.Must(r.Retry(t.Context(), key, cfg))
				if r.Get("file") != string(steprig.Content(size)) || r.GetLocal("file") != string(steprig.Content(size)) {
					t.Error("the content differs")
				}
				steprig.WantTree(t, r.Remote, "file")
				if first := r.firstReport(); first <= 0 {
					t.Errorf("the second attempt began at %d", first)
				}
			})
		}
	}
}

// firstReport is how far the first file was when the transfer began.
func (r *rig) firstReport() int64 {
	for _, p := range r.Reports() {
		if p.Total > 0 {
			return p.Done
		}
	}
	return -1
}

// TestTail uploads with TLS 1.3 to vsftpd, which loses the end of a file if the
// connection is reset.
func TestTail(t *testing.T) {
	r, _ := newReal(t, real{name: "vsftpd", start: ftpdtest.VSFTPD, how: ftpdtest.Explicit})
	r.conn.MinTLS = "1.3"
	const size = 64 << 20
	r.PutLocal("file", steprig.Content(size))
	for i := range 6 {
		name := fmt.Sprintf("file%d", i)
		r.Must(r.Run(t.Context(), "ftp.upload", object{"local_path": "file", "remote_path": r.at(name)}))
		if r.Get(name) != string(steprig.Content(size)) {
			t.Fatalf("upload %d differs", i)
		}
		remove(r.Remote, name)
	}
}

func remove(dir, name string) { os.Remove(filepath.Join(dir, filepath.FromSlash(name))) }
