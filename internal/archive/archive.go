// Package archive writes and reads zip archives (AES included), tar archives,
// and files compressed by gzip or Zstandard.
//
// A [Writer] makes archives that unpack on every system. Entries are in the given order, [Names]
// refuses names that are invalid on some system, and the same files give the same bytes, unless
// there is a password. Everything that is compressed is decompressed again in memory and
// compared, and [Writer.Verify] reads the whole file back.
//
// An archive that is read is treated as hostile. [OpenZip] checks the whole directory of a zip
// archive before anything is unpacked. A tar archive has no directory, so it is checked entry by
// entry. Only regular files and directories are unpacked, into an empty [os.Root]. [Limits] limit
// the number of files, the bytes, the ratio and the path lengths. Modification times in an
// archive are used, owners and permissions are not.
//
// Errors about an archive name it. Errors that match [ErrDamaged] may come from a faulty
// transfer. Other errors that the archive itself causes match [ErrRefused] or are marked by
// package failure as permanent. An error of ctx is its cause. Files that a caller passes stay
// open.
//
// Nothing in this package is safe for concurrent use. Packing uses up to four goroutines, and
// unpacking of large files uses one; they end before the functions return, or with Close.
//
// Content is packed in blocks of fixed size, in parallel: deflate blocks with the history of the
// previous block, Zstandard blocks as frames. So the bytes do not depend on the number of cores.
// A deflate block is stored if packing a sample of it saves nothing. Passwords of zip files use
// WinZip AE-2 with AES-256; ZipCrypto is refused; with a password, unencrypted entries are
// refused too. In a tar archive, links, devices, sparse files, global names, a missing end, and
// data after the end are refused, since attacks use data that programs interpret differently. The
// headers in its first 16 MiB are checked before anything is unpacked. Entries may be 100
// directories deep.
package archive

import (
	"archive/zip"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/courierhq/courier/internal/failure"
	"github.com/courierhq/courier/internal/localfile"
)

// Limits are the limits for the content of an archive and for unpacking it. All fields except
// SetBy must be positive.
type Limits struct {
	MaxFiles      int   // files and directories, those included that are only part of a name
	MaxBytes      int64 // of all files, unpacked
	MaxEntryBytes int64 // of one file, unpacked
	MaxRatio      int   // unpacked to packed size, beyond the first MiB
	MaxPathBytes  int   // of the paths of all files and directories together
	// SetBy is where a user sets the limits. Errors say "see MaxFiles in" and this text.
	SetBy string
}

// An Archive is an open archive. Nothing of it is unpacked yet.
type Archive interface {
	// Size returns the unpacked size of all files according to the archive. It is 0 if the format
	// does not state it before the end.
	Size() int64

	// Check calls accept for every entry that is known before unpacking: all entries of a zip
	// archive, none of a tar archive. It returns the first error of accept. A name has slashes,
	// but none at its end.
	Check(accept func(name string, dir bool) error) error

	// Unpack unpacks all entries, in the order of the archive. After an error, the files that it
	// has made stay. It may be called once.
	Unpack(ctx context.Context, to Directory) (Unpacked, error)
}

// Unpacked is the result of unpacking an archive.
type Unpacked struct {
	Files []File   // in the order of the archive
	Dirs  []string // with slashes, those above come first
}

// A File is a file that was unpacked. Its JSON form is stored on disks, and must not change.
type File struct {
	Name string `json:"name"` // below the directory, with slashes
	Size int64  `json:"size"` // bytes
}

var (
	// ErrDamaged is matched by errors about invalid data, which may come from a faulty transfer.
	ErrDamaged = errors.New("the archive is damaged")
	// ErrRefused is matched by errors about refused data. Further attempts cannot fix them.
	ErrRefused = errors.New("is refused")
)

// refused returns an error that matches [ErrRefused] and has only the given text.
func refused(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

type refusal struct{ error }

func (r refusal) Is(target error) bool { return target == ErrRefused }
func (r refusal) Unwrap() error        { return r.error }

// damage is an error that matches [ErrDamaged] and has only its own text.
type damage struct{ error }

func (d damage) Is(target error) bool { return target == ErrDamaged }
func (d damage) Unwrap() error        { return d.error }

// refuse returns the error about an archive, or about an entry if where is set by ofEntry.
func refuse(archive, where string, err error) error {
	full := fmt.Errorf("archive %q%s: %w; nothing was unpacked", archive, where, err)
	if errors.Is(err, ErrDamaged) {
		return failure.WithClass(full, failure.Integrity)
	}
	return failure.Permanent(full)
}

// ofEntry returns the part of an error that names an entry. The name is hostile text.
func ofEntry(name string) string {
	return fmt.Sprintf(", entry %q", localfile.Shorten(name))
}

// failed returns the error of an archive that could not be unpacked. Where is empty or the result
// of ofEntry.
func (u *unpacker) failed(ctx context.Context, where string, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, ErrRefused), errors.Is(err, ErrDamaged):
		return refuse(u.archive, where, err)
	case isCorrupt(err):
		return refuse(u.archive, where, fmt.Errorf("%w: %w", ErrDamaged, err))
	case errors.Is(err, fs.ErrExist):
		return refuse(u.archive, where, errors.New("the name can't be distinguished from another one on this file system"))
	}
	return fmt.Errorf("archive %q%s: %w; nothing was unpacked", u.archive, where, localfile.Error(u.Name, err))
}

// corruptions are the errors for invalid packed data.
var corruptions = []error{zip.ErrFormat, zip.ErrChecksum, io.ErrUnexpectedEOF}

// isCorrupt reports whether err says that packed data is invalid.
func isCorrupt(err error) bool {
	if _, ok := errors.AsType[flate.CorruptInputError](err); ok {
		return true
	}
	for _, e := range corruptions {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
