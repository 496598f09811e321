package ftp

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
)

// isLocalDirectory reports whether a file is meant to go into p.
func isLocalDirectory(job *courier.Context, p string) bool {
	if os.IsPathSeparator(p[len(p)-1]) {
		return true
	}
	info, err := job.Stat(p)
	return err == nil && info.IsDir()
}

func joinLocal(dir, name string) string { return path.Join(filepath.ToSlash(dir), name) }

// localKey is equal for names that are the same file on this system.
func localKey(name string) string {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		return strings.ToLower(name)
	}
	return name
}

// cleanAttempts cleans the directories of all attempts so far.
func cleanAttempts(job *courier.Context) error {
	dir := job.Dir()
	if dir == "." {
		return cleanDirectory(job, dir, true)
	}
	var errs []error
	for n := job.Attempt(); n >= 1; n-- {
		errs = append(errs, cleanDirectory(job, path.Join(path.Dir(dir), strconv.Itoa(n)), true))
	}
	return errors.Join(errs...)
}

// cleanDirectory removes the side files of this step from a local directory and
// those below it; with parts, also those that are kept for the next attempt.
func cleanDirectory(job *courier.Context, dir string, parts bool) error {
	root, rel, err := job.Root(dir)
	if err != nil {
		return err
	}
	var errs []error
	err = fs.WalkDir(root.FS(), filepath.ToSlash(filepath.Clean(rel)), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return ignoreMissing(err)
		}
		final, _, ok := strings.Cut(d.Name(), sideMark)
		if ok && !d.IsDir() && (job.IsSideName(final, d.Name()) || parts && d.Name() == partName(job, final)) {
			errs = append(errs, ignoreMissing(root.Remove(filepath.FromSlash(p))))
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}
