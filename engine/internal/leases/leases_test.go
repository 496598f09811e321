package leases_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/leases"
	"github.com/courierhq/courier/store"
)

// queue is a store that notes what is renewed when.
type queue struct {
	store.Queue
	began time.Time

	mu    sync.Mutex
	err   error
	gone  courier.ExecutionID // its lease is not renewed
	calls []call
}

type call struct {
	at  time.Duration
	ids []courier.ExecutionID
}

func (q *queue) Renew(_ context.Context, r store.RenewRequest) (list []store.Renewed, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := call{at: time.Since(q.began)}
	for _, l := range r.Leases {
		c.ids = append(c.ids, l.Execution)
		if l.Execution != q.gone {
			list = append(list, store.Renewed{Execution: l.Execution, Request: courier.RequestPause})
		}
	}
	slices.Sort(c.ids)
	q.calls = append(q.calls, c)
	return list, q.err
}

// set changes what the store answers, and returns the calls so far.
func (q *queue) set(err error, gone courier.ExecutionID) []call {
	q.mu.Lock()
	defer q.mu.Unlock()
	calls := q.calls
	q.err, q.gone, q.calls = err, gone, nil
	return calls
}

// run is a run that counts what it is told.
type run struct {
	id   courier.ExecutionID
	left bool

	mu sync.Mutex
	n  counts
}

type counts struct{ renewed, sent, lost int }

func (r *run) count(n *int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*n++
}

func (r *run) told() counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

func (r *run) Lease(time.Time) (store.Lease, func(), bool) {
	return store.Lease{Execution: r.id}, func() { r.count(&r.n.sent) }, !r.left
}

func (r *run) Renewed(q *store.Renewed, _ time.Time) {
	if q.Request == courier.RequestPause {
		r.count(&r.n.renewed)
	}
}

func (r *run) Lost() { r.count(&r.n.lost) }

// TestSet checks when leases are renewed, and what runs are told.
func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, changed := &queue{began: time.Now()}, make(chan struct{}, 1)
		s := leases.New[*run](leases.Options{Store: q, Worker: "w", Lease: 15 * time.Second, Log: slog.New(slog.DiscardHandler), Changed: changed})
		a, b, left := &run{id: "a"}, &run{id: "b"}, &run{id: "c", left: true}
		for _, r := range []*run{a, b, left} {
			if s.Add(r.id, r) != nil {
				t.Error("it replaces another run")
			}
			defer s.EndIdle()
			defer s.Remove(r.id, r)
		}
		expect := func(when string, calls []call, want ...call) {
			t.Helper()
			if !slices.EqualFunc(calls, want, func(x, y call) bool { return x.at == y.at && slices.Equal(x.ids, y.ids) }) {
				t.Errorf("%s: renewals %v, want %v", when, calls, want)
			}
		}
		ids := func(list ...courier.ExecutionID) []courier.ExecutionID { return list }

		time.Sleep(12 * time.Second)
		expect("at first", q.set(errors.New("away"), ""), call{5 * time.Second, ids("a", "b")}, call{10 * time.Second, ids("a", "b")})
		if a.told() != (counts{renewed: 2, sent: 2}) || left.told() != (counts{}) || !s.Healthy(t.Context()) {
			t.Errorf("after two renewals: %+v, left to others %+v, healthy %v", a.told(), left.told(), s.Healthy(t.Context()))
		}
		time.Sleep(3750 * time.Millisecond) // to 15.75 s
		expect("while it fails", q.set(nil, "b"), call{15 * time.Second, ids("a", "b")}, call{15500 * time.Millisecond, ids("a", "b")})
		if s.Healthy(t.Context()) || len(changed) != 1 || a.told() != (counts{renewed: 2, sent: 2}) {
			t.Errorf("after failures: healthy %v, %d signals, %+v", s.Healthy(t.Context()), len(changed), a.told())
		}
		<-changed
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		if !s.Healthy(t.Context()) || len(changed) != 1 || a.told() != (counts{renewed: 3, sent: 3}) || b.told() != (counts{renewed: 2, sent: 2, lost: 1}) {
			t.Errorf("after a success: healthy %v, %d signals, %+v, lost %+v", s.Healthy(t.Context()), len(changed), a.told(), b.told())
		}
	})
}

// TestReplacedRun checks that the run which was there first can't remove the one that has
// replaced it.
func TestReplacedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leases.New[*run](leases.Options{Store: new(queue), Lease: time.Second, Log: slog.New(slog.DiscardHandler), Changed: make(chan struct{}, 1)})
		first, second := &run{id: "a"}, &run{id: "a"}
		if s.Add("a", first) != nil || s.Add("a", second) == nil {
			t.Error("the second run does not wait for the first one")
		}
		s.Remove("a", first)
		if got := s.Get("a"); got != second {
			t.Errorf("the run is %p, want %p", got, second)
		}
		s.Remove("a", second)
		s.EndIdle()
		if got := s.Get("a"); got != nil {
			t.Errorf("there is still a run, %p", got)
		}
	})
}

// TestRunsInTurn has a third run of an execution wait for the first one, whose step does not
// return, though the second one, which waited too, has lost its lease and is over.
func TestRunsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leases.New[*run](leases.Options{Store: new(queue), Lease: time.Second, Log: slog.New(slog.DiscardHandler), Changed: make(chan struct{}, 1)})
		defer s.EndIdle()
		passed := func(c <-chan struct{}) bool {
			select {
			case <-c:
				return true
			default:
				return false
			}
		}
		runs := []*run{{id: "a"}, {id: "a"}, {id: "a"}, {id: "a"}}
		s.Add("a", runs[0])
		second := s.Add("a", runs[1])
		s.Remove("a", runs[1])
		third := s.Add("a", runs[2])
		if third == nil || passed(second) || passed(third) {
			t.Error("the third run does not wait for the first one")
		}
		s.Remove("a", runs[0])
		if !passed(second) || !passed(third) {
			t.Error("the third run waits, and both before it are over")
		}
		s.Remove("a", runs[2])
		if s.Add("a", runs[3]) != nil {
			t.Error("the fourth run waits for nothing")
		}
		s.Remove("a", runs[3])
	})
}

// TestIdleSet checks that a set without runs asks the store itself whether leases can be
// renewed, and that nothing is renewed after its last run was removed.
func TestIdleSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{began: time.Now(), err: errors.New("away")}
		s := leases.New[*run](leases.Options{Store: q, Lease: 15 * time.Second, Log: slog.New(slog.DiscardHandler), Changed: make(chan struct{}, 1)})
		r := &run{id: "a"}
		s.Add("a", r)
		time.Sleep(6 * time.Second)
		s.Remove("a", r)
		s.EndIdle()
		q.set(q.err, "")
		time.Sleep(time.Hour)
		if calls := q.set(q.err, ""); len(calls) > 0 {
			t.Errorf("without runs %d calls are made", len(calls))
		}
		if s.Healthy(t.Context()) {
			t.Error("it is healthy, while the store is away")
		}
		q.set(nil, "")
		for range 2 {
			if !s.Healthy(t.Context()) {
				t.Error("it is not healthy, and the store is back")
			}
		}
		if calls := q.set(nil, ""); len(calls) != 1 || calls[0].ids != nil {
			t.Errorf("the store was asked %d times, want once for no lease", len(calls))
		}
	})
}
