// Package reports holds what a running attempt of a step has reported until the next
// renewal of the lease takes it to the store.
package reports

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/store"
)

// How many bytes of the names in a report are kept, and of the log.
const (
	maxItem  = 256
	maxStage = 64
	maxLog   = 1 << 10
)

// Reports are those of one attempt. They may be used by several goroutines. An attempt
// that reports nothing and has no cursor costs no memory.
type Reports struct {
	mu    sync.Mutex
	*made // nil until there is something
}

type made struct {
	last    courier.Progress
	number  int64           // of the last report
	changed time.Time       // when the bytes last changed
	sent    int64           // the number of the last report that the store has
	logged  int64           // how many lines were logged when the store got the last ones
	cursor  json.RawMessage // that the store has
}

// Begin says that the attempt begins with a cursor, which the store has; nil for none.
func (r *Reports) Begin(cursor json.RawMessage) {
	if cursor != nil {
		r.made = &made{cursor: cursor}
	}
}

// Report takes note of a report. A repetition of the last one changes nothing.
func (r *Reports) Report(p courier.Progress, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made == nil {
		r.made = new(made)
	}
	first, before := r.number == 0, r.last
	if !first && p == before {
		return
	}
	if first || p.Item != before.Item || p.Done != before.Done || p.Bytes != before.Bytes {
		r.changed = now
	}
	r.last = p
	r.number++
}

// A Log is the log of an attempt.
type Log interface {
	// Recent returns the last lines, of at most so many bytes, and how many lines there were in all.
	Recent(most int) (text string, lines int64)
}

// Add gives a lease what the store doesn't have yet of the reports of an attempt, of its log, and
// its cursor. The store has it when sent is called; sent is nil if there is nothing. Clean
// removes secrets from texts.
func (r *Reports) Add(l *store.Lease, job *courier.Context, log Log, now time.Time, clean func(string) string) (sent func()) {
	var cursor json.RawMessage
	job.Cursor(&cursor)
	text, lines := log.Recent(maxLog)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made == nil && cursor == nil && lines == 0 {
		return nil
	}
	if r.made == nil {
		r.made = new(made)
	}
	m, number := r.made, r.number
	if number == m.sent && lines == m.logged && bytes.Equal(cursor, m.cursor) {
		return nil
	}
	l.Progress = progress(job, cursor)
	if number > 0 || lines > 0 {
		if m.changed.IsZero() {
			m.changed, m.last.Total = now, -1 // it has reported nothing
		}
		report := m.last
		report.Item, report.Stage, report.Log = shown(clean(report.Item), maxItem), shown(clean(report.Stage), maxStage), clean(text)
		l.Progress.Report, l.Progress.Idle = &report, max(0, now.Sub(m.changed))
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		m.sent, m.logged, m.cursor = number, lines, cursor
	}
}

// progress is that of an attempt without reports.
func progress(job *courier.Context, cursor json.RawMessage) *store.Progress {
	return &store.Progress{Step: job.Step(), Iteration: job.Iteration(), Attempt: job.Attempt(), Cursor: cursor}
}

// Kept is what the next attempt may get, when this one is over; nil if there is no cursor.
// The cursor is read into buf, which is empty.
func Kept(job *courier.Context, buf *json.RawMessage) *store.Progress {
	if !job.Cursor(buf) {
		return nil
	}
	return progress(job, *buf)
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
