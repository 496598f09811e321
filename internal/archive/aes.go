package archive

import (
	"archive/zip"
	"bytes"
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
)

// Encryption of zip entries as WinZip specifies it: AES in counter mode with a
// key from the password by PBKDF2, and an HMAC-SHA1 of 80 bits over the
// encrypted data. In AE-2 the HMAC replaces the CRC, which would reveal
// information about the content.
const (
	methodAES    = 99
	aesExtraID   = 0x9901
	aesVerifier  = 2  // bytes that show whether the password is wrong
	aesMAC       = 10 // bytes of the HMAC
	aesRounds    = 1000
	aes256       = 3  // the strength in the extra field
	aes256Salt   = 16 // bytes
	aesZipNeeded = 51 // version of the format that has AES
)

// aesInfo is the information about encryption in an entry's extra field. The
// zero aesInfo means that the entry is not encrypted.
type aesInfo struct {
	version  uint16 // 1 or 2
	strength byte   // 1, 2 or 3 for 128, 192 or 256 bits
	method   uint16 // by which the content is packed
}

// hasNoCRC reports whether the HMAC is the only check of the content.
func (a aesInfo) hasNoCRC() bool { return a.version == 2 }

func (a aesInfo) keyBytes() int  { return 8 + 8*int(a.strength) }
func (a aesInfo) saltBytes() int { return a.keyBytes() / 2 }

// overhead returns how many bytes encryption adds to the packed content.
func (a aesInfo) overhead() uint64 { return uint64(a.saltBytes() + aesVerifier + aesMAC) }

// parseAES finds the information about encryption in the extra field.
func parseAES(extra []byte) (a aesInfo, err error) {
	for len(extra) >= 4 {
		id, size := binary.LittleEndian.Uint16(extra), int(binary.LittleEndian.Uint16(extra[2:]))
		if extra = extra[4:]; size > len(extra) {
			break
		}
		if field := extra[:size]; id == aesExtraID {
			if size != 7 || string(field[2:4]) != "AE" {
				break
			}
			a = aesInfo{binary.LittleEndian.Uint16(field), field[4], binary.LittleEndian.Uint16(field[5:])}
			if a.version < 1 || a.version > 2 || a.strength < 1 || a.strength > aes256 {
				break
			}
			return a, nil
		}
		extra = extra[size:]
	}
	return aesInfo{}, errors.New("is encrypted in a way that its extra field doesn't say")
}

// extra returns the extra field of an entry.
func (a aesInfo) extra() []byte {
	b := binary.LittleEndian.AppendUint16(nil, aesExtraID)
	b = binary.LittleEndian.AppendUint16(b, 7)
	b = binary.LittleEndian.AppendUint16(b, a.version)
	b = append(b, 'A', 'E', a.strength)
	return binary.LittleEndian.AppendUint16(b, a.method)
}

// checkEncryption refuses an entry with an unexpected kind of encryption, and
// fills e.aes.
func (e *entry) checkEncryption(password bool) (err error) {
	const encrypted, strongly = 1 << 0, 1 << 6
	switch {
	case e.dir:
		return nil // has no content
	case e.Flags&strongly != 0:
		return errors.New("is encrypted by PKWARE's strong encryption, which is not supported; have it packed with AES-256")
	case e.Method == methodAES:
		if e.aes, err = parseAES(e.Extra); err != nil {
			return err
		}
		switch {
		case e.Flags&encrypted == 0:
			return errors.New("is encrypted in a way that its flags deny")
		case !password:
			return errors.New("is encrypted; give its password")
		case e.CompressedSize64 < e.aes.overhead():
			return fmt.Errorf("%w: it is too short for encrypted data", ErrDamaged)
		}
		return nil
	case e.Flags&encrypted != 0:
		return errors.New("is encrypted by the traditional ZipCrypto, which can be broken, so it is not supported; have it packed with AES-256")
	case password && e.UncompressedSize64 > 0:
		return errors.New("is not encrypted, though there is a password; leave it out if that is right")
	}
	return nil
}

// reader opens the entry's content. The content of an encrypted entry is
// authenticated only when its end was reached without an error.
func (e *entry) reader(password string, inflate *inflater) (io.Reader, error) {
	raw, err := e.OpenRaw()
	if err != nil {
		return nil, err
	}
	if e.aes.strength == 0 {
		if e.Method == zip.Deflate {
			return inflate.reader(raw), nil
		}
		return raw, nil
	}
	head := make([]byte, e.aes.saltBytes()+aesVerifier)
	if _, err := io.ReadFull(raw, head); err != nil {
		return nil, err
	}
	salt, verifier := head[:e.aes.saltBytes()], head[e.aes.saltBytes():]
	k, err := newAESKey(password, salt, e.aes.keyBytes())
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare(k.verifier, verifier) == 0 {
		return nil, refused("the password is wrong")
	}
	r := &aesReader{key: k, tail: raw, raw: io.LimitReader(raw, int64(e.CompressedSize64-e.aes.overhead()))}
	r.content = io.Reader((*aesStream)(r))
	if e.aes.method == zip.Deflate {
		r.content = inflate.reader(r.content)
	}
	return r, nil
}

// An aesKey encrypts and authenticates one entry.
type aesKey struct {
	counter
	mac      hash.Hash
	verifier []byte
}

func newAESKey(password string, salt []byte, size int) (*aesKey, error) {
	b, err := pbkdf2.Key(sha1.New, password, salt, aesRounds, 2*size+aesVerifier)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(b[:size])
	if err != nil {
		return nil, err
	}
	return &aesKey{counter{block: block, next: 1}, hmac.New(sha1.New, b[size:2*size]), b[2*size:]}, nil
}

// A counter is counter mode with the least significant byte first, starting
// from 1, unlike the counter mode of crypto/cipher.
type counter struct {
	block cipher.Block
	next  uint64
	pad   [4096]byte
	left  []byte // of pad
}

func (c *counter) xor(dst, src []byte) {
	for len(src) > 0 {
		if len(c.left) == 0 {
			var in [aes.BlockSize]byte
			for i := 0; i < len(c.pad); i += aes.BlockSize {
				binary.LittleEndian.PutUint64(in[:], c.next)
				c.block.Encrypt(c.pad[i:], in[:])
				c.next++
			}
			c.left = c.pad[:]
		}
		n := subtle.XORBytes(dst, src, c.left)
		dst, src, c.left = dst[n:], src[n:], c.left[n:]
	}
}

// An aesReader decrypts an entry and unpacks it.
type aesReader struct {
	key     *aesKey
	raw     io.Reader // what was encrypted
	tail    io.Reader // raw, and then the HMAC
	content io.Reader
}

func (r *aesReader) Read(p []byte) (int, error) {
	n, err := r.content.Read(p)
	if err == io.EOF {
		err = cmp.Or(r.finish(), io.EOF)
	}
	return n, err
}

// finish verifies the HMAC.
func (r *aesReader) finish() error {
	if _, err := io.Copy(r.key.mac, r.raw); err != nil {
		return err
	}
	var want [aesMAC]byte
	if _, err := io.ReadFull(r.tail, want[:]); err != nil {
		return err
	}
	if !hmac.Equal(r.key.mac.Sum(nil)[:aesMAC], want[:]) {
		return fmt.Errorf("%w: its authentication code is wrong, so it was changed after it was encrypted", ErrDamaged)
	}
	return nil
}

// An aesStream returns decrypted data that is still packed.
type aesStream aesReader

func (s *aesStream) Read(p []byte) (int, error) {
	n, err := s.raw.Read(p)
	s.key.mac.Write(p[:n])
	s.key.xor(p[:n], p[:n])
	return n, err
}

// An aesWriter encrypts an entry with a 256-bit key.
type aesWriter struct {
	w       io.Writer
	key     *aesKey
	buf     []byte
	written uint64
}

func newAESWriter(w io.Writer, password string) (*aesWriter, error) {
	salt := make([]byte, aes256Salt)
	rand.Read(salt) // never fails
	k, err := newAESKey(password, salt, 2*aes256Salt)
	if err != nil {
		return nil, err
	}
	a := &aesWriter{w: w, key: k}
	return a, a.put(bytes.Join([][]byte{salt, k.verifier}, nil))
}

func (a *aesWriter) put(b []byte) error {
	n, err := a.w.Write(b)
	a.written += uint64(n)
	return err
}

func (a *aesWriter) Write(p []byte) (int, error) {
	a.buf = append(a.buf[:0], p...)
	a.key.xor(a.buf, a.buf)
	a.key.mac.Write(a.buf)
	if err := a.put(a.buf); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close ends the entry.
func (a *aesWriter) Close() error { return a.put(a.key.mac.Sum(nil)[:aesMAC]) }
