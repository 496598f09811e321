package archive

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"

	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/transfer"
)

// An Item is a file or an empty directory that goes into an archive.
type Item struct {
	Name string      // of the entry, with slashes; a directory's ends in one
	Path string      // of the file, for errors
	Info fs.FileInfo // when it was found
	// Open opens the file and describes its current state; the [Writer] closes it. It is not
	// called for a directory.
	Open func() (*os.File, fs.FileInfo, error)
}

// An Output is the file that a [Writer] writes to and reads back.
type Output interface {
	io.Reader
	io.Writer
	io.Seeker
	// Sync makes the written data durable.
	Sync() error
}

// Options are the options of [NewWriter].
type Options struct {
	// Progress, which may be nil, reports the done and the total bytes of the file called name. A
	// negative total means unknown.
	Progress func(done, total int64, name string)
}

// A Writer makes one archive or one compressed file, by a single call of Zip, Tar or Compress,
// and reads it back by Verify. Verify compares the content of the file with the written data.
//
// A source that changes while it is being read is an error. So is a block that
// does not decompress to what was compressed. After any error the output is
// incomplete.
type Writer struct {
	options Options
	name    string
	file    Output
	b       *bufio.Writer
	size    int64
	sum     uint32
	synced  int64 // source bytes since the file was last made durable
}

// NewWriter returns a Writer for the empty file w, which errors call name. The file stays open.
func NewWriter(w Output, name string, o Options) *Writer {
	a := &Writer{options: o, name: name, file: w}
	a.b = bufio.NewWriterSize(summed{a}, 256<<10)
	return a
}

func (a *Writer) progress(done, total int64, name string) {
	if a.options.Progress != nil {
		a.options.Progress(done, total, name)
	}
}

// syncEvery is the number of bytes after which written data is made durable, so that the end of a
// large file does not look like a stall.
const syncEvery = 256 << 20

// Compress compresses the file src in the format f. From describes the file, and errors and
// progress call it name. src stays open.
func (a *Writer) Compress(ctx context.Context, f Compression, src *os.File, from fs.FileInfo, name string) error {
	return a.through(f, func(to io.Writer) error { return a.add(ctx, src, from, name, to) })
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A summed writes to the file and computes the hash of the written data.
type summed struct{ *Writer }

func (s summed) Write(p []byte) (int, error) {
	n, err := s.file.Write(p)
	s.size += int64(n)
	s.sum = crc32.Update(s.sum, castagnoli, p[:n])
	return n, err
}

// add writes one source to to: the file called name, which from describes.
func (a *Writer) add(ctx context.Context, f *os.File, from fs.FileInfo, name string, to io.Writer) error {
	size := from.Size()
	a.progress(0, size, name)
	var syncErr error
	var before int64
	n, err := transfer.Copy(ctx, to, io.LimitReader(f, size+1), func(done int64) {
		if a.synced += done - before; a.synced >= syncEvery && syncErr == nil {
			a.synced, syncErr = 0, a.file.Sync()
		}
		before = done
		a.progress(done, max(size, done), name)
	})
	if err = cmp.Or(err, syncErr); err != nil {
		return fmt.Errorf("pack %q: %w", name, localfile.Error(name, err))
	}
	after, err := f.Stat()
	if err != nil {
		return localfile.Error(name, err)
	}
	if n != size || after.Size() != size || !after.ModTime().Equal(from.ModTime()) {
		return fmt.Errorf("%q changed while it was being packed: it had %d bytes, %d were read, now it has %d; no archive was made", name, size, n, after.Size())
	}
	return nil
}

// Verify reads the file and compares it with the written data. It returns the file's size.
func (a *Writer) Verify(ctx context.Context) (int64, error) {
	if _, err := a.file.Seek(0, io.SeekStart); err != nil {
		return 0, localfile.Error(a.name, err)
	}
	sum := crc32.New(castagnoli)
	n, err := transfer.Copy(ctx, sum, a.file, func(int64) { a.progress(0, -1, a.name) })
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case err == nil && (n != a.size || sum.Sum32() != a.sum):
		err = errors.New("its bytes are not those that were written")
	}
	if err != nil {
		return 0, fmt.Errorf("%q can't be read back as it was written, and was discarded: %w", a.name, localfile.Error(a.name, err))
	}
	return n, nil
}

// through calls write with a writer that compresses to the file.
func (a *Writer) through(f Compression, write func(io.Writer) error) error {
	if f == Plain {
		if err := write(a.b); err != nil {
			return err
		}
		return a.b.Flush()
	}
	start := startDeflate
	if f == Zstd {
		start = startZstd
	}
	p, err := start()
	if err != nil {
		return err
	}
	defer p.stop()
	s := &formatStream{packedStream: p.stream(a.b), format: f}
	if f == Gzip {
		const unknownSystem = 255
		a.b.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, unknownSystem}) // Flush returns the error
	}
	if err := write(s); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	if f == Gzip {
		a.b.Write(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, s.sum), uint32(s.size)))
	}
	return a.b.Flush()
}

// A formatStream is a packed stream that computes the trailer of gzip.
type formatStream struct {
	*packedStream
	format Compression
	sum    uint32
	size   int64
}

func (s *formatStream) Write(p []byte) (int, error) {
	if s.format == Gzip {
		s.sum = crc32.Update(s.sum, crc32.IEEETable, p)
		s.size += int64(len(p))
	}
	return s.packedStream.Write(p)
}
