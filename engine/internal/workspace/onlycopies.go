package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/note"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/internal/storecall"
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
	if c.odd > 0 {
		c.problem("names that are not UTF-8: %d", c.odd)
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
	odd   int // names that can't be shown as they are
}

// problem adds one to those of c. It has no names in it, since these may contain secrets.
func (c *onlyCopies) problem(format string, args ...any) {
	c.Problem = strings.TrimPrefix(c.Problem+"; "+fmt.Sprintf(format, args...), "; ")
}

func (c *onlyCopies) add(f courier.File) {
	c.Count++
	c.Bytes += f.Size
	if !utf8.ValidString(f.Path) {
		c.odd++
		return
	}
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
	held, err := note.ReadHeld(root)
	if err != nil || len(held) == 0 {
		return err
	}
	if slices.Contains(held, ".") {
		held = []string{".", path.Join(note.Top, note.Aside)}
	}
	return walkFiles(root, held, c.add)
}

// walkFiles calls f for each file that is one of the paths or lies below one. It does not
// look into the notes of steps unless a path lies there. What can't be read is an error,
// after all the rest.
func walkFiles(root *os.Root, paths []string, f func(courier.File)) error {
	seen := make(map[string]bool)
	var first error
	for _, p := range paths {
		err := fs.WalkDir(root.FS(), p, func(p string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil // it went on, or was moved
			case err != nil:
				return err
			case d.IsDir() && (p == note.Top || seen[p]):
				return fs.SkipDir
			case seen[p]:
				return nil
			}
			seen[p] = true
			if d.IsDir() {
				return nil
			}
			file := courier.File{Path: p}
			if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
				file.Size = info.Size()
			}
			f(file)
			return nil
		})
		if err != nil && first == nil {
			first = fmt.Errorf("not all files could be listed: %w", plainPathError(err))
		}
	}
	return first
}

// HoldReported holds what an attempt has written to the workspace if it reports to have
// removed the source and has held nothing itself: something outside of the workspace, or a
// file that was held. If it reports only that it removed things, all files may have been
// made of them.
func (w Tree) HoldReported(id courier.ExecutionID, step *courier.StepExecution, files []courier.File) error {
	if !slices.ContainsFunc(files, func(f courier.File) bool { return f.Removed }) {
		return nil
	}
	root, err := w.open(id)
	if root == nil {
		return err
	}
	list, err := note.ReadLines[note.HeldFile](root, note.Held)
	if err = errors.Join(err, root.Close()); err != nil {
		return err
	}
	held, own := make(map[string]bool, len(list)), make(map[string]bool)
	name := cmp.Or(step.ID, strconv.Itoa(step.Step))
	for _, f := range list {
		held[f.Path], own[f.Path] = true, f.Step == name && slices.Equal(f.Iteration, step.Iteration)
	}
	var wrote []string
	consumed, elsewhere := false, false
	for _, f := range files {
		outside := f.Connection != "" || filepath.IsAbs(f.Path)
		switch {
		case f.Removed:
			consumed = consumed || outside || held[f.Path] || held["."]
		case outside:
			elsewhere = elsewhere || !f.Received
		case !own[f.Path]:
			wrote = append(wrote, f.Path)
		default:
			elsewhere = true // the step has held what it wrote
		}
	}
	job := courier.NewContext(courier.ContextConfig{Workspace: w.Of(id), Step: step.Step, StepName: step.ID, Iteration: step.Iteration})
	defer job.Close()
	switch {
	case !consumed:
		return nil
	case len(wrote) > 0:
		return stepcontext.Of(job).Hold(wrote...)
	case elsewhere:
		return nil
	}
	return stepcontext.Of(job).HoldAll()
}

// LeftIn is OnlyCopies for a worker that lets the execution go: nil without a workspace, and the
// zero value for one without such files. Used says that the execution has files in it. A name
// that contains a secret, which clean changes, is left out. If clean is nil, the secrets of the
// execution are not known, and all names are.
func (w Tree) LeftIn(id courier.ExecutionID, used bool, clean func(string) string) *courier.OnlyCopies {
	c := w.OnlyCopies(id)
	switch {
	case c == nil && used:
		return new(courier.OnlyCopies)
	case c == nil:
		return nil
	case clean == nil:
		return hide(c, func(string) bool { return true }, "names left out, since secrets of the execution were not asked for again: %d")
	}
	return hide(c, func(name string) bool { return clean(name) != name }, withSecrets)
}

// withSecrets is the problem of names that contain secrets.
const withSecrets = "names with a secret in them: %d"

// hide returns c without the names that are hidden; problem says how many these are.
func hide(c *courier.OnlyCopies, hidden func(name string) bool, problem string) *courier.OnlyCopies {
	shown := onlyCopies{OnlyCopies: *c}
	shown.Files = slices.DeleteFunc(slices.Clone(c.Files), func(f courier.File) bool { return hidden(f.Path) })
	if n := len(c.Files) - len(shown.Files); n > 0 {
		shown.problem(problem, n)
	}
	return &shown.OnlyCopies
}

// Unfinished reports whether an execution that completes leaves only copies with which its
// steps have not done what the author of the job wanted: one was kept aside, a step was
// skipped, or the execution went back and no step has reported them since.
func (w Tree) Unfinished(ctx context.Context, archive store.Archive, x *courier.Execution, ended []courier.StepExecution) bool {
	return w.keptAside(x.ID) || Skipped(ctx, archive, x, ended) || w.LeftEarlier(ctx, archive, x, ended)
}

// Skipped reports whether a step of the present attempt of an execution was skipped, or
// whether that can't be found out. Ended are records that are not in the store yet.
func Skipped(ctx context.Context, archive store.Archive, x *courier.Execution, ended []courier.StepExecution) bool {
	if slices.ContainsFunc(ended, func(s courier.StepExecution) bool { return s.State == courier.StepSkipped }) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, storecall.Timeout)
	defer cancel()
	list, err := archive.Steps(ctx, store.StepFilter{Execution: x.ID, Attempt: x.Attempt, States: []courier.StepState{courier.StepSkipped}, Limit: 1})
	return err != nil || len(list) > 0
}
