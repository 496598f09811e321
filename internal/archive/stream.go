package archive

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/readahead"
	"github.com/courierhq/courier/internal/transfer"
)

// A Compression is a format for a stream of bytes.
type Compression int

// The values of [Compression].
const (
	Plain  Compression = iota // not compressed
	Gzip                      // RFC 1952; several members are one stream, and zeros may follow
	Zstd                      // RFC 8878, with windows of 128 MiB at most
	Detect                    // what the first bytes say; for [OpenTar] only
)

// Ext returns the file extension of the format, such as ".gz".
func (f Compression) Ext() string { return [...]string{"", ".gz", ".zst"}[f] }

// String returns the name of the format.
func (f Compression) String() string { return [...]string{"plain", "gzip", "zstd"}[f] }

// zstdBlock is the number of bytes in one frame of the Zstandard format.
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

// A zstder is the codec of the Zstandard format. It has two levels: for text such as logs, the
// faster level also gives a smaller result.
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

// encoder chooses the level that gives the smaller result for a sample.
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

// bounds limit the content of a compressed file.
type bounds struct {
	most  int64 // bytes
	limit string
	ratio int // of the whole to the compressed file, beyond freeRatio
	setBy string
}

// A StreamReader decompresses a file. Every error, except an error of reading the file, matches
// [ErrDamaged] or [ErrRefused]. The data must not be used before io.EOF, since checksums come
// last. The reader must be closed.
type StreamReader struct {
	r        io.Reader
	bounds   bounds
	name     string
	format   Compression
	src      *packedSource
	progress func(done, total int64) // may be nil
	done     int64
	close    func()
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

// zstdWindow is the maximum window of the Zstandard format. It is the default limit of the
// program zstd.
const zstdWindow = 128 << 20

// OpenStream starts to decompress the file f from its current position. The limits are
// MaxEntryBytes and MaxRatio of limits. The errors call the file name. Progress, which may be
// nil, gets the number of bytes of f that were read, and the size of f. f must stay open until
// the reader is closed.
func OpenStream(ctx context.Context, name string, f *os.File, format Compression, limits Limits, progress func(done, total int64)) (*StreamReader, error) {
	return openStream(ctx, name, f, format, bounds{limits.MaxEntryBytes, "MaxEntryBytes", limits.MaxRatio, limits.SetBy}, progress)
}

func openStream(ctx context.Context, name string, f *os.File, format Compression, b bounds, progress func(done, total int64)) (*StreamReader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, localfile.Error(name, err)
	}
	src := &packedSource{r: transfer.NewReader(ctx, f, nil), size: info.Size()}
	s := &StreamReader{bounds: b, name: name, format: format, src: src, progress: progress, close: func() {}}
	in := bufio.NewReaderSize(src, 256<<10)
	switch format {
	case Gzip:
		r, err := gzip.NewReader(in)
		if err != nil {
			return nil, s.wrong(err)
		}
		r.Multistream(false)
		s.r = &gzipMembers{in, r}
	case Zstd:
		r, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return nil, s.wrong(err)
		}
		s.r, s.close = r, r.Close
		if src.size == 0 {
			return nil, s.wrong(io.ErrUnexpectedEOF)
		}
	default:
		s.r = in
	}
	return s, nil
}

// gzipMembers reads the members of a file one after the other. After the last member it skips
// zeros, with which tapes and some programs fill a block.
type gzipMembers struct {
	in     *bufio.Reader
	member *gzip.Reader
}

func (g *gzipMembers) Read(p []byte) (int, error) {
	for {
		n, err := g.member.Read(p)
		if err != io.EOF {
			return n, err
		}
		if n > 0 {
			return n, nil
		}
		if err := g.next(); err != nil {
			return 0, err
		}
	}
}

// next starts the next member. It returns io.EOF at the end of the file.
func (g *gzipMembers) next() error {
	for padded := false; ; padded = true {
		switch c, err := g.in.ReadByte(); {
		case err != nil:
			return err
		case c != 0 && padded:
			return gzip.ErrHeader
		case c != 0:
			g.in.UnreadByte()
			err := g.member.Reset(g.in)
			g.member.Multistream(false)
			return err
		}
	}
}

// Close ends the reader. The file stays open.
func (s *StreamReader) Close() { s.close() }

// wrong converts the error err of the decompressor.
func (s *StreamReader) wrong(err error) error {
	switch {
	case s.src.err != nil:
		return localfile.Error(s.name, s.src.err)
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return refused("it needs a window of more than %d bytes to unpack", zstdWindow)
	}
	return damage{fmt.Errorf("it is damaged, incomplete, or not in the %s format: %w", s.format, err)}
}

// Read implements io.Reader. It returns no more than the limits allow.
func (s *StreamReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.done += int64(n)
	switch {
	case s.done > s.bounds.most:
		return 0, refused("unpacks to more than %d bytes, which are allowed; see %s in %s", s.bounds.most, s.bounds.limit, s.bounds.setBy)
	case s.format != Plain && s.done > freeRatio && s.done/int64(s.bounds.ratio) > s.src.size:
		return 0, refused("unpacks to more than %d times its %d bytes; see MaxRatio in %s", s.bounds.ratio, s.src.size, s.bounds.setBy)
	case err != nil && err != io.EOF:
		return n, s.wrong(err)
	}
	return n, err
}

// report reports how far the compressed file was read.
func (s *StreamReader) report() {
	if s.progress != nil {
		read := s.src.read.Load()
		s.progress(read, max(s.src.size, read))
	}
}

// CopyTo writes the remaining content to w, and returns the number of bytes. Written, which may
// be nil, is called with the number so far. Large files are decompressed in a separate goroutine
// while w is written to.
func (s *StreamReader) CopyTo(ctx context.Context, w io.Writer, written func(done int64)) (int64, error) {
	var from io.Reader = s
	if s.src.size >= readAheadFrom/4 {
		a := readahead.New(s, readAheadSize)
		defer a.Close()
		from = a
	}
	return transfer.Copy(ctx, w, from, func(done int64) {
		if written != nil {
			written(done)
		}
		s.report()
	})
}
