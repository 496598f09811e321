package pgpstream_test

import (
	"bytes"
	"crypto/aes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/ocb"
	"github.com/ProtonMail/go-crypto/openpgp/eddsa"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier/internal/pgpstream"
	"github.com/courierhq/courier/internal/test/pgptest"
)

// What GnuPG 2.4 makes, and 2.2 does not: messages in the packet of type 20 with
// OCB, for keys that ask for it. They are made here by hand, after the draft
// that GnuPG goes by (LibrePGP), and checked by nobody else's code.

// An ocbPacket is how a packet of type 20 is made.
type ocbPacket struct {
	chunk   byte             // chunks have 2^(chunk+6) bytes; GnuPG takes 16
	partial int              // length of the pieces, in powers of 2; 0 means one piece of known length
	change  func([][]byte)   // may change the sealed chunks, the last of which is the tag of all
	mode    byte             // 0 means OCB
	cut     int              // bytes that are missing at the end
	tail    []byte           // what follows
	total   func(int) uint64 // what the last tag says about the length; nil means the truth
}

// to encrypts packets as GnuPG 2.4 does.
func (o ocbPacket) to(t testing.TB, to *openpgp.Entity, packets []byte) []byte {
	t.Helper()
	key, nonce := pgptest.Noise(32), pgptest.Noise(15)
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	seal, err := ocb.NewOCB(block)
	if err != nil {
		t.Fatal(err)
	}
	mode := byte(2)
	head := []byte{0xD4, 1, 9, mode, o.chunk} // tag, version, AES-256, mode, size of chunks
	at := func(i uint64) ([]byte, []byte) {
		n := bytes.Clone(nonce)
		for k := range 8 {
			n[14-k] ^= byte(i >> (8 * k))
		}
		return n, binary.BigEndian.AppendUint64(bytes.Clone(head), i)
	}
	var sealed [][]byte
	size := 1 << (o.chunk + 6)
	for rest := packets; len(rest) > 0; {
		n := min(size, len(rest))
		nonce, data := at(uint64(len(sealed)))
		sealed = append(sealed, seal.Seal(nil, nonce, rest[:n], data))
		rest = rest[n:]
	}
	total := uint64(len(packets))
	if o.total != nil {
		total = o.total(len(packets))
	}
	last, data := at(uint64(len(sealed)))
	sealed = append(sealed, seal.Seal(nil, last, nil, binary.BigEndian.AppendUint64(data, total)))
	if o.change != nil {
		o.change(sealed)
	}
	if o.mode != 0 {
		head[3] = o.mode
	}
	body := append(append(bytes.Clone(head[1:]), nonce...), bytes.Join(sealed, nil)...)
	body = body[:len(body)-o.cut]
	message := pgptest.SessionKey(t, to, packet.CipherAES256, key)
	if o.partial == 0 {
		return append(append(message, pgptest.Packet(20, body)...), o.tail...)
	}
	message = append(message, 0xC0|20)
	for n := 1 << o.partial; len(body) > n; body = body[n:] {
		message = append(append(message, 224+byte(o.partial)), body[:n]...)
	}
	return append(append(append(message, 255, 0, 0, byte(len(body)>>8), byte(len(body))), body...), o.tail...)
}

// inside returns the content of a message before it is encrypted, signed by us.
func inside(t *testing.T, signer *openpgp.Entity, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := openpgp.SignWithParams(&b, []*openpgp.Entity{signer}, &openpgp.SignParams{Config: &packet.Config{}})
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDecryptGnuPG24(t *testing.T) {
	b := newBench(t)
	us, partner := b.add("us", pgptest.NewEntity(t, "us", nil)), b.add("partner", pgptest.NewEntity(t, "partner", nil))
	content := pgptest.Noise(300_000)
	for name, o := range map[string]ocbPacket{
		"as GnuPG does":         {chunk: 16},
		"as GnuPG does to pipe": {chunk: 16, partial: 13},
		"small chunks":          {chunk: 6},
		"smallest chunks":       {chunk: 0, partial: 9},
	} {
		got, out, err := b.decrypt(o.to(t, us, inside(t, partner, content)), pgpstream.DecryptOptions{Signers: []string{"partner"}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !bytes.Equal(got, content) || out.Signature.Status != pgpstream.StatusValid {
			t.Errorf("%s: %d bytes, %v", name, len(got), out.Signature)
		}
	}
	for name, test := range map[string]struct {
		o    ocbPacket
		want string
	}{
		"changed":                {ocbPacket{chunk: 6, change: func(c [][]byte) { c[3][5] ^= 1 }}, "damaged"},
		"changed at the end":     {ocbPacket{chunk: 6, change: func(c [][]byte) { c[len(c)-2][0] ^= 1 }}, "damaged"},
		"chunks swapped":         {ocbPacket{chunk: 6, change: func(c [][]byte) { c[1], c[2] = c[2], c[1] }}, "damaged"},
		"chunk left out":         {ocbPacket{chunk: 6, change: func(c [][]byte) { c[4] = nil }}, "damaged"},
		"last chunk left out":    {ocbPacket{chunk: 6, change: func(c [][]byte) { c[len(c)-2] = nil }}, "damaged"},
		"last tag left out":      {ocbPacket{chunk: 6, cut: 16}, "damaged"},
		"last tag changed":       {ocbPacket{chunk: 6, change: func(c [][]byte) { c[len(c)-1][0] ^= 1 }}, "damaged"},
		"last tag, other length": {ocbPacket{chunk: 6, total: func(n int) uint64 { return uint64(n) + 1 }}, "damaged"},
		"cut":                    {ocbPacket{chunk: 6, cut: 100_000}, "damaged"},
		"chunks of 4 EiB":        {ocbPacket{chunk: 6, mode: 2, change: nil}, ""},
		"unknown mode":           {ocbPacket{chunk: 6, mode: 77}, "an AEAD mode other than EAX and OCB"},
		"another message behind": {ocbPacket{chunk: 6, tail: pgptest.Literal("more")}, "damaged"},
	} {
		message := test.o.to(t, us, inside(t, partner, content))
		if name == "chunks of 4 EiB" {
			at := len(message) - len(content) // somewhere before it lies the head
			head := bytes.LastIndex(message[:min(at, 600)], []byte{1, 9, 2, 6})
			message[head+3], test.want = 56, "chunks of up to 4 MiB are supported"
		}
		_, _, err := b.decrypt(message, pgpstream.DecryptOptions{})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error is %v, want %q", name, err, test.want)
		}
	}
}

// resigned is a key whose user id is bound as GnuPG 2.4 does: with the features
// MDC, OCB and version 5, which are not those of RFC 9580, and a preference for
// OCB.
func resigned(t *testing.T, e *openpgp.Entity) *openpgp.Entity {
	t.Helper()
	seed := e.PrivateKey.PrivateKey.(*eddsa.PrivateKey).MarshalByteSecret()
	var key bytes.Buffer
	if err := e.PrimaryKey.SerializeForHash(&key); err != nil {
		t.Fatal(err)
	}
	sub := func(kind byte, data ...byte) []byte { return append([]byte{byte(1 + len(data)), kind}, data...) }
	now := binary.BigEndian.AppendUint32(nil, uint32(e.PrimaryKey.CreationTime.Unix()))
	hashed := bytes.Join([][]byte{
		sub(33, append([]byte{4}, e.PrimaryKey.Fingerprint...)...), sub(2, now...), sub(27, 3), // issuer, time, certify and sign
		sub(11, 9, 8, 7, 2), sub(34, 2, 1), sub(21, 10, 9, 8, 11, 2), sub(22, 2, 3, 1), sub(30, 7), sub(23, 0x80), sub(25, 1),
	}, nil)
	head := append([]byte{4, 0x13, 22, 8, byte(len(hashed) >> 8), byte(len(hashed))}, hashed...)
	for name, id := range e.Identities {
		h := sha256.New()
		h.Write(key.Bytes())
		h.Write(binary.BigEndian.AppendUint32([]byte{0xB4}, uint32(len(name))))
		h.Write([]byte(name))
		h.Write(head)
		h.Write(binary.BigEndian.AppendUint32([]byte{4, 0xFF}, uint32(len(head))))
		sum := h.Sum(nil)
		s := ed25519.Sign(ed25519.NewKeyFromSeed(seed), sum)
		issuer := binary.BigEndian.AppendUint64([]byte{9, 16}, e.PrimaryKey.KeyId)
		body := append(append(bytes.Clone(head), 0, byte(len(issuer))), issuer...)
		body = append(body, sum[0], sum[1])
		for _, half := range [][]byte{s[:32], s[32:]} {
			half = bytes.TrimLeft(half, "\x00")
			bits := 8 * len(half)
			for b := half[0]; b < 0x80; b <<= 1 {
				bits--
			}
			body = append(append(body, byte(bits>>8), byte(bits)), half...)
		}
		p, err := packet.Read(bytes.NewReader(pgptest.Packet(2, body)))
		if err != nil {
			t.Fatal(err)
		}
		sig := p.(*packet.Signature)
		if err := e.PrimaryKey.VerifyUserIdSignature(name, e.PrimaryKey, sig); err != nil {
			t.Fatalf("the key that was signed by hand: %v", err)
		}
		id.SelfCertifications = []*packet.VerifiableSignature{packet.NewVerifiableSig(sig)}
	}
	return e
}

// A key of GnuPG 2.4 offers OCB in packets of type 20. That is not what RFC 9580
// means by AEAD, so such a key gets messages that every program reads.
func TestEncryptToGnuPG24(t *testing.T) {
	b := newBench(t)
	b.add("us", resigned(t, pgptest.NewEntity(t, "us", func(c *packet.Config) { c.Time = func() time.Time { return time.Now().Add(-time.Hour) } })))
	message := b.encrypt([]byte("content"), []string{"us"}, "us", pgpstream.EncryptOptions{})
	packets := packet.NewOpaqueReader(bytes.NewReader(message))
	var tags []uint8
	for {
		p, err := packets.Next()
		if err != nil {
			break
		}
		tags = append(tags, p.Tag)
		if p.Tag == 18 && p.Contents[0] != 1 {
			t.Errorf("the encrypted data are of version %d, which GnuPG can't read", p.Contents[0])
		}
	}
	if !bytes.Equal(tags, []byte{1, 18}) {
		t.Errorf("the message has the packets %v, want 1 and 18", tags)
	}
	got, out, err := b.decrypt(message, pgpstream.DecryptOptions{Signers: []string{"us"}})
	if err != nil || out.Signature.Status != pgpstream.StatusValid || string(got) != "content" {
		t.Errorf("%v, %v", out.Signature, err)
	}
}

// Keys of version 5, which GnuPG 2.4 makes when it is told to, are in no
// standard. They are refused with the reason.
func TestKeysOfVersion5(t *testing.T) {
	e := pgptest.NewEntity(t, "us", nil)
	var key bytes.Buffer
	if err := e.PrimaryKey.SerializeForHash(&key); err != nil {
		t.Fatal(err)
	}
	body := key.Bytes()[3:] // behind 0x99 and the length
	material := body[6:]
	v5 := append([]byte{5}, body[1:6]...)
	v5 = append(binary.BigEndian.AppendUint32(v5, uint32(len(material))), material...)
	_, err := pgpstream.ParseKey("us", pgptest.Packet(6, v5))
	if err == nil || !strings.Contains(err.Error(), "version 5") {
		t.Errorf("the error is %v, want one that says version 5", err)
	}
}
