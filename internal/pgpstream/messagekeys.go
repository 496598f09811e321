package pgpstream

import (
	"slices"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
)

// messageKeys provides the library with the keys for one message: the private keys to decrypt it,
// and then the keys that may have signed it.
type messageKeys struct {
	src     *messageReader // nil if no key is asked for to open the message
	start   int64
	private openpgp.EntityList
	signer  func(id uint64) *Key // nil if nobody's signature is looked at
	signers []*Key               // found by signer
	asked   int                  // how often, inside the message
}

var _ openpgp.KeyRing = (*messageKeys)(nil)

// EntitiesById implements openpgp.KeyRing. Before the encrypted data begin, the library asks for
// keys to decrypt the message, and after that once for each signature. EntitiesById panics with
// an abort if there are too many signatures.
func (k *messageKeys) EntitiesById(id uint64) []*openpgp.Entity {
	if k.src != nil && k.src.n <= k.start {
		return k.private.EntitiesById(id)
	}
	if k.asked++; k.asked > maxSignatures {
		panic(abort{messageErrorf("has more than %d signatures", maxSignatures)})
	}
	if k.signer == nil || id == 0 {
		return nil
	}
	key := k.signer(id)
	if key == nil {
		return nil
	}
	key.dropUnflaggedBindings()
	k.signers = append(k.signers, key)
	return []*openpgp.Entity{key.entity}
}

// dropUnflaggedBindings removes signatures that bind subkeys without key flags. The library would
// treat such a subkey as a signing key, although the subkey need not have signed that it belongs
// to the key, and would fail because of the missing signature.
func (k *Key) dropUnflaggedBindings() {
	for i := range k.entity.Subkeys {
		s := &k.entity.Subkeys[i]
		s.Bindings = slices.DeleteFunc(slices.Clone(s.Bindings), func(sig *packet.VerifiableSignature) bool { return !sig.Packet.FlagsValid })
	}
}

// KeysById implements openpgp.KeyRing; the library doesn't use it here.
func (k *messageKeys) KeysById(uint64) []openpgp.Key { return nil }

// An abort is a panic value that leaves the library. The library does not accept an error when it
// asks for keys, and would continue to read everything that a message can unpack to.
type abort struct{ err error }

// catchAbort calls f and returns the error of an abort, if there is one.
func catchAbort(f func() error) (err error) {
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
