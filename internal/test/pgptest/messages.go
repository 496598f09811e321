package pgptest

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
)

// Noise returns bytes that do not compress, the same ones for the same n.
func Noise(n int) []byte {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)}).Read(data)
	return data
}

// Seal encrypts with the library alone.
func Seal(t testing.TB, data []byte, to *openpgp.Entity, params *openpgp.EncryptParams) []byte {
	t.Helper()
	if params == nil {
		params = &openpgp.EncryptParams{}
	}
	if params.Config == nil {
		params.Config = &packet.Config{DefaultCipher: packet.CipherAES256}
	}
	var buf bytes.Buffer
	w, err := openpgp.EncryptWithParams(&buf, []*openpgp.Entity{to}, nil, params)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// SignedBy makes a message to a key, signed by others at a time.
func SignedBy(t testing.TB, to *openpgp.Entity, at func() time.Time, signers ...*openpgp.Entity) []byte {
	t.Helper()
	now := time.Now()
	return Seal(t, []byte("signed content"), to, &openpgp.EncryptParams{
		Signers: signers, EncryptionTime: &now,
		Config: &packet.Config{DefaultCipher: packet.CipherAES256, Time: at},
	})
}

// Signed makes a detached signature and a signed message with the library alone.
func Signed(t testing.TB, content []byte, at func() time.Time, signers ...*openpgp.Entity) (detached, inline []byte) {
	t.Helper()
	conf := &packet.Config{Time: at}
	var sig, message bytes.Buffer
	err := openpgp.DetachSign(&sig, signers, bytes.NewReader(content), conf)
	if err != nil {
		t.Fatal(err)
	}
	w, err := openpgp.Sign(&message, signers, nil, conf)
	if err == nil {
		_, err = w.Write(content)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return sig.Bytes(), message.Bytes()
}

// Armor puts a message into armor, with the checksum that old programs write.
func Armor(t testing.TB, message []byte) []byte {
	t.Helper()
	return ArmorAs(t, "PGP MESSAGE", message)
}

// ArmorAs is Armor for another kind than a message.
func ArmorAs(t testing.TB, kind string, message []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := armor.Encode(&buf, kind, map[string]string{"Comment": "made by hand", "Version": "1"})
	if err == nil {
		_, err = w.Write(message)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return append(buf.Bytes(), '\n')
}

// WithoutMDC makes what PGP made before 1999: encrypted data without an
// integrity check.
func WithoutMDC(t testing.TB, to *openpgp.Entity, data []byte) []byte {
	t.Helper()
	key := Noise(32)
	sub, ok := to.EncryptionKey(to.PrimaryKey.CreationTime, nil)
	if !ok {
		t.Fatal("no key")
	}
	var inner, out bytes.Buffer
	lw, err := packet.SerializeLiteral(keepOpen{&inner}, true, "", 0)
	if err == nil {
		lw.Write(data)
		err = lw.Close()
	}
	if err == nil {
		err = packet.SerializeEncryptedKey(&out, sub.PublicKey, packet.CipherAES256, key, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	stream, prefix := packet.NewOCFBEncrypter(aesBlock(t, key), Noise(16), packet.OCFBResync)
	body := bytes.Clone(inner.Bytes())
	stream.XORKeyStream(body, body)
	out.Write([]byte{0xC0 | 9, 255, 0, 0, 0, byte(len(prefix) + len(body))})
	out.Write(prefix)
	out.Write(body)
	return out.Bytes()
}

func aesBlock(t testing.TB, key []byte) cipher.Block {
	t.Helper()
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	return block
}

// Literal is a literal packet.
func Literal(content string) []byte {
	return Packet(11, append([]byte("b\x00\x00\x00\x00\x00"), content...))
}

// Packet is a packet with a length of four bytes.
func Packet(tag byte, body []byte) []byte {
	n := len(body)
	return append([]byte{0xC0 | tag, 255, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, body...)
}

// Compressed is a compressed packet.
func Compressed(t testing.TB, algo packet.CompressionAlgo, pieces ...[]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := packet.SerializeCompressed(keepOpen{&out}, algo, &packet.CompressionConfig{Level: 1})
	for _, p := range pieces {
		if err == nil {
			_, err = w.Write(p)
		}
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// SessionKey is the packet with a session key.
func SessionKey(t testing.TB, to *openpgp.Entity, algo packet.CipherFunction, key []byte) []byte {
	t.Helper()
	sub, _ := to.EncryptionKey(time.Now(), nil)
	var out bytes.Buffer
	if err := packet.SerializeEncryptedKey(&out, sub.PublicKey, algo, key, nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// SealPackets encrypts packets as they are, in one piece of known length.
func SealPackets(t testing.TB, to *openpgp.Entity, packets []byte) (session, sealed []byte) {
	t.Helper()
	key := Noise(32)
	var out, body bytes.Buffer
	w, err := packet.SerializeSymmetricallyEncrypted(&out, packet.CipherAES256, false, packet.CipherSuite{}, key, nil)
	if err == nil {
		_, err = w.Write(packets)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	p, err := packet.NewOpaqueReader(&out).Next()
	if err != nil {
		t.Fatal(err)
	}
	body.Write(p.Contents)
	return SessionKey(t, to, packet.CipherAES256, key), body.Bytes()
}

type keepOpen struct{ *bytes.Buffer }

func (keepOpen) Close() error { return nil }
