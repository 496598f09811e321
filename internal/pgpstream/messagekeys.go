package pgpstream

import (
	"slices"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
)

// messageKeys gives the library the keys for one message: to open it the private
// keys, and inside it the keys that may have signed it.
type messageKeys struct {
	src     *messageReader // nil if no key is asked for to open the message
	start   int64
	private openpgp.EntityList
	signer  func(id uint64) *Key // nil if nobody's signature is looked at
	signers []*Key               // found by signer
	asked   int                  // how often, inside the message
}

var _ openpgp.KeyRing = (*messageKeys)(nil)

// EntitiesById implements openpgp.KeyRing. Before the encrypted data begin the
// library asks for keys to open the message, and after that once for each
// signature. It panics with an abort if there are too many of them.
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

// dropUnflaggedBindings leaves out signatures that bind subkeys without key flags. The
// library would take such a subkey for one that signs, although the subkey need not have
// signed that it belongs to the key, and fails on the missing signature.
func (k *Key) dropUnflaggedBindings() {
	for i := range k.entity.Subkeys {
		s := &k.entity.Subkeys[i]
		s.Bindings = slices.DeleteFunc(slices.Clone(s.Bindings), func(sig *packet.VerifiableSignature) bool { return !sig.Packet.FlagsValid })
	}
}

// KeysById implements openpgp.KeyRing; the library doesn't use it here.
func (k *messageKeys) KeysById(uint64) []openpgp.Key { return nil }

// An abort leaves the library, which asks for keys without taking an error for
// an answer, and would read on through as much as a message can unpack to.
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
