package courier

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier/internal/filesync"
	"github.com/courierhq/courier/internal/notefile"
)

// NoteDir is the place for what the step notes down about effects that can't be
// had twice, such as a file that it takes away from where it was, in the form of
// [Context.Dir]. Unlike [Context.StepDir] it is the same in all attempts of the
// execution, so that a step of a new one knows what the former one has done. A loop
// that an operator starts again gives its steps new ones, which the next attempt of
// the execution goes on with. Without a workspace there is no such place, and
// NoteDir is empty.
func (c *Context) NoteDir() string {
	if c.cfg.Workspace == "" {
		return ""
	}
	parts := []string{notefile.Top, strconv.Itoa(c.cfg.Step)}
	for _, i := range c.cfg.Iteration {
		parts = append(parts, strconv.Itoa(i))
	}
	dir := path.Join(parts...)
	if c.cfg.EarlierStarts > 0 {
		return path.Join(dir, restartName(c.ExecutionAttempt(), c.cfg.EarlierStarts+1))
	}
	return path.Join(dir, c.lastRestart(dir))
}

// restartName is the directory of notes of a loop that was started again in an
// attempt of the execution, and whose steps' start numbers begin with first.
func restartName(attempt, first int) string { return fmt.Sprintf("from-%d.%d", attempt, first) }

// lastRestart returns which directory below dir belongs to the last pass of a loop
// that was started again in a former attempt of the execution, or "" if there was
// none.
func (c *Context) lastRestart(dir string) string {
	if c.ExecutionAttempt() == 1 {
		return ""
	}
	root, rel, err := c.rootOf(dir)
	if err != nil {
		return "" // using the notes fails in the same way
	}
	entries, err := fs.ReadDir(root.FS(), filepath.ToSlash(rel))
	if err != nil {
		return ""
	}
	last, lastAttempt, lastFirst := "", 0, 0
	for _, d := range entries {
		var attempt, first int
		if _, err := fmt.Sscanf(d.Name(), "from-%d.%d", &attempt, &first); err != nil || d.Name() != restartName(attempt, first) {
			continue
		}
		newer := attempt > lastAttempt || attempt == lastAttempt && first > lastFirst
		if attempt < c.ExecutionAttempt() && newer {
			last, lastAttempt, lastFirst = d.Name(), attempt, first
		}
	}
	return last
}

// ExecutionAttempt is the attempt of the execution, from 1: the policy retry_job
// begins the job again with the next one.
func (c *Context) ExecutionAttempt() int { return max(1, c.cfg.ExecutionAttempt) }

// Hold says that the files called names may be the only copies of what they
// hold, since the step takes away what they were made from. If the job is begun
// again they stay, although the workspace is emptied. It is durable when Hold
// returns, so it is called before the source goes. Files outside of the workspace
// are not emptied anyhow, and are passed over.
func (c *Context) Hold(names ...string) error {
	var lines []string
	for _, name := range names {
		if p, err := c.Path(name); err != nil {
			return err
		} else if !filepath.IsAbs(p) {
			lines = append(lines, p)
		}
	}
	if c.cfg.Workspace == "" || len(lines) == 0 {
		return nil
	}
	return c.addNotes(notefile.Held, true, lines)
}

// HoldMoved is Hold for a file called to that is about to be made of the one called
// from, which then goes: if from lies outside of the workspace, or was held.
func (c *Context) HoldMoved(from, to string) error {
	p, err := c.Path(from)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(p) {
		if held, err := c.Held(p); err != nil || !held {
			return err
		}
	}
	return c.Hold(to)
}

// HoldAll is Hold for all that the workspace holds, now and later. A step calls it
// before it takes something away for good that other steps may have read: what they
// made of that may be all that is left of it.
func (c *Context) HoldAll() error {
	if c.cfg.Workspace == "" {
		return nil
	}
	lines, err := c.notes(notefile.Held)
	if err != nil || slices.Contains(lines, ".") {
		return err
	}
	return c.addNotes(notefile.Held, true, []string{"."})
}

// HoldDeleted is HoldAll for a file called name that is about to be deleted: if it
// lies outside of the workspace, or was held.
func (c *Context) HoldDeleted(name string) error {
	p, err := c.Path(name)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(p) {
		if held, err := c.Held(p); err != nil || !held {
			return err
		}
	}
	return c.HoldAll()
}

// Held reports whether Hold was called for the file called name, by this step or
// an earlier one.
func (c *Context) Held(name string) (bool, error) {
	p, err := c.Path(name)
	if err != nil || filepath.IsAbs(p) || c.cfg.Workspace == "" {
		return false, err
	}
	lines, err := c.notes(notefile.Held)
	return slices.Contains(lines, p) || slices.Contains(lines, "."), err
}

// Produced says that the step has made what subject names, such as a file on a
// server. What [Context.Wrote] is called for counts as produced. See
// [Context.WasProduced].
func (c *Context) Produced(subject string) error {
	if c.cfg.Workspace == "" || c.ExecutionAttempt() == 1 {
		return nil // nobody will ask
	}
	return c.addNotes(c.producedName(), false, []string{subject})
}

// WasProduced reports whether a step of this attempt of the execution has called
// Produced with subject. A step that has noted down in a former attempt of the
// execution that it has taken something away, and finds something in its place,
// can so tell whether the job has made it again, so that it is to be taken away
// again, or whether it has come from elsewhere, and is another's. A subject is a
// path, perhaps behind a prefix: a directory counts as made if anything in it was,
// for steps make the directories that are missing. In the first attempt of an
// execution the answer is always false.
func (c *Context) WasProduced(subject string) (bool, error) {
	if c.cfg.Workspace == "" || c.ExecutionAttempt() == 1 {
		return false, nil
	}
	lines, err := c.notes(c.producedName())
	return slices.ContainsFunc(lines, func(line string) bool {
		rest, ok := strings.CutPrefix(line, subject)
		return ok && (rest == "" || os.IsPathSeparator(rest[0]))
	}), err
}

// Remade is [Context.WasProduced] for the file called name. A file in the
// workspace was made in this attempt of the execution, for the workspace is empty
// when it begins, unless it was held.
func (c *Context) Remade(name string) (bool, error) {
	p, err := c.Path(name)
	if err != nil || c.cfg.Workspace == "" || c.ExecutionAttempt() == 1 {
		return false, err
	}
	if !filepath.IsAbs(p) {
		return true, nil
	}
	return c.WasProduced(p)
}

func (c *Context) producedName() string { return "produced-" + strconv.Itoa(c.ExecutionAttempt()) }

// addNotes appends lines to a file below notefile.Top.
func (c *Context) addNotes(name string, durable bool, lines []string) error {
	root, rel, err := c.rootOf(path.Join(notefile.Top, name))
	if err != nil {
		return err
	}
	if err := root.MkdirAll(filepath.Dir(rel), 0o700); err != nil {
		return placed(root, err)
	}
	text, err := notefile.Lines(lines)
	if err != nil {
		return err
	}
	f, err := root.OpenFile(rel, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return placed(root, err)
	}
	if _, err = f.Write(text); err == nil && durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil || !durable {
		return err
	}
	return errors.Join(filesync.SyncDir(root, filepath.Dir(rel)), filesync.SyncDir(root, "."))
}

// notes returns the lines of a file below notefile.Top; none if it isn't there.
func (c *Context) notes(name string) ([]string, error) {
	root, rel, err := c.rootOf(path.Join(notefile.Top, name))
	if err != nil {
		return nil, err
	}
	lines, err := notefile.Read(root, rel)
	return lines, placed(root, err)
}
