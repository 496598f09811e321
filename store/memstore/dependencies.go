package memstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// waiting is what is known of executions that wait for those of other jobs.
type waiting struct {
	latest map[string]*execution          // the most recent one of each job
	on     map[string]map[*execution]bool // those that wait for a job
}

// created takes note of a new execution.
func (w *waiting) created(x *execution) {
	if w.latest == nil {
		w.latest = make(map[string]*execution)
	}
	if last := w.latest[x.Job]; last == nil || createdBefore(last, x) {
		w.latest[x.Job] = x
	}
}

func createdBefore(a, b *execution) bool {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID)) < 0
}

// add has x wait for all that it depends on.
func (w *waiting) add(x *execution) {
	if w.on == nil {
		w.on = make(map[string]map[*execution]bool)
	}
	for _, d := range x.waitsFor {
		if w.on[d.Job] == nil {
			w.on[d.Job] = make(map[*execution]bool)
		}
		w.on[d.Job][x] = true
	}
}

// remove has x wait no more.
func (w *waiting) remove(x *execution) {
	for _, d := range x.waitsFor {
		delete(w.on[d.Job], x)
		if len(w.on[d.Job]) == 0 {
			delete(w.on, d.Job)
		}
	}
}

// has reports whether x waits.
func (w *waiting) has(x *execution) bool {
	return len(x.waitsFor) > 0 && w.on[x.waitsFor[0].Job][x]
}

// latestOf returns the most recent execution of a job, and its state.
func (s *Store) latestOf(job string) (courier.ExecutionID, courier.State) {
	if x := s.waiting.latest[job]; x != nil {
		return x.ID, x.State
	}
	return "", ""
}

// waits returns what x waits for.
func (s *Store) waits(x *execution) []courier.UnmetDependency {
	return store.Unmet(x.waitsFor, s.latestOf)
}

// releaseWaiting lets an execution be claimed if all that it depends on is met, and
// reports whether it has.
func (s *Store) releaseWaiting(x *execution, now time.Time) bool {
	if len(s.waits(x)) > 0 {
		return false
	}
	x.waitsFor = nil
	if x.DueAt.Before(now) {
		x.DueAt = now
	}
	return true
}

// awaited lets through what has waited for an execution that has ended.
func (s *Store) awaited(ended *execution, now time.Time) {
	if len(s.waiting.on[ended.Job]) == 0 || s.waiting.latest[ended.Job] != ended {
		return
	}
	for x := range s.waiting.on[ended.Job] {
		if len(s.waits(x)) == 0 {
			s.waiting.remove(x)
			s.enqueue(x, now)
		}
	}
}

// refused returns the error of an execution that is not created since one of its
// dependencies refuses. Beside are those that are created together with it, which
// are more recent than all others.
func (s *Store) refused(n *store.NewExecution, beside []store.NewExecution) error {
	refusing := store.Refusing(n.DependsOn)
	if len(refusing) == 0 {
		return nil
	}
	waits := store.Unmet(refusing, func(job string) (courier.ExecutionID, courier.State) {
		var last *store.NewExecution
		for i := range beside {
			if b := &beside[i]; b.Job == job && (last == nil || last.ID < b.ID) && s.isNew(b) {
				last = b
			}
		}
		if last != nil && last.Hold {
			return last.ID, courier.Created
		}
		if last != nil {
			return last.ID, courier.Queued
		}
		return s.latestOf(job)
	})
	if len(waits) > 0 {
		return &courier.DependencyError{Job: n.Job, Waits: waits}
	}
	return nil
}

// isNew reports whether the execution of n did not exist before the present call.
func (s *Store) isNew(n *store.NewExecution) bool {
	x, existed, err := s.find(n)
	if err != nil {
		return false
	}
	if !existed {
		return true
	}
	_, placed := slices.BinarySearch(s.ids, x.ID)
	return !placed && x.ID == n.ID
}

// dependable returns why a definition can't be saved for what it depends on.
func (s *Store) dependable(d *store.Definition) error {
	upstreams := store.Upstreams(d)
	if len(upstreams) == 0 {
		return nil
	}
	for _, name := range upstreams {
		if s.latest(store.Job, name) == nil && name != d.Name {
			return courier.Errorf(courier.ErrNotFound, "job %q depends on job %q, which does not exist", d.Name, name)
		}
	}
	path := store.Cycle(d.Name, func(name string) []string {
		if name == d.Name {
			return upstreams
		}
		versions := s.definitions[store.Job][name]
		if len(versions) == 0 {
			return nil
		}
		return store.Upstreams(&versions[len(versions)-1])
	})
	if path != nil {
		return &courier.CycleError{Path: path}
	}
	return nil
}
