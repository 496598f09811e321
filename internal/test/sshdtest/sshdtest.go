// Package sshdtest runs the OpenSSH server and other SFTP servers that are
// installed on the machine, for tests against the real thing.
//
// Perl's Net::SFTP::SftpServer sets no times or modes, and its root is the login directory.
// Dropbear looks for accounts of the machine; nss_wrapper and uid_wrapper show it one. lsh and
// npm's ssh2 are tried with -servers lsh,ssh2 only: Debian has the first up to version 12, and
// the second takes as long as all others together.
package sshdtest

import (
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier/internal/test/inetd"
)

// A Server is an SSH server on a loopback port. It serves SFTP with the rights of the
// user who runs the test, who logs in with ClientKey.
type Server struct {
	Addr      string        // "127.0.0.1:port"
	HostKey   ssh.PublicKey // what it presents, an Ed25519 key
	User      string        // who logs in
	ClientKey []byte        // private key of User, in PEM form
	Dir       string        // absolute path of the login directory, empty at first

	sshd   string // absolute path of the program
	config string
	inetd  *inetd.Server
}

// Start starts a server that ends with the test. It fails the test where no
// sshd is installed.
func Start(t testing.TB) *Server {
	t.Helper()
	s, dir := &Server{sshd: find(t)}, t.TempDir()
	err := s.prepare(dir)
	if err == nil {
		s.inetd, err = inetd.Start(t, dir, func() *exec.Cmd { c := s.Command(); return exec.Command(c[0], c[1:]...) })
	}
	if err != nil {
		t.Fatalf("sshd: %v", err)
	}
	s.Addr = s.inetd.Addr().String()
	return s
}

// Configure puts lines into the configuration of the connections that come from
// now on, in place of those of an earlier call. They count before the server's
// own: of most keywords, sshd takes the first.
func (s *Server) Configure(t testing.TB, lines ...string) {
	t.Helper()
	dir := filepath.Dir(s.config)
	text := strings.Join(lines, "\n") + "\n" + configuration(dir, s.Dir)
	err := os.WriteFile(s.config, []byte(text), 0o600)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		t.Fatalf("sshd: %v", err)
	}
}

// Command is what serves one connection on its standard input and output.
func (s *Server) Command() []string { return []string{s.sshd, "-i", "-e", "-f", s.config} }

// Files is the directory of the server's keys and configuration.
func (s *Server) Files() string { return filepath.Dir(s.config) }

// find returns the path of sshd, which insists on being started by an absolute
// one.
func find(t testing.TB) string {
	t.Helper()
	if runtime.GOOS != "windows" {
		if p, err := exec.LookPath("sshd"); err == nil {
			if p, err = filepath.Abs(p); err == nil {
				return p
			}
		}
		for _, p := range []string{"/usr/sbin/sshd", "/usr/local/sbin/sshd", "/opt/homebrew/sbin/sshd"} {
			if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() {
				return p
			}
		}
	}
	t.Fatal("sshd is not installed; on Debian and Ubuntu: apt-get install openssh-server")
	return ""
}

// prepare writes keys and configuration into dir.
func (s *Server) prepare(dir string) error {
	if err := s.write(dir); err != nil {
		return err
	}
	s.config = filepath.Join(dir, "sshd_config")
	if err := os.WriteFile(s.config, []byte(configuration(dir, s.Dir)), 0o600); err != nil {
		return err
	}
	return s.check()
}

// write makes keys and a login directory in dir.
func (s *Server) write(dir string) error {
	who, err := user.Current()
	if err != nil {
		return err
	}
	s.User = who.Username
	s.Dir = filepath.Join(dir, "files")
	if err := os.Mkdir(s.Dir, 0o700); err != nil {
		return err
	}
	hostKey, hostPEM, err := newKey()
	if err != nil {
		return err
	}
	clientKey, clientPEM, err := newKey()
	if err != nil {
		return err
	}
	s.HostKey, s.ClientKey = hostKey, clientPEM
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "host_key"), hostPEM, 0o600),
		os.WriteFile(filepath.Join(dir, "authorized_keys"), ssh.MarshalAuthorizedKey(clientKey), 0o600),
	)
}

func newKey() (ssh.PublicKey, []byte, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return nil, nil, err
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, nil, err
	}
	return signer.PublicKey(), pem.EncodeToMemory(block), nil
}

func configuration(dir, files string) string {
	return fmt.Sprintf(`HostKey %[1]q
AuthorizedKeysFile %[2]q
Subsystem sftp internal-sftp -d %[3]q
PidFile none
UsePAM no
UseDNS no
StrictModes no
PermitRootLogin prohibit-password
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
PrintMotd no
LogLevel VERBOSE
`, filepath.Join(dir, "host_key"), filepath.Join(dir, "authorized_keys"), files)
}

var missingDir = regexp.MustCompile(`(?m)^Missing privilege separation directory: (/\S+)\s*$`)

// check lets sshd check its configuration. As root it needs a directory that
// the start scripts of a machine make, and that containers lack.
func (s *Server) check() error {
	out, err := exec.Command(s.sshd, "-t", "-f", s.config).CombinedOutput()
	if m := missingDir.FindSubmatch(out); err != nil && m != nil && os.Getuid() == 0 {
		if err := os.MkdirAll(string(m[1]), 0o755); err != nil {
			return err
		}
		out, err = exec.Command(s.sshd, "-t", "-f", s.config).CombinedOutput()
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Cut ends all connections, as if the machine were switched off.
func (s *Server) Cut() { s.inetd.Cut() }
