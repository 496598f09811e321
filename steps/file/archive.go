package file

import (
	"archive/zip"
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/inflate"
)

// freeRatio is how much may be unpacked before the ratio counts.
const freeRatio = 1 << 20

// An archive is a zip archive all of whose entries have been checked.
type archive struct {
	name     string
	password string
	inflater inflater
	entries  []entry // in the order of the archive
	total    int64   // unpacked size by what the entries say; reading gives no more
}

// An entry is a file or directory in an archive.
type entry struct {
	*zip.File
	name string // without a slash at the end
	dir  bool
	size int64
	aes  aesInfo // if the entry is encrypted
}

// openArchive reads the directory of the archive f and checks it. Nothing is
// unpacked. What it refuses is refused for good, except where the archive is
// merely damaged.
func openArchive(ctx context.Context, name string, f *os.File, limits Limits, password string) (*archive, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fault(name, err)
	}
	a := &archive{name: name, password: password}
	src := &archiveSource{ctx: ctx, r: f, left: 1<<20 + 1024*int64(limits.MaxFiles)}
	zr, err := zip.NewReader(src, info.Size())
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, errDirectory):
		return nil, courier.Permanent(fmt.Errorf("archive %q: its directory is too large for %d entries, which are allowed; see MaxFiles in file.Options", name, limits.MaxFiles))
	case err != nil:
		return nil, fmt.Errorf("archive %q: %w: it is damaged, incomplete, or no zip archive", name, fault(name, err))
	case len(zr.File) > limits.MaxFiles:
		return nil, courier.Permanent(fmt.Errorf("archive %q has %d entries; %d are allowed, see MaxFiles in file.Options", name, len(zr.File), limits.MaxFiles))
	}
	src.left = -1
	names := tree{limits: limits}
	for _, f := range zr.File {
		e := entry{File: f, name: strings.TrimSuffix(f.Name, "/"), dir: f.Mode().IsDir()}
		err := e.check(limits, info.Size(), password != "")
		if err == nil {
			if err = names.add(e.name, e.dir); err != nil {
				err = fmt.Errorf("the name %w", err)
			}
		}
		if err != nil {
			return nil, refuse(a.name, ofEntry(f.Name), err)
		}
		e.size = int64(f.UncompressedSize64)
		if a.total += e.size; a.total > limits.MaxBytes {
			return nil, courier.Permanent(fmt.Errorf("archive %q unpacks to more than %d bytes, which are allowed; see MaxBytes in file.Options", name, limits.MaxBytes))
		}
		a.entries = append(a.entries, e)
	}
	if a.total > freeRatio && a.total/int64(limits.MaxRatio) > info.Size() {
		return nil, courier.Permanent(fmt.Errorf("archive %q unpacks to %d bytes from %d, more than %d times as much; see MaxRatio in file.Options", name, a.total, info.Size(), limits.MaxRatio))
	}
	return a, a.checkRanges(src, info.Size())
}

// An inflater unpacks one stream after the other.
type inflater struct {
	b *bufio.Reader
	r *inflate.Reader
}

// reader unpacks a stream. What it gave before ends.
func (i *inflater) reader(packed io.Reader) io.Reader {
	if i.r == nil {
		i.b = bufio.NewReaderSize(packed, 64<<10)
		i.r = inflate.NewReader(i.b)
		return i.r
	}
	i.b.Reset(packed)
	i.r.Reset(i.b)
	return i.r
}

func (a *archive) size() int64 { return a.total }

// check calls room for every entry.
func (a *archive) check(room func(name string, dir bool) error) error {
	for _, e := range a.entries {
		if err := room(e.name, e.dir); err != nil {
			return err
		}
	}
	return nil
}

// unpack unpacks all entries.
func (a *archive) unpack(ctx context.Context, u *unpacker) error {
	for _, e := range a.entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		u.effect("unpack")
		if err := a.unpackEntry(ctx, u, e); err != nil {
			return u.failed(ctx, ofEntry(e.Name), err)
		}
	}
	return nil
}

func (a *archive) unpackEntry(ctx context.Context, u *unpacker, e entry) error {
	if e.dir {
		return u.mkdir(e.name)
	}
	r, err := e.reader(a.password, &a.inflater)
	if err != nil {
		return err
	}
	sum := crc32.NewIEEE()
	err = u.file(ctx, unpacked{e.name, e.size}, e.Modified, r, sum, func() {
		u.job.Progress(u.done, max(a.total, u.done), a.name)
	})
	if err == nil && sum.Sum32() != e.CRC32 && !e.aes.hasNoCRC() {
		err = zip.ErrChecksum
	}
	return err
}

// check refuses an entry by what the archive's directory says of it.
func (e *entry) check(limits Limits, size int64, password bool) error {
	if err := checkEntryName(e.name); err != nil {
		return fmt.Errorf("the name %w", err)
	}
	if err := e.checkEncryption(password); err != nil {
		return err
	}
	const patched = 1 << 5
	method := e.Method
	if e.aes.strength != 0 {
		method = e.aes.method
	}
	packed, unpacked := e.CompressedSize64, e.UncompressedSize64
	switch {
	case !e.dir && !e.Mode().IsRegular():
		return fmt.Errorf("is %s; only files and directories are unpacked", kind(e.Mode()))
	case e.Flags&patched != 0 || method != zip.Store && method != zip.Deflate:
		return fmt.Errorf("is packed by method %d; file.unzip knows 0 (none) and 8 (deflate)", method)
	case e.dir && unpacked != 0:
		return errors.New("is a directory with content")
	case packed > uint64(size):
		return fmt.Errorf("%w: the entry is said to have %d bytes of the archive's %d", errDamaged, packed, size)
	case unpacked > uint64(limits.MaxEntryBytes):
		return fmt.Errorf("unpacks to %d bytes; %d are allowed, see MaxEntryBytes in file.Options", unpacked, limits.MaxEntryBytes)
	case unpacked > freeRatio && unpacked/uint64(limits.MaxRatio) > packed:
		return fmt.Errorf("unpacks to %d bytes from %d, more than %d times as much; see MaxRatio in file.Options", unpacked, packed, limits.MaxRatio)
	}
	return nil
}

// checkRanges refuses archives whose entries share bytes, and such whose local
// headers tell another story than the directory, which other programs would
// believe.
func (a *archive) checkRanges(src *archiveSource, size int64) error {
	type span struct {
		start, end int64
		name       string
	}
	var spans []span
	for _, e := range a.entries {
		start, body, err := src.local(&e)
		if err != nil {
			if src.ctx.Err() != nil {
				return context.Cause(src.ctx)
			}
			return refuse(a.name, ofEntry(e.Name), err)
		}
		s := span{start, body + int64(e.CompressedSize64), e.Name}
		if s.end > size {
			return refuse(a.name, ofEntry(e.Name), fmt.Errorf("%w: the entry ends behind the archive's end", errDamaged))
		}
		spans = append(spans, s)
	}
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	for i := 1; i < len(spans); i++ {
		if spans[i].start < spans[i-1].end {
			return refuse(a.name, ofEntry(spans[i].name), fmt.Errorf("shares bytes of the archive with the entry %q", trim(spans[i-1].name)))
		}
	}
	return nil
}

// An archiveSource is the file that an archive is read from. It stops at the
// end of ctx, even in the middle of packed data that unpacks to nothing.
type archiveSource struct {
	ctx  context.Context
	r    io.ReaderAt
	left int64 // bytes that may still be read; negative for any number
	// The last local header that was read, and where. archive/zip does not
	// tell where an entry's local header is, but reads it when asked for the
	// entry's data.
	header [localHeader]byte
	at     int64
}

// localHeader is the length of the fixed part of a local header.
const localHeader = 30

var errDirectory = errors.New("the archive's directory is too large")

// ReadAt reads like the file.
func (s *archiveSource) ReadAt(p []byte, off int64) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	if s.left >= 0 {
		if s.left -= int64(len(p)); s.left < 0 {
			return 0, errDirectory
		}
	}
	n, err := s.r.ReadAt(p, off)
	if len(p) == localHeader && n == len(p) {
		copy(s.header[:], p)
		s.at = off
	}
	return n, err
}

// local returns where the local header and the data of an entry begin, after
// comparing the header with the archive's directory.
func (s *archiveSource) local(e *entry) (start, body int64, err error) {
	s.at = -1
	if body, err = e.DataOffset(); err != nil {
		return 0, 0, fmt.Errorf("%w: %w", errDamaged, err)
	}
	flags, method := binary.LittleEndian.Uint16(s.header[6:]), binary.LittleEndian.Uint16(s.header[8:])
	nameLen, extraLen := binary.LittleEndian.Uint16(s.header[26:]), binary.LittleEndian.Uint16(s.header[28:])
	start = s.at
	if start < 0 || body != start+localHeader+int64(nameLen)+int64(extraLen) {
		return 0, 0, errors.New("its header can't be found")
	}
	name := make([]byte, nameLen)
	if _, err := s.ReadAt(name, start+localHeader); err != nil {
		return 0, 0, fmt.Errorf("%w: %w", errDamaged, err)
	}
	const encrypted = 1
	if string(name) != e.Name || method != e.Method || flags&encrypted != e.Flags&encrypted {
		return 0, 0, fmt.Errorf("has another name or form in its own header, %q", trim(string(name)))
	}
	return start, body, nil
}
