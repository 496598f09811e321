package workspace

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/note"
)

// RemoveAttempts removes what earlier attempts of a step left behind: their directories,
// which are those below stepDir with a number below that of the present attempt, and the
// files that failed, the reports of one of them, names. It keeps notes of steps, files
// that they hold, what lies elsewhere below stepDir or outside of the workspace, and the
// paths that kept returns, "." for all. It calls kept only if there is something to
// remove.
func (w Tree) RemoveAttempts(id courier.ExecutionID, stepDir string, attempt int, failed []courier.File, kept func() ([]string, error)) error {
	root, err := w.open(id)
	if root == nil {
		return err
	}
	defer root.Close()
	var remove []string
	entries, err := fs.ReadDir(root.FS(), stepDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, d := range entries {
		if n, err := strconv.Atoi(d.Name()); err == nil && n > 0 && n < attempt && d.Name() == strconv.Itoa(n) && d.IsDir() {
			remove = append(remove, path.Join(stepDir, d.Name()))
		}
	}
	for _, f := range failed {
		if f.Removed || filepath.IsAbs(f.Path) || strings.HasPrefix(f.Path, stepDir+"/") {
			continue
		}
		if info, err := root.Lstat(filepath.FromSlash(f.Path)); err == nil && !info.IsDir() {
			remove = append(remove, f.Path)
		}
	}
	if len(remove) == 0 {
		return nil
	}
	held, err := note.ReadKept(root)
	if err != nil || slices.Contains(held, ".") {
		return err
	}
	more, err := kept()
	if err != nil || slices.Contains(more, ".") {
		return err // nothing is removed: it may be that of a completed step
	}
	keep := keeping(append(held, more...))
	var errs []error
	for _, p := range remove {
		errs = append(errs, removeBut(root, p, keep))
	}
	return errors.Join(errs...)
}
