package pgpstream_test

import (
	"bytes"
	"crypto/rsa"
	"errors"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/courierhq/courier/internal/pgpstream"
	"github.com/courierhq/courier/internal/test/pgptest"
)

// flags returns a function that gives a signature the key flags of encryption or none.
func flags(valid, encrypt bool) func(*packet.Signature) {
	return func(s *packet.Signature) {
		s.FlagsValid, s.FlagEncryptCommunications, s.FlagEncryptStorage = valid, encrypt, encrypt
	}
}

// TestKeyWithoutFlags has keys without key flags, as old versions of GnuPG made them: they
// encrypt and decrypt, and the primary key signs.
func TestKeyWithoutFlags(t *testing.T) {
	for name, change := range map[string]func(*packet.Config){
		"curve": nil,
		"RSA":   func(c *packet.Config) { c.Algorithm, c.RSABits = packet.PubKeyAlgoRSA, 2048 },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.add("old", pgptest.Resign(t, pgptest.NewEntity(t, "old", change), flags(false, false)))
			message := b.encrypt([]byte("content"), []string{"old"}, "old", pgpstream.EncryptOptions{})
			got, out, err := b.decrypt(message, pgpstream.DecryptOptions{Signers: []string{"old"}})
			if err != nil || string(got) != "content" || out.Signature.Status != pgpstream.StatusValid {
				t.Errorf("%q, %+v, %v", got, out.Signature, err)
			}
		})
	}
}

// TestSubkeyWithoutFlags: a subkey for signatures without key flags may be that of
// somebody else, so what it has signed does not count.
func TestSubkeyWithoutFlags(t *testing.T) {
	b := newBench(t)
	us := b.key("us")
	e := pgptest.NewEntity(t, "claims", nil)
	if err := e.AddSigningSubkey(&packet.Config{Algorithm: packet.PubKeyAlgoEdDSA}); err != nil {
		t.Fatal(err)
	}
	message := pgptest.SignedBy(t, us, nil, e)
	b.add("claims", pgptest.Resign(t, e, func(s *packet.Signature) {
		if s.SigType == packet.SigTypeSubkeyBinding {
			s.FlagsValid, s.EmbeddedSignature = false, nil
		}
	}))
	_, out, err := b.decrypt(message, pgpstream.DecryptOptions{Signers: []string{"claims"}})
	if err != nil || out.Signature.Status != pgpstream.StatusUnsafe {
		t.Errorf("%+v, %v", out.Signature, err)
	}
}

// TestKeyMayNotDecrypt: the error says that the key may not decrypt, and not that the
// message is damaged.
func TestKeyMayNotDecrypt(t *testing.T) {
	b := newBench(t)
	e := pgptest.NewEntity(t, "us", func(c *packet.Config) { c.Algorithm, c.RSABits = packet.PubKeyAlgoRSA, 2048 })
	message := pgptest.Seal(t, []byte("x"), e, nil)
	b.add("us", pgptest.Resign(t, e, flags(true, false)))
	_, _, err := b.decrypt(message, pgpstream.DecryptOptions{})
	wantError(t, err, "no private key opens it", "("+pgptest.Fingerprint(e)+") may not decrypt it", "is not for encryption by its key flags")
}

// TestLargeKey: a key of more than 8,192 bits is refused, as a subkey too, and one of so
// many is read.
func TestLargeKey(t *testing.T) {
	e := pgptest.NewEntity(t, "us", func(c *packet.Config) { c.Algorithm, c.RSABits = packet.PubKeyAlgoRSA, 2048 })
	sized := func(bits int) []byte {
		n := new(big.Int).Lsh(big.NewInt(1), uint(bits-1))
		var out bytes.Buffer
		pub := packet.NewRSAPublicKey(time.Unix(1e9, 0), &rsa.PublicKey{N: n.Add(n, big.NewInt(1)), E: 65537})
		pub.IsSubkey = true
		if err := errors.Join(pub.Serialize(&out), e.Subkeys[0].Bindings[0].Packet.Serialize(&out)); err != nil {
			t.Fatal(err)
		}
		return append(pgptest.Public(t, e), out.Bytes()...)
	}
	if _, err := pgpstream.ParseKey("us", sized(8192)); err != nil {
		t.Error(err)
	}
	for _, bits := range []int{8193, 16384} {
		_, err := pgpstream.ParseKey("us", sized(bits))
		wantError(t, err, fmt.Sprintf("has %d bits, and 8192 are the most", bits))
	}
}
