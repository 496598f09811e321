package pgp

import (
	"context"
	"fmt"

	"github.com/courierhq/courier/internal/pgpstream"
)

// Keys provides OpenPGP keys. A host application implements it on top of its vault; [Keyring] is
// a ready implementation in memory. It must be safe for concurrent use. A key that was found is
// kept for the execution, so that a loop over many files asks for it once.
type Keys interface {
	// Key returns the key called id. The id is a name that the host has chosen, a fingerprint (40
	// or 64 hexadecimal digits), or a key id (16 digits) if only one key matches. A step asks for
	// a key id if its configuration does not name a key but a message does. Then the key ids and
	// fingerprints of subkeys count too. An implementation that has only names returns the error
	// for an unknown key for the other ids.
	//
	// The error for an unknown key matches [courier.ErrNotFound] and lists similar ids. Other
	// errors are treated as temporary.
	Key(ctx context.Context, id string) (Key, error)
}

// A Key is one OpenPGP key, public or private. Formatting it shows its
// fingerprint and never the key itself.
type Key struct {
	// Data is the key with its subkeys, armored or binary. It contains exactly one key. It must
	// not be changed.
	Data []byte `json:"-"`
	// Passphrase is the name of the secret that unlocks the private key, for the engine's
	// Secrets. It is empty if the key is not locked.
	Passphrase string
}

// GenerateKey makes a private key that is not locked: Ed25519 for signatures and Curve25519 for
// encryption. GnuPG can read it since version 2.1. It is suitable for tests, examples and first
// steps. The key never expires, and does not offer AEAD, which GnuPG cannot read.
func GenerateKey(name, email string) (Key, error) {
	k, err := pgpstream.GenerateKey(name, email)
	if err != nil {
		return Key{}, fmt.Errorf("generate key: %w", err)
	}
	data, err := k.Armor(true)
	return Key{Data: data}, err
}

// Public returns the public part of the key, with armored Data. It can be sent to partners.
func (k Key) Public() (Key, error) {
	parsed, err := pgpstream.ParseKey("", k.Data)
	if err != nil {
		return Key{}, err
	}
	data, err := parsed.Armor(false)
	return Key{Data: data}, err
}

// Fingerprint returns the fingerprint of the key, in upper case. It identifies the key and cannot
// be forged.
func (k Key) Fingerprint() (string, error) {
	parsed, err := pgpstream.ParseKey("", k.Data)
	if err != nil {
		return "", err
	}
	return parsed.Fingerprint(), nil
}

// Format writes the key's fingerprint, whatever the verb.
func (k Key) Format(f fmt.State, _ rune) {
	fp, err := k.Fingerprint()
	if err != nil {
		fp = "invalid"
	}
	fmt.Fprintf(f, "pgp.Key(%s)", fp)
}
