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

// Verify says what pgp.decrypt asks of a message's signature.
type Verify string

// The values of [Verify].
const (
	VerifyOff      Verify = "off"      // signatures are not looked at
	VerifyOptional Verify = "optional" // a wrong signature fails; all else is reported and passes
	VerifyRequired Verify = "required" // anything but a valid signature fails
)

// UnmarshalText refuses other values.
func (v *Verify) UnmarshalText(text []byte) (err error) {
	*v, err = oneOf(text, VerifyOptional, VerifyRequired, VerifyOff)
	return err
}

// VerifyStatus is what was found out about a message's signature.
type VerifyStatus string

// The values of [VerifyStatus] in outputs. A signature that does not fit the
// content is no value but a failure, unless nothing is verified.
const (
	StatusValid         VerifyStatus = "valid"          // by a key that counts, and good
	StatusUnsigned      VerifyStatus = "unsigned"       // there is none
	StatusUnknownSigner VerifyStatus = "unknown_signer" // by a key that is not there or does not count
	StatusExpiredKey    VerifyStatus = "expired_key"    // the signer's key has expired
	StatusRevokedKey    VerifyStatus = "revoked_key"    // the signer's key is revoked
	StatusUnsafe        VerifyStatus = "unsafe"         // the signer's key or the hash is not safe any more
	StatusNotChecked    VerifyStatus = "not_checked"    // verify is off
)

// statusWrong is a signature that does not fit, or can't be trusted.
const statusWrong VerifyStatus = "invalid"

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

// setSigners tells the ring whose signatures count.
func (m *message) setSigners(ctx context.Context) error {
	if m.cfg.Verify == "" {
		m.cfg.Verify = VerifyOptional
		if len(m.cfg.SignerKeyIDs) > 0 {
			m.cfg.Verify = VerifyRequired
		}
	}
	if m.cfg.Verify == VerifyOff {
		return nil
	}
	if len(m.cfg.SignerKeyIDs) == 0 {
		m.ring.signer = func(id uint64) *loaded {
			key, err := m.keys.find(ctx, keyID(id))
			if err != nil {
				if !errors.Is(err, courier.ErrNotFound) && m.hostErr == nil {
					m.hostErr = fmt.Errorf("signer: %w", err)
				}
				return nil
			}
			return key
		}
		return nil
	}
	var allowed []*loaded
	for _, id := range m.cfg.SignerKeyIDs {
		key, err := m.keys.find(ctx, id)
		if errors.Is(err, courier.ErrNotFound) {
			err = courier.Permanent(err)
		}
		if err != nil {
			return fmt.Errorf("signer: %w", err)
		}
		allowed = append(allowed, key)
	}
	m.ring.signer = func(id uint64) *loaded {
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
func (m *message) verdict() verdict {
	d := m.details
	switch {
	case m.cfg.Verify == VerifyOff:
		return verdict{status: StatusNotChecked, why: "signatures are not verified"}
	case !d.IsSigned || len(d.SignatureCandidates) == 0:
		return verdict{status: StatusUnsigned, why: "it is not signed"}
	case !d.IsVerified:
		return verdict{status: statusWrong, why: "its signature was not verified"}
	}
	var best verdict
	for _, c := range d.SignatureCandidates {
		v := m.candidate(c)
		switch {
		case v.status == StatusValid && best.status == StatusValid:
			if !slices.Contains(best.signers, v.signers[0]) {
				best.signers = append(best.signers, v.signers[0])
			}
		case rank(v.status) > rank(best.status):
			best = v
		}
	}
	if best.status == StatusValid && d.SignatureError != nil {
		return verdict{status: statusWrong, why: "its signature is not valid"}
	}
	return best
}

// rank orders what is told about a message with several signatures.
func rank(s VerifyStatus) int {
	switch s {
	case StatusValid:
		return 6
	case statusWrong:
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
func (m *message) candidate(c *openpgp.SignatureCandidate) verdict {
	var key *loaded
	for _, k := range m.ring.signers {
		if k.Entity == c.SignedByEntity {
			key = k
		}
	}
	if key == nil {
		return verdict{status: StatusUnknownSigner, why: "it is signed by the key id " + keyID(c.IssuerKeyId) + ", which is not " + m.whoCounts()}
	}
	wrong := verdict{status: statusWrong, why: "its signature by " + key.label() + " does not fit the content"}
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
		return verdict{status: statusWrong, why: "its signature by " + key.label() + " is no longer or not yet valid"}
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

func (m *message) whoCounts() string {
	if ids := m.cfg.SignerKeyIDs; len(ids) > 0 {
		return "among signer_key_ids (" + plain(strings.Join(ids, ", "), 300) + ")"
	}
	return "among the keys that are there"
}

// judge turns a verdict into the step's failure, or nil.
func (m *message) judge(v verdict) error {
	if m.hostErr != nil {
		return m.hostErr
	}
	switch {
	case v.status == StatusValid, v.status == StatusNotChecked && m.cfg.Verify == VerifyOff:
		return nil
	case m.cfg.Verify == VerifyOptional && v.status != statusWrong:
		return nil
	}
	return about("was decrypted, but not accepted: %s (verify is %q)", v.why, m.cfg.Verify)
}
