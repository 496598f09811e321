package sftp_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/sshdtest"
	"github.com/courierhq/courier/internal/test/steprig"
)

// tour uses every kind of step, and returns the first error.
func (r *rig) tour() error {
	r.PutLocal("up.bin", steprig.Content(100_000))
	for _, step := range []struct {
		key string
		cfg object
	}{
		{"sftp.mkdir", object{"remote_path": "d"}},
		{"sftp.upload", object{"local_path": "up.bin", "remote_path": "d/"}},
		{"sftp.upload", object{"local_path": "up.bin", "remote_path": "d/"}}, // in place of the first
		{"sftp.list", object{"remote_path": "d", "pattern": "*.bin"}},
		{"sftp.stat", object{"remote_path": "d/up.bin"}},
		{"sftp.download", object{"remote_path": "d/up.bin", "local_path": "down.bin"}},
		{"sftp.rename", object{"source_path": "d/up.bin", "destination_path": "d/moved.bin"}},
		{"sftp.delete", object{"remote_path": "d/moved.bin"}},
		{"sftp.rmdir", object{"remote_path": "d"}},
	} {
		out, err := r.Run(r.T.Context(), step.key, step.cfg)
		if err != nil {
			return fmt.Errorf("%s: %w", step.key, err)
		}
		if step.key == "sftp.list" && out["file_count"] != 1. {
			return fmt.Errorf("the listing is %v", out)
		}
	}
	if r.GetLocal("down.bin") != string(steprig.Content(100_000)) {
		return fmt.Errorf("the content differs")
	}
	return nil
}

// sftpServer is the program that serves SFTP in a process of its own.
func sftpServer(t testing.TB) string {
	for _, p := range []string{"/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server", "/usr/lib/ssh/sftp-server"} {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	t.Fatal("sftp-server is not installed; on Debian and Ubuntu: apt-get install openssh-sftp-server")
	return ""
}

// An oddity is a configuration of OpenSSH with which it does what few servers do.
type oddity struct {
	lines  []string                                        // of its configuration
	make   func(t testing.TB, s *sshdtest.Server) []string // more of them
	force  string                                          // what is run in place of SFTP; %s is sftp-server, started in the login directory
	want   []string                                        // in the error; none means that everything works
	again  bool                                            // the error passes
	either bool                                            // or not
}

// TestOpenSSHOddities is a table of what OpenSSH can be made to send. What is
// legal works; what can't work says why.
func TestOpenSSHOddities(t *testing.T) {
	program := sftpServer(t)
	for name, row := range oddities() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, s := newOpenSSH(t)
			r.conn.HostKeys = []string{string(ssh.MarshalAuthorizedKey(s.HostKey))}
			lines := row.lines
			if row.make != nil {
				lines = append(lines, row.make(t, s)...)
			}
			if strings.HasPrefix(row.force, "internal-sftp ") {
				lines = append(lines, "ForceCommand "+row.force+" -d "+s.Dir)
			} else if row.force != "" {
				script := filepath.Join(s.Files(), "force.sh")
				text := "cd '" + s.Dir + "'\n" + strings.ReplaceAll(row.force, "%s", program) + "\n"
				if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
				lines = append(lines, "ForceCommand /bin/sh "+script)
			}
			s.Configure(t, lines...)
			err := r.tour()
			if len(row.want) == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			steprig.WantError(t, err, !row.again && (!row.either || courier.IsPermanent(err)), row.want...)
		})
	}
}

// banner is a file of so many bytes, which sshd sends before the login.
func banner(size int) func(t testing.TB, s *sshdtest.Server) []string {
	return func(t testing.TB, s *sshdtest.Server) []string {
		name := filepath.Join(s.Files(), "banner")
		if err := os.WriteFile(name, []byte(strings.Repeat("Beware! \x1b[2J\x07\xff ", size/15+1)[:size]), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"Banner " + name}
	}
}

// hostKeys are keys of all types, several of each.
func hostKeys(t testing.TB, s *sshdtest.Server) (lines []string) {
	for i, typ := range []string{"rsa", "ecdsa", "ecdsa", "rsa"} {
		name := filepath.Join(s.Files(), fmt.Sprintf("host_%d", i))
		if out, err := exec.Command("ssh-keygen", "-q", "-N", "", "-t", typ, "-f", name).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		lines = append(lines, "HostKey "+name)
	}
	return lines
}

func oddities() map[string]oddity {
	lines := func(l ...string) oddity { return oddity{lines: l} }
	force := func(script string, want ...string) oddity { return oddity{force: script, want: want, again: true} }
	internal := func(flags string) oddity { return oddity{force: "internal-sftp " + flags} }
	const lost, noise = "the connection is lost", "where a packet should begin it sends"
	all := map[string]oddity{
		"long banner":           {make: banner(200 << 10)},
		"banner beyond packets": {make: banner(300 << 10), want: []string{"in place of an answer to the login"}},
		"new keys all the time": lines("RekeyLimit 1K"),
		"new keys each second":  lines("RekeyLimit default 1"),
		"many host keys":        {make: hostKeys},
		"one session":           lines("MaxSessions 1", "Compression yes", "ClientAliveInterval 1", "ClientAliveCountMax 1", "VersionAddendum "+strings.Repeat("v", 200)),
		"no session":            {lines: []string{"MaxSessions 0"}, want: []string{"the server refuses a session"}, again: true},
		"no forwarding":         lines("DisableForwarding yes", "PermitTTY no", "PermitUserRC no", "PermitTunnel no"),
		"forwarding":            lines("AllowStreamLocalForwarding yes", "StreamLocalBindUnlink yes", "GatewayPorts yes", "PermitTunnel yes"),
		"chroot":                {make: func(_ testing.TB, s *sshdtest.Server) []string { return []string{"ChrootDirectory " + s.Dir} }, want: []string{lost}, either: true},
		"old ciphers":           {lines: []string{"Ciphers 3des-cbc"}, want: []string{"no common algorithm", "3des-cbc"}},
		"one cipher":            lines("Ciphers chacha20-poly1305@openssh.com"),
		"old mac":               lines("Ciphers aes256-ctr", "MACs hmac-sha1"),
		"odd mac":               {lines: []string{"Ciphers aes256-ctr", "MACs umac-64@openssh.com"}, want: []string{"no common algorithm", "umac-64"}},
		"group exchange":        lines("KexAlgorithms diffie-hellman-group-exchange-sha256"),
		"odd key exchange":      {lines: []string{"KexAlgorithms sntrup761x25519-sha512@openssh.com"}, want: []string{"no common algorithm", "sntrup761"}},
		"greets":                force("echo Welcome to the server; exec %s", noise, `"Welcome to the server\n`, "start-up script"),
		"greets at length":      force("head -c 100000 /dev/zero; exec %s", noise),
		"talks a lot beside":    {force: "head -c 8000000 /dev/zero >&2; exec %s"},
		"says goodbye":          {force: "%s; echo bye; echo bye >&2; exit 7"},
		"echoes":                force("exec cat", "its first packet has type 1"),
		"fails at once":         force("echo no account >&2; exit 1", lost), // sshd keeps these words
		"is killed":             force("kill -9 $$", lost),
		"read only":             {force: "internal-sftp -R", want: []string{"sftp.mkdir", "permission denied"}},
		"mask":                  internal("-u 077"),
		"no extensions":         internal("-P posix-rename,statvfs,fstatvfs,hardlink,fsync,lsetstat,limits,expand-path,copy-data,home-directory,users-groups-by-id"),
		"the least":             internal("-p open,close,read,write,lstat,stat,opendir,readdir,remove,mkdir,rmdir,rename"),
	}
	for _, request := range []string{"setstat", "fsetstat", "fstat", "realpath", "rename", "posix-rename", "fsync", "limits"} {
		all["denies "+request] = internal("-P " + request) // is done without
	}
	for request, step := range map[string]string{
		"open": "upload", "close": "upload", "write": "upload", "lstat": "upload", "read": "download", "stat": "mkdir", "mkdir": "mkdir",
		"opendir": "list", "readdir": "list", "remove": "delete", "rmdir": "rmdir",
	} {
		all["denies "+request] = oddity{force: "internal-sftp -P " + request, want: []string{"sftp." + step, "permission denied; the account"}}
	}
	return all
}
