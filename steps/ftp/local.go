package ftp

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
)

// cleanAttempts cleans the directories of all attempts so far. It keeps what the
// next attempt goes on with, unless the execution is cancelled.
func cleanAttempts(job *courier.Context) error {
	dir := job.Dir()
	if dir == "." {
		return cleanDirectory(job, dir, job.Cancelled())
	}
	var errs []error
	for n := job.Attempt(); n >= 1; n-- {
		errs = append(errs, cleanDirectory(job, path.Join(path.Dir(dir), strconv.Itoa(n)), job.Cancelled()))
	}
	return errors.Join(errs...)
}

// cleanDirectory removes the side files of this step from a local directory and
// those below it; with parts, also those that are kept for the next attempt.
func cleanDirectory(job *courier.Context, dir string, parts bool) error {
	return remote.EachBelow(job, dir, func(root *os.Root, rel string) error {
		name := filepath.Base(rel)
		final, _, ok := strings.Cut(name, remote.SideMark)
		if ok && (job.IsSideName(final, name) || parts && name == partName(job, final)) {
			return remote.IgnoreMissing(root.Remove(rel))
		}
		return nil
	})
}
