package ftp

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
)

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
			return remote.IgnoreMissing(err)
		}
		final, _, ok := strings.Cut(d.Name(), remote.SideMark)
		if ok && !d.IsDir() && (job.IsSideName(final, d.Name()) || parts && d.Name() == partName(job, final)) {
			errs = append(errs, remote.IgnoreMissing(root.Remove(filepath.FromSlash(p))))
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}
