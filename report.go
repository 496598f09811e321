package courier

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/strictjson"
)

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
	// Log has the last lines that the attempt has logged, at most 1 KiB, as they were at the last
	// renewal of the lease. It is set where ChangedAt is, and empty in reports; the record of the
	// attempt has the log itself.
	Log string `json:"log,omitempty"`
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
// completes or is skipped, when the whole job or the loop begins again, when a resume changes
// something, and when the step was cut off, since it may still be writing.
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
	if err := c.tell(contextReport{Cursor: raw, Saved: true}); err != nil {
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

// Reports is what a step has reported.
type Reports struct {
	Files  []File      // the last report on each path, in the order of the first ones
	Events []StepEvent // of [Context.Emit], in their order
	Bytes  int64       // that the attempt has moved, as [Context.Progress] has said
	// Workspace says that the attempt has used the workspace, so that the execution may have
	// files in it.
	Workspace bool
}

// Reports returns what the step has reported so far. It is for the caller of the step, such
// as a test; the lists are the caller's.
func (c *Context) Reports() Reports {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := Reports{Files: slices.Clone(c.files), Events: slices.Clone(c.events), Workspace: c.usedWork}
	if c.reported != nil {
		r.Bytes = c.reported.last.Bytes
	}
	return r
}
