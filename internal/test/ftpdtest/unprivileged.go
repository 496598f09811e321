package ftpdtest

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// PyFTPDLib starts a server of Python's pyftpdlib. Any user can start it.
func PyFTPDLib(t testing.TB, how Security) *Server {
	t.Helper()
	return start(t, kind{program: python, pkg: "python3-pyftpdlib python3-openssl", wait: true, prepare: preparePyFTPDLib}, how)
}

// python is Debian's, which has the modules of its packages. Another one may come
// first in the PATH.
const python = "/usr/bin/python3"

//go:embed testdata/pyftpdlib_server.py
var pyftpdlibServer []byte

func preparePyFTPDLib(s *Server, dir string, how Security) error {
	if out, err := exec.Command(python, "-c", "import pyftpdlib.servers, OpenSSL").CombinedOutput(); err != nil {
		return fmt.Errorf("a module is missing; on Debian and Ubuntu: apt-get install python3-pyftpdlib python3-openssl: %w: %s", err, out)
	}
	if how != Plain && how != Explicit {
		return errors.New("it knows neither implicit TLS nor SFTP")
	}
	script, certificate := filepath.Join(dir, "server.py"), filepath.Join(dir, "server.pem")
	s.args = []string{script, s.User, s.Password, s.Dir, "198.51.100.7"}
	if how == Explicit {
		s.args = append(s.args, certificate)
	}
	s.unprivileged()
	return errors.Join(os.WriteFile(script, pyftpdlibServer, 0o644), os.Chmod(certificate, 0o644))
}

// Inetutils starts the ftpd of GNU inetutils, which descends from that of BSD: it
// knows no MLSD, and listings are those of ls. It wants to be root and to find an
// account. So uid_wrapper and nss_wrapper make it believe that, and any user can
// start it.
func Inetutils(t testing.TB, how Security) *Server {
	t.Helper()
	return start(t, kind{program: "ftpd", pkg: "inetutils-ftpd", prepare: prepareInetutils}, how)
}

func prepareInetutils(s *Server, dir string, how Security) error {
	if how != Plain {
		return errors.New("it knows no TLS")
	}
	preload := ""
	for _, name := range []string{"uid", "nss"} {
		lib, err := filepath.Glob("/usr/lib/*/lib" + name + "_wrapper.so")
		if err != nil || len(lib) == 0 {
			return fmt.Errorf("lib%[1]s_wrapper.so is not installed; on Debian and Ubuntu: apt-get install lib%[1]s-wrapper", name)
		}
		preload += lib[0] + " "
	}
	uid, gid := os.Getuid(), os.Getgid()
	if s.uid >= 0 {
		uid, gid = s.uid, s.gid
	}
	env := []string{"LD_PRELOAD=" + preload, "UID_WRAPPER=1", "UID_WRAPPER_ROOT=1"}
	for _, file := range []struct{ name, text string }{
		{"passwd", fmt.Sprintf("%s:$5$courier$%s:%d:%d::%s:/bin/sh\n", s.User, hash, uid, gid, s.Dir)},
		{"group", fmt.Sprintf("%s:x:%d:\n", s.User, gid)},
		{"shadow", fmt.Sprintf("%s:$5$courier$%s:19000:0:99999:7:::\n", s.User, hash)},
	} {
		path := filepath.Join(dir, file.name)
		env = append(env, "NSS_WRAPPER_"+strings.ToUpper(file.name)+"="+path)
		if err := os.WriteFile(path, []byte(file.text), 0o644); err != nil {
			return err
		}
	}
	s.args = append(env, s.program, "--auth=default", "--umask=022") // after setpriv, which would believe them
	s.program = "env"
	s.unprivileged()
	return nil
}

// unprivileged has the program run as the user to whom the files belong.
func (s *Server) unprivileged() {
	if s.uid < 0 {
		return
	}
	s.args = append([]string{"--reuid", strconv.Itoa(s.uid), "--regid", strconv.Itoa(s.gid), "--clear-groups", s.program}, s.args...)
	s.program = "setpriv"
}
