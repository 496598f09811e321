package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// Sources say which local files a step uploads, by the fields of its
// configuration.
type Sources struct {
	LocalPath     string // a file or a pattern
	Glob          *bool  // whether LocalPath is a pattern; nil: if it has * or ? and no file has that name
	IgnoreMissing bool   // nothing to upload is no error
}

// A Source is a local file to upload.
type Source struct {
	Local string // as the Context takes it
	Below string // local path below the fixed part of the pattern, with slashes; of a single file its name
	Size  int64
}

// FindReady is Find for those files whose size and time don't change within so
// many seconds.
func (q Sources) FindReady(ctx context.Context, job *courier.Context, seconds int) (files []Source, several bool, err error) {
	files, several, err = q.Find(job)
	if err != nil || len(files) == 0 || seconds == 0 {
		return files, several, err
	}
	look := func(f Source) (LocalIdentity, bool) {
		info, err := job.Stat(f.Local)
		if err != nil {
			return LocalIdentity{}, false
		}
		return Identify(info), true
	}
	before := make(map[string]LocalIdentity)
	for _, f := range files {
		before[f.Local], _ = look(f)
	}
	if err := WaitStable(ctx, job, seconds, q.LocalPath); err != nil {
		return nil, several, err
	}
	var ready []Source
	for _, f := range files {
		if now, ok := look(f); ok && now == before[f.Local] {
			ready = append(ready, f)
		}
	}
	if len(ready) == 0 && !q.IgnoreMissing || len(ready) < len(files) && !several {
		return nil, several, fmt.Errorf("local_path: %s is not ready: it has changed within the %d seconds of stable_seconds", safename.Quote(q.LocalPath), seconds)
	}
	return ready, several, nil
}

// Find finds the files, in order. Several is set if LocalPath is a pattern.
func (q Sources) Find(job *courier.Context) (files []Source, several bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("local_path: %w", err)
		}
	}()
	info, err := job.Stat(q.LocalPath)
	missing := errors.Is(err, fs.ErrNotExist)
	switch several = q.isPattern(missing); {
	case several:
		if files, err = q.matches(job); err != nil || len(files) > 0 || q.IgnoreMissing {
			return files, true, err
		}
		return nil, true, courier.Permanent(fmt.Errorf("no file matches %s; if that is in order, set ignore_missing", safename.Quote(q.LocalPath)))
	case missing && q.IgnoreMissing:
		return nil, false, nil
	case missing:
		return nil, false, courier.Permanent(err)
	case err != nil:
		return nil, false, err
	case info.IsDir():
		return nil, false, courier.Permanent(fmt.Errorf("%s is a directory; for the files in it add /*", safename.Quote(q.LocalPath)))
	}
	return []Source{{q.LocalPath, path.Base(filepath.ToSlash(q.LocalPath)), info.Size()}}, false, nil
}

// isPattern reports whether LocalPath is a pattern. What exists under the very
// name is none, unless Glob says so.
func (q Sources) isPattern(missing bool) bool {
	if q.Glob != nil {
		return *q.Glob
	}
	return missing && strings.ContainsAny(q.LocalPath, "*?")
}

// Former is Find for cleaning up after an earlier attempt. If the files are gone,
// what they were called is known only if it was one; otherwise there are none.
func (q Sources) Former(job *courier.Context) (files []Source, several bool) {
	files, several, err := q.Find(job)
	if err == nil && len(files) > 0 {
		return files, several
	}
	if q.isPattern(true) {
		return nil, false
	}
	return []Source{{Local: q.LocalPath, Below: path.Base(filepath.ToSlash(q.LocalPath))}}, false
}

// matches lists the regular files that LocalPath stands for as a pattern.
func (q Sources) matches(job *courier.Context) ([]Source, error) {
	pattern := filepath.ToSlash(q.LocalPath)
	if !doublestar.ValidatePattern(pattern) {
		return nil, courier.Permanent(fmt.Errorf("%s is malformed as a pattern", safename.Quote(q.LocalPath)))
	}
	if err := safename.CheckPattern(pattern); err != nil {
		return nil, courier.Permanent(err)
	}
	base, rest := doublestar.SplitPattern(pattern)
	root, rel, err := job.Root(base)
	if err != nil {
		return nil, err
	}
	dir, err := fs.Sub(root.FS(), filepath.ToSlash(rel))
	if err != nil {
		return nil, err
	}
	found, err := find(dir, rest)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	slices.Sort(found)
	var files []Source
	for _, f := range found {
		info, err := fs.Stat(dir, f)
		if err == nil && info.Mode().IsRegular() && !IsSideFile(path.Base(f)) {
			files = append(files, Source{Local: path.Join(base, f), Below: f, Size: info.Size()})
		}
	}
	return files, nil
}

// Targets returns the remote path of each file, for the value of remote_path.
// Stat tells whether there is something with that path, and whether it is a
// directory.
func (q Sources) Targets(files []Source, several bool, remotePath string, stat func() (there, isDir bool, err error)) ([]string, error) {
	into := remotePath == "" || strings.HasSuffix(remotePath, "/")
	if !into {
		there, isDir, err := stat()
		if err != nil {
			return nil, err
		}
		into = there && isDir
		if several && !into {
			return nil, courier.Permanent(errors.New("is not a directory, but local_path is a pattern for several files; remote_path must name an existing directory, or end in a slash"))
		}
	}
	targets := make([]string, len(files))
	for i, f := range files {
		if !into {
			targets[i] = remotePath
			continue
		}
		for name := range strings.SplitSeq(f.Below, "/") {
			if err := safename.Check(name); err != nil {
				return nil, courier.Permanent(fmt.Errorf("local file %s: %w, so it can't be used on the server; set remote_path to a file", safename.Quote(f.Local), err))
			}
		}
		targets[i] = Join(remotePath, f.Below)
	}
	return targets, nil
}

// Directories lists the directories below base, a value of remote_path, that
// hold the targets of several files, those above others first. Base is not
// among them.
func Directories(base string, files []Source) []string {
	dirs := make(map[string]bool)
	for _, f := range files {
		for dir := path.Dir(f.Below); dir != "."; dir = path.Dir(dir) {
			dirs[Join(base, dir)] = true
		}
	}
	return slices.Sorted(maps.Keys(dirs))
}

// IsLocalDirectory reports whether a file is meant to go into p.
func IsLocalDirectory(job *courier.Context, p string) bool {
	if os.IsPathSeparator(p[len(p)-1]) {
		return true
	}
	info, err := job.Stat(p)
	return err == nil && info.IsDir()
}

// JoinLocal returns the path of name, which has slashes, in a local directory.
func JoinLocal(dir, name string) string { return path.Join(filepath.ToSlash(dir), name) }

// LocalKey is equal for names that are the same file on this system.
func LocalKey(name string) string {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		return strings.ToLower(name)
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
		return fmt.Errorf("local file: %w", ErrChanged)
	}
	return nil
}

// SyncAbove makes the names of a file below root durable, and of the directories
// in which it is.
func SyncAbove(root *os.Root, rel string) error {
	for dir := filepath.Dir(rel); ; dir = filepath.Dir(dir) {
		if err := courier.SyncDir(root, dir); err != nil || dir == "." || dir == filepath.Dir(dir) {
			return err
		}
	}
}

// EachBelow calls f with each file in a local directory and those below it, by
// its path below root. That there is no such directory is no error.
func EachBelow(job *courier.Context, dir string, f func(root *os.Root, rel string) error) error {
	root, rel, err := job.Root(dir)
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
