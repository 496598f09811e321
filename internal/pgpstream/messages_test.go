package pgpstream_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

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

	for name, hash := range map[string]byte{"MD5": 1, "unknown": 99} {
		onePass := pgptest.Packet(4, []byte{3, 0, hash, 1, 1, 2, 3, 4, 5, 6, 7, 8, 1})
		signature := pgptest.Packet(2, []byte{4, 0, 1, hash, 0, 0, 0, 0, 9, 9, 0, 8, 255})
		session, sealed := pgptest.SealPackets(t, us, slices.Concat(onePass, pgptest.Literal("x"), signature))
		_, out, err := b.decrypt(slices.Concat(session, pgptest.Packet(18, sealed)), pgpstream.DecryptOptions{})
		if err != nil || out.Signature.Status != pgpstream.StatusUnsafe || !strings.Contains(out.Signature.Problem, "can't be verified") {
			t.Errorf("%s: %+v, %v", name, out.Signature, err)
		}
		_, found, err := b.verify(slices.Concat(onePass, pgptest.Literal("x"), signature), nil)
		if err != nil || found.Status != pgpstream.StatusUnsafe {
			t.Errorf("%s, not encrypted: %+v, %v", name, found, err)
		}
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
