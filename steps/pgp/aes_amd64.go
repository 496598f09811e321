//go:build !purego

package pgp

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/fips140"
	"math/bits"
)

// The standard library encrypts one block at a time where modes it does not
// have are built on top of it, and so does not keep the processor's AES
// instructions busy.

func hasAES() bool

// subWord is the S-box for four bytes.
func subWord(x uint32) uint32

// encryptEights encrypts groups of eight blocks, each on its own. The parts of
// dst and src that it uses are the same or do not overlap.
//
//go:noescape
func encryptEights(keys *byte, rounds int, dst, src *byte, eights int)

// encryptCFB256 encrypts blocks in place in CFB mode with AES-256; before is the
// ciphertext before them, and after the call the last of them.
//
//go:noescape
func encryptCFB256(keys, before, data *byte, blocks int)

// A fastAES is a cipher that can encrypt many blocks at once.
type fastAES struct {
	cipher.Block
	rounds int
	keys   [15 * aes.BlockSize]byte // one for each round, and one before the first
}

// newSessionCipher returns AES with a key of 16, 24 or 32 bytes, in the fastest
// way there is.
func newSessionCipher(key []byte) (cipher.Block, error) {
	c, err := aes.NewCipher(key)
	if err != nil || !hasAES() || fips140.Enabled() {
		return c, err
	}
	f := &fastAES{Block: c, rounds: len(key)/4 + 6}
	f.expand(key)
	return f, nil
}

// expand makes the keys of the rounds (FIPS 197, section 5.2), in words of four
// bytes of which the first is the lowest.
func (f *fastAES) expand(key []byte) {
	n := len(key) / 4
	var w [60]uint32
	for i := range n {
		w[i] = uint32(key[4*i]) | uint32(key[4*i+1])<<8 | uint32(key[4*i+2])<<16 | uint32(key[4*i+3])<<24
	}
	turn := uint32(1)
	for i := n; i < 4*(f.rounds+1); i++ {
		t := w[i-1]
		switch {
		case i%n == 0:
			t = subWord(bits.RotateLeft32(t, -8)) ^ turn
			if turn <<= 1; turn > 0xff {
				turn ^= 0x11b
			}
		case n > 6 && i%n == 4:
			t = subWord(t)
		}
		w[i] = w[i-n] ^ t
	}
	for i, t := range w {
		f.keys[4*i], f.keys[4*i+1], f.keys[4*i+2], f.keys[4*i+3] = byte(t), byte(t>>8), byte(t>>16), byte(t>>24)
	}
}

// encryptMany encrypts the blocks of src to dst, and returns how many bytes it
// took, which may be less than there are.
func encryptMany(c cipher.Block, dst, src []byte) int {
	const eight = 8 * aes.BlockSize
	f, ok := c.(*fastAES)
	n := min(len(dst), len(src)) / eight
	if !ok || n == 0 {
		return 0
	}
	encryptEights(&f.keys[0], f.rounds, &dst[0], &src[0], n)
	return n * eight
}

// encryptCFB encrypts whole blocks of data in place, and returns how many bytes
// it took. It takes nothing of any data, or all blocks.
func encryptCFB(c cipher.Block, data []byte, before *[aes.BlockSize]byte) int {
	const rounds256 = 14
	f, ok := c.(*fastAES)
	n := len(data) / aes.BlockSize
	if !ok || f.rounds != rounds256 || n == 0 {
		return 0
	}
	encryptCFB256(&f.keys[0], &before[0], &data[0], n)
	return n * aes.BlockSize
}
