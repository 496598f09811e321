package pgp

import (
	"context"
	"fmt"

	"github.com/courierhq/courier/internal/pgpstream"
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
// suits tests, examples and first steps. The key never expires, and does not offer AEAD,
// which GnuPG can't read.
func GenerateKey(name, email string) (Key, error) {
	k, err := pgpstream.GenerateKey(name, email)
	if err != nil {
		return Key{}, fmt.Errorf("generate key: %w", err)
	}
	data, err := k.Armor(true)
	return Key{Data: data}, err
}

// Public returns the public part of the key, with armored Data, which can be
// sent to partners.
func (k Key) Public() (Key, error) {
	parsed, err := pgpstream.ParseKey("", k.Data)
	if err != nil {
		return Key{}, err
	}
	data, err := parsed.Armor(false)
	return Key{Data: data}, err
}

// Fingerprint returns the fingerprint of the key, in upper case. It names the
// key and can't be forged.
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
