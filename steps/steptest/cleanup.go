package steptest

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier/internal/note"
)

// cleanUp does what an engine does before each attempt but the first. It calls Cleanup. For a
// type without Cleanup it removes the files of earlier attempts itself.
func (a *attempt) cleanUp(before *attempt) error {
	if a.w.typ.CleansUp() {
		return a.w.typ.Cleanup(a.ctx, a.job, a.w.config)
	}
	if a.number == 1 {
		return nil
	}
	root, err := os.OpenRoot(a.w.Work)
	if err != nil {
		return err
	}
	defer root.Close()
	held, err := note.ReadKept(root)
	if err != nil || a.w.removed || slices.Contains(held, ".") {
		return err // it may have removed the only copy of what lies there
	}
	keep := append(held, a.w.made...)
	var errs []error
	for _, name := range append(a.earlierDirs(root), before.failedFiles(a)...) {
		errs = append(errs, removeBut(root, name, keep))
	}
	return errors.Join(errs...)
}

// earlierDirs returns the directories of attempts with lower numbers.
func (a *attempt) earlierDirs(root *os.Root) (dirs []string) {
	entries, _ := fs.ReadDir(root.FS(), a.job.Files().StepDir()) // it need not be there
	for _, d := range entries {
		if n, err := strconv.Atoi(d.Name()); err == nil && n > 0 && n < a.number && d.IsDir() {
			dirs = append(dirs, path.Join(a.job.Files().StepDir(), d.Name()))
		}
	}
	return dirs
}

// failedFiles returns the files in the workspace that the attempt reported before it failed, for
// the next attempt. If the attempt was interrupted, or its reply was lost, an engine has no
// reports.
func (a *attempt) failedFiles(next *attempt) (names []string) {
	if a == nil || a.number == next.number || !a.failed() {
		return nil
	}
	for _, f := range a.job.Reports().Files {
		info, err := os.Lstat(a.w.Path(f.Path))
		if err == nil && !info.IsDir() && !filepath.IsAbs(f.Path) && !strings.HasPrefix(f.Path, a.job.Files().StepDir()+"/") {
			names = append(names, f.Path)
		}
	}
	return names
}

// failed reports whether the attempt has returned with an error.
func (a *attempt) failed() bool {
	select {
	case <-a.done:
		return a.err != nil
	default:
		return false
	}
}

// removeBut removes a file or a directory of the workspace, except the paths in keep.
func removeBut(root *os.Root, top string, keep []string) error {
	return fs.WalkDir(root.FS(), top, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || p == ".":
			return err
		case slices.Contains(keep, p):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir() && slices.ContainsFunc(keep, func(k string) bool { return strings.HasPrefix(k, p+"/") }):
			return nil
		}
		if err := root.RemoveAll(filepath.FromSlash(p)); err != nil {
			return err
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}
