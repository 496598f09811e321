package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/workspace"
)

// A worker is the part of an engine that runs between Start and Stop.
type worker struct {
	base    context.Context // carries values for the steps
	started time.Time
	stop    chan struct{} // closed by Stop: claim no more, hand over
	once    sync.Once
	ctx     context.Context // ends with stop
	quit    context.CancelFunc
	runs    sync.WaitGroup // executions
	loops   sync.WaitGroup
	done    chan struct{} // closed when all has ended
}

// Start begins to execute queued executions in the background, and returns at once. The contexts
// of steps have the values of ctx. When ctx ends, the engine stops as with [Engine.Stop]. A
// started engine can't be started again before it has stopped. Start returns an error if an
// option is wrong, if no file can be written to Options.Workspace, or if one of Options.Roots
// can't be read. Low disk space is not an error; see Options.MinFree.
func (e *Engine) Start(ctx context.Context) error {
	if e.invalid != nil {
		return fmt.Errorf("start engine: %w", e.invalid)
	}
	if err := errors.Join(e.ready(), e.isolated.Ready(), workspace.CheckRoots(e.opt.Roots)); err != nil {
		return fmt.Errorf("start engine: %w", err)
	}
	if s := e.lowSpace(); s != nil {
		e.log.Warn("little space for workspaces: make room, or steps that write files will fail", "workspace", e.work.Dir, "free_bytes", s.Free, "min_free_bytes", s.MinFree)
	}
	w := &worker{base: context.WithoutCancel(ctx), started: time.Now().UTC(), stop: make(chan struct{}), done: make(chan struct{})}
	w.ctx, w.quit = context.WithCancel(w.base)
	e.mu.Lock()
	if e.worker != nil {
		e.mu.Unlock()
		return fmt.Errorf("start engine: it is started already; stop it first")
	}
	w.loops.Add(12) // before Stop can wait for them
	e.worker = w
	e.mu.Unlock()
	e.wasStarted.Store(true)
	e.unserved.Started()
	marks := make(chan uint64, 1)
	go e.claimLoop(w, marks)
	go e.awaitLoop(w, marks)
	for _, run := range []func(core.Lifetime){e.deliver, e.watch, e.expect, e.fire, e.unserved.Run, e.deadlines.Run, e.maintenance.Run, e.hours.Run, e.sweep} {
		go func() {
			defer w.loops.Done()
			run(core.Lifetime{Base: w.base, Ctx: w.ctx, Stop: w.stop})
		}()
	}
	go func() {
		defer w.loops.Done()
		select {
		case <-ctx.Done():
			go e.stop(context.Background(), w)
		case <-w.stop:
		}
	}()
	return nil
}

// ready makes sure that the engine can keep workspaces.
func (e *Engine) ready() error {
	if err := e.work.Ready(); err != nil {
		return err
	}
	return e.work.Writable()
}

// Stop claims no further executions, waits until the steps in progress have returned, and
// puts their executions back into the queue, where other engines can claim them at once.
// That uses up no attempt. When ctx ends, or after Options.SoftStop, it cancels the
// steps, and waits at most Options.Grace longer, and for a rollback in progress. If the
// store does not answer, Stop retries for four fifths of Options.Lease, and waits 10
// seconds for calls that have begun; other engines then take over the executions when
// their leases end. The error of Stop names the executions whose steps have not returned
// by then; they are handed over nevertheless. On an engine that is not started, Stop does
// nothing. A second Stop waits for the first.
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
			w.loops.Wait()
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
	if ids := e.slots.AllStuck(); len(ids) > 0 {
		return fmt.Errorf("stop engine: steps of these executions ignore the end of their context and are still running, while the executions were handed over: %s", strings.Join(ids, ", "))
	}
	return nil
}

// interruptRuns ends the contexts of the steps that the worker is executing.
func (e *Engine) interruptRuns(w *worker) {
	e.runs.Each(func(r *run) {
		if r.lease.StoppedBy(w.stop) {
			r.lease.Interrupt(courier.ErrStopped)
		}
	})
}

// deliver delivers events to subscribers, until the engine stops.
func (e *Engine) deliver(l core.Lifetime) { e.notifications.Run(l.Ctx) }

// fire fires schedules, until the engine stops.
func (e *Engine) fire(l core.Lifetime) { e.schedules.Run(l.Ctx) }

// watch polls the directories of monitors, until the engine stops.
func (e *Engine) watch(l core.Lifetime) { e.monitors.Run(l.Ctx) }

// expect looks at expectations, until the engine stops.
func (e *Engine) expect(l core.Lifetime) { e.expectations.Run(l.Ctx) }

// sweep removes abandoned workspaces and looks after kept files, until the engine stops.
func (e *Engine) sweep(l core.Lifetime) {
	e.janitor().SweepEvery(l)
}

func (e *Engine) janitor() *workspace.Janitor {
	return &workspace.Janitor{
		Tree: e.work, ID: e.opt.WorkspaceID, Store: e.store, Age: e.opt.Orphans,
		KeepOnlyCopies: e.opt.KeepOnlyCopies, Secrets: e.opt.Secrets, Kept: &e.kept, Log: e.log,
	}
}
