//go:build linux

package isolated_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/isolated"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/steps/steptest"
)

// TestContract holds steps in processes of their own against the contract for retries, one or
// more of each kind. An attempt that hangs is not among the disturbances: its process is gone
// before the next one begins, which TestCancel and TestTimeouts show.
func TestContract(t *testing.T) {
	type object = map[string]any
	long := strings.Repeat("0123456789abcdef", 20_000)
	for _, c := range []struct {
		key    string
		config object
		remote bool
	}{
		{key: "file.copy", config: object{"source_path": "in.txt", "destination_path": "out/in.txt"}},
		{key: "file.zip", config: object{"source_path": "*.txt", "output_path": "out.zip"}},
		{key: "file.hash", config: object{"source_path": "in.txt", "algorithm": "sha256"}},
		{key: "exec.run", config: object{"program": "self", "env": object{acting: "made.txt"}, "output_files": []string{"made.txt"}}},
		{key: "sftp.download", config: object{"connection_id": "acme", "remote_path": "dir/source", "local_path": "target", "resume": true}, remote: true},
		{key: "sftp.upload", config: object{"connection_id": "acme", "local_path": "in.txt", "remote_path": "dir/target"}, remote: true},
		{key: "test.tidy", config: object{"what": "write", "arg": "made/file.txt"}},
	} {
		t.Run(c.key, func(t *testing.T) {
			steptest.Run(t, steptest.Case{
				Packages: []string{steptest.All}, Key: c.key, Config: c.config, Places: raced.Or(1, 3),
				Except: []string{"cut off"}, Outputs: func(_ *steptest.World, out map[string]any) { delete(out, "pid") },
				Setup: func(w *steptest.World) {
					w.Write("in.txt", long)
					w.Write("more.txt", "more")
					if c.remote {
						serve(w, long)
					}
					reg, err := build()
					if err != nil {
						w.Fatal(err)
					}
					w.Registry = reg
				},
				Remote: func(typ *courier.StepType) *courier.StepType {
					r := isolated.Runner{MaxOutput: 1 << 20}
					return r.Remote(typ, courier.Isolation{Grace: 5 * time.Second, Memory: 512 << 20, Env: []string{partnerIs}})
				},
			})
		})
	}
}

// serve starts a server, which the children reach by the connection acme.
func serve(w *steptest.World, content string) {
	remote := filepath.Join(w.Dir, "remote")
	w.Write(filepath.Join(remote, "dir/source"), content)
	s, err := sftpserver.New(remote, &sftpserver.Options{
		Users: map[string]string{"ann": "password-of-ann"},
		Fault: func(o sftpserver.Op) error {
			if o.Method == "connect" || o.Method == "login" || o.Method == "sftp" {
				return nil
			}
			return w.Reach(o.String())
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	addr := l.Addr().(*net.TCPAddr)
	if err := os.Setenv(partnerIs, fmt.Sprint(addr.Port, " ", ssh.FingerprintSHA256(s.HostKey()))); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		os.Unsetenv(partnerIs)
		if err := errors.Join(s.Close(), <-done); err != nil {
			w.Error(fmt.Errorf("server: %w", err))
		}
	})
}
