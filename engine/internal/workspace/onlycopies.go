package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/internal/notefile"
	"github.com/courierhq/courier/store"
)

// How many files a list of only copies names, and how many bytes their paths have.
const (
	mostNames     = 100
	mostNameBytes = 16 << 10
)

// OnlyCopies lists the files of an execution that may be the only copies; nil if there are
// none. What can't be read is a Problem.
func (w Tree) OnlyCopies(id courier.ExecutionID) *courier.OnlyCopies {
	c := new(onlyCopies)
	if err := c.read(w.Of(id)); err != nil {
		c.Problem = err.Error()
	}
	if !c.Any() {
		return nil
	}
	return &c.OnlyCopies
}

// onlyCopies are only copies that are being listed.
type onlyCopies struct {
	courier.OnlyCopies
	names int // bytes of the paths
}

func (c *onlyCopies) add(f courier.File) {
	c.Count++
	c.Bytes += f.Size
	if len(c.Files) < mostNames && c.names+len(f.Path) <= mostNameBytes {
		c.names += len(f.Path)
		c.Files = append(c.Files, f)
	}
}

func (c *onlyCopies) read(dir string) error {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	held, err := notefile.ReadHeld(root)
	if err != nil || len(held) == 0 {
		return err
	}
	if slices.Contains(held, ".") {
		held = []string{"."}
	}
	seen := make(map[string]bool)
	var errs []error
	for _, p := range held {
		errs = append(errs, fs.WalkDir(root.FS(), p, func(p string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil // it went on, or was moved
			case err != nil:
				return err
			case d.IsDir() && (p == notefile.Top || seen[p]):
				return fs.SkipDir
			case seen[p]:
				return nil
			}
			seen[p] = true
			if d.IsDir() {
				return nil
			}
			f := courier.File{Path: p}
			if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
				f.Size = info.Size()
			}
			c.add(f)
			return nil
		}))
	}
	return errors.Join(errs...)
}

// HoldReported holds what an attempt has written to the workspace if it reports to have
// removed the source and has held nothing itself: something outside of the workspace, or a
// file that was held. If it reports only that it removed things, all files may have been
// made of them.
func (w Tree) HoldReported(id courier.ExecutionID, files []courier.File) error {
	if !slices.ContainsFunc(files, func(f courier.File) bool { return f.Removed }) {
		return nil
	}
	root, err := os.OpenRoot(w.Of(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there is nothing to hold
	}
	if err != nil {
		return err
	}
	list, err := notefile.ReadHeld(root)
	if err = errors.Join(err, root.Close()); err != nil {
		return err
	}
	held := make(map[string]bool, len(list))
	for _, p := range list {
		held[p] = true
	}
	if held["."] {
		return nil
	}
	var wrote []string
	consumed, elsewhere := false, false
	for _, f := range files {
		outside := f.Connection != "" || filepath.IsAbs(f.Path)
		switch {
		case f.Removed:
			consumed = consumed || outside || held[f.Path]
		case outside:
			elsewhere = elsewhere || !f.Received
		case !held[f.Path]:
			wrote = append(wrote, f.Path)
		default:
			elsewhere = true // the step has held what it wrote
		}
	}
	job := courier.NewContext(courier.ContextConfig{Workspace: w.Of(id)})
	defer job.Close()
	switch {
	case !consumed:
		return nil
	case len(wrote) > 0:
		return job.Hold(wrote...)
	case elsewhere:
		return nil
	}
	return job.HoldAll()
}

// Skipped reports whether a step of the present attempt of an execution was skipped.
func Skipped(ctx context.Context, archive store.Archive, id courier.ExecutionID, attempt int) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, core.StoreTimeout)
	defer cancel()
	list, err := archive.Steps(ctx, store.StepFilter{Execution: id, Attempt: attempt, States: []courier.StepState{courier.StepSkipped}, Limit: 1})
	return len(list) > 0, err
}

// Kept are the workspaces that stay although their executions are over, as this engine
// has last seen them. The zero value has none. Its methods may be called by several
// goroutines.
type Kept struct {
	mu   sync.Mutex
	list map[courier.ExecutionID]courier.OnlyCopies
}

// Note takes note of the workspace of an execution; c is nil if it is not kept.
func (k *Kept) Note(id courier.ExecutionID, c *courier.OnlyCopies) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.list == nil {
		k.list = make(map[courier.ExecutionID]courier.OnlyCopies)
	}
	if delete(k.list, id); c != nil {
		k.list[id] = *c
	}
}

// Sum returns how many workspaces are kept, and how many files with how many bytes they
// hold.
func (k *Kept) Sum() (executions, files int, bytes int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.list {
		files += c.Count
		bytes += c.Bytes
	}
	return len(k.list), files, bytes
}

// needs says what the janitor does with a workspace that holds only copies, of an execution
// that is over or unknown: whether it stays, and if not, whether its time has run out. One
// of an execution that has completed without skipped steps and failed items is not needed.
func (j *Janitor) needs(ctx context.Context, x *courier.Execution, changed time.Time) (stays, expired bool) {
	if x.State == courier.Completed && x.FailedItems == 0 && x.Workspace == j.ID {
		if skipped, err := Skipped(ctx, j.Archive, x.ID, x.Attempt); err == nil && !skipped {
			return false, false
		}
	}
	since := x.EndedAt
	if since.IsZero() {
		since = changed
	}
	expired = j.KeepOnlyCopies > 0 && time.Since(since) >= j.KeepOnlyCopies
	return !expired, expired
}
