package sftpserver_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/sftpserver"
)

// A rig is a running server and the network before it.
type rig struct {
	*sftpserver.Server
	net  *memnet.Listener
	dir  string       // what the server serves
	last *memnet.Conn // dialed by login
	ssh  *ssh.Client  // what login returned
	t    *testing.T
}

// newRig starts a server on an in-memory network, on which ada can log in with
// the password "secret".
func newRig(t *testing.T, opt sftpserver.Options) *rig {
	t.Helper()
	opt.Users = map[string]string{"ada": "secret"}
	dir := filepath.Join(t.TempDir(), "root")
	s, err := sftpserver.New(dir, &opt)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, s, dir)
}

func start(t *testing.T, s *sftpserver.Server, dir string) *rig {
	r := &rig{Server: s, net: memnet.Listen(), dir: dir, t: t}
	done := make(chan error, 1)
	go func() { done <- s.Serve(r.net) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return r
}

// ada returns the configuration with which ada logs in.
func (r *rig) ada() *ssh.ClientConfig {
	return &ssh.ClientConfig{
		User:            "ada",
		Auth:            []ssh.AuthMethod{ssh.Password("secret")},
		HostKeyCallback: ssh.FixedHostKey(r.HostKey()),
	}
}

// login returns an SSH connection that ends with the test.
func (r *rig) login(config *ssh.ClientConfig) (*ssh.Client, error) {
	c, err := r.net.DialContext(context.Background(), "tcp", "sftp.example.com:22")
	if err != nil {
		return nil, err
	}
	r.last = c.(*memnet.Conn)
	conn, channels, requests, err := ssh.NewClientConn(c, "sftp.example.com:22", config)
	if err != nil {
		c.Close()
		return nil, err
	}
	client := ssh.NewClient(conn, channels, requests)
	r.ssh = client
	r.t.Cleanup(func() {
		client.Close()
		client.Wait()
	})
	return client, nil
}

// client returns an SFTP session of ada's that ends with the test.
func (r *rig) client(opts ...sftp.ClientOption) *sftp.Client {
	r.t.Helper()
	conn, err := r.login(r.ada())
	if err != nil {
		r.t.Fatal(err)
	}
	c, err := sftp.NewClient(conn, opts...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

// put writes a file past the server.
func (r *rig) put(name string, content []byte) {
	r.t.Helper()
	name = filepath.Join(r.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, content, 0o600)); err != nil {
		r.t.Fatal(err)
	}
}

// get reads a file past the server.
func (r *rig) get(name string) string {
	b, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// bubble runs f in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func code(err error) uint32 {
	if e, ok := errors.AsType[*sftp.StatusError](err); ok {
		return e.Code
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 2
	case errors.Is(err, fs.ErrPermission):
		return 3
	}
	return 0
}

func str(s string) string {
	return fmt.Sprintf("\x00\x00\x00%c%s", len(s), s)
}

// A raw is an SFTP session without a client library.
type raw struct {
	t *testing.T
	w io.Writer
	r io.Reader
}

func (r *rig) raw() *raw {
	r.t.Helper()
	conn, err := r.login(r.ada())
	if err != nil {
		r.t.Fatal(err)
	}
	s, err := conn.NewSession()
	if err != nil {
		r.t.Fatal(err)
	}
	w, _ := s.StdinPipe()
	rd, _ := s.StdoutPipe()
	if err := s.RequestSubsystem("sftp"); err != nil {
		r.t.Fatal(err)
	}
	return &raw{t: r.t, w: w, r: rd}
}

// packet returns a packet of the given type.
func packet(typ byte, body string) []byte {
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(len(body)+1)), typ), body...)
}

// exchange sends a packet and returns the answer without its length.
func (s *raw) exchange(typ byte, body []byte) []byte {
	s.t.Helper()
	s.w.Write(packet(typ, string(body)))
	length := make([]byte, 4)
	if _, err := io.ReadFull(s.r, length); err != nil {
		s.t.Fatal(err)
	}
	answer := make([]byte, binary.BigEndian.Uint32(length))
	if _, err := io.ReadFull(s.r, answer); err != nil {
		s.t.Fatal(err)
	}
	return answer
}

// failing returns a hook that fails operations with method, on path unless that
// is empty.
func failing(method, path string, err error) func(sftpserver.Op) error {
	return func(o sftpserver.Op) error {
		if o.Method == method && (path == "" || o.Path == path) {
			return err
		}
		return nil
	}
}
