package steps_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/steps/azure"
	"github.com/courierhq/courier/steps/exec"
	"github.com/courierhq/courier/steps/ftp"
	"github.com/courierhq/courier/steps/httpreq"
	"github.com/courierhq/courier/steps/pgp"
	"github.com/courierhq/courier/steps/sftp"
)

// tested is what Validate of a step says: its error, and what it logs.
func tested(t *testing.T, reg *courier.Registry, key string, cfg object) (string, error) {
	t.Helper()
	typ, ok := reg.Lookup(key)
	if !ok {
		t.Fatalf("no step %s", key)
	}
	var log bytes.Buffer
	job := courier.NewContext(courier.ContextConfig{Execution: "0198", Workspace: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, nil))})
	defer job.Close()
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	err = typ.Validate(t.Context(), job, text)
	return log.String(), err
}

// TestConnectionReport: a test of a connection reaches the server, logs in,
// lists, and tells what an operator wants to know about it.
func TestConnectionReport(t *testing.T) {
	s := newSite(t, map[string]string{"sftp/a": "1", "sftp/b": "2", "ftp/a": "1", "ftp/b": "2", "ftp/c": "3"})
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	var reg courier.Registry
	httpreq.Register(&reg, &httpreq.Options{RootCAs: secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	for _, test := range []struct {
		reg  *courier.Registry
		key  string
		cfg  object
		want []string
	}{
		{&s.reg, "sftp.upload", object{"connection_id": "sftp", "local_path": "f", "remote_path": "f"}, []string{
			"connection=sftp", "host=sftp.example.com:22", `server="\"SSH-2.0-Go\""`, "host_key=", "SHA256:", "key_exchange=", "cipher=", "round_trip=", "entries=2"}},
		{&s.reg, "ftp.upload", object{"connection_id": "ftp", "local_path": "f", "remote_path": "f"}, []string{
			"connection=ftp", "host=files.example.com:21", "ready", "security=explicit", `tls="TLS 1.3"`, "cipher=TLS_", "certificate=", "subject=", "issuer=", "valid_until=2199", "round_trip=", "entries=3"}},
		{&reg, "http.request", object{"url": secure.URL + "/hush"}, []string{
			"server=" + secure.URL, "address=127.0.0.1:", `tls="TLS 1.3"`, "cipher=TLS_", "certificate=", "subject=", "valid_until=", "round_trip="}},
		{&s.reg, "azure_function.execute", object{"connection_id": "app", "function_name": "f"}, []string{"connection=app", "server=http://app.example.com", "tls=none", "telemetry=false", "round_trip="}},
		{&s.reg, "pgp.sign", object{"source_path": "f", "signing_key_id": "us"}, []string{
			"the key works", "key=us", "use=signature", "fingerprint=", "algorithm=", "expires=", "user=", "subkeys=", "private=true", "passphrase="}},
		{&s.reg, "exec.run", object{"program": "sh"}, []string{"the program can be run", "program=sh", "path=/bin/sh", "file=/", "mode=-r", "limits="}},
		{&s.reg, "file.copy", object{"source_path": "f", "destination_path": "g"}, []string{"the path can be used", "field=source_path path=f", "field=destination_path path=g"}},
	} {
		log, err := tested(t, test.reg, test.key, test.cfg)
		if err != nil {
			t.Errorf("%s: %v", test.key, err)
			continue
		}
		for _, want := range append(test.want, "") {
			if !strings.Contains(log, want) {
				t.Errorf("%s tells\n%s\nwithout %q", test.key, log, want)
			}
		}
		if strings.Contains(log, password) || strings.Contains(log, "function-key") || strings.Contains(log, "hush") {
			t.Errorf("%s tells a secret: %s", test.key, log)
		}
	}
	for _, op := range s.sftp.Ops() {
		if op.Method == "write" || op.Method == "remove" || op.Method == "mkdir" {
			t.Errorf("testing the connection changes something: %v", op)
		}
	}
}

// TestConnectionAdvice: what is wrong with a connection is said, and what to do.
func TestConnectionAdvice(t *testing.T) {
	s := newSiteWith(t, sftpserver.Options{}, ftpserver.Options{Answer: func(c *ftpserver.Conn, verb, argument string) bool {
		if verb == "EPSV" {
			c.Reply("229 there (|||4000|)") // where nobody listens
		}
		return verb == "EPSV"
	}})
	refused := memnet.Listen()
	refused.Close()
	sconn, fconn := s.sconn, s.fconn
	other, err := ssh.NewSignerFromKey(newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	sftps, ftps := sftp.Map{}, ftp.Map{}
	addS := func(id string, change func(*sftp.Connection)) {
		c := sconn
		change(&c)
		sftps[id] = c
	}
	addF := func(id string, change func(*ftp.Connection)) {
		c := fconn
		change(&c)
		ftps[id] = c
	}
	noSuchHost := func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "files.example.com", IsNotFound: true}}
	}
	addS("refused", func(c *sftp.Connection) { c.Dial = refused.DialContext })
	addS("nowhere", func(c *sftp.Connection) { c.Dial = noSuchHost })
	addS("password", func(c *sftp.Connection) { c.Password = "wrong" })
	addS("key", func(c *sftp.Connection) { c.HostKeys = []string{ssh.FingerprintSHA256(other.PublicKey())} })
	addS("nokey", func(c *sftp.Connection) { c.HostKeys = nil })
	addS("algorithm", func(c *sftp.Connection) { c.Algorithms.Ciphers = []string{"aes128-cbc"} })
	addF("refused", func(c *ftp.Connection) { c.Dial = refused.DialContext })
	addF("nowhere", func(c *ftp.Connection) { c.Dial = noSuchHost })
	addF("password", func(c *ftp.Connection) { c.Password = "wrong" })
	addF("authority", func(c *ftp.Connection) { c.Authorities = "" })
	addF("name", func(c *ftp.Connection) { c.ServerName = "other.example.com" })
	addF("pin", func(c *ftp.Connection) {
		c.CertificatePolicy, c.Authorities, c.PinnedCertificates = "pinned", "", []string{strings.Repeat("ab", 32)}
	})
	addF("content", func(*ftp.Connection) {})
	var reg courier.Registry
	sftp.Register(&reg, sftps)
	ftp.Register(&reg, ftps)
	pgp.Register(&reg, new(pgp.Keyring))
	exec.Register(&reg, &exec.Options{Programs: map[string]exec.Program{"gone": {Path: "/nonexistent/program"}}})
	httpreq.Register(&reg, nil)
	azure.Register(&reg, &azure.Options{Connections: azure.Map{"private": {URL: "https://127.0.0.1", FunctionKey: "function-key"}}})
	for _, test := range []struct {
		key  string
		cfg  object
		want []string
	}{
		{"sftp.list", object{"connection_id": "refused"}, []string{`connection "refused" (sftp.example.com:22)`, "connect", "refused"}},
		{"sftp.list", object{"connection_id": "nowhere"}, []string{"no such host"}},
		{"sftp.list", object{"connection_id": "password"}, []string{"refuses the login", "check username, password"}},
		{"sftp.list", object{"connection_id": "key"}, []string{"host key", ssh.FingerprintSHA256(s.sftp.HostKey())}},
		{"sftp.list", object{"connection_id": "nokey"}, []string{"host_keys", ssh.FingerprintSHA256(s.sftp.HostKey())}},
		{"sftp.list", object{"connection_id": "algorithm"}, []string{"no common algorithm", "algorithms"}},
		{"sftp.list", object{"connection_id": "unknown"}, []string{`"unknown"`, "refused"}}, // the names that there are
		{"ftp.list", object{"connection_id": "refused"}, []string{`connection "refused" (files.example.com:21)`, "connect", "refused"}},
		{"ftp.list", object{"connection_id": "nowhere"}, []string{"no such host"}},
		{"ftp.list", object{"connection_id": "password"}, []string{"login", "check"}},
		{"ftp.list", object{"connection_id": "authority"}, []string{"certificate", "authorities"}},
		{"ftp.list", object{"connection_id": "name"}, []string{"certificate", "server_name"}},
		{"ftp.list", object{"connection_id": "pin"}, []string{"certificate", "pinned_certificates"}},
		{"ftp.upload", object{"connection_id": "content", "local_path": "f", "remote_path": "f"}, []string{"4000", "firewall"}},
		{"http.request", object{"url": "https://127.0.0.1/"}, []string{"127.0.0.1 is not public", "host application has to allow"}},
		{"azure_function.execute", object{"connection_id": "private", "function_name": "f"}, []string{"127.0.0.1 is not public", "host application has to allow"}},
		{"pgp.sign", object{"source_path": "f", "signing_key_id": "nobody"}, []string{`"nobody"`}},
		{"exec.run", object{"program": "gone"}, []string{`program "gone"`, "/nonexistent/program"}},
		{"exec.run", object{"program": "other"}, []string{`"other"`, "gone"}},
	} {
		_, err := tested(t, &reg, test.key, test.cfg)
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %v: the error is\n\t%v\nwant %q in it", test.key, test.cfg, err, want)
			}
		}
		if err != nil && (strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "function-key")) {
			t.Errorf("%s: the error tells a secret: %v", test.key, err)
		}
	}
}

// An account that may not list is no reason for a connection to fail its test.
func TestConnectionWithoutListing(t *testing.T) {
	s := newSiteWith(t, sftpserver.Options{Fault: func(o sftpserver.Op) error {
		if o.Method == "list" {
			return errors.New("not for you")
		}
		return nil
	}}, ftpserver.Options{Answer: func(c *ftpserver.Conn, verb, argument string) bool {
		if verb == "MLSD" {
			c.Reply("550 not for you")
		}
		return verb == "MLSD"
	}})
	for _, server := range []string{"sftp", "ftp"} {
		log, err := tested(t, &s.reg, server+".upload", object{"connection_id": server, "local_path": "f", "remote_path": "f"})
		if err != nil || !strings.Contains(log, "entries=refused") {
			t.Errorf("%s: %v, %s", server, err, log)
		}
	}
}
