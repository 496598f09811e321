// Package workspace keeps the directories in which executions have their files: one for
// each execution, in a directory that no other user may write to.
package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/internal/notefile"
	"github.com/courierhq/courier/store"
)

// A Tree is the directory that holds a directory for each execution.
type Tree struct{ Dir string }

// Of returns the directory of an execution. It need not exist.
func (w Tree) Of(id courier.ExecutionID) string { return filepath.Join(w.Dir, string(id)) }

// Ready creates the directory if it isn't there, and refuses one that others can
// write to. It checks each time, since the directory may have been removed or
// repaired.
func (w Tree) Ready() error {
	info, err := os.Stat(w.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(w.Dir, 0o700); err == nil {
			info, err = os.Stat(w.Dir)
		}
	}
	switch {
	case err != nil:
	case !info.IsDir():
		err = errors.New("is no directory")
	default:
		err = private(info)
	}
	if err != nil {
		return fmt.Errorf("workspace %s: %w; choose another in engine.Options.Workspace", w.Dir, err)
	}
	return nil
}

// Remove deletes the directory of an execution.
func (w Tree) Remove(id courier.ExecutionID) error { return os.RemoveAll(w.Of(id)) }

// Empty removes what is in the directory of an execution but for the steps' notes
// and the files that they hold, which may be all.
func (w Tree) Empty(id courier.ExecutionID) error {
	root, err := os.OpenRoot(w.Of(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	held, err := notefile.ReadHeld(root)
	if err != nil {
		return err // nothing is removed: it may be the only copy
	}
	if slices.Contains(held, ".") {
		return nil
	}
	return emptyDir(root, ".", keeping(held))
}

// keeping returns what is kept if files and the notes of steps are: these, and false for
// the directories above them.
func keeping(files []string) map[string]bool {
	keep := make(map[string]bool)
	for _, p := range files {
		for dir := path.Dir(p); dir != "." && dir != "/"; dir = path.Dir(dir) {
			keep[dir] = false
		}
	}
	for _, p := range append(files, notefile.Top) {
		keep[p] = true
	}
	return keep
}

// emptyDir removes what is in a directory below root but for what keep says.
func emptyDir(root *os.Root, dir string, keep map[string]bool) error {
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range entries {
		errs = append(errs, removeBut(root, path.Join(dir, d.Name()), keep))
	}
	return errors.Join(errs...)
}

// removeBut removes a file or a directory below root but for what keep says.
func removeBut(root *os.Root, p string, keep map[string]bool) error {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if keep[dir] {
			return nil
		}
	}
	switch whole, known := keep[p]; {
	case whole:
		return nil
	case known:
		if info, err := root.Lstat(filepath.FromSlash(p)); err == nil && info.IsDir() {
			return emptyDir(root, p, keep)
		}
	}
	return root.RemoveAll(filepath.FromSlash(p))
}

// Size returns the sum of the sizes of the files of an execution.
func (w Tree) Size(id courier.ExecutionID) int64 {
	var sum int64
	filepath.WalkDir(w.Of(id), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil // what can't be read does not count
	})
	return sum
}

// executionDir is how the directory of an execution is called.
var executionDir = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// ProcessPrefix begins the names of the directories of steps in processes of their own,
// which are removed when the step has ended, unless the worker was killed meanwhile.
const ProcessPrefix = "isolated-"

// SweepEvery sweeps now and at an interval, until the engine stops.
func (w Tree) SweepEvery(interval time.Duration, l core.Lifetime, archive store.Archive, age time.Duration, log *slog.Logger) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		w.sweep(l.Ctx, archive, age, log)
		select {
		case <-l.Stop:
			return
		case <-tick.C:
		}
	}
}

// sweep removes the directories of executions that are over or unknown, and of processes,
// when they have not changed for the time age. What it can't remove is written to log.
func (w Tree) sweep(ctx context.Context, archive store.Archive, age time.Duration, log *slog.Logger) {
	entries, err := os.ReadDir(w.Dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			log.Warn("sweep workspaces", "error", err)
		}
		return
	}
	for _, d := range entries {
		info, err := d.Info()
		if err != nil || !d.IsDir() || time.Since(info.ModTime()) < age {
			continue
		}
		if strings.HasPrefix(d.Name(), ProcessPrefix) {
			if err := os.RemoveAll(filepath.Join(w.Dir, d.Name())); err != nil {
				log.Warn("sweep workspaces", "directory", d.Name(), "error", err)
			}
			continue
		}
		if !executionDir.MatchString(d.Name()) {
			continue
		}
		call, cancel := context.WithTimeout(ctx, core.StoreTimeout)
		x, err := archive.Execution(call, courier.ExecutionID(d.Name()))
		cancel()
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, courier.ErrNotFound) && (err != nil || !x.State.Final()) {
			continue
		}
		if err := w.Remove(courier.ExecutionID(d.Name())); err != nil {
			log.Warn("sweep workspaces", "directory", d.Name(), "error", err)
		}
	}
}

// Missing returns those of an execution's files, in the order given, that are not there
// with their size, each with what is wrong. Files may lie in roots besides.
func (w Tree) Missing(id courier.ExecutionID, roots []string, files []courier.File) []string {
	job := courier.NewContext(courier.ContextConfig{Workspace: w.Of(id), Roots: roots})
	defer job.Close()
	var missing []string
	for _, f := range files {
		switch info, err := job.Stat(f.Path); {
		case err != nil:
			missing = append(missing, fmt.Sprintf("%s (%v)", f.Path, plainPathError(err)))
		case info.Mode().IsRegular() && info.Size() != f.Size:
			missing = append(missing, fmt.Sprintf("%s (has %d bytes, was left with %d)", f.Path, info.Size(), f.Size))
		}
	}
	return missing
}

// plainPathError drops operation and path, which the message has already.
func plainPathError(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
