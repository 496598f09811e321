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
// bytes. Total is -1 if it is not known. Each call restarts the stall timeout. The step's
// record adds up the bytes of all items as the bytes that this attempt has moved. An item
// that is reported again after it was complete, or with fewer bytes, counts as started
// again. Report bytes that an earlier attempt moved with [Context.SetProgress]. Progress
// is fast enough to be called for every block.
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

// SetProgress reports how far the step is with one item, as [Context.Progress] does, but adds
// nothing to the bytes that the attempt has moved. Use it for the part of a file that was
// there before the transfer continues, for bytes that are only compared, and for items
// without bytes, such as deletions.
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
// is shown with the progress, and restarts the stall timeout. Names longer than 64 bytes
// are cut.
func (c *Context) Stage(name string) {
	c.mu.Lock()
	c.reports().last.Stage = name
	c.showProgress()
}

// Progress is how far an attempt of a step has come, as reported by its last
// [Context.Progress] and [Context.Stage].
type Progress struct {
	Item  string `json:"item,omitempty"`  // the item, such as a file, that was reported last
	Done  int64  `json:"done"`            // bytes of the item
	Total int64  `json:"total"`           // bytes of the item; -1 if not known
	Bytes int64  `json:"bytes"`           // that the attempt has moved, for all items
	Stage string `json:"stage,omitempty"` // what the step is doing; empty if it doesn't say
	// ChangedAt is when Item, Done or Bytes last changed, by the store's clock. It is set
	// in the progress of a running step that a store returns ([StepExecution].Progress),
	// and zero in reports.
	ChangedAt time.Time `json:"changed_at,omitzero"`
	// Log has the last lines of the attempt's log, at most 1 KiB, as of the last renewal of the
	// lease. It is set where ChangedAt is set, and empty in reports. The record of the attempt
	// has the whole log.
	Log string `json:"log,omitempty"`
}

// maxCursor is how many bytes of JSON a cursor may have.
const maxCursor = 4 << 10

// SaveCursor saves v, in place of the previous cursor, for the next attempt of the step. A
// cursor says how far the step has come, such as the number of bytes that are durable in an
// unfinished file. As JSON it has at most 4 KiB. Nil removes the cursor.
//
// A cursor is written with the next renewal of the lease, so it costs no write of its own. It
// is lost if the worker dies before that. Save only what stays true: data that is not on the
// disk yet, or that a server has not confirmed, must not count. The next attempt of the step
// in the same iteration gets the cursor, on any worker, after a lost or stopped worker, a
// pause or a failure; see [Context.Cursor]. The cursor is dropped when the step completes or
// is skipped, when the job or the loop begins again, when a resume changes something, and
// when the step was abandoned because it did not return, since it may still be writing.
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

// Cursor decodes the cursor that this attempt of the step, or the one before it, saved
// with [Context.SaveCursor]. V is a pointer. Cursor reports false and leaves v as it is if
// there is no cursor, or if the cursor does not fit v because another version of the
// program saved it. Cleanup and Rollback see the same cursor. They must keep what it
// points to, unless [Context.Cancelled] is true.
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

// Reports holds everything that a step has reported.
type Reports struct {
	Files  []File      // the last report of each path, in the order of the first reports
	Events []StepEvent // of [Context.Emit], in their order
	Bytes  int64       // that the attempt has moved, by [Context.Progress]
	// Workspace says that the attempt has used the workspace, so that the execution may have
	// files in it.
	Workspace bool
}

// Reports returns what the step has reported so far. It is for the caller of the step, such
// as a test. The caller owns the lists.
func (c *Context) Reports() Reports {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := Reports{Files: slices.Clone(c.files), Events: slices.Clone(c.events), Workspace: c.usedWork}
	if c.reported != nil {
		r.Bytes = c.reported.last.Bytes
	}
	return r
}
