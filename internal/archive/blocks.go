package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/klauspost/compress/flate"
)

// A codec packs blocks. The result for a block depends only on the block, so
// that it is the same however many blocks are packed in parallel.
type codec interface {
	// pack sets b.dst to the packed form of b.src. It has unpacked it again and
	// compared it with b.src.
	pack(b *block) error
}

// A block is a piece of the content to pack.
type block struct {
	history []byte // what comes before src
	src     []byte
	dst     []byte
	last    bool
	err     error
	done    chan struct{}
}

// A packers is a set of goroutines that pack blocks. It must be stopped.
type packers struct {
	size    int // bytes of a block
	history int // bytes
	in      chan *block
	ended   sync.WaitGroup
	free    []*block
}

// startPackers starts the goroutines, each with a codec of its own.
func startPackers(size, history int, newCodec func() (codec, error)) (*packers, error) {
	p := &packers{size: size, history: history, in: make(chan *block)}
	for range min(4, max(2, runtime.GOMAXPROCS(0))) {
		c, err := newCodec()
		if err != nil {
			p.stop()
			return nil, err
		}
		p.ended.Go(func() {
			for b := range p.in {
				b.err = packSafely(c, b)
				b.done <- struct{}{}
			}
		})
		p.free = append(p.free, newBlock(), newBlock())
	}
	return p, nil
}

// packSafely turns a panic in a codec into an error.
func packSafely(c codec, b *block) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic while packing: %v", p)
		}
	}()
	return c.pack(b)
}

func newBlock() *block { return &block{done: make(chan struct{}, 1)} }

// stop ends the goroutines and waits for them.
func (p *packers) stop() {
	close(p.in)
	p.ended.Wait()
}

// stream returns a writer that packs to w. Write and close the streams of the
// same packers one after the other.
func (p *packers) stream(w io.Writer) *packedStream { return &packedStream{packers: p, w: w} }

// A packedStream packs the data written to it.
type packedStream struct {
	*packers
	w       io.Writer
	filling *block
	history []byte
	queue   []*block // given to the goroutines, in order
	err     error
}

func (s *packedStream) Write(p []byte) (int, error) {
	n := 0
	for n < len(p) && s.err == nil {
		// A full block is packed only when more follows, so that the last one
		// is known.
		if s.filling != nil && len(s.filling.src) == s.size {
			s.submit(false)
			continue
		}
		if s.filling == nil {
			s.begin()
		}
		b := s.filling
		part := p[n:min(len(p), n+s.size-len(b.src))]
		b.src = append(b.src, part...)
		n += len(part)
	}
	return n, s.err
}

// begin takes an empty block, and waits for one if necessary.
func (s *packedStream) begin() {
	if len(s.free) == 0 {
		s.drain(len(s.queue) - 1)
	}
	last := len(s.free) - 1
	s.filling, s.free = s.free[last], s.free[:last]
	b := s.filling
	b.history = append(b.history[:0], s.history...)
	b.src, b.dst, b.last, b.err = b.src[:0], b.dst[:0], false, nil
}

// submit passes the block that is being filled to the goroutines.
func (s *packedStream) submit(last bool) {
	b := s.filling
	b.last = last
	s.filling = nil
	s.queue = append(s.queue, b)
	s.history = append(s.history[:0], b.src[max(0, len(b.src)-s.packers.history):]...)
	s.in <- b
}

// drain writes out the first blocks, until at most left blocks are still being
// packed.
func (s *packedStream) drain(left int) {
	for len(s.queue) > left {
		b := s.queue[0]
		s.queue = s.queue[1:]
		<-b.done
		if s.err == nil {
			s.err = b.err
		}
		if s.err == nil {
			_, s.err = s.w.Write(b.dst)
		}
		s.free = append(s.free, b)
	}
}

// Close packs the remaining data.
func (s *packedStream) Close() error {
	if s.filling == nil {
		s.begin()
	}
	s.submit(true)
	s.drain(0)
	return s.err
}

// errUnfaithful says that an unpacked block differs from the original.
var errUnfaithful = errors.New("the packed data does not unpack to the original, because of a fault in the program or in the machine's memory")

// The deflate format. A block keeps the history of the previous block, so that
// splitting into blocks does not increase the size.
const (
	// level is the compression level. It compresses better than the default of
	// other programs, and is several times as fast.
	level          = 6
	deflateBlock   = 1 << 20
	deflateHistory = 32 << 10
	storedMost     = 65535 // bytes that the format can store in one piece
)

// startDeflate starts packers for the deflate format.
func startDeflate() (*packers, error) {
	return startPackers(deflateBlock, deflateHistory, func() (codec, error) { return newDeflater() })
}

// A deflater is the codec of the deflate format.
type deflater struct {
	w, probe *flate.Writer
	r        io.Reader // unpacks src
	src      bytes.Reader
}

func newDeflater() (*deflater, error) {
	w, err := flate.NewWriter(nil, level)
	if err != nil {
		return nil, err
	}
	probe, err := flate.NewWriter(nil, flate.BestSpeed)
	d := &deflater{w: w, probe: probe}
	d.r = flate.NewReader(&d.src)
	return d, err
}

func (d *deflater) pack(b *block) error {
	if d.incompressible(b.src) {
		b.dst = store(b.dst, b.src, b.last)
		return nil
	}
	out := bytes.NewBuffer(b.dst[:0])
	d.w.ResetDict(out, b.history)
	_, err := d.w.Write(b.src)
	if err == nil && b.last {
		err = d.w.Close()
	} else if err == nil {
		err = d.w.Flush()
	}
	b.dst = out.Bytes()
	if err != nil {
		return err
	}
	return d.compare(b)
}

// incompressible reports whether packing a sample of a block saves less than a
// fiftieth.
func (d *deflater) incompressible(src []byte) bool {
	const samples, size = 4, 8 << 10
	if len(src) < 2*samples*size {
		return false
	}
	var n countWriter
	d.probe.Reset(&n)
	for i := range samples {
		at := i * (len(src) - size) / (samples - 1)
		d.probe.Write(src[at : at+size]) // n takes all
	}
	d.probe.Close()
	return int64(n) > samples*size*49/50
}

type countWriter int64

func (n *countWriter) Write(p []byte) (int, error) {
	*n += countWriter(len(p))
	return len(p), nil
}

// store appends the deflate form of src without packing it.
func store(dst, src []byte, last bool) []byte {
	for len(src) > 0 {
		n := min(len(src), storedMost)
		end := byte(0)
		if last && n == len(src) {
			end = 1
		}
		dst = append(dst, end, byte(n), byte(n>>8), ^byte(n), ^byte(n>>8))
		dst = append(dst, src[:n]...)
		src = src[n:]
	}
	return dst
}

// compare unpacks a block and compares it with the original.
func (d *deflater) compare(b *block) error {
	d.src.Reset(b.dst)
	d.r.(flate.Resetter).Reset(&d.src, b.history) // never fails
	end := io.ErrUnexpectedEOF
	if b.last {
		end = nil
	}
	rest := expected(b.src)
	if _, err := io.Copy(&rest, d.r); err != end || len(rest) > 0 {
		return errUnfaithful
	}
	return nil
}

// expected is the data that must still be written to it. It accepts nothing
// else.
type expected []byte

func (e *expected) Write(p []byte) (int, error) {
	if !bytes.HasPrefix(*e, p) {
		return 0, errUnfaithful
	}
	*e = (*e)[len(p):]
	return len(p), nil
}
