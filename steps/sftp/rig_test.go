package sftp_test

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/internal/test/steprig"
	"github.com/courierhq/courier/steps/sftp"
)

// A rig is a server on an in-memory network, and what an engine would do with the steps.
type rig struct {
	steprig.Rig
	*sftpserver.Server
	net  *memnet.Listener
	conn sftp.Connection
}

type object = steprig.Object

// newRig starts a server. A test in a bubble gets its own.
func newRig(t *testing.T, opt sftpserver.Options) *rig {
	t.Helper()
	r := &rig{Rig: steprig.Rig{T: t, Remote: filepath.Join(t.TempDir(), "remote"), Work: filepath.Join(t.TempDir(), "work"), Attempt: 1, Resources: &courier.Resources{}}}
	if opt.Users == nil {
		opt.Users = map[string]string{steprig.User: steprig.Password}
	}
	s, err := sftpserver.New(r.Remote, &opt)
	if err != nil {
		t.Fatal(err)
	}
	r.start(s)
	return r
}

// newHostile starts a server that answers as script says.
func newHostile(t *testing.T, script sftpserver.Script) *rig {
	t.Helper()
	r := &rig{Rig: steprig.Rig{T: t, Work: filepath.Join(t.TempDir(), "work"), Attempt: 1, Resources: &courier.Resources{}}}
	s, err := sftpserver.NewHostile(script, &sftpserver.Options{Users: map[string]string{steprig.User: steprig.Password}})
	if err != nil {
		t.Fatal(err)
	}
	r.start(s)
	return r
}

func (r *rig) start(s *sftpserver.Server) {
	r.Server, r.net = s, memnet.Listen()
	done := make(chan error, 1)
	go func() { done <- s.Serve(r.net) }()
	r.T.Cleanup(func() {
		r.Resources.Close()
		if err := errors.Join(s.Close(), <-done); err != nil {
			r.T.Errorf("server: %v", err)
		}
	})
	r.conn = sftp.Connection{
		Host: "files.example.com", Username: steprig.User, Password: steprig.Password,
		HostKeys: []string{ssh.FingerprintSHA256(s.HostKey())},
		Dial:     r.net.DialContext,
	}
	sftp.Register(&r.Registry, connections(func() sftp.Connection { return r.conn }))
}

// connections knows the one connection that the function returns.
type connections func() sftp.Connection

func (c connections) Connection(ctx context.Context, id string) (sftp.Connection, error) {
	return sftp.Map{steprig.Partner: c()}.Connection(ctx, id)
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

func newSigner(t testing.TB) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mustPEM returns a new private key.
func mustPEM(t testing.TB) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block)
}

func remove(dir, name string) { os.Remove(filepath.Join(dir, filepath.FromSlash(name))) }

func chtimes(name string, at time.Time) { os.Chtimes(name, at, at) }
