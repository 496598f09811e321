package pgtest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	logName  = "log"
	patience = 60 * time.Second // with a server that starts or ends
	pause    = 5 * time.Millisecond
)

// Options say how a cluster is made. The zero value is fit for tests that kill
// the server: what it has committed survives.
type Options struct {
	// Config holds settings of postgresql.conf, in addition to those that every
	// cluster gets or instead of them. Values have no quotes: "off", "64MB",
	// "a, b".
	Config map[string]string

	// Dir is the directory in which the cluster's own is made, the one for
	// temporary files if empty. The user postgres must be able to pass through
	// if the process runs as root.
	Dir string
}

// A Cluster is a PostgreSQL server with a data directory of its own. It listens
// on a loopback port, which it keeps over restarts. Its superuser is postgres,
// with a password that only the URL tells. It ends with the process that opened
// it, even if that is killed.
//
// Its methods can be called from many goroutines.
type Cluster struct {
	bin      string
	as       *account
	dir      string // absolute; the data directory is data in there
	port     int
	password string

	mu     sync.Mutex
	config map[string]string
	server *guarded // nil before the first start and after Close
	up     bool
	closed bool
}

// defaults are the settings that every cluster gets.
func defaults() map[string]string {
	return map[string]string{
		"listen_addresses":           "127.0.0.1",
		"unix_socket_directories":    "",
		"max_connections":            "200",
		"shared_buffers":             "64MB",
		"huge_pages":                 "off",
		"dynamic_shared_memory_type": "mmap", // in the data directory, which is removed
		"wal_keep_size":              "128MB",
		"timezone":                   "UTC",
		"log_timezone":               "UTC",
		"lc_messages":                "C",
		"log_line_prefix":            "%m [%p] ",
		"password_encryption":        "scram-sha-256",
	}
}

// Open makes a cluster and starts its server. The caller must call Close. A
// program that is missing is named in the error, with the package to install.
func Open(opt *Options) (*Cluster, error) {
	if opt == nil {
		opt = &Options{}
	}
	c, err := prepare(opt.Dir, opt.Config)
	if err != nil {
		return nil, err
	}
	c.password = strings.ToLower(rand.Text())
	if err = c.initdb(); err == nil {
		err = c.first()
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// prepare makes the directory of a cluster.
func prepare(parent string, config map[string]string) (*Cluster, error) {
	c := &Cluster{config: defaults()}
	maps.Copy(c.config, config)
	var err error
	if c.bin, err = programs(); err != nil {
		return nil, err
	}
	if c.as, err = servant(); err != nil {
		return nil, err
	}
	c.dir, err = c.as.mkdirTemp(parent)
	return c, err
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// initdb makes the data directory. Passwords are checked the cheap way, since
// tests connect often; a role that is made later can have any kind.
func (c *Cluster) initdb() error {
	if err := c.as.write(c.dir, "password", c.password+"\n"); err != nil {
		return err
	}
	return c.run("initdb", "--pgdata=data", "--username=postgres", "--pwfile=password", "--auth=md5",
		"--encoding=UTF8", "--locale=C", "--no-sync")
}

// run runs one of the programs to its end.
func (c *Cluster) run(program string, args ...string) error {
	command := append([]string{filepath.Join(c.bin, program)}, args...)
	return runGuarded(c.as, c.dir, []string{"PGPASSWORD=" + c.password}, command...)
}

// configure writes postgresql.conf.
func (c *Cluster) configure() error {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.config)) {
		fmt.Fprintf(&text, "%s = '%s'\n", name, strings.ReplaceAll(c.config[name], "'", "''"))
	}
	fmt.Fprintf(&text, "port = %d\n", c.port)
	return c.as.write(c.data(), "postgresql.conf", text.String())
}

// first starts the server on a port that is free.
func (c *Cluster) first() error {
	var err error
	for range 5 {
		if c.port, err = freePort(); err != nil {
			return err
		}
		if err = c.begin(); err == nil || !strings.Contains(err.Error(), "Address already in use") {
			return err
		}
	}
	return err
}

// freePort returns a port below those that systems hand out on their own, so
// that it is still free after the server was away for a while.
func freePort() (int, error) {
	var err error
	for range 100 {
		port := 15000 + mathrand.IntN(15000)
		var l net.Listener
		if l, err = net.Listen("tcp", address(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// begin starts the server and waits until it takes connections.
func (c *Cluster) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.up {
		return errors.New("start: the server is running or closed")
	}
	if c.server != nil { // which is gone
		c.server.release()
		c.server = nil
	}
	if err := c.configure(); err != nil {
		return err
	}
	began := logSize(c.dir)
	g, err := startGuarded(c.as, c.dir, "QUIT", nil, filepath.Join(c.bin, "postgres"), "-D", c.data())
	if err != nil {
		return err
	}
	c.server = g
	if err := g.await(c.dir, began, c.ready); err != nil {
		g.signal(syscall.SIGQUIT) // in case it still runs
		return err
	}
	c.up = true
	return nil
}

// ready reports whether the server says so in its lock file.
func (c *Cluster) ready() bool {
	text, err := os.ReadFile(filepath.Join(c.data(), "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := strings.Split(string(text), "\n")
	return len(lines) > 7 && lines[0] == strconv.Itoa(c.server.pid) && strings.TrimSpace(lines[7]) == "ready"
}

// signals are the modes of pg_ctl stop.
var signals = map[string]syscall.Signal{
	"smart":     syscall.SIGTERM,
	"fast":      syscall.SIGINT,
	"immediate": syscall.SIGQUIT,
	"kill":      syscall.SIGKILL,
}

// stop ends the server and waits until its children are gone too.
func (c *Cluster) stop(mode string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	sig, ok := signals[mode]
	switch {
	case !ok:
		return fmt.Errorf("stop: unknown mode %q", mode)
	case !c.up:
		return errors.New("stop: the server is not running")
	}
	if err := c.server.signal(sig); err != nil {
		return err
	}
	if !c.server.gone(patience) {
		return fmt.Errorf("stop: processes of the server are still running after %v", patience)
	}
	c.up = false
	return nil
}

// Close ends the server, if it runs, and removes the cluster.
func (c *Cluster) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed, c.up = true, false
	var err error
	if c.server != nil {
		err = c.server.end()
		c.server = nil
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// URL returns the address of a database, of the one called postgres if the name
// is empty.
func (c *Cluster) URL(database string) string {
	if database == "" {
		database = "postgres"
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword("postgres", c.password), Host: c.Addr(),
		Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// Addr returns the "host:port" at which the server listens.
func (c *Cluster) Addr() string { return address(c.port) }
