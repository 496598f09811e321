package pgp

import "github.com/courierhq/courier/internal/pgpstream"

// Verification says what pgp.decrypt requires of a message's signature.
type Verification string

// The values of [Verification].
const (
	VerifyOff      Verification = "off"      // signatures are not checked
	VerifyOptional Verification = "optional" // a wrong signature fails; all else is reported and passes
	VerifyRequired Verification = "required" // anything but a valid signature fails
)

// VerifyStatus is the result of checking a message's signature.
type VerifyStatus string

// The values of [VerifyStatus] in outputs. If a signature does not match the content, pgp.decrypt
// fails, unless nothing is verified. In pgp.verify a signature is invalid if it is not valid and
// no other value applies.
const (
	StatusInvalid       VerifyStatus = "invalid"        // it does not match, or cannot be trusted; pgp.verify only
	StatusValid         VerifyStatus = "valid"          // valid, by a key that counts
	StatusUnsigned      VerifyStatus = "unsigned"       // there is no signature; pgp.decrypt only
	StatusUnknownSigner VerifyStatus = "unknown_signer" // by a key that does not exist or does not count
	StatusExpiredKey    VerifyStatus = "expired_key"    // the signer's key has expired
	StatusRevokedKey    VerifyStatus = "revoked_key"    // the signer's key is revoked
	StatusUnsafe        VerifyStatus = "unsafe"         // the signer's key or the hash is not safe any more; pgp.decrypt only
	StatusNotChecked    VerifyStatus = "not_checked"    // verify is off; pgp.decrypt only
)

// verification returns the requirement for the signature.
func (cfg *DecryptConfig) verification() Verification {
	switch {
	case cfg.Verify != "":
		return cfg.Verify
	case len(cfg.SignerKeyIDs) > 0:
		return VerifyRequired
	}
	return VerifyOptional
}

// accepts reports whether a message whose signature has status s may be published.
func (v Verification) accepts(s pgpstream.Status) bool {
	switch {
	case s == pgpstream.StatusValid, s == pgpstream.StatusNotChecked && v == VerifyOff:
		return true
	}
	return v == VerifyOptional && s != pgpstream.StatusInvalid
}
