package sftp_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/internal/test/sshdtest"
	"github.com/courierhq/courier/internal/test/steprig"
	"github.com/courierhq/courier/steps/sftp"
)

// hashedName is a name as HashKnownHosts writes it.
func hashedName(name string) string {
	h := hmac.New(sha1.New, []byte("12345678901234567890"))
	h.Write([]byte(name))
	return "|1|" + base64.StdEncoding.EncodeToString([]byte("12345678901234567890")) + "|" + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// A knownRow is a known_hosts file. In its text, K stands for the server's
// Ed25519 key, E for its ECDSA key, X for another one, A for the authority of
// its certificate, and O for another authority.
type knownRow struct {
	name, text string
	port       int  // 0 means 22
	stricter   bool // ssh overlooks a line of it, here it is refused
	alone      bool // ssh overlooks the name without the port, a store does not
}

var knownRows = []knownRow{
	{name: "empty", text: ""},
	{name: "the key", text: "files.example.com K"},
	{name: "two keys", text: "files.example.com X\nfiles.example.com K"},
	{name: "another key", text: "files.example.com X"},
	{name: "the other type", text: "files.example.com E"},
	{name: "comment and spaces", text: "# files.example.com X\n\n  files.example.com\t K  a comment\r\n"},
	{name: "several names", text: "other,files.example.com,10.0.0.1 K"},
	{name: "another name", text: "example.com K"},
	{name: "case", text: "FILES.Example.COM K"},
	{name: "wildcard", text: "*.example.com K"},
	{name: "question mark", text: "file?.example.com K"},
	{name: "class", text: "file[st].example.com K"},
	{name: "negated", text: "*.example.com,!files.example.com K"},
	{name: "negated first", text: "!files.example.com,*.example.com K"},
	{name: "negated alone", text: "!other.example.com K"},
	{name: "negation in one line of two", text: "*,!files.example.com K\nfiles.* K"},
	{name: "hashed", text: hashedName("files.example.com") + " K"},
	{name: "hashed, another", text: hashedName("x.example.com") + " K"},
	{name: "hashed among names", text: "a," + hashedName("files.example.com") + " K"},
	{name: "revoked", text: "files.example.com K\n@revoked files.example.com K"},
	{name: "revoked before", text: "@revoked * K\nfiles.example.com K"},
	{name: "revoked for another", text: "@revoked other K\nfiles.example.com K"},
	{name: "revoked, negated", text: "@revoked *,!files.example.com K\nfiles.example.com K"},
	{name: "revoked, hashed", text: "@revoked " + hashedName("files.example.com") + " K\nfiles.example.com K"},
	{name: "revoked only", text: "@revoked * K"},
	{name: "another revoked", text: "@revoked * X\nfiles.example.com K"},
	{name: "authority", text: "@cert-authority *.example.com A"},
	{name: "authority, another", text: "@cert-authority *.example.com O"},
	{name: "authority of another host", text: "@cert-authority *.example.org A"},
	{name: "authority revoked", text: "@cert-authority * A\n@revoked * A"},
	{name: "certified key revoked", text: "@cert-authority * A\n@revoked * K"},
	{name: "authority revoked, key known", text: "@revoked * A\nfiles.example.com K"},
	{name: "authority as the key", text: "files.example.com A"},
	{name: "key as the authority", text: "@cert-authority * K"},
	{name: "authority and the key", text: "@cert-authority * O\nfiles.example.com K"},
	{name: "port", text: "[files.example.com]:2222 K", port: 2222},
	{name: "port, name alone", text: "files.example.com K", port: 2222},
	{name: "port, another port", text: "[files.example.com]:22 K", port: 2222},
	{name: "port 22 in brackets", text: "[files.example.com]:22 K"},
	{name: "port with colon", text: "files.example.com:2222 K", port: 2222},
	{name: "port, star", text: "* K", port: 2222},
	{name: "port, pattern", text: "[*.example.com]:22* K", port: 2222},
	{name: "port, hashed", text: hashedName("[files.example.com]:2222") + " K", port: 2222},
	{name: "port, another key, name alone", text: "[files.example.com]:2222 X\nfiles.example.com K", port: 2222, alone: true},
	{name: "port, revoked for the name alone", text: "[files.example.com]:2222 K\n@revoked files.example.com K", port: 2222, alone: true},
	{name: "name alone, revoked for the port", text: "files.example.com K\n@revoked [files.example.com]:2222 K", port: 2222},
	{name: "port, authority", text: "@cert-authority [files.example.com]:2222 A", port: 2222},
	{name: "port, authority for the name alone", text: "@cert-authority files.example.com A", port: 2222},
	{name: "damaged, of another", text: "other ssh-ed25519 !!!\nfiles.example.com K"},
	{name: "damaged", text: "files.example.com ssh-ed25519 !!!\nfiles.example.com K", stricter: true},
	{name: "wrong type", text: "files.example.com ssh-rsa " + "K1\nfiles.example.com K", stricter: true},
	{name: "unknown marker", text: "@revoke files.example.com K\nfiles.example.com K", stricter: true},
	{name: "two markers", text: "@revoked @cert-authority * K\nfiles.example.com K", stricter: true},
	{name: "marker alone", text: "@revoked\nfiles.example.com K", stricter: false},
	{name: "marker glued", text: "@revokedfiles.example.com K\nfiles.example.com K", stricter: true},
}

// TestKnownHostsAsSSH compares, for a table of files, whether ssh and sftp.list
// trust the same server, by KnownHosts and by a HostKeyFile.
func TestKnownHostsAsSSH(t *testing.T) {
	s := sshdtest.Start(t)
	authority, other := newSigner(t), newSigner(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	ecdsaKey, err := ssh.NewPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	steprig.Write(t, s.Files(), "ecdsa", pem.EncodeToMemory(block))
	cert := &ssh.Certificate{Key: s.HostKey, CertType: ssh.HostCert, ValidPrincipals: []string{"files.example.com"}, ValidBefore: ssh.CertTimeInfinity}
	if err := cert.SignCert(rand.Reader, authority); err != nil {
		t.Fatal(err)
	}
	steprig.Write(t, s.Files(), "cert", ssh.MarshalAuthorizedKey(cert))
	ecdsaSigner, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	r := twin(t, s, cert, ecdsaSigner)
	s.Configure(t, "HostKey "+filepath.Join(s.Files(), "ecdsa"), "HostCertificate "+filepath.Join(s.Files(), "cert"))

	line := func(k ssh.PublicKey) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k))) }
	_, blob, _ := strings.Cut(line(s.HostKey), " ")
	fill := func(text string) string {
		var out []string
		for l := range strings.SplitSeq(text, "\n") {
			fields := strings.FieldsFunc(l, func(r rune) bool { return r == ' ' })
			for i, f := range fields {
				switch strings.Trim(f, "\t") {
				case "K":
					fields[i] = line(s.HostKey)
				case "K1":
					fields[i] = blob
				case "E":
					fields[i] = line(ecdsaKey)
				case "X":
					fields[i] = line(other.PublicKey())
				case "A":
					fields[i] = line(authority.PublicKey())
				case "O":
					fields[i] = line(other.PublicKey())
				}
			}
			out = append(out, strings.Join(fields, " "))
		}
		return strings.Join(out, "\n") + "\n"
	}
	for _, row := range knownRows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "known_hosts")
			steprig.Write(t, filepath.Dir(file), filepath.Base(file), []byte(fill(row.text)))
			want := sshTrusts(t, s, file, max(row.port, 22))
			conn := named(r.conn, row.port)
			byFile := conn
			byFile.KnownHosts = file
			if err := trusts(t, byFile); (err == nil) != (want && !row.stricter) {
				t.Errorf("ssh trusts the server: %v; known_hosts: %v", want, err)
			}
			if row.stricter && !want {
				t.Error("ssh does not trust the server, so nothing is stricter here")
			}
			// A store differs from ssh in one thing: a server that it does not
			// know is trusted, whatever is known for its name without the port.
			if !strings.Contains(row.text, "@") {
				return
			}
			byStore := conn
			byStore.TrustOnFirstUse = &sftp.HostKeyFile{Path: file}
			err := trusts(t, byStore)
			revoked := strings.Contains(row.text, markRevoked) && !want
			switch {
			case want && !row.stricter && !row.alone && err != nil, revoked && err == nil, row.stricter && err == nil:
				t.Errorf("ssh trusts the server: %v; HostKeyFile: %v", want, err)
			}
		})
	}
}

// twin returns a server in this process with the host keys of s, of which cert
// certifies one, and more. It costs less than s.
func twin(t *testing.T, s *sshdtest.Server, cert *ssh.Certificate, more ...ssh.Signer) *rig {
	key, err := ssh.ParsePrivateKey([]byte(steprig.Read(s.Files(), "host_key")))
	if err != nil {
		t.Fatal(err)
	}
	certified, err := ssh.NewCertSigner(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return newRig(t, sftpserver.Options{HostKeys: append([]ssh.Signer{certified, key}, more...)})
}

// named is a connection to the server under the name files.example.com, with
// credentials that it refuses.
func named(conn sftp.Connection, port int) sftp.Connection {
	conn.Host, conn.Port, conn.HostKeys, conn.Password = "files.example.com", port, nil, "none"
	return conn
}

// TestHostCertificateAsSSH compares which certificates of a known authority ssh
// and sftp.list take.
func TestHostCertificateAsSSH(t *testing.T) {
	s := sshdtest.Start(t)
	authority := newSigner(t)
	file := filepath.Join(s.Files(), "known_hosts")
	steprig.Write(t, s.Files(), "known_hosts", []byte("@cert-authority * "+string(ssh.MarshalAuthorizedKey(authority.PublicKey()))))
	now := uint64(time.Now().Unix())
	for name, cert := range map[string]*ssh.Certificate{
		"good":          {CertType: ssh.HostCert, ValidPrincipals: []string{"x", "files.example.com"}, ValidBefore: now + 1000},
		"any":           {CertType: ssh.HostCert, ValidBefore: ssh.CertTimeInfinity},
		"pattern":       {CertType: ssh.HostCert, ValidPrincipals: []string{"*.example.com"}, ValidBefore: ssh.CertTimeInfinity},
		"another host":  {CertType: ssh.HostCert, ValidPrincipals: []string{"example.com"}, ValidBefore: ssh.CertTimeInfinity},
		"expired":       {CertType: ssh.HostCert, ValidBefore: now - 1000},
		"not yet valid": {CertType: ssh.HostCert, ValidAfter: now + 1000, ValidBefore: ssh.CertTimeInfinity},
	} {
		cert.Key = s.HostKey
		if err := cert.SignCert(rand.Reader, authority); err != nil {
			t.Fatal(err)
		}
		steprig.Write(t, s.Files(), "cert", ssh.MarshalAuthorizedKey(cert))
		s.Configure(t, "HostCertificate "+filepath.Join(s.Files(), "cert"))
		r := twin(t, s, cert)
		conn := named(r.conn, 0)
		conn.KnownHosts = file
		byText := named(r.conn, 0)
		byText.HostKeys = []string{"@cert-authority " + string(ssh.MarshalAuthorizedKey(authority.PublicKey()))}
		want := sshTrusts(t, s, file, 22)
		if err := trusts(t, conn); (err == nil) != want {
			t.Errorf("%s: ssh trusts the server: %v; known_hosts: %v", name, want, err)
		}
		if err := trusts(t, byText); (err == nil) != want {
			t.Errorf("%s: ssh trusts the server: %v; host_keys: %v", name, want, err)
		}
	}
}

const markRevoked = "@revoked"

// trusts connects without credentials that the server takes, and returns an
// error unless it is the login that fails.
func trusts(t *testing.T, conn sftp.Connection) error {
	r := &rig{Rig: steprig.Rig{T: t, Work: t.TempDir(), Attempt: 1, Resources: &courier.Resources{}}, conn: conn}
	defer func() { r.Resources.Close() }()
	sftp.Register(&r.Registry, connections(func() sftp.Connection { return r.conn }))
	err := r.list()
	if err == nil || !strings.Contains(err.Error(), "refuses the login") {
		return errors.Join(err, errors.New("there was no login"))
	}
	return nil
}

// sshTrusts reports whether ssh would send credentials, with a known_hosts file.
// It has none, which keeps the test short.
func sshTrusts(t *testing.T, s *sshdtest.Server, file string, port int) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ssh", "-F", "none", "-T",
		"-o", "ProxyCommand="+strings.Join(s.Command(), " ")+" 2>/dev/null",
		"-o", "StrictHostKeyChecking=yes", "-o", "UserKnownHostsFile="+file, "-o", "GlobalKnownHostsFile=none",
		"-o", "KexAlgorithms=curve25519-sha256", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "PreferredAuthentications=none", "-p", fmt.Sprint(port), "-l", s.User, "-s", "files.example.com", "sftp")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	refused, trusted := bytes.Contains(out, []byte("Host key verification failed")), bytes.Contains(out, []byte("Permission denied"))
	if refused == trusted {
		t.Fatalf("ssh: %v\n%s", err, out)
	}
	return trusted
}

// TestKnownHostsStore adds a key behind a line without an end, and none that is
// revoked.
func TestKnownHostsStore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "known_hosts")
	key, bad := newSigner(t).PublicKey(), newSigner(t).PublicKey()
	text := func(k ssh.PublicKey) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k))) }
	if err := os.WriteFile(file, []byte("@revoked * "+text(bad)), 0o600); err != nil {
		t.Fatal(err)
	}
	store := &sftp.HostKeyFile{Path: file}
	if err := store.TrustHostKey(t.Context(), "h:2222", text(bad)); err == nil {
		t.Error("a revoked key was added")
	}
	for _, addr := range []string{"H:2222", "[::1]:22", "[::1]:2222"} {
		if err := store.TrustHostKey(t.Context(), addr, text(key)); err != nil {
			t.Error(err)
		}
		keys, err := store.HostKeys(t.Context(), strings.ToLower(addr))
		if want := fmt.Sprint([]string{"@revoked " + text(bad), text(key)}); err != nil || fmt.Sprint(keys) != want {
			t.Errorf("%s: keys %q, %v", addr, keys, err)
		}
	}
	for _, want := range []string{"\n[h]:2222 ", "\n::1 ", "\n[::1]:2222 "} {
		if !strings.Contains(steprig.Read(filepath.Dir(file), "known_hosts"), want) {
			t.Errorf("the file lacks %q", want)
		}
	}
}
