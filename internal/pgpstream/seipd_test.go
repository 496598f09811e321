package pgpstream

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

func random(n int) []byte {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)}).Read(data)
	return data
}

// sealed encrypts data, which it writes in pieces of a size.
func sealed(t testing.TB, key, data []byte, piece int) []byte {
	t.Helper()
	c, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s := newSEIPDWriter(&out, c)
	for rest := data; len(rest) > 0; {
		n := min(piece, len(rest))
		if _, err := s.Write(rest[:n]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// librarySealed does the same with the library.
func librarySealed(t testing.TB, f packet.CipherFunction, key, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := packet.SerializeSymmetricallyEncrypted(&out, f, false, packet.CipherSuite{}, key, nil)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// contents is what the library says is in an encrypted packet, the version left out.
func contents(t testing.TB, message []byte) *packet.SymmetricallyEncrypted {
	t.Helper()
	p, err := packet.Read(bytes.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	se, ok := p.(*packet.SymmetricallyEncrypted)
	if !ok || se.Version != 1 {
		t.Fatalf("a %T", p)
	}
	return se
}

// unsealed decrypts the content of an encrypted packet.
func unsealed(t testing.TB, key []byte, r io.Reader) ([]byte, error) {
	t.Helper()
	c, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	u := newSEIPDReader(r, c)
	defer u.Close()
	data, err := io.ReadAll(u)
	if (err == nil) != u.checked() {
		t.Errorf("checked is %v after %v", u.checked(), err)
	}
	return data, err
}

// libraryUnsealed does the same with the library.
func libraryUnsealed(f packet.CipherFunction, key []byte, se *packet.SymmetricallyEncrypted) ([]byte, error) {
	r, err := se.Decrypt(f, key)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	return data, errors.Join(err, r.Close())
}

var sealCiphers = []packet.CipherFunction{packet.CipherAES256, packet.CipherAES192, packet.CipherAES128}

// TestSEIPD writes and reads messages of all sizes at which something changes,
// against the library.
func TestSEIPD(t *testing.T) {
	sizes := []int{0, 1, 2, 13, 14, 15, 16, 17, 151, 152, 153, 4096, 8342, 8343, 8344, cfbPart - prefixSize, cfbPart}
	for _, blocks := range []int{1, 2, 3, seipdBlocks, seipdBlocks + 1} {
		for _, d := range []int{-trailerSize - prefixSize - 1, -trailerSize - prefixSize, -trailerSize - prefixSize + 1, -trailerSize, -prefixSize - 1, -prefixSize, -prefixSize + 1, -1, 0, 1} {
			if blocks < 3 || d == -prefixSize {
				sizes = append(sizes, blocks*seipdBlockSize+d)
			}
		}
	}
	for i, size := range sizes {
		f := sealCiphers[i%len(sealCiphers)]
		key, data := random(f.KeySize()), random(size)
		piece := []int{1 << 20, 10_000, seipdBlockSize, 100_000}[i%4]
		if size < 10_000 {
			piece = i + 1
		}
		own := sealed(t, key, data, piece)
		if got, err := libraryUnsealed(f, key, contents(t, own)); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: the library reads %d, %v", size, len(got), err)
		}
		if got, err := unsealed(t, key, contents(t, own).Contents); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: %d are read back, %v", size, len(got), err)
		}
		if got, err := unsealed(t, key, contents(t, librarySealed(t, f, key, data)).Contents); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes of the library: %d are read, %v", size, len(got), err)
		}
		if size < 10_000 {
			slow := iotest.OneByteReader(contents(t, own).Contents)
			if got, err := unsealed(t, key, slow); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes one by one: %d are read, %v", size, len(got), err)
			}
		}
	}
}

// TestCFB encrypts and decrypts pieces of different sizes, and compares with the
// standard library.
func TestCFB(t *testing.T) {
	for _, size := range []int{16, 24, 32} {
		key := random(size)
		c, err := aes.NewCipher(key)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 1, 15, 16, 17, 127, 128, 129, 143, 144, 145, 160, 1000, cfbPart - 1, cfbPart, cfbPart + 1, cfbPart + 128, 3*cfbPart + 5} {
			data := random(n)
			want := bytes.Clone(data)
			cipher.NewCFBEncrypter(c, make([]byte, aes.BlockSize)).XORKeyStream(want, data) //lint:ignore SA1019 it is what is compared with
			got := bytes.Clone(data)
			e := newCFBEncrypter(c)
			cut := n / 2 &^ 15
			e.encrypt(got[:cut])
			e.encrypt(got[cut:])
			if !bytes.Equal(got, want) {
				t.Errorf("key of %d bytes, %d bytes encrypted differ", size, n)
			}
			d := cfbDecrypter{c: c}
			var before [aes.BlockSize]byte
			if cut > 0 {
				copy(before[:], got[cut-aes.BlockSize:])
			}
			d.decrypt(got[cut:], before)
			d.decrypt(got[:cut], [aes.BlockSize]byte{})
			if !bytes.Equal(got, data) {
				t.Errorf("key of %d bytes, %d bytes decrypted differ", size, n)
			}
		}
	}
}

func BenchmarkCFB(b *testing.B) {
	c, err := aes.NewCipher(random(32))
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, seipdBlockSize)
	b.Run("encrypt", func(b *testing.B) {
		e := newCFBEncrypter(c)
		b.SetBytes(seipdBlockSize)
		for b.Loop() {
			e.encrypt(data)
		}
	})
	b.Run("decrypt", func(b *testing.B) {
		d := cfbDecrypter{c: c}
		b.SetBytes(seipdBlockSize)
		for b.Loop() {
			d.decrypt(data, [aes.BlockSize]byte{})
		}
	})
}

// TestSEIPDDamage changes and cuts a message of several blocks. None ends well.
func TestSEIPDDamage(t *testing.T) {
	key := random(32)
	data := random(2*seipdBlockSize + 1000)
	body, err := io.ReadAll(contents(t, sealed(t, key, data, 1<<20)).Contents)
	if err != nil {
		t.Fatal(err)
	}
	places := []int{0, 1, 15, 16, 17, 18, 100, seipdBlockSize - 1, seipdBlockSize, seipdBlockSize + 1, 2 * seipdBlockSize, len(body) - 23, len(body) - 22, len(body) - 21, len(body) - 20, len(body) - 1}
	for _, at := range places {
		changed := bytes.Clone(body)
		changed[at] ^= 0x80
		if _, err := unsealed(t, key, bytes.NewReader(changed)); err != errIntegrity {
			t.Errorf("byte %d changed: %v", at, err)
		}
		if _, err := unsealed(t, key, bytes.NewReader(body[:at])); err != errIntegrity {
			t.Errorf("cut at %d: %v", at, err)
		}
		broken := errors.New("broken")
		if _, err := unsealed(t, key, io.MultiReader(bytes.NewReader(body[:at]), iotest.ErrReader(broken))); err != broken {
			t.Errorf("broken at %d: %v", at, err)
		}
	}
	if _, err := unsealed(t, random(33)[1:], bytes.NewReader(body)); err != errIntegrity {
		t.Errorf("another key: %v", err)
	}
	if _, err := unsealed(t, key, bytes.NewReader(append(body, 0))); err != errIntegrity {
		t.Errorf("one more byte: %v", err)
	}
}

// TestSEIPDAbandoned ends early; no goroutine is left.
func TestSEIPDAbandoned(t *testing.T) {
	c, err := aes.NewCipher(random(32))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, seipdBlockSize, 3 * seipdBlockSize} {
		u := newSEIPDReader(rand.NewChaCha8([32]byte{}), c) // never ends
		if _, err := io.CopyN(io.Discard, u, int64(n)); err != nil {
			t.Error(err)
		}
		u.Close()
		u.Close()
		if u.checked() {
			t.Errorf("%d bytes are taken for all", n)
		}
		s := newSEIPDWriter(io.Discard, c)
		s.Write(random(n))
		s.abandon()
		s.abandon()
	}
}

// TestSEIPDFails writes to what breaks. The error comes at the end at the latest,
// and nothing blocks.
func TestSEIPDFails(t *testing.T) {
	c, err := aes.NewCipher(random(32))
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []int{0, 1, 2, seipdBlockSize, 3 * seipdBlockSize} {
		s := newSEIPDWriter(&failing{after}, c)
		data := random(seipdBlockSize)
		var failed error
		start := time.Now()
		for i := 0; i < 100 && failed == nil; i++ {
			_, failed = s.Write(data)
		}
		if failed == nil {
			failed = s.Close()
		}
		s.abandon()
		if failed == nil || time.Since(start) > 10*time.Second {
			t.Errorf("after %d bytes: %v in %v", after, failed, time.Since(start))
		}
	}
}

// FuzzSEIPD decrypts anything, and compares with what the library makes of it.
func FuzzSEIPD(f *testing.F) {
	key := random(32)
	for _, n := range []int{0, 1, 100, 10_000} {
		body, err := io.ReadAll(contents(f, sealed(f, key, random(n), 1<<20)).Contents)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
		f.Add(body[:len(body)/2])
		f.Add(append(body, body...))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		want, bad := libraryUnsealed(packet.CipherAES256, key, &packet.SymmetricallyEncrypted{Version: 1, IntegrityProtected: true, Contents: bytes.NewReader(body)})
		got, err := unsealed(t, key, bytes.NewReader(body))
		if (err == nil) != (bad == nil) || err == nil && !bytes.Equal(got, want) {
			t.Errorf("%d bytes, %v; the library reads %d, %v", len(got), err, len(want), bad)
		}
	})
}

// FuzzPackets reads anything as packets, and compares with what the library
// makes of it.
func FuzzPackets(f *testing.F) {
	for _, n := range []int{0, 1, 191, 192, 8383, 8384, pieceSize, pieceSize + 1, 3*pieceSize + 7} {
		var out bytes.Buffer
		w := newPacketWriter(&out, tagLiteral)
		w.Write(random(n))
		if err := w.Close(); err != nil {
			f.Fatal(err)
		}
		f.Add(out.Bytes())
	}
	for _, s := range []string{"", "\xa3abc", "\xa0\x02abc", "\xa1\x00\x02abc", "\xa2\x00\x00\x00\x02abc", "\xc8\xe1ab\xe0c\x01d", "\xc8\xff\x00\x00\x00\x01a", "\xc8\xff\xff\xff\xff\xffa", "\x00", "\xc8\xe1", "\xc8\xc0"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		lib := packet.NewOpaqueReader(bytes.NewReader(data))
		own := bufio.NewReader(bytes.NewReader(data))
		for {
			want, bad := lib.Next()
			tag, body, err := readPacket(own)
			var got []byte
			if err == nil {
				got, err = io.ReadAll(body)
			}
			if (err == nil) != (bad == nil) {
				t.Fatalf("packet %d of %d bytes, %v; the library: %v", tag, len(got), err, bad)
			}
			if err != nil {
				return
			}
			if tag != want.Tag || !bytes.Equal(got, want.Contents) {
				t.Fatalf("packet %d of %d bytes; the library: %d of %d", tag, len(got), want.Tag, len(want.Contents))
			}
		}
	})
}
