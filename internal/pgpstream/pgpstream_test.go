package pgpstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/courierhq/courier/internal/failure"
	"github.com/courierhq/courier/internal/pgpstream"
	"github.com/courierhq/courier/internal/test/pgptest"
)

// TestRoundTrip encrypts with all options and decrypts again.
func TestRoundTrip(t *testing.T) {
	b := newBench(t)
	us, partner := b.key("us"), b.key("partner")
	aead := b.add("aead", pgptest.NewEntity(t, "aead", func(c *packet.Config) { c.AEADConfig = &packet.AEADConfig{} }))
	for i, size := range []int{0, 1, 1 << 16, 700_000} {
		content := pgptest.Noise(size)
		for _, o := range []pgpstream.EncryptOptions{
			{}, {Armor: true}, {Compression: pgpstream.ZIP}, {Compression: pgpstream.ZLIB, Armor: true}, {NoAEAD: true},
		} {
			to := [][]string{{"us"}, {"partner", "us"}, {"aead"}}[i%3]
			for _, signer := range []string{"", "partner"} {
				var done, read int64
				o.Progress = func(n int64) { done = n }
				message := b.encrypt(content, to, signer, o)
				if done != int64(size) {
					t.Errorf("%d bytes: progress ended at %d", size, done)
				}
				got, found, err := b.decrypt(message, pgpstream.DecryptOptions{Progress: func(n int64) { read = n }})
				if err != nil || !bytes.Equal(got, content) || found.Size != int64(size) || found.Name != "" {
					t.Fatalf("%d bytes, %+v: %d bytes are read, %+v, %v", size, o, len(got), found, err)
				}
				if size > 0 && (read == 0 || read > int64(len(message))) {
					t.Errorf("%d bytes: progress ended at %d of %d", size, read, len(message))
				}
				want := pgpstream.StatusUnsigned
				if signer != "" {
					want = pgpstream.StatusValid
				}
				if s := found.Signature; s.Status != want || signer != "" && (s.Signers[0] != pgptest.Fingerprint(partner) || time.Since(s.Time) > time.Minute || s.Problem != "") {
					t.Errorf("%d bytes, signed by %q: %+v", size, signer, s)
				}
			}
		}
	}
	_, found, err := b.decrypt(pgptest.SignedBy(t, us, nil, aead), pgpstream.DecryptOptions{IgnoreSignatures: true})
	if err != nil || found.Signature.Status != pgpstream.StatusNotChecked {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestSignatures signs in all forms and verifies, and says whose signatures count.
func TestSignatures(t *testing.T) {
	b := newBench(t)
	partner := b.key("partner")
	content := []byte("first line\n- dash\nlast line\n")
	for _, f := range signForms {
		signed, signature := b.sign(content, "partner", f), []byte(nil)
		if f.form == pgpstream.Detached {
			signed, signature = content, signed
		}
		got, found, err := b.verify(signed, signature)
		if err != nil || found.Status != pgpstream.StatusValid || found.Signers[0] != pgptest.Fingerprint(partner) || !bytes.Equal(got, content) {
			t.Errorf("%+v: %q, %+v, %v", f, got, found, err)
		}
	}
	b.key("other")
	signed := b.sign(content, "partner", signForm{form: pgpstream.Inline})
	verify := func(signers ...string) (pgpstream.Signature, error) {
		found, _, err := pgpstream.Verify(t.Context(), io.Discard, bytes.NewReader(signed), pgpstream.VerifyOptions{Keys: b.keys, Signers: signers})
		return found, err
	}
	if found, err := verify("other"); err != nil || found.Status != pgpstream.StatusUnknownSigner || !strings.Contains(found.Problem, "not among Signers (other)") {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := verify("nobody"); !errors.Is(err, pgpstream.ErrUnknownKey) || !failure.IsPermanent(err) {
		t.Errorf("an unknown signer: %v", err)
	}
}

// failingSource is a key source that can't be reached.
type failingSource struct{ error }

func (s failingSource) Key(context.Context, string) (*pgpstream.Key, error) { return nil, s.error }
func (s failingSource) Unlock(context.Context, *pgpstream.Key) (*pgpstream.Key, error) {
	return nil, s.error
}

// TestErrors expects errors of the kinds that the documentation promises.
func TestErrors(t *testing.T) {
	b := newBench(t)
	b.key("us")
	stranger := pgptest.NewEntity(t, "stranger", nil)
	message := b.encrypt([]byte("content"), []string{"us"}, "us", pgpstream.EncryptOptions{})
	open := func(message []byte, keys pgpstream.KeySource) error {
		d, err := pgpstream.NewDecrypter(t.Context(), bytes.NewReader(message), pgpstream.DecryptOptions{Keys: keys})
		d.Close()
		return err
	}
	_, isKeyError := errors.AsType[pgpstream.KeyError](open(pgptest.Seal(t, nil, stranger, nil), b.keys))
	if !isKeyError {
		t.Error("a message to a stranger is no KeyError")
	}
	shut := errors.New("the vault is shut")
	if err := open(message, failingSource{shut}); !errors.Is(err, shut) || failure.IsPermanent(err) {
		t.Errorf("a source that fails: %v", err)
	}
	_, _, err := b.verify(message, nil)
	if _, ok := errors.AsType[pgpstream.MessageError](err); !ok || !errors.Is(err, pgpstream.ErrEncrypted) {
		t.Errorf("an encrypted message is verified: %v", err)
	}
	_, _, err = b.verify([]byte("content"), []byte("no signature"))
	if _, ok := errors.AsType[pgpstream.MessageError](err); !ok || !errors.Is(err, pgpstream.ErrInSignature) {
		t.Errorf("a file as a signature: %v", err)
	}
	broken := errors.New("the reader broke")
	err = pgpstream.Encrypt(t.Context(), io.Discard, iotest.ErrReader(broken), pgpstream.EncryptOptions{Recipients: []*pgpstream.Key{b.unlocked("us")}})
	if err != broken {
		t.Errorf("a reader that fails: %v", err)
	}
	full := errors.New("the disk is full")
	large := pgptest.Noise(4 << 20) // more than is buffered
	err = pgpstream.Encrypt(t.Context(), failingWriter{full}, bytes.NewReader(large), pgpstream.EncryptOptions{Recipients: []*pgpstream.Key{b.unlocked("us")}})
	if !errors.Is(err, full) || !strings.HasPrefix(err.Error(), "output: ") {
		t.Errorf("encrypting to a writer that fails: %v", err)
	}
	text := bytes.Repeat([]byte("a line\n"), 1<<16)
	for _, f := range []pgpstream.SignatureForm{pgpstream.Inline, pgpstream.Clearsign} {
		_, err = pgpstream.Sign(t.Context(), failingWriter{full}, bytes.NewReader(text), pgpstream.SignOptions{Key: b.unlocked("us"), Form: f})
		if !errors.Is(err, full) || strings.Count(err.Error(), "output: ") != 1 {
			t.Errorf("signing to a writer that fails: %v", err)
		}
	}
	_, err = pgpstream.Sign(t.Context(), io.Discard, strings.NewReader("no\x00text"), pgpstream.SignOptions{Key: b.unlocked("us"), Form: pgpstream.Clearsign})
	if _, ok := errors.AsType[pgpstream.MessageError](err); !ok {
		t.Errorf("binary content is clearsigned: %v", err)
	}
	d, err := pgpstream.NewDecrypter(t.Context(), bytes.NewReader(message), pgpstream.DecryptOptions{Keys: b.keys})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Decrypt(t.Context(), failingWriter{full}); !errors.Is(err, full) || !strings.HasPrefix(err.Error(), "output: ") {
		t.Errorf("a writer that fails: %v", err)
	}
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	if _, err := pgpstream.NewDecrypter(ctx, bytes.NewReader(message), pgpstream.DecryptOptions{Keys: b.keys}); err != reason {
		t.Errorf("a context that has ended: %v", err)
	}
}

type failingWriter struct{ error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.error }

// TestUnlock unlocks a key, and uses it where it was not unlocked.
func TestUnlock(t *testing.T) {
	e := pgptest.NewEntity(t, "us", nil)
	if err := e.EncryptPrivateKeys([]byte("right"), nil); err != nil {
		t.Fatal(err)
	}
	locked, err := pgpstream.ParseKey("us", pgptest.Private(t, e))
	if err != nil || !locked.Locked() || !locked.HasPrivate() {
		t.Fatalf("%v, %v", locked, err)
	}
	if _, err := locked.Unlock([]byte("wrong")); err != pgpstream.ErrPassphrase {
		t.Errorf("a wrong passphrase: %v", err)
	}
	key, err := locked.Unlock([]byte("right"))
	if err != nil || key.Locked() || key.Fingerprint() != pgptest.Fingerprint(e) || key.Name() != "us" {
		t.Fatalf("%v, %v", key, err)
	}
	if _, err := pgpstream.Sign(t.Context(), io.Discard, strings.NewReader("content"), pgpstream.SignOptions{Key: key}); err != nil {
		t.Error(err)
	}
}

func ExampleEncrypt() {
	key, err := pgpstream.GenerateKey("Example Ltd", "files@example.com")
	if err != nil {
		fmt.Println(err)
		return
	}
	var message bytes.Buffer
	err = pgpstream.Encrypt(context.Background(), &message, strings.NewReader("content"), pgpstream.EncryptOptions{
		Recipients: []*pgpstream.Key{key}, Armor: true,
	})
	fmt.Println(strings.SplitN(message.String(), "\n", 2)[0], err)
	// Output: -----BEGIN PGP MESSAGE----- <nil>
}
