package sftp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/internal/test/steprig"
	"github.com/courierhq/courier/steps/sftp"
)

// TestOpenSSHRefusals is a table of configurations of sshd with which a login is
// refused. Each is refused for good, after one connection.
func TestOpenSSHRefusals(t *testing.T) {
	keys := agent.NewKeyring()
	for range 4 {
		key, err := ssh.ParseRawPrivateKey(mustPEM(t))
		if err == nil {
			err = keys.Add(agent.AddedKey{PrivateKey: key})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	password := func(c *sftp.Connection) { c.PrivateKey, c.Password = "", "wrong" }
	also := func(c *sftp.Connection) { c.Password = "wrong" }
	for name, row := range map[string]struct {
		lines  []string
		change func(c *sftp.Connection)
	}{
		"no way in common":               {nil, password},
		"password":                       {[]string{"PasswordAuthentication yes", "PermitRootLogin yes"}, password},
		"password, not for root":         {[]string{"PasswordAuthentication yes"}, password},
		"keyboard-interactive":           {[]string{"KbdInteractiveAuthentication yes"}, password},
		"keyboard-interactive, for root": {[]string{"KbdInteractiveAuthentication yes", "PermitRootLogin yes"}, password},
		"both":                           {[]string{"KbdInteractiveAuthentication yes", "PasswordAuthentication yes"}, password},
		"challenge": {[]string{"KbdInteractiveAuthentication yes"}, func(c *sftp.Connection) {
			password(c)
			c.Challenge = func(context.Context, string, []string, []bool) ([]string, error) { return nil, nil }
		}},
		"unknown key":              {nil, func(c *sftp.Connection) { c.PrivateKey = string(mustPEM(t)) }},
		"unknown key, keyboard":    {[]string{"KbdInteractiveAuthentication yes"}, func(c *sftp.Connection) { c.PrivateKey, c.Password = string(mustPEM(t)), "x" }},
		"unknown user":             {nil, func(c *sftp.Connection) { c.Username = "no-such-user" }},
		"unknown user, keyboard":   {[]string{"KbdInteractiveAuthentication yes"}, func(c *sftp.Connection) { password(c); c.Username = "no-such-user" }},
		"another algorithm":        {[]string{"PubkeyAcceptedAlgorithms ecdsa-sha2-nistp256"}, nil},
		"keys are off":             {[]string{"PubkeyAuthentication no", "PasswordAuthentication yes"}, nil},
		"nothing is on":            {[]string{"PubkeyAuthentication no"}, nil},
		"two factors":              {[]string{"AuthenticationMethods publickey,password", "PasswordAuthentication yes"}, also},
		"two factors, one is here": {[]string{"AuthenticationMethods publickey,password", "PasswordAuthentication yes"}, nil},
		"two factors, keyboard":    {[]string{"AuthenticationMethods publickey,keyboard-interactive", "KbdInteractiveAuthentication yes"}, also},
		"two keys":                 {[]string{"AuthenticationMethods publickey,publickey"}, nil},
		"too many tries": {[]string{"MaxAuthTries 2"}, func(c *sftp.Connection) {
			c.PrivateKey, c.Agent = "", func(context.Context) (agent.Agent, error) { return keys, nil }
		}},
		"too many tries at once":   {[]string{"MaxAuthTries 1"}, func(c *sftp.Connection) { c.PrivateKey = string(mustPEM(t)) }},
		"too many tries, password": {[]string{"MaxAuthTries 1", "PasswordAuthentication yes", "KbdInteractiveAuthentication yes"}, password},
		"allowed users":            {[]string{"AllowUsers somebody"}, nil},
		"allowed from elsewhere":   {[]string{"AllowUsers *@10.1.2.3"}, nil},
		"denied users":             {[]string{"DenyUsers *"}, nil},
		"allowed groups":           {[]string{"AllowGroups no-such-group"}, nil},
		"no root":                  {[]string{"PermitRootLogin no", "DenyGroups *"}, nil},
		"banner":                   {[]string{"Banner /etc/passwd", "DenyUsers *"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, s := newOpenSSH(t)
			s.Configure(t, row.lines...)
			if row.change != nil {
				row.change(&r.conn)
			}
			var dialed atomic.Int32
			r.conn.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				dialed.Add(1)
				return (&net.Dialer{}).DialContext(ctx, network, addr)
			}
			r.conn.HostKeys = []string{string(ssh.MarshalAuthorizedKey(s.HostKey))}
			err := r.list()
			steprig.WantError(t, err, true, "refuses the login of user")
			if !errors.Is(err, courier.ErrLogin) || dialed.Load() != 1 {
				t.Errorf("%d connections, %v", dialed.Load(), err)
			}
		})
	}
}

// TestLoginHungUp has servers end the connection when they get credentials, as
// OpenSSH does with an account that PAM finds expired. Once may be a restart;
// twice is a refusal.
func TestLoginHungUp(t *testing.T) {
	for _, times := range []int32{1, 1000} {
		t.Run(fmt.Sprint(times), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tried atomic.Int32
				r := newRig(t, sftpserver.Options{Configure: func(c *ssh.ServerConfig) {
					check := func(_ ssh.ConnMetadata, p []byte) (*ssh.Permissions, error) { return nil, nil }
					c.PasswordCallback = func(m ssh.ConnMetadata, p []byte) (*ssh.Permissions, error) {
						if tried.Add(1) <= times {
							m.(io.Closer).Close()
						}
						return check(m, p)
					}
				}})
				err := r.list()
				if times == 1 {
					if err != nil || tried.Load() != 2 {
						t.Errorf("%d logins, %v", tried.Load(), err)
					}
					return
				}
				steprig.WantError(t, err, true, "ends the connection in place of an answer to the login", "and again")
				if !errors.Is(err, courier.ErrLogin) || tried.Load() != 2 {
					t.Errorf("%d logins, %v", tried.Load(), err)
				}
			})
		})
	}
}
