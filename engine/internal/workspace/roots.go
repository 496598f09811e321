package workspace

import (
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/courierhq/courier/internal/transfer"
)

// CheckRoots returns what is wrong with the directories that steps may use besides the
// workspace: each must be there, and readable. Whether steps may write to one depends on the
// job, so that is not tried.
func CheckRoots(roots []string) error {
	var errs []error
	for i, root := range roots {
		if err := checkRoot(root); err != nil {
			errs = append(errs, fmt.Errorf("engine.Options.Roots[%d], %s: %w; make the directory before the engine starts, or leave it out", i, root, err))
		}
	}
	return errors.Join(errs...)
}

func checkRoot(root string) error {
	info, err := os.Stat(root)
	if err != nil {
		return plainPathError(err)
	}
	if !info.IsDir() {
		return errors.New("is not a directory")
	}
	d, err := os.Open(root)
	if err != nil {
		return plainPathError(err)
	}
	return d.Close()
}

// Free returns how many bytes this process may still write to the disk that holds the
// workspaces. Ok is false where that can't be told.
func (w Tree) Free() (bytes int64, ok bool) {
	root, err := os.OpenRoot(w.Dir)
	if err != nil {
		return 0, false
	}
	defer root.Close()
	free, ok := transfer.Room(root, ".")
	return int64(min(free, math.MaxInt64)), ok
}

// Writable makes sure that files can be written to the directory that holds the workspaces.
func (w Tree) Writable() error {
	f, err := os.CreateTemp(w.Dir, "check-")
	if err != nil {
		return fmt.Errorf("workspace %s: no file can be created there: %w; choose another in engine.Options.Workspace, or give the user of this process the right to write there", w.Dir, plainPathError(err))
	}
	_, err = f.Write([]byte("x"))
	if err = errors.Join(err, f.Close(), os.Remove(f.Name())); err != nil {
		return fmt.Errorf("workspace %s: no file can be written there: %w; make room, or choose another in engine.Options.Workspace", w.Dir, plainPathError(err))
	}
	return nil
}
