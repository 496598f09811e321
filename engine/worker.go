package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
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
	busy int            // executions; guarded by Engine.mu
	done chan struct{}  // closed when all has ended
}

// Start begins executing queued executions in the background and returns at
// once. Steps see ctx's values. When ctx ends, the engine stops as if by
// [Engine.Stop]. A started engine can't be started again before it has
// stopped.
func (e *Engine) Start(ctx context.Context) error {
	if err := e.work.ready(); err != nil {
		return fmt.Errorf("start engine: %w", err)
	}
	w := &worker{base: context.WithoutCancel(ctx), stop: make(chan struct{}), done: make(chan struct{})}
	w.ctx, w.quit = context.WithCancel(w.base)
	e.mu.Lock()
	if e.worker != nil {
		e.mu.Unlock()
		return fmt.Errorf("start engine: it is started already; stop it first")
	}
	e.worker = w
	e.mu.Unlock()
	w.rest.Add(4)
	marks := make(chan uint64, 1)
	go e.claimLoop(w, marks)
	go e.awaitLoop(w, marks)
	go e.sweepLoop(w)
	go func() {
		defer w.rest.Done()
		select {
		case <-ctx.Done():
			go e.Stop(context.Background())
		case <-w.stop:
		}
	}()
	return nil
}

// Stop claims no more, waits until the steps in progress have returned, and
// puts their executions back into the queue, where other engines take them up
// at once; no attempt is used up by that. When ctx ends, or after
// Options.SoftStop, it cancels the steps and waits for at most Options.Grace
// longer, and for the store. Its error names the executions whose steps have not
// returned even then; they are handed over all the same. Stop of an engine that is not
// started does nothing; a second Stop waits for the first.
func (e *Engine) Stop(ctx context.Context) error {
	e.mu.Lock()
	w := e.worker
	e.mu.Unlock()
	if w == nil {
		return nil
	}
	w.once.Do(func() {
		close(w.stop)
		w.quit()
		go func() {
			w.rest.Wait()
			w.runs.Wait()
			e.events.flush(maxFlush)
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

// claimLoop claims while there are free slots, and waits when there is nothing.
func (e *Engine) claimLoop(w *worker, marks chan<- uint64) {
	defer w.rest.Done()
	poll := time.NewTimer(0)
	defer poll.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-poll.C:
		case <-e.wake:
		}
		wait := e.opt.Poll
		if free := e.free(w); free > 0 && e.able(w.ctx) {
			next, mark, err := e.claim(w, free)
			switch {
			case err != nil && w.ctx.Err() == nil:
				e.log.Error("claim", "error", err)
			case next == 0:
			default:
				wait = min(wait, next)
			}
			if err == nil {
				select {
				case marks <- mark:
				default: // the last one is being waited for; that wakes us too
				}
			}
		}
		poll.Reset(wait)
	}
}

func (e *Engine) free(w *worker) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.opt.Slots - w.busy - len(e.zombies)
}

// claim takes what it can get and runs it. It returns the time until more may
// be there, 0 if that is not known.
func (e *Engine) claim(w *worker, free int) (next time.Duration, mark uint64, err error) {
	// A stop waits for a claim under way: what it claims is handed over at once.
	ctx, cancel := context.WithTimeout(w.base, storeTimeout)
	defer cancel()
	sent := time.Now()
	got, err := e.store.Claim(ctx, e.claimRequest(free))
	if err != nil {
		return 0, 0, err
	}
	for i := range got.List {
		c := &got.List[i]
		r := e.newRun(w.base, c, sent, w.stop)
		e.mu.Lock()
		w.busy++
		e.mu.Unlock()
		e.hold(r)
		w.runs.Add(1)
		go func() {
			defer w.runs.Done()
			defer e.release(r)
			defer func() {
				e.mu.Lock()
				w.busy--
				e.mu.Unlock()
			}()
			r.drive(c)
		}()
	}
	return got.Next, got.Mark, nil
}

// storeTimeout bounds the calls to the store that no lease bounds.
const storeTimeout = 10 * time.Second

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
		if err := e.store.Await(w.ctx, e.opt.Queues, mark); err != nil {
			if w.ctx.Err() != nil {
				return
			}
			e.log.Warn("await work; polling goes on", "error", err)
			continue // the next mark comes with the next poll
		}
		e.signal()
	}
}

// sweepLoop removes abandoned workspaces, now and every hour.
func (e *Engine) sweepLoop(w *worker) {
	defer w.rest.Done()
	const every = time.Hour
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
			e.sweep(w.ctx)
			tick.Reset(every)
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
