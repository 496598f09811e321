// Package archive writes and reads zip archives (AES included), tar archives,
// and files compressed by gzip or Zstandard.
//
// A [Writer] makes archives that unpack on every system: entries are in the order
// that they are given in, names that some system can't take are refused by
// [Names], and the same files give the same bytes, unless there is a password.
// Everything that is compressed is decompressed again in memory and compared, and
// [Writer.Verify] reads the whole file back.
//
// An archive that is read is taken to be hostile. [OpenZip] checks the whole
// directory of a zip archive before anything is unpacked; a tar archive, which has
// none, is checked entry by entry. Only regular files and directories are
// unpacked, into an empty [os.Root], and [Limits] bound what they may need: files,
// bytes, ratio, path lengths. Owners and permissions in an
// archive are not used, times of modification are.
//
// Errors about an archive name it. Those that match [ErrDamaged] may be an
// accident of transport; the others that an archive itself is the reason for match
// [ErrRefused] or are marked by package failure as permanent. An error of ctx is
// its cause. Files that a caller hands in stay open.
//
// Nothing here is for several goroutines at once. Packing uses up to four
// goroutines, and unpacking of large files one; they end before the functions
// return, or with Close.
//
// Content is packed in blocks of fixed size, side by side: deflate blocks with the history of
// the one before, Zstandard as frames. So the bytes do not depend on the number of cores. A
// deflate block whose sample gains nothing is stored. Passwords of zip files use WinZip AE-2
// with AES-256; ZipCrypto is refused, and with a password so are entries without encryption. A
// tar archive refuses links, devices, sparse files, global names, a missing end, and anything
// behind the end: what programs understand differently is used in attacks. The headers in its
// first 16 MiB are looked through before anything is made. Entries may be 100 directories deep.
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

// Limits bound what an archive may unpack to, or hold. All but SetBy must be
// positive.
type Limits struct {
	MaxFiles      int   // files and directories, those included that are only part of a name
	MaxBytes      int64 // of all files, unpacked
	MaxEntryBytes int64 // of one file, unpacked
	MaxRatio      int   // unpacked to packed size, beyond the first MiB
	MaxPathBytes  int   // of the paths of all files and directories together
	// SetBy is where a user sets the limits, for errors: they say "see MaxFiles in"
	// and this.
	SetBy string
}

// An Archive is an open archive, of which nothing is unpacked yet.
type Archive interface {
	// Size is the unpacked size of all files by what the archive says. It is 0 if
	// the format doesn't say it before the end.
	Size() int64

	// Check calls accept for every entry that is known before unpacking, and ends
	// with its first error: all entries of a zip archive, none of a tar archive. A
	// name has slashes, and none at its end.
	Check(accept func(name string, dir bool) error) error

	// Unpack unpacks all entries, in the order of the archive. What it has made
	// until an error stays. It may be called once.
	Unpack(ctx context.Context, to Directory) (Unpacked, error)
}

// Unpacked says what an archive was unpacked to.
type Unpacked struct {
	Files []File   // in the order of the archive
	Dirs  []string // with slashes, those above come first
}

// A File is a file that was unpacked. Its JSON form is kept on disks, and stays.
type File struct {
	Name string `json:"name"` // below the directory, with slashes
	Size int64  `json:"size"` // bytes
}

var (
	// ErrDamaged is matched by errors about data that makes no sense, which may be
	// an accident.
	ErrDamaged = errors.New("the archive is damaged")
	// ErrRefused is matched by errors about data that is refused, which no other
	// attempt can cure.
	ErrRefused = errors.New("is refused")
)

// refused is an error that matches [ErrRefused] and has the given text only.
func refused(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

type refusal struct{ error }

func (r refusal) Is(target error) bool { return target == ErrRefused }
func (r refusal) Unwrap() error        { return r.error }

// damage is an error that matches [ErrDamaged] and has its own text only.
type damage struct{ error }

func (d damage) Is(target error) bool { return target == ErrDamaged }
func (d damage) Unwrap() error        { return d.error }

// refuse is the error about an archive, or about an entry where ofEntry says.
func refuse(archive, where string, err error) error {
	full := fmt.Errorf("archive %q%s: %w; nothing was unpacked", archive, where, err)
	if errors.Is(err, ErrDamaged) {
		return failure.WithClass(full, failure.Integrity)
	}
	return failure.Permanent(full)
}

// ofEntry names an entry in an error. Its name is hostile text.
func ofEntry(name string) string {
	return fmt.Sprintf(", entry %q", localfile.Shorten(name))
}

// failed is the error of an archive that could not be unpacked. Where is what
// ofEntry gives, or empty.
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

// corruptions are errors that say that packed data makes no sense.
var corruptions = []error{zip.ErrFormat, zip.ErrChecksum, io.ErrUnexpectedEOF}

// isCorrupt reports whether err says that packed data makes no sense.
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
