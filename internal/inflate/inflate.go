// Package inflate unpacks the deflate format of RFC 1951, and the zlib format
// of RFC 1950 around it. It accepts and refuses exactly what the standard
// library does.
//
// BenchmarkReader compares it with compress/flate and with the package of
// klauspost/compress. Measured on amd64: text, logs and JSON are unpacked at 2.5
// to 3.7 times the speed of compress/flate (430 to 1,270 MB/s) and at 1.8 to 2.8
// times that of klauspost/compress; zeros and periods of 2 to 40 bytes at 1.0 to
// 1.3 and 1.1 to 1.7 times the speed (4 to 6 GB/s). Stored blocks, as of random
// data, are copied at 0.8 of the speed (10 GB/s).
package inflate

import (
	"bufio"
	"compress/flate"
	"io"
)

const (
	historySize = 32 << 10 // how far back the format can refer
	roomSize    = 128 << 10
	longest     = 258 // bytes that one symbol can stand for
	// slack is the room behind the output that may be written to in passing.
	slack = longest + 16
)

// A Reader unpacks. The zero Reader must be reset before it is used. Its errors
// are those of what it reads from, [io.ErrUnexpectedEOF] where that ends too
// early, and [flate.CorruptInputError].
type Reader struct {
	src    *bufio.Reader // nil if in is all there is
	srcErr error
	in     []byte // what src has buffered
	pos    int    // in in
	passed int64  // bytes before in
	bits   uint64 // taken from in and not used, the next one lowest
	n      uint   // how many are valid; those above are 0 or will be valid

	out   [historySize + roomSize + slack]byte
	start int // where what can be referred to begins in out
	given int // up to where out was given away
	end   int // of what is in out

	kind  blockKind
	last  bool // the block is the last one
	left  int  // bytes of a stored block
	lits  *[litsSize]uint32
	dists *[distsSize]uint32
	codes *codes // of the blocks that bring their own
	err   error
}

// A blockKind is what the bytes that come next are.
type blockKind int

const (
	noBlock blockKind = iota // a header
	storedBlock
	codedBlock
)

// Reset makes the reader unpack what r gives. Of r nothing is taken beyond the
// end of the packed data.
func (r *Reader) Reset(src *bufio.Reader) {
	r.reset(nil)
	r.src = src
}

// ResetBytes makes the reader unpack src, which comes after what unpacked to
// history.
func (r *Reader) ResetBytes(src, history []byte) {
	r.reset(history)
	r.src, r.in, r.srcErr = nil, src, io.EOF
}

func (r *Reader) reset(history []byte) {
	history = history[max(0, len(history)-historySize):]
	copy(r.out[historySize-len(history):], history)
	r.start = historySize - len(history)
	r.given, r.end = historySize, historySize
	r.srcErr, r.in, r.pos, r.passed, r.bits, r.n = nil, nil, 0, 0, 0, 0
	r.kind, r.last, r.left, r.err = noBlock, false, 0, nil
}

// NewReader returns a reader of src.
func NewReader(src *bufio.Reader) *Reader {
	r := new(Reader)
	r.Reset(src)
	return r
}

// Read implements [io.Reader].
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	b, err := r.more()
	n := copy(p, b)
	r.given += n
	return n, err
}

// Next returns what was unpacked next, which is valid until the next call. At
// the end it returns [io.EOF] and nothing else.
func (r *Reader) Next() ([]byte, error) {
	b, err := r.more()
	r.given = r.end
	return b, err
}

// more returns what is there, after unpacking if that was nothing. Its error is
// nil if there is something.
func (r *Reader) more() ([]byte, error) {
	for r.given == r.end {
		if r.err != nil {
			return nil, r.err
		}
		r.slide()
		r.err = r.unpack()
	}
	return r.out[r.given:r.end], nil
}

// slide makes room once there is little.
func (r *Reader) slide() {
	if r.end < historySize+roomSize/2 {
		return
	}
	moved := r.end - historySize
	copy(r.out[:historySize], r.out[moved:r.end])
	r.start = max(0, r.start-moved)
	r.given, r.end = historySize, historySize
}

// unpack unpacks until the room is used up.
func (r *Reader) unpack() error {
	for r.end < historySize+roomSize {
		var err error
		switch {
		case r.kind == storedBlock:
			err = r.stored()
		case r.kind == codedBlock:
			err = r.coded()
		case r.last:
			r.giveBack()
			if r.src != nil {
				r.src.Discard(r.pos) // these are buffered
				r.in, r.pos = nil, 0
			}
			return io.EOF
		default:
			err = r.header()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// corrupt is the error of data that make no sense.
func (r *Reader) corrupt() error {
	return flate.CorruptInputError(r.passed + int64(r.pos) - int64(r.n>>3))
}

// giveBack puts back the whole bytes that were not used.
func (r *Reader) giveBack() {
	r.pos -= int(r.n >> 3)
	r.n &= 7
	r.bits &= 1<<r.n - 1
}

// fetch gets more into in. Its error is nil if it did.
func (r *Reader) fetch() error {
	if r.srcErr == nil {
		r.giveBack()
		left := len(r.in) - r.pos
		r.src.Discard(r.pos) // these are buffered
		r.passed += int64(r.pos)
		const plenty = 16
		_, r.srcErr = r.src.Peek(max(plenty, left+1))
		r.in, _ = r.src.Peek(r.src.Buffered())
		if r.pos = 0; len(r.in) > left {
			return nil
		}
	}
	if r.srcErr == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return r.srcErr
}

// take adds bytes to bits as far as there are some and they fit.
func (r *Reader) take() {
	for r.n <= 56 && r.pos < len(r.in) {
		r.bits |= uint64(r.in[r.pos]) << r.n
		r.pos++
		r.n += 8
	}
}

// need makes sure that there are k bits, 48 at most.
func (r *Reader) need(k uint) error {
	for r.take(); r.n < k; r.take() {
		if err := r.fetch(); err != nil {
			return err
		}
	}
	return nil
}

// get takes k bits.
func (r *Reader) get(k uint) (int, error) {
	if err := r.need(k); err != nil {
		return 0, err
	}
	v := r.bits & (1<<k - 1)
	r.drop(k)
	return int(v), nil
}

// drop uses k bits up.
func (r *Reader) drop(k uint) {
	r.bits >>= k
	r.n -= k
}

// header reads the header of a block.
func (r *Reader) header() error {
	v, err := r.get(3)
	if err != nil {
		return err
	}
	r.last = v&1 != 0
	switch v >> 1 {
	case 0:
		return r.storedHeader()
	case 1:
		f := fixedCodes()
		r.lits, r.dists, r.kind = &f.lits, &f.dists, codedBlock
		return nil
	case 2:
		if r.codes == nil {
			r.codes = new(codes)
		}
		r.lits, r.dists, r.kind = &r.codes.lits, &r.codes.dists, codedBlock
		return r.readCodes()
	}
	return r.corrupt()
}

func (r *Reader) storedHeader() error {
	r.drop(r.n & 7)
	v, err := r.get(32)
	if err != nil {
		return err
	}
	if v&0xffff != ^v>>16&0xffff {
		return r.corrupt()
	}
	r.giveBack()
	r.kind, r.left = storedBlock, v&0xffff
	return nil
}

// stored copies what is stored.
func (r *Reader) stored() error {
	if r.left == 0 {
		r.kind = noBlock
		return nil
	}
	if r.pos == len(r.in) {
		if err := r.fetch(); err != nil {
			return err
		}
	}
	room := r.out[r.end : historySize+roomSize]
	n := copy(room[:min(len(room), r.left)], r.in[r.pos:])
	r.end, r.pos, r.left = r.end+n, r.pos+n, r.left-n
	return nil
}
