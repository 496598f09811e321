package sshdtest

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/courierhq/courier/internal/test/ftpdtest"
	"github.com/courierhq/courier/internal/test/inetd"
)

// The servers that programs of others make, beside OpenSSH's. Dropbear leaves SFTP to
// another program.
const (
	Dropbear = "Dropbear"  // with the program of OpenSSH
	GreenEnd = "Green End" // Dropbear with that of Green End, gesftpserver
	LSH      = "lsh"       // Dropbear with that of lsh, which Debian has up to version 12
	Perl     = "Perl"      // Dropbear with Perl's Net::SFTP::SftpServer, whose root is the login directory
	AsyncSSH = "AsyncSSH"  // Python's
	Paramiko = "Paramiko"  // Python's, which leaves the files to a program of ours
	SSH2     = "ssh2"      // npm's, which leaves the files to a program of ours
)

// Names lists the servers that packages of Debian and Ubuntu make.
func Names() []string { return []string{Dropbear, GreenEnd, Perl, AsyncSSH, Paramiko} }

//go:embed testdata/asyncssh_server.py testdata/paramiko_server.py testdata/ssh2_server.js testdata/node
var scripts embed.FS

// python is Debian's, which has the modules of its packages. Another one may come
// first in the PATH.
const python = "/usr/bin/python3"

// StartNamed starts one of these servers. It ends with the test. It fails the test
// where a program is not installed.
func StartNamed(t testing.TB, name string) *Server {
	t.Helper()
	s, dir := &Server{}, t.TempDir()
	err := s.write(dir)
	if err == nil {
		s.Addr, err = s.launch(t, name, dir)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}

// launch starts the program whose files are in dir.
func (s *Server) launch(t testing.TB, name, dir string) (addr string, err error) {
	t.Helper()
	start, command, env := inetd.StartWait, []string(nil), os.Environ()
	switch name {
	case Dropbear:
		start = inetd.Start
		command, env, err = s.dropbear(t, dir, need(t, "openssh-sftp-server", "/usr/lib/openssh/sftp-server"))
	case GreenEnd:
		start = inetd.Start
		command, env, err = s.dropbear(t, dir, need(t, "gesftpserver", "/usr/libexec/gesftpserver"))
	case LSH:
		start = inetd.Start
		command, env, err = s.dropbear(t, dir, needUnpacked(t, "lsh-server", "usr/lib/lsh-server/sftp-server"))
	case Perl:
		start = inetd.Start
		needRun(t, "libnet-sftp-sftpserver-perl", "perl", "-MNet::SFTP::SftpServer", "-e", "1")
		command, env, err = s.dropbear(t, dir, `perl -MNet::SFTP::SftpServer -e 'Net::SFTP::SftpServer->new(home => "$ENV{HOME}/files")->run'`)
	case AsyncSSH:
		needRun(t, "python3-asyncssh", python, "-c", "import asyncssh")
		command, err = script(dir, "asyncssh_server.py", python)
	case Paramiko:
		needRun(t, "python3-paramiko", python, "-c", "import paramiko")
		command, err = script(dir, "paramiko_server.py", python)
	case SSH2:
		env = append(env, "NODE_PATH="+nodeModules(t))
		command, err = script(dir, "ssh2_server.js", "node")
	default:
		err = fmt.Errorf("there is no such server")
	}
	if err != nil {
		return "", err
	}
	s.inetd, err = start(t, dir, func() *exec.Cmd {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir, cmd.Env = s.Dir, env
		return cmd
	})
	if err != nil {
		return "", err
	}
	return s.inetd.Addr().String(), nil
}

// script writes a program to dir and returns the command that runs it.
func script(dir, name, interpreter string) ([]string, error) {
	text, err := scripts.ReadFile("testdata/" + name)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, name)
	return []string{interpreter, file}, os.WriteFile(file, text, 0o600)
}

// nodeModules returns a directory with ssh2 and what it needs, which npm fetches from
// the registry that it is configured with, in the versions and with the sums of
// testdata/node.
func nodeModules(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := scripts.ReadFile("testdata/node/" + name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--no-update-notifier", "--cache", filepath.Join(dir, "cache"))
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci (Debian package npm; it asks a registry): %v: %s", err, out)
	}
	return filepath.Join(dir, "node_modules")
}

// dropbear is the command for a Dropbear, and its environment. It looks for keys in
// the home directory of an account only. So nss_wrapper makes one up, whose home is
// dir. A shell runs the program that serves files.
func (s *Server) dropbear(t testing.TB, dir, files string) (command, env []string, err error) {
	t.Helper()
	need(t, "dropbear-bin", "dropbear")
	need(t, "dropbear-bin", "dropbearconvert")
	wrapper, err := filepath.Glob("/usr/lib/*/libnss_wrapper.so")
	if err != nil || len(wrapper) == 0 {
		missing(t, "libnss_wrapper.so", "libnss-wrapper")
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	if out, err := exec.Command("dropbearconvert", "openssh", "dropbear", at("host_key"), at("dropbear_key")).CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("dropbearconvert: %w: %s", err, out)
	}
	s.User = "ada"
	passwd := fmt.Sprintf("%s:x:%d:%d::%s:/bin/sh\n", s.User, os.Getuid(), os.Getgid(), dir)
	group := fmt.Sprintf("ada:x:%d:\n", os.Getgid())
	err = errors.Join(
		os.WriteFile(at("passwd"), []byte(passwd), 0o600),
		os.WriteFile(at("group"), []byte(group), 0o600),
		os.Mkdir(at(".ssh"), 0o700),
		os.Symlink("../authorized_keys", at(".ssh/authorized_keys")),
	)
	command = []string{"dropbear", "-i", "-s", "-r", at("dropbear_key"), "-c", "cd files && exec " + files}
	env = append(os.Environ(), "LD_PRELOAD="+wrapper[0], "NSS_WRAPPER_PASSWD="+at("passwd"), "NSS_WRAPPER_GROUP="+at("group"))
	return command, env, err
}

// need returns the path of a program, and fails the test without it.
func need(t testing.TB, pkg, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/" + program); err != nil {
			missing(t, program, pkg)
		}
	}
	return path
}

// needUnpacked is need for a file of a package that is unpacked where the tests look
// for FTP servers too: its start script would start a server.
func needUnpacked(t testing.TB, pkg, name string) string {
	t.Helper()
	for _, dir := range []string{"/", ftpdtest.Base()} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	t.Fatalf("%s is not there; on Debian and Ubuntu: apt-get download %s, and dpkg -x into a directory that COURIER_FTPD names", name, pkg)
	return ""
}

// needRun fails the test where a command doesn't succeed without input.
func needRun(t testing.TB, pkg string, command ...string) {
	t.Helper()
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Logf("%s: %v: %s", command[0], err, out)
		missing(t, pkg, pkg)
	}
}

func missing(t testing.TB, what, pkg string) {
	t.Helper()
	t.Fatalf("%s is not installed; on Debian and Ubuntu: apt-get install %s", what, pkg)
}
