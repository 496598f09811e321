// Package workspace keeps the directories in which executions have their files: one for
// each execution, in a directory that no other user may write to.
//
// The directory of an attempt is
//
//	<Workspace>/<execution>/[again-<n>/]<step>/[<iteration>/...][from-<n>/]<attempt>/
//
// again-<n> is of attempt n of the execution, after retry_job; from-<n> of a loop that was
// started again. <step> is the index that the step had in the version with which the execution
// began, so that no other step gets its files when an operator changes the version; a step that
// a later version has added is <index>.<n>, where n is the number of the audit entry of that
// change. The directory .notes of the execution outlasts retry_job. Steps note there what they
// are about to take away, and which files are held because they may be the only copies.
//
// A directory is removed when its execution has completed or was cancelled, unless it holds
// files that may exist nowhere else. Directories of executions that are final or unknown are
// removed after 7 days. So engines on different stores need different trees. When the job is
// tried again, the workspace is emptied, but for held files and notes.
//
// A held file is undelivered at a step if it was held on the way to that step, and not in an
// item that is over. When the execution stops there, the worker notes this, and the steps keep
// such a file aside before they put another content in its place. It is delivered when the step
// completes. A worker that lets an execution go writes the held files into the store
// (OnlyCopies); the next claim clears that.
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
	"github.com/courierhq/courier/internal/note"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/store"
)

// A Tree is the directory that holds a directory for each execution.
type Tree struct{ Dir string }

// Of returns the directory of an execution. It need not exist.
func (w Tree) Of(id courier.ExecutionID) string { return filepath.Join(w.Dir, string(id)) }

// open opens the directory of an execution; nil if it isn't there.
func (w Tree) open(id courier.ExecutionID) (*os.Root, error) {
	root, err := os.OpenRoot(w.Of(id))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return root, err
}

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
		err = errors.New("is not a directory")
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
	root, err := w.open(id)
	if root == nil {
		return err
	}
	defer root.Close()
	held, err := note.ReadHeld(root)
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
	for _, p := range append(files, note.Top) {
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

// A Janitor removes the directories of a tree that nobody needs any more.
type Janitor struct {
	Tree
	ID    string // of the tree; see courier.Execution.Workspace
	Store store.Store
	Age   time.Duration // for how long a directory has not changed that is removed
	// KeepOnlyCopies is for how long workspaces with only copies stay after the end of
	// the execution; 0 means for ever.
	KeepOnlyCopies time.Duration
	// Secrets is that of the options of the engine, nil if there is none.
	Secrets func(context.Context, courier.SecretRequest) (string, error)
	Kept    *Kept
	Log     *slog.Logger
}

// sweep removes the directories of executions that are over or unknown, and of processes,
// when they have not changed for the time Age. It leaves those that hold only copies. What
// it can't remove is written to the log.
func (j *Janitor) sweep(ctx context.Context) {
	entries, err := os.ReadDir(j.Dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			j.Log.Warn("sweep workspaces", "error", err)
		}
		return
	}
	for _, d := range entries {
		info, err := d.Info()
		if err != nil || !d.IsDir() {
			continue
		}
		old := time.Since(info.ModTime()) >= j.Age
		if strings.HasPrefix(d.Name(), ProcessPrefix) && old {
			if err := os.RemoveAll(filepath.Join(j.Dir, d.Name())); err != nil {
				j.Log.Warn("sweep workspaces", "directory", d.Name(), "error", err)
			}
			continue
		}
		if !executionDir.MatchString(d.Name()) {
			continue
		}
		id := courier.ExecutionID(d.Name())
		copies := j.OnlyCopies(id)
		if !old && copies == nil {
			continue
		}
		if !j.sweepOne(ctx, id, info.ModTime(), old, copies) {
			return
		}
	}
}

// sweepOne treats the directory of an execution. It reports false if ctx has ended.
func (j *Janitor) sweepOne(ctx context.Context, id courier.ExecutionID, changed time.Time, old bool, copies *courier.OnlyCopies) bool {
	call, cancel := context.WithTimeout(ctx, storecall.Timeout)
	x, err := j.Store.Execution(call, id)
	cancel()
	if ctx.Err() != nil {
		return false
	}
	if !errors.Is(err, courier.ErrNotFound) && (err != nil || !x.State.Final()) {
		return true
	}
	if copies != nil {
		stays, expired := j.needs(ctx, &x, changed)
		if stays {
			j.Kept.Note(id, copies)
			if x.Request == "" {
				j.Found(ctx, &x, copies, "")
			}
			return ctx.Err() == nil
		}
		old = old || expired
	}
	if !old {
		return true
	}
	if err := j.Remove(id); err != nil {
		j.Log.Warn("sweep workspaces", "directory", string(id), "error", err)
		return true
	}
	if copies != nil {
		j.Log.Info("a workspace with only copies was removed", "execution", string(id), "files", copies.Count, "bytes", copies.Bytes)
		j.Kept.Note(id, nil)
		if stays := x.State == courier.Completed && x.OnlyCopies == nil; !stays {
			j.Found(ctx, &x, nil, fmt.Sprintf("%d kept files were removed after the time of KeepOnlyCopies, %v", copies.Count, j.KeepOnlyCopies))
		}
	}
	return true
}

// Missing returns those of an execution's files, in the order given, that are not there
// with their size, each with what is wrong. Files may lie in roots besides.
func (w Tree) Missing(id courier.ExecutionID, roots []string, files []courier.File) []string {
	job := courier.NewContext(courier.ContextConfig{Workspace: w.Of(id), Roots: roots})
	defer job.Close()
	var missing []string
	for _, f := range files {
		switch info, err := job.Files().Stat(f.Path); {
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
