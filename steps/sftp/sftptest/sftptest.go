// Package sftptest provides an SFTP server for unit tests of pipelines. It stands in for a
// partner's server, runs in the test process, and fails on demand.
//
//	s := sftptest.New(t, &sftptest.Options{Files: map[string]string{"out/a.csv": "1;2\n"}})
//	sftp.Register(h.Registry, sftp.Map{"acme": s.Connection()})
//	s.Inject(couriertest.Fault{Operation: "read", After: 2, Times: 1, Effect: couriertest.Drop})
//
// The connections are in memory, so the server also works in a testing/synctest bubble, such as
// couriertest.Virtual makes. The protocol is implemented by github.com/pkg/sftp and
// golang.org/x/crypto/ssh.
package sftptest

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"slices"
	"testing"
	"testing/fstest"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/internal/test/hostile"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/steps/sftp"
)

// Options are the settings of a server. The zero value is the default.
type Options struct {
	// Files are the files on the server at the start. The keys are paths with slashes, relative
	// to the root; the values are the content.
	Files map[string]string
	// TCP makes the server listen on a port of 127.0.0.1, for clients in other processes. It does
	// not work in a testing/synctest bubble.
	TCP bool
	// NoPosixRename makes the server refuse every rename onto an existing file.
	NoPosixRename bool
	// Names, if not nil, rewrites the listing of a directory. The server sends the returned names
	// unchanged, hostile or not.
	Names func(dir string, names []string) []string
}

// A Server is an SFTP server with one account. [couriertest.Faults] makes its operations fail.
type Server struct {
	couriertest.Faults
	// Dir is the directory that the server serves as its root. The test may read
	// and change the files in it at any time.
	Dir string

	server *sftpserver.Server
	conn   sftp.Connection
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
	s := &Server{Dir: t.TempDir()}
	files := make(fstest.MapFS)
	for name, content := range opt.Files {
		files[name] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
	}
	err := os.CopyFS(s.Dir, files)
	if err != nil {
		t.Fatal(err)
	}
	s.server, err = sftpserver.New(s.Dir, &sftpserver.Options{
		Users: map[string]string{username: password}, NoPosixRename: opt.NoPosixRename, Names: opt.Names, Fault: s.fault,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.conn = sftp.Connection{
		Host: "sftp.test", Username: username, Password: password,
		HostKeys: []string{ssh.FingerprintSHA256(s.server.HostKey())},
	}
	l, err := s.listen(opt.TCP)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(s.server.Close(), <-served); err != nil {
			t.Errorf("sftptest: %v", err)
		}
	})
	return s
}

func (s *Server) listen(tcp bool) (net.Listener, error) {
	if !tcp {
		l := memnet.Listen()
		s.conn.Dial = l.DialContext
		return l, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		s.conn.Host, s.conn.Port = "127.0.0.1", l.Addr().(*net.TCPAddr).Port
	}
	return l, err
}

// Connection returns a connection to the server, with its host key and the credentials of its
// account. Without TCP it works only in the process of the test.
func (s *Server) Connection() sftp.Connection { return s.conn }

// Operations returns the operations that clients have requested so far, in order, such as "rename
// /in/a.csv.tmp /in/a.csv". Operations that failed are included.
func (s *Server) Operations() []string {
	var list []string
	for _, op := range s.server.Ops() {
		if name := operationOf(op.Method); name != "" {
			line := name + " " + op.Path
			if op.Target != "" {
				line += " " + op.Target
			}
			list = append(list, line)
		}
	}
	return list
}

// HostileNames returns names that hostile servers have sent. A step must refuse or skip each of
// them. They are for [Options.Names].
func HostileNames() []string { return slices.Clone(hostile.Names()) }

// fault is called before each operation. It returns the error of the fault that applies, if any.
func (s *Server) fault(op sftpserver.Op) error {
	name := operationOf(op.Method)
	if name == "" {
		return nil
	}
	switch s.Next(name, op.Path, op.Offset+op.Length) {
	case couriertest.Drop:
		return sftpserver.ErrDrop
	case couriertest.Stall:
		return sftpserver.ErrHang
	case couriertest.Deny:
		return fs.ErrPermission
	case couriertest.DiskFull:
		return errors.New("no space left on device")
	case couriertest.Fail:
		return errors.New("failure")
	}
	return nil
}

// operationOf returns the operation of a [couriertest.Fault] for a request method. It is empty
// for methods that no fault applies to.
func operationOf(method string) string {
	switch method {
	case "login", "open", "read", "write", "remove", "mkdir", "rmdir", "list":
		return method
	case "stat", "lstat":
		return "stat"
	case "rename", "posix-rename":
		return "rename"
	}
	return ""
}
