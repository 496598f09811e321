package file

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/transfer"
)

// A compression is a format for a stream of bytes.
type compression int

const (
	plainFormat compression = iota
	gzipFormat
	zstdFormat
)

// ext is what names of files in the format end in.
func (f compression) ext() string { return [...]string{"", ".gz", ".zst"}[f] }

func (f compression) String() string { return [...]string{"plain", "gzip", "zstd"}[f] }

// through lets write pack to the file in the format.
func (a *archiveFile) through(f compression, write func(io.Writer) error) error {
	if f == plainFormat {
		if err := write(a.b); err != nil {
			return err
		}
		return a.b.Flush()
	}
	start := startDeflate
	if f == zstdFormat {
		start = startZstd
	}
	p, err := start()
	if err != nil {
		return err
	}
	defer p.stop()
	s := &formatStream{packedStream: p.stream(a.b), format: f}
	if f == gzipFormat {
		const unknownSystem = 255
		a.b.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, unknownSystem}) // Flush tells of errors
	}
	if err := write(s); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	if f == gzipFormat {
		a.b.Write(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, s.sum), uint32(s.size)))
	}
	return a.b.Flush()
}

// A formatStream is a packed stream that knows what the trailer of gzip says.
type formatStream struct {
	*packedStream
	format compression
	sum    uint32
	size   int64
}

func (s *formatStream) Write(p []byte) (int, error) {
	if s.format == gzipFormat {
		s.sum = crc32.Update(s.sum, crc32.IEEETable, p)
		s.size += int64(len(p))
	}
	return s.packedStream.Write(p)
}

// zstdBlock is how much goes into one frame of the Zstandard format.
const zstdBlock = 2 << 20

// startZstd starts packers that make a frame of each block.
func startZstd() (*packers, error) {
	return startPackers(zstdBlock, 0, func() (codec, error) {
		z := &zstder{}
		for i, level := range []zstd.EncoderLevel{zstd.SpeedFastest, zstd.SpeedDefault} {
			var err error
			z.enc[i], err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithZeroFrames(true),
				zstd.WithWindowSize(zstdBlock), zstd.WithLowerEncoderMem(true), zstd.WithEncoderLevel(level))
			if err != nil {
				return nil, err
			}
		}
		var err error
		z.dec, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(zstdBlock))
		return z, err
	})
}

// A zstder is the codec of the Zstandard format. It has two levels: for text
// such as logs the faster one gives less, too.
type zstder struct {
	enc     [2]*zstd.Encoder // the faster first
	dec     *zstd.Decoder
	scratch []byte
}

func (z *zstder) pack(b *block) (err error) {
	b.dst = z.encoder(b).EncodeAll(b.src, b.dst[:0])
	if z.scratch, err = z.dec.DecodeAll(b.dst, z.scratch[:0]); err != nil || !bytes.Equal(z.scratch, b.src) {
		return errors.Join(errUnfaithful, err)
	}
	return nil
}

// encoder chooses the level that makes less of a sample.
func (z *zstder) encoder(b *block) *zstd.Encoder {
	const sample = 64 << 10
	if len(b.src) < 2*sample {
		return z.enc[1]
	}
	src := b.src[(len(b.src)-sample)/2:][:sample]
	b.dst = z.enc[1].EncodeAll(src, b.dst[:0])
	most := len(b.dst)
	if b.dst = z.enc[0].EncodeAll(src, b.dst[:0]); len(b.dst) <= most {
		return z.enc[0]
	}
	return z.enc[1]
}

// bounds limit what a packed file unpacks to.
type bounds struct {
	most  int64 // bytes
	field string
	ratio int // of the whole to the packed file, beyond freeRatio
}

// An unpackStream unpacks a file, counting. Every error in it that is not one
// of reading the file matches errDamaged or errRefused.
type unpackStream struct {
	io.Reader
	bounds
	job    *courier.Context
	name   string
	format compression
	src    *packedSource
	done   int64
	close  func()
}

// A packedSource is a packed file that is being read.
type packedSource struct {
	r    io.Reader
	read atomic.Int64
	size int64
	err  error
}

func (s *packedSource) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.read.Add(int64(n))
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// zstdWindow is the largest window of the Zstandard format, which is what the
// program zstd takes by default.
const zstdWindow = 128 << 20

// openStream begins to unpack the file f from where it is.
func openStream(ctx context.Context, job *courier.Context, name string, f *os.File, format compression, b bounds) (*unpackStream, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fault(name, err)
	}
	src := &packedSource{r: transfer.NewReader(ctx, f, nil), size: info.Size()}
	s := &unpackStream{bounds: b, job: job, name: name, format: format, src: src, close: func() {}}
	in := bufio.NewReaderSize(src, 256<<10)
	switch format {
	case gzipFormat:
		r, err := gzip.NewReader(in)
		if err != nil {
			return nil, s.wrong(err)
		}
		s.Reader = r
	case zstdFormat:
		r, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return nil, s.wrong(err)
		}
		s.Reader, s.close = r, r.Close
		if src.size == 0 {
			return nil, s.wrong(io.ErrUnexpectedEOF)
		}
	default:
		s.Reader = in
	}
	return s, nil
}

// Close ends it. The file is not closed.
func (s *unpackStream) Close() { s.close() }

// wrong is the error in unpacking err.
func (s *unpackStream) wrong(err error) error {
	switch {
	case s.src.err != nil:
		return fault(s.name, s.src.err)
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return refused("it needs a window of more than %d bytes to unpack", zstdWindow)
	}
	return damage{fmt.Errorf("it is damaged, incomplete, or not in the %s format: %w", s.format, err)}
}

// Read gives no more than the bounds allow.
func (s *unpackStream) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.done += int64(n)
	switch {
	case s.done > s.most:
		return 0, refused("unpacks to more than %d bytes, which are allowed; see %s in file.Options", s.most, s.field)
	case s.format != plainFormat && s.done > freeRatio && s.done/int64(s.ratio) > s.src.size:
		return 0, refused("unpacks to more than %d times its %d bytes; see MaxRatio in file.Options", s.ratio, s.src.size)
	case err != nil && err != io.EOF:
		return n, s.wrong(err)
	}
	return n, err
}

// progress reports how far the packed file was read.
func (s *unpackStream) progress() {
	read := s.src.read.Load()
	s.job.Progress(read, max(s.src.size, read), s.name)
}

// setModified gives the unfinished output the source's time of modification.
func (p pair) setModified(job *courier.Context, t time.Time) error {
	side := filepath.Join(p.dst.dir(), job.SideName(p.dst.base()))
	return fault(p.dst.name, setModified(p.dst.root, side, t))
}

// damage is an error that matches errDamaged and says only what it is given.
type damage struct{ error }

func (d damage) Is(target error) bool { return target == errDamaged }
func (d damage) Unwrap() error        { return d.error }
