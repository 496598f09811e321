// Package refusals keeps account of the writes of an engine that its store refuses. Each
// is tried again as long as the lease of the execution lasts; meanwhile the list says
// which they are, and the log says it now and then.
package refusals

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/courierhq/courier"
)

const (
	// WarnAgain is how often a write that is refused all the time is logged.
	WarnAgain = 30 * time.Second
	// LeaveAfter is how long an execution whose progress is refused is kept from
	// other workers, where repeating can't cure it: some may have the right that
	// this one lacks.
	LeaveAfter = time.Minute
)

// A Refusal is a write that the store has refused at least once, and has not taken since.
type Refusal struct {
	Execution courier.ExecutionID
	Job       string
	Since     time.Time // of the first one
	Tries     int
	Lasting   bool // repeating the last write is of no use until the cause is removed
	Left      bool // the lease is no longer renewed
	Error     string
}

// A List has the writes of an engine that are refused now. The zero value is an empty
// list. Its methods may be called by several goroutines.
type List struct {
	mu sync.Mutex
	m  map[courier.ExecutionID]*Refusal
}

// All returns the refusals, the oldest first; nil if there are none.
func (l *List) All() []Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []Refusal
	for _, r := range l.m {
		all = append(all, *r)
	}
	slices.SortFunc(all, func(a, b Refusal) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Execution, b.Execution))
	})
	return all
}

// Blocked reports whether the store refuses writes for a reason that will last: what is
// claimed now could not go on.
func (l *List) Blocked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.m {
		if r.Lasting {
			return true
		}
	}
	return false
}

// A Write is one write of the progress of an execution. Its methods are called by one
// goroutine.
type Write struct {
	list       *List
	x          *courier.Execution
	transition int64
	log        *slog.Logger
	warned     time.Time
	lasting    time.Time // since when all refusals are lasting; zero if the last one was not
}

// Begin returns a write of the transition with a number, which has not been refused yet.
func (l *List) Begin(x *courier.Execution, transition int64, log *slog.Logger) Write {
	return Write{list: l, x: x, transition: transition, log: log}
}

// Refused takes note of a refusal with an error. Lasting says that repeating can't cure
// it. Refused reports whether all refusals have been so for LeaveAfter.
func (w *Write) Refused(text string, lasting bool) bool {
	now := time.Now()
	l := w.list
	l.mu.Lock()
	if l.m == nil {
		l.m = make(map[courier.ExecutionID]*Refusal)
	}
	r := l.m[w.x.ID]
	if r == nil {
		r = &Refusal{Execution: w.x.ID, Job: w.x.Job, Since: now}
		l.m[w.x.ID] = r
	}
	r.Tries++
	r.Lasting, r.Error = lasting, text
	since, tries := r.Since, r.Tries
	l.mu.Unlock()
	if w.warned.IsZero() || now.Sub(w.warned) >= WarnAgain {
		w.warned = now
		w.log.LogAttrs(context.Background(), slog.LevelWarn, "the store refuses progress; it is tried again",
			slog.Int64("transition", w.transition), slog.Int("tries", tries), slog.Duration("for", now.Sub(since)), slog.Bool("lasting", lasting), slog.String("error", text))
	}
	switch {
	case !lasting:
		w.lasting = time.Time{}
	case w.lasting.IsZero():
		w.lasting = now
	default:
		return now.Sub(w.lasting) >= LeaveAfter
	}
	return false
}

// Left takes note that the lease is no longer renewed.
func (w *Write) Left(text string) {
	w.list.mu.Lock()
	w.list.m[w.x.ID].Left = true
	w.list.mu.Unlock()
	w.log.LogAttrs(context.Background(), slog.LevelWarn, "the store has refused progress for long; other workers may take the execution over",
		slog.Duration("for", time.Since(w.lasting)), slog.String("error", text))
}

// End takes the write from the list. It reports whether it was there.
func (w *Write) End() bool {
	if w.warned.IsZero() {
		return false
	}
	w.list.mu.Lock()
	delete(w.list.m, w.x.ID)
	w.list.mu.Unlock()
	return true
}
