package pgpstream

import (
	"bytes"
	"cmp"
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

	"github.com/courierhq/courier/internal/failure"
)

// A Signature is the result of checking the signatures of one message or file.
type Signature struct {
	Status  Status
	Signers []string  // fingerprints of the keys of all valid signatures, if Status is [StatusValid]
	Time    time.Time // when the first valid signature says it was made
	Problem string    // unless Status is StatusValid: a sentence whose subject is "it"
}

// Status is the state of a signature.
type Status string

// The values of [Status].
const (
	StatusInvalid       Status = "invalid"        // it does not fit the content, or has expired
	StatusValid         Status = "valid"          // by a key that counts, and good
	StatusUnsigned      Status = "unsigned"       // there is none
	StatusUnknownSigner Status = "unknown_signer" // by a key that is not there or does not count
	StatusExpiredKey    Status = "expired_key"    // the signer's key has expired
	StatusRevokedKey    Status = "revoked_key"    // the signer's key is revoked
	StatusUnsafe        Status = "unsafe"         // the signer's key or the hash is not safe any more
	StatusNotChecked    Status = "not_checked"    // signatures were ignored
)

// clockLeeway is how far the clock of a signer may be fast.
const clockLeeway = 5 * time.Minute

// reading returns the configuration for reading messages. It accepts weak keys and hashes. They
// are checked afterwards, so that a weak signature can be distinguished from a wrong one. A
// message may be decrypted with any key to which it is encrypted.
func reading(limit int64) *packet.Config {
	return &packet.Config{
		Time:                        func() time.Time { return time.Now().Add(clockLeeway) },
		MaxDecompressedMessageSize:  &limit,
		RejectPublicKeyAlgorithms:   map[packet.PublicKeyAlgorithm]bool{},
		RejectHashAlgorithms:        map[crypto.Hash]bool{},
		RejectMessageHashAlgorithms: map[crypto.Hash]bool{},
		CacheSessionKey:             true, // for Decrypter.first

		InsecureAllowAllKeyFlagsWhenMissing: true, // as in policy
	}
}

// A signatureChecker examines the signatures of one message or file.
type signatureChecker struct {
	source   KeySource
	ids      []string // of the keys whose signatures count; all that are there if empty
	settings SettingNames
	keys     *messageKeys
	// sourceErr is an error of the source that occurred while the library was reading, since the
	// library hides it.
	sourceErr error
}

// prepare finds the keys whose signatures count.
func (c *signatureChecker) prepare(ctx context.Context) error {
	if len(c.ids) == 0 {
		c.keys.signer = func(id uint64) *Key {
			key, err := c.source.Key(ctx, keyID(id))
			if err != nil {
				if !errors.Is(err, ErrUnknownKey) && c.sourceErr == nil {
					c.sourceErr = fmt.Errorf("signer: %w", err)
				}
				return nil
			}
			return key
		}
		return nil
	}
	var allowed []*Key
	for _, id := range c.ids {
		key, err := c.source.Key(ctx, id)
		if errors.Is(err, ErrUnknownKey) {
			err = failure.Permanent(err)
		}
		if err != nil {
			return fmt.Errorf("signer: %w", err)
		}
		allowed = append(allowed, key)
	}
	c.keys.signer = func(id uint64) *Key {
		for _, key := range allowed {
			if len(openpgp.EntityList{key.entity}.EntitiesById(id)) > 0 {
				return key
			}
		}
		return nil
	}
	return nil
}

// result checks the signatures after the body was read to its end. The best signature counts: if
// a file has several signatures, one valid signature is enough.
func (c *signatureChecker) result(d *openpgp.MessageDetails) Signature {
	switch {
	case !d.IsSigned || len(d.SignatureCandidates) == 0:
		return Signature{Status: StatusUnsigned, Problem: "it is not signed"}
	case !d.IsVerified:
		return Signature{Status: StatusInvalid, Problem: "its signature was not verified"}
	}
	var best Signature
	for _, candidate := range d.SignatureCandidates {
		next := c.candidate(candidate)
		switch {
		case next.Status == StatusValid && best.Status == StatusValid:
			if !slices.Contains(best.Signers, next.Signers[0]) {
				best.Signers = append(best.Signers, next.Signers[0])
			}
		case rank(next.Status) > rank(best.Status):
			best = next
		}
	}
	if best.Status == StatusValid && d.SignatureError != nil {
		return Signature{Status: StatusInvalid, Problem: "its signature is not valid"}
	}
	return best
}

// orUnreadable returns s, or a Signature that says why the signature cannot be read: the library
// skips unreadable signatures as if they did not exist.
func (s Signature) orUnreadable(why string) Signature {
	if s.Status != StatusUnsigned || why == "" {
		return s
	}
	return Signature{Status: StatusUnsafe, Problem: "its signature is of a kind that can't be verified (" + why + "); its signer must sign with a current program, and with SHA-256 or better"}
}

// unreadableSignatures returns the reason why the library ignores all of the signature packets.
// It is "" if one of them can be read, or if there is none.
func unreadableSignatures(packets []byte) string {
	why := ""
	for in := packet.NewReader(bytes.NewReader(packets)); ; {
		p, err := in.NextWithUnsupported()
		if err != nil {
			return why
		}
		switch p := p.(type) {
		case *packet.Signature:
			return ""
		case *packet.UnsupportedPacket:
			if _, ok := p.IncompletePacket.(*packet.Signature); ok {
				why = notSupported(p.Error)
			}
		}
	}
}

// notSupported returns the text of an error of the library, with names in place of numbers and
// characters.
func notSupported(err pgperrors.UnsupportedError) string {
	text := string(err)
	if id, ok := strings.CutPrefix(text, "unknown cipher: "); ok {
		return fmt.Sprintf("the cipher %d", []rune(id)[0])
	}
	if id, ok := strings.CutPrefix(text, "hash function"); ok {
		id = strings.Trim(id, ": ")
		return "the hash function " + cmp.Or(map[string]string{"1": "MD5", "3": "RIPEMD-160"}[id], id)
	}
	return Printable(text, 100)
}

// rank orders the results of a message with several signatures.
func rank(s Status) int {
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

// candidate checks one signature. In addition to the library's checks, the key must be valid now,
// and by today's standards.
func (c *signatureChecker) candidate(s *openpgp.SignatureCandidate) Signature {
	var key *Key
	for _, k := range c.keys.signers {
		if k.entity == s.SignedByEntity {
			key = k
		}
	}
	if key == nil {
		return Signature{Status: StatusUnknownSigner, Problem: "it is signed by the key id " + keyID(s.IssuerKeyId) + ", which is not " + c.whoCounts()}
	}
	wrong := Signature{Status: StatusInvalid, Problem: "its signature by " + key.label() + " does not fit the content"}
	// The library notes in the entity what held when it was signed.
	today, err := ParseKey(key.name, key.data)
	if s.CorrespondingSig == nil { // the library has left out one of those that are announced
		return Signature{Status: StatusUnsafe, Problem: "its signature by " + key.label() + ", or one beside it, is of a kind that can't be verified (an old version, or an unknown algorithm); its signer must sign with a current program"}
	}
	if err != nil {
		return wrong
	}
	now := time.Now()
	if s.SignedBy == nil { // no key could have made the signature at its time
		now = s.CorrespondingSig.CreationTime
	}
	switch status, why := today.signerUnfit(s.IssuerKeyId, now); {
	case why != "" && (s.SignatureError == nil || s.SignedBy == nil):
		return Signature{Status: status, Problem: "its signer's " + key.label() + " " + why}
	case errors.Is(s.SignatureError, pgperrors.ErrSignatureExpired):
		return Signature{Status: StatusInvalid, Problem: "its signature by " + key.label() + " is no longer or not yet valid"}
	case isCriticalNotation(s.SignatureError):
		return Signature{Status: StatusInvalid, Problem: "its signature by " + key.label() + " counts only for a program that knows a notation in it (critical); its sender must sign without"}
	case s.SignatureError != nil || s.SignedBy == nil:
		return wrong
	case weakHashes()[s.CorrespondingSig.Hash]:
		return Signature{Status: StatusUnsafe, Problem: "its signature by " + key.label() + " is made with " + s.CorrespondingSig.Hash.String() + ", with which signatures can be forged"}
	}
	return Signature{
		Status:  StatusValid,
		Signers: []string{key.Fingerprint()},
		Time:    s.CorrespondingSig.CreationTime.UTC(),
	}
}

// isCriticalNotation reports whether a signature was refused because of a critical notation that
// the library does not support.
func isCriticalNotation(err error) bool {
	refused, ok := errors.AsType[pgperrors.SignatureError](err)
	return ok && strings.Contains(string(refused), "critical notation")
}

func (c *signatureChecker) whoCounts() string {
	if len(c.ids) > 0 {
		return "among " + c.settings.Signers + " (" + Printable(strings.Join(c.ids, ", "), 300) + ")"
	}
	return "among the keys that are there"
}
