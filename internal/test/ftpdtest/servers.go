package ftpdtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// VSFTPD starts a vsftpd. It knows neither MLSD nor MFMT. Only root can start
// it; it serves anonymous users, who may write.
func VSFTPD(t testing.TB, how Security) *Server {
	t.Helper()
	return start(t, kind{program: "vsftpd", pkg: "vsftpd", root: true, prepare: prepareVSFTPD}, how)
}

func prepareVSFTPD(s *Server, dir string, how Security) error {
	// Anonymous users may not be able to write in their root directory.
	s.User, s.Path = "anonymous", "/files"
	empty, root := filepath.Join(dir, "empty"), filepath.Join(dir, "root")
	s.Dir = filepath.Join(root, "files")
	for _, d := range []string{empty, root, s.Dir} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	if err := s.own(s.Dir); err != nil {
		return err
	}
	text := fmt.Sprintf(`listen=NO
background=NO
anonymous_enable=YES
local_enable=NO
ftp_username=%s
nopriv_user=nobody
secure_chroot_dir=%s
anon_root=%s
write_enable=YES
anon_upload_enable=YES
anon_mkdir_write_enable=YES
anon_other_write_enable=YES
anon_world_readable_only=NO
anon_umask=022
seccomp_sandbox=NO
xferlog_enable=NO
pasv_address=198.51.100.7
`, account, empty, root)
	if how != Plain {
		text += fmt.Sprintf(`ssl_enable=YES
allow_anon_ssl=YES
force_anon_logins_ssl=YES
force_anon_data_ssl=YES
require_ssl_reuse=YES
ssl_ciphers=HIGH
rsa_cert_file=%s
rsa_private_key_file=%s
`, filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key"))
	}
	if how == Implicit {
		text += "implicit_ssl=YES\n"
	}
	config := filepath.Join(dir, "vsftpd.conf")
	s.args = []string{config}
	return os.WriteFile(config, []byte(text), 0o600)
}

// ProFTPD starts a ProFTPD, with mod_tls or mod_sftp where that is asked for.
func ProFTPD(t testing.TB, how Security) *Server {
	t.Helper()
	return start(t, kind{program: "proftpd", pkg: "proftpd-core proftpd-mod-crypto", prepare: prepareProFTPD}, how)
}

func prepareProFTPD(s *Server, dir string, how Security) error {
	modules := "/usr/lib/proftpd"
	if strings.HasPrefix(s.program, Base()+"/") {
		modules = Base() + modules
	}
	uid, gid := os.Getuid(), os.Getgid()
	identity := ""
	if s.uid >= 0 {
		uid, gid = s.uid, s.gid
		identity = "User " + account + "\nGroup " + account + "\n"
	}
	module := "mod_tls.c"
	if how == SFTP {
		module = "mod_sftp.c"
	}
	users := fmt.Sprintf("%s:$5$courier$%s:%d:%d::%s:/bin/false\n", s.User, hash, uid, gid, s.Dir)
	text := fmt.Sprintf(`ServerType inetd
ServerName test
ModulePath %[1]s
LoadModule %[4]s
%[2]sUseReverseDNS off
RequireValidShell off
AuthOrder mod_auth_file.c
AuthUserFile %[3]s/users
ScoreboardFile %[3]s/scoreboard
PidFile %[3]s/pid
DelayTable none
SystemLog %[3]s/log
TransferLog none
WtmpLog off
Umask 022
DefaultRoot ~
AllowOverwrite on
AllowStoreRestart on
AllowRetrieveRestart on
MasqueradeAddress 198.51.100.7
`, modules, identity, dir, module)
	if how == Explicit || how == Implicit {
		text += fmt.Sprintf(`TLSEngine on
TLSRequired on
TLSLog %[1]s/log
TLSECCertificateFile %[1]s/server.crt
TLSECCertificateKeyFile %[1]s/server.key
`, dir)
	}
	if how == Implicit {
		text += "TLSOptions UseImplicitSSL\n"
	}
	if how == SFTP {
		text += fmt.Sprintf(`SFTPEngine on
SFTPLog %[1]s/log
SFTPHostKey %[1]s/server.key
SFTPAuthMethods password
`, dir)
	}
	config := filepath.Join(dir, "proftpd.conf")
	s.args = []string{"-c", config}
	if err := os.WriteFile(filepath.Join(dir, "users"), []byte(users), 0o600); err != nil {
		return err
	}
	return os.WriteFile(config, []byte(text), 0o600)
}

// hash is the SHA-256 form of Password that crypt makes with the salt "courier".
const hash = "sPwHwLUt2v7RJcg/WdNf0.eBY8xDjQXcNqy75Etl2v7"

// PureFTPD starts a Pure-FTPd. Only root can start it.
func PureFTPD(t testing.TB, how Security) *Server {
	t.Helper()
	return start(t, kind{program: "pure-ftpd", pkg: "pure-ftpd", root: true, prepare: preparePureFTPD}, how)
}

func preparePureFTPD(s *Server, dir string, how Security) error {
	tool := "/usr/bin/pure-pw"
	if strings.HasPrefix(s.program, Base()+"/") {
		tool = Base() + tool
	}
	users, database := filepath.Join(dir, "users"), filepath.Join(dir, "users.pdb")
	entry := fmt.Sprintf("%s:$5$courier$%s:%d:%d::%s/./::::::::::::\n", s.User, hash, s.uid, s.gid, s.Dir)
	if err := os.WriteFile(users, []byte(entry), 0o600); err != nil {
		return err
	}
	if out, err := exec.Command(tool, "mkdb", database, "-f", users).CombinedOutput(); err != nil {
		return fmt.Errorf("pure-pw: %w: %s", err, out)
	}
	s.args = []string{"-l", "puredb:" + database, "-E", "-H", "-u", "1", "-P", "198.51.100.7"}
	switch how {
	case Plain:
		s.args = append(s.args, "-Y", "0")
	case Explicit:
		s.args = append(s.args, "-Y", "3", "-2", filepath.Join(dir, "server.pem"))
	case Implicit:
		return errors.New("it knows no implicit TLS")
	}
	return nil
}
