package pgptest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A GnuPG is GnuPG with a home of its own.
type GnuPG struct {
	testing.TB
	Home       string // of GnuPG, with its keys
	Passphrase string // of keys and messages; may be changed
}

// NewGnuPG returns a GnuPG without keys. It fails the test where gpg is missing.
func NewGnuPG(t testing.TB) *GnuPG {
	t.Helper()
	if _, err := exec.LookPath("gpg"); err != nil {
		t.Fatal("gpg is not installed; on Debian and Ubuntu: apt-get install gnupg")
	}
	// The agent's socket has a short name or none.
	home, err := os.MkdirTemp(os.TempDir(), "g")
	if err != nil {
		t.Fatal(err)
	}
	g := &GnuPG{TB: t, Home: home}
	// As many rounds as usual would make every use of a passphrase take half a
	// second.
	if err := os.WriteFile(filepath.Join(home, "gpg-agent.conf"), []byte("s2k-count 65536\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd := exec.Command("gpgconf", "--kill", "all")
		cmd.Env = g.env()
		cmd.Run()
		os.RemoveAll(home)
	})
	return g
}

func (g *GnuPG) env() []string {
	return append(os.Environ(), "GNUPGHOME="+g.Home, "LC_ALL=C")
}

// Try runs gpg and returns what it writes and says.
func (g *GnuPG) Try(input []byte, args ...string) (out []byte, said string, err error) {
	// GnuPG reads a clock that may be some milliseconds behind Go's, and so a second: to it a
	// key that was just made is of the future.
	base := []string{"--ignore-time-conflict", "--batch", "--no-tty", "--yes", "--pinentry-mode", "loopback", "--passphrase", g.Passphrase, "--trust-model", "always", "--status-fd", "2"}
	cmd := exec.CommandContext(g.Context(), "gpg", append(base, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = g.env(), bytes.NewReader(input), &stdout, &stderr
	err = cmd.Run()
	return stdout.Bytes(), stderr.String(), err
}

// Run runs gpg, which must succeed, and returns what it writes.
func (g *GnuPG) Run(input []byte, args ...string) []byte {
	g.Helper()
	out, said, err := g.Try(input, args...)
	if err != nil {
		g.Fatalf("gpg %s: %v\n%s", strings.Join(args, " "), err, said)
	}
	return out
}

// Generate makes a key for signatures and encryption.
func (g *GnuPG) Generate(name, primary, sub string) {
	g.Helper()
	g.Run(nil, "--quick-generate-key", name, primary, "sign", "never")
	if sub != "" {
		g.Run(nil, "--quick-add-key", g.Fingerprint(name), sub, "encr", "never")
	}
}

// Fingerprint is that of a key.
func (g *GnuPG) Fingerprint(name string) string {
	g.Helper()
	for line := range strings.Lines(string(g.Run(nil, "--with-colons", "--list-keys", name))) {
		if f := strings.Split(line, ":"); f[0] == "fpr" {
			return f[9]
		}
	}
	g.Fatalf("no key %s", name)
	return ""
}
