package pgpstream_test

import (
	"bytes"
	"crypto"
	"errors"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier/internal/failure"
	"github.com/courierhq/courier/internal/pgpstream"
	"github.com/courierhq/courier/internal/test/pgptest"
)

// A hostileMessage is one that must not be decrypted, and what is said about it.
type hostileMessage struct {
	name, want string
	message    []byte
}

// hostileFrames are wrong outside of what is encrypted.
func hostileFrames(t *testing.T, us *openpgp.Entity) []hostileMessage {
	const damaged = "is damaged, cut short or was changed on its way: its integrity check does not hold"
	session, body := pgptest.SealPackets(t, us, pgptest.Literal(strings.Repeat("the content ", 1000)))
	whole := func(body []byte) []byte { return append(bytes.Clone(session), pgptest.Packet(18, body)...) }
	flip := func(at int) []byte {
		changed := bytes.Clone(body)
		changed[(at+len(body))%len(body)] ^= 0x40
		return whole(changed)
	}
	cut := func(n int) []byte { return whole(body)[:n] }
	head := len(session) + 6
	pieces := func(order ...int) []byte { // of 512 bytes, the last one the rest
		out := append(bytes.Clone(session), 0xC0|18)
		for _, i := range order {
			out = append(append(out, 0xE0|9), body[i*512:(i+1)*512]...)
		}
		rest := body[len(order)*512:]
		n := len(rest)
		return append(append(out, 255, byte(n>>24), byte(n>>16), byte(n>>8), byte(n)), rest...)
	}
	lie := func(by int) []byte {
		out := whole(body)
		n := len(body) + by
		copy(out[len(session)+1:], []byte{255, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
		return out
	}
	changedSession := bytes.Clone(whole(body))
	changedSession[len(session)-3] ^= 1
	return []hostileMessage{
		{"no MDC", "is not protected against changes", pgptest.WithoutMDC(t, us, []byte("hello"))},
		{"MDC cut off", damaged, whole(body[:len(body)-22])},
		{"MDC's hash cut off", damaged, whole(body[:len(body)-20])},
		{"MDC's hash changed", damaged, flip(-1)},
		{"MDC's type changed", damaged, flip(-22)},
		{"MDC's length changed", damaged, flip(-21)},
		{"version changed", "", flip(0)},
		{"first random byte changed", damaged, flip(1)},
		{"repeated random byte changed", damaged, flip(17)},
		{"type of the content changed", damaged, flip(19)},
		{"length of the content changed", damaged, flip(22)},
		{"content changed", damaged, flip(5000)},
		{"end of the content changed", damaged, flip(-23)},
		{"block left out", damaged, whole(append(bytes.Clone(body[:1+160]), body[1+176:]...))},
		{"blocks swapped", damaged, whole(append(append(append(bytes.Clone(body[:1+160]), body[1+176:1+192]...), body[1+160:1+176]...), body[1+192:]...))},
		{"session key changed", "its session key can't be opened", changedSession},
		{"session key of another cipher", damaged, append(pgptest.SessionKey(t, us, packet.CipherAES128, pgptest.Noise(16)[:15]), pgptest.Packet(18, body)...)},
		{"session key of another message", damaged, append(pgptest.SessionKey(t, us, packet.CipherAES256, pgptest.Noise(33)[1:]), pgptest.Packet(18, body)...)},
		{"cut in the session key", "is not an OpenPGP message, or is damaged", cut(len(session) / 2)},
		{"cut after the session key", "holds no encrypted data", cut(len(session))},
		{"cut in the length", "is not an OpenPGP message, or is damaged", cut(head - 2)},
		{"cut before the version", "is not an OpenPGP message, or is damaged", cut(head)},
		{"cut after the version", damaged, cut(head + 1)},
		{"cut in the random bytes", damaged, cut(head + 10)},
		{"cut after the random bytes", damaged, cut(head + 19)},
		{"cut in the content", damaged, cut(head + 6000)},
		{"cut before the MDC", damaged, cut(head + len(body) - 22)},
		{"cut before the last byte", damaged, cut(head + len(body) - 1)},
		{"piece left out", damaged, pieces(0, 2, 3)},
		{"pieces swapped", damaged, pieces(0, 2, 1)},
		{"piece twice", damaged, pieces(0, 1, 1, 2)},
		{"cut after a piece", damaged, pieces(0, 1, 2)[:len(session)+1+2*513]},
		{"cut in a piece", damaged, pieces(0, 1, 2)[:len(session)+1+2*513+100]},
		{"length too long", damaged, lie(1)},
		{"length much too long", damaged, lie(1 << 30)},
		{"length too short", damaged, lie(-1)},
		{"session key of 4 GiB", "is not an OpenPGP message, or is damaged", append([]byte{0xC1, 255, 255, 255, 255, 255}, session[2:]...)},
		{"1,001 recipients", "names more than 1000 recipients", append(bytes.Repeat(session, 1001), pgptest.Packet(18, body)...)},
		{"5 MiB before the data", "is not an OpenPGP message, or is damaged", append(pgptest.Packet(10, make([]byte, 5<<20)), whole(body)...)},
		{"followed by itself", "holds something besides one complete message", append(whole(body), whole(body)...)},
		{"followed by content", "holds something besides one complete message", append(whole(body), pgptest.Literal("more")...)},
		{"behind content", "is not encrypted", append(pgptest.Literal("more"), whole(body)...)},
		{"to nobody", "encrypted to nobody", pgptest.Packet(18, body)},
		{"garbage", "", append([]byte{0xFF}, pgptest.Noise(1<<16)...)},
		{"zeros", "is not an OpenPGP message, neither binary nor armored", make([]byte, 1<<20)},
		{"empty", "is empty", nil},
	}
}

// hostileContents are wrong inside, where the integrity check holds.
func hostileContents(t *testing.T, us, partner *openpgp.Entity) []hostileMessage {
	content := func(packets ...[]byte) []byte {
		session, body := pgptest.SealPackets(t, us, bytes.Join(packets, nil))
		return append(session, pgptest.Packet(18, body)...)
	}
	zeros := make([]byte, 1<<20)
	literal := pgptest.Literal("the content")
	many := func(p []byte, mib int) [][]byte {
		block := bytes.Repeat(p, 1<<20/len(p))
		all := make([][]byte, mib)
		for i := range all {
			all[i] = block
		}
		return all
	}
	long := append([][]byte{{0xC0 | 11, 255, 0x00, 0x50, 0, 0, 'b', 0, 0, 0, 0, 0}}, many(zeros, 5)...)
	name := append([][]byte{{0xC0 | 13, 255, 0x00, 0x50, 0, 0}}, many(zeros, 5)...)
	sig := append([][]byte{{0xC0 | 2, 255, 0x00, 0x50, 0, 0}}, many([]byte{4}, 5)...)
	unknown := append([][]byte{{0xC0 | 62, 255, 0x00, 0x50, 0, 0}}, many(zeros, 5)...)
	nested := literal
	for range 40 {
		nested = pgptest.Compressed(t, packet.CompressionZLIB, nested)
	}
	bomb := pgptest.Compressed(t, packet.CompressionZLIB, long...)
	broken := pgptest.Compressed(t, packet.CompressionZLIB, pgptest.Literal(strings.Repeat("the content ", 100)))
	broken[len(broken)/2] ^= 0x55
	again := func() []byte {
		session, body := pgptest.SealPackets(t, us, literal)
		return append(session, pgptest.Packet(18, body)...)
	}
	ops := &packet.OnePassSignature{Version: 3, Hash: crypto.SHA256, PubKeyAlgo: packet.PubKeyAlgoEdDSA, KeyId: partner.PrimaryKey.KeyId, IsLast: true}
	var one, several bytes.Buffer
	err := ops.Serialize(&one)
	ops.IsLast = false
	if err = errors.Join(err, ops.Serialize(&several)); err != nil {
		t.Fatal(err)
	}
	other, _ := pgptest.Signed(t, []byte("another content"), nil, partner)
	const wrong = "holds something"
	return []hostileMessage{
		{"nothing inside", wrong, content(nil)},
		{"only a marker inside", wrong, content([]byte("\xca\x03PGP"))},
		{"a key inside", wrong, content(pgptest.Public(t, partner))},
		{"garbage inside", wrong, content(pgptest.Noise(1000))},
		{"text inside", wrong, content([]byte("the content"))},
		{"two contents", wrong, content(literal, literal)},
		{"content after compressed content", wrong, content(pgptest.Compressed(t, packet.CompressionZLIB, literal), literal)},
		{"two compressed contents", wrong, content(pgptest.Compressed(t, packet.CompressionZIP, literal), pgptest.Compressed(t, packet.CompressionZIP, literal))},
		{"garbage after the content", wrong, content(literal, []byte("x"))},
		{"content that is longer than its packet", wrong, content(append(literal[:5:5], append([]byte{200}, literal[6:]...)...))},
		{"name that is longer than the content", wrong, content(pgptest.Packet(11, []byte("b\xffabc")))},
		{"encrypted twice", wrong, content(again())},
		{"no content in compressed data", wrong, content(pgptest.Compressed(t, packet.CompressionZLIB, nil))},
		{"unknown compression", "uses what is not supported", content(pgptest.Packet(8, []byte{99, 1, 2, 3}))},
		{"damaged compressed data", wrong, content(broken)},
		{"cut compressed data", wrong, content(pgptest.Packet(8, []byte{2, 0x78, 0x9c, 1, 2}))},
		{"40 layers", wrong, content(nested)},
		{"bomb, zlib", "MaxBytes", content(bomb)},
		{"bomb, zip", "MaxBytes", content(pgptest.Compressed(t, packet.CompressionZIP, long...))},
		{"bomb in a bomb", "MaxBytes", content(pgptest.Compressed(t, packet.CompressionZIP, bomb))},
		{"bomb of markers", "too many tiny packets", content(pgptest.Compressed(t, packet.CompressionZLIB, many([]byte("\xca\x03PGP"), 3)...))},
		{"bomb of a name", "", content(pgptest.Compressed(t, packet.CompressionZLIB, name...))},
		{"bomb of a signature", "", content(pgptest.Compressed(t, packet.CompressionZLIB, sig...))},
		{"bomb of an unknown packet", "", content(pgptest.Compressed(t, packet.CompressionZLIB, unknown...))},
		{"bomb of signatures", "has more than 32 signatures", content(pgptest.Compressed(t, packet.CompressionZLIB, bytes.Repeat(several.Bytes(), 10_000)))},
		{"signature left out", wrong, content(one.Bytes(), literal)},
		{"signature of another content", "does not fit the content", content(one.Bytes(), literal, other)},
		{"signature before another content", "does not fit the content", content(other, literal)},
	}
}

// hostileArmors are wrong in how they are written as text.
func hostileArmors(t *testing.T, us *openpgp.Entity) []hostileMessage {
	text := string(pgptest.Armor(t, pgptest.Seal(t, []byte("the content"), us, nil)))
	last := strings.Index(text, "-----END")
	return []hostileMessage{
		{"armor of a key", "is a PGP PUBLIC KEY BLOCK, not", pgptest.ArmorAs(t, "PGP PUBLIC KEY BLOCK", pgptest.Public(t, us))},
		{"armor of a private key", "is a PGP PRIVATE KEY BLOCK, not", pgptest.ArmorAs(t, "PGP PRIVATE KEY BLOCK", pgptest.Private(t, us))},
		{"armor of a signature", "is a PGP SIGNATURE, not", []byte(strings.ReplaceAll(text, "PGP MESSAGE", "PGP SIGNATURE"))},
		{"clearsigned text", "is a PGP SIGNED MESSAGE, not", []byte("-----BEGIN PGP SIGNED MESSAGE-----\n\na\n" + text)},
		{"armor that is called a message", "is a key, not a message", pgptest.Armor(t, pgptest.Public(t, us))},
		{"last line of another armor", "", []byte(strings.Replace(text, "END PGP MESSAGE", "END PGP SIGNATURE", 1))},
		{"no last line", "the last line of its armor is missing", []byte(text[:last])},
		{"cut in the armor", "the last line of its armor is missing", []byte(text[:last/2])},
		{"no base64", "characters that are not base64", []byte(strings.Replace(text, "\n\n", "\n\n!!!!", 1))},
		{"character left out", "in the middle of a group", []byte(strings.Replace(text, "\n=", "A\n=", 1))},
		{"endless header", "header of its armor does not end", []byte("-----BEGIN PGP MESSAGE-----\n" + strings.Repeat("Comment: a\n", 100_000))},
		{"endless line", "", []byte("-----BEGIN PGP MESSAGE-----\n\n" + strings.Repeat("yv8A", 1<<20))},
		{"empty armor", "holds no encrypted data", []byte("-----BEGIN PGP MESSAGE-----\n\n-----END PGP MESSAGE-----\n")},
		{"two armors", "something after the end of the message", []byte(text + text)},
		{"text after the armor", "something after the end of the message", []byte(text + "and more")},
	}
}

// hostileSignatures are decrypted well and not signed as they must be.
func hostileSignatures(t *testing.T, b *bench, us, partner *openpgp.Entity) []hostileMessage {
	expired := b.add("expired", pgptest.NewEntity(t, "expired", func(c *packet.Config) { c.Time, c.KeyLifetimeSecs = pgptest.Past(48*time.Hour), 3600 }))
	revoked := pgptest.NewEntity(t, "revoked", nil)
	byRevoked := pgptest.SignedBy(t, us, nil, revoked)
	if err := revoked.Revoke(packet.KeyCompromised, "", nil); err != nil {
		t.Fatal(err)
	}
	b.add("revoked", revoked)
	aead := pgptest.NewEntity(t, "aead", func(c *packet.Config) { c.AEADConfig = &packet.AEADConfig{} })
	b.add("aead", aead)
	sealed := pgptest.Seal(t, pgptest.Noise(1<<20), aead, &openpgp.EncryptParams{Signers: []*openpgp.Entity{partner}})
	flip := func(at int) []byte {
		changed := bytes.Clone(sealed)
		changed[(at+len(sealed))%len(sealed)] ^= 1
		return changed
	}
	return []hostileMessage{
		{"not signed", "it is not signed", pgptest.Seal(t, []byte("the content"), us, nil)},
		{"signed by somebody else", "which is not among", pgptest.SignedBy(t, us, nil, us)},
		{"signed by a stranger", "which is not among", pgptest.SignedBy(t, us, nil, pgptest.NewEntity(t, "stranger", nil))},
		{"signed under a false name", "does not fit the content", pgptest.SignedBy(t, us, nil, pgptest.Forgery(partner))},
		{"signed by an expired key", "expired on ", pgptest.SignedBy(t, us, pgptest.Past(47*time.Hour+30*time.Minute), expired)},
		{"signed by a revoked key", "is revoked", byRevoked},
		{"signed with a weak key", "is held together by SHA-1", pgptest.SignedBy(t, us, nil, b.add("weak", pgptest.SHA1Key(t)))},
		{"signed tomorrow", "not yet valid", pgptest.SignedBy(t, us, pgptest.Past(-24*time.Hour), partner)},
		{"signed for somebody else", "does not fit", signedFor(t, us, partner)},
		{"AEAD, content changed", "is damaged", flip(500_000)},
		{"AEAD, salt changed", "is damaged", flip(200)},
		{"AEAD, tag changed", "is damaged", flip(-1)},
		{"AEAD, cut", "is damaged", sealed[:len(sealed)/2]},
	}
}

// signedFor is a message to a key that was signed for another one, and passed on.
func signedFor(t *testing.T, to, by *openpgp.Entity) []byte {
	t.Helper()
	message := pgptest.SignedBy(t, by, nil, by) // for its signer itself
	p := packet.NewReader(bytes.NewReader(message))
	first, err := p.Next()
	if err != nil {
		t.Fatal(err)
	}
	sub, _ := by.EncryptionKey(time.Now(), nil)
	for _, k := range by.Subkeys {
		if bytes.Equal(k.PublicKey.Fingerprint, sub.PublicKey.Fingerprint) {
			err = first.(*packet.EncryptedKey).Decrypt(k.PrivateKey, nil)
		}
	}
	second, err2 := p.Next()
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	key := first.(*packet.EncryptedKey)
	r, err := second.(*packet.SymmetricallyEncrypted).Decrypt(key.CipherFunc, key.Key)
	if err != nil {
		t.Fatal(err)
	}
	var packets bytes.Buffer
	if _, err := packets.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	session, body := pgptest.SealPackets(t, to, packets.Bytes())
	return append(session, pgptest.Packet(18, body)...)
}

// TestHostileMessages decrypts messages that are made to do harm: each fails
// with words that tell what is wrong, and takes little memory and time.
func TestHostileMessages(t *testing.T) {
	b := newBench(t)
	us, partner := b.key("us"), b.key("partner")
	corpus := append(hostileFrames(t, us), hostileContents(t, us, partner)...)
	corpus = append(append(corpus, hostileArmors(t, us)...), hostileSignatures(t, b, us, partner)...)
	if len(corpus) < 40 {
		t.Errorf("there are only %d messages", len(corpus))
	}
	for _, c := range corpus {
		t.Run(c.name, func(t *testing.T) {
			b.TB = t
			o := pgpstream.DecryptOptions{MaxBytes: 1 << 20}
			if strings.Contains(c.name, "signed by s") {
				o.Signers = []string{"partner"}
			}
			var found pgpstream.Decrypted
			var err error
			start := time.Now()
			most := heapOf(func() { _, found, err = b.decrypt(c.message, o) })
			if status := found.Signature.Status; err == nil && (status == pgpstream.StatusInvalid || strings.Contains(c.name, "signed") && status != pgpstream.StatusValid) {
				err = errors.New("was decrypted, but " + found.Signature.Problem)
			} else if err != nil {
				isMessageError(t, err)
			}
			wantError(t, err, c.want)
			if text := err.Error(); len(text) < 8 || strings.Contains(text, "openpgp") || strings.Contains(text, "EOF") || len(text) > 1000 {
				t.Errorf("error = %q", text)
			}
			if most > 32<<20 {
				t.Errorf("%d KiB of memory", most>>10)
			}
			if d := time.Since(start); d > 20*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
}

// isMessageError fails unless err is about the message, or says that no key opens it.
func isMessageError(t *testing.T, err error) {
	t.Helper()
	_, message := errors.AsType[pgpstream.MessageError](err)
	_, key := errors.AsType[pgpstream.KeyError](err)
	if !message && (!key || !failure.IsPermanent(err)) {
		t.Errorf("the error is a %T: %v", err, err)
	}
}

// heapOf returns by how much the heap grows while f runs.
func heapOf(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before, most := m.HeapAlloc, m.HeapAlloc
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
		}
	}()
	f()
	close(stop)
	<-done
	return most - before
}
