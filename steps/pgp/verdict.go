package pgp

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier"
)

// Verification says what pgp.decrypt asks of a message's signature.
type Verification string

// The values of [Verification].
const (
	VerifyOff      Verification = "off"      // signatures are not looked at
	VerifyOptional Verification = "optional" // a wrong signature fails; all else is reported and passes
	VerifyRequired Verification = "required" // anything but a valid signature fails
)

// VerifyStatus is what was found out about a message's signature.
type VerifyStatus string

// The values of [VerifyStatus] in outputs. In pgp.decrypt a signature that does
// not fit the content is no value but a failure, unless nothing is verified.
// In pgp.verify everything that is neither valid nor has a name of its own is
// invalid.
const (
	StatusInvalid       VerifyStatus = "invalid"        // it does not fit, or can't be trusted; pgp.verify only
	StatusValid         VerifyStatus = "valid"          // by a key that counts, and good
	StatusUnsigned      VerifyStatus = "unsigned"       // there is none; pgp.decrypt only
	StatusUnknownSigner VerifyStatus = "unknown_signer" // by a key that is not there or does not count
	StatusExpiredKey    VerifyStatus = "expired_key"    // the signer's key has expired
	StatusRevokedKey    VerifyStatus = "revoked_key"    // the signer's key is revoked
	StatusUnsafe        VerifyStatus = "unsafe"         // the signer's key or the hash is not safe any more; pgp.decrypt only
	StatusNotChecked    VerifyStatus = "not_checked"    // verify is off; pgp.decrypt only
)

// clockLeeway is how far the clock of a signer may be ahead.
const clockLeeway = 5 * time.Minute

// reading is how messages are read. Whether a key or a hash is safe enough is
// judged afterwards, so that a weak signature can be told from a wrong one;
// opening a message takes whatever key it was encrypted to.
func reading(limit int64) *packet.Config {
	return &packet.Config{
		Time:                        func() time.Time { return time.Now().Add(clockLeeway) },
		MaxDecompressedMessageSize:  &limit,
		RejectPublicKeyAlgorithms:   map[packet.PublicKeyAlgorithm]bool{},
		RejectHashAlgorithms:        map[crypto.Hash]bool{},
		RejectMessageHashAlgorithms: map[crypto.Hash]bool{},
	}
}

// A verifier judges the signatures of one message or file.
type verifier struct {
	keys  *loader
	ids   []string // of the keys whose signatures count; all that are there if empty
	field string   // in which the configuration names them
	ring  *ring
	// hostErr is an error of the host while the library read, which it hides.
	hostErr error
}

// prepare tells the ring whose signatures count.
func (v *verifier) prepare(ctx context.Context) error {
	if len(v.ids) == 0 {
		v.ring.signer = func(id uint64) *loaded {
			key, err := v.keys.find(ctx, keyID(id))
			if err != nil {
				if !errors.Is(err, courier.ErrNotFound) && v.hostErr == nil {
					v.hostErr = fmt.Errorf("signer: %w", err)
				}
				return nil
			}
			return key
		}
		return nil
	}
	var allowed []*loaded
	for _, id := range v.ids {
		key, err := v.keys.find(ctx, id)
		if errors.Is(err, courier.ErrNotFound) {
			err = courier.Permanent(err)
		}
		if err != nil {
			return fmt.Errorf("signer: %w", err)
		}
		allowed = append(allowed, key)
	}
	v.ring.signer = func(id uint64) *loaded {
		for _, key := range allowed {
			if len(openpgp.EntityList{key.Entity}.EntitiesById(id)) > 0 {
				return key
			}
		}
		return nil
	}
	return nil
}

// A verdict is what was found out about the signatures of one message.
type verdict struct {
	status  VerifyStatus
	signers []string  // fingerprints, if valid
	at      time.Time // of the first valid signature
	why     string    // unless valid
}

// verdict looks at the signatures after the body was read to its end. The best
// one counts; for a file with several signatures one that is valid is enough.
func (v *verifier) verdict(d *openpgp.MessageDetails) verdict {
	switch {
	case !d.IsSigned || len(d.SignatureCandidates) == 0:
		return verdict{status: StatusUnsigned, why: "it is not signed"}
	case !d.IsVerified:
		return verdict{status: StatusInvalid, why: "its signature was not verified"}
	}
	var best verdict
	for _, c := range d.SignatureCandidates {
		next := v.candidate(c)
		switch {
		case next.status == StatusValid && best.status == StatusValid:
			if !slices.Contains(best.signers, next.signers[0]) {
				best.signers = append(best.signers, next.signers[0])
			}
		case rank(next.status) > rank(best.status):
			best = next
		}
	}
	if best.status == StatusValid && d.SignatureError != nil {
		return verdict{status: StatusInvalid, why: "its signature is not valid"}
	}
	return best
}

// rank orders what is told about a message with several signatures.
func rank(s VerifyStatus) int {
	switch s {
	case StatusValid:
		return 6
	case StatusInvalid:
		return 5
	case StatusRevokedKey:
		return 4
	case StatusExpiredKey:
		return 3
	case StatusUnsafe:
		return 2
	case StatusUnknownSigner:
		return 1
	}
	return 0
}

// candidate judges one signature. Besides what the library asks, the key must
// be good today, and by today's standards.
func (v *verifier) candidate(c *openpgp.SignatureCandidate) verdict {
	var key *loaded
	for _, k := range v.ring.signers {
		if k.Entity == c.SignedByEntity {
			key = k
		}
	}
	if key == nil {
		return verdict{status: StatusUnknownSigner, why: "it is signed by the key id " + keyID(c.IssuerKeyId) + ", which is not " + v.whoCounts()}
	}
	wrong := verdict{status: StatusInvalid, why: "its signature by " + key.label() + " does not fit the content"}
	// The library notes in the entity what held when it was signed.
	today, err := (&material{data: key.data, from: key.from}).load(key.id)
	if err != nil || c.CorrespondingSig == nil {
		return wrong
	}
	now := time.Now()
	if c.SignedBy == nil { // no key could have made the signature at its time
		now = c.CorrespondingSig.CreationTime
	}
	switch status, why := today.signerUnfit(c.IssuerKeyId, now); {
	case why != "" && (c.SignatureError == nil || c.SignedBy == nil):
		return verdict{status: status, why: "its signer's " + key.label() + " " + why}
	case errors.Is(c.SignatureError, pgperrors.ErrSignatureExpired):
		return verdict{status: StatusInvalid, why: "its signature by " + key.label() + " is no longer or not yet valid"}
	case isCriticalNotation(c.SignatureError):
		return verdict{status: StatusInvalid, why: "its signature by " + key.label() + " counts only for a program that knows a notation in it (critical); its sender must sign without"}
	case c.SignatureError != nil || c.SignedBy == nil:
		return wrong
	case weakHashes()[c.CorrespondingSig.Hash]:
		return verdict{status: StatusUnsafe, why: "its signature by " + key.label() + " is made with " + c.CorrespondingSig.Hash.String() + ", with which signatures can be forged"}
	}
	return verdict{
		status:  StatusValid,
		signers: []string{fingerprint(key.PrimaryKey)},
		at:      c.CorrespondingSig.CreationTime.UTC(),
	}
}

// isCriticalNotation reports whether a signature was refused for what must be
// understood and isn't.
func isCriticalNotation(err error) bool {
	refused, ok := errors.AsType[pgperrors.SignatureError](err)
	return ok && strings.Contains(string(refused), "critical notation")
}

func (v *verifier) whoCounts() string {
	if len(v.ids) > 0 {
		return "among " + v.field + " (" + plain(strings.Join(v.ids, ", "), 300) + ")"
	}
	return "among the keys that are there"
}
