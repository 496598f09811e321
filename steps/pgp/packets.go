package pgp

import "io"

// The types of the packets that steps write themselves.
const (
	tagCompressed = 8
	tagLiteral    = 11
	tagProtected  = 18 // encrypted, with a check of its integrity
)

const (
	pieceBits = 16
	pieceSize = 1 << pieceBits
	// headerSize is the largest size of a packet's header: its type, and a
	// length of five bytes.
	headerSize = 6
)

// A packetWriter writes one packet of unknown length, in pieces if it is a long
// one.
type packetWriter struct {
	w   io.Writer
	tag byte // of the packet; 0 once it is written
	buf []byte
}

func newPacketWriter(w io.Writer, tag byte) *packetWriter {
	return &packetWriter{w: w, tag: tag, buf: make([]byte, headerSize, headerSize+pieceSize)}
}

// Write implements io.Writer.
func (p *packetWriter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		if len(p.buf) == cap(p.buf) {
			if err := p.emit([]byte{partialLength(pieceBits)}); err != nil {
				return 0, err
			}
		}
		k := min(cap(p.buf)-len(p.buf), len(b))
		p.buf = append(p.buf, b[:k]...)
		b = b[k:]
	}
	return n, nil
}

// Close writes the last piece and leaves w open.
func (p *packetWriter) Close() error {
	return p.emit(appendLength(nil, len(p.buf)-headerSize))
}

func (p *packetWriter) emit(length []byte) error {
	head := length
	if p.tag != 0 {
		head = append([]byte{newFormat | p.tag}, length...)
		p.tag = 0
	}
	start := headerSize - len(head)
	copy(p.buf[start:], head)
	_, err := p.w.Write(p.buf[start:])
	p.buf = p.buf[:headerSize]
	return err
}

// newFormat are the upper bits of a packet's first byte.
const newFormat = 0xC0

// partialLength announces a piece of 1<<bits bytes that is not the last one.
func partialLength(bits byte) byte { return 0xE0 | bits }

// appendLength appends the length of a packet, or of its last piece.
func appendLength(b []byte, n int) []byte {
	switch {
	case n < 192:
		return append(b, byte(n))
	case n < 8384:
		n -= 192
		return append(b, byte(n>>8)+192, byte(n))
	}
	return append(b, 255, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

// literalHead begins a literal packet: binary, without name and date, which no
// signature would cover.
var literalHead = []byte{'b', 0, 0, 0, 0, 0}

// newLiteralWriter returns a writer for the content of a message.
func newLiteralWriter(w io.Writer) (*packetWriter, error) {
	p := newPacketWriter(w, tagLiteral)
	_, err := p.Write(literalHead)
	return p, err
}
