// Package ftpdtest runs FTP servers that are installed on the machine, for
// tests against the real thing: vsftpd, ProFTPD, Pure-FTPd, the ftpd of GNU
// inetutils and Python's pyftpdlib.
//
// Debian lets only one of the first four be installed at a time. The others can be
// unpacked into a directory (apt-get download, dpkg -x) that the environment
// variable COURIER_FTPD names; without that, /opt/ftpd is looked at.
//
// Pure-FTPd waits 0.1 s longer after each refusal in a session. GNU inetutils lists a directory
// that is not there with success, and the error of ls as the content. pyftpdlib 1.5.7 loses
// sessions in active mode with several at a time, and is tested in passive mode. The ftpd of
// inetutils looks for accounts of the machine; nss_wrapper and uid_wrapper show it one.
package ftpdtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/inetd"
)

// Security is how a server encrypts.
type Security int

// The ways to encrypt. Those with TLS demand it for commands and content, and
// that connections for content resume the TLS session of the commands.
const (
	Plain Security = iota
	Explicit
	Implicit
	SFTP // no FTP but SFTP, which [ProFTPD] alone knows; the host key is [ftpserver.ServerKey]
)

// A Server is an FTP server on a loopback port. With TLS it presents
// [ftpserver.ServerCertificate].
type Server struct {
	Addr     string // "127.0.0.1:port"
	User     string
	Password string
	Dir      string // absolute path of a directory that users may write in, empty at first
	Path     string // of Dir on the server, such as "." or "/files"

	program  string
	args     []string
	uid, gid int // to whom Dir belongs; -1 is the user who runs the test
	inetd    *inetd.Server
}

// A kind is a program with what it needs.
type kind struct {
	program, pkg string
	root         bool // it works only for the superuser
	wait         bool // it accepts connections itself
	// prepare writes the configuration into dir and sets the arguments.
	prepare func(s *Server, dir string, how Security) error
}

// start starts a server that ends with the test. It fails the test where
// the program is not installed.
func start(t testing.TB, k kind, how Security) *Server {
	t.Helper()
	s := &Server{User: "ada", Password: "correct horse", Path: ".", uid: -1, gid: -1}
	if err := s.find(k); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	err := s.prepare(dir, k, how)
	begin := inetd.Start
	if k.wait {
		begin = inetd.StartWait
	}
	if err == nil {
		s.inetd, err = begin(t, dir, func() *exec.Cmd {
			cmd := exec.Command(s.program, s.args...)
			cmd.Dir = s.Dir // wherever the test is, the server's user may go here
			return cmd
		})
	}
	if err != nil {
		t.Fatalf("%s: %v", k.program, err)
	}
	s.Addr = s.inetd.Addr().String()
	return s
}

// Base is the directory below which a server may have been unpacked.
func Base() string {
	if dir := os.Getenv("COURIER_FTPD"); dir != "" {
		return dir
	}
	return "/opt/ftpd"
}

func (s *Server) find(k kind) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("%s is started only on Linux", k.program)
	}
	if k.root && os.Getuid() != 0 {
		return fmt.Errorf("%s has to be started by root", k.program)
	}
	for _, p := range []string{k.program, "/usr/sbin/" + k.program, filepath.Join(Base(), "usr/sbin", k.program)} {
		if p, err := exec.LookPath(p); err == nil {
			s.program = p
			return nil
		}
	}
	return fmt.Errorf("%s is not installed; on Debian and Ubuntu: apt-get install %s, or unpack it into a directory that COURIER_FTPD names", k.program, k.pkg)
}

// account is who the servers let users be where root starts them. It has to have
// a home directory, which is not used.
const account = "daemon"

// prepare writes the files that the server needs.
func (s *Server) prepare(dir string, k kind, how Security) error {
	// The server's user has to get to its files through directories that belong
	// to whoever runs the test.
	for d := dir; os.Getuid() == 0 && d != filepath.Dir(d) && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			return err
		}
	}
	s.Dir = filepath.Join(dir, "files")
	if err := os.Mkdir(s.Dir, 0o755); err != nil {
		return err
	}
	if os.Getuid() == 0 {
		who, err := user.Lookup(account)
		if err != nil {
			return err
		}
		s.uid, err = strconv.Atoi(who.Uid)
		if err == nil {
			s.gid, err = strconv.Atoi(who.Gid)
		}
		if err == nil {
			err = os.Chown(s.Dir, s.uid, s.gid)
		}
		if err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"server.crt": ftpserver.ServerCertificate,
		"server.key": ftpserver.ServerKey,
		"server.pem": ftpserver.ServerKey + ftpserver.ServerCertificate,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return k.prepare(s, dir, how)
}

// Port is the port of Addr.
func (s *Server) Port() int { return s.inetd.Addr().Port }

// Write puts a file into Dir, for the server's user to change.
func (s *Server) Write(name string, content []byte) error {
	p := filepath.Join(s.Dir, filepath.FromSlash(name))
	var errs []error
	for dir := filepath.Dir(p); dir != s.Dir; dir = filepath.Dir(dir) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		errs = append(errs, s.own(dir))
	}
	return errors.Join(append(errs, os.WriteFile(p, content, 0o644), s.own(p))...)
}

func (s *Server) own(name string) error {
	if s.uid < 0 {
		return nil
	}
	return os.Chown(name, s.uid, s.gid)
}

// Cut ends all connections, as if the machine were switched off.
func (s *Server) Cut() { s.inetd.Cut() }
