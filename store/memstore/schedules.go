package memstore

import (
	sorted "container/heap"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

var _ schedule.Store = (*Store)(nil)

// schedules are the schedules of a store.
type schedules struct {
	byName   map[string]*record
	due      dueHeap // the schedules that will be due
	revision int64   // the last that was given to a schedule
	changes  uint64
	changed  chan struct{} // closed with the next change
}

// A record is a schedule with its place in the heap. While it is leased, its Due is
// the end of the lease.
type record struct {
	schedule.Record
	index int // in the heap; -1 if it is not there
}

// A dueHeap has the schedule on top that is due first.
type dueHeap []*record

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	if h[i].Due.Equal(h[j].Due) {
		return h[i].Name < h[j].Name
	}
	return h[i].Due.Before(h[j].Due)
}
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *dueHeap) Push(x any) {
	s, _ := x.(*record)
	s.index = len(*h)
	*h = append(*h, s)
}
func (h *dueHeap) Pop() any {
	n := len(*h) - 1
	s := (*h)[n]
	(*h)[n], *h = nil, (*h)[:n]
	s.index = -1
	return s
}

// move puts a schedule where its Due belongs.
func (a *schedules) move(s *record, due time.Time) {
	s.Due = due
	switch {
	case due.IsZero() && s.index >= 0:
		sorted.Remove(&a.due, s.index)
	case due.IsZero():
	case s.index < 0:
		sorted.Push(&a.due, s)
	default:
		sorted.Fix(&a.due, s.index)
	}
}

// revise returns a revision that no schedule has had.
func (a *schedules) revise() int64 {
	a.revision++
	return a.revision
}

// notifyChanged wakes those who wait for changes.
func (a *schedules) notifyChanged() {
	a.changes++
	if a.changed != nil {
		close(a.changed)
		a.changed = nil
	}
}

// PutSchedule creates a schedule or replaces one.
func (s *Store) PutSchedule(ctx context.Context, put schedule.Record) (schedule.Record, error) {
	if err := ctx.Err(); err != nil {
		return schedule.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &s.schedules
	old := a.byName[put.Name]
	switch {
	case old == nil && put.Revision != 0:
		return schedule.Record{}, courier.Errorf(courier.ErrConflict, "schedule %q: it no longer exists", put.Name)
	case old != nil && put.Revision != old.Revision:
		return schedule.Record{}, courier.Errorf(courier.ErrConflict, "schedule %q: somebody else has changed it", put.Name)
	case old == nil:
		old = &record{index: -1}
		if a.byName == nil {
			a.byName = make(map[string]*record)
		}
		a.byName[put.Name] = old
	}
	due := put.Due
	put.Due = old.Due // until it is moved
	old.Record = put
	old.SavedAt = s.clock()
	old.Revision = a.revise()
	cut(&old.Status)
	a.move(old, instant(due))
	a.notifyChanged()
	return old.Record, nil
}

// cut makes instants what the store keeps of them.
func cut(st *schedule.Status) {
	st.Next, st.Last, st.MovesFrom = instant(st.Next), instant(st.Last), instant(st.MovesFrom)
}

func instant(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Microsecond)
}

// RemoveSchedule removes a schedule.
func (s *Store) RemoveSchedule(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.schedules.byName[name]
	if old == nil {
		return courier.Errorf(courier.ErrNotFound, "there is no schedule %q", name)
	}
	s.schedules.move(old, time.Time{})
	delete(s.schedules.byName, name)
	return nil
}

// Schedules returns schedules in the order of their names.
func (s *Store) Schedules(ctx context.Context, f schedule.Filter) (schedule.List, error) {
	if err := ctx.Err(); err != nil {
		return schedule.List{}, err
	}
	if f.Limit <= 0 {
		f.Limit = page
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := schedule.List{Now: s.clock()}
	if f.Name != "" {
		if got := s.schedules.byName[f.Name]; got != nil && f.Match(&got.Record) {
			t.List = append(t.List, got.Record)
		}
		return t, nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.schedules.byName)) {
		if got := s.schedules.byName[name]; len(t.List) < f.Limit && f.Match(&got.Record) {
			t.List = append(t.List, got.Record)
		}
	}
	return t, nil
}

// DueSchedules leases due schedules.
func (s *Store) DueSchedules(ctx context.Context, most int, lease time.Duration) (schedule.DueList, error) {
	if err := ctx.Err(); err != nil {
		return schedule.DueList{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &s.schedules
	d := schedule.DueList{Now: s.clock(), Mark: a.changes}
	var taken []*record
	for len(a.due) > 0 && len(taken) < most && !a.due[0].Due.After(d.Now) {
		got := a.due[0]
		d.List = append(d.List, s.dueSchedule(got))
		taken = append(taken, got)
		a.move(got, time.Time{})
	}
	if len(a.due) > 0 {
		d.Next = max(a.due[0].Due.Sub(d.Now), time.Microsecond)
	}
	for _, got := range taken {
		a.move(got, d.Now.Add(lease))
	}
	return d, nil
}

// dueSchedule returns a schedule with what its engine needs.
func (s *Store) dueSchedule(got *record) schedule.Due {
	due := schedule.Due{Record: got.Record, Outcomes: make(map[courier.ExecutionID]courier.State)}
	if d := s.latest(got.Kind, got.Target); d != nil {
		copied := *d
		due.Definition = &copied
	}
	for _, id := range append(slices.Clip(got.Open), got.LastExecution) {
		if x := s.executions[id]; x != nil && got.Kind == store.Job {
			due.Outcomes[id] = x.State
		}
		if c := s.chains.all[courier.ChainExecutionID(id)]; c != nil && got.Kind == store.Chain {
			due.Outcomes[id] = courier.State(c.Progress.State)
		}
	}
	return due
}

// FireSchedules carries firings out.
func (s *Store) FireSchedules(ctx context.Context, list []schedule.Firing) ([]schedule.Fired, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	results := make([]schedule.Fired, len(list))
	for i := range list {
		f := &list[i]
		got := s.schedules.byName[f.Schedule]
		if got == nil || got.Revision != f.Revision {
			continue
		}
		results[i] = s.fire(got, f, now)
	}
	return results, nil
}

// fire carries out a firing of a schedule that has not changed.
func (s *Store) fire(got *record, f *schedule.Firing, now time.Time) schedule.Fired {
	var fired schedule.Fired
	for i := range f.Executions {
		_, there, err := s.find(&f.Executions[i])
		if err == nil && !there {
			err = s.refused(&f.Executions[i], f.Executions)
		}
		if err != nil {
			return schedule.Fired{Err: err}
		}
	}
	var err error
	if fired.Chains, err = s.fireChains(f.Chains, now); err != nil {
		return schedule.Fired{Err: err}
	}
	state := f.Status
	state.Open = slices.Clone(state.Open)
	for i := range f.Executions {
		n := &f.Executions[i]
		x, existed, _ := s.find(n)
		if !existed {
			x = s.create(n, now)
			s.place(x)
			s.begin(x, now)
		} else if x.ID != n.ID {
			state.Replace(n.ID, x.ID)
		}
		fired.Executions = append(fired.Executions, store.Enqueued{Execution: s.view(x), Existed: existed})
	}
	for i := range fired.Chains {
		state.Replace(courier.ExecutionID(f.Chains[i].ID), courier.ExecutionID(fired.Chains[i].Execution.ID))
	}
	for _, id := range f.Cancel {
		if c := s.chains.all[courier.ChainExecutionID(id)]; got.Kind == store.Chain && c != nil && !c.Progress.State.Ended() && c.Progress.Request != courier.RequestCancel {
			_, _ = s.askChain(c, chain.Request{Chain: c.ID, Kind: courier.RequestCancel, By: f.By}, now)
		}
		if x := s.executions[id]; got.Kind == store.Job && x != nil && !store.Ends(&x.Execution) {
			_ = s.ask(x, store.Request{Execution: id, Kind: courier.RequestCancel, By: f.By}, now)
		}
	}
	due := instant(state.Due)
	if f.After > 0 {
		due = now.Add(f.After.Truncate(time.Microsecond))
	}
	state.Due = got.Due
	got.Status = state
	got.Revision = s.schedules.revise()
	cut(&got.Status)
	s.schedules.move(got, due)
	fired.Done = true
	return fired
}

// fireChains starts chain executions, all or none, but for those whose
// idempotency key is used.
func (s *Store) fireChains(list []chain.NewExecution, now time.Time) ([]chain.Started, error) {
	results := make([]chain.Started, len(list))
	var fresh []chain.NewExecution
	var at []int
	for i := range list {
		if c := s.chains.used[keyOf(list[i].KeyScope, list[i].Chain, list[i].IdempotencyKey)]; c != nil && list[i].IdempotencyKey != "" {
			results[i] = chain.Started{Execution: c.view(), Existed: true}
		} else {
			fresh, at = append(fresh, list[i]), append(at, i)
		}
	}
	started, err := s.startChains(fresh, now)
	for k, i := range at[:len(started)] {
		results[i] = started[k]
	}
	return results, err
}

// AwaitSchedules returns when a schedule was put since a mark.
func (s *Store) AwaitSchedules(ctx context.Context, since uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	a := &s.schedules
	if a.changes > since {
		s.mu.Unlock()
		return nil
	}
	if a.changed == nil {
		a.changed = make(chan struct{})
	}
	changed := a.changed
	s.mu.Unlock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
