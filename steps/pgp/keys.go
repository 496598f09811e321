package pgp

import (
	"bufio"
	"bytes"
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
)

// Keys hands out OpenPGP keys. A host application implements it on top of its
// vault; [Keyring] is a ready form in memory. It is called by several
// goroutines. A key that was found stays with the execution, so that a loop over
// many files asks for it once.
type Keys interface {
	// Key returns the key that goes by id: a name of the host's choice, a
	// fingerprint (40 or 64 hexadecimal digits), or a key id (16 digits) if
	// only one key fits. A step asks for a key id if its configuration leaves
	// the key open and a message names it; the key ids and fingerprints of
	// subkeys count then too. An implementation that knows keys by name alone
	// answers the others with the error for an unknown key.
	//
	// The error for an unknown key matches [courier.ErrNotFound] and says
	// which ids come near; other errors are taken to be passing ones.
	Key(ctx context.Context, id string) (Key, error)
}

// A Key is one OpenPGP key, public or private. Formatting it shows its
// fingerprint and never the key itself.
type Key struct {
	// Data is the key with its subkeys, armored or binary. It holds exactly
	// one key. Nobody changes it.
	Data []byte `json:"-"`
	// Passphrase is the name of the secret that unlocks the private key, as
	// the engine's Secrets know it; empty if the key isn't locked.
	Passphrase string
}

// GenerateKey makes a private key that is not locked: Ed25519 for signatures
// and Curve25519 for encryption, which GnuPG can read since version 2.1. It
// suits tests, examples and first steps. The key never expires.
func GenerateKey(name, email string) (Key, error) {
	e, err := openpgp.NewEntity(name, "", email, &packet.Config{
		Algorithm: packet.PubKeyAlgoEdDSA, Curve: packet.Curve25519,
		DefaultHash: crypto.SHA256, DefaultCipher: packet.CipherAES256,
		DefaultCompressionAlgo: packet.CompressionZLIB,
	})
	if err != nil {
		return Key{}, fmt.Errorf("generate key: %w", err)
	}
	data, err := armored(e, true)
	return Key{Data: data}, err
}

// Public returns the public part of the key, with armored Data, which can be
// sent to partners.
func (k Key) Public() (Key, error) {
	e, err := parseKey(k.Data)
	if err != nil {
		return Key{}, err
	}
	data, err := armored(e, false)
	return Key{Data: data}, err
}

// Fingerprint returns the fingerprint of the key, in upper case. It names the
// key and can't be forged.
func (k Key) Fingerprint() (string, error) {
	e, err := parseKey(k.Data)
	if err != nil {
		return "", err
	}
	return fingerprint(e.PrimaryKey), nil
}

// Format writes the key's fingerprint, whatever the verb.
func (k Key) Format(f fmt.State, _ rune) {
	fp, err := k.Fingerprint()
	if err != nil {
		fp = "invalid"
	}
	fmt.Fprintf(f, "pgp.Key(%s)", fp)
}

func fingerprint(k *packet.PublicKey) string { return fmt.Sprintf("%X", k.Fingerprint) }

// keyID writes a 64-bit key id the way people and GnuPG do.
func keyID(id uint64) string { return fmt.Sprintf("%016X", id) }

// parseKey reads the only key that data holds. Each caller gets an entity of
// its own: the library notes in it what it has verified and unlocked.
func parseKey(data []byte) (*openpgp.Entity, error) {
	list, err := parseKeys(data)
	switch {
	case err != nil:
		return nil, err
	case len(list) != 1:
		return nil, fmt.Errorf("the data holds %d keys; it must hold one", len(list))
	}
	return list[0], nil
}

// parseKeys reads all keys in data, armored or binary. Its errors say nothing
// about the content.
func parseKeys(data []byte) (openpgp.EntityList, error) {
	const keybox = "KBXf" // at offset 8
	data = bytes.TrimPrefix(data, []byte(byteOrderMark))
	switch {
	case len(data) == 0:
		return nil, errors.New("the key is empty")
	case len(data) > 12 && string(data[8:12]) == keybox:
		return nil, errors.New("this is a GnuPG keybox, not an OpenPGP key; write the keys out with gpg --export or --export-secret-keys")
	case data[0]&0x80 != 0:
		return readKeys(data)
	}
	var all openpgp.EntityList
	for r := bufio.NewReader(bytes.NewReader(data)); ; {
		block, err := armor.Decode(r)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("not a readable armored key: %w", err)
		}
		if block.Type != openpgp.PublicKeyType && block.Type != openpgp.PrivateKeyType {
			return nil, fmt.Errorf("the armor is of a %s, not of a key", plain(block.Type, 40))
		}
		body, err := io.ReadAll(block.Body)
		if err != nil {
			return nil, fmt.Errorf("not a readable armored key: %w", err)
		}
		list, err := readKeys(body)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	if len(all) == 0 {
		return nil, errors.New("not an OpenPGP key: neither armored nor binary")
	}
	return all, nil
}

// readKeys reads all keys in binary data, which holds at least one.
func readKeys(data []byte) (openpgp.EntityList, error) {
	list, err := openpgp.ReadKeyRing(bytes.NewReader(data))
	if err == nil && len(list) > 0 {
		return list, nil
	}
	first, e := packet.NewOpaqueReader(bytes.NewReader(data)).Next()
	if e == nil && (first.Tag == 5 || first.Tag == 6) && len(first.Contents) > 0 && first.Contents[0] != 4 && first.Contents[0] != 6 {
		return nil, fmt.Errorf("it is a key of version %d, which no standard has; versions 4 and 6 can be used, and GnuPG makes 4 unless told otherwise", first.Contents[0])
	}
	if err == nil {
		err = errors.New("no key in it")
	}
	return nil, fmt.Errorf("not a readable OpenPGP key: %w", err)
}

// armored writes the public or the whole key for people.
func armored(e *openpgp.Entity, private bool) ([]byte, error) {
	var buf bytes.Buffer
	kind := openpgp.PublicKeyType
	if private {
		kind = openpgp.PrivateKeyType
	}
	w, err := armor.Encode(&buf, kind, nil)
	if err != nil {
		return nil, err
	}
	if err := serialize(w, e, private); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// serialize writes a key as it is. The library's own way to write a private
// key signs it again, or fails where a part of it is elsewhere.
func serialize(w io.Writer, e *openpgp.Entity, private bool) error {
	if !private {
		return e.Serialize(w)
	}
	var err error
	put := func(p interface{ Serialize(io.Writer) error }) {
		if err == nil {
			err = p.Serialize(w)
		}
	}
	sigs := func(all []*packet.VerifiableSignature) {
		for _, s := range all {
			put(s.Packet)
		}
	}
	key := func(pub *packet.PublicKey, priv *packet.PrivateKey) {
		if priv != nil {
			put(priv)
		} else {
			put(pub)
		}
	}
	key(e.PrimaryKey, e.PrivateKey)
	sigs(e.Revocations)
	sigs(e.DirectSignatures)
	for _, id := range e.Identities {
		put(id)
	}
	for _, sub := range e.Subkeys {
		key(sub.PublicKey, sub.PrivateKey)
		sigs(sub.Revocations)
		sigs(sub.Bindings)
	}
	return err
}

// hasPrivate reports whether any private part is there, usable or not.
func hasPrivate(e *openpgp.Entity) bool {
	if e.PrivateKey != nil && !e.PrivateKey.Dummy() {
		return true
	}
	for _, s := range e.Subkeys {
		if s.PrivateKey != nil && !s.PrivateKey.Dummy() {
			return true
		}
	}
	return false
}

// locked reports whether a passphrase is needed to use the private parts.
func locked(e *openpgp.Entity) bool {
	if e.PrivateKey != nil && e.PrivateKey.Encrypted {
		return true
	}
	for _, s := range e.Subkeys {
		if s.PrivateKey != nil && s.PrivateKey.Encrypted {
			return true
		}
	}
	return false
}

// plain makes text from outside fit for a message: one line, at most n runes.
func plain(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if r := []rune(s); len(r) > n {
		s = string(r[:n]) + "..."
	}
	return s
}
