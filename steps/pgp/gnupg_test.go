package pgp_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/test/pgptest"
	"github.com/courierhq/courier/steps/pgp"
)

// TestKeysOfGnuPG reads keyrings that GnuPG writes and hands ours to it.
func TestKeysOfGnuPG(t *testing.T) {
	g := pgptest.NewGnuPG(t)
	g.Passphrase = "tunnel"
	g.Generate("rsa", "rsa2048", "rsa2048")
	g.Generate("curve", "ed25519", "cv25519")
	dir := t.TempDir()
	save := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	save("all.gpg", g.Run(nil, "--export"))
	save("curve.sec", g.Run(nil, "--armor", "--export-secret-keys", "curve"))
	keys, err := pgp.ReadKeyring(dir, map[string]string{"curve": "vault/curve"})
	if err != nil {
		t.Fatal(err)
	}
	if got := keys.Fingerprints(); len(got) != 2 {
		t.Errorf("fingerprints = %q", got)
	}
	k, err := keys.Key(t.Context(), g.Fingerprint("curve"))
	if err != nil || k.Passphrase != "vault/curve" {
		t.Errorf("%v, %v", k, err)
	}
	g.Run(k.Data, "--import") // what was joined is still a key
	box, err := os.ReadFile(filepath.Join(g.Home, "pubring.kbx"))
	if err != nil {
		t.Fatal(err)
	}
	if err := keys.Add("box", pgp.Key{Data: box}); err == nil || !strings.Contains(err.Error(), "keybox") {
		t.Errorf("error = %v", err)
	}
}
