package pgp

import (
	"fmt"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// soon is how long before its end an operator is told that a key expires.
const soon = 30 * 24 * time.Hour

// report tells, when a configuration is tested, what was found out about keys
// that can be used.
func (l *loader) report(use string, keys ...*loaded) {
	for _, key := range keys {
		now := time.Now()
		log, facts := l.job.Log().With("key", plain(key.id, 100), "use", use, "fingerprint", fingerprint(key.PrimaryKey)), key.facts(now)
		log.Info("the key works", facts...)
		if end, ok := key.ends(now); ok && end.Before(now.Add(soon)) {
			log.Warn("the key expires soon: its owner has to give it a later date, or another key has to take its place", "expires", end.UTC().Format(dateForm))
		}
	}
}

// facts are what there is to tell about a key, as pairs for a log.
func (l *loaded) facts(now time.Time) []any {
	sig, _ := l.VerifyPrimaryKey(now, policy())
	var facts []any
	if why := l.primaryUnfit(now); why != "" { // which is no reason not to decrypt
		facts = append(facts, "but", why)
	}
	facts = append(facts, "algorithm", algorithm(l.PrimaryKey), "made", l.PrimaryKey.CreationTime.UTC().Format(dateForm), "expires", expires(l.PrimaryKey, sig))
	if _, identity := l.PrimaryIdentity(now, policy()); identity != nil {
		facts = append(facts, "user", plain(identity.Name, 100))
	}
	var subkeys []string
	for _, s := range l.Subkeys {
		if sig, err := s.Verify(now, policy()); err == nil {
			subkeys = append(subkeys, fmt.Sprintf("%s %s for %s, expires: %s", keyID(s.PublicKey.KeyId), algorithm(s.PublicKey), uses(sig), expires(s.PublicKey, sig)))
		}
	}
	facts = append(facts, "subkeys", subkeys)
	if !hasPrivate(l.Entity) {
		return append(facts, "private", false)
	}
	facts = append(facts, "private", true)
	// As it is given out, a key may be locked; by now it has been unlocked.
	if e, err := parseKey(l.from.Data); err == nil && locked(e) && !locked(l.Entity) {
		return append(facts, "passphrase", "right")
	}
	return append(facts, "passphrase", "none")
}

// ends is when the key expires, or the first of its subkeys that still works;
// false means never.
func (l *loaded) ends(now time.Time) (first time.Time, ok bool) {
	earlier := func(k *packet.PublicKey, sig *packet.Signature, err error) {
		if end, is := end(k, sig); is && err == nil && (!ok || end.Before(first)) {
			first, ok = end, true
		}
	}
	sig, err := l.VerifyPrimaryKey(now, policy())
	earlier(l.PrimaryKey, sig, err)
	for _, s := range l.Subkeys {
		sig, err := s.Verify(now, policy())
		earlier(s.PublicKey, sig, err)
	}
	return first, ok
}

// end is when a key expires, if the signature tells it.
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

// uses is what a subkey is for.
func uses(sig *packet.Signature) string {
	var all []string
	if sig.FlagsValid && (sig.FlagEncryptCommunications || sig.FlagEncryptStorage) {
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

// algorithm is a key's, with its curve or size.
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
