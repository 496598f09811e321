// Package leases renews the leases of the executions that an engine runs. One goroutine
// renews all of them in one call of the store, while there are any. How long a lease can
// be relied on is for each run to watch.
package leases

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/internal/wakeup"
	"github.com/courierhq/courier/store"
)

// A Run is what executes an execution under a lease. Its methods are called by the
// goroutine that renews.
type Run interface {
	// Lease returns the lease for a renewal that is sent at a time, with the progress that
	// the store does not have yet. The store has it when sent is called, which is nil if
	// there is none. A lease that is not to be renewed any more is not ok.
	Lease(at time.Time) (l store.Lease, sent func(), ok bool)
	// Renewed says that the lease was renewed by a call that was sent at a time.
	Renewed(q *store.Renewed, at time.Time)
	// Lost says that the store did not renew the lease: it has ended.
	Lost()
}

// A ComparableRun is a [Run] that a [Set] can tell from another one of the same execution.
type ComparableRun interface {
	comparable
	Run
}

// Options are the settings of a [Set]. All must be set.
type Options struct {
	Store  store.Queue
	Worker string        // who has the leases
	Lease  time.Duration // for which they are renewed, three times in that period
	Log    *slog.Logger
	// Changed has room for one value. It gets one when renewals begin to fail and when they
	// succeed again.
	Changed chan<- struct{}
}

// A Set has the runs of an engine, one for each execution. Its methods may be called by
// several goroutines.
type Set[R ComparableRun] struct {
	opt     Options
	healthy atomic.Bool // the last renewal succeeded

	mu      sync.Mutex
	runs    map[courier.ExecutionID]R
	turns   map[courier.ExecutionID][]*turn[R] // of each execution the runs that are not over, and those behind one
	renewer *renewer                           // while there are runs
}

// A turn is a run and whether it was removed. It has passed when that is so of all before it.
type turn[R any] struct {
	run    R
	over   bool
	passed chan struct{}
}

// A renewer is the goroutine that renews.
type renewer struct {
	stop context.CancelFunc
	done chan struct{}
}

// New returns a set without runs.
func New[R ComparableRun](opt Options) *Set[R] {
	s := &Set[R]{opt: opt, runs: make(map[courier.ExecutionID]R), turns: make(map[courier.ExecutionID][]*turn[R])}
	s.healthy.Store(true)
	return s
}

// Add adds a run, whose lease is renewed from now on, and which takes the place of another
// one of the execution, whose lease is not renewed any more. If earlier runs of it were not
// removed, before is closed when all of them are; otherwise it is nil.
func (s *Set[R]) Add(id courier.ExecutionID, r R) (before <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[id] = r
	list := s.turns[id]
	if n := len(list); n > 0 {
		before = list[n-1].passed
	}
	s.turns[id] = append(list, &turn[R]{run: r, passed: make(chan struct{})})
	if s.renewer == nil {
		ctx, stop := context.WithCancel(context.Background())
		s.renewer = &renewer{stop: stop, done: make(chan struct{})}
		go s.loop(ctx, s.renewer.done)
	}
	return before
}

// Remove removes a run that is over. The caller calls EndIdle afterwards.
func (s *Set[R]) Remove(id courier.ExecutionID, r R) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[id] == r {
		delete(s.runs, id)
	}
	list := s.turns[id]
	for _, t := range list {
		t.over = t.over || t.run == r
	}
	for len(list) > 0 && list[0].over {
		close(list[0].passed)
		list = list[1:]
	}
	if s.turns[id] = list; len(list) == 0 {
		delete(s.turns, id)
	}
}

// EndIdle ends the goroutine that renews if there are no runs, and waits for its end.
func (s *Set[R]) EndIdle() {
	s.mu.Lock()
	var idle *renewer
	if len(s.runs) == 0 {
		idle, s.renewer = s.renewer, nil
	}
	s.mu.Unlock()
	if idle != nil {
		idle.stop()
		<-idle.done
	}
}

// Get returns the run of an execution, and the zero value if there is none.
func (s *Set[R]) Get(id courier.ExecutionID) R {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[id]
}

// Each calls f with every run. It must not call the set.
func (s *Set[R]) Each(f func(R)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		f(r)
	}
}

// Healthy reports whether leases can be renewed, so that the engine may claim: the last
// renewal succeeded. If it failed and there are no runs, nothing is renewed, so Healthy
// asks the store.
func (s *Set[R]) Healthy(ctx context.Context) bool {
	if s.healthy.Load() {
		return true
	}
	s.mu.Lock()
	renews := s.renewer != nil
	s.mu.Unlock()
	if renews {
		return false // its next renewal decides
	}
	ctx, cancel := context.WithTimeout(ctx, storecall.Timeout)
	defer cancel()
	if _, err := s.opt.Store.Renew(ctx, s.request()); err != nil {
		return false
	}
	s.healthy.Store(true)
	return true
}

// request returns a request that renews no lease.
func (s *Set[R]) request() store.RenewRequest {
	return store.RenewRequest{Worker: s.opt.Worker, For: s.opt.Lease}
}

// loop renews until ctx ends. After a failure it tries again sooner.
func (s *Set[R]) loop(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	interval := s.opt.Lease / 3
	wait := time.NewTimer(interval)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		err := s.renew(ctx, interval)
		if ctx.Err() != nil {
			return
		}
		if s.healthy.Swap(err == nil) != (err == nil) {
			if err != nil {
				s.opt.Log.Error("renew leases; nothing is claimed until it succeeds", "error", err)
			}
			wakeup.Send(s.opt.Changed)
		}
		if err != nil {
			wait.Reset(interval / 10)
		} else {
			wait.Reset(interval)
		}
	}
}

// renew renews the leases of all runs once.
func (s *Set[R]) renew(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	runs := s.all()
	at, req, sent := time.Now(), s.request(), make(map[courier.ExecutionID]func())
	for id, r := range runs {
		l, f, ok := r.Lease(at)
		if !ok {
			delete(runs, id)
			continue
		}
		req.Leases = append(req.Leases, l)
		if f != nil {
			sent[id] = f
		}
	}
	if len(runs) == 0 {
		return nil
	}
	got, err := s.opt.Store.Renew(ctx, req)
	if err != nil {
		return err
	}
	for i := range got {
		r, ok := runs[got[i].Execution]
		if !ok {
			continue
		}
		delete(runs, got[i].Execution)
		if f := sent[got[i].Execution]; f != nil {
			f()
		}
		r.Renewed(&got[i], at)
	}
	for _, r := range runs {
		r.Lost()
	}
	return nil
}

// all returns the present runs.
func (s *Set[R]) all() map[courier.ExecutionID]R {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.runs)
}
