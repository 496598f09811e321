package pgpstream

import (
	"fmt"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// KeyInfo describes a key for human readers. All texts are printable.
type KeyInfo struct {
	Problem     string // why the primary key can't be used any more; empty if it can
	Algorithm   string // with the curve or size
	Created     time.Time
	Expires     string    // a time, "never" or "not known"
	FirstExpiry time.Time // of the key, or of the first subkey that still works; zero means never
	UserID      string
	Subkeys     []string // those that work: what they are for, and when they expire
}

// Info describes the key at the time now.
func (k *Key) Info(now time.Time) KeyInfo {
	sig, _ := k.entity.VerifyPrimaryKey(now, policy())
	info := KeyInfo{
		Problem: k.primaryUnfit(now), Algorithm: algorithm(k.entity.PrimaryKey), Created: k.entity.PrimaryKey.CreationTime,
		Expires: expires(k.entity.PrimaryKey, sig), FirstExpiry: k.firstExpiry(now),
	}
	if _, identity := k.entity.PrimaryIdentity(now, policy()); identity != nil {
		info.UserID = Printable(identity.Name, 100)
	}
	for _, s := range k.entity.Subkeys {
		if sig, err := s.Verify(now, policy()); err == nil {
			info.Subkeys = append(info.Subkeys, fmt.Sprintf("%s %s for %s, expires: %s", keyID(s.PublicKey.KeyId), algorithm(s.PublicKey), uses(s.PublicKey, sig), expires(s.PublicKey, sig)))
		}
	}
	return info
}

// firstExpiry returns when the key, or the first of its valid subkeys, expires; zero means never.
func (k *Key) firstExpiry(now time.Time) time.Time {
	var first time.Time
	earlier := func(pub *packet.PublicKey, sig *packet.Signature, err error) {
		if end, is := end(pub, sig); is && err == nil && (first.IsZero() || end.Before(first)) {
			first = end
		}
	}
	sig, err := k.entity.VerifyPrimaryKey(now, policy())
	earlier(k.entity.PrimaryKey, sig, err)
	for _, s := range k.entity.Subkeys {
		sig, err := s.Verify(now, policy())
		earlier(s.PublicKey, sig, err)
	}
	return first
}

// end returns when a key expires, if the signature states it.
func end(k *packet.PublicKey, sig *packet.Signature) (time.Time, bool) {
	if sig == nil || sig.KeyLifetimeSecs == nil || *sig.KeyLifetimeSecs == 0 {
		return time.Time{}, false
	}
	return k.CreationTime.Add(time.Duration(*sig.KeyLifetimeSecs) * time.Second), true
}

func expires(k *packet.PublicKey, sig *packet.Signature) string {
	if sig == nil {
		return "not known"
	}
	if end, ok := end(k, sig); ok {
		return end.UTC().Format(dateForm)
	}
	return "never"
}

// uses returns the uses of a subkey.
func uses(k *packet.PublicKey, sig *packet.Signature) string {
	var all []string
	if !sig.FlagsValid && k.PubKeyAlgo.CanEncrypt() || sig.FlagsValid && (sig.FlagEncryptCommunications || sig.FlagEncryptStorage) {
		all = append(all, "encryption")
	}
	if sig.FlagsValid && sig.FlagSign {
		all = append(all, "signatures")
	}
	if len(all) == 0 {
		return "other things"
	}
	return strings.Join(all, " and ")
}

// algorithm returns the algorithm of a key, with its curve or size.
func algorithm(k *packet.PublicKey) string {
	name := map[packet.PublicKeyAlgorithm]string{
		packet.PubKeyAlgoRSA: "RSA", packet.PubKeyAlgoRSAEncryptOnly: "RSA", packet.PubKeyAlgoRSASignOnly: "RSA",
		packet.PubKeyAlgoElGamal: "ElGamal", packet.PubKeyAlgoDSA: "DSA",
		packet.PubKeyAlgoECDH: "ECDH", packet.PubKeyAlgoECDSA: "ECDSA", packet.PubKeyAlgoEdDSA: "EdDSA",
		packet.PubKeyAlgoX25519: "X25519", packet.PubKeyAlgoX448: "X448", packet.PubKeyAlgoEd25519: "Ed25519", packet.PubKeyAlgoEd448: "Ed448",
	}[k.PubKeyAlgo]
	if name == "" {
		return fmt.Sprintf("algorithm %d", k.PubKeyAlgo)
	}
	switch k.PubKeyAlgo {
	case packet.PubKeyAlgoECDH, packet.PubKeyAlgoECDSA, packet.PubKeyAlgoEdDSA:
		if curve, err := k.Curve(); err == nil {
			name += " " + string(curve)
		}
	case packet.PubKeyAlgoRSA, packet.PubKeyAlgoRSAEncryptOnly, packet.PubKeyAlgoRSASignOnly, packet.PubKeyAlgoElGamal, packet.PubKeyAlgoDSA:
		if bits, err := k.BitLength(); err == nil {
			name += fmt.Sprintf(" %d bits", bits)
		}
	}
	return name
}
