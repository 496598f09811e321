package pgpstream

import (
	"crypto"
	"errors"
	"fmt"
	"strings"
	"time"

	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
)

// weakHashes returns the hash functions with which signatures can be forged.
func weakHashes() map[crypto.Hash]bool {
	return map[crypto.Hash]bool{crypto.SHA1: true, crypto.MD5: true, crypto.RIPEMD160: true}
}

// policy returns the configuration for writing messages and for checking the keys of others:
// signatures in keys do not count if they use SHA-1 or a weaker hash. A key without key flags,
// such as a key of an old GnuPG, may be used for everything that its algorithm permits; for
// signatures see [Key.signingKey].
func policy() *packet.Config {
	return &packet.Config{
		DefaultCipher:        packet.CipherAES256,
		DefaultHash:          crypto.SHA256,
		RejectHashAlgorithms: weakHashes(),

		InsecureAllowAllKeyFlagsWhenMissing: true,
	}
}

// signingKey returns the primary key or the subkey with the given id, or any of them if id is 0,
// that may sign at the time now. A subkey must have key flags that allow signing. Only then does
// the library require that the subkey has signed that it belongs to the primary key; otherwise
// anybody could claim the subkey of somebody else. The primary key needs no flags.
func (k *Key) signingKey(now time.Time, id uint64) (openpgp.Key, bool) {
	flagged := policy()
	flagged.InsecureAllowAllKeyFlagsWhenMissing = false
	own, ok := k.entity.SigningKeyById(now, id, flagged)
	if primary := k.entity.PrimaryKey; !ok && (id == 0 || id == primary.KeyId) {
		own, ok = k.entity.SigningKeyById(now, primary.KeyId, policy())
		ok = ok && own.PublicKey == primary
	}
	return own, ok
}

// A Use is a use of a key.
type Use int

// The values of [Use].
const (
	ForEncryption Use = iota
	ForSigning
	ForVerification
)

// CheckUse returns nil if a key can be used at the given time, and otherwise an error that names
// the key and states the reason. For signing, the private part may still be locked.
func (k *Key) CheckUse(u Use, at time.Time) error {
	if why := k.unfit(u, at); why != "" {
		return fmt.Errorf("%s %s", k.label(), why)
	}
	return nil
}

// unfit returns the reason why a key cannot be used at the time now, or "" if it can.
func (k *Key) unfit(u Use, now time.Time) string {
	if why := k.primaryUnfit(now); why != "" {
		return why
	}
	switch u {
	case ForEncryption:
		if _, err := k.entity.EncryptionKeyWithError(now, policy()); err != nil {
			return k.subkeysUnfit(now, "encryption", packet.PublicKeyAlgorithm.CanEncrypt)
		}
	case ForVerification:
		_, why := k.signerUnfit(0, now)
		return why
	case ForSigning:
		own, ok := k.signingKey(now, 0)
		switch {
		case !ok:
			return k.subkeysUnfit(now, forSignatures, packet.PublicKeyAlgorithm.CanSign)
		case own.PrivateKey == nil:
			return "is a public key; signing takes the private one"
		case own.PrivateKey.Dummy():
			return "has its private part elsewhere, such as on a smart card"
		}
	}
	return ""
}

const dateForm = "2006-01-02 15:04 UTC"

// primaryUnfit is unfit for the primary key, on which everything else depends.
func (k *Key) primaryUnfit(now time.Time) string {
	sig, err := k.entity.VerifyPrimaryKey(now, policy())
	switch {
	case err == nil:
		return ""
	case errors.Is(err, pgperrors.ErrKeyRevoked):
		return "is revoked"
	case k.entity.PrimaryKey.CreationTime.After(now):
		return "was made on " + k.entity.PrimaryKey.CreationTime.UTC().Format(dateForm) + ", which lies ahead; compare the clocks"
	case errors.Is(err, pgperrors.ErrKeyExpired):
		return "expired" + onDate(k.entity.PrimaryKey, sig)
	}
	lenient := policy()
	lenient.RejectHashAlgorithms = map[crypto.Hash]bool{}
	if again, err := ParseKey("", k.data); err == nil {
		if _, err := again.entity.VerifyPrimaryKey(now, lenient); err == nil {
			return "is held together by SHA-1 or MD5 signatures, which can be forged; its owner must sign it again (gpg does so when the expiry date is set)"
		}
	}
	return "has no valid signature of its own"
}

// signerUnfit returns the reason why signatures by the key or subkey with the given id, or by any
// of them if id is 0, do not count now.
func (k *Key) signerUnfit(id uint64, now time.Time) (Status, string) {
	_, err := k.entity.VerifyPrimaryKey(now, policy())
	why := k.primaryUnfit(now)
	if why == "" {
		if _, ok := k.signingKey(now, id); ok {
			return StatusValid, ""
		}
		why = k.subkeysUnfit(now, forSignatures, packet.PublicKeyAlgorithm.CanSign)
		for _, s := range k.entity.Subkeys {
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

// forSignatures is the text in errors for the use of a key that signs or has signed.
const forSignatures = "signatures"

// subkeysUnfit returns the reason why no subkey is suitable for a use.
func (k *Key) subkeysUnfit(now time.Time, use string, can func(packet.PublicKeyAlgorithm) bool) string {
	var why []string
	for _, s := range k.entity.Subkeys {
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
		if kind := k.unsafeKind(now, use); kind != "" {
			return "has a key for " + use + " of a kind or size that is not safe any more: " + kind
		}
		return "has no subkey for " + use
	}
	return "has no usable subkey for " + use + ": " + strings.Join(why, ", ")
}

// unsafeKind returns the algorithm of the key that would be suitable for a use if it were safe.
// DSA, ElGamal, secp256k1, and RSA below 2,048 bits are unsafe.
func (k *Key) unsafeKind(now time.Time, use string) string {
	lenient := policy()
	lenient.RejectPublicKeyAlgorithms = map[packet.PublicKeyAlgorithm]bool{}
	lenient.RejectCurves = map[packet.Curve]bool{}
	lenient.MinRSABits = 1
	own, ok := k.entity.EncryptionKey(now, lenient)
	if use == forSignatures {
		own, ok = k.entity.SigningKey(now, lenient)
	}
	if !ok {
		return ""
	}
	return algorithm(own.PublicKey)
}

// onDate returns the date that follows "expired", if the signature states it.
func onDate(k *packet.PublicKey, sig *packet.Signature) string {
	if end, ok := end(k, sig); ok {
		return " on " + end.UTC().Format(dateForm)
	}
	return ""
}
