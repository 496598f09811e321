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
	r := &rig{remote: dir, work: filepath.Join(t.TempDir(), "work"), attempt: 1, res: &courier.Resources{}}
	if t, ok := t.(*testing.T); ok {
		r.t = t
	}
	t.Cleanup(func() { r.res.Close() })
	r.conn = sftp.Connection{Host: host, HostKeys: []string{ssh.FingerprintSHA256(hostKey)}}
	fmt.Sscan(port, &r.conn.Port)
	sftp.Register(&r.reg, connections(func() sftp.Connection { return r.conn }))
	return r
}

func TestOpenSSH(t *testing.T) {
	r, s := newOpenSSH(t)
	r.put("in/sub/x", nil)
	for _, size := range []int{0, 1, 100_000, 10 << 20} {
		name := fmt.Sprintf("%d.bin", size)
		r.putLocal(name, content(size))
		out := r.must(r.run(t.Context(), "sftp.upload", object{"local_path": name, "remote_path": "in/" + name}))
		if r.get("in/"+name) != string(content(size)) {
			t.Errorf("upload of %d bytes: the content differs", size)
		}
		out = r.must(r.run(t.Context(), "sftp.download", object{"remote_path": out["uploaded_file"], "local_path": "back/"}))
		if r.getLocal(out["downloaded_file"]) != string(content(size)) {
			t.Errorf("download of %d bytes: the content differs", size)
		}
		info, err := os.Stat(filepath.Join(s.Dir, "in", name))
		if local, e := os.Stat(filepath.Join(r.work, "back", name)); err != nil || e != nil || !local.ModTime().Equal(info.ModTime().Truncate(time.Second)) {
			t.Errorf("times %v and %v, %v, %v", info, local, err, e)
		}
	}
	r.put("in/größe 見積.csv", []byte("x"))
	r.put("in/latin1 \xe9.csv", []byte("x"))
	r.put("in/new\nline", []byte("x"))
	if err := os.Symlink("0.bin", filepath.Join(s.Dir, "in", "alias")); err != nil {
		t.Fatal(err)
	}
	out := r.must(r.run(t.Context(), "sftp.list", object{"remote_path": filepath.ToSlash(s.Dir) + "/in", "follow_links": true}))
	var names []string
	for _, f := range out["file_list"].([]any) {
		names = append(names, f.(object)["name"].(string))
	}
	if want := []string{"0.bin", "1.bin", "100000.bin", "10485760.bin", "alias", "größe 見積.csv"}; !reflect.DeepEqual(names, want) || out["unsafe_count"] != 2. {
		t.Errorf("list = %q, %v skipped, want %q and 2", names, out["unsafe_count"], want)
	}
	// An existing file is replaced, or not.
	_, err := r.run(t.Context(), "sftp.upload", object{"local_path": "1.bin", "remote_path": "in/0.bin", "if_exists": "fail"})
	wantError(t, err, true, "exists")
	r.must(r.run(t.Context(), "sftp.upload", object{"local_path": "1.bin", "remote_path": "in/0.bin"}))
	if r.get("in/0.bin") != string(content(1)) {
		t.Error("the file was not replaced")
	}
	_, err = r.run(t.Context(), "sftp.download", object{"remote_path": "in/none"})
	wantError(t, err, true, `download "in/none": no such file`)
	_, err = r.run(t.Context(), "sftp.list", object{"remote_path": "in/0.bin"})
	wantError(t, err, true, `list "in/0.bin": is not a directory`)
	for key, cfg := range map[string]object{
		"sftp.list":     {"remote_path": "in"},
		"sftp.download": {"remote_path": "in/1.bin"},
		"sftp.upload":   {"local_path": "1.bin", "remote_path": "in/"},
	} {
		if err := r.validate(t.Context(), key, cfg); err != nil {
			t.Errorf("%s: Validate = %v", key, err)
		}
	}
	for _, f := range append(tree(t, r.work), tree(t, s.Dir)...) {
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
		r.res.Close()
		r.res = &courier.Resources{}
		_, err := r.run(t.Context(), "sftp.list", nil)
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
	wantError(t, list(nil, ""), true, "no host key is configured", fingerprint, "host_keys", "no credentials were sent")
	wantError(t, list([]string{ssh.FingerprintSHA256(other)}, ""), true, "has changed", fingerprint, ssh.FingerprintSHA256(other))
	wantError(t, list(nil, file(other)), true, "has changed", fingerprint, ssh.FingerprintSHA256(other), "known_hosts")
	r.conn.PrivateKey = string(mustPEM(t))
	wantError(t, list([]string{fingerprint}, ""), true, "refuses the login", r.conn.Username)
}

// TestOpenSSHCut cuts the connection in the middle of transfers.
func TestOpenSSHCut(t *testing.T) {
	r, s := newOpenSSH(t)
	const size = 64 << 20
	r.putLocal("x", content(size))
	r.put("y", content(size))
	for _, test := range []struct {
		key string
		cfg object
	}{
		{"sftp.upload", object{"local_path": "x", "remote_path": "up"}},
		{"sftp.download", object{"remote_path": "y", "local_path": "down", "resume": false}},
	} {
		cut := false
		r.onProgress = func(p courier.Progress) {
			if p.Done > size/2 && !cut {
				cut = true
				s.Cut()
			}
		}
		_, err := r.run(t.Context(), test.key, test.cfg)
		wantError(t, err, false, "connection is lost")
		if r.getLocal("down") == string(content(size)) || r.get("up") == string(content(size)) != (test.key == "sftp.download") {
			t.Errorf("%s: a final name appeared too early", test.key)
		}
		r.onProgress = nil
		r.must(r.retry(t.Context(), test.key, test.cfg))
	}
	cut, least := false, int64(size)
	r.onProgress = func(p courier.Progress) {
		if cut && p.Done > 0 { // 0 is said before the part is compared
			least = min(least, p.Done)
		} else if p.Done > size/2 {
			cut = true
			s.Cut()
		}
	}
	r.must(r.run(t.Context(), "sftp.download", object{"remote_path": "y", "local_path": "on"}))
	if !cut || least < size/4 {
		t.Errorf("the download that goes on by itself was at %d bytes after the cut", least)
	}
	if r.get("up") != string(content(size)) || r.getLocal("down") != string(content(size)) || r.getLocal("on") != string(content(size)) {
		t.Error("the content differs")
	}
	wantTree(t, r.remote, "up", "y")
	wantTree(t, r.work, "3/sftp-download-note.courier-tmp", "down", "on", "x")
}

// TestOpenSSHCancel cancels transfers, which must end soon.
func TestOpenSSHCancel(t *testing.T) {
	r, _ := newOpenSSH(t)
	const size = 256 << 20
	f, err := os.Create(filepath.Join(r.remote, "big"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	var cancelled time.Time
	r.onProgress = func(p courier.Progress) {
		if cancelled.IsZero() {
			cancelled = time.Now()
			cancel(stop)
		}
	}
	_, err = r.run(ctx, "sftp.download", object{"remote_path": "big"})
	if took := time.Since(cancelled); !errors.Is(err, stop) || took > time.Second {
		t.Errorf("it ended %v after cancellation, with %v", took, err)
	}
	if err := r.cancel("sftp.download", object{"remote_path": "big"}); err != nil {
		t.Error(err)
	}
	wantTree(t, r.work)
}

// BenchmarkOpenSSH transfers 256 MiB, and 2,000 files of 16 KiB.
func BenchmarkOpenSSH(b *testing.B) {
	const size, files, each = 256 << 20, 2000, 16 << 10
	r, _ := newOpenSSH(b)
	write(b, r.work, "x", content(size))
	write(b, r.remote, "many/0", nil)
	for i := range files {
		write(b, r.work, fmt.Sprintf("many/%d", i), content(each))
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
				typ, _ := r.reg.Lookup(test.key)
				job := courier.NewContext(courier.ContextConfig{Execution: "e", Workspace: r.work, Resources: r.res})
				if _, err := typ.Execute(b.Context(), job, configOf(test.cfg)); err != nil {
					b.Fatal(err)
				}
				job.Close()
			}
		})
	}
}
