package pgp_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/courierhq/courier/internal/test/pgptest"
	"github.com/courierhq/courier/steps/pgp"
)

// TestReport tells what is known about each key when a configuration is tested:
// which one it is, how it is made, how long it holds, and that its passphrase is
// right.
func TestReport(t *testing.T) {
	b := newBench(t)
	us := b.key("us")
	locked := pgptest.NewEntity(t, "locked", func(c *packet.Config) { c.KeyLifetimeSecs = 10 * 24 * 3600 })
	if err := locked.EncryptPrivateKeys([]byte("canary"), nil); err != nil {
		t.Fatal(err)
	}
	if err := b.keys.Add("locked", pgp.Key{Data: pgptest.Private(t, locked), Passphrase: "locked-passphrase"}); err != nil {
		t.Fatal(err)
	}
	b.secrets["locked-passphrase"] = "canary"
	rsa := pgptest.NewEntity(t, "rsa", func(c *packet.Config) { c.Algorithm, c.RSABits = packet.PubKeyAlgoRSA, 2048 })
	if err := b.keys.Add("rsa", pgp.Key{Data: pgptest.Public(t, rsa)}); err != nil {
		t.Fatal(err)
	}
	old := b.add("old", pgptest.NewEntity(t, "old", func(c *packet.Config) { c.Time, c.KeyLifetimeSecs = pgptest.Past(48*3600e9), 3600 }))
	for _, c := range []struct {
		key  string
		cfg  map[string]any
		want []string
	}{
		{"pgp.encrypt", map[string]any{"recipient_key_ids": []string{"us", "rsa"}, "signing_key_id": "locked"}, []string{
			"key=us use=encryption fingerprint=" + pgptest.Fingerprint(us) + ` algorithm="EdDSA Curve25519"`, "expires=never", `user="us <us@example.com>"`, `ECDH Curve25519 for encryption, expires: never`, "private=true passphrase=none",
			"key=rsa use=encryption fingerprint=" + pgptest.Fingerprint(rsa) + ` algorithm="RSA 2048 bits"`, "RSA 2048 bits for encryption", "private=false",
			"key=locked use=signature fingerprint=" + pgptest.Fingerprint(locked), "private=true passphrase=right",
			`level=WARN msg="the key expires soon: its owner must`,
		}},
		{"pgp.sign", map[string]any{"signing_key_id": "locked"}, []string{"key=locked use=signature", "passphrase=right"}},
		{"pgp.decrypt", map[string]any{"private_key_ids": []string{"locked", "old"}, "signer_key_ids": []string{"us"}}, []string{
			"key=locked use=decryption", "passphrase=right", "key=us use=verification", "key=old use=decryption fingerprint=" + pgptest.Fingerprint(old), `but="expired`}},
		{"pgp.verify", map[string]any{"signer_key_ids": []string{"rsa"}}, []string{"key=rsa use=verification"}},
	} {
		b.log = bytes.Buffer{}
		c.cfg["source_path"] = "made/later"
		if err := b.validate(c.key, c.cfg); err != nil {
			t.Errorf("%s: %v", c.key, err)
		}
		for _, want := range c.want {
			if !strings.Contains(b.log.String(), want) {
				t.Errorf("%s tells\n%s\nwithout %q", c.key, b.log.String(), want)
			}
		}
		if strings.Contains(b.log.String(), "canary") {
			t.Errorf("%s tells the passphrase: %s", c.key, b.log.String())
		}
	}
}
