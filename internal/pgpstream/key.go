package pgpstream

import (
	"bufio"
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
)

// A Key is one OpenPGP key with its subkeys, public or private. Formatting it shows
// its name and fingerprint, never the key itself.
type Key struct {
	entity *openpgp.Entity // in which the library notes what it has verified and unlocked
	name   string          // by which it was asked for
	data   []byte          // its packets in binary form, with the contents that came
}

// ParseKey parses the only key in data, armored or binary. Errors call the key name, or show only
// its fingerprint if name is empty. Errors show nothing of data.
func ParseKey(name string, data []byte) (*Key, error) {
	list, err := ParseKeys(data)
	switch {
	case err != nil:
		return nil, err
	case len(list) != 1:
		return nil, fmt.Errorf("the data holds %d keys; it must hold one", len(list))
	}
	list[0].name = name
	return list[0], nil
}

// ParseKeys parses all keys in data, armored or binary. There must be at least one. It leaves out
// keys that the library cannot use.
func ParseKeys(data []byte) ([]*Key, error) {
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
	var all []*Key
	for r := bufio.NewReader(bytes.NewReader(data)); ; {
		block, err := armor.Decode(r)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("not a readable armored key: %w", err)
		}
		if block.Type != openpgp.PublicKeyType && block.Type != openpgp.PrivateKeyType {
			return nil, fmt.Errorf("the armor is of a %s, not of a key", Printable(block.Type, 40))
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

// readKeys parses all keys in binary data, which contains at least one.
func readKeys(data []byte) ([]*Key, error) {
	split, err := splitKeys(data)
	if err != nil {
		return nil, fmt.Errorf("not a readable OpenPGP key: %w", err)
	}
	var keys []*Key
	var large error
	for _, sections := range split {
		if e := checkSize(sections); e != nil {
			large = e
			continue
		}
		var own []byte
		if own, err = writeSections(sections, nil); err != nil {
			return nil, err
		}
		var list openpgp.EntityList
		if list, err = openpgp.ReadKeyRing(bytes.NewReader(own)); err == nil && len(list) == 1 {
			keys = append(keys, &Key{entity: list[0], data: own})
		}
	}
	if len(keys) > 0 {
		return keys, nil
	}
	if large != nil {
		return nil, large
	}
	if len(split) > 0 {
		if c := split[0][0].head.Contents; len(c) > 0 && c[0] != 4 && c[0] != 6 {
			return nil, fmt.Errorf("it is a key of version %d, which no standard defines; versions 4 and 6 can be used, and GnuPG makes 4 unless told otherwise", c[0])
		}
	}
	if err == nil {
		err = errors.New("no key in it")
	}
	return nil, fmt.Errorf("not a readable OpenPGP key: %w", err)
}

// maxKeyBits is the maximum size of a key. The time for a signature grows with the third power of
// the size: with 16,384 bits it takes seconds, and the sender of a message decides how many
// signatures it has.
const maxKeyBits = 8192

// checkSize refuses a key if it or one of its subkeys is larger than maxKeyBits.
func checkSize(key []section) error {
	for _, s := range key {
		pub := s.publicKey()
		if pub == nil {
			continue
		}
		switch bits, err := pub.BitLength(); {
		case err != nil: // of an algorithm that the library can't use
		case bits > maxKeyBits:
			return fmt.Errorf("the key %s has %d bits, and %d are the most that can be used; its owner must make a smaller one", fingerprint(pub), bits, maxKeyBits)
		}
	}
	return nil
}

// sections are the packets of the key.
func (k *Key) sections() ([]section, error) {
	split, err := splitKeys(k.data)
	if err == nil && len(split) != 1 {
		err = fmt.Errorf("%d keys instead of one", len(split))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.label(), err)
	}
	return split[0], nil
}

// GenerateKey makes a private key that is not locked: Ed25519 for signatures and Curve25519 for
// encryption. GnuPG can read it since version 2.1. It never expires.
func GenerateKey(name, email string) (*Key, error) {
	e, err := openpgp.NewEntity(name, "", email, &packet.Config{
		Algorithm: packet.PubKeyAlgoEdDSA, Curve: packet.Curve25519,
		DefaultHash: crypto.SHA256, DefaultCipher: packet.CipherAES256,
		DefaultCompressionAlgo: packet.CompressionZLIB,
	})
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	if err := e.SerializePrivateWithoutSigning(&buf, nil); err != nil {
		return nil, err
	}
	return ParseKey("", buf.Bytes())
}

// Name returns the name with which the key was parsed.
func (k *Key) Name() string { return k.name }

// Fingerprint returns the fingerprint in upper case. It identifies the key and cannot be forged.
func (k *Key) Fingerprint() string { return fingerprint(k.entity.PrimaryKey) }

// IDs returns the key ids of the key and its subkeys, and the fingerprints of the subkeys. Other
// people can make a key with one of these ids.
func (k *Key) IDs() []string {
	ids := []string{keyID(k.entity.PrimaryKey.KeyId)}
	for _, s := range k.entity.Subkeys {
		ids = append(ids, keyID(s.PublicKey.KeyId), fingerprint(s.PublicKey))
	}
	return ids
}

// HasPrivate reports whether the key has any private part, usable or not.
func (k *Key) HasPrivate() bool { return hasPrivate(k.entity) }

// Locked reports whether a passphrase is needed to use the private parts.
func (k *Key) Locked() bool { return locked(k.entity) }

// ErrPassphrase is the error of [Key.Unlock] for a wrong passphrase.
var ErrPassphrase = errors.New("the passphrase does not unlock the key")

// Unlock returns the key with unlocked private parts. The key itself must not be used any more.
func (k *Key) Unlock(passphrase []byte) (*Key, error) {
	if k.entity.DecryptPrivateKeys(passphrase) != nil {
		return nil, ErrPassphrase
	}
	sections, err := k.sections()
	if err != nil {
		return nil, err
	}
	data, err := writeSections(sections, unlockedHead(k.entity))
	if err != nil {
		return nil, err
	}
	return &Key{entity: k.entity, name: k.name, data: data}, nil
}

// Bytes returns the key in binary form, with its private parts if it has any. The caller must not
// change the result.
func (k *Key) Bytes() []byte { return k.data }

// Armor returns the key as text, with its private parts if private is true.
func (k *Key) Armor(private bool) ([]byte, error) {
	data, kind := k.data, openpgp.PrivateKeyType
	if !private {
		kind = openpgp.PublicKeyType
		sections, err := k.sections()
		if err != nil {
			return nil, err
		}
		if data, err = writeSections(sections, publicHead); err != nil {
			return nil, err
		}
	}
	var buf bytes.Buffer
	w, err := armor.Encode(&buf, kind, nil)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// Format writes the name and fingerprint, whatever the verb.
func (k *Key) Format(f fmt.State, _ rune) { io.WriteString(f, k.label()) }

// label returns the name of the key in errors.
func (k *Key) label() string {
	fp := k.Fingerprint()
	if k.name == "" || NormalizeID(k.name) == fp {
		return "key " + fp
	}
	return fmt.Sprintf("key %q (%s)", Printable(k.name, 100), fp)
}

// idForm matches key ids, including short ids, and fingerprints.
var idForm = regexp.MustCompile(`^(?:[0-9A-F]{8}|[0-9A-F]{16}|[0-9A-F]{40}|[0-9A-F]{64})$`)

// NormalizeID converts a key id (8 or 16 digits) or fingerprint (40 or 64 digits) to the form of
// [Key.IDs]. It returns "" for any other text. It accepts blanks, colons and a leading 0x.
func NormalizeID(id string) string {
	id = strings.ToUpper(strings.NewReplacer(" ", "", ":", "").Replace(id))
	id = strings.TrimPrefix(id, "0X")
	if !idForm.MatchString(id) {
		return ""
	}
	return id
}

func fingerprint(k *packet.PublicKey) string { return fmt.Sprintf("%X", k.Fingerprint) }

// keyID formats a 64-bit key id as GnuPG does.
func keyID(id uint64) string { return fmt.Sprintf("%016X", id) }

// hasPrivate reports whether e has any private part, usable or not.
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
