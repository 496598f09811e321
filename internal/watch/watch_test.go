package watch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/lockedbuffer"
	"github.com/courierhq/courier/internal/watch"
	"github.com/courierhq/courier/store"
)

// A service has what an engine would answer, and counts the calls that read executions.
type service struct {
	mu        sync.Mutex
	list      map[courier.ExecutionID]courier.Execution
	reads     int
	err       error
	observers []func(courier.Event)
}

func (s *service) List(_ context.Context, f store.Filter) (list []courier.Execution, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	for _, id := range f.IDs {
		if x, ok := s.list[id]; ok {
			list = append(list, x)
		}
	}
	return list, s.err
}

func (s *service) AuditPage(_ context.Context, f store.AuditFilter) (list []courier.AuditEntry, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for seq := f.After + 1; seq <= s.list[f.Execution].Seq && len(list) < f.Limit; seq++ {
		entry := courier.AuditEntry{Execution: f.Execution, Seq: seq, To: "running"}
		if seq == 3 { // the end of a step
			entry.Step, entry.To = new(int), string(courier.StepCompleted)
		}
		list = append(list, entry)
	}
	return list, nil
}

func (s *service) StepsPage(_ context.Context, f store.StepFilter) ([]courier.StepExecution, error) {
	return []courier.StepExecution{{Execution: f.Execution, Seq: 3, Events: []courier.StepEvent{{Name: "weighed"}}}}, nil
}

// observe is the Observe of a source.
func (s *service) observe(f func(courier.Event)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observers = append(s.observers, f)
	i := len(s.observers) - 1
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.observers[i] = nil
	}
}

// tell has those who observe know of an event.
func (s *service) tell(ev courier.Event) {
	s.mu.Lock()
	list := slices.Clone(s.observers)
	s.mu.Unlock()
	for _, f := range list {
		if f != nil {
			f(ev)
		}
	}
}

// set changes the execution "x", or has reads fail.
func (s *service) set(state courier.State, seq int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list, s.err = map[courier.ExecutionID]courier.Execution{"x": {ID: "x", State: state, Seq: seq}}, err
}

// count is how many calls have read since the last count.
func (s *service) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.reads
	s.reads = 0
	return n
}

// in runs f with a service whose execution "x" is queued, in virtual time.
func in(t *testing.T, f func(t *testing.T, s *service, source watch.Source)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &service{}
		s.set(courier.Queued, 1, nil)
		f(t, s, watch.Source{Observe: s.observe, Executions: s})
	})
}

// next returns the next change as text: state, and the entries with their events.
func next(w *watch.Watch, within time.Duration) string {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	c, err := w.Next(ctx)
	if err != nil {
		return err.Error()
	}
	text := string(c.Execution.State)
	for _, e := range c.Audit {
		text += fmt.Sprintf(" %d", e.Seq)
		for _, ev := range e.Events {
			text += " " + ev.Name
		}
	}
	if c.Progress != nil {
		text += fmt.Sprintf(", %d bytes", c.Progress.Bytes)
	}
	return text
}

// Each viewer has the changes from where it was, by one read for all; nothing is read when nobody
// watches any more.
func TestExecutions(t *testing.T) {
	in(t, func(t *testing.T, s *service, source watch.Source) {
		e := watch.NewExecutions(source, slog.New(slog.DiscardHandler))
		left := 0
		var viewers []*watch.Watch
		for i := range 50 {
			w := e.Watch("x", int64(i%2), func() { left++ })
			viewers = append(viewers, w)
			if got, want := next(w, time.Minute), []string{"queued 1", "queued"}[i%2]; got != want {
				t.Errorf("viewer %d: %q, not %q", i, got, want)
			}
		}
		s.count()
		s.set(courier.Running, 3, nil)
		began := time.Now()
		for i, w := range viewers {
			if got := next(w, time.Minute); got != "running 2 3 weighed" {
				t.Errorf("viewer %d: %q", i, got)
			}
		}
		if n, took := s.count(), time.Since(began); n != 1 || took > time.Second {
			t.Errorf("read %d times, after %s", n, took)
		}
		if got := next(viewers[0], time.Minute); !strings.Contains(got, "deadline") {
			t.Errorf("of no change: %q", got)
		}
		for _, w := range viewers {
			w.Close()
			w.Close()
		}
		time.Sleep(time.Second)
		s.count()
		time.Sleep(time.Hour)
		if n := s.count(); n != 0 || left != 50 {
			t.Errorf("read %d times for nobody; %d have left", n, left)
		}
	})
}

// What this engine has changed is read at once, and its progress is told without a read.
func TestEvents(t *testing.T) {
	in(t, func(t *testing.T, s *service, source watch.Source) {
		e := watch.NewExecutions(source, slog.New(slog.DiscardHandler))
		w := e.Watch("x", 0, func() {})
		defer w.Close()
		next(w, time.Minute)
		for _, touch := range []func(){
			func() { s.tell(courier.Event{Type: courier.EventJobStarted, Execution: "x"}) },
			func() { e.Touch("x") },
		} {
			time.Sleep(100 * time.Millisecond)
			s.mu.Lock()
			seq := s.list["x"].Seq + 1
			s.mu.Unlock()
			s.set(courier.Running, seq, nil)
			touch()
			if got, want := next(w, 50*time.Millisecond), fmt.Sprintf("running %d", seq); !strings.HasPrefix(got, want) {
				t.Errorf("%q, not %q", got, want)
			}
		}
		s.count()
		s.tell(courier.Event{Type: courier.EventStepProgress, Execution: "x", Bytes: 7, At: time.Now(), ItemTotal: 9})
		if got := next(w, time.Millisecond); got != "running, 7 bytes" || s.count() != 0 {
			t.Errorf("progress: %q", got)
		}
	})
}

// That the store is out of reach is told after ten seconds, and logged once; that an execution is
// not there at once.
func TestFailures(t *testing.T) {
	in(t, func(t *testing.T, s *service, source watch.Source) {
		log := new(lockedbuffer.Buffer)
		e := watch.NewExecutions(source, slog.New(slog.NewTextHandler(log, nil)))
		w, gone := e.Watch("x", 0, func() {}), e.Watch("gone", 0, func() {})
		defer w.Close()
		if got := next(gone, time.Second); !strings.Contains(got, `there is no execution "gone"`) {
			t.Errorf("one that is not there: %q", got)
		}
		gone.Close()
		next(w, time.Second)
		s.set(courier.Queued, 1, errors.New("the server is down"))
		if got := next(w, 9*time.Second); !strings.Contains(got, "deadline") {
			t.Errorf("before ten seconds: %q", got)
		}
		if got := next(w, 5*time.Second); !strings.Contains(got, "the store could not be read") || !strings.Contains(got, "the server is down") {
			t.Errorf("after them: %q", got)
		}
		if n := strings.Count(log.String(), "could not be read"); n != 1 {
			t.Errorf("logged %d times", n)
		}
		s.set(courier.Running, 2, nil)
		time.Sleep(2 * time.Second)
		if got := next(w, time.Second); got != "running 2" {
			t.Errorf("when it is back: %q", got)
		}
	})
}

// Viewers of the same list share what is read; one whose list becomes another goes over to that.
func TestLists(t *testing.T) {
	in(t, func(t *testing.T, s *service, source watch.Source) {
		l := watch.NewLists(source, slog.New(slog.DiscardHandler))
		left := 0
		var mu sync.Mutex // of the two that follow
		reads := make(map[string]int)
		var err error
		key := "all"
		list := func(context.Context) watch.List {
			key := key
			return watch.List{Key: key, Read: func(context.Context) ([]courier.Execution, error) {
				mu.Lock()
				defer mu.Unlock()
				reads[key]++
				return []courier.Execution{{ID: courier.ExecutionID(fmt.Sprint(key, reads[key]))}}, err
			}}
		}
		fail := func(now error) {
			mu.Lock()
			defer mu.Unlock()
			err = now
		}
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return reads["all"]
		}
		next := func(w *watch.ListWatch, within time.Duration) string {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			items, err := w.Next(ctx)
			if err != nil {
				return err.Error()
			}
			return string(items[0].ID)
		}
		a, b := l.Watch(t.Context(), list, func() { left++ }), l.Watch(t.Context(), list, func() { left++ })
		for _, want := range []string{"all1", "all2"} {
			if x, y := next(a, 3*time.Second), next(b, 3*time.Second); x != want || y != want {
				t.Errorf("%s and %s, not %s", x, y, want)
			}
		}
		time.Sleep(600 * time.Millisecond)
		s.tell(courier.Event{Type: courier.EventJobCompleted, Execution: "x"})
		if got := next(a, time.Millisecond); got != "all3" {
			t.Errorf("after a change: %s", got)
		}
		key = "own"
		if got := next(b, 3*time.Second); got != "own1" {
			t.Errorf("with less to see: %s", got)
		}
		b.Close()
		key = "all"
		fail(fmt.Errorf("too much: %w", watch.ErrBusy))
		if got := next(a, 30*time.Second); !strings.Contains(got, "deadline") {
			t.Errorf("while it may not read: %s", got)
		}
		fail(courier.Errorf(courier.ErrNotFound, "there is no job"))
		if got := next(a, 15*time.Second); got != "there is no job" {
			t.Errorf("of what is not there: %s", got)
		}
		a.Close()
		a.Close()
		time.Sleep(time.Minute)
		n := count()
		time.Sleep(time.Hour)
		if count() != n || left != 2 {
			t.Errorf("read for nobody; %d have left", left)
		}
	})
}
