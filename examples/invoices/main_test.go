package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier/internal/test/sshdtest"
)

// invoices runs the program and returns what it printed.
func invoices(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatalf("run %v: %v\n%s", args, err, &out)
	}
	return out.String()
}

func requireText(t *testing.T, out string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(out, w) {
			t.Errorf("the output lacks %q", w)
		}
	}
	if t.Failed() {
		t.Logf("output:\n%s", out)
	}
}

// names lists the files below dir.
func names(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range list {
		list[i] = filepath.Base(n)
	}
	return list
}

func TestInvoices(t *testing.T) {
	dir := t.TempDir()
	out := invoices(t, "-dir", dir)
	requireText(t, out, "daily-partner-invoices: completed", "├── 0 sftp.list (list)", "│   │       └── 6 file.move (deliver)", "└── 8 file.move (reject)", "processing/invoice-003-2.csv", "1 attempt ",
		"└── 11 sftp.rename (aside)", "In quarantine on the partner's server\n  acme-007.zip.pgp: step 4 \"decrypt\" (pgp.decrypt): ")
	if got := names(t, filepath.Join(dir, "processing")); len(got) != 15 {
		t.Errorf("processing has %v", got)
	}
	reports, _ := filepath.Glob(filepath.Join(dir, "archive", "report-*.txt"))
	if len(reports) != 1 {
		t.Fatalf("reports: %v", reports)
	}
	if text, err := os.ReadFile(reports[0]); err != nil || !strings.HasPrefix(string(text), "completed\nin quarantine: acme-007.zip.pgp: ") || strings.Count(string(text), "\n") != 2 {
		t.Errorf("the report says %q, %v", text, err)
	}
	if got := names(t, filepath.Join(dir, "quarantine")); len(got) != 1 {
		t.Errorf("quarantine has %v", got)
	}
	if got := append(names(t, filepath.Join(dir, "staging")), names(t, filepath.Join(dir, "work"))...); len(got) != 0 {
		t.Errorf("left over: %v", got)
	}
	archives, _ := filepath.Glob(filepath.Join(dir, "archive", "invoices-*.zip"))
	if len(archives) != 1 {
		t.Fatalf("archives: %v", archives)
	}
	z, err := zip.OpenReader(archives[0])
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if len(z.File) != 6 {
		t.Errorf("%d files in the archive, want the 6 encrypted originals", len(z.File))
	}
}

func TestFailAndResume(t *testing.T) {
	for _, at := range []string{"sftp.list", "pgp.decrypt[0]", "file.unzip[4]", "file.delete"} {
		out := invoices(t, "-fail-at", at)
		typ, _, _ := strings.Cut(at, "[")
		requireText(t, out, at+" (", "FAILED: this failure was asked for", "daily-partner-invoices: failed", "resumed by operator",
			"; 0 of them ran again", "daily-partner-invoices: completed", "2 attempts", typ, "finally\n└── 16 invoices.report (report)")
	}
}

func TestBadArguments(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.json")
	for want, args := range map[string][]string{
		`its types are file.delete, file.move, file.unzip`: {"-fail-at", "sftp.dowload[2]"},
		"must be a step type":                              {"-fail-at", "download 2"},
		"has no step of type":                              {"-fail-at", "flow.if"},
		"belong together":                                  {"-connection", missing},
		"none.json":                                        {"-connection", missing, "-key", missing},
		"unexpected argument":                              {"now"},
		"give -serve too":                                  {"-addr", "127.0.0.1:8080"},
		"-addr: listen tcp":                                {"-serve", "-addr", "8080"},
	} {
		var out bytes.Buffer
		if err := run(t.Context(), args, &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want an error with %q", args, err, want)
		}
	}
	out := invoices(t, "-fail-at", "file.unzip[99]")
	requireText(t, out, "Nothing failed: file.unzip[99] was never reached.")
}

// TestRealServer runs the pipeline against OpenSSH with files that GnuPG has
// encrypted.
func TestRealServer(t *testing.T) {
	g := newGnuPG(t)
	server := sshdtest.Start(t)
	outgoing := filepath.Join(server.Dir, "outgoing")
	if err := os.Mkdir(outgoing, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		plain := filepath.Join(t.TempDir(), "acme-"+strconv.Itoa(i)+".zip")
		if err := writeInvoices(plain, i); err != nil {
			t.Fatal(err)
		}
		g.run("--encrypt", "--recipient", "us@example.com", "--trust-model", "always",
			"--output", filepath.Join(outgoing, filepath.Base(plain)+".pgp"), plain)
	}
	connection := filepath.Join(t.TempDir(), "connection.json")
	host, port, err := net.SplitHostPort(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(port)
	text, _ := json.Marshal(map[string]any{"partner": map[string]any{
		"host": host, "port": n, "username": server.User, "private_key": "secret:id_client",
		"host_keys": []string{ssh.FingerprintSHA256(server.HostKey)},
	}})
	for name, text := range map[string][]byte{connection: text, filepath.Join(filepath.Dir(connection), "id_client"): server.ClientKey} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, more := range [][]string{nil, {"-fail-at", "pgp.decrypt[1]"}} {
		dir := t.TempDir()
		out := invoices(t, append([]string{"-connection", connection, "-key", g.secretKey, "-remote", outgoing, "-dir", dir}, more...)...)
		requireText(t, out, "daily-partner-invoices: completed", outgoing+" on "+host)
		if got := names(t, filepath.Join(dir, "processing")); len(got) != 9 {
			t.Errorf("processing has %v", got)
		}
	}
}

// A gnuPG is a private GnuPG home with one key.
type gnuPG struct {
	t         *testing.T
	home      string
	secretKey string // a file
}

func newGnuPG(t *testing.T) *gnuPG {
	t.Helper()
	if _, err := exec.LookPath("gpg"); err != nil {
		t.Fatal("gpg is not installed; on Debian and Ubuntu: apt-get install gnupg")
	}
	home, err := os.MkdirTemp("", "gpg") // short, since the agent's socket is in it
	if err != nil {
		t.Fatal(err)
	}
	g := &gnuPG{t: t, home: home, secretKey: filepath.Join(home, "secret.asc")}
	t.Cleanup(func() {
		cmd := exec.Command("gpgconf", "--homedir", home, "--kill", "all")
		cmd.Run()
		os.RemoveAll(home)
	})
	g.run("--passphrase", "", "--quick-generate-key", "us@example.com", "default", "default", "never")
	g.run("--passphrase", "", "--armor", "--output", g.secretKey, "--export-secret-keys", "us@example.com")
	return g
}

func (g *gnuPG) run(args ...string) {
	g.t.Helper()
	cmd := exec.Command("gpg", append([]string{"--homedir", g.home, "--batch", "--quiet", "--pinentry-mode", "loopback"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		g.t.Fatalf("gpg %v: %v\n%s", args, err, out)
	}
}
