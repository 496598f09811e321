package sftp_test

import (
	"context"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/internal/test/sshdtest"
	"github.com/courierhq/courier/internal/test/steprig"
	"github.com/courierhq/courier/steps/sftp"
)

// certificate returns the certificate of a public key, signed by ca.
func certificate(t *testing.T, ca ssh.Signer, key ssh.PublicKey, typ uint32, principals ...string) string {
	t.Helper()
	c := &ssh.Certificate{Key: key, CertType: typ, KeyId: "ada", ValidPrincipals: principals, ValidBefore: ssh.CertTimeInfinity}
	if err := c.SignCert(rand.Reader, ca); err != nil {
		t.Fatal(err)
	}
	return string(ssh.MarshalAuthorizedKey(c))
}

func publicOf(t *testing.T, key []byte) ssh.PublicKey {
	t.Helper()
	s, err := ssh.ParsePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s.PublicKey()
}

// TestCertificate logs in with a certificate, on the real server.
func TestCertificate(t *testing.T) {
	r, s := newOpenSSH(t)
	ca, key := newSigner(t), mustPEM(t)
	line := "cert-authority " + string(ssh.MarshalAuthorizedKey(ca.PublicKey()))
	if err := os.WriteFile(filepath.Join(filepath.Dir(s.Dir), "authorized_keys"), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	r.conn.PrivateKey = string(key)
	steprig.WantError(t, r.list(), true, "refuses the login")
	r.conn.Certificate = certificate(t, ca, publicOf(t, key), ssh.UserCert, s.User)
	if err := r.list(); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"nonsense": "certificate can't be read",
		string(ssh.MarshalAuthorizedKey(ca.PublicKey())):                    "certificate can't be read",
		certificate(t, ca, ca.PublicKey(), ssh.UserCert, s.User):            "belongs to another key",
		certificate(t, ca, publicOf(t, key), ssh.HostCert, s.User):          "one for hosts",
		certificate(t, newSigner(t), publicOf(t, key), ssh.UserCert, "ada"): "refuses the login",
	} {
		r.conn.Certificate = text
		steprig.WantError(t, r.list(), true, want)
	}
	r.conn.PrivateKey, r.conn.Password = "", "x"
	steprig.WantError(t, r.list(), true, "no private_key that it belongs to")
}

// TestAgent logs in with the keys of an agent, by its socket and otherwise.
func TestAgent(t *testing.T) {
	r, s := newOpenSSH(t)
	keys := agent.NewKeyring()
	add := func(text []byte) {
		key, err := ssh.ParseRawPrivateKey(text)
		if err == nil {
			err = keys.Add(agent.AddedKey{PrivateKey: key})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var open atomic.Int32
	t.Cleanup(func() { l.Close(); os.RemoveAll(dir) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Add(1)
			go func() { agent.ServeAgent(keys, c); c.Close(); open.Add(-1) }()
		}
	}()
	r.conn.PrivateKey, r.conn.AgentSocket = "", socket
	steprig.WantError(t, r.list(), false, "agent_socket: it holds no keys")
	add(mustPEM(t))
	steprig.WantError(t, r.list(), true, "refuses the login")
	add(s.ClientKey)
	if err := r.list(); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(5 * time.Second); open.Load() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the connection to the agent stays open")
		}
	}
	r.conn.AgentSocket = filepath.Join(dir, "none")
	steprig.WantError(t, r.list(), false, "agent_socket", "no such file")
	r.conn.AgentSocket, r.conn.Agent = "", func(context.Context) (agent.Agent, error) { return keys, nil }
	if err := r.list(); err != nil {
		t.Error(err)
	}
	r.conn.Agent = func(context.Context) (agent.Agent, error) { return nil, errors.New("locked") }
	steprig.WantError(t, r.list(), false, "agent: locked")
}

// TestPassphrase logs in with an encrypted key.
func TestPassphrase(t *testing.T) {
	r, s := newOpenSSH(t)
	raw, err := ssh.ParseRawPrivateKey(s.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(raw, "", []byte(steprig.Password))
	if err != nil {
		t.Fatal(err)
	}
	r.conn.PrivateKey = string(pem.EncodeToMemory(block))
	steprig.WantError(t, r.list(), true, "is encrypted, and passphrase is missing")
	r.conn.Passphrase = "wrong"
	steprig.WantError(t, r.list(), true, "can't be decrypted")
	r.conn.Passphrase = "secret:acme"
	if err := r.list(); err != nil {
		t.Error(err)
	}
}

// TestChallenge answers more than one question.
func TestChallenge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{Configure: func(c *ssh.ServerConfig) {
			c.KeyboardInteractiveCallback = func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
				got, err := ask("", "Two things", []string{"Password: ", "Code: "}, []bool{false, true})
				if err != nil || fmt.Sprint(got) != "["+steprig.Password+" 123456]" {
					return nil, errors.New("no")
				}
				return nil, nil
			}
		}, KeyboardInteractive: true})
		r.conn.Password = ""
		code := "123456"
		r.conn.Challenge = func(_ context.Context, instruction string, questions []string, echoed []bool) ([]string, error) {
			if instruction != "Two things" || fmt.Sprint(questions, echoed) != "[Password:  Code: ] [false true]" {
				t.Errorf("asked %q %q %v", instruction, questions, echoed)
			}
			return []string{steprig.Password, code}, nil
		}
		if err := r.list(); err != nil {
			t.Error(err)
		}
		code = "0"
		steprig.WantError(t, r.list(), true, "refuses the login")
	})
}

// A memoryStore is a HostKeyStore.
type memoryStore struct {
	keys map[string][]string
	err  error
}

func (m *memoryStore) HostKeys(_ context.Context, addr string) ([]string, error) {
	return m.keys[addr], m.err
}

func (m *memoryStore) TrustHostKey(_ context.Context, addr, key string) error {
	m.keys[addr] = append(m.keys[addr], key)
	return m.err
}

// TestTrustOnFirstUse trusts the first key, and then no other.
func TestTrustOnFirstUse(t *testing.T) {
	file := &sftp.HostKeyFile{Path: filepath.Join(t.TempDir(), "known_hosts")}
	memory := &memoryStore{keys: map[string][]string{}}
	for name, store := range map[string]sftp.HostKeyStore{"file": file, "memory": memory} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, sftpserver.Options{})
				r.conn.HostKeys, r.conn.TrustOnFirstUse = nil, store
				good := r.conn.Password
				r.conn.Password = "wrong"
				steprig.WantError(t, r.list(), true, "refuses the login")
				addr := "files.example.com:22"
				if keys, _ := store.HostKeys(t.Context(), addr); len(keys) != 0 {
					t.Error("a key was kept before the login had succeeded")
				}
				r.conn.Password = good
				for range 2 {
					if err := r.list(); err != nil {
						t.Fatal(err)
					}
				}
				if n := strings.Count(r.Log.String(), "trusted because it is the first"); n != 1 {
					t.Errorf("%d warnings, want one for the first use", n)
				}
				keys, err := store.HostKeys(t.Context(), addr)
				if err != nil || len(keys) != 1 || !strings.HasPrefix(keys[0], "ssh-ed25519 ") {
					t.Errorf("kept %q, %v", keys, err)
				}
				// Another server under the name gets nothing.
				other := newRig(t, sftpserver.Options{})
				other.conn.HostKeys, other.conn.TrustOnFirstUse = nil, store
				steprig.WantError(t, other.list(), true, "has changed", "no credentials were sent")
				// A pinned key is stronger than the store.
				other.conn.HostKeys = []string{ssh.FingerprintSHA256(other.HostKey())}
				if err := other.list(); err != nil {
					t.Error(err)
				}
				if err := store.TrustHostKey(t.Context(), addr, string(ssh.MarshalAuthorizedKey(other.HostKey()))); name == "file" && err == nil {
					t.Error("the file took a second key")
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.conn.HostKeys, r.conn.TrustOnFirstUse = nil, &memoryStore{map[string][]string{}, errors.New("disk full")}
		steprig.WantError(t, r.list(), false, "trusted host keys: disk full")
	})
}

// jumps returns a rig whose server is reached through another one.
func jumps(t *testing.T) (*rig, *sshdtest.Server, map[string]sftp.Connection) {
	r, _ := newOpenSSH(t)
	bastion := sshdtest.Start(t)
	host, port, _ := net.SplitHostPort(bastion.Addr)
	in := sftp.Connection{Host: host, Username: bastion.User, PrivateKey: string(bastion.ClientKey), HostKeys: []string{ssh.FingerprintSHA256(bastion.HostKey)}}
	fmt.Sscan(port, &in.Port)
	all := map[string]sftp.Connection{"bastion": in}
	r.conn.Jump = "bastion"
	all[steprig.Partner] = r.conn
	r.Registry = courier.Registry{}
	sftp.Register(&r.Registry, sftp.Map(all))
	return r, bastion, all
}

// TestJump moves files through a server in between.
func TestJump(t *testing.T) {
	r, bastion, all := jumps(t)
	r.PutLocal("x", steprig.Content(3<<20))
	r.Must(r.Run(t.Context(), "sftp.upload", object{"local_path": "x", "remote_path": "x"}))
	r.Must(r.Run(t.Context(), "sftp.download", object{"remote_path": "x", "local_path": "y"}))
	if r.GetLocal("y") != string(steprig.Content(3<<20)) {
		t.Error("the content differs")
	}
	bastion.Cut()
	if _, err := r.Run(t.Context(), "sftp.list", nil); err != nil { // it may learn of the end only now
		steprig.WantError(t, err, false, "connection is lost")
		r.Must(r.Run(t.Context(), "sftp.list", nil))
	}

	fresh := func() { r.Resources.Close(); r.Resources = &courier.Resources{} }
	change := func(id string, f func(c *sftp.Connection)) func() {
		old := all[id]
		c := old
		f(&c)
		all[id] = c
		fresh()
		return func() { all[id] = old; fresh() }
	}
	list := func() error { _, err := r.Run(t.Context(), "sftp.list", nil); return err }
	undo := change("bastion", func(c *sftp.Connection) { c.HostKeys = []string{ssh.FingerprintSHA256(newSigner(t).PublicKey())} })
	steprig.WantError(t, list(), true, `connection "bastion"`, "has changed")
	undo()
	undo = change(steprig.Partner, func(c *sftp.Connection) { c.HostKeys = []string{ssh.FingerprintSHA256(newSigner(t).PublicKey())} })
	steprig.WantError(t, list(), true, `connection "partner"`, "has changed")
	undo()
	undo = change(steprig.Partner, func(c *sftp.Connection) { c.Port = 1 })
	steprig.WantError(t, list(), false, `connection "bastion"`, "jump to 127.0.0.1:1", "doesn't connect")
	undo()
	undo = change("bastion", func(c *sftp.Connection) { c.Jump = steprig.Partner })
	steprig.WantError(t, list(), true, "lead in a circle")
	undo()
	undo = change(steprig.Partner, func(c *sftp.Connection) { c.Jump = "none" })
	steprig.WantError(t, list(), true, `jump: connection "none"`, "no such connection")
	undo()
	if err := list(); err != nil {
		t.Error(err)
	}
}

// A mute connection swallows everything once it is silent.
type mute struct {
	net.Conn
	silent *atomic.Bool
	closed chan struct{}
}

func (m *mute) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if m.silent.Load() {
		<-m.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (m *mute) Write(p []byte) (int, error) {
	if m.silent.Load() {
		return len(p), nil
	}
	return m.Conn.Write(p)
}

func (m *mute) Close() error {
	select {
	case <-m.closed:
	default:
		close(m.closed)
	}
	return m.Conn.Close()
}

// TestJumpSilent has the line to the server in between fall silent: that is
// noticed although only the outer connection is kept alive.
func TestJumpSilent(t *testing.T) {
	r, _, all := jumps(t)
	var silent atomic.Bool
	in, out := all["bastion"], all[steprig.Partner]
	in.KeepAlive = new(time.Duration(0))
	in.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &mute{c, &silent, make(chan struct{})}, err
	}
	out.KeepAlive = new(200 * time.Millisecond)
	all["bastion"], all[steprig.Partner] = in, out
	r.Put("x", steprig.Content(64<<20))
	r.OnProgress = func(p courier.Progress) { silent.Store(true) }
	steprig.Within(t, 20*time.Second, func() {
		_, err := r.Run(t.Context(), "sftp.download", object{"remote_path": "x", "local_path": "y", "resume": false})
		steprig.WantError(t, err, false, "connection is lost")
	})
	silent.Store(false)
	r.OnProgress = nil
	r.Must(r.Retry(t.Context(), "sftp.download", object{"remote_path": "x", "local_path": "y"}))
}

// TestValidateReports checks what an operator gets to know who tests a
// connection.
func TestValidateReports(t *testing.T) {
	r, s := newOpenSSH(t)
	if err := r.Validate(t.Context(), "sftp.list", nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"the connection works", "SSH-2.0-OpenSSH", ssh.FingerprintSHA256(s.HostKey), "key_exchange=", "cipher=", "round_trip="} {
		if !strings.Contains(r.Log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, r.Log.String())
		}
	}
}
