// Package reports holds what a running attempt of a step has reported until the next
// renewal of the lease takes it to the store.
package reports

import (
	"encoding/json"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/text"
	"github.com/courierhq/courier/store"
)

// How many bytes of the names in a report are kept.
const (
	maxItem  = 256
	maxStage = 64
)

// Reports are those of one attempt. They may be used by several goroutines.
type Reports struct {
	mu      sync.Mutex
	kept    store.Progress // which attempt it is, its last report, and its cursor
	last    courier.Progress
	any     bool      // last is a report
	changed time.Time // when the bytes last changed
	made    int64     // the number of the last report or cursor
	sent    int64     // the last that the store has
}

// Of returns the reports of an attempt that begins with a cursor, which the store has.
func Of(s *courier.StepExecution, cursor json.RawMessage) *Reports {
	return &Reports{kept: store.Progress{Step: s.Step, Iteration: s.Iteration, Attempt: s.Attempt, Cursor: cursor}}
}

// Report takes note of a report. A repetition of the last one changes nothing.
func (r *Reports) Report(p courier.Progress, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.any && p == r.last {
		return
	}
	if before := r.last; !r.any || p.Item != before.Item || p.Done != before.Done || p.Bytes != before.Bytes {
		r.changed = now
	}
	r.last, r.any = p, true
	r.made++
}

// SaveCursor replaces the cursor.
func (r *Reports) SaveCursor(cursor json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept.Cursor = cursor
	r.made++
}

// A Batch is what a renewal of leases sends: for each execution what to do when the store
// has it.
type Batch map[courier.ExecutionID]func()

// Add gives a lease what the store doesn't have yet of r, which may be nil. Clean removes
// secrets from texts.
func (b Batch) Add(l *store.Lease, r *Reports, now time.Time, clean func(string) string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	made, report, reported, n := r.kept, r.last, r.any, r.made
	made.Idle = max(0, now.Sub(r.changed))
	unsent := r.made != r.sent
	r.mu.Unlock()
	if !unsent {
		return
	}
	if reported {
		report.Item, report.Stage = shown(clean(report.Item), maxItem), shown(clean(report.Stage), maxStage)
		made.Report = &report
	} else {
		made.Idle = 0
	}
	l.Progress = &made
	b[l.Execution] = func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sent = n
	}
}

// Sent says that the store has what was added for an execution.
func (b Batch) Sent(id courier.ExecutionID) {
	if sent := b[id]; sent != nil {
		sent()
	}
}

// Kept is what the next attempt may get, when this one is over; nil if there is no cursor.
func (r *Reports) Kept() *store.Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept.Cursor == nil {
		return nil
	}
	kept := r.kept
	return &kept
}

// shown returns text with at most n bytes that is harmless wherever it is shown.
func shown(s string, n int) string {
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) || c == '\u2028' || c == '\u2029' {
			return unicode.ReplacementChar
		}
		return c
	}, s)
	return text.Shorten(s, n)
}

// HandOn returns what a transition hands on of what is kept: to the attempt that it starts,
// or to the next worker, for which the execution waits at the transition's position after so
// many attempts. It is nil wherever another step, another iteration or another attempt of
// the execution follows.
func HandOn(kept *store.Progress, t *store.Transition) *store.Progress {
	switch {
	case t.Start != nil:
		return kept.Next(t.Start)
	case t.RetryJob || t.To == courier.Running || t.To.Final():
		return nil
	}
	return kept.Next(&courier.StepExecution{Step: t.Position.Step, Iteration: t.Position.Iteration(), Attempt: t.Counters.Attempts})
}
