package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/globmatch"
	"github.com/courierhq/courier/internal/safename"
)

// Sources say which local files a step uploads, by the fields of its
// configuration.
type Sources struct {
	LocalPath     courier.Pattern // a file or a pattern
	Glob          *bool           // whether LocalPath is a pattern; nil: if it has * or ? and no file has that name
	IgnoreMissing bool            // nothing to upload is no error
}

// FindReady is Find for those files whose size and time don't change within so
// many seconds.
func (q Sources) FindReady(ctx context.Context, job *courier.Context, seconds float64) (files []LocalFile, several bool, err error) {
	files, several, err = q.Find(ctx, job)
	if err != nil || len(files) == 0 || seconds == 0 {
		return files, several, err
	}
	look := func(f LocalFile) (LocalIdentity, bool) {
		info, err := job.Files().Stat(f.Local)
		if err != nil {
			return LocalIdentity{}, false
		}
		return Identify(info), true
	}
	before := make(map[string]LocalIdentity)
	for _, f := range files {
		before[f.Local], _ = look(f)
	}
	if err := WaitStable(ctx, job, seconds, q.LocalPath.String()); err != nil {
		return nil, several, err
	}
	var ready []LocalFile
	for _, f := range files {
		if now, ok := look(f); ok && now == before[f.Local] {
			ready = append(ready, f)
		}
	}
	if len(ready) == 0 && !q.IgnoreMissing || len(ready) < len(files) && !several {
		return nil, several, fmt.Errorf("local_path: %s is not ready: it has changed within the %v seconds of stable_seconds", safename.Quote(q.LocalPath.String()), seconds)
	}
	return ready, several, nil
}

// Find finds the files, in order. Several is set if LocalPath is a pattern.
func (q Sources) Find(ctx context.Context, job *courier.Context) (files []LocalFile, several bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("local_path: %w", err)
		}
	}()
	info, err := job.Files().Stat(q.LocalPath.String())
	missing := errors.Is(err, fs.ErrNotExist)
	switch several = q.isPattern(missing); {
	case several:
		if files, err = q.matches(ctx, job); err != nil || len(files) > 0 || q.IgnoreMissing {
			return files, true, err
		}
		return nil, true, courier.Permanent(fmt.Errorf("no file matches %s; if that is not an error, set ignore_missing", safename.Quote(q.LocalPath.String())))
	case missing && q.IgnoreMissing:
		return nil, false, nil
	case missing:
		return nil, false, courier.Permanent(err)
	case err != nil:
		return nil, false, err
	case info.IsDir():
		return nil, false, courier.Permanent(fmt.Errorf("%s is a directory; for the files in it add /*", safename.Quote(q.LocalPath.String())))
	}
	return []LocalFile{{Local: q.LocalPath.String(), Below: path.Base(filepath.ToSlash(q.LocalPath.String())), Size: info.Size()}}, false, nil
}

// isPattern reports whether LocalPath is a pattern. What exists under the very
// name is none, unless Glob says so.
func (q Sources) isPattern(missing bool) bool {
	return glob.Looks(q.LocalPath, q.Glob) && (missing || q.Glob != nil)
}

// Former is Find for cleaning up after an earlier attempt. If the files are gone,
// what they were called is known only if it was one; otherwise there are none.
func (q Sources) Former(ctx context.Context, job *courier.Context) (files []LocalFile, several bool) {
	files, several, err := q.Find(ctx, job)
	if err == nil && len(files) > 0 {
		return files, several
	}
	if q.isPattern(true) {
		return nil, false
	}
	return []LocalFile{{Local: q.LocalPath.String(), Below: path.Base(filepath.ToSlash(q.LocalPath.String()))}}, false
}

// matches lists the regular files that LocalPath stands for as a pattern. Links
// are none.
func (q Sources) matches(ctx context.Context, job *courier.Context) ([]LocalFile, error) {
	pattern := glob.Whole(q.LocalPath, q.Glob)
	if err := globmatch.Check(pattern); err != nil {
		return nil, err
	}
	base, rest := glob.Split(pattern)
	root, rel, err := job.Files().Root(base)
	if err != nil {
		return nil, err
	}
	if info, err := root.Stat(rel); err != nil || !info.IsDir() {
		return nil, IgnoreMissing(err) // it holds nothing that could match
	}
	var files []LocalFile
	paths := 0
	dir := glob.Dir{Root: root, Rel: rel, Name: base}
	err = glob.Walk(ctx, job, dir, glob.Depth(rest), func(below string, typ fs.FileMode) error {
		if !typ.IsRegular() || IsSideFile(path.Base(below)) || !globmatch.Match(rest, below) {
			return nil
		}
		info, err := root.Lstat(filepath.Join(rel, filepath.FromSlash(below)))
		if err == nil && info.Mode().IsRegular() {
			s := LocalFile{Local: path.Join(base, below), Below: below, Size: info.Size()}
			if paths += len(s.Local); paths > MaxListingBytes {
				return courier.Permanent(fmt.Errorf("%s finds files whose paths have more than %d MiB; narrow it", safename.Quote(q.LocalPath.String()), MaxListingBytes>>20))
			}
			files = append(files, s)
		}
		return IgnoreMissing(err)
	})
	slices.SortFunc(files, func(a, b LocalFile) int { return cmp.Compare(a.Below, b.Below) })
	return files, IgnoreMissing(err)
}

// Open opens a file that Find has found. What a pattern has found must still be no
// link, or no step could rely on whose file it is.
func (q Sources) Open(job *courier.Context, local string) (*os.File, error) {
	f, err := job.Files().Open(local)
	if err != nil || local == q.LocalPath.String() {
		return f, err
	}
	root, rel, err := job.Files().Root(local)
	if err == nil {
		var open, now fs.FileInfo
		if open, err = f.Stat(); err == nil {
			now, err = root.Lstat(rel)
		}
		if err == nil && !os.SameFile(open, now) {
			err = fmt.Errorf("%s has become a link since the pattern found it: %w", safename.Quote(local), connerr.ErrChanged)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Targets returns the remote path of each file, for the value of remote_path.
// Stat tells whether there is something with that path, and whether it is a
// directory.
func (q Sources) Targets(files []LocalFile, several bool, remotePath string, stat func() (there, isDir bool, err error)) ([]string, error) {
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
func Directories(base string, files []LocalFile) []string {
	dirs := make(map[string]bool)
	for _, f := range files {
		for dir := path.Dir(f.Below); dir != "."; dir = path.Dir(dir) {
			dirs[Join(base, dir)] = true
		}
	}
	return slices.Sorted(maps.Keys(dirs))
}
