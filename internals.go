package courier

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier/internal/inside"
	"github.com/courierhq/courier/internal/note"
	"github.com/courierhq/courier/internal/reference"
)

// internals is the inside.Context of a Context, and the Remote of package stepcontext. Their
// methods are explained there.
type internals struct{ *Context }

func (c *Context) inside() internals { return internals{c} }

type contextReport = inside.Report[Progress, File, StepEvent]

func (c internals) Config() ContextConfig {
	c.mu.Lock()
	defer c.mu.Unlock()
	cfg := c.cfg
	cfg.Redactor = c.redact()
	return cfg
}

func (c internals) Forward(report func(contextReport) error, clean func(text string) string) {
	c.forward, c.clean = report, clean
}

// tell passes a report on to another process.
func (c *Context) tell(r contextReport) error {
	if c.forward == nil {
		return nil
	}
	return c.forward(r)
}

func (c internals) Take(r contextReport) error {
	switch {
	case r.Progress != nil:
		c.mu.Lock()
		c.reports().last = *r.Progress
		c.showProgress()
	case r.File != nil && r.File.Connection != "":
		return c.Files().ReportRemote(*r.File)
	case r.File != nil:
		c.addFile(*r.File)
	case r.Event != nil:
		return c.Emit(r.Event.Name, r.Event.Payload)
	case r.Saved && len(r.Cursor) == 0:
		return c.SaveCursor(nil)
	case r.Saved:
		return c.SaveCursor(r.Cursor)
	case r.Value != nil:
		c.AddSecret(r.Secret, string(r.Value))
	case r.Workspace:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.usedWork = true
	}
	return nil
}

func (c internals) Root(name string) (*os.Root, string, error) { return c.Files().Root(name) }

func (c internals) StepDir() string { return c.Files().StepDir() }

func (c internals) StartNumber() int { return max(0, c.cfg.EarlierStarts) + c.Attempt() }

func (c internals) Snapshot() map[string]any {
	s := c.scope()
	all := make(map[string]any)
	for _, key := range s.Keys() {
		head, name, _ := strings.Cut(key, ".")
		if v, ok := s.Value(head, name); ok {
			all[key] = v
		}
	}
	return all
}

func (c internals) Unlink(name string) error {
	if err := c.before("remove", name); err != nil {
		return err
	}
	return c.Files().unlink(name)
}

func (c internals) Removed(name string) error {
	if err := c.before("report", name); err != nil {
		return err
	}
	return c.report(name, File{Removed: true})
}

func (c internals) NoteDir() string {
	if c.cfg.Workspace == "" {
		return ""
	}
	parts := []string{note.Top, c.StepName()}
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
func (c internals) lastRestart(dir string) string {
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

func (c internals) Hold(names ...string) error {
	var paths []string
	for _, name := range names {
		if p, err := c.Files().Path(name); err != nil {
			return err
		} else if !filepath.IsAbs(p) {
			paths = append(paths, p)
		}
	}
	if c.cfg.Workspace == "" || len(paths) == 0 {
		return nil
	}
	return c.hold(paths...)
}

func (c internals) SetAside(name, by string) error {
	p, err := c.Files().Path(name)
	if err != nil || filepath.IsAbs(p) || c.cfg.Workspace == "" {
		return err
	}
	root, _, err := c.rootOf(name)
	if err != nil {
		return err
	}
	files, err := note.ReadUndelivered(root)
	if err != nil || len(files[p]) == 0 {
		return placed(root, err)
	}
	other, err := c.Files().Open(by)
	if err != nil {
		return err
	}
	defer other.Close()
	aside, err := note.FindAside(root, p, other)
	if err != nil || aside == "" {
		return placed(root, err)
	}
	if err := c.hold(aside); err != nil {
		return err
	}
	if err := note.KeepAside(root, p, aside); err != nil {
		return placed(root, err)
	}
	c.Log().Warn("a file that may be the only copy of its content, and that no step has delivered, was kept aside before another one of its name", "path", p, "aside", aside)
	return nil
}

func (c internals) HoldMoved(from, to string) error {
	if err := c.SetAside(to, from); err != nil {
		return err
	}
	p, err := c.Files().Path(from)
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

func (c internals) HoldAll() error {
	if c.cfg.Workspace == "" {
		return nil
	}
	lines, err := readNotes[note.HeldFile](c, note.Held)
	if err != nil {
		return err
	}
	for _, f := range slices.Backward(lines) {
		if f.Path != "." {
			continue
		}
		if f.Step == c.StepName() && slices.Equal(f.Iteration, c.cfg.Iteration) {
			return nil
		}
		break
	}
	return c.hold(".")
}

func (c internals) HoldDeleted(name string) error {
	p, err := c.Files().Path(name)
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

func (c internals) Held(name string) (bool, error) {
	p, err := c.Files().Path(name)
	if err != nil || filepath.IsAbs(p) || c.cfg.Workspace == "" {
		return false, err
	}
	paths, err := c.held()
	return slices.Contains(paths, p) || slices.Contains(paths, "."), err
}

func (c internals) Produced(subject string) error {
	if c.cfg.Workspace == "" || c.ExecutionAttempt() == 1 {
		return nil // nobody will ask
	}
	return addNotes(c, c.producedName(), false, []string{subject})
}

func (c internals) WasProduced(subject string) (bool, error) {
	if c.cfg.Workspace == "" || c.ExecutionAttempt() == 1 {
		return false, nil
	}
	lines, err := readNotes[string](c, c.producedName())
	return slices.ContainsFunc(lines, func(line string) bool {
		rest, ok := strings.CutPrefix(line, subject)
		return ok && (rest == "" || os.IsPathSeparator(rest[0]))
	}), err
}

func (c internals) Remade(name string) (bool, error) {
	p, err := c.Files().Path(name)
	if err != nil || c.cfg.Workspace == "" || c.ExecutionAttempt() == 1 {
		return false, err
	}
	if !filepath.IsAbs(p) {
		return true, nil
	}
	return c.WasProduced(p)
}

func (c internals) producedName() string { return "produced-" + strconv.Itoa(c.ExecutionAttempt()) }

// addNotes appends lines to a file below note.Top.
func addNotes[T any](c internals, name string, durable bool, lines []T) error {
	root, _, err := c.rootOf(note.Top)
	if err != nil {
		return err
	}
	return placed(root, note.AppendLines(root, name, durable, lines))
}

// readNotes returns the lines of a file below note.Top; none if it isn't there.
func readNotes[T any](c internals, name string) ([]T, error) {
	root, _, err := c.rootOf(note.Top)
	if err != nil {
		return nil, err
	}
	lines, err := note.ReadLines[T](root, name)
	return lines, placed(root, err)
}

// held lists the files that were held.
func (c internals) held() ([]string, error) {
	root, _, err := c.rootOf(note.Top)
	if err != nil {
		return nil, err
	}
	paths, err := note.ReadHeld(root)
	return paths, placed(root, err)
}

// hold notes down that the step holds files, by their paths in the workspace.
func (c internals) hold(paths ...string) error {
	var lines []note.HeldFile
	for _, p := range paths {
		lines = append(lines, note.HeldFile{Path: p, Step: c.StepName(), Iteration: c.cfg.Iteration})
	}
	return addNotes(c, note.Held, true, lines)
}

func (c internals) SideName(base string) string {
	return c.sidePrefix(base) + strconv.Itoa(c.StartNumber())
}

// sidePrefix is what the side files of all attempts of this step begin with.
func (c internals) sidePrefix(base string) string {
	id := string(c.cfg.Execution)
	if id == "" {
		id = "0"
	}
	suffix := fmt.Sprintf("%s-%s-%s", sideMark, id, c.StepName())
	if it := FormatIteration(c.cfg.Iteration); it != "" {
		suffix += "-" + it
	}
	suffix += "-" + strconv.Itoa(max(1, c.cfg.ExecutionAttempt)) + "."
	const attemptDigits = 10
	if most := maxName - len(suffix) - attemptDigits; len(base) > most {
		sum := sha256.Sum256([]byte(base))
		base = strings.ToValidUTF8(base[:most-17], "") + "-" + hex.EncodeToString(sum[:8])
	}
	return base + suffix
}

func (c internals) IsSideName(final, base string) bool {
	n, ok := strings.CutPrefix(base, c.sidePrefix(final))
	return ok && reference.ParseIndex(n) > 0
}
