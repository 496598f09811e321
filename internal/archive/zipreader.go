package archive

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
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/klauspost/compress/flate"

	"github.com/courierhq/courier/internal/failure"
	"github.com/courierhq/courier/internal/localfile"
)

// freeRatio is the number of bytes that may be unpacked before the ratio is limited.
const freeRatio = 1 << 20

// A zipArchive is a zip archive all of whose entries have been checked.
type zipArchive struct {
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

// OpenZip reads and checks the directory of the zip archive f. It unpacks nothing. It refuses
// names that lead out of the directory, entries that share bytes or contradict their own headers,
// and more entries than the limits allow. An entry may be stored or deflated. With a password,
// entries must be encrypted with AES (WinZip AE-1 or AE-2), and other entries are refused. The
// errors call the archive name. f must stay open until the archive is unpacked.
func OpenZip(ctx context.Context, name string, f *os.File, limits Limits, password string) (Archive, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, localfile.Error(name, err)
	}
	a := &zipArchive{name: name, password: password}
	src := &zipSource{ctx: ctx, r: f, left: 1<<20 + 1024*int64(limits.MaxFiles)}
	zr, err := zip.NewReader(src, info.Size())
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, errDirectory):
		return nil, failure.Permanent(fmt.Errorf("archive %q: its directory is too large for %d entries, which are allowed; see MaxFiles in %s", name, limits.MaxFiles, limits.SetBy))
	case err != nil:
		err = fmt.Errorf("archive %q: %w: it is damaged, incomplete, or not a zip archive", name, localfile.Error(name, err))
		if isCorrupt(err) {
			err = failure.WithClass(err, failure.Integrity)
		}
		return nil, err
	case len(zr.File) > limits.MaxFiles:
		return nil, failure.Permanent(fmt.Errorf("archive %q has %d entries; %d are allowed, see MaxFiles in %s", name, len(zr.File), limits.MaxFiles, limits.SetBy))
	}
	src.left = -1
	names := NewNames(limits)
	for _, f := range zr.File {
		e := entry{File: f, name: entryName(f)}
		e.dir = f.Mode().IsDir() || strings.HasSuffix(e.name, "/")
		if e.dir && isTop(f.Name, e.name) && f.UncompressedSize64 == 0 {
			continue
		}
		e.name = strings.TrimSuffix(e.name, "/")
		err := e.check(limits, info.Size(), password != "")
		if err == nil {
			if err = names.Add(e.name, e.dir); e.dir && err == errTwice {
				continue
			}
			if err != nil {
				err = fmt.Errorf("the name %w", err)
			}
		}
		if err != nil {
			return nil, refuse(a.name, ofEntry(f.Name), err)
		}
		e.size = int64(f.UncompressedSize64)
		if a.total += e.size; a.total > limits.MaxBytes {
			return nil, failure.Permanent(fmt.Errorf("archive %q unpacks to more than %d bytes, which are allowed; see MaxBytes in %s", name, limits.MaxBytes, limits.SetBy))
		}
		a.entries = append(a.entries, e)
	}
	if a.total > freeRatio && a.total/int64(limits.MaxRatio) > info.Size() {
		return nil, failure.Permanent(fmt.Errorf("archive %q unpacks to %d bytes from %d, more than %d times as much; see MaxRatio in %s", name, a.total, info.Size(), limits.MaxRatio, limits.SetBy))
	}
	return a, a.checkRanges(src, info.Size())
}

// An inflater unpacks one stream after another.
type inflater struct {
	b *bufio.Reader
	r io.Reader
}

// reader unpacks a stream. The previous reader can no longer be used.
func (i *inflater) reader(packed io.Reader) io.Reader {
	if i.r == nil {
		i.b = bufio.NewReaderSize(packed, 64<<10)
		i.r = flate.NewReader(i.b)
		return i.r
	}
	i.b.Reset(packed)
	i.r.(flate.Resetter).Reset(i.b, nil) // never fails
	return i.r
}

// Size implements [Archive].
func (a *zipArchive) Size() int64 { return a.total }

// Check implements [Archive].
func (a *zipArchive) Check(accept func(name string, dir bool) error) error {
	for _, e := range a.entries {
		if err := accept(e.name, e.dir); err != nil {
			return err
		}
	}
	return nil
}

// Unpack implements [Archive].
func (a *zipArchive) Unpack(ctx context.Context, to Directory) (Unpacked, error) {
	u := newUnpacker(ctx, to, a.name)
	defer u.Close()
	for _, e := range a.entries {
		if ctx.Err() != nil {
			return u.got, context.Cause(ctx)
		}
		u.entry()
		if err := a.unpackEntry(ctx, u, e); err != nil {
			return u.got, u.failed(ctx, ofEntry(e.Name), err)
		}
	}
	return u.got, nil
}

func (a *zipArchive) unpackEntry(ctx context.Context, u *unpacker, e entry) error {
	if e.dir {
		return u.mkdir(e.name)
	}
	r, err := e.reader(a.password, &a.inflater)
	if err != nil {
		return err
	}
	sum := crc32.NewIEEE()
	err = u.file(ctx, File{e.name, e.size}, e.Modified, r, sum, func() {
		u.progress(u.done, max(a.total, u.done))
	})
	if err == nil && sum.Sum32() != e.CRC32 && !e.aes.hasNoCRC() {
		err = zip.ErrChecksum
	}
	return err
}

// check checks an entry by its record in the archive's directory.
func (e *entry) check(limits Limits, size int64, password bool) error {
	if err := CheckName(e.name); err != nil {
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
	case !e.dir && !e.hasFileMode():
		return fmt.Errorf("is %s; only files and directories are unpacked", localfile.Kind(e.Mode()))
	case e.Flags&patched != 0 || method != zip.Store && method != zip.Deflate:
		return fmt.Errorf("is packed by method %d; only 0 (none) and 8 (deflate) can be unpacked", method)
	case e.dir && unpacked != 0:
		return errors.New("is a directory with content")
	case packed > uint64(size):
		return fmt.Errorf("%w: the entry is said to have %d bytes of the archive's %d", ErrDamaged, packed, size)
	case unpacked > uint64(limits.MaxEntryBytes):
		return fmt.Errorf("unpacks to %d bytes; %d are allowed, see MaxEntryBytes in %s", unpacked, limits.MaxEntryBytes, limits.SetBy)
	case unpacked > freeRatio && unpacked/uint64(limits.MaxRatio) > packed:
		return fmt.Errorf("unpacks to %d bytes from %d, more than %d times as much; see MaxRatio in %s", unpacked, packed, limits.MaxRatio, limits.SetBy)
	}
	return nil
}

// hasFileMode reports whether an entry that is not a directory is a file. Info-ZIP marks an entry
// that it has packed from a pipe as a pipe. An entry with content is a file unless it is a device
// or a link, whose content is its target.
func (e *entry) hasFileMode() bool {
	m := e.Mode()
	return m.IsRegular() || e.UncompressedSize64 > 0 && m&(fs.ModeSymlink|fs.ModeDevice) == 0
}

// checkRanges refuses archives with entries that share bytes, or with local headers that
// contradict the directory: other programs would trust the headers.
func (a *zipArchive) checkRanges(src *zipSource, size int64) error {
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
			return refuse(a.name, ofEntry(e.Name), fmt.Errorf("%w: the entry ends behind the archive's end", ErrDamaged))
		}
		spans = append(spans, s)
	}
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	for i := 1; i < len(spans); i++ {
		if spans[i].start < spans[i-1].end {
			return refuse(a.name, ofEntry(spans[i].name), fmt.Errorf("shares bytes of the archive with the entry %q", localfile.Shorten(spans[i-1].name)))
		}
	}
	return nil
}

// A zipSource is the file of an archive. Reads fail after the end of ctx, even in the middle of
// packed data that unpacks to nothing.
type zipSource struct {
	ctx  context.Context
	r    io.ReaderAt
	left int64 // bytes that may still be read; negative for any number
	// The last local header that was read, and its position. archive/zip does not return the
	// position of an entry's local header, but reads the header when asked for the entry's data.
	header [localHeader]byte
	at     int64
}

// localHeader is the length of the fixed part of a local header.
const localHeader = 30

var errDirectory = errors.New("the archive's directory is too large")

// ReadAt reads from the file.
func (s *zipSource) ReadAt(p []byte, off int64) (int, error) {
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

// local returns the positions of the local header and the data of an entry, after it has compared
// the header with the archive's directory.
func (s *zipSource) local(e *entry) (start, body int64, err error) {
	s.at = -1
	if body, err = e.DataOffset(); err != nil {
		return 0, 0, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	flags, method := binary.LittleEndian.Uint16(s.header[6:]), binary.LittleEndian.Uint16(s.header[8:])
	nameLen, extraLen := binary.LittleEndian.Uint16(s.header[26:]), binary.LittleEndian.Uint16(s.header[28:])
	start = s.at
	if start < 0 || body != start+localHeader+int64(nameLen)+int64(extraLen) {
		return 0, 0, errors.New("its header can't be found")
	}
	name := make([]byte, nameLen)
	if _, err := s.ReadAt(name, start+localHeader); err != nil {
		return 0, 0, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	const encrypted = 1
	if string(name) != e.Name || method != e.Method || flags&encrypted != e.Flags&encrypted {
		return 0, 0, fmt.Errorf("has another name or form in its own header, %q", localfile.Shorten(string(name)))
	}
	return start, body, nil
}
