package file

import (
	"archive/zip"
	"cmp"
	"context"
	"encoding/binary"
	"io"
	"io/fs"
	"math"
	"time"

	"github.com/courierhq/courier"
)

// Zip is the step type file.zip. The zero Zip has the default limits.
//
// The same files give the same bytes: entries are in the order of their names,
// with the files' times of modification in UTC, cut to the two seconds of the
// format, and with the same permissions for all. Names that some system can't
// take are refused, so that whatever file.zip packs, file.unzip unpacks
// everywhere.
//
// An archive appears under its name only after all its content was unpacked
// again in memory, and the file was read again from the first to the last byte.
//
// With a password the entries are encrypted with AES-256 as WinZip specifies it
// (AE-2), which 7-Zip and WinZip read; names and sizes stay readable, and the
// bytes differ each time. Content that can't be packed is stored.
type Zip struct {
	Limits Limits // of which Zip uses MaxFiles and MaxMatches
}

// ZipConfig is the configuration of file.zip. It names at least one source.
type ZipConfig struct {
	SourcePath  courier.Pattern   `json:"source_path,omitempty" courier:"any_of=source" doc:"a file or directory to pack, or a pattern"`
	SourcePaths []courier.Pattern `json:"source_paths,omitempty" courier:"any_of=source" doc:"several of them"`
	OutputPath  string            `json:"output_path,omitempty" courier:"path" doc:"the archive's path; by default the source's name and .zip, or archive.zip, in the attempt's own directory, or in this directory if it exists or ends in /"`
	Glob        *bool             `json:"glob,omitempty" doc:"whether the sources are patterns; by default those that have * or ? and are the name of no file"`
	Password    string            `json:"password,omitempty" doc:"encrypts the files with AES-256, as a reference such as secret:NAME; names and sizes stay readable"`
}

func (cfg ZipConfig) packing(limits Limits) packing {
	return packing{cfg.SourcePath, cfg.SourcePaths, cfg.OutputPath, cfg.Glob, ".zip", limits.withDefaults()}
}

// ZipOutput is the output of file.zip.
type ZipOutput struct {
	ArchivePath string `json:"archive_path" file:"output_path" doc:"path of the archive"`
	EntryCount  int    `json:"entry_count" doc:"files and empty directories in the archive"`
	Size        int64  `json:"size" doc:"of the archive, in bytes"`
}

// Execute packs. A second attempt makes the archive again.
func (z Zip) Execute(ctx context.Context, job *courier.Context, cfg ZipConfig) (ZipOutput, error) {
	made, err := cfg.packing(z.Limits).archive(ctx, job, func(w *archiveFile, items []packed) error {
		return w.zip(ctx, items, cfg.Password)
	})
	return ZipOutput{ArchivePath: made.path, EntryCount: made.entries, Size: made.size}, err
}

// Validate checks the paths.
func (z Zip) Validate(ctx context.Context, job *courier.Context, cfg ZipConfig) error {
	return cfg.packing(z.Limits).validate(job)
}

// Cleanup removes an unfinished archive. A finished one stays.
func (z Zip) Cleanup(ctx context.Context, job *courier.Context, cfg ZipConfig) error {
	return cfg.packing(z.Limits).cleanup(job)
}

// zip packs the items.
func (a *archiveFile) zip(ctx context.Context, items []packed, password string) error {
	deflate, err := startDeflate()
	if err != nil {
		return err
	}
	defer deflate.stop()
	zw := zip.NewWriter(a)
	zw.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) { return deflate.stream(out), nil })
	for i := range items {
		if err := a.zipEntry(ctx, zw, deflate, &items[i], password); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return zw.Close()
}

func (a *archiveFile) zipEntry(ctx context.Context, zw *zip.Writer, deflate *packers, it *packed, password string) error {
	h := &zip.FileHeader{Name: it.name, Method: zip.Deflate, Modified: zipTime(it.info.ModTime())}
	if it.info.IsDir() {
		h.Method = zip.Store
		h.SetMode(fs.ModeDir | 0o755)
		_, err := zw.CreateHeader(h)
		return err
	}
	h.SetMode(0o644)
	f, from, err := it.source(a.job)
	if err != nil {
		return err
	}
	defer f.Close()
	h.Modified = zipTime(from.ModTime())
	if password != "" {
		return a.zipEncrypted(ctx, zw, deflate, h, password, func(to io.Writer) error {
			return a.add(ctx, f, identify(from), it.place.name, to)
		}, from.Size())
	}
	to, err := zw.CreateHeader(h)
	if err != nil {
		return err
	}
	return a.add(ctx, f, identify(from), it.place.name, to)
}

// zipEncrypted writes an entry of size bytes that write gives.
func (a *archiveFile) zipEncrypted(ctx context.Context, zw *zip.Writer, deflate *packers, h *zip.FileHeader, password string, write func(io.Writer) error, size int64) error {
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
	// Of a raw entry the writer knows only what the header says, when it ends
	// the entry.
	h.CompressedSize64, h.UncompressedSize64 = enc.written, uint64(size)
	//lint:ignore SA1019 the directory of the archive is written from these
	h.CompressedSize, h.UncompressedSize = uint32(min(enc.written, math.MaxUint32)), uint32(min(size, math.MaxUint32))
	return nil
}

// timeExtra is the extra field that holds a time in seconds.
func timeExtra(t time.Time) []byte {
	b := []byte{'U', 'T', 5, 0, 1}
	return binary.LittleEndian.AppendUint32(b, uint32(t.Unix()))
}

// dosTime is a time in the two fields that all programs know.
func dosTime(t time.Time) (date, clock uint16) {
	return uint16(t.Day() | int(t.Month())<<5 | (t.Year()-1980)<<9), uint16(t.Second()/2 | t.Minute()<<5 | t.Hour()<<11)
}

// zipTime is a time as all archives can hold it: in UTC, with two seconds'
// resolution, and not before or after what the format's two fields have room
// for.
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
