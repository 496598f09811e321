package courier

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/note"
	"github.com/courierhq/courier/internal/strictjson"
)

// NoteDir is the directory for notes about effects that can't be had twice, such as a
// file that the step removes from its place. It has the form of [Context.Dir]. Unlike
// [Context.StepDir] it is the same in all attempts of the execution, so that a step
// can read what it did in an earlier attempt. If an operator starts a loop again, its
// steps get new directories, which later attempts of the execution use too. Without a
// workspace there is no such directory, and NoteDir returns "".
func (c *Context) NoteDir() string {
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

// reported is what a step has reported by [Context.Progress] and [Context.Stage].
type reported struct {
	last  Progress
	items map[string]int64 // the bytes of those under way
}

// Progress reports how far the step is with one item, such as a file: done of total
// bytes; total is -1 if it is not known. Each call keeps the stall timeout from
// firing. The bytes of all items are added up in the step's record, as those that this
// attempt has moved. If an item is reported again after it was complete, or with fewer
// bytes, it counts as started again; see [Context.SetProgress] for what was there before.
// Progress is fast enough to call it for every block.
func (c *Context) Progress(done, total int64, item string) {
	c.mu.Lock()
	r := c.reports()
	before := r.items[item]
	if item == r.last.Item {
		before = r.last.Done
	}
	if done < before {
		before = 0 // the item was started again
	}
	r.items[item] = done
	if done == 0 || total >= 0 && done >= total {
		delete(r.items, item) // not begun, or finished: memory stays bounded
	}
	r.last.Item, r.last.Done, r.last.Total = item, done, total
	r.last.Bytes += done - before
	c.showProgress()
}

// SetProgress reports how far the step is with one item, as [Context.Progress] does, and adds
// nothing to the bytes that the attempt has moved. It is for what was there before a transfer
// goes on, for bytes that are compared, and for items without bytes, such as deletions.
func (c *Context) SetProgress(done, total int64, item string) {
	c.mu.Lock()
	r := c.reports()
	if r.items[item] = done; done == 0 { // otherwise until Progress has finished the item
		delete(r.items, item)
	}
	r.last.Item, r.last.Done, r.last.Total = item, done, total
	c.showProgress()
}

// reports returns what was reported, to be changed. The caller has locked c.
func (c *Context) reports() *reported {
	if c.reported == nil {
		c.reported = &reported{Progress{Total: -1}, make(map[string]int64)}
	}
	return c.reported
}

// showProgress shows the last report. It unlocks c.
func (c *Context) showProgress() {
	p, report := c.reported.last, c.cfg.OnProgress
	if c.closed {
		report = nil
	}
	c.mu.Unlock()
	if report != nil {
		report(p)
	}
}

// Stage says in a word or two what the step is doing, such as "transfer" or "verify". It
// is shown with the progress, and counts as progress for the stall timeout. Of a longer
// name the first 64 bytes are shown.
func (c *Context) Stage(name string) {
	c.mu.Lock()
	c.reports().last.Stage = name
	c.showProgress()
}

// Progress is how far an attempt of a step is, as its last [Context.Progress] and
// [Context.Stage] have said.
type Progress struct {
	Item  string `json:"item,omitempty"`  // the file or the like that was reported last
	Done  int64  `json:"done"`            // bytes of the item
	Total int64  `json:"total"`           // bytes of the item; -1 if not known
	Bytes int64  `json:"bytes"`           // that the attempt has moved, all items
	Stage string `json:"stage,omitempty"` // what the step is doing; empty if it doesn't say
	// ChangedAt is when Item, Done or Bytes last changed, by the store's clock: since then
	// the step moves nothing. It is set in the progress of a running step that a store
	// shows ([StepExecution].Progress), and zero in reports.
	ChangedAt time.Time `json:"changed_at,omitzero"`
}

// Bytes returns the bytes that the attempt has moved, as [Context.Progress] has said so far.
func (c *Context) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reported == nil {
		return 0
	}
	return c.reported.last.Bytes
}

// maxCursor is how many bytes of JSON a cursor may have.
const maxCursor = 4 << 10

// SaveCursor keeps v for the next attempt of the step, in place of what was saved before:
// how far the step is within itself, such as the number of bytes that are safe in a part
// of a file. It is JSON of at most 4 KiB. Nil removes it.
//
// A cursor is written with the next renewal of the lease, so it costs no write of its own,
// and is lost if the worker dies before. So save what is true and stays true: what is not
// on the disk yet, or what a server has not confirmed, must not be in it. The next attempt
// of the step in the same iteration gets it, on any worker, see [Context.Cursor]: after its
// worker was lost or stopped, after a pause or a failure. It is dropped when the step
// completes or is skipped, when the whole job or the loop begins again, and when a resume
// changes something.
func (c *Context) SaveCursor(v any) error {
	var raw json.RawMessage
	if v != nil {
		var err error
		if raw, err = jsontext.Append(nil, v); err != nil {
			return fmt.Errorf("save cursor: %w", err)
		}
	}
	if len(raw) > maxCursor {
		return Permanent(fmt.Errorf("save cursor: it has %d bytes of JSON, more than %d; keep the rest in a file, and its path in the cursor", len(raw), maxCursor))
	}
	if name := c.redact().Find(string(raw)); name != "" {
		return Permanent(fmt.Errorf("save cursor: it contains the secret %q; cursors are stored, so leave it out", name))
	}
	if err := c.tell(ContextReport{Cursor: raw, Saved: true}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.cfg.Cursor = raw
	}
	return nil
}

// Cursor decodes into v, a pointer, what this attempt of the step or the one before it has
// saved by [Context.SaveCursor]. It reports false and leaves v as it is if there is
// nothing, or something that does not fit v, as another version of the program may have
// saved. Cleanup and Rollback see the same cursor: they keep what it points to, unless
// [Context.Cancelled] is true.
func (c *Context) Cursor(v any) bool {
	c.mu.Lock()
	raw := c.cfg.Cursor
	c.mu.Unlock()
	if raw == nil {
		return false
	}
	to := reflect.ValueOf(v).Elem()
	got := reflect.New(to.Type())
	if strictjson.NewDecoder(raw).Decode(got.Interface()) != nil {
		return false
	}
	to.Set(got.Elem())
	return true
}

// A ContextReport is what a step has reported to its Context, or what the Context itself
// has noticed. One of the things in it is set. It can be sent to another process as JSON.
type ContextReport struct {
	Progress *Progress       `json:"progress,omitempty"`
	File     *File           `json:"file,omitempty"`
	Event    *StepEvent      `json:"event,omitempty"`
	Cursor   json.RawMessage `json:"cursor,omitempty"` // of SaveCursor; empty if it was removed
	Saved    bool            `json:"saved,omitempty"`  // SaveCursor was called
	// Secret is the name of one of AddSecret, and Value the secret.
	Secret string `json:"secret,omitempty"`
	Value  []byte `json:"value,omitempty"`
	// Workspace says that the step uses the workspace; see [Context.UsedWorkspace].
	Workspace bool `json:"workspace,omitempty"`
}

// tell passes a report on to another process.
func (c *Context) tell(r ContextReport) error {
	if c.cfg.OnReport == nil {
		return nil
	}
	return c.cfg.OnReport(r)
}

// Take makes a report that a step in another process has made to a Context there. Files
// and progress are taken as they are; for the rest the rules of the methods hold by which
// steps report.
func (c *Context) Take(r ContextReport) error {
	switch {
	case r.Progress != nil:
		c.mu.Lock()
		c.reports().last = *r.Progress
		c.showProgress()
	case r.File != nil && r.File.Connection != "":
		return c.ReportRemote(*r.File)
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

// ExecutionAttempt is the attempt of the execution, from 1: the policy retry_job
// begins the job again with the next one.
func (c *Context) ExecutionAttempt() int { return max(1, c.cfg.ExecutionAttempt) }

// Hold says that the files called names may be the only copies of their content,
// because the step removes the source. If the job begins again, Courier keeps them
// although it empties the workspace. Hold is durable when it returns, so call it
// before you remove the source. Names outside of the workspace are ignored, since
// Courier does not remove those files. A step that replaces files by other means than
// [Context.Create] calls [Context.SetAside] first.
func (c *Context) Hold(names ...string) error {
	var paths []string
	for _, name := range names {
		if p, err := c.Path(name); err != nil {
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

// SetAside is called before the file called name is replaced by the one called by.
// [PendingFile.Commit] calls it; a step that renames files by itself does so too.
//
// It keeps the file if that may be the only copy of its content, and no step has delivered
// it: the file was held (see [Context.Hold]) when the execution stopped at a step, which
// failed, was skipped, or had not begun; that step has not completed since; and the other
// file has other content. The step goes on as if nothing had been there, and the execution
// keeps both: when it ends, the first one is among its kept files. Names outside of the
// workspace are ignored.
//
// Without SetAside, an execution that goes on with the next file under the same name would
// destroy the one that it could not deliver.
func (c *Context) SetAside(name, by string) error {
	p, err := c.Path(name)
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
	other, err := c.Open(by)
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

// HoldMoved is for a file called from that is about to be moved to the name to: it
// calls [Context.SetAside] for what is at to, and [Context.Hold] for to if from lies
// outside of the workspace or was held.
func (c *Context) HoldMoved(from, to string) error {
	if err := c.SetAside(to, from); err != nil {
		return err
	}
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

// HoldAll is [Context.Hold] for all files in the workspace, now and later. Call it
// before you remove for good something that other steps may have read: the files that
// they made of it may be all that is left.
func (c *Context) HoldAll() error {
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

// HoldDeleted calls [Context.HoldAll] if the file called name, which is about to be
// deleted, lies outside of the workspace or was held.
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
	paths, err := c.held()
	return slices.Contains(paths, p) || slices.Contains(paths, "."), err
}

// Produced says that the step has made the thing that subject names, such as a file
// on a server. Files for which [Context.Wrote] is called count as produced. See
// [Context.WasProduced].
func (c *Context) Produced(subject string) error {
	if c.cfg.Workspace == "" || c.ExecutionAttempt() == 1 {
		return nil // nobody will ask
	}
	return addNotes(c, c.producedName(), false, []string{subject})
}

// WasProduced reports whether a step in this attempt of the execution has called
// Produced with subject. It is for a step that has noted in an earlier attempt of the
// execution that it has taken something away, and now finds something in its place.
// If the job has made it again, the step takes it away again; otherwise it comes from
// elsewhere, and the step leaves it. A subject is a path, perhaps after a prefix. A
// directory counts as produced if anything in it was, because steps make missing
// directories. In the first attempt of an execution the result is always false.
func (c *Context) WasProduced(subject string) (bool, error) {
	if c.cfg.Workspace == "" || c.ExecutionAttempt() == 1 {
		return false, nil
	}
	lines, err := readNotes[string](c, c.producedName())
	return slices.ContainsFunc(lines, func(line string) bool {
		rest, ok := strings.CutPrefix(line, subject)
		return ok && (rest == "" || os.IsPathSeparator(rest[0]))
	}), err
}

// Remade is [Context.WasProduced] for the file called name. A file in the workspace
// was always made in this attempt of the execution, unless it was held, because the
// workspace is empty when the attempt begins.
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

// addNotes appends lines to a file below note.Top.
func addNotes[T any](c *Context, name string, durable bool, lines []T) error {
	root, _, err := c.rootOf(note.Top)
	if err != nil {
		return err
	}
	return placed(root, note.AppendLines(root, name, durable, lines))
}

// readNotes returns the lines of a file below note.Top; none if it isn't there.
func readNotes[T any](c *Context, name string) ([]T, error) {
	root, _, err := c.rootOf(note.Top)
	if err != nil {
		return nil, err
	}
	lines, err := note.ReadLines[T](root, name)
	return lines, placed(root, err)
}

// held lists the files that were held.
func (c *Context) held() ([]string, error) {
	root, _, err := c.rootOf(note.Top)
	if err != nil {
		return nil, err
	}
	paths, err := note.ReadHeld(root)
	return paths, placed(root, err)
}

// hold notes down that the step holds files, by their paths in the workspace.
func (c *Context) hold(paths ...string) error {
	var lines []note.HeldFile
	for _, p := range paths {
		lines = append(lines, note.HeldFile{Path: p, Step: c.StepName(), Iteration: c.cfg.Iteration})
	}
	return addNotes(c, note.Held, true, lines)
}
