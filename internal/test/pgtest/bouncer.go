package pgtest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Bouncer starts PgBouncer in transaction mode in front of the server of the
// given URL, and returns the URL of the same database through it. It lasts as
// long as the test, and has up to 20 connections to the server for each database.
// Its older versions lose prepared statements, which is for the caller to avoid
// with default_query_exec_mode. The test fails if there is no PgBouncer.
func Bouncer(t testing.TB, server string) string {
	t.Helper()
	return bounce(t, server, "transaction")
}

// SessionBouncer is [Bouncer] in session mode: each client has a connection of
// its own to the server.
func SessionBouncer(t testing.TB, server string) string {
	t.Helper()
	return bounce(t, server, "session")
}

func bounce(t testing.TB, server, mode string) string {
	t.Helper()
	b, err := openBouncer(server, mode)
	if err != nil {
		t.Fatalf("pgbouncer: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of pgbouncer:\n%s", logTail(b.dir, 0))
		}
		if err := b.close(); err != nil {
			t.Errorf("pgbouncer: %v", err)
		}
	})
	return b.url
}

const bouncerConfig = `[databases]
* = host=%s port=%d

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = md5
auth_file = users
pool_mode = %s
max_client_conn = 1000
default_pool_size = 20
server_tls_sslmode = prefer
server_login_retry = 1
`

// A bouncer is a PgBouncer with a directory of its own.
type bouncer struct {
	mode   string
	server *guarded
	dir    string
	addr   string
	url    string
}

func openBouncer(server, mode string) (*bouncer, error) {
	u, err := parseURL(server)
	if err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(server)
	if err != nil {
		return nil, err
	}
	program, err := findBouncer()
	if err != nil {
		return nil, err
	}
	as, err := servant()
	if err != nil {
		return nil, err
	}
	b := &bouncer{mode: mode}
	if b.dir, err = as.mkdirTemp(""); err != nil {
		return nil, err
	}
	for range 5 {
		if err = b.begin(as, program, config); err == nil || !strings.Contains(err.Error(), "in use") {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	u.Host = b.addr
	query := u.Query()
	query.Set("sslmode", "disable")
	u.RawQuery = query.Encode()
	b.url = u.String()
	return b, nil
}

// begin starts PgBouncer on a port that is free.
func (b *bouncer) begin(as *account, program string, config *pgx.ConnConfig) error {
	if b.server != nil { // which is gone
		b.server.release()
		b.server = nil
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	quote := strings.NewReplacer(`"`, `""`)
	if err := errors.Join(
		as.write(b.dir, "users", fmt.Sprintf("\"%s\" \"%s\"\n", quote.Replace(config.User), quote.Replace(config.Password))),
		as.write(b.dir, "config", fmt.Sprintf(bouncerConfig, config.Host, config.Port, port, b.mode)),
	); err != nil {
		return err
	}
	began := logSize(b.dir)
	if b.server, err = startGuarded(as, b.dir, "KILL", nil, program, "config"); err != nil {
		return err
	}
	b.addr = address(port)
	return b.server.await(b.dir, began, func() bool {
		conn, err := net.Dial("tcp", b.addr)
		return err == nil && conn.Close() == nil
	})
}

// close ends PgBouncer and removes its directory.
func (b *bouncer) close() error {
	var err error
	if b.server != nil {
		err = b.server.end()
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

// findBouncer returns the path of pgbouncer, which is not meant for users and
// may be where they do not look.
func findBouncer() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer", "/opt/homebrew/bin/pgbouncer", "/usr/local/bin/pgbouncer"} {
		if p, err := exec.LookPath(name); err == nil {
			return filepath.Abs(p)
		}
	}
	return "", missing("pgbouncer", "pgbouncer")
}
