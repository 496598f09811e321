// Package ftptest provides an FTP server for unit tests of pipelines. It stands in for a
// partner's server, runs in the test process, and fails on demand.
//
//	s := ftptest.New(t, &ftptest.Options{Files: map[string]string{"out/a.csv": "1;2\n"}})
//	ftp.Register(h.Registry, ftp.Map{"acme": s.Connection()})
//	s.Inject(couriertest.Fault{Operation: "read", After: 2, Times: 1, Effect: couriertest.Drop})
//
// The connections are in memory, so the server also works in a testing/synctest bubble, such as
// couriertest.Virtual makes.
package ftptest

import (
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/hostile"
	"github.com/courierhq/courier/steps/ftp"
)

// Options are the settings of a server. The zero value is the default.
type Options struct {
	// Files are the files on the server at the start. The keys are paths with slashes, relative
	// to the root; the values are the content.
	Files map[string]string
	// TCP makes the server listen on ports of 127.0.0.1, for clients in other processes. It does
	// not work in a testing/synctest bubble.
	TCP bool
	// TLS enables explicit TLS, with a certificate for tests.
	TLS bool
	// NoRenameOver makes the server refuse every rename onto an existing file.
	NoRenameOver bool
	// Names, if not nil, rewrites the listing of a directory. The server sends the returned names
	// unchanged, hostile or not. The files in the listing are empty.
	Names func(dir string, names []string) []string
}

// A Server is an FTP server with one account. [couriertest.Faults] makes its operations fail.
type Server struct {
	couriertest.Faults
	// Dir is the directory that the server serves as its root. The test may read
	// and change the files in it at any time.
	Dir string

	server *ftpserver.Server
	net    ftpserver.Network
	conn   ftp.Connection
	names  func(dir string, names []string) []string
	done   chan struct{} // closed when the test ends

	mu   sync.Mutex
	next map[*ftpserver.Conn]*transfer
}

// A transfer is the purpose of a data connection.
type transfer struct {
	path   string
	offset int64
}

// The account.
const (
	username = "tester"
	password = "only for tests"
)

// New starts a server with a directory that belongs to the test, and stops it when the test ends.
// A nil opt means the defaults.
func New(t testing.TB, opt *Options) *Server {
	t.Helper()
	if opt == nil {
		opt = &Options{}
	}
	s := &Server{Dir: t.TempDir(), names: opt.Names, done: make(chan struct{}), next: make(map[*ftpserver.Conn]*transfer)}
	files := make(fstest.MapFS)
	for name, content := range opt.Files {
		files[name] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
	}
	l, err := s.start(files, opt)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(l) }()
	t.Cleanup(func() {
		close(s.done)
		if err := errors.Join(s.server.Close(), <-served); err != nil {
			t.Errorf("ftptest: %v", err)
		}
	})
	return s
}

func (s *Server) start(files fstest.MapFS, opt *Options) (net.Listener, error) {
	if err := os.CopyFS(s.Dir, files); err != nil {
		return nil, err
	}
	s.conn = ftp.Connection{Host: "localhost", Username: username, Password: password, Security: "none"}
	server := ftpserver.Options{
		Users: map[string]string{username: password}, NoRenameOver: opt.NoRenameOver,
		PassiveHost: "127,0,0,1", Answer: s.answer, Content: s.content,
	}
	if opt.TLS {
		server.TLS = ftpserver.Config()
		s.conn.Security, s.conn.Authorities = "explicit", ftpserver.ServerCertificate
	}
	var l net.Listener
	if opt.TCP {
		var err error
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, err
		}
		s.conn.Host, s.conn.Port = "127.0.0.1", l.Addr().(*net.TCPAddr).Port
	} else {
		l, server.Listen, s.conn.Dial = s.net.Commands(), s.net.Listen, s.net.DialContext
	}
	var err error
	s.server, err = ftpserver.New(s.Dir, &server)
	return l, err
}

// Connection returns a connection to the server, with the credentials of its account. Without TCP
// it works only in the process of the test.
func (s *Server) Connection() ftp.Connection { return s.conn }

// Commands returns the commands that clients have sent so far, in order, without
// passwords.
func (s *Server) Commands() []string { return s.server.Commands() }

// HostileNames returns names that hostile servers have sent. A step must refuse or skip each of
// them. They are for [Options.Names].
func HostileNames() []string { return hostile.Names() }

// operations maps FTP commands to the operations of a [couriertest.Fault].
var operations = map[string]string{
	"PASS": "login", "MLSD": "list", "LIST": "list", "NLST": "list", "SIZE": "stat", "MDTM": "stat", "MLST": "stat",
	"RNFR": "rename", "DELE": "remove", "MKD": "mkdir", "RMD": "rmdir",
}

// answer carries out a command in place of the server where a fault says so.
func (s *Server) answer(c *ftpserver.Conn, verb, argument string) bool {
	name := c.Path(argument)
	switch verb {
	case "REST":
		offset, _ := strconv.ParseInt(argument, 10, 64)
		s.transferOf(c).offset = offset
		return false
	case "RETR", "STOR", "APPE":
		s.transferOf(c).path = name
		return s.fail(c, s.Next("open", name, 0))
	case "PASS":
		name = ""
	case "MLSD", "LIST":
		if strings.HasPrefix(argument, "-") {
			name = c.Path("")
		}
	}
	operation := operations[verb]
	if operation == "" {
		return false
	}
	if s.fail(c, s.Next(operation, name, 0)) {
		return true
	}
	return verb == "MLSD" && s.names != nil && s.list(c, name)
}

// fail makes a command fail. It reports false if there is no effect.
func (s *Server) fail(c *ftpserver.Conn, effect couriertest.Effect) bool {
	switch effect {
	case couriertest.Drop:
		c.Close()
	case couriertest.Stall:
		<-s.done
	case "":
		return false
	default:
		c.Reply(replies[effect])
	}
	return true
}

// replies are the replies for the effects that a client gets as a reply.
var replies = map[couriertest.Effect]string{
	couriertest.Fail: "451 failure", couriertest.Deny: "550 permission denied", couriertest.DiskFull: "452 no space left on device",
}

// list sends the listing that Options.Names makes.
func (s *Server) list(c *ftpserver.Conn, dir string) bool {
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return false
	}
	defer root.Close()
	d, err := root.Open("." + dir)
	if err != nil {
		return false
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return false
	}
	c.Content("MLSD", func(conn net.Conn) error {
		for _, name := range s.names(dir, names) {
			if _, err := conn.Write([]byte("type=file;size=0;modify=20260101000000; " + name + "\r\n")); err != nil {
				return err
			}
		}
		return nil
	})
	return true
}

// transferOf returns the purpose of the next data connection of c.
func (s *Server) transferOf(c *ftpserver.Conn) *transfer {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.next[c]
	if t == nil {
		t = new(transfer)
		s.next[c] = t
	}
	return t
}

// content counts the bytes of a file, and ends the transfer if a fault says so.
func (s *Server) content(c *ftpserver.Conn, verb string, conn net.Conn) net.Conn {
	operation := map[string]string{"RETR": "read", "STOR": "write", "APPE": "write"}[verb]
	if operation == "" {
		return conn
	}
	t := s.transferOf(c)
	counted := &counter{Conn: conn, s: s, c: c, operation: operation, path: t.path, at: t.offset}
	t.offset = 0
	return counted
}

// A counter is the data connection for one file.
type counter struct {
	net.Conn
	s         *Server
	c         *ftpserver.Conn
	operation string
	path      string
	at        int64 // in the file; of the client's bytes with TLS
}

// Read receives a part of a file from the client.
func (f *counter) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if f.operation != "write" || n == 0 {
		return n, err
	}
	if e := f.pass(n); e != nil {
		return 0, e
	}
	return n, err
}

// Write sends a part of a file to the client.
func (f *counter) Write(p []byte) (int, error) {
	if f.operation != "read" {
		return f.Conn.Write(p)
	}
	if err := f.pass(len(p)); err != nil {
		return 0, err
	}
	return f.Conn.Write(p)
}

// pass counts n bytes, unless a fault ends the transfer first.
func (f *counter) pass(n int) error {
	switch effect := f.s.Next(f.operation, f.path, f.at+int64(n)); effect {
	case "":
		f.at += int64(n)
		return nil
	case couriertest.Drop:
		f.c.Close()
		return net.ErrClosed
	case couriertest.Stall:
		<-f.s.done
		return net.ErrClosed
	default:
		return errors.New(replies[effect])
	}
}
