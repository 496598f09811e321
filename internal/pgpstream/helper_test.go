package pgpstream_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier/internal/pgpstream"
	"github.com/courierhq/courier/internal/test/pgptest"
)

// A bench has keys, with which it calls the functions of the package on messages in
// memory.
type bench struct {
	testing.TB
	keys keySource
}

func newBench(t testing.TB) *bench { return &bench{TB: t, keys: make(keySource)} }

// A keySource has keys by name.
type keySource map[string]testKey

type testKey struct {
	data       []byte
	passphrase string
}

func (s keySource) Key(_ context.Context, id string) (*pgpstream.Key, error) {
	if k, ok := s[id]; ok {
		return pgpstream.ParseKey(id, k.data)
	}
	for _, k := range s {
		key, err := pgpstream.ParseKey(id, k.data)
		if err != nil {
			return nil, err
		}
		if key.Fingerprint() == id || slices.Contains(key.IDs(), id) {
			return key, nil
		}
	}
	return nil, fmt.Errorf("key %q: %w", id, pgpstream.ErrUnknownKey)
}

func (s keySource) Unlock(_ context.Context, key *pgpstream.Key) (*pgpstream.Key, error) {
	for _, k := range s {
		if same, err := pgpstream.ParseKey("", k.data); err == nil && same.Fingerprint() == key.Fingerprint() {
			return key.Unlock([]byte(k.passphrase))
		}
	}
	return nil, pgpstream.ErrUnknownKey
}

// key makes a key and adds it under a name.
func (b *bench) key(name string) *openpgp.Entity {
	b.Helper()
	return b.add(name, pgptest.NewEntity(b, name, nil))
}

func (b *bench) add(name string, e *openpgp.Entity) *openpgp.Entity {
	b.Helper()
	b.keys[name] = testKey{data: pgptest.Private(b, e)}
	return e
}

// addFrom adds a key that GnuPG exports, locked as it is.
func (b *bench) addFrom(g *pgptest.GnuPG, name string, secret bool) {
	b.Helper()
	k := testKey{data: g.Run(nil, "--armor", "--export", name)}
	if secret {
		k = testKey{data: g.Run(nil, "--export-secret-keys", name), passphrase: g.Passphrase}
	}
	b.keys[name] = k
}

// unlocked returns a key that is ready for use.
func (b *bench) unlocked(name string) *pgpstream.Key {
	b.Helper()
	key, err := b.keys.Key(b.Context(), name)
	if err == nil && key.Locked() {
		key, err = b.keys.Unlock(b.Context(), key)
	}
	if err != nil {
		b.Fatal(err)
	}
	return key
}

// encrypt encrypts to keys, and signs with one unless signer is empty.
func (b *bench) encrypt(content []byte, to []string, signer string, o pgpstream.EncryptOptions) []byte {
	b.Helper()
	for _, name := range to {
		o.Recipients = append(o.Recipients, b.unlocked(name))
	}
	if signer != "" {
		o.Signer = b.unlocked(signer)
	}
	var out bytes.Buffer
	if err := pgpstream.Encrypt(b.Context(), &out, bytes.NewReader(content), o); err != nil {
		b.Fatalf("encrypt: %v", err)
	}
	return out.Bytes()
}

// decrypt returns the content only if there is no error.
func (b *bench) decrypt(message []byte, o pgpstream.DecryptOptions) ([]byte, pgpstream.Decrypted, error) {
	b.Helper()
	o.Keys = b.keys
	d, err := pgpstream.NewDecrypter(b.Context(), bytes.NewReader(message), o)
	if err != nil {
		return nil, pgpstream.Decrypted{}, err
	}
	defer d.Close()
	var content bytes.Buffer
	found, err := d.Decrypt(b.Context(), &content)
	if err != nil {
		return nil, found, err
	}
	return content.Bytes(), found, nil
}

// sign signs content in one of the forms.
func (b *bench) sign(content []byte, name string, f signForm) []byte {
	b.Helper()
	var out bytes.Buffer
	if _, err := pgpstream.Sign(b.Context(), &out, bytes.NewReader(content), pgpstream.SignOptions{Key: b.unlocked(name), Form: f.form, Armor: f.armor}); err != nil {
		b.Fatalf("sign %+v: %v", f, err)
	}
	return out.Bytes()
}

// verify verifies a signed message, or content with a detached signature. It returns
// the content of a message.
func (b *bench) verify(signed, signature []byte) ([]byte, pgpstream.Signature, error) {
	b.Helper()
	o := pgpstream.VerifyOptions{Keys: b.keys}
	if signature != nil {
		found, _, err := pgpstream.VerifyDetached(b.Context(), bytes.NewReader(signed), bytes.NewReader(signature), o)
		return signed, found, err
	}
	var content bytes.Buffer
	found, size, err := pgpstream.Verify(b.Context(), &content, bytes.NewReader(signed), o)
	if err == nil && found.Status == pgpstream.StatusValid && size < int64(content.Len()) {
		b.Errorf("the signature covers %d bytes of %d", size, content.Len())
	}
	return content.Bytes(), found, err
}

// A signForm is a form of a signed file.
type signForm struct {
	form  pgpstream.SignatureForm
	armor bool
}

var signForms = []signForm{
	{pgpstream.Detached, false}, {pgpstream.Detached, true}, {pgpstream.Inline, false}, {pgpstream.Inline, true}, {pgpstream.Clearsign, true},
}

// wantError fails unless err says all of texts.
func wantError(t testing.TB, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", texts)
	}
	for _, s := range texts {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error = %q, want %q in it", err, s)
		}
	}
}
