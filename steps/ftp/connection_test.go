package ftp_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/steprig"
	"github.com/courierhq/courier/steps/ftp"
)

// pin is the SHA-256 of the server's certificate.
func pin() string {
	block, _ := pem.Decode([]byte(ftpserver.ServerCertificate))
	sum := sha256.Sum256(block.Bytes)
	return hex.EncodeToString(sum[:])
}

// TestSecurity connects in all ways to servers that offer different ones.
func TestSecurity(t *testing.T) {
	colons := strings.ToUpper(pin()[:2]) + ":" + pin()[2:]
	old := ftpserver.Config()
	old.MaxVersion = tls.VersionTLS11
	demanding := ftpserver.Config()
	demanding.ClientAuth, demanding.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	demanding.ClientCAs.AppendCertsFromPEM([]byte(ftpserver.ClientCertificate))
	modern := ftpserver.Config()
	modern.MinVersion = tls.VersionTLS13
	for name, tt := range map[string]struct {
		opt       ftpserver.Options
		set       func(*ftp.Connection)
		want      string // in the error; empty means that there is none
		temporary bool
		login     bool // credentials reach the server
		log       string
	}{
		"explicit":       {opt: ftpserver.Options{TLS: tlsConfig, RequireReuse: true}, login: true},
		"implicit":       {opt: ftpserver.Options{TLS: tlsConfig, Implicit: true, RequireReuse: true}, login: true},
		"TLS 1.3":        {opt: ftpserver.Options{TLS: modern, RequireReuse: true}, login: true},
		"only up to 1.2": {opt: ftpserver.Options{TLS: tlsConfig, RequireReuse: true}, set: func(c *ftp.Connection) { c.MaxTLS = "1.2" }, login: true},
		"none":           {opt: ftpserver.Options{}, login: true, log: "is not encrypted"},
		"no TLS offered": {opt: ftpserver.Options{}, set: func(c *ftp.Connection) { c.Security = "" }, want: "offers no TLS"},
		"pinned": {opt: ftpserver.Options{TLS: tlsConfig, RequireReuse: true}, set: func(c *ftp.Connection) {
			c.CertificatePolicy, c.PinnedCertificates, c.Authorities = "pinned", []string{colons}, ""
		}, login: true},
		"pinned other": {opt: ftpserver.Options{TLS: tlsConfig}, set: func(c *ftp.Connection) {
			c.CertificatePolicy, c.PinnedCertificates = "pinned", []string{strings.Repeat("0", 64)}
		}, want: "is not among pinned_certificates"},
		"insecure":            {opt: ftpserver.Options{TLS: tlsConfig, RequireReuse: true}, set: func(c *ftp.Connection) { c.CertificatePolicy, c.Authorities = "insecure", "" }, login: true, log: "is not checked"},
		"unknown authority":   {opt: ftpserver.Options{TLS: tlsConfig}, set: func(c *ftp.Connection) { c.Authorities = "" }, want: "its SHA-256 is " + pin()},
		"other name":          {opt: ftpserver.Options{TLS: tlsConfig}, set: func(c *ftp.Connection) { c.Host = "evil.example.com" }, want: "is not trusted"},
		"name given":          {opt: ftpserver.Options{TLS: tlsConfig}, set: func(c *ftp.Connection) { c.Host, c.ServerName = "10.1.2.3", "files.example.com" }, login: true},
		"old TLS":             {opt: ftpserver.Options{TLS: old}, want: "TLS: ", temporary: true},
		"floor 1.3":           {opt: ftpserver.Options{TLS: &tls.Config{Certificates: tlsConfig.Certificates, MaxVersion: tls.VersionTLS12}}, set: func(c *ftp.Connection) { c.MinTLS = "1.3" }, want: "TLS: ", temporary: true},
		"client certificate":  {opt: ftpserver.Options{TLS: demanding}, set: withClient, login: true},
		"without certificate": {opt: ftpserver.Options{TLS: demanding}, set: func(c *ftp.Connection) { c.MaxTLS = "1.2" }, want: "TLS: ", temporary: true},
		"injected before TLS": {opt: ftpserver.Options{TLS: tlsConfig, Answer: says("AUTH", "234 ok\r\n230 logged in\r\n")}, want: "in plain sight after encryption", temporary: true},
		"PROT P refused":      {opt: ftpserver.Options{TLS: tlsConfig, Answer: says("PROT", "")}, set: func(c *ftp.Connection) { c.OperationTimeout = time.Second }, want: "nothing has come", temporary: true, login: true},
		"content in plain":    {opt: ftpserver.Options{TLS: tlsConfig, Answer: says2("PROT", "536 no")}, want: "unencrypted (PROT P)", login: true},
		"explicit is wrong":   {opt: ftpserver.Options{TLS: tlsConfig}, set: func(c *ftp.Connection) { c.Security = "implicit" }, want: `must be "explicit"`},
		"wrong password":      {opt: ftpserver.Options{TLS: tlsConfig}, set: func(c *ftp.Connection) { c.Password = "wrong" }, want: "check username and password", login: true},
		"secret":              {opt: ftpserver.Options{TLS: tlsConfig}, set: func(c *ftp.Connection) { c.Password = "secret:acme" }, login: true},
		"unknown secret":      {opt: ftpserver.Options{TLS: tlsConfig}, set: func(c *ftp.Connection) { c.Password = "secret:other" }, want: "no such secret", temporary: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, tt.opt)
				if tt.set != nil {
					tt.set(&r.conn)
				}
				r.Put("f", steprig.Content(50_000))
				for range 2 {
					_, err := r.Run(t.Context(), "ftp.download", object{"remote_path": "f", "local_path": "f"})
					if tt.want == "" && err != nil {
						t.Fatal(err)
					} else if tt.want != "" {
						steprig.WantError(t, err, !tt.temporary, tt.want)
					}
				}
				commands := r.Commands()
				if got := slices.Contains(commands, "PASS ***"); got != tt.login {
					t.Errorf("credentials were sent: %v; commands: %q", got, commands)
				}
				if n := strings.Count(r.Log.String(), "level=WARN"); tt.log == "" && n > 0 || tt.log != "" && (n != 2 || !strings.Contains(r.Log.String(), tt.log)) {
					t.Errorf("the log has %d warnings: %s", n, r.Log.String())
				}
				if strings.Contains(r.Log.String(), steprig.Password) {
					t.Error("the log has the password")
				}
			})
		})
	}
}

func withClient(c *ftp.Connection) {
	c.ClientCertificate, c.ClientKey = ftpserver.ClientCertificate, ftpserver.ClientKey
}

// says2 replies over TLS.
func says2(verb, text string) func(*ftpserver.Conn, string, string) bool {
	return on(verb, func(c *ftpserver.Conn, _ string) { c.Reply(text) })
}

// TestBadConnections reports what is wrong with a connection by itself.
func TestBadConnections(t *testing.T) {
	const valid = `"host": "h", "username": "u"`
	for _, tt := range []struct{ fields, want string }{
		{`"username": "u"`, "host is missing"},
		{`"host": "a b"`, "not the name"},
		{valid + `, "port": 70000`, "out of range"},
		{valid + `, "security": "tls"`, `security: "tls" is unknown`},
		{valid + `, "certificate_policy": "any"`, `certificate_policy: "any" is unknown`},
		{valid + `, "certificate_policy": "pinned"`, "belong together"},
		{valid + `, "pinned_certificates": ["00"]`, "belong together"},
		{valid + `, "certificate_policy": "pinned", "pinned_certificates": ["00"]`, "64 hexadecimal digits"},
		{valid + `, "security": "none", "certificate_policy": "insecure"`, "nothing about certificates"},
		{valid + `, "authorities": "x"`, "no certificate in PEM form"},
		{valid + `, "client_key": "x"`, "belong together"},
		{valid + `, "min_tls": "1.1"`, "min_tls"},
		{valid + `, "min_tls": "1.3", "max_tls": "1.2"`, "is below"},
		{valid + `, "max_sessions": 100`, "max_sessions"},
		{valid + `, "connect_timeout_seconds": -1`, "negative"},
		{valid + `, "sekurity": "none"`, `did you mean "security"`},
		{valid + `, "port": "x"`, "port: must be a number"},
		{`"host": "h", "username": "u\r\nDELE x"`, "control character"},
	} {
		file := filepath.Join(t.TempDir(), "connections.json")
		if err := os.WriteFile(file, []byte(`{"acme": {`+tt.fields+`}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ftp.ReadConnections(file)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), `connection "acme"`) {
			t.Errorf("%s: %v, want %q", tt.fields, err, tt.want)
		}
	}
}

// TestReadConnectionsFindsAll has all mistakes of all connections, each with its line.
func TestReadConnectionsFindsAll(t *testing.T) {
	file := filepath.Join(t.TempDir(), "connections.json")
	text := `{
  "plain": {"host": "h", "username": "u", "password": "hunter2",
    "client_certificate": "x",
    "client_key": "hunter2-key"},
  "anonymous": {"host": "h", "password": "me@example.com"},
  "many": {"port": -1, "max_sessions": 100,
    "security": "tls",
    "min_tls": "1.1"}
}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ftp.ReadConnections(file)
	want := []string{
		`line 2: connection "plain": password: the credential itself stands in the file`, `line 4: connection "plain": client_key: the credential`,
		`line 6: connection "many": host is missing`, `line 6: connection "many": port -1`, `line 6: connection "many": max_sessions`,
		`line 7: connection "many": security: "tls" is unknown`, `line 8: connection "many": min_tls: `,
	}
	if err == nil || strings.Count(err.Error(), ": connection ") != len(want) || strings.Contains(err.Error(), "hunter2") {
		t.Fatal(err)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("no %q in\n%v", w, err)
		}
	}
	m, err := ftp.ReadConnections(file, func(_ string, c *ftp.Connection) { *c = ftp.Connection{Host: "h"} })
	if err == nil || strings.Count(err.Error(), ": connection ") != 2 {
		t.Errorf("credentials in the file are passed: %v, %v", m, err)
	}
}

// TestReadConnections reads all fields.
func TestReadConnections(t *testing.T) {
	file := filepath.Join(t.TempDir(), "connections.json")
	text := `{"acme": {"host": "h", "port": 2121, "username": "u", "password": "secret:canary", "security": "implicit", "certificate_policy": "pinned",
		"pinned_certificates": ["` + pin() + `"], "min_tls": "1.2", "max_tls": "1.3", "active": true, "disable_epsv": true, "disable_mlsd": true,
		"max_sessions": 2, "connect_timeout_seconds": 1.5, "keep_alive_seconds": 0, "operation_timeout_seconds": 7}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := ftp.ReadConnections(file)
	if err != nil {
		t.Fatal(err)
	}
	c := m["acme"]
	if c.Password != "secret:canary" || c.ConnectTimeout != 1500*time.Millisecond || *c.KeepAlive != 0 || c.OperationTimeout != 7*time.Second || !c.Active || c.MaxSessions != 2 {
		t.Errorf("read: %+v", c)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d"} {
		if got := fmt.Sprintf(verb, c); got != "ftps://u@h:2121" {
			t.Errorf("%s shows %s", verb, got)
		}
	}
}

// TestUnknownConnection suggests what may be meant.
func TestUnknownConnection(t *testing.T) {
	r := newRig(t, ftpserver.Options{})
	_, err := r.Run(t.Context(), "ftp.list", object{"connection_id": "partnr"})
	steprig.WantError(t, err, true, `connection "partnr"`, `did you mean "partner"`)
}

// TestFewerSessions uses as many sessions as the server allows.
func TestFewerSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var users atomic.Int32
		r := newRig(t, ftpserver.Options{Answer: on2("USER", func(c *ftpserver.Conn) bool {
			if users.Add(1) <= 2 {
				return false
			}
			c.Reply("421 too many of you")
			c.Close()
			return true
		})})
		for i := range 20 {
			r.Put(fmt.Sprintf("dir/%d", i), steprig.Content(1000))
		}
		out := r.Must(r.Run(t.Context(), "ftp.download", object{"remote_path": "dir", "local_path": "in/"}))
		if out["file_count"] != 20.0 || r.Logins() != 2 {
			t.Errorf("%v files with %d logins", out["file_count"], r.Logins())
		}
	})
}

// on2 answers a command or leaves it to the server.
func on2(verb string, f func(*ftpserver.Conn) bool) func(*ftpserver.Conn, string, string) bool {
	return func(c *ftpserver.Conn, v, _ string) bool { return v == verb && f(c) }
}

// TestKeptSession is used by later steps, kept alive, and replaced when the
// server has closed it.
func TestKeptSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ftpserver.Options{})
		for range 3 {
			r.Must(r.Run(t.Context(), "ftp.list", object{}))
		}
		time.Sleep(10 * time.Minute)
		if n := r.Logins(); n != 1 {
			t.Errorf("%d logins", n)
		}
		noops := 0
		for _, c := range r.Commands() {
			if c == "NOOP" {
				noops++
			}
		}
		if noops < 9 {
			t.Errorf("%d NOOPs in ten minutes", noops)
		}
		r.Cut()
		time.Sleep(10 * time.Second)
		r.Must(r.Run(t.Context(), "ftp.list", object{}))
		if n := r.Logins(); n != 2 {
			t.Errorf("%d logins", n)
		}
	})
}

// TestLostReply loses the answer to the renaming. The step connects again and
// looks.
func TestLostReply(t *testing.T) {
	for _, over := range []bool{false, true} {
		for _, before := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				lost := false
				var r *rig
				r = newRig(t, ftpserver.Options{NoRenameOver: over, Answer: func(c *ftpserver.Conn, verb, argument string) bool {
					if verb != "RNTO" || lost {
						return false
					}
					lost = true
					if !before { // it takes effect
						side := steprig.Tree(t, r.Remote)
						for _, f := range side {
							if strings.Contains(f, ".courier-tmp-") && !over {
								if err := os.Rename(filepath.Join(r.Remote, f), filepath.Join(r.Remote, argument)); err != nil {
									t.Error(err)
								}
							}
						}
					}
					c.Close()
					return true
				}})
				r.Put("f", []byte("old"))
				r.PutLocal("f", steprig.Content(1000))
				r.Must(r.Run(t.Context(), "ftp.upload", object{"local_path": "f", "remote_path": "f"}))
				if r.Get("f") != string(steprig.Content(1000)) {
					t.Error("the content differs")
				}
				steprig.WantTree(t, r.Remote, "f")
			})
		}
	}
}

// TestWindow refuses to rename onto a file. That is moved aside, and back if the
// renaming fails nevertheless.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r := newRig(t, ftpserver.Options{Fault: func(verb, argument string) error {
			if verb != "RNTO" {
				return nil
			}
			if n++; n == 1 || n == 3 {
				return errors.New("not today")
			}
			return nil
		}})
		r.Put("f", []byte("old"))
		r.PutLocal("f", steprig.Content(1000))
		_, err := r.Run(t.Context(), "ftp.upload", object{"local_path": "f", "remote_path": "f"})
		steprig.WantError(t, err, false, "renaming the complete file", "not today")
		if r.Get("f") != "old" {
			t.Errorf("the file that was there before is %q", r.Get("f"))
		}
		steprig.WantTree(t, r.Remote, "f")
	})
}

// TestLiars confirm what they have not done.
func TestLiars(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(*ftpserver.Conn, string, string) bool
		want   string
	}{
		"drops content": {sends("STOR", func(conn net.Conn) error { _, err := io.Copy(io.Discard, conn); return err }), "the size of what was written"},
		"keeps a part": {func(c *ftpserver.Conn, verb, argument string) bool {
			if verb == "MLST" && strings.Contains(argument, ".courier-tmp-") {
				c.Reply("250-", " type=file;size=999; x", "250 ")
				return true
			}
			return false
		}, "has 999 bytes of 1000"},
		"does not rename": {says("RNTO", "250 renamed\r\n"), "it is still called"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, ftpserver.Options{Answer: tt.answer})
				r.Put("f", []byte("old"))
				r.PutLocal("f", steprig.Content(1000))
				_, err := r.Run(t.Context(), "ftp.upload", object{"local_path": "f", "remote_path": "f"})
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error is %v, want %q", err, tt.want)
				}
				if r.Get("f") != "old" {
					t.Error("the file was replaced")
				}
			})
		})
	}
}

// A tapped connection notes down what goes over the wire.
type tapped struct {
	net.Conn
	wire *wire
}

type wire struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *wire) note(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
}

func (c tapped) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.wire.note(p[:n])
	return n, err
}

func (c tapped) Write(p []byte) (int, error) {
	c.wire.note(p)
	return c.Conn.Write(p)
}

// TestNothingInTheClear listens at the connections for commands and for content:
// with TLS neither names nor content can be read there.
func TestNothingInTheClear(t *testing.T) {
	for name, opt := range map[string]ftpserver.Options{
		"explicit": {TLS: tlsConfig, RequireReuse: true}, "implicit": {TLS: tlsConfig, Implicit: true, RequireReuse: true}, "none": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, w := newRig(t, opt), new(wire)
				dial := r.conn.Dial
				r.conn.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					c, err := dial(ctx, network, addr)
					return tapped{c, w}, err
				}
				r.Put("dir/plain-name", []byte(strings.Repeat("plain-content ", 1000)))
				r.Must(r.Run(t.Context(), "ftp.list", object{"remote_path": "dir"}))
				r.Must(r.Run(t.Context(), "ftp.download", object{"remote_path": "dir/plain-name", "local_path": "f"}))
				r.Must(r.Run(t.Context(), "ftp.upload", object{"local_path": "f", "remote_path": "dir/plain-copy"}))
				w.mu.Lock()
				defer w.mu.Unlock()
				text := w.text.String()
				for _, secret := range []string{"plain-name", "plain-content", "plain-copy", steprig.Password} {
					if strings.Contains(text, secret) != (name == "none") {
						t.Errorf("%q is on the wire: %v", secret, name != "none")
					}
				}
			})
		})
	}
}
