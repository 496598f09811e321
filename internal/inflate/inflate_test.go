package inflate

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/courierhq/courier/internal/test/raced"
)

// contents are what is packed in tests.
// Without the race detector most are more than the room of a reader.
func contents() map[string][]byte {
	size := raced.Or(40_000, 150_000)
	r := rand.New(rand.NewPCG(1, 2))
	random := make([]byte, size)
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	few := make([]byte, size)
	for i := range few {
		few[i] = "ab"[r.IntN(2)]
	}
	var lines, skewed []byte
	for i := range size / 15 {
		lines = fmt.Appendf(lines, "%d GET /orders/%d id=%08x\n", i, r.IntN(1000), r.Uint32())
	}
	for range size {
		skewed = append(skewed, byte(r.ExpFloat64()*3)) // has words of 15 bits
	}
	var periods []byte // matches of all lengths that overlap themselves
	for n := range raced.Or(20, 60) {
		for _, times := range []int{2, 3, 9, 40} {
			periods = append(periods, bytes.Repeat(random[n:2*n+1], times)...)
			periods = append(periods, random[n : 2*n+1][:r.IntN(n+1)]...)
		}
	}
	return map[string][]byte{
		"periods": periods,
		"nothing": nil, "a byte": {7}, "random": random, "two letters": few, "lines": lines, "skewed": skewed,
		"zeros": make([]byte, 4*size), "short period": bytes.Repeat([]byte("abc"), size/2),
		"far": append(append(random[:32<<10:32<<10], random[:32<<10]...), random[:100]...),
	}
}

func pack(t testing.TB, data, history []byte, level int, end bool) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriterDict(&b, level, history)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err = w.Flush(); end {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var levels = raced.Or([]int{flate.NoCompression, 6}, []int{flate.HuffmanOnly, flate.NoCompression, flate.BestSpeed, 6, flate.BestCompression})

func TestReader(t *testing.T) {
	for name, data := range contents() {
		for _, level := range levels {
			packed := append(pack(t, data, nil, level, true), "rest"...)
			for how, r := range map[string]io.Reader{
				"whole": bytes.NewReader(packed), "bytes": iotest.OneByteReader(bytes.NewReader(packed)),
				"with the end": iotest.DataErrReader(bytes.NewReader(packed)),
			} {
				src := bufio.NewReaderSize(r, 4096)
				got, err := io.ReadAll(NewReader(src))
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("%s, level %d, %s: %d bytes instead of %d, %v", name, level, how, len(got), len(data), err)
				}
				if rest, err := io.ReadAll(src); err != nil || string(rest) != "rest" {
					t.Errorf("%s, level %d, %s: %d bytes are left, %v", name, level, how, len(rest), err)
				}
			}
		}
	}
}

// TestBytes unpacks blocks one after the other as they are packed in parallel.
func TestBytes(t *testing.T) {
	var r Reader
	for name, data := range contents() {
		for _, level := range levels {
			const size = 30_000
			for at := 0; at < len(data); at += size {
				end := min(at+size, len(data))
				packed := pack(t, data[at:end], data[:at], level, end == len(data))
				r.ResetBytes(packed, data[:at])
				var got []byte
				err := error(nil)
				for err == nil {
					var b []byte
					b, err = r.Next()
					got = append(got, b...)
				}
				want := io.EOF
				if end < len(data) {
					want = io.ErrUnexpectedEOF
				}
				if err != want || !bytes.Equal(got, data[at:end]) {
					t.Fatalf("%s, level %d, at %d: %d bytes instead of %d, %v", name, level, at, len(got), end-at, err)
				}
			}
		}
	}
}

// TestCutShort cuts packed data everywhere near its end and here and there
// before.
func TestCutShort(t *testing.T) {
	for name, data := range contents() {
		for _, level := range levels {
			packed := pack(t, data, nil, level, true)
			for n := 0; n < len(packed); n += 1 + max(0, len(packed)-n-raced.Or(10, 30))/4 {
				got, err := io.ReadAll(NewReader(bufio.NewReader(bytes.NewReader(packed[:n]))))
				if err != io.ErrUnexpectedEOF || !bytes.HasPrefix(data, got) {
					t.Fatalf("%s, level %d, %d of %d bytes: %d bytes, %v", name, level, n, len(packed), len(got), err)
				}
			}
		}
	}
}

func TestSourceFails(t *testing.T) {
	broken := errors.New("broken")
	packed := pack(t, contents()["lines"], nil, 6, true)
	for _, n := range []int{0, 1, 100, 5000, len(packed) - 1} {
		src := io.MultiReader(bytes.NewReader(packed[:n]), iotest.ErrReader(broken))
		r := NewReader(bufio.NewReader(src))
		if _, err := io.Copy(io.Discard, r); err != broken {
			t.Errorf("after %d bytes: %v", n, err)
		}
		if _, err := r.Read(make([]byte, 1)); err != broken {
			t.Errorf("again after %d bytes: %v", n, err)
		}
	}
}

func TestCorrupt(t *testing.T) {
	for name, data := range map[string]string{
		"kind of block":       "\x07",
		"stored length":       "\x01\x01\x00\x01\x00a",
		"distance too far":    "\x03\x02\x00",
		"distance 30":         "\x03\x3e\x00",
		"too many lengths":    "\xfd\x1f" + strings.Repeat("\x00", 20),
		"nothing to repeat":   "\x05\xc0\x81\x00\x00\x00\x00\x00\x10\xff\x6b\x04",
		"overfull":            "\x04\x80" + strings.Repeat("\xff", 60),
		"no code for lengths": "\x05\x00" + strings.Repeat("\x00", 40),
	} {
		packed := append([]byte(data), make([]byte, 20)...)
		_, std := io.ReadAll(flate.NewReader(bytes.NewReader(packed)))
		if _, ok := std.(flate.CorruptInputError); !ok {
			t.Fatalf("%s: is not a test: %v", name, std)
		}
		_, err := io.ReadAll(NewReader(bufio.NewReader(bytes.NewReader(packed))))
		if _, ok := err.(flate.CorruptInputError); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestChanged compares with the standard library what becomes of packed data
// that was changed.
func TestChanged(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for name, data := range contents() {
		data = data[:min(len(data), 5000)]
		for _, level := range levels {
			packed := pack(t, data, nil, level, true)
			for range raced.Or(30, 200) {
				bad := bytes.Clone(packed)
				for range 1 + r.IntN(3) {
					bad[r.IntN(len(bad))] ^= 1 << r.IntN(8)
				}
				compare(t, name, bad)
			}
		}
	}
}

// compare unpacks with this package and the standard library, to at most 1 MiB.
func compare(t *testing.T, name string, packed []byte) {
	t.Helper()
	const most = 1 << 20
	want, wantErr := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), most))
	got, err := io.ReadAll(io.LimitReader(NewReader(bufio.NewReader(bytes.NewReader(packed))), most))
	if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes, %v; the standard library has %d bytes, %v: %x", name, len(got), err, len(want), wantErr, packed[:min(len(packed), 200)])
	}
}

func FuzzReader(f *testing.F) {
	for _, data := range contents() {
		data = data[:min(len(data), 500)]
		for _, level := range levels {
			f.Add(pack(f, data, nil, level, true))
		}
	}
	f.Fuzz(func(t *testing.T, packed []byte) { compare(t, "fuzz", packed) })
}

func TestZlib(t *testing.T) {
	for name, data := range contents() {
		var b bytes.Buffer
		w := zlib.NewWriter(&b)
		w.Write(data)
		w.Close()
		packed := b.Bytes()
		unpack := func(packed []byte) ([]byte, error) {
			src := bufio.NewReader(bytes.NewReader(packed))
			r, err := NewZlibReader(src)
			if err != nil {
				return nil, err
			}
			got, err := io.ReadAll(r)
			if _, again := r.Read(make([]byte, 1)); err == nil && again != io.EOF || err != nil && again != err {
				t.Errorf("%s: after %v the error is %v", name, err, again)
			}
			if rest, _ := io.ReadAll(src); err == nil && string(rest) != "rest" {
				t.Errorf("%s: %d bytes are left", name, len(rest))
			}
			return got, err
		}
		if got, err := unpack(append(packed, "rest"...)); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes instead of %d, %v", name, len(got), len(data), err)
		}
		for n := range 7 {
			cut := n
			if n > 2 {
				cut = len(packed) - n + 2
			}
			if _, err := unpack(packed[:cut]); err != io.ErrUnexpectedEOF {
				t.Errorf("%s, %d of %d bytes: %v", name, cut, len(packed), err)
			}
		}
		for at, want := range map[int]error{0: zlib.ErrHeader, 1: zlib.ErrHeader, len(packed) - 1: zlib.ErrChecksum} {
			bad := bytes.Clone(packed)
			bad[at] ^= 1
			if _, err := unpack(bad); err != want {
				t.Errorf("%s, byte %d changed: %v", name, at, err)
			}
		}
	}
	for head, want := range map[string]error{"\x78\xf9": zlib.ErrDictionary, "\x88\x1c": zlib.ErrHeader, "\x79\x18": zlib.ErrHeader} {
		if _, err := NewZlibReader(bufio.NewReader(strings.NewReader(head))); err != want {
			t.Errorf("%x: %v", head, err)
		}
	}
}
