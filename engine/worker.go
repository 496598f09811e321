package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/store"
)

// A worker is what Start sets going.
type worker struct {
	base context.Context // carries values for the steps
	stop chan struct{}   // closed by Stop: claim no more, hand over
	once sync.Once
	ctx  context.Context // ends with stop
	quit context.CancelFunc
	runs sync.WaitGroup // executions
	rest sync.WaitGroup // the loops
	busy int            // executions that hold a slot; guarded by Engine.mu
	// ending are executions whose steps are over, and the last write is under way.
	// They hold no slot, so that others are claimed meanwhile; guarded by Engine.mu.
	ending int
	done   chan struct{} // closed when all has ended
}

// Start begins executing queued executions in the background and returns at
// once. Steps see ctx's values. When ctx ends, the engine stops as if by
// [Engine.Stop]. A started engine can't be started again before it has
// stopped.
func (e *Engine) Start(ctx context.Context) error {
	if e.unfit != nil {
		return fmt.Errorf("start engine: %w", e.unfit)
	}
	if err := e.work.Ready(); err != nil {
		return fmt.Errorf("start engine: %w", err)
	}
	w := &worker{base: context.WithoutCancel(ctx), stop: make(chan struct{}), done: make(chan struct{})}
	w.ctx, w.quit = context.WithCancel(w.base)
	e.mu.Lock()
	if e.worker != nil {
		e.mu.Unlock()
		return fmt.Errorf("start engine: it is started already; stop it first")
	}
	w.rest.Add(8) // before Stop can wait for them
	e.worker = w
	e.mu.Unlock()
	e.unserved.Started()
	marks := make(chan uint64, 1)
	go e.claimLoop(w, marks)
	go e.awaitLoop(w, marks)
	go e.sweepLoop(w)
	for _, run := range []func(core.Lifetime){e.notifications.Run, e.monitors.Run, e.schedules.Run, e.unserved.Run} {
		go func() {
			defer w.rest.Done()
			run(core.Lifetime{Base: w.base, Ctx: w.ctx, Stop: w.stop})
		}()
	}
	go func() {
		defer w.rest.Done()
		select {
		case <-ctx.Done():
			go e.stop(context.Background(), w)
		case <-w.stop:
		}
	}()
	return nil
}

// Stop claims no more, waits until the steps in progress have returned, and
// puts their executions back into the queue, where other engines take them up
// at once; no attempt is used up by that. When ctx ends, or after
// Options.SoftStop, it cancels the steps and waits for at most Options.Grace
// longer, and for a rollback in progress. A store that does not answer is given
// four fifths of Options.Lease, and calls under way 10 seconds; then the
// executions are left to their leases. Stop's error names the executions whose
// steps have not returned even then; they are handed over all the same. Stop of
// an engine that is not started does nothing; a second Stop waits for the first.
func (e *Engine) Stop(ctx context.Context) error {
	e.mu.Lock()
	w := e.worker
	e.mu.Unlock()
	if w == nil {
		return nil
	}
	return e.stop(ctx, w)
}

func (e *Engine) stop(ctx context.Context, w *worker) error {
	w.once.Do(func() {
		w.quit() // first, so that who sees stop sees the end of ctx too
		close(w.stop)
		go func() {
			w.rest.Wait()
			w.runs.Wait()
			e.observers.Flush(maxFlush)
			e.mu.Lock()
			e.worker = nil
			e.mu.Unlock()
			close(w.done)
		}()
	})
	soft := time.NewTimer(e.opt.SoftStop)
	defer soft.Stop()
	select {
	case <-w.done:
		return e.stuck()
	case <-ctx.Done():
	case <-soft.C:
	}
	e.interruptRuns(w)
	<-w.done
	return e.stuck()
}

// maxFlush is how long a stop waits for observers.
const maxFlush = 5 * time.Second

func (e *Engine) stuck() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.zombies) == 0 {
		return nil
	}
	var ids []string
	for id := range e.zombies {
		ids = append(ids, string(id))
	}
	slices.Sort(ids)
	return fmt.Errorf("stop engine: steps of these executions ignore the end of their context and are still running, while the executions were handed over: %s", strings.Join(ids, ", "))
}

// A claim waits a little for more slots to become free: executions often end
// together, and one claim can replace them all. Where the last one got all that
// it could take, so that more is waiting than there are slots, it waits for as
// long as two claims take, or until a quarter of the slots is free.
const (
	gather     = 50 * time.Microsecond
	mostGather = 5 * time.Millisecond
)

// claimLoop claims while there are free slots, and waits when there is nothing.
func (e *Engine) claimLoop(w *worker, marks chan<- uint64) {
	defer w.rest.Done()
	poll := time.NewTimer(e.opt.Poll)
	defer poll.Stop()
	var slots time.Duration
	for ok := w.ctx.Err() == nil; ok; ok = e.pause(w, poll, slots) {
		wait := e.opt.Poll
		slots = gather
		if free := e.free(w); free > 0 && e.canClaim(w.ctx) {
			begun := time.Now()
			got, err := e.claim(w, free)
			switch {
			case len(got.List) == free:
				slots = min(max(gather, 2*time.Since(begun)), mostGather)
			case got.Watched > 0:
				slots = 0 // there was nothing more, and the store tells of what comes
			}
			if err != nil && w.ctx.Err() == nil {
				e.log.Error("claim", "error", err)
			}
			if err == nil {
				wait = e.until(&got)
				e.notifications.Learn(got.Subscribed)
				e.unserved.Claimed(got.Unclaimed)
				select {
				case marks <- got.Mark:
				default: // the last one is being waited for; that wakes us too
				}
			}
		}
		poll.Reset(wait)
	}
}

// until returns how long to wait for the next claim if nothing is heard before.
func (e *Engine) until(got *store.Claims) time.Duration {
	wait := e.opt.Poll
	if e.trusting {
		wait = max(wait, got.Watched)
	}
	if got.Next > 0 {
		wait = min(wait, got.Next)
	}
	return wait
}

// pause waits until there may be something to claim, and when a slot became free
// a little longer; if slots is 0, one that does is no reason. It reports false
// when the worker stops. What has come meanwhile is covered by the one claim.
func (e *Engine) pause(w *worker, poll *time.Timer, slots time.Duration) bool {
	freed := e.freed
	if slots == 0 {
		freed = nil
	}
	if !core.Taken(e.wake) {
		select {
		case <-w.stop:
		case <-poll.C:
		case <-e.wake:
		case <-freed:
			e.gather(w, poll, slots)
			core.Taken(e.wake)
		}
	}
	core.Taken(e.freed)
	return w.ctx.Err() == nil
}

// gather waits for more slots to become free: a moment, and then until a quarter
// of them is, or the time is over.
func (e *Engine) gather(w *worker, timer *time.Timer, most time.Duration) {
	timer.Reset(gather)
	select {
	case <-w.stop:
		return
	case <-timer.C:
	}
	if most <= gather {
		return
	}
	timer.Reset(most - gather)
	for 4*e.free(w) < e.opt.Slots {
		select {
		case <-w.stop:
			return
		case <-timer.C:
			return
		case <-e.freed:
		}
	}
}

func (e *Engine) free(w *worker) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	// Where writes take long, no more are claimed than can be written.
	free := e.opt.Slots - w.busy - max(0, w.ending-e.opt.Slots)
	for _, n := range e.zombies {
		free -= n
	}
	return free
}

// claim takes what it can get and runs it.
func (e *Engine) claim(w *worker, free int) (store.Claims, error) {
	// A stop waits for a claim under way: what it claims is handed over at once.
	ctx, cancel := context.WithTimeout(w.base, core.StoreTimeout)
	defer cancel()
	sent := time.Now()
	got, err := e.store.Claim(ctx, e.claimRequest(free))
	if err != nil {
		return got, err
	}
	if len(got.List) == 0 {
		return got, nil
	}
	unready := e.work.Ready()
	for i := range got.List {
		c := &got.List[i]
		r := e.newRun(w.base, c, sent, w.stop)
		r.slot, r.unready = e.take(w), unready
		e.track(r)
		w.runs.Add(1)
		go func() {
			defer w.runs.Done()
			defer e.untrack(r)
			defer r.slot.leave()
			r.drive(c)
		}()
	}
	return got, nil
}

// A slot is what an execution of a worker holds while it may execute steps.
type slot struct {
	e      *Engine
	w      *worker
	ending bool
}

// take returns a slot that is held.
func (e *Engine) take(w *worker) *slot {
	e.mu.Lock()
	defer e.mu.Unlock()
	w.busy++
	return &slot{e: e, w: w}
}

// end says whether the steps are over, and only the last write is left. A nil slot
// does nothing: that of an execution which needs none, as with Run.
func (s *slot) end(ending bool) {
	if s == nil {
		return
	}
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if s.ending == ending {
		return
	}
	s.ending = ending
	if ending {
		s.w.busy, s.w.ending = s.w.busy-1, s.w.ending+1
		core.Signal(s.e.freed)
	} else {
		s.w.busy, s.w.ending = s.w.busy+1, s.w.ending-1
	}
}

// leave gives the slot back.
func (s *slot) leave() {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if s.ending {
		s.w.ending--
	} else {
		s.w.busy--
	}
}

func (e *Engine) claimRequest(most int) store.ClaimRequest {
	return store.ClaimRequest{
		Worker: e.opt.Worker, Workspace: e.opt.WorkspaceID, StepTypes: e.reg.Keys(), Queues: e.opt.Queues,
		Max: most, Lease: e.opt.Lease,
	}
}

// awaitLoop waits in the store for news since the last claim, and wakes the
// claim loop.
func (e *Engine) awaitLoop(w *worker, marks <-chan uint64) {
	defer w.rest.Done()
	for {
		var mark uint64
		select {
		case <-w.stop:
			return
		case mark = <-marks:
		}
		if w.ctx.Err() != nil {
			return
		}
		if err := e.store.Await(w.ctx, e.opt.Queues, mark); err != nil {
			if w.ctx.Err() != nil {
				return
			}
			e.log.Warn("await work; polling goes on", "error", err)
			continue // the next mark comes with the next poll
		}
		// The claim that follows has a mark. One of a claim before the news would only
		// have it followed by another.
		core.Taken(marks)
		core.Signal(e.wake)
	}
}

// sweepLoop removes abandoned workspaces, now and every hour.
func (e *Engine) sweepLoop(w *worker) {
	defer w.rest.Done()
	const every = time.Hour
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		e.work.Sweep(w.ctx, e.store, e.opt.Orphans, e.log)
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
	}
}

// interruptRuns ends the contexts of the steps that the worker is executing.
func (e *Engine) interruptRuns(w *worker) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.runs {
		if r.stop == w.stop {
			r.interrupt(courier.ErrStopped)
		}
	}
}
