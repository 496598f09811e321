package inflate

import (
	"bufio"
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	klauspost "github.com/klauspost/compress/flate"
)

// BenchmarkReader unpacks 4 MiB of several contents, packed at level 6, with
// this package and with the two that could take its place.
func BenchmarkReader(b *testing.B) {
	const size = 4 << 20
	for _, c := range benchContents(size) {
		packed := pack(b, c.data, nil, 6, true)
		src := bufio.NewReaderSize(nil, 64<<10)
		for _, r := range []struct {
			name   string
			reader io.Reader
		}{
			{"inflate", new(Reader)}, {"flate", flate.NewReader(src)}, {"klauspost", klauspost.NewReader(src)},
		} {
			b.Run(c.name+"/"+r.name, func(b *testing.B) {
				b.SetBytes(size)
				room := make([]byte, 32<<10)
				for b.Loop() {
					src.Reset(bytes.NewReader(packed))
					switch r := r.reader.(type) {
					case *Reader:
						r.Reset(src)
					case flate.Resetter:
						if err := r.Reset(src, nil); err != nil {
							b.Fatal(err)
						}
					}
					n := 0
					for err := error(nil); err != io.EOF; {
						var k int
						if k, err = r.reader.Read(room); err != nil && err != io.EOF {
							b.Fatal(err)
						}
						n += k
					}
					if n != size {
						b.Fatalf("%d bytes, want %d", n, size)
					}
				}
			})
		}
	}
}

type benchContent struct {
	name string
	data []byte
}

func benchContents(size int) []benchContent {
	r := rand.New(rand.NewPCG(5, 6))
	random := make([]byte, size)
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	words := strings.Fields(`the of and to in is that for it as was with be by on not he his but at are this have from or had an they which
		one you were all her she there would their we him been has when who will no more if out so up said what its about than into them can only`)
	states := []string{"open", "paid", "cancelled"}
	list := []benchContent{
		{"text", fill(size, func(b []byte, i int) []byte {
			return fmt.Appendf(b, "%s%c", words[int(r.ExpFloat64()*15)%len(words)], ",.\n           "[r.IntN(14)])
		})},
		{"log", fill(size, func(b []byte, i int) []byte {
			return fmt.Appendf(b, "%d GET /orders/%d id=%08x\n", i, r.IntN(1000), r.Uint32())
		})},
		{"json", fill(size, func(b []byte, i int) []byte {
			return fmt.Appendf(b, `{"id":%d,"state":%q,"amount":%d.%02d,"currency":"EUR","comment":null}`+"\n", i, states[r.IntN(len(states))], r.IntN(5000), r.IntN(100))
		})},
		{"random", random},
		{"zeros", make([]byte, size)},
	}
	for _, n := range []int{2, 3, 7, 40} {
		list = append(list, benchContent{fmt.Sprint("period-", n), fill(size, func(b []byte, i int) []byte {
			return append(b, random[:n]...)
		})})
	}
	return list
}

// fill calls add until there are size bytes; i counts the calls.
func fill(size int, add func(b []byte, i int) []byte) []byte {
	var b []byte
	for i := 0; len(b) < size; i++ {
		b = add(b, i)
	}
	return b[:size]
}
