package pgpstream

import (
	"encoding/base64"
	"encoding/binary"
	"io"
	"sync"
)

// An armorWriter writes a message in armor. It is faster than the library's. It
// always writes the checksum, since GnuPG up to 2.2 treats the last line as
// content if neither a checksum nor padding marks the end.
type armorWriter struct {
	w    io.Writer
	kind string
	part []byte // of a line
	text []byte // one batch of lines
	sum  uint32
	err  error
}

const (
	lineBytes  = 48 // of content in a line
	lineChars  = 64 // and as text
	batchLines = 512
)

// newArmorWriter returns a writer. Its Close ends the armor and leaves w open.
func newArmorWriter(w io.Writer, kind string) *armorWriter {
	a := &armorWriter{w: w, kind: kind, sum: crcStart, text: make([]byte, 0, batchLines*(lineChars+1))}
	_, a.err = io.WriteString(w, "-----BEGIN "+kind+"-----\n\n")
	return a
}

// Write implements io.Writer.
func (a *armorWriter) Write(p []byte) (int, error) {
	n := len(p)
	a.sum = crc24(a.sum, p)
	if len(a.part) > 0 {
		fill := min(lineBytes-len(a.part), len(p))
		a.part = append(a.part, p[:fill]...)
		p = p[fill:]
		if len(a.part) < lineBytes {
			return n, a.err
		}
		a.line(a.part)
		a.part = a.part[:0]
	}
	for ; len(p) >= lineBytes; p = p[lineBytes:] {
		a.line(p[:lineBytes])
	}
	a.part = append(a.part, p...)
	if a.flush(); a.err != nil {
		return 0, a.err
	}
	return n, nil
}

func (a *armorWriter) line(p []byte) {
	a.text = append(base64.StdEncoding.AppendEncode(a.text, p), '\n')
	if len(a.text)+lineChars+1 > cap(a.text) {
		a.flush()
	}
}

func (a *armorWriter) flush() {
	if a.err == nil && len(a.text) > 0 {
		_, a.err = a.w.Write(a.text)
	}
	a.text = a.text[:0]
}

// Close writes the remaining data, the checksum and the last line.
func (a *armorWriter) Close() error {
	if len(a.part) > 0 {
		a.line(a.part)
	}
	sum := binary.BigEndian.AppendUint32(nil, a.sum)
	a.text = append(a.text, '=')
	a.text = append(base64.StdEncoding.AppendEncode(a.text, sum[:3]), '\n')
	a.text = append(append(a.text, endLine(a.kind)...), '\n')
	a.flush()
	return a.err
}

// The checksum of armor, in the upper 24 bits of a register of 32.
const (
	crcStart = 0xB704CE << 8
	crcPoly  = 0x864CFB << 8
)

// crcTables[k][b] is the checksum of b and k zero bytes.
var crcTables = sync.OnceValue(func() *[8][256]uint32 {
	var t [8][256]uint32
	for b := range t[0] {
		r := uint32(b) << 24
		for range 8 {
			carry := r >> 31
			r = r<<1 ^ carry*crcPoly
		}
		t[0][b] = r
	}
	for k := 1; k < len(t); k++ {
		for b, r := range t[k-1] {
			t[k][b] = r<<8 ^ t[0][r>>24]
		}
	}
	return &t
})

// crc24 continues a checksum, eight bytes at a time.
func crc24(sum uint32, p []byte) uint32 {
	t := crcTables()
	for ; len(p) >= 8; p = p[8:] {
		x, y := sum^binary.BigEndian.Uint32(p), binary.BigEndian.Uint32(p[4:])
		sum = t[7][x>>24] ^ t[6][x>>16&0xff] ^ t[5][x>>8&0xff] ^ t[4][x&0xff] ^
			t[3][y>>24] ^ t[2][y>>16&0xff] ^ t[1][y>>8&0xff] ^ t[0][y&0xff]
	}
	for _, b := range p {
		sum = sum<<8 ^ t[0][byte(sum>>24)^b]
	}
	return sum
}
