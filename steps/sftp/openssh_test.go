package sftp_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/sshdtest"
	"github.com/courierhq/courier/internal/test/steprig"
	"github.com/courierhq/courier/steps/sftp"
)

// newOpenSSH returns a rig whose server is OpenSSH's.
func newOpenSSH(t testing.TB) (*rig, *sshdtest.Server) {
	t.Helper()
	s := sshdtest.Start(t)
	r := newReal(t, s.Addr, s.Dir, s.HostKey)
	r.conn.Username, r.conn.PrivateKey = s.User, string(s.ClientKey)
	return r, s
}

// newReal returns a rig whose server is a program that runs already. Its connection
// lacks a login.
func newReal(t testing.TB, addr, dir string, hostKey ssh.PublicKey) *rig {
	t.Helper()
	host, port, _ := net.SplitHostPort(addr)
	r := &rig{Rig: steprig.Rig{T: t, Remote: dir, Work: filepath.Join(t.TempDir(), "work"), Attempt: 1, Resources: &courier.Resources{}}}
	t.Cleanup(func() { r.Resources.Close() })
	r.conn = sftp.Connection{Host: host, HostKeys: []string{ssh.FingerprintSHA256(hostKey)}}
	fmt.Sscan(port, &r.conn.Port)
	sftp.Register(&r.Registry, connections(func() sftp.Connection { return r.conn }))
	return r
}

func TestOpenSSH(t *testing.T) {
	r, s := newOpenSSH(t)
	r.Put("in/sub/x", nil)
	for _, size := range []int{0, 1, 100_000, 10 << 20} {
		name := fmt.Sprintf("%d.bin", size)
		r.PutLocal(name, steprig.Content(size))
		out := r.Must(r.Run(t.Context(), "sftp.upload", object{"local_path": name, "remote_path": "in/" + name}))
		if r.Get("in/"+name) != string(steprig.Content(size)) {
			t.Errorf("upload of %d bytes: the content differs", size)
		}
		out = r.Must(r.Run(t.Context(), "sftp.download", object{"remote_path": out["uploaded_file"], "local_path": "back/"}))
		if r.GetLocal(out["downloaded_file"]) != string(steprig.Content(size)) {
			t.Errorf("download of %d bytes: the content differs", size)
		}
		info, err := os.Stat(filepath.Join(s.Dir, "in", name))
		if local, e := os.Stat(filepath.Join(r.Work, "back", name)); err != nil || e != nil || !local.ModTime().Equal(info.ModTime().Truncate(time.Second)) {
			t.Errorf("times %v and %v, %v, %v", info, local, err, e)
		}
	}
	r.Put("in/größe 見積.csv", []byte("x"))
	r.Put("in/latin1 \xe9.csv", []byte("x"))
	r.Put("in/new\nline", []byte("x"))
	if err := os.Symlink("0.bin", filepath.Join(s.Dir, "in", "alias")); err != nil {
		t.Fatal(err)
	}
	out := r.Must(r.Run(t.Context(), "sftp.list", object{"remote_path": filepath.ToSlash(s.Dir) + "/in", "follow_links": true}))
	var names []string
	for _, f := range out["file_list"].([]any) {
		names = append(names, f.(object)["name"].(string))
	}
	if want := []string{"0.bin", "1.bin", "100000.bin", "10485760.bin", "alias", "größe 見積.csv"}; !reflect.DeepEqual(names, want) || out["unsafe_count"] != 2. {
		t.Errorf("list = %q, %v skipped, want %q and 2", names, out["unsafe_count"], want)
	}
	// An existing file is replaced, or not.
	_, err := r.Run(t.Context(), "sftp.upload", object{"local_path": "1.bin", "remote_path": "in/0.bin", "if_exists": "fail"})
	steprig.WantError(t, err, true, "exists")
	r.Must(r.Run(t.Context(), "sftp.upload", object{"local_path": "1.bin", "remote_path": "in/0.bin"}))
	if r.Get("in/0.bin") != string(steprig.Content(1)) {
		t.Error("the file was not replaced")
	}
	_, err = r.Run(t.Context(), "sftp.download", object{"remote_path": "in/none"})
	steprig.WantError(t, err, true, `download "in/none": no such file`)
	_, err = r.Run(t.Context(), "sftp.list", object{"remote_path": "in/0.bin"})
	steprig.WantError(t, err, true, `list "in/0.bin": is not a directory`)
	for key, cfg := range map[string]object{
		"sftp.list":     {"remote_path": "in"},
		"sftp.download": {"remote_path": "in/1.bin"},
		"sftp.upload":   {"local_path": "1.bin", "remote_path": "in/"},
	} {
		if err := r.Validate(t.Context(), key, cfg); err != nil {
			t.Errorf("%s: Validate = %v", key, err)
		}
	}
	for _, f := range append(steprig.Tree(t, r.Work), steprig.Tree(t, s.Dir)...) {
		if strings.Contains(f, ".courier-tmp-") {
			t.Errorf("%s was left behind", f)
		}
	}
}

// TestOpenSSHKeys checks every way to say which host key is right, and what is
// said about wrong ones.
func TestOpenSSHKeys(t *testing.T) {
	r, s := newOpenSSH(t)
	fingerprint := ssh.FingerprintSHA256(s.HostKey)
	other := newSigner(t).PublicKey()
	file := func(key ssh.PublicKey) string {
		name := filepath.Join(t.TempDir(), "known_hosts")
		line := knownhosts.Line([]string{knownhosts.Normalize(s.Addr)}, key) + "\n"
		if err := os.WriteFile(name, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	list := func(keys []string, known string) error {
		r.conn.HostKeys, r.conn.KnownHosts = keys, known
		r.Resources.Close()
		r.Resources = &courier.Resources{}
		_, err := r.Run(t.Context(), "sftp.list", nil)
		return err
	}
	for name, err := range map[string]error{
		"fingerprint": list([]string{fingerprint}, ""),
		"public key":  list([]string{string(ssh.MarshalAuthorizedKey(s.HostKey))}, ""),
		"one of two":  list([]string{ssh.FingerprintSHA256(other), fingerprint}, ""),
		"known_hosts": list(nil, file(s.HostKey)),
		"either":      list([]string{fingerprint}, file(other)),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	steprig.WantError(t, list(nil, ""), true, "no host key is configured", fingerprint, "host_keys", "no credentials were sent")
	steprig.WantError(t, list([]string{ssh.FingerprintSHA256(other)}, ""), true, "has changed", fingerprint, ssh.FingerprintSHA256(other))
	steprig.WantError(t, list(nil, file(other)), true, "has changed", fingerprint, ssh.FingerprintSHA256(other), "known_hosts")
	r.conn.PrivateKey = string(mustPEM(t))
	steprig.WantError(t, list([]string{fingerprint}, ""), true, "refuses the login", r.conn.Username)
}

// TestOpenSSHCut cuts the connection in the middle of transfers.
func TestOpenSSHCut(t *testing.T) {
	r, s := newOpenSSH(t)
	const size = 64 << 20
	r.PutLocal("x", steprig.Content(size))
	r.Put("y", steprig.Content(size))
	for _, test := range []struct {
		key string
		cfg object
	}{
		{"sftp.upload", object{"local_path": "x", "remote_path": "up"}},
		{"sftp.download", object{"remote_path": "y", "local_path": "down", "resume": false}},
	} {
		cut := false
		r.OnProgress = func(p courier.Progress) {
			if p.Done > size/2 && !cut {
				cut = true
				s.Cut()
			}
		}
		_, err := r.Run(t.Context(), test.key, test.cfg)
		steprig.WantError(t, err, false, "connection is lost")
		if r.GetLocal("down") == string(steprig.Content(size)) || r.Get("up") == string(steprig.Content(size)) != (test.key == "sftp.download") {
			t.Errorf("%s: a final name appeared too early", test.key)
		}
		r.OnProgress = nil
		r.Must(r.Retry(t.Context(), test.key, test.cfg))
	}
	cut, least := false, int64(size)
	r.OnProgress = func(p courier.Progress) {
		if cut && p.Done > 0 { // 0 is said before the part is compared
			least = min(least, p.Done)
		} else if p.Done > size/2 {
			cut = true
			s.Cut()
		}
	}
	r.Must(r.Run(t.Context(), "sftp.download", object{"remote_path": "y", "local_path": "on"}))
	if !cut || least < size/4 {
		t.Errorf("the download that goes on by itself was at %d bytes after the cut", least)
	}
	if r.Get("up") != string(steprig.Content(size)) || r.GetLocal("down") != string(steprig.Content(size)) || r.GetLocal("on") != string(steprig.Content(size)) {
		t.Error("the content differs")
	}
	steprig.WantTree(t, r.Remote, "up", "y")
	steprig.WantTree(t, r.Work, "3/sftp-download-note.courier-tmp", "down", "on", "x")
}

// TestOpenSSHCancel cancels transfers, which must end soon.
func TestOpenSSHCancel(t *testing.T) {
	r, _ := newOpenSSH(t)
	const size = 256 << 20
	f, err := os.Create(filepath.Join(r.Remote, "big"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	var cancelled time.Time
	r.OnProgress = func(p courier.Progress) {
		if cancelled.IsZero() {
			cancelled = time.Now()
			cancel(stop)
		}
	}
	_, err = r.Run(ctx, "sftp.download", object{"remote_path": "big"})
	if took := time.Since(cancelled); !errors.Is(err, stop) || took > time.Second {
		t.Errorf("it ended %v after cancellation, with %v", took, err)
	}
	if err := r.Cancel("sftp.download", object{"remote_path": "big"}); err != nil {
		t.Error(err)
	}
	steprig.WantTree(t, r.Work)
}

// BenchmarkOpenSSH transfers 256 MiB, and 2,000 files of 16 KiB.
func BenchmarkOpenSSH(b *testing.B) {
	const size, files, each = 256 << 20, 2000, 16 << 10
	r, _ := newOpenSSH(b)
	steprig.Write(b, r.Work, "x", steprig.Content(size))
	steprig.Write(b, r.Remote, "many/0", nil)
	for i := range files {
		steprig.Write(b, r.Work, fmt.Sprintf("many/%d", i), steprig.Content(each))
	}
	for _, test := range []struct {
		name, key string
		bytes     int64
		cfg       object
	}{
		{"upload", "sftp.upload", size, object{"local_path": "x", "remote_path": "x"}},
		{"download", "sftp.download", size, object{"remote_path": "x", "local_path": "y"}},
		{"upload files", "sftp.upload", files * each, object{"local_path": "many/*", "remote_path": "many"}},
		{"download files", "sftp.download", files * each, object{"remote_path": "many", "local_path": "back/"}},
	} {
		b.Run(test.name, func(b *testing.B) {
			b.SetBytes(test.bytes)
			for b.Loop() {
				typ, _ := r.Registry.Lookup(test.key)
				job := courier.NewContext(courier.ContextConfig{Execution: "e", Workspace: r.Work, Resources: r.Resources})
				if _, err := typ.Execute(b.Context(), job, steprig.ConfigOf(test.cfg)); err != nil {
					b.Fatal(err)
				}
				job.Close()
			}
		})
	}
}
