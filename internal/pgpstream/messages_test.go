package pgpstream_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/courierhq/courier/internal/pgpstream"
	"github.com/courierhq/courier/internal/test/pgptest"
)

// TestSaysWhatItIs has messages of which the error names what is not supported.
func TestSaysWhatItIs(t *testing.T) {
	b := newBench(t)
	us := b.key("us")
	session, _ := pgptest.SealPackets(t, us, pgptest.Literal("x"))
	aead := pgptest.Packet(20, append([]byte{1, 9, 2, 21}, bytes.Repeat([]byte{7}, 60)...))
	_, _, err := b.decrypt(append(bytes.Clone(session), aead...), pgpstream.DecryptOptions{})
	wantError(t, err, "chunk", "4 MiB")
	v2 := pgptest.Packet(18, append([]byte{2, 9, 2, 21}, bytes.Repeat([]byte{7}, 80)...))
	_, _, err = b.decrypt(append(bytes.Clone(session), v2...), pgpstream.DecryptOptions{})
	wantError(t, err, "chunk", "4 MiB")

	for want, body := range map[string][]byte{
		"an AEAD mode other than EAX and OCB": append([]byte{1, 9, 9, 6}, bytes.Repeat([]byte{7}, 60)...),
		"the cipher 99":                       append([]byte{1, 99, 2, 6}, bytes.Repeat([]byte{7}, 60)...),
	} {
		_, _, err = b.decrypt(slices.Concat(session, pgptest.Packet(20, body)), pgpstream.DecryptOptions{})
		wantError(t, err, "uses what is not supported: "+want, "its sender must")
	}
	for want, body := range map[string][]byte{
		"aead mode: 9":    {2, 9, 9, 6},
		"aead cipher: 99": {2, 99, 2, 6},
		"version":         {3, 9, 2, 6},
	} {
		_, _, err = b.decrypt(slices.Concat(session, pgptest.Packet(18, append(body, bytes.Repeat([]byte{7}, 80)...))), pgpstream.DecryptOptions{})
		wantError(t, err, "uses what is not supported: ", want, "its sender must")
	}
	_, sealed := pgptest.SealPackets(t, us, pgptest.Literal("x"))
	odd := pgptest.Packet(1, []byte{9, 1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 8, 255})
	_, _, err = b.decrypt(slices.Concat(odd, pgptest.Packet(18, sealed)), pgpstream.DecryptOptions{})
	wantError(t, err, "it is encrypted in a way that is not supported (unknown EncryptedKey version 9)")
}

// TestUnreadableSignatures has signatures that the library leaves out, in messages of all
// forms: none of them counts for a message that is not signed.
func TestUnreadableSignatures(t *testing.T) {
	b := newBench(t)
	us := b.key("us")
	aead := func(packets []byte) []byte {
		key := pgptest.Noise(32)
		sub, _ := us.EncryptionKey(time.Now(), nil)
		var out bytes.Buffer
		err := packet.SerializeEncryptedKeyAEAD(&out, sub.PublicKey, packet.CipherAES256, true, key, nil)
		if err != nil {
			t.Fatal(err)
		}
		w, err := packet.SerializeSymmetricallyEncrypted(&out, packet.CipherAES256, true, packet.CipherSuite{Cipher: packet.CipherAES256, Mode: packet.AEADModeOCB}, key, &packet.Config{AEADConfig: &packet.AEADConfig{}})
		if err == nil {
			_, err = w.Write(packets)
		}
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	of := func(version, algorithm, hash byte) (onePass, signature []byte) {
		return pgptest.Packet(4, []byte{version, 0, hash, algorithm, 1, 2, 3, 4, 5, 6, 7, 8, 1}), pgptest.Packet(2, []byte{version + 1, 0, algorithm, hash, 0, 0, 0, 0, 9, 9, 0, 8, 255})
	}
	for _, c := range []struct {
		want                     string
		version, algorithm, hash byte
	}{
		{"the hash function MD5", 3, 1, 1},
		{"the hash function RIPEMD-160", 3, 1, 3},
		{"the hash function 99", 3, 1, 99},
		{"packet version ", 8, 1, 8},
	} {
		onePass, signature := of(c.version, c.algorithm, c.hash)
		check := func(form string, found pgpstream.Signature, err error) {
			t.Helper()
			if err != nil || found.Status != pgpstream.StatusUnsafe || !strings.Contains(found.Problem, c.want) {
				t.Errorf("%s, %s: %+v, %v", c.want, form, found, err)
			}
		}
		for form, packets := range map[string][]byte{
			"one pass":           slices.Concat(onePass, pgptest.Literal("x"), signature),
			"signature in front": slices.Concat(signature, pgptest.Literal("x")),
			"compressed":         pgptest.Compressed(t, packet.CompressionZIP, onePass, pgptest.Literal("x"), signature),
		} {
			session, sealed := pgptest.SealPackets(t, us, packets)
			_, out, err := b.decrypt(slices.Concat(session, pgptest.Packet(18, sealed)), pgpstream.DecryptOptions{})
			check(form, out.Signature, err)
			content, out, err := b.decrypt(aead(packets), pgpstream.DecryptOptions{})
			check(form+", AEAD", out.Signature, err)
			if string(content) != "x" {
				t.Errorf("%s, AEAD: content %q", form, content)
			}
			_, found, err := b.verify(packets, nil)
			check(form+", not encrypted", found, err)
		}
		_, found, err := b.verify([]byte("x"), signature)
		check("detached", found, err)
		text := "-----BEGIN PGP SIGNED MESSAGE-----\n\nx\n" + string(pgptest.ArmorAs(t, "PGP SIGNATURE", signature))
		content, found, err := b.verify([]byte(text), nil)
		check("clearsigned", found, err)
		if string(content) != "x\n" {
			t.Errorf("clearsigned: content %q", content)
		}
		good := b.sign([]byte("x"), "us", signForm{form: pgpstream.Detached})
		if _, found, err := b.verify([]byte("x"), slices.Concat(signature, good)); err != nil || found.Status != pgpstream.StatusValid {
			t.Errorf("%s, beside a good one: %+v, %v", c.want, found, err)
		}
	}
	_, _, err := b.verify([]byte("x"), pgptest.Packet(10, []byte("PGP")))
	wantError(t, err, "holds no signature")
	_, out, err := b.decrypt(aead(pgptest.Literal("x")), pgpstream.DecryptOptions{})
	if err != nil || out.Signature.Status != pgpstream.StatusUnsigned {
		t.Errorf("not signed: %+v, %v", out.Signature, err)
	}

	// The packet in front says that there is a signature, and the library leaves it out.
	inline := b.sign([]byte("x"), "us", signForm{form: pgpstream.Inline})
	var packets [][]byte
	for in := packet.NewOpaqueReader(bytes.NewReader(inline)); ; {
		p, err := in.Next()
		if err != nil {
			break
		}
		packets = append(packets, pgptest.Packet(p.Tag, p.Contents))
	}
	old := pgptest.Packet(2, []byte{3, 5, 0, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 1, 8, 9, 9, 0, 8, 255}) // version 3
	_, found, err := b.verify(slices.Concat(packets[0], packets[1], old), nil)
	if err != nil || found.Status != pgpstream.StatusUnsafe || !strings.Contains(found.Problem, "an old version") {
		t.Errorf("version 3: %+v, %v", found, err)
	}
}

// TestNestedLimitIsNamed has a message in which compressed data in others unpack to more
// than is allowed: the error names the limit and the setting.
func TestNestedLimitIsNamed(t *testing.T) {
	b := newBench(t)
	us := b.key("us")
	inner := pgptest.Compressed(t, packet.CompressionZIP, pgptest.Literal(strings.Repeat("x", 40<<20)))
	session, sealed := pgptest.SealPackets(t, us, pgptest.Compressed(t, packet.CompressionZIP, inner))
	_, _, err := b.decrypt(slices.Concat(session, pgptest.Packet(18, sealed)), pgpstream.DecryptOptions{Settings: pgpstream.SettingNames{MaxBytes: "max_bytes"}})
	wantError(t, err, "33554432", "max_bytes")
}
