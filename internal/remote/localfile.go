package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/safename"
)

// A LocalIdentity tells a local file from another that has its name at another
// time, as far as size and time can.
type LocalIdentity struct {
	Size     int64 `json:"size"`
	Modified int64 `json:"modified"` // in nanoseconds since 1970
}

// Identify returns the identity of a local file.
func Identify(info fs.FileInfo) LocalIdentity {
	return LocalIdentity{info.Size(), info.ModTime().UnixNano()}
}

// Sum returns the SHA-256 of the local file. Item is what progress is reported
// on. It fails if the file isn't any more what it was, unless Was is zero.
func (f LocalFile) Sum(ctx context.Context, job *courier.Context, item string) (string, error) {
	src, err := job.Files().Open(f.Local)
	if err != nil {
		return "", fmt.Errorf("local file: %w", err)
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return "", fmt.Errorf("local file: %w", err)
	}
	if Identify(info) != f.Was && f.Was != (LocalIdentity{}) {
		return "", fmt.Errorf("local file: %w", connerr.ErrChanged)
	}
	m := &Meter{Job: job, Item: item, Total: info.Size(), Done: info.Size()}
	return Sum(ctx, src, info.Size(), m.Beat)
}

// A LocalFile is a local file to upload. The notes of a step hold its JSON form.
type LocalFile struct {
	Local   string        `json:"local"`             // as the Context takes it
	Below   string        `json:"below"`             // path below the fixed part of the pattern, with slashes; of a single file its name
	Final   string        `json:"final"`             // remote path
	Was     LocalIdentity `json:"was"`               // when it was uploaded
	Skipped bool          `json:"skipped,omitempty"` // the remote file was there already and was left as it is

	Size int64 `json:"-"`
}

// IsLocalDirectory reports whether a file is meant to go into p.
func IsLocalDirectory(job *courier.Context, p string) bool {
	if os.IsPathSeparator(p[len(p)-1]) {
		return true
	}
	info, err := job.Files().Stat(p)
	return err == nil && info.IsDir()
}

// JoinLocal returns the path of name, which has slashes, in a local directory.
func JoinLocal(dir, name string) string { return path.Join(filepath.ToSlash(dir), name) }

// LocalKey is equal for names that are the same file on this system.
func LocalKey(name string) string {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		return safename.Fold(name)
	}
	return name
}

// IgnoreMissing returns err unless it says that there is no such file.
func IgnoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Unchanged reports as an error that an open local file is not what it was.
func Unchanged(f *os.File, before fs.FileInfo) error {
	after, err := f.Stat()
	if err != nil {
		return fmt.Errorf("local file: %w", err)
	}
	if after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) {
		return fmt.Errorf("local file: %w", connerr.ErrChanged)
	}
	return nil
}

// SyncAbove makes the names of a file below root durable, and of the directories
// in which it is.
func SyncAbove(root *os.Root, rel string) error {
	for dir := filepath.Dir(rel); ; dir = filepath.Dir(dir) {
		if err := localfile.SyncDir(root, dir); err != nil || dir == "." || dir == filepath.Dir(dir) {
			return err
		}
	}
}

// EachBelow calls f with each file in a local directory and those below it, by
// its path below root. That there is no such directory is no error.
func EachBelow(job *courier.Context, dir string, f func(root *os.Root, rel string) error) error {
	root, rel, err := job.Files().Root(dir)
	if err != nil {
		return err
	}
	var errs []error
	err = fs.WalkDir(root.FS(), filepath.ToSlash(filepath.Clean(rel)), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return IgnoreMissing(err)
		}
		if !d.IsDir() {
			errs = append(errs, f(root, filepath.FromSlash(p)))
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}
