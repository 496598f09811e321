package pgpstream

import (
	"crypto"
	"hash"
	"io"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
)

// A signatureWriter makes one signature of the content written to it.
type signatureWriter struct {
	key     *packet.PrivateKey
	sig     *packet.Signature
	hash    hash.Hash
	content io.Writer // the hash, for text with its line ends in one form
}

// newSignatureWriter returns a writer that signs with a private key. If text is set, the kind of
// line ends makes no difference.
func newSignatureWriter(key *Key, text bool) (*signatureWriter, error) {
	conf := policy()
	k, ok := key.signingKey(conf.Now(), 0)
	if !ok || k.PrivateKey == nil {
		return nil, permanentf("%s: has no key for signatures any more", key.label())
	}
	s := &signatureWriter{key: k.PrivateKey, sig: &packet.Signature{
		Version: k.PrivateKey.Version, SigType: packet.SigTypeBinary, PubKeyAlgo: k.PrivateKey.PubKeyAlgo, Hash: hashFor(k.PublicKey),
		CreationTime: conf.Now(), IssuerKeyId: &k.PrivateKey.KeyId, IssuerFingerprint: k.PrivateKey.Fingerprint,
		IssuerKeyVersion: uint8(k.PrivateKey.Version),
	}}
	if text {
		s.sig.SigType = packet.SigTypeText
	}
	var err error
	if s.hash, err = s.sig.PrepareSign(conf); err != nil {
		return nil, permanentf("%s: %w", key.label(), err)
	}
	s.content = s.hash
	if text {
		s.content = openpgp.NewCanonicalTextHash(s.hash)
	}
	return s, nil
}

// hashFor returns the hash function for signatures by a key: SHA-256, or a longer one for a
// longer key.
func hashFor(k *packet.PublicKey) crypto.Hash {
	switch k.PubKeyAlgo {
	case packet.PubKeyAlgoEd448, packet.PubKeyAlgoMldsa87Ed448, packet.PubKeyAlgoSlhdsaShake256s:
		return crypto.SHA512
	case packet.PubKeyAlgoECDSA, packet.PubKeyAlgoEdDSA:
		switch curve, _ := k.Curve(); curve {
		case packet.Curve448, packet.CurveNistP521, packet.CurveBrainpoolP512:
			return crypto.SHA512
		case packet.CurveNistP384, packet.CurveBrainpoolP384:
			return crypto.SHA384
		}
	}
	return crypto.SHA256
}

// hashName returns the name of the hash in the header of a clear-signed text.
func (s *signatureWriter) hashName() string {
	switch s.sig.Hash {
	case crypto.SHA384:
		return "SHA384"
	case crypto.SHA512:
		return "SHA512"
	}
	return "SHA256"
}

// announce writes the packet before content that is followed by its signature.
func (s *signatureWriter) announce(w io.Writer) error {
	ops := &packet.OnePassSignature{
		Version: 3, SigType: s.sig.SigType, Hash: s.sig.Hash, PubKeyAlgo: s.sig.PubKeyAlgo, KeyId: s.key.KeyId, IsLast: true,
	}
	if s.key.Version == 6 {
		ops.Version, ops.KeyFingerprint, ops.Salt = 6, s.key.Fingerprint, s.sig.Salt()
	}
	return ops.Serialize(w)
}

// Write adds content to be signed.
func (s *signatureWriter) Write(p []byte) (int, error) { return s.content.Write(p) }

// sign writes the signature. The signature names the recipients of a message, so that none of
// them can pass it on as if it had been meant for somebody else.
func (s *signatureWriter) sign(w io.Writer, recipients []*packet.Recipient) error {
	s.sig.IntendedRecipients = recipients
	if err := s.sig.Sign(s.hash, s.key, policy()); err != nil {
		return err
	}
	return s.sig.Serialize(w)
}

// signedAt returns the time in the signature.
func (s *signatureWriter) signedAt() time.Time { return s.sig.CreationTime.UTC().Truncate(time.Second) }
