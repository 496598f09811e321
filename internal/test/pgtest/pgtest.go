// Package pgtest runs PostgreSQL servers of their own for tests: clusters that
// can be stopped, killed, replicated and put behind PgBouncer, without touching
// any server that the machine has. Root runs them as another user, since they
// refuse to run as root.
//
// Nothing is left behind: a server ends with the process that started it, even
// if that is killed or ends in a panic.
package pgtest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

// shared is the cluster that the tests of this process share.
var shared struct {
	sync.Mutex
	cluster *Cluster
	err     error
}

// Main is for TestMain of packages that use URL: it runs the tests, stops the
// cluster that they shared, if any, and exits.
func Main(m *testing.M) {
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster != nil {
		if err := shared.cluster.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// Server returns the URL of the server on which URL makes its databases: the
// one that COURIER_TEST_DATABASE names, or else a cluster that is started once
// in the process and trades durability for speed.
func Server() (string, error) {
	if server := os.Getenv("COURIER_TEST_DATABASE"); server != "" {
		return server, nil
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil && shared.err == nil {
		shared.cluster, shared.err = Open(&Options{Config: map[string]string{
			"fsync":            "off",
			"full_page_writes": "off",
			"shared_buffers":   "32MB",
		}})
	}
	if shared.err != nil {
		return "", shared.err
	}
	return shared.cluster.URL(""), nil
}

// URL returns the address of an empty database that lasts as long as the test.
// It is on the server of COURIER_TEST_DATABASE, or else on a private one that
// the tests of this process share. The test fails if there is none.
func URL(t testing.TB) string {
	t.Helper()
	server, err := Server()
	if err != nil {
		t.Fatalf("postgres: %v", err)
	}
	u, drop, err := Database(context.Background(), server)
	if err != nil {
		t.Fatalf("database: %v", err)
	}
	t.Cleanup(func() {
		if err := drop(); err != nil {
			t.Errorf("database: %v", err)
		}
	})
	return u
}

// Start opens a cluster that lasts as long as the test. If the test fails, it
// shows the end of the server's log. The test fails if there is no PostgreSQL.
func Start(t testing.TB, opt *Options) *Cluster {
	t.Helper()
	c, err := Open(opt)
	if err != nil {
		t.Fatalf("postgres: %v", err)
	}
	c.closeWith(t)
	return c
}

func (c *Cluster) closeWith(t testing.TB) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the server at %s:\n%s", c.Addr(), logTail(c.dir, 0))
		}
		if err := c.Close(); err != nil {
			t.Errorf("postgres: %v", err)
		}
	})
}

// Stop ends the server as pg_ctl stop does in the mode "smart", "fast" or
// "immediate", and waits until all its processes are gone.
func (c *Cluster) Stop(t testing.TB, mode string) {
	t.Helper()
	check(t, c.stop(mode))
}

// Kill kills the postmaster with SIGKILL and waits until its children, which
// notice it, are gone too.
func (c *Cluster) Kill(t testing.TB) {
	t.Helper()
	check(t, c.stop("kill"))
}

// Begin starts the server again after Stop or Kill, on the same port, and waits
// until it takes connections.
func (c *Cluster) Begin(t testing.TB) {
	t.Helper()
	check(t, c.begin())
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("postgres: %v", err)
	}
}
