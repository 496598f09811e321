package pgpstream

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha1"
	"crypto/subtle"
)

// The content of an encrypted packet is one stream in CFB mode that begins with
// random bytes, the last two of them twice, and ends with a SHA-1 hash of all
// preceding bytes. It is processed in blocks, by a pipeline of goroutines, so
// that the slowest of them determines the speed.
const (
	seipdBlockBits = 18
	seipdBlockSize = 1 << seipdBlockBits
	// seipdBlocks is the number of blocks for one message.
	seipdBlocks = 8

	prefixSize = aes.BlockSize + 2
	// trailerSize is the size of the packet with the hash: its header and the
	// hash.
	trailerSize = 2 + sha1.Size
	trailerTag  = newFormat | 19
)

// cfbPart is the number of bytes processed at once, so that they stay in the
// fastest cache.
const cfbPart = 4 << 10

// A cfbEncrypter encrypts a stream. It computes CFB as CBC of the plaintext
// delayed by one block: the output of CBC is then the key stream of CFB. The
// standard library has assembly for CBC and none for CFB.
type cfbEncrypter struct {
	cbc  cipher.BlockMode
	last [aes.BlockSize]byte // of the plaintext
	part [cfbPart]byte
}

func newCFBEncrypter(c cipher.Block) *cfbEncrypter {
	return &cfbEncrypter{cbc: cipher.NewCBCEncrypter(c, make([]byte, aes.BlockSize))}
}

// encrypt encrypts data in place. Only in the last call may the size of data
// not be a multiple of the block size.
func (e *cfbEncrypter) encrypt(data []byte) {
	for len(data) > 0 {
		n := min(len(data), cfbPart)
		part := e.part[:(n+aes.BlockSize-1)&^(aes.BlockSize-1)]
		copy(part, e.last[:])
		copy(part[aes.BlockSize:], data[:n])
		copy(e.last[:], data[max(0, n-aes.BlockSize):n])
		e.cbc.CryptBlocks(part, part)
		subtle.XORBytes(data, data[:n], part)
		data = data[n:]
	}
}

// A cfbDecrypter decrypts pieces of a stream, in any order.
type cfbDecrypter struct {
	c    cipher.Block
	part [cfbPart]byte
}

// decrypt decrypts data in place; before is the ciphertext directly before it.
func (d *cfbDecrypter) decrypt(data []byte, before [aes.BlockSize]byte) {
	for len(data) > 0 {
		n := min(len(data), cfbPart)
		part := d.part[:(n+aes.BlockSize-1)&^(aes.BlockSize-1)]
		d.c.Encrypt(part, before[:])
		for i := aes.BlockSize; i < len(part); i += aes.BlockSize {
			d.c.Encrypt(part[i:i+aes.BlockSize], data[i-aes.BlockSize:i])
		}
		copy(before[:], data[max(0, n-aes.BlockSize):n])
		subtle.XORBytes(data, data[:n], part)
		data = data[n:]
	}
}
