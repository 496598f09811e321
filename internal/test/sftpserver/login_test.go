package sftpserver_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier/internal/test/sftpserver"
)

func TestLogin(t *testing.T) {
	_, key, _ := ed25519.GenerateKey(nil)
	signer, _ := ssh.NewSignerFromKey(key)
	_, key, _ = ed25519.GenerateKey(nil)
	stranger, _ := ssh.NewSignerFromKey(key)
	asked := func(_, _ string, questions []string, _ []bool) ([]string, error) {
		return slices.Repeat([]string{"secret"}, len(questions)), nil
	}
	both := sftpserver.Options{AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}}
	for _, test := range []struct {
		name string
		opt  sftpserver.Options
		user string
		auth ssh.AuthMethod
		ok   bool
	}{
		{"password", both, "ada", ssh.Password("secret"), true},
		{"wrong password", both, "ada", ssh.Password("Secret"), false},
		{"empty password", both, "ada", ssh.Password(""), false},
		{"unknown user", both, "bob", ssh.Password(""), false},
		{"key", both, "bob", ssh.PublicKeys(signer), true},
		{"wrong key", both, "ada", ssh.PublicKeys(stranger), false},
		{"no keys", sftpserver.Options{}, "ada", ssh.PublicKeys(signer), false},
		{"asked", sftpserver.Options{KeyboardInteractive: true}, "ada", ssh.KeyboardInteractive(asked), true},
		{"not asked", sftpserver.Options{KeyboardInteractive: true}, "ada", ssh.Password("secret"), false},
		{"asked, unknown user", sftpserver.Options{KeyboardInteractive: true}, "bob", ssh.KeyboardInteractive(asked), false},
		{"refused", sftpserver.Options{Fault: failing("login", "", errors.New("locked"))}, "ada", ssh.Password("secret"), false},
		{"dropped", sftpserver.Options{Fault: failing("login", "", sftpserver.ErrDrop)}, "ada", ssh.Password("secret"), false},
		{"not welcome", sftpserver.Options{Fault: failing("connect", "", errors.New("banned"))}, "ada", ssh.Password("secret"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, test.opt)
				config := r.ada()
				config.User, config.Auth = test.user, []ssh.AuthMethod{test.auth}
				if _, err := r.login(config); (err == nil) != test.ok {
					t.Errorf("login = %v, want success: %v", err, test.ok)
				}
				if want := map[bool]int{true: 1}[test.ok]; test.opt.Fault == nil && r.Count("login") != want {
					t.Errorf("%d logins counted, want %d", r.Count("login"), want)
				}
			})
		})
	}
	if _, err := sftpserver.New(t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "Options.Users") {
		t.Errorf("New without users = %v, want advice", err)
	}
}

// TestHostKey has a server with a key of its own.
func TestHostKey(t *testing.T) {
	_, key, _ := ed25519.GenerateKey(nil)
	signer, _ := ssh.NewSignerFromKey(key)
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{
			HostKeys:  []ssh.Signer{signer},
			Configure: func(c *ssh.ServerConfig) { c.ServerVersion = "SSH-2.0-Courier_test" },
		})
		if !bytes.Equal(r.HostKey().Marshal(), signer.PublicKey().Marshal()) {
			t.Error("HostKey is another key")
		}
		if want := "[example.com]:2022 ssh-ed25519 "; !strings.HasPrefix(r.KnownHostsLine("example.com:2022"), want) {
			t.Errorf("KnownHostsLine = %q, want %q...", r.KnownHostsLine("example.com:2022"), want)
		}
		c, err := r.login(r.ada())
		if err != nil || string(c.ServerVersion()) != "SSH-2.0-Courier_test" {
			t.Errorf("login = %v", err)
		}
	})
}

func TestSessions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{MaxSessions: 2})
		conn, err := r.login(r.ada())
		if err != nil {
			t.Fatal(err)
		}
		a, err := sftp.NewClient(conn)
		if err != nil {
			t.Fatal(err)
		}
		b, err := sftp.NewClient(conn)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sftp.NewClient(conn); err == nil {
			t.Error("a third session was opened")
		}
		if _, _, err := conn.OpenChannel("direct-tcpip", nil); err == nil {
			t.Error("a tunnel was opened")
		}
		a.Close()
		synctest.Wait()
		if _, err := sftp.NewClient(conn); err != nil {
			t.Errorf("no session in the place of a closed one: %v", err)
		}
		if _, err := b.Stat("/"); err != nil {
			t.Errorf("Stat in the other session: %v", err)
		}
		if ok, _, err := conn.SendRequest("keepalive@openssh.com", true, nil); ok || err != nil {
			t.Errorf("keepalive = %v, %v, want a refusal, which is an answer", ok, err)
		}
		if s, err := conn.NewSession(); err == nil {
			t.Errorf("Session beyond the limit: %v", s)
		}
		b.Close()
		synctest.Wait()
		s, err := conn.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run("id"); err == nil {
			t.Error("a command was run")
		}
		if got := fmt.Sprint(r.Count("connect"), r.Count("login"), r.Count("session"), r.Count("sftp")); got != "1 1 4 3" {
			t.Errorf("connect, login, session, sftp = %s, want 1 1 4 3", got)
		}
	})
}

// TestHandles opens files without end, and closes none of them.
func TestHandles(t *testing.T) {
	before, _ := os.ReadDir("/proc/self/fd") // where there is none, all below counts 0
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.put("a", nil)
		c := r.client()
		n := 0
		for ; n < 2000; n++ {
			if _, err := c.Open("a"); err != nil {
				break
			}
		}
		if _, err := c.Open("a"); n != 1024 || err == nil {
			t.Errorf("opened %d files, then %v, want 1024 and no more", n, err)
		}
		if _, err := c.ReadDir("/"); err == nil {
			t.Error("opened a directory beyond the limit")
		}
		c.Close()
		synctest.Wait()
		if after, _ := os.ReadDir("/proc/self/fd"); len(after) > len(before)+10 {
			t.Errorf("%d files open after the session, %d before", len(after), len(before))
		}
	})
}
