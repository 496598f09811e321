package pgp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier"
)

// What is tried for one message at most, since its sender decides how many
// keys it names.
const (
	maxRecipients = 1000
	maxTrials     = 100     // of opening the session key
	maxSignatures = 32      // each takes memory, and time for each byte
	maxEnvelope   = 4 << 20 // bytes of packets before the encrypted data
)

// An envelope is what a message says before its encrypted data begin.
type envelope struct {
	ids      []string // key ids or fingerprints of the keys that can open it, each once
	times    map[uint64]int
	password bool  // a password can open it too
	start    int64 // where the encrypted data begin in the source
	keys     []*packet.EncryptedKey
	sealed   *packet.SymmetricallyEncrypted // nil if it is of another kind
}

// readEnvelope reads the packets before the encrypted data. Its error is a
// messageError; one that the source has goes before it.
func readEnvelope(src *source) (*envelope, error) {
	env := &envelope{times: make(map[uint64]int)}
	seen := make(map[string]bool)
	count := 0
	limit := &io.LimitedReader{R: src, N: maxEnvelope}
	packets := packet.NewReader(limit)
	for {
		p, err := packets.Next()
		if err == io.EOF {
			return nil, about("holds no encrypted data")
		}
		if err != nil {
			return nil, about("is not an OpenPGP message, or a damaged one")
		}
		switch p := p.(type) {
		case *packet.EncryptedKey:
			if count++; count > maxRecipients {
				return nil, about("names more than %d recipients", maxRecipients)
			}
			env.times[p.KeyId]++
			env.keys = append(env.keys, p)
			id := keyID(p.KeyId)
			if len(p.KeyFingerprint) > 0 {
				id = fmt.Sprintf("%X", p.KeyFingerprint)
			}
			if p.KeyId != 0 && !seen[id] {
				seen[id] = true
				env.ids = append(env.ids, id)
			}
		case *packet.SymmetricKeyEncrypted:
			env.password = true
		case *packet.SymmetricallyEncrypted:
			if !p.IntegrityProtected {
				return nil, about("is not protected against changes (it has no integrity check, MDC), so it is not decrypted; its sender must encrypt with a current program")
			}
			env.start, env.sealed = src.n, p
			limit.N = math.MaxInt64
			return env, nil
		case *packet.AEADEncrypted:
			env.start = src.n
			return env, nil
		case *packet.LiteralData, *packet.Compressed, *packet.OnePassSignature, *packet.Signature:
			return nil, about("is not encrypted")
		case *packet.PublicKey, *packet.PrivateKey:
			return nil, about("is a key, not a message")
		default:
			return nil, about("is not an OpenPGP message")
		}
	}
}

// fits reports whether a key can be meant to open the message.
func (env *envelope) fits(e *openpgp.Entity) bool {
	return env.trials(e) > 0
}

// trials counts how often a key would be tried.
func (env *envelope) trials(e *openpgp.Entity) int {
	hidden := env.times[0]
	n := env.times[e.PrimaryKey.KeyId] + hidden
	for _, s := range e.Subkeys {
		n += env.times[s.PublicKey.KeyId] + hidden
	}
	return n
}

// wants says in a message which keys would open it.
func (env *envelope) wants() string {
	var parts []string
	const few = 10
	if n := len(env.ids); n > 0 {
		text := "to " + strings.Join(env.ids[:min(n, few)], ", ")
		if n > few {
			text += fmt.Sprintf(" and %d more", n-few)
		}
		parts = append(parts, text)
	}
	if env.times[0] > 0 {
		parts = append(parts, "to keys that it does not name")
	}
	if env.password {
		parts = append(parts, "with a password, which pgp.decrypt does not take")
	}
	if len(parts) == 0 {
		return "it is encrypted to nobody"
	}
	return "it is encrypted " + strings.Join(parts, " and ")
}

// openers returns the private keys that may open the message, unlocked: of
// those with the given ids, or if there are none, of those that it names.
func (env *envelope) openers(ctx context.Context, l *loader, ids []string) ([]*loaded, error) {
	given := len(ids) > 0
	if !given {
		ids = env.ids
	}
	var keys []*loaded
	var why []string
	seen := make(map[string]bool)
	for _, id := range ids {
		key, err := l.find(ctx, id)
		if err != nil && !given && errors.Is(err, courier.ErrNotFound) {
			continue // the key of another recipient
		}
		if err != nil {
			if errors.Is(err, courier.ErrNotFound) {
				err = courier.Permanent(err)
			}
			return nil, fmt.Errorf("private key: %w", err)
		}
		fp := fingerprint(key.PrimaryKey)
		switch {
		case seen[fp]:
			continue
		case !env.fits(key.Entity):
			why = append(why, key.label()+" has "+subkeyIDs(key.Entity))
			continue
		case !hasPrivate(key.Entity):
			why = append(why, key.label()+" is there without its private part")
			continue
		}
		seen[fp] = true
		if key, err = l.unlock(ctx, key); err != nil {
			return nil, fmt.Errorf("private key: %w", err)
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
		hint = "none of private_key_ids fits"
	case len(env.ids) == 0 && env.times[0] > 0:
		hint = "give the keys to try in private_key_ids"
	default:
		hint = "none of these keys is there; add one, or if it goes by another id, name it in private_key_ids"
	}
	return nil, permanentf("no private key opens it: %s; %s", env.wants(), hint)
}

func subkeyIDs(e *openpgp.Entity) string {
	ids := []string{keyID(e.PrimaryKey.KeyId)}
	for _, s := range e.Subkeys {
		ids = append(ids, keyID(s.PublicKey.KeyId))
	}
	return strings.Join(ids, ", ")
}

// A ring gives the library the keys for one message: to open it the private
// keys, and inside it the keys that may have signed it.
type ring struct {
	src     *source // nil if no key is asked for to open the message
	start   int64
	private openpgp.EntityList
	signer  func(id uint64) *loaded // nil if nobody's signature is looked at
	signers []*loaded               // found by signer
	asked   int                     // how often, inside the message
}

var _ openpgp.KeyRing = (*ring)(nil)

// EntitiesById implements openpgp.KeyRing. Before the encrypted data begin the
// library asks for keys to open the message, and after that once for each
// signature. It panics with an abort if there are too many of them.
func (r *ring) EntitiesById(id uint64) []*openpgp.Entity {
	if r.src != nil && r.src.n <= r.start {
		return r.private.EntitiesById(id)
	}
	if r.asked++; r.asked > maxSignatures {
		panic(abort{about("has more than %d signatures", maxSignatures)})
	}
	if r.signer == nil || id == 0 {
		return nil
	}
	key := r.signer(id)
	if key == nil {
		return nil
	}
	r.signers = append(r.signers, key)
	return []*openpgp.Entity{key.Entity}
}

// KeysById implements openpgp.KeyRing; the library doesn't use it here.
func (r *ring) KeysById(uint64) []openpgp.Key { return nil }

// An abort leaves the library, which asks for keys without taking an error for
// an answer, and would read on through as much as a message can unpack to.
type abort struct{ err error }

// guard calls f and returns the error of an abort, if there is one.
func guard(f func() error) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case abort:
			err = v.err
		default:
			panic(v)
		}
	}()
	return f()
}

// damaged tells what an error of the library means for the people who have to
// do something about it. Inside encrypted data the library says nothing more.
func damaged(err error) error {
	var malformed pgperrors.ErrMalformedMessage
	var structural pgperrors.StructuralError
	var unsupported pgperrors.UnsupportedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &malformed), errors.As(err, &structural):
		return about("holds something besides one complete message, or is damaged")
	case errors.As(err, &unsupported):
		return about("uses what is not supported: %s", plain(string(unsupported), 100))
	case errors.Is(err, pgperrors.ErrKeyIncorrect):
		return about("is damaged, encrypted to another key with the same id, or encrypted with another cipher than AES, 3DES and CAST5: its session key can't be opened")
	}
	return about("is damaged, cut short or was changed on its way: its integrity check does not hold")
}
