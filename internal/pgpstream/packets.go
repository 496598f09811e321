package pgpstream

import (
	"bufio"
	"compress/bzip2"
	"io"
	"math"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zlib"
)

// The types of the packets that this package writes itself.
const (
	tagCompressed = 8
	tagLiteral    = 11
	tagProtected  = 18 // encrypted, with a check of its integrity
)

const (
	pieceBits = 16
	pieceSize = 1 << pieceBits
	// headerSize is the maximum size of a packet's header: its type, and a
	// length of five bytes.
	headerSize = 6
)

// A packetWriter writes one packet of unknown length. It writes a long packet
// in pieces.
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
		if len(p.buf) == headerSize && len(b) > pieceSize { // no piece with nothing behind it
			if err := p.emit([]byte{partialLength(pieceBits)}); err != nil { // the header alone
				return 0, err
			}
			if _, err := p.w.Write(b[:pieceSize]); err != nil {
				return 0, err
			}
			b = b[pieceSize:]
			continue
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

// newFormat is the upper bits of a packet's first byte.
const newFormat = 0xC0

// partialLength returns the length byte of a piece of 1<<bits bytes that is not
// the last one.
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

// literalHead begins a literal packet: binary, without name and date, since no
// signature would cover them.
var literalHead = []byte{'b', 0, 0, 0, 0, 0}

// newLiteralWriter returns a writer for the content of a message.
func newLiteralWriter(w io.Writer) (*packetWriter, error) {
	p := newPacketWriter(w, tagLiteral)
	_, err := p.Write(literalHead)
	return p, err
}

// A packetReader reads the content of one packet.
type packetReader struct {
	r    *bufio.Reader
	left int64 // of this piece
	more bool  // another piece follows
	open bool  // the packet ends where r does
}

// readPacket reads the header of a packet.
func readPacket(r *bufio.Reader) (tag byte, body *packetReader, err error) {
	first, err := r.ReadByte()
	if err != nil {
		return 0, nil, err
	}
	body = &packetReader{r: r}
	switch {
	case first&0x80 == 0:
		return 0, nil, messageErrorf("is damaged: it has an invalid packet")
	case first&newFormat == newFormat:
		err = body.piece()
		return first &^ newFormat, body, err
	}
	const untilEnd = 3
	if first&3 == untilEnd {
		body.left, body.open = math.MaxInt64, true
		return first >> 2 & 15, body, nil
	}
	for range 1 << (first & 3) {
		b, err := r.ReadByte()
		if err != nil {
			return 0, nil, early(err)
		}
		body.left = body.left<<8 | int64(b)
	}
	return first >> 2 & 15, body, nil
}

// early turns the end of a file into an unexpected end.
func early(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// piece reads the length of the next piece.
func (p *packetReader) piece() error {
	first, err := p.r.ReadByte()
	if err != nil {
		return early(err)
	}
	p.more = false
	more := 0
	switch {
	case first < 192:
		p.left = int64(first)
	case first < 224:
		p.left, more = int64(first-192), 1
	case first < 255:
		p.left, p.more = 1<<(first&31), true
	default:
		p.left, more = 0, 4
	}
	for range more {
		b, err := p.r.ReadByte()
		if err != nil {
			return early(err)
		}
		p.left = p.left<<8 | int64(b)
	}
	if first >= 192 && first < 224 {
		p.left += 192
	}
	return nil
}

// Read implements io.Reader.
func (p *packetReader) Read(b []byte) (int, error) {
	for p.left == 0 {
		if !p.more {
			return 0, io.EOF
		}
		if err := p.piece(); err != nil {
			return 0, err
		}
	}
	n, err := p.r.Read(b[:min(int64(len(b)), p.left)])
	p.left -= int64(n)
	if err == io.EOF && !p.open {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// unpacked returns the content of a compressed packet, which is packets.
func unpacked(body *packetReader) (io.Reader, error) {
	r := bufio.NewReaderSize(body, bufSize)
	algorithm, err := r.ReadByte()
	if err != nil {
		return nil, early(err)
	}
	switch algorithm {
	case 0:
		return r, nil
	case 1:
		return flate.NewReader(r), nil
	case 2:
		return zlib.NewReader(r)
	case 3:
		return bzip2.NewReader(r), nil
	}
	return nil, messageErrorf("uses what is not supported: the compression %d", algorithm)
}
