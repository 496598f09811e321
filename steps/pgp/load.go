package pgp

import (
	"bytes"
	"context"
	"crypto"
	"errors"
	"fmt"
	"strings"
	"time"

	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier"
)

// A loader finds the keys of one step.
type loader struct {
	job  *courier.Context
	keys Keys
}

// A loaded key belongs to one attempt: the library notes in the entity what it
// has verified.
type loaded struct {
	*openpgp.Entity
	id   string // by which it was asked for
	data []byte // in which private parts are not locked any more, if asked for
	from Key
}

// label names the key in messages.
func (l *loaded) label() string {
	fp := fingerprint(l.PrimaryKey)
	if normalID(l.id) == fp {
		return "key " + fp
	}
	return fmt.Sprintf("key %q (%s)", plain(l.id, 100), fp)
}

// A material is what the steps of an execution keep of a key between them, so
// that a loop over thousands of files asks for it and unlocks it once.
type material struct {
	data []byte
	from Key
}

// Close wipes the key.
func (m *material) Close() error {
	clear(m.data)
	return nil
}

// find returns the key called id as the host gave it out.
func (l *loader) find(ctx context.Context, id string) (*loaded, error) {
	m, err := courier.Keep(ctx, l.job, "pgp.key "+id, func(ctx context.Context) (*material, error) {
		if l.keys == nil {
			return nil, permanentf("key %q: no keys are configured; pass them to pgp.Register", id)
		}
		k, err := l.keys.Key(ctx, id)
		if err != nil {
			return nil, err
		}
		return &material{data: bytes.Clone(k.Data), from: k}, nil
	})
	if err != nil {
		return nil, err
	}
	return m.load(id)
}

// unlock returns a key with private parts that are ready for use.
func (l *loader) unlock(ctx context.Context, key *loaded) (*loaded, error) {
	if !locked(key.Entity) {
		return key, nil
	}
	m, err := courier.Keep(ctx, l.job, "pgp.unlocked "+key.id, func(ctx context.Context) (*material, error) {
		if key.from.Passphrase == "" {
			return nil, permanentf("%s: is locked with a passphrase, and Key.Passphrase names no secret for it", key.label())
		}
		passphrase, err := l.job.Secret(ctx, key.from.Passphrase)
		if err != nil {
			return nil, fmt.Errorf("%s: passphrase: %w", key.label(), err)
		}
		if err := key.DecryptPrivateKeys([]byte(passphrase)); err != nil {
			return nil, permanentf("%s: the secret %q is not its passphrase", key.label(), key.from.Passphrase)
		}
		var buf bytes.Buffer
		if err := serialize(&buf, key.Entity, true); err != nil {
			return nil, permanentf("%s: %w", key.label(), err)
		}
		return &material{data: buf.Bytes(), from: key.from}, nil
	})
	if err != nil {
		return nil, err
	}
	return m.load(key.id)
}

func (m *material) load(id string) (*loaded, error) {
	e, err := parseKey(m.data)
	if err != nil {
		return nil, permanentf("key %q: %w", id, err)
	}
	return &loaded{Entity: e, id: id, data: m.data, from: m.from}, nil
}

// weakHashes are the hash functions that hold nothing together.
func weakHashes() map[crypto.Hash]bool {
	return map[crypto.Hash]bool{crypto.SHA1: true, crypto.MD5: true, crypto.RIPEMD160: true}
}

// policy is how messages are written, and what is asked of the keys of others:
// nothing that SHA-1 or weaker holds together.
func policy() *packet.Config {
	return &packet.Config{
		DefaultCipher:        packet.CipherAES256,
		DefaultHash:          crypto.SHA256,
		RejectHashAlgorithms: weakHashes(),
	}
}

// A purpose is what a key is needed for.
type purpose int

const (
	toEncrypt purpose = iota
	toSign
	toVerify
)

// unfit says why a key can't be used for p at an instant; "" means that it can.
func (l *loaded) unfit(p purpose, now time.Time) string {
	if why := l.primaryUnfit(now); why != "" {
		return why
	}
	switch p {
	case toEncrypt:
		if _, err := l.EncryptionKeyWithError(now, policy()); err != nil {
			return l.subkeysUnfit(now, "encryption", packet.PublicKeyAlgorithm.CanEncrypt)
		}
	case toVerify:
		_, why := l.signerUnfit(0, now)
		return why
	case toSign:
		k, ok := l.SigningKey(now, policy())
		switch {
		case !ok:
			return l.subkeysUnfit(now, "signatures", packet.PublicKeyAlgorithm.CanSign)
		case k.PrivateKey == nil:
			return "is a public key; signing takes the private one"
		case k.PrivateKey.Dummy():
			return "has its private part elsewhere, such as on a smart card"
		}
	}
	return ""
}

const dateForm = "2006-01-02 15:04 UTC"

// primaryUnfit is about the primary key, on which everything else depends.
func (l *loaded) primaryUnfit(now time.Time) string {
	sig, err := l.VerifyPrimaryKey(now, policy())
	switch {
	case err == nil:
		return ""
	case errors.Is(err, pgperrors.ErrKeyRevoked):
		return "is revoked"
	case l.PrimaryKey.CreationTime.After(now):
		return "was made on " + l.PrimaryKey.CreationTime.UTC().Format(dateForm) + ", which lies ahead; compare the clocks"
	case errors.Is(err, pgperrors.ErrKeyExpired):
		return "expired" + onDate(l.PrimaryKey, sig)
	}
	lenient := policy()
	lenient.RejectHashAlgorithms = map[crypto.Hash]bool{}
	if e, err := parseKey(l.data); err == nil {
		if _, err := e.VerifyPrimaryKey(now, lenient); err == nil {
			return "is held together by SHA-1 or MD5 signatures, which can be forged; its owner must sign it again (gpg does so when the expiry date is set)"
		}
	}
	return "has no valid signature of its own"
}

// signerUnfit says why signatures by the key or subkey with the given id, or
// by any of them if it is 0, don't count now.
func (l *loaded) signerUnfit(id uint64, now time.Time) (VerifyStatus, string) {
	_, err := l.VerifyPrimaryKey(now, policy())
	why := l.primaryUnfit(now)
	if why == "" {
		if _, ok := l.SigningKeyById(now, id, policy()); ok {
			return StatusValid, ""
		}
		why = l.subkeysUnfit(now, "signatures", packet.PublicKeyAlgorithm.CanSign)
		for _, s := range l.Subkeys {
			if s.PublicKey.KeyId == id {
				_, err = s.Verify(now, policy())
			}
		}
	}
	switch {
	case errors.Is(err, pgperrors.ErrKeyRevoked):
		return StatusRevokedKey, why
	case errors.Is(err, pgperrors.ErrKeyExpired):
		return StatusExpiredKey, why
	}
	return StatusUnsafe, why
}

// subkeysUnfit says why none of the subkeys serves a use.
func (l *loaded) subkeysUnfit(now time.Time, use string, can func(packet.PublicKeyAlgorithm) bool) string {
	var why []string
	for _, s := range l.Subkeys {
		if !can(s.PublicKey.PubKeyAlgo) {
			continue
		}
		sig, err := s.Verify(now, policy())
		if sig == nil { // expired and revoked ones come without
			sig, _ = s.LatestValidBindingSignature(now, policy())
		}
		subkey := "its subkey " + keyID(s.PublicKey.KeyId)
		switch {
		case errors.Is(err, pgperrors.ErrKeyRevoked):
			why = append(why, subkey+" is revoked")
		case errors.Is(err, pgperrors.ErrKeyExpired):
			why = append(why, subkey+" expired"+onDate(s.PublicKey, sig))
		case err != nil:
			why = append(why, subkey+" is not bound to it by a valid signature")
		}
	}
	if len(why) == 0 {
		return "has no subkey for " + use + ", or one of a kind or size that is not safe any more"
	}
	return "has no usable subkey for " + use + ": " + strings.Join(why, ", ")
}

// onDate ends "expired" with the date, if the signature tells it.
func onDate(k *packet.PublicKey, sig *packet.Signature) string {
	if end, ok := end(k, sig); ok {
		return " on " + end.UTC().Format(dateForm)
	}
	return ""
}

// loadAll finds the keys with the given ids for a purpose, each key once. The
// error tells all that are missing or unfit, and is permanent unless the host
// had trouble finding one.
func (l *loader) loadAll(ctx context.Context, ids []string, p purpose) ([]*loaded, error) {
	var all []*loaded
	var bad []error
	seen := make(map[string]bool)
	for _, id := range ids {
		key, err := l.find(ctx, id)
		if err == nil && p == toSign {
			if why := key.unfit(p, time.Now()); why == "" {
				key, err = l.unlock(ctx, key)
			}
		}
		switch {
		case err != nil && (courier.IsPermanent(err) || errors.Is(err, courier.ErrNotFound)):
			bad = append(bad, err)
			continue
		case err != nil:
			return nil, err
		}
		if why := key.unfit(p, time.Now()); why != "" {
			bad = append(bad, fmt.Errorf("%s %s", key.label(), why))
			continue
		}
		if fp := fingerprint(key.PrimaryKey); !seen[fp] {
			seen[fp] = true
			all = append(all, key)
		}
	}
	if len(bad) > 0 {
		return nil, courier.Permanent(joined(bad))
	}
	return all, nil
}

// joined is errors.Join on one line.
func joined(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return &listError{text: strings.Join(texts, "; "), errs: errs}
}

type listError struct {
	text string
	errs []error
}

func (e *listError) Error() string   { return e.text }
func (e *listError) Unwrap() []error { return e.errs }
