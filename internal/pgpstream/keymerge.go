package pgpstream

import (
	"bytes"
	"slices"

	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
)

// Merge returns the key with what another form of the same key has besides: its
// signatures, user ids and subkeys. Where both have a private part, that of k counts.
// Neither k nor other may be used any more.
func (k *Key) Merge(other *Key) (*Key, error) {
	join(k.entity, other.entity)
	data, err := k.Serialize()
	if err != nil {
		return nil, err
	}
	return &Key{entity: k.entity, name: k.name, data: data}, nil
}

// join adds the signatures and subkeys of from to those of to. A signature
// that is there twice is verified twice, which does no harm.
func join(to, from *openpgp.Entity) {
	to.Revocations = append(to.Revocations, from.Revocations...)
	to.DirectSignatures = append(to.DirectSignatures, from.DirectSignatures...)
	for name, id := range from.Identities {
		mine := to.Identities[name]
		if mine == nil {
			id.Primary = to
			to.Identities[name] = id
			continue
		}
		mine.SelfCertifications = append(mine.SelfCertifications, id.SelfCertifications...)
		mine.Revocations = append(mine.Revocations, id.Revocations...)
	}
	for _, sub := range from.Subkeys {
		i := slices.IndexFunc(to.Subkeys, func(s openpgp.Subkey) bool {
			return bytes.Equal(s.PublicKey.Fingerprint, sub.PublicKey.Fingerprint)
		})
		if i < 0 {
			sub.Primary = to
			to.Subkeys = append(to.Subkeys, sub)
			continue
		}
		mine := &to.Subkeys[i]
		mine.Bindings = append(mine.Bindings, sub.Bindings...)
		mine.Revocations = append(mine.Revocations, sub.Revocations...)
	}
}
