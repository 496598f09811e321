package archive

import (
	"archive/zip"
	"cmp"
	"context"
	"encoding/binary"
	"io"
	"io/fs"
	"math"
	"time"
)

// Zip writes a zip archive of the items, in their order. Times are truncated to
// the two seconds of the format, permissions are the same for all files, and
// files that cannot be compressed are stored. With a password the files are
// encrypted with AES-256 (WinZip AE-2); names and sizes stay readable.
func (a *Writer) Zip(ctx context.Context, items []Item, password string) error {
	deflate, err := startDeflate()
	if err != nil {
		return err
	}
	defer deflate.stop()
	zw := zip.NewWriter(a.b)
	zw.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) { return deflate.stream(out), nil })
	for i := range items {
		if err := a.zipEntry(ctx, zw, deflate, &items[i], password); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := zw.Close(); err != nil {
		return err
	}
	return a.b.Flush()
}

func (a *Writer) zipEntry(ctx context.Context, zw *zip.Writer, deflate *packers, it *Item, password string) error {
	h := &zip.FileHeader{Name: it.Name, Method: zip.Deflate, Modified: zipTime(it.Info.ModTime())}
	if it.Info.IsDir() {
		h.Method = zip.Store
		h.SetMode(fs.ModeDir | 0o755)
		_, err := zw.CreateHeader(h)
		return err
	}
	h.SetMode(0o644)
	f, from, err := it.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	h.Modified = zipTime(from.ModTime())
	if password != "" {
		return a.zipEncrypted(ctx, zw, deflate, h, password, func(to io.Writer) error {
			return a.add(ctx, f, from, it.Path, to)
		}, from.Size())
	}
	to, err := zw.CreateHeader(h)
	if err != nil {
		return err
	}
	return a.add(ctx, f, from, it.Path, to)
}

// zipEncrypted writes an entry of size bytes, whose content write writes.
func (a *Writer) zipEncrypted(ctx context.Context, zw *zip.Writer, deflate *packers, h *zip.FileHeader, password string, write func(io.Writer) error, size int64) error {
	const encrypted, descriptor, utf8Name = 1 << 0, 1 << 3, 1 << 11
	h.Flags |= encrypted | descriptor | utf8Name
	h.Method = methodAES
	h.CreatorVersion = h.CreatorVersion&0xff00 | aesZipNeeded
	h.ReaderVersion = aesZipNeeded
	h.Extra = append(aesInfo{2, aes256, zip.Deflate}.extra(), timeExtra(h.Modified)...)
	//lint:ignore SA1019 for a raw entry the writer takes the fields as they are
	h.ModifiedDate, h.ModifiedTime = dosTime(h.Modified)
	raw, err := zw.CreateRaw(h)
	if err != nil {
		return err
	}
	enc, err := newAESWriter(raw, password)
	if err != nil {
		return err
	}
	packed := deflate.stream(enc)
	if err := write(packed); err != nil {
		return err
	}
	if err := cmp.Or(packed.Close(), enc.Close()); err != nil {
		return err
	}
	// The writer takes the sizes of a raw entry from the header, when the entry
	// ends.
	h.CompressedSize64, h.UncompressedSize64 = enc.written, uint64(size)
	//lint:ignore SA1019 the directory of the archive is written from these
	h.CompressedSize, h.UncompressedSize = uint32(min(enc.written, math.MaxUint32)), uint32(min(size, math.MaxUint32))
	return nil
}

// timeExtra returns the extra field with a time in seconds.
func timeExtra(t time.Time) []byte {
	b := []byte{'U', 'T', 5, 0, 1}
	return binary.LittleEndian.AppendUint32(b, uint32(t.Unix()))
}

// dosTime returns a time in the two fields that all programs support.
func dosTime(t time.Time) (date, clock uint16) {
	return uint16(t.Day() | int(t.Month())<<5 | (t.Year()-1980)<<9), uint16(t.Second()/2 | t.Minute()<<5 | t.Hour()<<11)
}

// zipTime returns a time in the range of all archive formats: in UTC, with a
// resolution of two seconds, and within the range of the format's two fields.
func zipTime(t time.Time) time.Time {
	first := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	last := time.Unix(1<<32-2, 0).UTC()
	t = t.UTC().Truncate(2 * time.Second)
	switch {
	case t.Before(first):
		return first
	case t.After(last):
		return last
	}
	return t
}
