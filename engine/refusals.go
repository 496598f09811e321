package engine

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
	// warnAgain is how often a write that is refused all the time is logged.
	warnAgain = 30 * time.Second
	// leaveAfter is how long an execution whose progress is refused is kept from
	// other workers, where repeating can't cure it: some may have the right that
	// this one lacks.
	leaveAfter = time.Minute
)

// A RefusedWrite is progress of an execution that the store has refused at least once,
// and has not accepted since. The engine retries the write.
type RefusedWrite struct {
	Execution courier.ExecutionID `json:"execution_id"`
	Job       string              `json:"job"`
	Since     time.Time           `json:"since"` // the first refusal, by the clock of this process
	Tries     int                 `json:"tries"`
	// Lasting says that no retry can succeed until the cause is removed, such as a
	// missing privilege. Until then the engine claims nothing.
	Lasting bool `json:"lasting,omitempty"`
	// Left says that the lease is no longer renewed, so that another worker can take over
	// the execution.
	Left  bool   `json:"left,omitempty"`
	Error string `json:"error"` // of the last refusal, as the store returned it
}

// refusedWrites are the writes of an engine that its store refuses now. Each is tried again as
// long as the lease of the execution lasts; meanwhile the list says which they are, and the
// log says it now and then. The zero value is an empty list. Its methods may be called by
// several goroutines.
type refusedWrites struct {
	mu sync.Mutex
	m  map[courier.ExecutionID]*RefusedWrite
}

// all returns them, the oldest first; nil if there are none.
func (l *refusedWrites) all() []RefusedWrite {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []RefusedWrite
	for _, r := range l.m {
		all = append(all, *r)
	}
	slices.SortFunc(all, func(a, b RefusedWrite) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Execution, b.Execution))
	})
	return all
}

// blocked reports whether the store refuses writes for a reason that will last: what is
// claimed now could not go on.
func (l *refusedWrites) blocked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.m {
		if r.Lasting {
			return true
		}
	}
	return false
}

// A progressWrite is one write of the progress of an execution. Its methods are called by one
// goroutine.
type progressWrite struct {
	list       *refusedWrites
	x          *courier.Execution
	transition int64
	log        *slog.Logger
	warned     time.Time
	lasting    time.Time // since when all refusals are lasting; zero if the last one was not
}

// begin returns a write of the transition with a number, which has not been refused yet.
func (l *refusedWrites) begin(x *courier.Execution, transition int64, log *slog.Logger) progressWrite {
	return progressWrite{list: l, x: x, transition: transition, log: log}
}

// refused takes note of a refusal with an error. Lasting says that repeating can't cure
// it. It reports whether all refusals have been so for leaveAfter.
func (w *progressWrite) refused(text string, lasting bool) bool {
	now := time.Now()
	l := w.list
	l.mu.Lock()
	if l.m == nil {
		l.m = make(map[courier.ExecutionID]*RefusedWrite)
	}
	r := l.m[w.x.ID]
	if r == nil {
		r = &RefusedWrite{Execution: w.x.ID, Job: w.x.Job, Since: now}
		l.m[w.x.ID] = r
	}
	r.Tries++
	r.Lasting, r.Error = lasting, text
	since, tries := r.Since, r.Tries
	l.mu.Unlock()
	if w.warned.IsZero() || now.Sub(w.warned) >= warnAgain {
		w.warned = now
		w.log.LogAttrs(context.Background(), slog.LevelWarn, "the store refuses progress; it will be retried",
			slog.Int64("transition", w.transition), slog.Int("tries", tries), slog.Duration("for", now.Sub(since)), slog.Bool("lasting", lasting), slog.String("error", text))
	}
	switch {
	case !lasting:
		w.lasting = time.Time{}
	case w.lasting.IsZero():
		w.lasting = now
	default:
		return now.Sub(w.lasting) >= leaveAfter
	}
	return false
}

// leave takes note that the lease is no longer renewed.
func (w *progressWrite) leave(text string) {
	w.list.mu.Lock()
	w.list.m[w.x.ID].Left = true
	w.list.mu.Unlock()
	w.log.LogAttrs(context.Background(), slog.LevelWarn, "the store has refused progress for too long; other workers may take over the execution",
		slog.Duration("for", time.Since(w.lasting)), slog.String("error", text))
}

// end takes the write from the list. It reports whether it was there.
func (w *progressWrite) end() bool {
	if w.warned.IsZero() {
		return false
	}
	w.list.mu.Lock()
	delete(w.list.m, w.x.ID)
	w.list.mu.Unlock()
	return true
}
