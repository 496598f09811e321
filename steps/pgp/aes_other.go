//go:build !amd64 || purego

package pgp

import (
	"crypto/aes"
	"crypto/cipher"
)

// newSessionCipher returns AES with a key of 16, 24 or 32 bytes.
func newSessionCipher(key []byte) (cipher.Block, error) { return aes.NewCipher(key) }

// encryptMany encrypts nothing where no way is known that is faster than others.
func encryptMany(cipher.Block, []byte, []byte) int { return 0 }

// encryptCFB encrypts nothing either.
func encryptCFB(cipher.Block, []byte, *[aes.BlockSize]byte) int { return 0 }
