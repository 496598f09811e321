package pgpstream_test

import (
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/pgpstream"
	"github.com/courierhq/courier/internal/test/pgptest"
)

// TestKindsOfKeys has keys of GnuPG of all kinds. Those that are not safe any more open
// old messages, and serve nothing else.
func TestKindsOfKeys(t *testing.T) {
	g := pgptest.NewGnuPG(t)
	b := newBench(t)
	for _, c := range []struct{ name, primary, sub, signing, encryption string }{
		{"dsa", "dsa2048", "elg1024", "DSA 2048 bits", "ElGamal 1024 bits"},
		{"secp", "secp256k1", "secp256k1", "ECDSA SecP256k1", "ECDH SecP256k1"},
		{"small", "rsa1024", "rsa1024", "RSA 1024 bits", "RSA 1024 bits"},
		{"mixed", "rsa2048", "rsa1024", "", "RSA 1024 bits"},
		{"nist", "nistp256", "nistp256", "", ""},
		{"brainpool", "brainpoolP512r1", "brainpoolP512r1", "", ""},
		{"none", "ed25519", "", "", "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g.Generate(c.name, c.primary, c.sub)
			exported := g.Run(nil, "--export-secret-keys", "="+c.name)
			b.keys = keySource{c.name: testKey{data: exported}}
			key := b.unlocked(c.name)
			for use, unsafe := range map[pgpstream.Use]string{pgpstream.ForEncryption: c.encryption, pgpstream.ForSigning: c.signing, pgpstream.ForVerification: c.signing} {
				err := key.CheckUse(use, time.Now())
				switch {
				case unsafe == "" && err != nil:
					t.Errorf("use %d: %v", use, err)
				case unsafe == "none":
					wantError(t, err, "has no subkey for encryption")
				case unsafe != "":
					wantError(t, err, "of a kind or size that is not safe any more: "+unsafe)
				}
			}
			signature := g.Run([]byte("x"), "-u", "="+c.name, "-b")
			_, found, err := b.verify([]byte("x"), signature)
			if want := map[bool]pgpstream.Status{true: pgpstream.StatusValid, false: pgpstream.StatusUnsafe}[c.signing == ""]; err != nil || found.Status != want || !strings.Contains(found.Problem, c.signing) {
				t.Errorf("verified: %+v, %v, want %s", found, err, want)
			}
			if c.sub == "" {
				return
			}
			message := g.Run([]byte("x"), "-r", "="+c.name, "-e")
			if content, _, err := b.decrypt(message, pgpstream.DecryptOptions{}); err != nil || string(content) != "x" {
				t.Errorf("decrypted %q, %v", content, err)
			}
		})
	}
}
