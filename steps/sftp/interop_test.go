package sftp_test

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pkgsftp "github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/steprig"
	"github.com/courierhq/courier/steps/sftp"
)

// TestInterop works with the server of github.com/pkg/sftp, over TCP. It knows
// no limits, so packets are small, and answers requests in any order.
func TestInterop(t *testing.T) {
	r := newPkgSFTP(t, nil)
	dir := r.Remote
	r.Put("dir/keep", nil)
	for _, size := range []int{0, 1, 32<<10 + 1, 5 << 20} {
		name := fmt.Sprint(size)
		r.PutLocal(name, steprig.Content(size))
		for range 2 { // the second time the file is there
			out := r.Must(r.Run(t.Context(), "sftp.upload", object{"local_path": name, "remote_path": "dir", "checksum": "read_back"}))
			if out["uploaded_file"] != "dir/"+name || r.Get("dir/"+name) != string(steprig.Content(size)) {
				t.Errorf("upload of %d bytes: %v", size, out)
			}
		}
		out := r.Must(r.Run(t.Context(), "sftp.download", object{"remote_path": "dir/" + name}))
		if r.GetLocal(out["downloaded_file"]) != string(steprig.Content(size)) {
			t.Errorf("download of %d bytes: the content differs", size)
		}
	}
	out := r.Must(r.Run(t.Context(), "sftp.list", object{"remote_path": filepath.ToSlash(dir) + "/dir"}))
	var names []any
	for _, f := range out["file_list"].([]any) {
		names = append(names, f.(object)["name"])
	}
	if want := []any{"0", "1", "32769", "5242880", "keep"}; !reflect.DeepEqual(names, want) {
		t.Errorf("list = %v, want %v", names, want)
	}
	out = r.Must(r.Run(t.Context(), "sftp.download", object{"remote_path": "dir", "local_path": "all/"}))
	if out["file_count"] != 5. {
		t.Errorf("download = %v", out)
	}
	_, err := r.Run(t.Context(), "sftp.upload", object{"local_path": "1", "remote_path": "dir/0", "if_exists": "fail"})
	steprig.WantError(t, err, true, "exists")
	_, err = r.Run(t.Context(), "sftp.download", object{"remote_path": "none"})
	steprig.WantError(t, err, true, "no such file")
	_, err = r.Run(t.Context(), "sftp.list", object{"remote_path": "none"})
	steprig.WantError(t, err, true, "no such file")
	steprig.WantTree(t, dir, "dir/0", "dir/1", "dir/32769", "dir/5242880", "dir/keep")
}

// TestFlood works with a server that asks without an end for what no client has,
// on every connection.
func TestFlood(t *testing.T) {
	for name, ask := range map[string]func(ssh.Conn) error{
		"requests": func(c ssh.Conn) error {
			_, _, err := c.SendRequest("flood", false, make([]byte, 1000))
			return err
		},
		"requests that want an answer": func(c ssh.Conn) error {
			ok, _, err := c.SendRequest("flood", true, make([]byte, 1000))
			if ok {
				t.Error("the client agreed to a request")
			}
			return err
		},
		"channels": func(c ssh.Conn) error {
			_, _, err := c.OpenChannel("flood", make([]byte, 1000))
			if refused, ok := errors.AsType[*ssh.OpenChannelError](err); ok && refused.Reason == ssh.Prohibited {
				return nil
			}
			return fmt.Errorf("the client agreed to a channel, or the connection broke: %w", err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			r := newPkgSFTP(t, func(c ssh.Conn) {
				for ask(c) == nil {
					asked.Add(1)
				}
			})
			r.PutLocal("up", steprig.Content(1<<20))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range 3 {
				r.Must(r.Run(t.Context(), "sftp.upload", object{"local_path": "up", "remote_path": "there"}))
				out := r.Must(r.Run(t.Context(), "sftp.download", object{"remote_path": "there"}))
				if r.GetLocal(out["downloaded_file"]) != string(steprig.Content(1<<20)) {
					t.Error("the content differs")
				}
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if n := asked.Load(); n < 100 {
				t.Errorf("the server asked only %d times", n)
			}
			if after.HeapAlloc > before.HeapAlloc+32<<20 {
				t.Errorf("the heap grew from %d to %d bytes", before.HeapAlloc, after.HeapAlloc)
			}
		})
	}
}

// newPkgSFTP returns a rig with the server of github.com/pkg/sftp. Beside, if not
// nil, has each of its connections for as long as it lasts.
func newPkgSFTP(t *testing.T, beside func(ssh.Conn)) *rig {
	t.Helper()
	key := newSigner(t)
	config := &ssh.ServerConfig{PasswordCallback: func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { return nil, nil }}
	config.AddHostKey(key)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { servePkgSFTP(conn, config, dir, beside) })
		}
	})
	r := &rig{Rig: steprig.Rig{T: t, Remote: dir, Work: filepath.Join(t.TempDir(), "work"), Attempt: 1, Resources: &courier.Resources{}}}
	t.Cleanup(func() {
		r.Resources.Close()
		l.Close()
		serving.Wait()
	})
	addr := l.Addr().(*net.TCPAddr)
	r.conn = sftp.Connection{Host: addr.IP.String(), Port: addr.Port, Username: steprig.User, Password: steprig.Password, HostKeys: []string{ssh.FingerprintSHA256(key.PublicKey())}}
	sftp.Register(&r.Registry, connections(func() sftp.Connection { return r.conn }))
	return r
}

func servePkgSFTP(conn net.Conn, config *ssh.ServerConfig, dir string, beside func(ssh.Conn)) {
	var asking sync.WaitGroup
	defer asking.Wait()
	defer conn.Close()
	c, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	if beside != nil {
		ended := make(chan struct{})
		go func() { beside(c); close(ended) }() // OpenChannel may not return if the connection ends when it begins
		asking.Go(func() {
			c.Wait()
			select {
			case <-ended:
			case <-time.After(time.Second):
			}
		})
	}
	for ch := range channels {
		channel, requests, err := ch.Accept()
		if err != nil {
			return
		}
		go func() {
			for req := range requests {
				req.Reply(req.Type == "subsystem", nil)
			}
		}()
		s, err := pkgsftp.NewServer(channel, pkgsftp.WithServerWorkingDirectory(dir))
		if err != nil {
			return
		}
		s.Serve()
		s.Close()
	}
}
