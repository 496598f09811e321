// Package pgptest makes OpenPGP keys and messages for tests, with the library alone and
// by hand, among them what no honest program makes, and runs GnuPG.
//
// gosop of Debian 12 writes LF for each CRLF of a message that it decrypts. The flag -sop
// pgpainless-cli,rsop of steps/pgp adds programs that .ci/test does not install.
package pgptest

import (
	"bytes"
	"crypto/rsa"
	_ "embed"
	"encoding/binary"
	"fmt"
	"math/big"
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

// Resign changes the self-signatures and the bindings of a key, and makes them again.
func Resign(t testing.TB, e *openpgp.Entity, change func(*packet.Signature)) *openpgp.Entity {
	t.Helper()
	for _, id := range e.Identities {
		sig := id.SelfCertifications[0].Packet
		change(sig)
		if err := sig.SignUserId(id.UserId.Id, e.PrimaryKey, e.PrivateKey, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range e.DirectSignatures {
		change(s.Packet)
		if err := s.Packet.SignDirectKeyBinding(e.PrimaryKey, e.PrivateKey, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range e.Subkeys {
		sig := s.Bindings[0].Packet
		change(sig)
		if err := sig.SignKey(s.PublicKey, e.PrivateKey, nil); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// LongLengths returns a key, which must be of RSA, with the length of each subpacket of
// its signatures written in five octets, as Google End-to-End does. The signatures are
// made again, because they cover the lengths.
func LongLengths(t testing.TB, e *openpgp.Entity) []byte {
	t.Helper()
	var out bytes.Buffer
	put := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	hashed := func(prefix byte, content []byte) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{prefix}, uint32(len(content))), content...)
	}
	body := func(k *packet.PublicKey) []byte {
		var b bytes.Buffer
		put(k.SerializeForHash(&b))
		return b.Bytes()
	}
	sign := func(sig *packet.Signature, covered ...[]byte) {
		var b bytes.Buffer
		put(sig.Serialize(&b))
		p, err := packet.NewOpaqueReader(&b).Next()
		put(err)
		size := int(binary.BigEndian.Uint16(p.Contents[4:]))
		var long []byte
		for rest := p.Contents[6 : 6+size]; len(rest) > 0; { // all are shorter than 192 bytes
			n := int(rest[0])
			long = append(append(long, 255, 0, 0, 0, byte(n)), rest[1:1+n]...)
			rest = rest[1+n:]
		}
		start := append(bytes.Clone(p.Contents[:4]), byte(len(long)>>8), byte(len(long)))
		start = append(start, long...)
		h := sig.Hash.New()
		for _, c := range append(covered, start, []byte{4, 255, 0, 0, byte(len(start) >> 8), byte(len(start))}) {
			h.Write(c)
		}
		digest := h.Sum(nil)
		made, err := rsa.SignPKCS1v15(nil, e.PrivateKey.PrivateKey.(*rsa.PrivateKey), sig.Hash, digest)
		put(err)
		n := new(big.Int).SetBytes(made).BitLen()
		start = append(start, 0, 0, digest[0], digest[1], byte(n>>8), byte(n))
		put((&packet.OpaquePacket{Tag: 2, Contents: append(start, bytes.TrimLeft(made, "\x00")...)}).Serialize(&out))
	}
	put(e.PrivateKey.Serialize(&out))
	for _, id := range e.Identities {
		put(id.UserId.Serialize(&out))
		sign(id.SelfCertifications[0].Packet, body(e.PrimaryKey), hashed(0xB4, []byte(id.UserId.Id)))
	}
	for _, s := range e.Subkeys {
		put(s.PrivateKey.Serialize(&out))
		sign(s.Bindings[0].Packet, body(e.PrimaryKey), body(s.PublicKey))
	}
	return out.Bytes()
}
