package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/courierhq/courier/internal/localfile"
)

// tarBlock is the block size of the format.
const tarBlock = 512

// A tarball is a tar archive. Nothing about its content is known before it is unpacked.
type tarball struct {
	name   string
	file   *os.File
	format Compression
	limits Limits
	names  *Names
	files  int   // entries
	total  int64 // bytes of all files
}

func newTarball(name string, f *os.File, limits Limits) *tarball {
	return &tarball{name: name, file: f, limits: limits, names: NewNames(limits)}
}

// OpenTar returns the tar archive in f, compressed in the given format. It checks nothing; Unpack
// refuses links, devices, sparse files, duplicate names, names that lead out of the directory,
// and more entries than the limits allow. The errors call the archive name. f must stay open
// until the archive is unpacked.
func OpenTar(name string, f *os.File, format Compression, limits Limits) (Archive, error) {
	t := newTarball(name, f, limits)
	t.format = format
	if format != Detect {
		return t, nil
	}
	head := make([]byte, 6)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, localfile.Error(name, err)
	}
	t.format, err = detect(head[:n])
	if err != nil {
		return nil, refuse(name, "", err)
	}
	return t, nil
}

// detect returns the compression that the first bytes indicate.
func detect(head []byte) (Compression, error) {
	for _, known := range []struct {
		magic  string
		format Compression
		name   string
	}{
		{"\x1f\x8b", Gzip, ""},
		{"\x28\xb5\x2f\xfd", Zstd, ""},
		{"BZh", 0, "bzip2"},
		{"\xfd7zXZ\x00", 0, "xz"},
		{"\x04\x22\x4d\x18", 0, "lz4"},
		{"\x1f\x9d", 0, "compress"},
		{"LZIP", 0, "lzip"},
		{"\x89LZO\x00", 0, "lzop"},
		{"PK\x03\x04", 0, "zip"},
		{"7z\xbc\xaf\x27\x1c", 0, "7z"},
	} {
		if !bytes.HasPrefix(head, []byte(known.magic)) {
			continue
		}
		if known.name != "" {
			return 0, fmt.Errorf("is in the format of %s; only tar, tar.gz and tar.zst can be unpacked", known.name)
		}
		return known.format, nil
	}
	// A frame that is to be skipped, with which pzstd begins.
	if len(head) >= 4 && head[0]&0xf0 == 0x50 && string(head[1:4]) == "\x2a\x4d\x18" {
		return Zstd, nil
	}
	return Plain, nil
}

// Size implements [Archive]: the size is only known after the archive has been read.
func (t *tarball) Size() int64 { return 0 }

// Check implements [Archive]: the entries are only known when they are unpacked.
func (t *tarball) Check(func(name string, dir bool) error) error { return nil }

// open starts to read the archive.
func (t *tarball) open(ctx context.Context, u *unpacker) (*StreamReader, error) {
	if _, err := t.file.Seek(0, io.SeekStart); err != nil {
		return nil, localfile.Error(t.name, err)
	}
	// Besides the content there are headers, with long names in blocks of their
	// own, and the padding.
	most := t.limits.MaxBytes + int64(t.limits.MaxFiles+1)*(16<<10) + freeRatio
	return openStream(ctx, t.name, t.file, t.format, bounds{most, "MaxBytes", t.limits.MaxRatio, t.limits.SetBy}, u.Progress)
}

// prechecked is how many unpacked bytes of an archive are checked before anything is created: the
// headers of 10,000 small files.
const prechecked = 16 << 20

// precheck refuses an archive by the headers at its beginning. That is fast, while creating files
// and removing them again would take long.
func (t *tarball) precheck(ctx context.Context, u *unpacker) error {
	r, err := t.open(ctx, u)
	if err != nil {
		return u.failed(ctx, "", err)
	}
	defer r.Close()
	tr := tar.NewReader(io.LimitReader(r, prechecked))
	first := newTarball(t.name, t.file, t.limits)
	for {
		h, err := nextEntry(tr)
		if err != nil {
			// Unpack comes to it again, unless it is the end of what is looked at.
			return nil
		}
		if _, err := first.admit(h); err != nil {
			return u.failed(ctx, ofEntry(h.Name), err)
		}
	}
}

// Unpack implements [Archive]. It reads the archive once, from the first to the
// last byte.
func (t *tarball) Unpack(ctx context.Context, to Directory) (Unpacked, error) {
	u := newUnpacker(ctx, to, t.name)
	defer u.Close()
	err := t.unpack(ctx, u)
	return u.got, err
}

func (t *tarball) unpack(ctx context.Context, u *unpacker) error {
	if err := t.precheck(ctx, u); err != nil {
		return err
	}
	r, err := t.open(ctx, u)
	if err != nil {
		return u.failed(ctx, "", err)
	}
	defer r.Close()
	blocks := &tarReader{r: r}
	tr := tar.NewReader(blocks)
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		end := blocks.aligned()
		h, err := nextEntry(tr)
		if err == io.EOF {
			return t.end(ctx, u, blocks, end)
		}
		if err != nil {
			return u.failed(ctx, "", tarError(err))
		}
		u.entry()
		r.report()
		if err := t.entry(ctx, u, h, tr, r.report); err != nil {
			return u.failed(ctx, ofEntry(h.Name), tarError(err))
		}
	}
}

// Types of GNU tar for which archive/tar has no names.
const (
	typeGNUDirectory = 'D' // of an incremental backup: its content is a list of its files
	typeGNULabel     = 'V' // no entry, but what the archive is called
)

// nextEntry returns the header of the next entry. If other programs treat an entry as a
// directory, such as an empty file whose name ends in a slash, its type is that of a directory.
func nextEntry(tr *tar.Reader) (*tar.Header, error) {
	h, err := tr.Next()
	if err == nil && (h.Typeflag == typeGNUDirectory || h.Typeflag == tar.TypeReg && h.Size == 0 && strings.HasSuffix(h.Name, "/")) {
		h.Typeflag, h.Size = tar.TypeDir, 0
	}
	return h, err
}

// tarError marks errors of archive/tar for a damaged archive.
func tarError(err error) error {
	for _, e := range []error{tar.ErrHeader, tar.ErrFieldTooLong, io.ErrUnexpectedEOF} {
		if errors.Is(err, e) {
			return damage{fmt.Errorf("the archive is damaged, incomplete, or not a tar archive: %w", err)}
		}
	}
	return err
}

// entry checks one entry and unpacks it.
func (t *tarball) entry(ctx context.Context, u *unpacker, h *tar.Header, r io.Reader, report func()) error {
	dir := h.Typeflag == tar.TypeDir
	name, err := t.admit(h)
	if err != nil || name == "" {
		return err
	}
	if u.Accept != nil {
		if err := u.Accept(name, dir); err != nil {
			return err
		}
	}
	if dir {
		return u.mkdir(name)
	}
	return u.file(ctx, File{name, h.Size}, h.ModTime, r, nil, report)
}

// admit checks an entry by its header. It returns the entry's name, or "" if there is nothing to
// unpack.
func (t *tarball) admit(h *tar.Header) (string, error) {
	if t.files++; t.files > t.limits.MaxFiles {
		return "", refused("comes after %d others, which are allowed; see MaxFiles in %s", t.limits.MaxFiles, t.limits.SetBy)
	}
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return "", checkGlobal(h.PAXRecords)
	case typeGNULabel:
		return "", nil
	}
	if err := checkTarType(h); err != nil {
		return "", err
	}
	name, dir := tidy(h.Name), h.Typeflag == tar.TypeDir
	if dir {
		if isTop(h.Name, name) {
			return "", nil
		}
		name = strings.TrimSuffix(name, "/")
	}
	if err := CheckName(name); err != nil {
		return "", refused("the name %w", err)
	}
	if err := t.names.Add(name, dir); dir && err == errTwice {
		return "", nil
	} else if err != nil {
		return "", refused("the name %w", err)
	}
	if h.Size < 0 || h.Size > t.limits.MaxEntryBytes {
		return "", refused("unpacks to %d bytes; %d are allowed, see MaxEntryBytes in %s", h.Size, t.limits.MaxEntryBytes, t.limits.SetBy)
	}
	if t.total += h.Size; t.total > t.limits.MaxBytes {
		return "", refused("makes the archive unpack to more than %d bytes, which are allowed; see MaxBytes in %s", t.limits.MaxBytes, t.limits.SetBy)
	}
	return name, nil
}

// checkTarType refuses everything but files and directories.
func checkTarType(h *tar.Header) error {
	for key := range h.PAXRecords {
		if isSparse(key) {
			return refused("is a sparse file; have it packed without holes")
		}
	}
	what := ""
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeCont: // the last is a file that lies in one piece
		return nil
	case tar.TypeLink:
		what = "a hard link"
	case tar.TypeSymlink:
		what = "a symbolic link"
	case tar.TypeChar, tar.TypeBlock:
		what = "a device"
	case tar.TypeFifo:
		what = "a pipe"
	case tar.TypeGNUSparse:
		return refused("is a sparse file; have it packed without holes")
	default:
		what = fmt.Sprintf("of the unknown type %q", h.Typeflag)
	}
	return refused("is %s; only files and directories are unpacked", what)
}

// isSparse reports whether a PAX record belongs to a sparse file of GNU tar, libarchive, star or
// Solaris.
func isSparse(key string) bool {
	return strings.HasPrefix(key, "GNU.sparse.") || key == "SCHILY.realsize" || key == "SUN.holesdata"
}

// checkGlobal refuses records for all entries that other programs interpret as names or sizes, or
// as those of a part of an archive. Other records, such as the version of star, do not change
// what is unpacked.
func checkGlobal(records map[string]string) error {
	for key := range records {
		part := strings.HasPrefix(key, "GNU.volume.") && key != "GNU.volume.label"
		if part || isSparse(key) || key == "path" || key == "linkpath" || key == "size" {
			return refused("gives %q for all entries, which is not supported", localfile.Shorten(key))
		}
	}
	return nil
}

// end checks that the archive ends correctly, and that nothing follows: some programs would
// continue to read there.
func (t *tarball) end(ctx context.Context, u *unpacker, blocks *tarReader, end int64) error {
	if blocks.zeros < tarBlock || blocks.at-end < tarBlock {
		return u.failed(ctx, "", damage{errors.New("the archive is incomplete: it has no end")})
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := blocks.r.Read(buf)
		switch {
		case trailingZeros(buf[:n]) != n:
			return u.failed(ctx, "", refused("the archive goes on behind its end"))
		case err == io.EOF:
			return nil
		case err != nil:
			return u.failed(ctx, "", err)
		}
	}
}

// A tarReader counts the zeros at the end of the data read so far: a tar archive ends in blocks
// of zeros.
type tarReader struct {
	r     io.Reader
	at    int64
	zeros int
}

func (t *tarReader) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.at += int64(n)
	if z := trailingZeros(p[:n]); z == n {
		t.zeros = min(t.zeros+n, tarBlock)
	} else {
		t.zeros = z
	}
	return n, err
}

func trailingZeros(p []byte) int { return len(p) - len(bytes.TrimRight(p, "\x00")) }

// aligned returns the position of the next block.
func (t *tarReader) aligned() int64 { return (t.at + tarBlock - 1) / tarBlock * tarBlock }
