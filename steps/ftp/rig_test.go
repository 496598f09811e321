package ftp_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/steprig"
	"github.com/courierhq/courier/steps/ftp"
)

// A rig is a server on an in-memory network, and what an engine would do with the steps.
type rig struct {
	steprig.Rig
	*ftpserver.Server
	net  ftpserver.Network
	path string // of Remote on the server
	conn ftp.Connection
}

type object = steprig.Object

// newRig starts a server. A test in a bubble gets its own.
func newRig(t testing.TB, opt ftpserver.Options) *rig {
	t.Helper()
	r := &rig{Rig: steprig.Rig{T: t, Remote: filepath.Join(memory(t), "remote"), Work: filepath.Join(memory(t), "work"), Attempt: 1, Resources: &courier.Resources{}}}
	opt.Users, opt.Listen = map[string]string{steprig.User: steprig.Password}, r.net.Listen
	s, err := ftpserver.New(r.Remote, &opt)
	if err != nil {
		t.Fatal(err)
	}
	r.Server = s
	done := make(chan error, 1)
	l := r.net.Commands()
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		r.Resources.Close()
		if err := errors.Join(s.Close(), <-done); err != nil {
			t.Errorf("server: %v", err)
		}
	})
	r.conn = connection(&r.net, &opt)
	ftp.Register(&r.Registry, connections(func() ftp.Connection { return r.conn }))
	return r
}

// memory returns a directory that ends with the test, in memory if possible.
func memory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "ftp")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// connection leads to a server with the given options.
func connection(net *ftpserver.Network, opt *ftpserver.Options) ftp.Connection {
	c := ftp.Connection{
		Host: "files.example.com", Username: steprig.User, Password: steprig.Password,
		Security: "none", Port: 21, Dial: net.DialContext,
	}
	if opt.TLS != nil {
		c.Security, c.Authorities = "explicit", ftpserver.ServerCertificate
	}
	if opt.Implicit {
		c.Security = "implicit"
	}
	return c
}

// connections knows the one connection that the function returns.
type connections func() ftp.Connection

func (c connections) Connection(ctx context.Context, id string) (ftp.Connection, error) {
	return ftp.Map{steprig.Partner: c()}.Connection(ctx, id)
}
