package pgpstream

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier/internal/failure"
)

// The limits of the attempts for one message, since its sender decides how many keys it names.
const (
	maxRecipients = 1000
	maxAttempts   = 100     // of opening the session key
	maxSignatures = 32      // each takes memory, and time for each byte
	maxEnvelope   = 4 << 20 // bytes of packets before the encrypted data
)

// A messageHeader is the part of a message before its encrypted data.
type messageHeader struct {
	ids      []string // key ids or fingerprints of the keys that can open it, each once
	times    map[uint64]int
	password bool  // a password can open it too
	start    int64 // where the encrypted data begin in the source
	keys     []*packet.EncryptedKey
	seipd    *packet.SymmetricallyEncrypted // nil if the encrypted data are of another kind
	data     packet.EncryptedDataPacket     // the encrypted data
	skipped  string                         // why a session key can't be read, if that is so
}

// readHeader reads the packets before the encrypted data. Its error is a MessageError, or an
// error of the source, which has priority.
func readHeader(src *messageReader) (*messageHeader, error) {
	h := &messageHeader{times: make(map[uint64]int)}
	seen := make(map[string]bool)
	count := 0
	limit := &io.LimitedReader{R: src, N: maxEnvelope}
	packets := packet.NewReader(limit)
	for {
		p, err := packets.NextWithUnsupported()
		switch {
		case err == io.EOF:
			return nil, messageErrorf("holds no encrypted data")
		case errors.Is(err, pgperrors.AEADError("unknown mode")):
			return nil, messageErrorf("uses what is not supported: an AEAD mode other than EAX and OCB; its sender must encrypt in another way")
		case err != nil:
			return nil, messageErrorf("is not an OpenPGP message, or is damaged")
		}
		switch p := p.(type) {
		case *packet.UnsupportedPacket:
			if err := h.skip(p); err != nil {
				return nil, err
			}
		case *packet.EncryptedKey:
			if count++; count > maxRecipients {
				return nil, messageErrorf("names more than %d recipients", maxRecipients)
			}
			h.times[p.KeyId]++
			h.keys = append(h.keys, p)
			id := keyID(p.KeyId)
			if len(p.KeyFingerprint) > 0 {
				id = fmt.Sprintf("%X", p.KeyFingerprint)
			}
			if p.KeyId != 0 && !seen[id] {
				seen[id] = true
				h.ids = append(h.ids, id)
			}
		case *packet.SymmetricKeyEncrypted:
			h.password = true
		case *packet.SymmetricallyEncrypted:
			if !p.IntegrityProtected {
				return nil, messageErrorf("is not protected against changes (it has no integrity check, MDC), so it is not decrypted; its sender must encrypt with a current program")
			}
			h.start, h.seipd, h.data = src.n, p, p
			limit.N = math.MaxInt64
			return h, nil
		case *packet.AEADEncrypted:
			h.start, h.data = src.n, p
			return h, nil
		case *packet.LiteralData, *packet.Compressed, *packet.OnePassSignature, *packet.Signature:
			return nil, messageErrorf("is not encrypted")
		case *packet.PublicKey, *packet.PrivateKey:
			return nil, messageErrorf("is a key, not a message")
		default:
			return nil, messageErrorf("is not an OpenPGP message")
		}
	}
}

// skip skips a packet that the library cannot read, unless it contains the encrypted data.
func (h *messageHeader) skip(p *packet.UnsupportedPacket) error {
	why := notSupported(p.Error)
	switch p.IncompletePacket.(type) {
	case *packet.EncryptedKey, *packet.SymmetricKeyEncrypted:
		h.skipped = why
	case *packet.SymmetricallyEncrypted, *packet.AEADEncrypted, *packet.Compressed, *packet.LiteralData:
		hint := "its sender must encrypt in another way"
		if strings.Contains(why, "chunk size") {
			hint = "chunks of up to 4 MiB are supported; its sender must encrypt in smaller ones (gpg --chunk-size 22), or without AEAD"
		}
		return messageErrorf("uses what is not supported: %s; %s", why, hint)
	}
	return nil
}

// attempts returns how often a key would be tried.
func (h *messageHeader) attempts(e *openpgp.Entity) int {
	hidden := h.times[0]
	n := h.times[e.PrimaryKey.KeyId] + hidden
	for _, s := range e.Subkeys {
		n += h.times[s.PublicKey.KeyId] + hidden
	}
	return n
}

// undecrypting returns the reason why no part of a private key that the message names may
// decrypt, or "" if one may. It is called before the message is read further, since otherwise a
// matching key that must not decrypt the message would look like a damaged message.
func (h *messageHeader) undecrypting(k *Key) string {
	var why []string
	at := func(pub *packet.PublicKey, private *packet.PrivateKey) bool {
		if h.times[0] == 0 && h.times[pub.KeyId] == 0 {
			return false
		}
		may := slices.ContainsFunc(k.entity.DecryptionKeys(pub.KeyId, time.Time{}, reading(0)), func(own openpgp.Key) bool { return own.PublicKey == pub })
		name := "its subkey "
		if pub == k.entity.PrimaryKey {
			name = "its primary key "
		}
		switch name += keyID(pub.KeyId); {
		case !pub.PubKeyAlgo.CanEncrypt():
			why = append(why, name+" is of an algorithm that is for signatures only ("+algorithm(pub)+")")
		case !may:
			why = append(why, name+" is not for encryption by its key flags, or its binding signature is missing or wrong")
		case private == nil || private.Dummy():
			why = append(why, "the private part of "+name+" is not there; it may be on a smart card or in another file")
		default:
			return true
		}
		return false
	}
	fits := at(k.entity.PrimaryKey, k.entity.PrivateKey)
	for _, s := range k.entity.Subkeys {
		fits = at(s.PublicKey, s.PrivateKey) || fits
	}
	if fits {
		return ""
	}
	return "may not decrypt it: " + strings.Join(why, ", ")
}

// recipients returns the text in an error that says which keys would decrypt the message.
func (h *messageHeader) recipients() string {
	var parts []string
	const few = 10
	if n := len(h.ids); n > 0 {
		text := "to " + strings.Join(h.ids[:min(n, few)], ", ")
		if n > few {
			text += fmt.Sprintf(" and %d more", n-few)
		}
		parts = append(parts, text)
	}
	if h.times[0] > 0 {
		parts = append(parts, "to keys that it does not name")
	}
	if h.password {
		parts = append(parts, "with a password, which is not supported")
	}
	if h.skipped != "" {
		parts = append(parts, "in a way that is not supported ("+h.skipped+")")
	}
	if len(parts) == 0 {
		return "it is encrypted to nobody"
	}
	return "it is encrypted " + strings.Join(parts, " and ")
}

// privateKeys returns the unlocked private keys that may decrypt the message: the keys with the
// given ids, or if there are none, the keys that the message names.
func (h *messageHeader) privateKeys(ctx context.Context, source KeySource, ids []string, names SettingNames) ([]*Key, error) {
	given := len(ids) > 0
	if !given {
		ids = h.ids
	}
	var keys []*Key
	var why []string
	seen := make(map[string]bool)
	for _, id := range ids {
		key, err := source.Key(ctx, id)
		if err != nil && !given && errors.Is(err, ErrUnknownKey) {
			continue // the key of another recipient
		}
		if err != nil {
			if errors.Is(err, ErrUnknownKey) {
				err = failure.Permanent(err)
			}
			return nil, fmt.Errorf("private key: %w", err)
		}
		fp := key.Fingerprint()
		switch {
		case seen[fp]:
			continue
		case h.attempts(key.entity) == 0:
			why = append(why, key.label()+" has "+subkeyIDs(key.entity))
			continue
		case !key.HasPrivate():
			why = append(why, key.label()+" is there without its private part")
			continue
		}
		seen[fp] = true
		if key.Locked() {
			if key, err = source.Unlock(ctx, key); err != nil {
				return nil, fmt.Errorf("private key: %w", err)
			}
		}
		if problem := h.undecrypting(key); problem != "" {
			why = append(why, key.label()+" "+problem)
			continue
		}
		keys = append(keys, key)
	}
	if len(keys) > 0 {
		return keys, nil
	}
	hint := strings.Join(why, "; ")
	switch {
	case hint != "":
	case given:
		hint = "none of " + names.PrivateKeys + " fits"
	case len(h.ids) == 0 && h.times[0] > 0:
		hint = "give the keys to try in " + names.PrivateKeys
	default:
		hint = "none of these keys is there; add one, or if it goes by another id, name it in " + names.PrivateKeys
	}
	return nil, permanentf("no private key opens it: %s; %s", h.recipients(), hint)
}

// openSessionKey decrypts the session key with one of the private keys. The cipher is nil if no
// key decrypts it, or if the content is not encrypted in the one way that this package decrypts
// itself; then the library reads the message and reports the reason.
func (h *messageHeader) openSessionKey(keys []*Key) (cipher.Block, openpgp.Key) {
	if h.seipd == nil || h.seipd.Version != 1 {
		return nil, openpgp.Key{}
	}
	conf := reading(0)
	for _, sent := range h.keys {
		for _, k := range keys {
			for _, own := range k.entity.DecryptionKeys(sent.KeyId, time.Time{}, conf) {
				if own.PrivateKey == nil || own.PrivateKey.Encrypted || own.PrivateKey.Dummy() || sent.Decrypt(own.PrivateKey, conf) != nil {
					continue
				}
				switch sent.CipherFunc {
				case packet.CipherAES128, packet.CipherAES192, packet.CipherAES256:
				default:
					return nil, openpgp.Key{}
				}
				if len(sent.Key) != sent.CipherFunc.KeySize() {
					continue
				}
				if c, err := aes.NewCipher(sent.Key); err == nil {
					return c, own
				}
			}
		}
	}
	return nil, openpgp.Key{}
}

func subkeyIDs(e *openpgp.Entity) string {
	ids := []string{keyID(e.PrimaryKey.KeyId)}
	for _, s := range e.Subkeys {
		ids = append(ids, keyID(s.PublicKey.KeyId))
	}
	return strings.Join(ids, ", ")
}
