// Package pgptest makes OpenPGP keys and messages for tests, with the library alone and
// by hand, among them what no honest program makes, and runs GnuPG.
package pgptest

import (
	"bytes"
	_ "embed"
	"fmt"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
)

// NewEntity makes a key with some of the configuration changed.
func NewEntity(t testing.TB, name string, change func(*packet.Config)) *openpgp.Entity {
	t.Helper()
	conf := &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA, Curve: packet.Curve25519, DefaultCipher: packet.CipherAES256}
	if change != nil {
		change(conf)
	}
	e, err := openpgp.NewEntity(name, "", name+"@example.com", conf)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Private is the key in binary form, with its private parts.
func Private(t testing.TB, e *openpgp.Entity) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := e.SerializePrivateWithoutSigning(&buf, nil); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// Public is the public part of a key in binary form.
func Public(t testing.TB, e *openpgp.Entity) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := e.Serialize(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// Fingerprint is the fingerprint in upper case.
func Fingerprint(e *openpgp.Entity) string {
	return fmt.Sprintf("%X", e.PrimaryKey.Fingerprint)
}

// ArmoredKey is a private key with fixed content, for seeds of fuzz targets.
//
//go:embed testdata/ed25519.asc
var ArmoredKey []byte

// ArmoredSHA1Key is the key of [SHA1Key].
//
//go:embed testdata/sha1.asc
var ArmoredSHA1Key []byte

// SHA1Key is a key of 2015, made for these tests alone: GnuPG bound it together
// with SHA-1. The library doesn't write such signatures.
func SHA1Key(t testing.TB) *openpgp.Entity {
	t.Helper()
	list, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(ArmoredSHA1Key))
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

// Forgery is a key of somebody else that claims the id of e.
func Forgery(e *openpgp.Entity) *openpgp.Entity {
	f, err := openpgp.NewEntity("forged", "", "", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA})
	if err != nil {
		panic(err)
	}
	f.PrimaryKey.KeyId, f.PrimaryKey.Fingerprint = e.PrimaryKey.KeyId, e.PrimaryKey.Fingerprint
	f.PrivateKey.KeyId, f.PrivateKey.Fingerprint = e.PrimaryKey.KeyId, e.PrimaryKey.Fingerprint
	return f
}

// Past is the clock of somebody who works at another time.
func Past(d time.Duration) func() time.Time {
	return func() time.Time { return time.Now().Add(-d) }
}
