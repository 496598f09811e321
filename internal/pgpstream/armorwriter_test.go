package pgpstream

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
)

// TestArmorWriter compares the armor with the library's, for contents of many
// sizes written in pieces of many sizes.
func TestArmorWriter(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for size := range 400 {
		checkArmor(t, size, 1+r.IntN(size+1))
	}
	for _, size := range []int{4096, 24575, 24576, 24577, 100_000, 1 << 20} {
		checkArmor(t, size, 1+r.IntN(2*size))
		checkArmor(t, size, 1+r.IntN(100))
	}
}

func checkArmor(t *testing.T, size, piece int) {
	t.Helper()
	data := make([]byte, size)
	rand.NewChaCha8([32]byte{byte(size)}).Read(data)
	var want, got bytes.Buffer
	lw, err := armor.Encode(&want, armorMessage, nil)
	if err != nil {
		t.Fatal(err)
	}
	lw.Write(data)
	lw.Close()
	w := newArmorWriter(&got, armorMessage)
	for rest := data; len(rest) > 0; rest = rest[min(piece, len(rest)):] {
		if n, err := w.Write(rest[:min(piece, len(rest))]); err != nil || n != min(piece, len(rest)) {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.HasSuffix(got.Bytes(), []byte("-----\n")) {
		t.Fatal("the last line does not end")
	}
	text := bytes.TrimPrefix(bytes.TrimSuffix(got.Bytes(), []byte("\n")), []byte("-----BEGIN PGP MESSAGE-----\n\n"))
	wanted := bytes.TrimPrefix(want.Bytes(), []byte("-----BEGIN PGP MESSAGE-----\n\n"))
	if size == 0 { // the library writes a blank line more
		wanted = bytes.TrimPrefix(wanted, []byte("\n"))
	}
	if !bytes.Equal(text, wanted) {
		t.Fatalf("size %d: armor = %q, want %q", size, shorten(text), shorten(wanted))
	}
	if size == 0 {
		return
	}
	src, err := newMessageReader(&got, armorMessage)
	if err != nil {
		t.Fatal(err)
	}
	back, err := io.ReadAll(src)
	if err != nil || !bytes.Equal(back, data) {
		t.Fatalf("size %d: read back %d bytes, %v", size, len(back), err)
	}
}

func shorten(b []byte) []byte { return b[:min(len(b), 200)] }

type failing struct{ after int }

func (f *failing) Write(p []byte) (int, error) {
	if f.after -= len(p); f.after < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func TestArmorWriterFails(t *testing.T) {
	for after := 0; after < 200; after += 10 {
		w := newArmorWriter(&failing{after}, armorMessage)
		_, err := w.Write(make([]byte, 100))
		if e := w.Close(); err == nil {
			err = e
		}
		if err != io.ErrShortWrite {
			t.Errorf("after %d bytes: %v", after, err)
		}
	}
}

// FuzzMessageReader reads anything as a message file. An armored form is read as the
// library reads it, or refused.
func FuzzMessageReader(f *testing.F) {
	f.Add([]byte("-----BEGIN PGP MESSAGE-----\n\naGVsbG8=\n=abcd\n-----END PGP MESSAGE-----\n"))
	f.Add([]byte("\uFEFFtext\n-----BEGIN PGP MESSAGE-----\r\nComment: x\r\n\r\naGVs\r\nbG8=\r\n-----END PGP MESSAGE-----"))
	f.Add([]byte("\xc1\x03abc"))
	f.Fuzz(func(t *testing.T, data []byte) {
		src, err := newMessageReader(bytes.NewReader(data), armorMessage)
		if err != nil {
			return
		}
		got, err := io.ReadAll(src)
		if err != nil || !src.armored {
			return
		}
		block, err := armor.Decode(bytes.NewReader(bytes.TrimPrefix(data, []byte(byteOrderMark))))
		if err != nil {
			return
		}
		want, err := io.ReadAll(block.Body)
		if err == nil && !bytes.Equal(got, want) {
			t.Errorf("read %q, the library reads %q", got, want)
		}
	})
}

func BenchmarkArmor(b *testing.B) {
	data := make([]byte, 1<<20)
	b.Run("write", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			w := newArmorWriter(io.Discard, armorMessage)
			w.Write(data)
			w.Close()
		}
	})
	b.Run("read", func(b *testing.B) {
		var text bytes.Buffer
		w := newArmorWriter(&text, armorMessage)
		w.Write(data)
		w.Close()
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			src, err := newMessageReader(bytes.NewReader(text.Bytes()), armorMessage)
			if err == nil {
				_, err = io.Copy(io.Discard, src)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
