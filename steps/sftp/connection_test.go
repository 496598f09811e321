package sftp_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/internal/test/steprig"
	"github.com/courierhq/courier/steps/sftp"
)

// again forgets the connections that are open, so that the next step connects.
func (r *rig) again() {
	r.Resources.Close()
	r.Resources = &courier.Resources{}
}

// list connects anew and lists the login directory.
func (r *rig) list() error {
	r.T.Helper()
	r.again()
	_, err := r.Run(r.T.Context(), "sftp.list", nil)
	return err
}

// TestHostKeyTypes pins each of the keys of a server that has several. The key
// that is presented depends on what is asked for.
func TestHostKeyTypes(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecdsaKey, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	var keys []ssh.Signer
	for _, k := range []any{rsaKey, ecdsaKey, edKey} {
		s, err := ssh.NewSignerFromKey(k)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, s)
	}
	other := newSigner(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{HostKeys: keys})
		file := filepath.Join(t.TempDir(), "known_hosts")
		for _, k := range keys {
			for name, set := range map[string]func(){
				"fingerprint": func() { r.conn.HostKeys = []string{ssh.FingerprintSHA256(k.PublicKey())} },
				"padded":      func() { r.conn.HostKeys = []string{" " + ssh.FingerprintSHA256(k.PublicKey()) + "= "} },
				"public key":  func() { r.conn.HostKeys = []string{string(ssh.MarshalAuthorizedKey(k.PublicKey()))} },
				"known_hosts": func() {
					r.conn.HostKeys, r.conn.KnownHosts = nil, file
					steprig.Write(t, filepath.Dir(file), "known_hosts", []byte(knownhosts.Line([]string{"files.example.com"}, k.PublicKey())+"\n"))
				},
			} {
				r.conn.HostKeys, r.conn.KnownHosts = nil, ""
				set()
				if err := r.list(); err != nil {
					t.Errorf("%s of %s: %v", name, k.PublicKey().Type(), err)
				}
			}
		}
		// The wrong key: all that the server has are shown.
		r.conn.HostKeys, r.conn.KnownHosts = []string{ssh.FingerprintSHA256(other.PublicKey())}, ""
		logins := r.Count("login")
		err := r.list()
		steprig.WantError(t, err, true, "has changed, or another server is at this address: expected "+ssh.FingerprintSHA256(other.PublicKey())+", but it presents ",
			"; ask the server's operator, by another way, for the new key and the address, which may be a retired one; only if both agree, replace the entry in the connection's host_keys", "no credentials were sent")
		if strings.Contains(err.Error(), "(ssh-") {
			t.Errorf("keys are told with their types: %v", err)
		}
		if courier.ClassOf(err) != courier.ReasonLogin || errors.Is(err, courier.ErrLogin) {
			t.Errorf("it is of the class %q, and like refused credentials: %v", courier.ClassOf(err), errors.Is(err, courier.ErrLogin))
		}
		for _, k := range keys {
			steprig.WantError(t, err, true, ssh.FingerprintSHA256(k.PublicKey()))
		}
		// A key of a type that the server doesn't have.
		only := newRig(t, sftpserver.Options{HostKeys: keys[:1]})
		only.conn.HostKeys = []string{string(ssh.MarshalAuthorizedKey(keys[2].PublicKey()))}
		steprig.WantError(t, only.list(), true, "has changed", ssh.FingerprintSHA256(keys[0].PublicKey()), ssh.FingerprintSHA256(keys[2].PublicKey()))
		// Revocation counts more than a pin.
		steprig.Write(t, filepath.Dir(file), "known_hosts", []byte("@revoked * "+string(ssh.MarshalAuthorizedKey(keys[2].PublicKey()))))
		r.conn.HostKeys, r.conn.KnownHosts = []string{ssh.FingerprintSHA256(keys[2].PublicKey())}, file
		steprig.WantError(t, r.list(), true, "revoked", ssh.FingerprintSHA256(keys[2].PublicKey()))
		r.conn.HostKeys, r.conn.InsecureIgnoreHostKey = nil, true
		steprig.WantError(t, r.list(), true, "revoked")
		// A key for another host.
		steprig.Write(t, filepath.Dir(file), "known_hosts", []byte(knownhosts.Line([]string{"other.example.com"}, keys[2].PublicKey())+"\n"))
		r.conn.InsecureIgnoreHostKey = false
		steprig.WantError(t, r.list(), true, "is not in "+file)
		if r.Count("login") != logins {
			t.Error("credentials were sent to a server that is not the right one")
		}
	})
}

// TestHostCertificate trusts the authority that has signed a server's key.
func TestHostCertificate(t *testing.T) {
	authority, key := newSigner(t), newSigner(t)
	synctest.Test(t, func(t *testing.T) {
		cert := &ssh.Certificate{Key: key.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: []string{"files.example.com"}, ValidBefore: ssh.CertTimeInfinity}
		if err := cert.SignCert(rand.Reader, authority); err != nil {
			t.Fatal(err)
		}
		signer, err := ssh.NewCertSigner(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, sftpserver.Options{HostKeys: []ssh.Signer{signer}})
		file := filepath.Join(t.TempDir(), "known_hosts")
		r.conn.HostKeys, r.conn.KnownHosts = nil, file
		line := func(k ssh.PublicKey) []byte {
			return []byte("@cert-authority *.example.com " + string(ssh.MarshalAuthorizedKey(k)))
		}
		steprig.Write(t, filepath.Dir(file), "known_hosts", line(authority.PublicKey()))
		if err := r.list(); err != nil {
			t.Error(err)
		}
		steprig.Write(t, filepath.Dir(file), "known_hosts", line(key.PublicKey()))
		steprig.WantError(t, r.list(), true, "certified by "+ssh.FingerprintSHA256(key.PublicKey()))
	})
}

func TestInsecureIgnoreHostKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.conn.HostKeys, r.conn.InsecureIgnoreHostKey = nil, true
		if err := r.list(); err != nil {
			t.Fatal(err)
		}
		r.Must(r.Run(t.Context(), "sftp.list", nil))
		if n := strings.Count(r.Log.String(), "insecure_ignore_host_key"); n != 2 || !strings.Contains(r.Log.String(), "level=WARN") {
			t.Errorf("%d warnings for 2 uses:\n%s", n, r.Log.String())
		}
		if strings.Contains(r.Log.String(), steprig.Password) {
			t.Error("the log contains the password")
		}
	})
}

// TestLogin logs in in every way.
func TestLogin(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte("sesame"))
	if err != nil {
		t.Fatal(err)
	}
	text := func(b *pem.Block) string { return string(pem.EncodeToMemory(b)) }
	users := map[string]string{steprig.User: steprig.Password}
	keys := []ssh.PublicKey{signer.PublicKey()}
	both := func(c *ssh.ServerConfig) { // the key first, then the password
		c.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
			return nil, &ssh.PartialSuccessError{Next: ssh.ServerAuthCallbacks{PasswordCallback: func(_ ssh.ConnMetadata, p []byte) (*ssh.Permissions, error) {
				if string(p) != steprig.Password {
					return nil, errors.New("wrong")
				}
				return nil, nil
			}}}
		}
	}
	for name, test := range map[string]struct {
		opt   sftpserver.Options
		conn  sftp.Connection
		texts []string // of the error; nil means success
	}{
		"password":             {opt: sftpserver.Options{Users: users}, conn: sftp.Connection{Password: steprig.Password}},
		"keyboard-interactive": {opt: sftpserver.Options{Users: users, KeyboardInteractive: true}, conn: sftp.Connection{Password: steprig.Password}},
		"key":                  {opt: sftpserver.Options{AuthorizedKeys: keys}, conn: sftp.Connection{PrivateKey: text(plain)}},
		"sealed key":           {opt: sftpserver.Options{AuthorizedKeys: keys}, conn: sftp.Connection{PrivateKey: text(sealed), Passphrase: "sesame"}},
		"key and password":     {opt: sftpserver.Options{Users: users, AuthorizedKeys: keys}, conn: sftp.Connection{PrivateKey: text(plain), Password: "wrong"}},
		"wrong key, password":  {opt: sftpserver.Options{Users: users, AuthorizedKeys: keys}, conn: sftp.Connection{PrivateKey: string(mustPEM(t)), Password: steprig.Password}},
		"two factors":          {opt: sftpserver.Options{Configure: both}, conn: sftp.Connection{PrivateKey: text(plain), Password: steprig.Password}},
		"secret":               {opt: sftpserver.Options{Users: users}, conn: sftp.Connection{Password: "secret:acme"}},
		"wrong password":       {sftpserver.Options{Users: users}, sftp.Connection{Password: "wrong"}, []string{`refuses the login of user "ada"`, "check username, password"}},
		"wrong answer":         {sftpserver.Options{Users: users, KeyboardInteractive: true}, sftp.Connection{Password: "wrong"}, []string{"refuses the login"}},
		"literal":              {sftpserver.Options{Users: users}, sftp.Connection{Password: "$secret:acme"}, []string{"refuses the login"}},
		"wrong key":            {sftpserver.Options{AuthorizedKeys: keys}, sftp.Connection{PrivateKey: string(mustPEM(t))}, []string{"refuses the login"}},
		"no passphrase":        {sftpserver.Options{AuthorizedKeys: keys}, sftp.Connection{PrivateKey: text(sealed)}, []string{"encrypted", "passphrase is missing"}},
		"wrong passphrase":     {sftpserver.Options{AuthorizedKeys: keys}, sftp.Connection{PrivateKey: text(sealed), Passphrase: "open"}, []string{"can't be decrypted"}},
		"no key":               {sftpserver.Options{AuthorizedKeys: keys}, sftp.Connection{PrivateKey: "garbage"}, []string{"can't be read", "PEM"}},
		"one of two factors":   {sftpserver.Options{Configure: both}, sftp.Connection{PrivateKey: text(plain)}, []string{"refuses the login"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, test.opt)
				r.conn.Password, r.conn.PrivateKey, r.conn.Passphrase = test.conn.Password, test.conn.PrivateKey, test.conn.Passphrase
				err := r.list()
				if test.texts == nil && err != nil {
					t.Error(err)
				} else if test.texts != nil {
					steprig.WantError(t, err, true, append(test.texts, `connection "partner" (files.example.com:22): connect`)...)
					if strings.Contains(err.Error(), "ssh:") {
						t.Errorf("%v: these are words of the library", err)
					}
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.conn.Password = "secret:other"
		steprig.WantError(t, r.list(), false, "password: no such secret")
	})
}

// TestQuestions has a server ask for more than a password; it doesn't get it.
func TestQuestions(t *testing.T) {
	asked := []string{}
	ask := func(questions []string, echos []bool) func(*ssh.ServerConfig) {
		return func(c *ssh.ServerConfig) {
			c.KeyboardInteractiveCallback = func(_ ssh.ConnMetadata, challenge ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
				answers, err := challenge("welcome", "", questions, echos)
				asked = append(asked, answers...)
				if err == nil {
					_, err = challenge("", "", []string{"Again: "}, []bool{false})
				}
				return nil, err
			}
		}
	}
	for name, test := range map[string]struct {
		questions []string
		echos     []bool
		answers   int
	}{
		"visible": {[]string{"Your name: "}, []bool{true}, 0},
		"two":     {[]string{"Password: ", "Code: "}, []bool{false, false}, 0},
		"twice":   {[]string{"Password: "}, []bool{false}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked = nil
				r := newRig(t, sftpserver.Options{Users: map[string]string{}, Configure: ask(test.questions, test.echos)})
				steprig.WantError(t, r.list(), true, "asks for more than a password")
				r.Server.Close()
				if len(asked) != test.answers {
					t.Errorf("the server got %d answers, want %d", len(asked), test.answers)
				}
			})
		})
	}
}

// TestServerRefuses connects to servers that are not willing.
func TestServerRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		opt       sftpserver.Options
		permanent bool
		texts     []string
	}{
		"no sessions":  {sftpserver.Options{Fault: failing("session", "", errBroken)}, false, []string{"refuses a session", `\x1b`}},
		"no subsystem": {sftpserver.Options{Fault: failing("sftp", "", errBroken)}, true, []string{"may not use SFTP"}},
		"old kex": {sftpserver.Options{Configure: func(c *ssh.ServerConfig) { c.KeyExchanges = []string{ssh.InsecureKeyExchangeDH14SHA1} }},
			true, []string{"key exchange", "diffie-hellman-group14-sha1", "considered weak", "algorithms"}},
		"old cipher": {sftpserver.Options{Configure: func(c *ssh.ServerConfig) { c.Ciphers = []string{ssh.InsecureCipherAES128CBC} }},
			true, []string{"cipher", "aes128-cbc"}},
		"banner": {sftpserver.Options{Configure: func(c *ssh.ServerConfig) {
			c.BannerCallback = func(ssh.ConnMetadata) string { return strings.Repeat("\x1b[2J\r\n", 1000) }
			c.PasswordCallback = func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) {
				return nil, &ssh.BannerError{Err: errBroken, Message: "\x1b[2J"}
			}
		}}, true, []string{"refuses the login"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, test.opt)
				steprig.WantError(t, r.list(), test.permanent, test.texts...)
			})
		})
	}
}

func TestDialErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.net.SetLink(func(int) memnet.Link { return memnet.Link{Refuse: syscall.ECONNREFUSED} })
		steprig.WantError(t, r.list(), false, "connection refused", "files.example.com:22")
		r.conn.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errBroken }
		steprig.WantError(t, r.list(), false, "out of", "connect")
	})
}

// TestInsecureAlgorithms names old algorithms, which then work and are
// warned of.
func TestInsecureAlgorithms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{Configure: func(c *ssh.ServerConfig) {
			c.KeyExchanges = []string{ssh.InsecureKeyExchangeDH14SHA1}
			c.Ciphers = []string{ssh.InsecureCipherAES128CBC}
		}})
		r.conn.Algorithms = sftp.Algorithms{KeyExchanges: []string{ssh.InsecureKeyExchangeDH14SHA1}, Ciphers: []string{ssh.InsecureCipherAES128CBC}}
		if err := r.list(); err != nil {
			t.Fatal(err)
		}
		if log := r.Log.String(); !strings.Contains(log, "considered weak") || !strings.Contains(log, "aes128-cbc") {
			t.Errorf("no warning:\n%s", log)
		}
		r.conn.Algorithms = sftp.Algorithms{Ciphers: []string{"aes256-crt"}}
		steprig.WantError(t, r.list(), true, "algorithms.ciphers", `did you mean "aes256-ctr"?`)
	})
}

// TestTarpit connects to servers that fall silent at some point of the
// handshake.
func TestTarpit(t *testing.T) {
	after := []int64{0, 1, 10, 30, 100, 500, 900, 1200, 1500, 1800, 2000, 2200, 2400, 2600, 2800, 3000}
	for _, n := range after {
		for _, up := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, sftpserver.Options{})
				r.net.SetLink(func(int) memnet.Link {
					if up {
						return memnet.Link{Up: memnet.Flow{StallAfter: &n}}
					}
					return memnet.Link{Down: memnet.Flow{StallAfter: &n}}
				})
				r.conn.ConnectTimeout = 10 * time.Second
				var err error
				steprig.Within(t, 70*time.Second, func() { err = r.list() })
				switch {
				case err == nil && n < 2400:
					t.Errorf("no error after %d bytes", n)
				case err != nil && strings.Contains(err.Error(), ": connect: ") && !strings.Contains(err.Error(), "not ready in time, which is 10s"):
					t.Errorf("after %d bytes: %v", n, err)
				}
			})
		}
	}
	// A server that accepts and says nothing, one that speaks another
	// protocol, and one that goes on talking.
	for name, talk := range map[string]func(net.Conn){
		"silent": func(net.Conn) {},
		"http":   func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n\x1b[2J") },
		"endless": func(c net.Conn) {
			for {
				if _, err := c.Write([]byte(strings.Repeat("x", 100))); err != nil {
					return
				}
			}
		},
		"slow": func(c net.Conn) {
			for _, b := range []byte("SSH-2.0-tarpit" + strings.Repeat("x", 1000)) {
				time.Sleep(time.Second)
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, sftpserver.Options{})
				done := make(chan bool)
				r.conn.Dial = func(context.Context, string, string) (net.Conn, error) {
					near, far := memnet.Pipe(memnet.Link{})
					go func() {
						defer close(done)
						talk(far)
						io.Copy(io.Discard, far)
						far.Close()
					}()
					return near, nil
				}
				steprig.Within(t, 30*time.Second, func() { steprig.WantError(t, r.list(), false, "connect: ") })
				<-done
			})
		})
	}
}

// All mistakes of all connections come at once, each with its line. What Go code sets may
// complete a connection.
func TestReadConnectionsFindsAll(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "connections.json")
	steprig.Write(t, dir, "damaged", []byte("h ssh-ed25519 AAAA\n"))
	key := string(ssh.MarshalAuthorizedKey(newSigner(t).PublicKey()))
	steprig.Write(t, dir, "others", []byte("other "+key+"@revoked [h]:2222 "+key))
	steprig.Write(t, dir, "connections.json", []byte(`{
  "plain": {"host": "h", "username": "x", "host_keys": ["SHA256:uNiVztksCsDhcc0u9e8BrlzmJOh1eeRWzVjKyZ7ZI0I"],
    "password": "hunter2-one",
    "private_key": "hunter2-two",
    "passphrase": "$secret:hunter2"},
  "nameless": {"host": "h", "username": "x", "password": "secret:p"},
  "missing": {"host": "h", "username": "x", "password": "secret:p",

    "known_hosts": "`+filepath.ToSlash(filepath.Join(dir, "none"))+`"},
  "damaged": {"host": "h", "username": "x", "password": "secret:p", "known_hosts": "`+filepath.ToSlash(filepath.Join(dir, "damaged"))+`"},
  "many": {"port": 70000, "channels": 99, "jump": "naemless",
    "connect_timeout_seconds": -1, "algorithms": {"ciphers": ["x"]},
    "host_keys": ["SHA256:short"]},
  "misspelt": {"hots": "h", "usrname": "x"},
  "insecure": {"host": "h", "username": "x", "password": "secret:p", "insecure_ignore_host_key": true},
  "asks": {"host": "h", "username": "x", "host_keys": ["SHA256:uNiVztksCsDhcc0u9e8BrlzmJOh1eeRWzVjKyZ7ZI0I"]},
  "stranger": {"host": "h", "port": 2222, "username": "x", "password": "secret:p",
    "known_hosts": "`+filepath.ToSlash(filepath.Join(dir, "others"))+`"},
  "here": {"host": "h", "username": "x", "password": "secret:p", "insecure_ignore_host_key": true,
    "jump": "there"},
  "there": {"host": "h", "username": "x", "password": "secret:p", "insecure_ignore_host_key": true,
    "jump": "here"},
  "known": {"host": "other", "username": "x", "password": "secret:p", "known_hosts": "`+filepath.ToSlash(filepath.Join(dir, "others"))+`"}
}`))
	want := []string{
		`line 3: connection "plain": password: the credential itself stands in the file`, `line 4: connection "plain": private_key: the credential`,
		`line 5: connection "plain": passphrase: the credential`, `line 6: connection "nameless": host_keys and known_hosts are both missing`,
		`line 9: connection "missing": known_hosts: `, `line 10: connection "damaged": known_hosts: `,
		`line 11: connection "many": host is missing`, `line 11: connection "many": port 70000`, `line 11: connection "many": username is missing`,
		`line 11: connection "many": password and private_key are both missing`, `line 11: connection "many": channels: 99`,
		`line 12: connection "many": connect_timeout_seconds is negative`, `line 12: connection "many": algorithms.ciphers: unknown algorithm "x"`,
		`line 13: connection "many": host_keys[0]`, `line 11: connection "many": jump: no connection "naemless"; did you mean "nameless"?`,
		`line 14: connection "misspelt": unknown field "hots"; did you mean "host"?`, `line 14: connection "misspelt": unknown field "usrname"; did you mean "username"?`,
		`line 16: connection "asks": password and private_key are both missing`,
		`line 18: connection "stranger": known_hosts: ` + strconv.Quote(filepath.Join(dir, "others")) + ` has no key for h:2222, so the server can't prove who it is`,
		`line 20: connection "here": jump: the connections here, there, here lead in a circle`, `line 22: connection "there": jump: the connections there, here, there lead`,
	}
	for _, read := range []func() error{
		func() error { _, err := sftp.ReadConnections(file); return err },
		func() error { _, err := sftp.OpenConnections(file, nil); return err },
	} {
		err := read()
		if err == nil || strings.Count(err.Error(), ": connection ") != len(want) || strings.Contains(err.Error(), "hunter2") {
			t.Fatalf("%d mistakes, not %d: %v", strings.Count(fmt.Sprint(err), ": connection "), len(want), err)
		}
		for _, text := range want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("no %q in\n%v", text, err)
			}
		}
	}
	steprig.Write(t, dir, "connections.json", []byte("{\n\"a\": {\n]"))
	if _, err := sftp.ReadConnections(file); err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("a file that is no JSON: %v", err)
	}
	steprig.Write(t, dir, "connections.json", []byte(`{"a": {"host": "h", "username": "x"}}`))
	m, err := sftp.ReadConnections(file, func(id string, c *sftp.Connection) {
		c.Password, c.TrustOnFirstUse = "of "+id, &sftp.HostKeyFile{Path: filepath.Join(dir, "trusted")}
	})
	if err != nil || m["a"].Password != "of a" {
		t.Errorf("with what Go code sets: %v", err)
	}
}

func TestReadConnections(t *testing.T) {
	dir := t.TempDir()
	parse := func(text string) (sftp.Map, error) {
		steprig.Write(t, dir, "connections.json", []byte(text))
		return sftp.ReadConnections(filepath.Join(dir, "connections.json"))
	}
	known := filepath.Join(dir, "known")
	steprig.Write(t, dir, "known", nil)
	m, err := parse(`{"acme": {"host": "files.example.com", "port": 2222, "username": "ada", "password": "secret:acme", "private_key": "secret:pem", "passphrase": "secret:sesame",
		"host_keys": ["SHA256:uNiVztksCsDhcc0u9e8BrlzmJOh1eeRWzVjKyZ7ZI0I"], "known_hosts": "` + known + `", "insecure_ignore_host_key": true,
		"connect_timeout_seconds": 1.5, "keep_alive_seconds": 0, "operation_timeout_seconds": 60, "algorithms": {"macs": ["hmac-sha2-256"]}},
		"bare": {"host": "::1", "username": "x", "password": "secret:y", "insecure_ignore_host_key": true},
		"inner": {"host": "h", "username": "x", "private_key": "secret:k", "host_keys": ["SHA256:uNiVztksCsDhcc0u9e8BrlzmJOh1eeRWzVjKyZ7ZI0I"], "certificate": "secret:cert", "agent_socket": "/run/agent", "jump": "bare"}}`)
	if err != nil {
		t.Fatal(err)
	}
	c, err := m.Connection(t.Context(), "acme")
	if err != nil || c.Host != "files.example.com" || c.Port != 2222 || c.Username != "ada" || c.Password != "secret:acme" || c.PrivateKey != "secret:pem" ||
		c.Passphrase != "secret:sesame" || len(c.HostKeys) != 1 || c.KnownHosts != known || !c.InsecureIgnoreHostKey || c.ConnectTimeout != 1500*time.Millisecond ||
		c.KeepAlive == nil || *c.KeepAlive != 0 || c.OperationTimeout != time.Minute || c.Algorithms.MACs[0] != "hmac-sha2-256" {
		t.Errorf("acme is %#v, %v", struct{ sftp.Connection }{c}, err)
	}
	if c, _ := m.Connection(t.Context(), "inner"); c.Certificate != "secret:cert" || c.AgentSocket != "/run/agent" || c.Jump != "bare" {
		t.Errorf("inner is %#v", struct{ sftp.Connection }{c})
	}
	if c, _ := m.Connection(t.Context(), "bare"); c.String() != "sftp://x@[::1]:22" {
		t.Errorf("bare = %s", c)
	}
	if _, err := m.Connection(t.Context(), "akme"); !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), `did you mean "acme"?`) {
		t.Errorf("akme: %v", err)
	}
	for text, want := range map[string]string{
		`[]`:       "must be a JSON object",
		`{"a": 1}`: `connection "a"`,
		`{"a": {"host": "h", "pasword": "hunter2"}}`:                                               `unknown field "pasword"; did you mean "password"?`,
		`{"a": {"algorithms": {"cipher": []}}}`:                                                    `did you mean "ciphers"?`,
		`{"a": {"port": "22"}}`:                                                                    "port: must be a number, not a JSON string",
		`{"a": {"username": "x", "password": "p"}}`:                                                "host is missing",
		`{"a": {"host": "user@h", "username": "x", "password": "p"}}`:                              "not the name or address",
		`{"a": {"host": "h", "password": "p"}}`:                                                    "username is missing",
		`{"a": {"host": "h", "username": "x"}}`:                                                    "password and private_key are both missing",
		`{"a": {"host": "h", "username": "x", "password": "p", "passphrase": "q"}}`:                "no private_key",
		`{"acme": {"host": "h", "username": "x", "password": "p", "jump": "acne"}}`:                `jump: no connection "acne"; did you mean "acme"?`,
		`{"a": {"host": "h", "username": "x", "password": "p", "port": 70000}}`:                    "out of range",
		`{"a": {"host": "h", "username": "x", "password": "p", "keep_alive_seconds": -1}}`:         "negative",
		`{"a": {"host": "h", "username": "x", "password": "p", "host_keys": ["MD5:aa"]}}`:          "host_keys[0]",
		`{"a": {"host": "h", "username": "x", "password": "p", "host_keys": ["SHA256:short"]}}`:    "43 characters",
		`{"a": {"host": "h", "username": "x", "password": "p", "algorithms": {"ciphers": ["x"]}}}`: "algorithms.ciphers",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	_, err = parse(`{"a": {"host": ""}, "b": {"username": "x"}}`)
	if err == nil || strings.Count(err.Error(), ": connection ") != 7 {
		t.Errorf("all that is wrong should be told at once: %v", err)
	}
	if _, err := sftp.ReadConnections(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// TestNoLeak formats a connection in every way that programs do by accident.
func TestNoLeak(t *testing.T) {
	c := sftp.Connection{Host: "h", Username: "ada", Password: "hunter2", PrivateKey: "hunter2", Passphrase: "hunter2"}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("using", "connection", c, "pointer", &c, "map", sftp.Map{"a": c})
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprint(c, &c, sftp.Map{"a": c}) + fmt.Sprintf("%v %+v %#v %s %q %d %x", c, c, c, c, c, c, c) + log.String() + string(text)
	if strings.Contains(all, "hunter2") || strings.Contains(all, "68756e74657232") {
		t.Errorf("a credential is shown: %s", all)
	}
	if !strings.Contains(fmt.Sprint(c), "sftp://ada@h:22") {
		t.Errorf("Sprint = %s", fmt.Sprint(c))
	}
}

func TestRegister(t *testing.T) {
	var r courier.Registry
	sftp.Register(&r, sftp.Map{})
	for _, key := range []string{"sftp.list", "sftp.download", "sftp.upload"} {
		typ, ok := r.Lookup(key)
		if !ok || typ.Timeout() != 0 || typ.Stall() != time.Minute || typ.Doc() == "" || !typ.Validates() {
			t.Errorf("%s is not as it should be", key)
		}
		for _, s := range []*courier.Schema{typ.Config(), typ.Output()} {
			for _, p := range s.Properties {
				if p.Doc == "" {
					t.Errorf("%s: %s has no documentation", key, p.Name)
				}
			}
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("Register accepts nil for connections")
		}
	}()
	sftp.Register(new(courier.Registry), nil)
}

func ExampleRegister() {
	var steps courier.Registry
	sftp.Register(&steps, sftp.Map{
		"acme": {
			Host:     "files.example.com",
			Username: "invoices",
			Password: "secret:acme", // resolved by the engine's Secrets
			HostKeys: []string{"SHA256:uNiVztksCsDhcc0u9e8BrlzmJOh1eeRWzVjKyZ7ZI0I"},
		},
	})
	fmt.Println(steps.Keys())
	// Output: [sftp.delete sftp.download sftp.list sftp.mkdir sftp.rename sftp.rmdir sftp.stat sftp.upload]
}
