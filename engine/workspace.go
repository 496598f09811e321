package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/internal/notefile"
	"github.com/courierhq/courier/store"
)

// workspaces is the directory that holds a directory for each execution.
type workspaces struct{ dir string }

// of returns the directory of an execution. It need not exist.
func (w *workspaces) of(id courier.ExecutionID) string { return filepath.Join(w.dir, string(id)) }

// ready creates the directory if it isn't there, and refuses one that others can
// write to. It looks each time: somebody may have removed or repaired it.
func (w *workspaces) ready() error {
	info, err := os.Stat(w.dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(w.dir, 0o700); err == nil {
			info, err = os.Stat(w.dir)
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
		return fmt.Errorf("workspace %s: %w; choose another in engine.Options.Workspace", w.dir, err)
	}
	return nil
}

// remove deletes the directory of an execution.
func (w *workspaces) remove(id courier.ExecutionID) error { return os.RemoveAll(w.of(id)) }

// empty removes what is in the directory of an execution but for the steps' notes
// and the files that they hold, which may be all.
func (w *workspaces) empty(id courier.ExecutionID) error {
	root, err := os.OpenRoot(w.of(id))
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
	keep := make(map[string]bool) // files, and false for the directories above them
	for _, p := range held {
		for dir := path.Dir(p); dir != "." && dir != "/"; dir = path.Dir(dir) {
			keep[dir] = false
		}
	}
	for _, p := range append(held, notefile.Top) {
		keep[p] = true
	}
	return emptyDir(root, ".", keep)
}

// emptyDir removes what is in a directory below root but for what keep says.
func emptyDir(root *os.Root, dir string, keep map[string]bool) error {
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range entries {
		p := path.Join(dir, d.Name())
		whole, known := keep[p]
		switch {
		case whole:
		case known && d.IsDir():
			errs = append(errs, emptyDir(root, p, keep))
		default:
			errs = append(errs, root.RemoveAll(filepath.FromSlash(p)))
		}
	}
	return errors.Join(errs...)
}

// size is the sum of the sizes of the files of an execution.
func (w *workspaces) size(id courier.ExecutionID) int64 {
	var sum int64
	filepath.WalkDir(w.of(id), func(_ string, d fs.DirEntry, err error) error {
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

// sweep removes the directories of executions that are over or unknown, when
// they have not changed for a long time.
func (e *Engine) sweep(ctx context.Context) {
	entries, err := os.ReadDir(e.work.dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			e.log.Warn("sweep workspaces", "error", err)
		}
		return
	}
	for _, d := range entries {
		info, err := d.Info()
		if err != nil || !d.IsDir() || !executionDir.MatchString(d.Name()) || time.Since(info.ModTime()) < e.opt.Orphans {
			continue
		}
		call, cancel := context.WithTimeout(ctx, core.StoreTimeout)
		x, err := e.store.Execution(call, courier.ExecutionID(d.Name()))
		cancel()
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, courier.ErrNotFound) && (err != nil || !x.State.Final()) {
			continue
		}
		if err := e.work.remove(courier.ExecutionID(d.Name())); err != nil {
			e.log.Warn("sweep workspaces", "directory", d.Name(), "error", err)
		}
	}
}

// missingFiles returns the files that completed steps of the execution's
// present attempt reported, and that are no longer there with their size.
func (e *Engine) missingFiles(ctx context.Context, x *courier.Execution) ([]string, error) {
	live := make(map[string]int64)
	var order []string
	err := e.eachStep(ctx, x, func(r *courier.StepExecution) {
		for _, f := range r.Files {
			if f.Removed {
				delete(live, f.Path)
			} else if r.State == courier.StepCompleted {
				if _, ok := live[f.Path]; !ok {
					order = append(order, f.Path)
				}
				live[f.Path] = f.Size
			}
		}
	})
	if err != nil {
		return nil, err
	}
	job := courier.NewContext(courier.ContextConfig{Workspace: e.work.of(x.ID), Roots: e.opt.Roots})
	defer job.Close()
	var missing []string
	for _, path := range order {
		size, ok := live[path]
		if !ok {
			continue
		}
		delete(live, path) // it may be in order twice
		switch info, err := job.Stat(path); {
		case err != nil:
			missing = append(missing, fmt.Sprintf("%s (%v)", path, plainPathError(err)))
		case info.Mode().IsRegular() && info.Size() != size:
			missing = append(missing, fmt.Sprintf("%s (has %d bytes, was left with %d)", path, info.Size(), size))
		}
	}
	return missing, nil
}

// eachStep calls f with the records of the execution's present attempt.
func (e *Engine) eachStep(ctx context.Context, x *courier.Execution, f func(*courier.StepExecution)) error {
	return e.eachStepEver(ctx, x, func(s *courier.StepExecution) {
		if s.ExecutionAttempt == x.Attempt {
			f(s)
		}
	})
}

// eachStepEver calls f with all records of the execution.
func (e *Engine) eachStepEver(ctx context.Context, x *courier.Execution, f func(*courier.StepExecution)) error {
	for after := int64(0); ; {
		call, cancel := context.WithTimeout(ctx, core.StoreTimeout)
		page, err := e.store.Steps(call, store.RecordFilter{Execution: x.ID, After: after})
		cancel()
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			after = page[i].Seq
			f(&page[i])
		}
	}
}

// plainPathError drops operation and path, which the message has already.
func plainPathError(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
