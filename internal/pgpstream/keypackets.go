package pgpstream

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
)

// The packets of keys, by tag.
const (
	tagSignature     = 2
	tagSecretKey     = 5
	tagPublicKey     = 6
	tagSecretSubkey  = 7
	tagUserID        = 13
	tagPublicSubkey  = 14
	tagUserAttribute = 17
)

// A section is a packet of a key and the signatures that follow it. Keys are stored, merged and
// written as packets with their original contents, because a signature covers the bytes of its
// subpackets, and the library writes some of them in another form.
type section struct {
	head *packet.OpaquePacket // a key, a subkey, a user id or a user attribute
	sigs []*packet.OpaquePacket
}

// splitKeys splits binary data into keys, each with its sections. It leaves out packets before
// the first key, and packets that are neither part of a key nor a signature.
func splitKeys(data []byte) (keys [][]section, err error) {
	for r := packet.NewOpaqueReader(bytes.NewReader(data)); ; {
		p, err := r.Next()
		if err == io.EOF {
			return keys, nil
		}
		if err != nil {
			return nil, err
		}
		last := len(keys) - 1
		switch p.Tag {
		case tagSecretKey, tagPublicKey:
			keys = append(keys, []section{{head: p}})
		case tagSecretSubkey, tagPublicSubkey, tagUserID, tagUserAttribute:
			if last >= 0 {
				keys[last] = append(keys[last], section{head: p})
			}
		case tagSignature:
			if last >= 0 {
				of := &keys[last][len(keys[last])-1]
				of.sigs = append(of.sigs, p)
			}
		}
	}
}

// subject returns the text that identifies a section in its key: the fingerprint of a key or
// subkey, public or private, or the text of a user id.
func (s section) subject() string {
	if pub := s.publicKey(); pub != nil {
		return fingerprint(pub)
	}
	return fmt.Sprintf("%d %s", s.head.Tag, s.head.Contents)
}

// publicKey returns the public part of the key or subkey with which the section begins. It is nil
// if the section begins with another packet, or with one that the library cannot read.
func (s section) publicKey() *packet.PublicKey {
	if s.head.Tag == tagUserID || s.head.Tag == tagUserAttribute {
		return nil
	}
	p, _ := s.head.Parse()
	switch p := p.(type) {
	case *packet.PublicKey:
		return p
	case *packet.PrivateKey:
		return &p.PublicKey
	}
	return nil
}

// isSecret reports whether the section begins with a private key or subkey.
func (s section) isSecret() bool { return s.head.Tag == tagSecretKey || s.head.Tag == tagSecretSubkey }

// writeSections returns the binary form of a key. Head writes the first packet of a section; nil
// writes it unchanged. A section for which head writes nothing is left out.
func writeSections(key []section, head func(io.Writer, section) error) ([]byte, error) {
	if head == nil {
		head = func(w io.Writer, s section) error { return s.head.Serialize(w) }
	}
	var buf bytes.Buffer
	for _, s := range key {
		before := buf.Len()
		if err := head(&buf, s); err != nil {
			return nil, err
		}
		if buf.Len() == before {
			continue
		}
		for _, sig := range s.sigs {
			if err := sig.Serialize(&buf); err != nil {
				return nil, err
			}
		}
	}
	return buf.Bytes(), nil
}

// publicHead writes the public part of a key. It leaves out a private part that the library
// cannot read.
func publicHead(w io.Writer, s section) error {
	if !s.isSecret() {
		return s.head.Serialize(w)
	}
	if pub := s.publicKey(); pub != nil {
		return pub.Serialize(w)
	}
	return nil
}

// unlockedHead returns a function that writes the private parts as in e.
func unlockedHead(e *openpgp.Entity) func(io.Writer, section) error {
	private := map[string]*packet.PrivateKey{fingerprint(e.PrimaryKey): e.PrivateKey}
	for _, s := range e.Subkeys {
		private[fingerprint(s.PublicKey)] = s.PrivateKey
	}
	return func(w io.Writer, s section) error {
		if own := private[s.subject()]; s.isSecret() && own != nil {
			return own.Serialize(w)
		}
		return s.head.Serialize(w)
	}
}

// joinSections adds to a key the additional signatures, user ids and subkeys of another form of
// it. User ids stay before subkeys.
func joinSections(key, other []section) []section {
	at := make(map[string]int, len(key)) // in joined
	joined := make([]section, 0, len(key)+len(other))
	isSubkey := func(s section) bool { return s.head.Tag == tagSecretSubkey || s.head.Tag == tagPublicSubkey }
	for _, subkeys := range []bool{false, true} {
		for _, s := range slices.Concat(key, other) {
			if isSubkey(s) != subkeys {
				continue
			}
			subject := s.subject()
			i, known := at[subject]
			if !known {
				at[subject] = len(joined)
				joined = append(joined, section{head: s.head, sigs: slices.Clone(s.sigs)})
				continue
			}
			joined[i].sigs = append(joined[i].sigs, s.sigs...)
		}
	}
	for i := range joined {
		seen := make(map[string]bool, len(joined[i].sigs))
		joined[i].sigs = slices.DeleteFunc(joined[i].sigs, func(sig *packet.OpaquePacket) bool {
			again := seen[string(sig.Contents)]
			seen[string(sig.Contents)] = true
			return again
		})
	}
	return joined
}
