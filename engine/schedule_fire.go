package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/store"
)

// What governs the firing of schedules.
const (
	// lookAgain is the longest time between two looks at the schedules.
	lookAgain = 30 * time.Second
	// dueLease is how long others leave due schedules to this engine.
	dueLease = 10 * time.Second
	dueBatch = 1000
	// afterProblem is when a schedule is looked at again that can't be fired.
	afterProblem = time.Minute
)

// firing is how many goroutines fire schedules.
const firing = 3

// startFiring sets going what fires schedules.
func (e *Engine) startFiring(w *worker, a store.Schedules) {
	marks, changed, more := make(chan uint64, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	go e.fireLoop(w, a, marks, changed, more)
	go e.changeLoop(w, a, marks, changed)
	go e.helpLoop(w, a, changed, more)
}

// fireLoop fires schedules when they are due.
func (e *Engine) fireLoop(w *worker, a store.Schedules, marks chan<- uint64, changed <-chan struct{}, more chan<- struct{}) {
	defer w.rest.Done()
	timer := time.NewTimer(lookAgain)
	defer timer.Stop()
	for w.ctx.Err() == nil {
		wait := lookAgain
		d, err := e.fireDue(w, a) // whose Next is counted from when it returns
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return
		case err != nil && w.ctx.Err() == nil:
			e.log.Error("fire schedules", "error", err)
			wait = e.opt.Poll
		case err == nil:
			if d.Next > 0 {
				wait = min(wait, d.Next)
			}
			if len(d.List) == dueBatch {
				core.Signal(more)
			}
			select {
			case marks <- d.Mark:
			default: // the last one is being waited for; that wakes us too
			}
		}
		timer.Reset(wait)
		select {
		case <-w.stop:
		case <-timer.C:
		case <-changed:
		}
	}
}

// helpLoop fires schedules too while very many are due: so this engine decides on
// some of them while the store fires others. Then the other loop looks again,
// since it does not know when these are due next.
func (e *Engine) helpLoop(w *worker, a store.Schedules, changed chan<- struct{}, more <-chan struct{}) {
	defer w.rest.Done()
	for {
		select {
		case <-w.stop:
			return
		case <-more:
		}
		for full := true; full && w.ctx.Err() == nil; {
			d, err := e.fireDue(w, a)
			if err != nil && w.ctx.Err() == nil {
				e.log.Error("fire schedules", "error", err)
			}
			full = err == nil && len(d.List) == dueBatch
		}
		core.Signal(changed)
	}
}

// changeLoop waits in the store for schedules that change, and wakes the loop
// that fires.
func (e *Engine) changeLoop(w *worker, a store.Schedules, marks <-chan uint64, changed chan<- struct{}) {
	defer w.rest.Done()
	for {
		var mark uint64
		select {
		case <-w.stop:
			return
		case mark = <-marks:
		}
		if err := a.AwaitSchedules(w.ctx, mark); err != nil {
			if w.ctx.Err() != nil {
				return
			}
			e.log.Warn("await changes of schedules; polling goes on", "error", err)
			continue // the next mark comes with the next look
		}
		core.Taken(marks) // of a look before the change, as in awaitLoop
		core.Signal(changed)
		e.fileMonitors.Wake()
	}
}

// fireDue fires what is due. A stop waits for it, since what is leased is not
// fired by others for a while.
func (e *Engine) fireDue(w *worker, a store.Schedules) (d store.DueSchedules, err error) {
	ctx, cancel := context.WithTimeout(w.base, core.StoreTimeout)
	defer cancel()
	d, err = a.DueSchedules(ctx, dueBatch, dueLease)
	if err != nil || len(d.List) == 0 {
		return d, err
	}
	answered := time.Now()
	defer func() {
		if d.Next > 0 {
			d.Next = max(d.Next-time.Since(answered), time.Microsecond)
		}
	}()
	list := make([]store.Firing, len(d.List))
	for i := range d.List {
		list[i] = e.firing(ctx, &d.List[i], d.Now)
		d.Next = sooner(d.Next, untilDue(&list[i], d.Now))
	}
	fired, err := e.fire(ctx, a, list)
	if err != nil {
		return d, err
	}
	var wrong []store.Firing
	for i := range fired {
		err := fired[i].Err
		if _, ok := errors.AsType[*courier.DependencyError](err); ok {
			wrong = append(wrong, e.refused(&d.List[i], list[i], err))
		} else if err != nil {
			wrong = append(wrong, e.unfired(&d.List[i], err))
		}
	}
	if len(wrong) > 0 {
		_, err = e.fire(ctx, a, wrong)
	}
	return d, err
}

// untilDue is the time until a schedule is due again that is fired now; 0 if it
// never is.
func untilDue(f *store.Firing, now time.Time) time.Duration {
	switch {
	case f.After > 0:
		return f.After
	case f.State.Due.IsZero():
		return 0
	}
	return max(f.State.Due.Sub(now), time.Microsecond)
}

// sooner returns the smaller of two times of which 0 means none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// fire carries out firings. They may be sent again: those that were carried out
// are not twice.
func (e *Engine) fire(ctx context.Context, a store.Schedules, list []store.Firing) (fired []store.Fired, err error) {
	calls := core.CallTimeout{Parent: ctx}
	defer calls.End()
	err = core.Retry(&calls, func(ctx context.Context) (err error) {
		fired, err = a.FireSchedules(ctx, list)
		return err
	})
	if err == nil {
		e.notifications.Wake()
	}
	return fired, err
}

// firing decides what a schedule does.
func (e *Engine) firing(ctx context.Context, s *store.DueSchedule, now time.Time) store.Firing {
	var def courier.Schedule
	if err := json.Unmarshal(s.Body, &def); err != nil {
		return e.unfired(s, fmt.Errorf("its definition can't be read: %w", err))
	}
	c, problems := e.newCalendar(&def)
	if len(problems) > 0 {
		return e.unfired(s, &courier.ScheduleError{Schedule: s.Name, Problems: problems})
	}
	p := store.PlanTicks(s, store.TickRule{
		Overlap: def.Overlap, Misfire: def.Misfire, Window: def.Window, Jitter: def.Jitter,
		PauseAfter: def.PauseAfter, Once: !def.At.IsZero(),
	}, c, now)
	f := store.Firing{
		Schedule: s.Name, Revision: s.Revision, State: p.State, After: p.After, Cancel: p.Cancel, By: "schedule:" + s.Name,
	}
	for _, tick := range p.Ticks {
		id, err := e.tick(ctx, &f, s, &def, tick)
		if err != nil && s.Kind == store.Chain && !core.Promised(err) {
			f = e.unfired(s, err)
			f.After = dueLease // the store has failed to tell what the chain needs
			return f
		}
		if err != nil {
			return e.unfired(s, err)
		}
		f.State.Open = append(f.State.Open, id)
		f.State.LastExecution = id
	}
	if p.State.Paused {
		e.log.Warn("schedule paused", "schedule", s.Name, "reason", p.State.Reason)
	}
	return f
}

// tick adds to a firing what a schedule starts at a tick, and returns its id.
func (e *Engine) tick(ctx context.Context, f *store.Firing, s *store.DueSchedule, def *courier.Schedule, tick time.Time) (courier.ExecutionID, error) {
	if s.Kind == store.Chain {
		n, err := e.tickChain(ctx, s, def, tick)
		f.Chains = append(f.Chains, n)
		return courier.ExecutionID(n.ID), err
	}
	n, err := e.tickExecution(s, def, tick)
	f.Executions = append(f.Executions, n)
	return n.ID, err
}

// tickExecution returns what a schedule starts at a tick.
func (e *Engine) tickExecution(s *store.DueSchedule, def *courier.Schedule, tick time.Time) (store.NewExecution, error) {
	if s.Definition == nil {
		return store.NewExecution{}, fmt.Errorf("there is no job %q; define it, or change the schedule", s.Target)
	}
	p, err := e.programs.of(s.Definition)
	if err != nil {
		return store.NewExecution{}, fmt.Errorf("job %q version %d: %w", s.Target, s.Definition.Version, err)
	}
	n, err := e.execution(p, courier.ExecutionID(e.ids.New()), &EnqueueOptions{
		Params: def.Params, Priority: def.Priority, IdempotencyKey: store.TickKey(s.Name, tick), By: courier.By{Actor: "schedule:" + s.Name},
	})
	if err != nil {
		return n, fmt.Errorf("job %q version %d: %w", s.Target, s.Definition.Version, err)
	}
	return n, nil
}

// tickChain returns the chain execution that a schedule starts at a tick.
func (e *Engine) tickChain(ctx context.Context, s *store.DueSchedule, def *courier.Schedule, tick time.Time) (store.NewChainExecution, error) {
	if s.Definition == nil {
		return store.NewChainExecution{}, courier.Errorf(courier.ErrNotFound, "there is no chain %q; define it, or change the schedule", s.Target)
	}
	return e.prepareChain(ctx, s.Target, &ChainOptions{
		Version: s.Definition.Version, Params: def.Params, IdempotencyKey: store.TickKey(s.Name, tick), By: courier.By{Actor: "schedule:" + s.Name},
	})
}

// unfired leaves a schedule that can't be fired as it is, but for the problem.
func (e *Engine) unfired(s *store.DueSchedule, err error) store.Firing {
	f := store.Firing{Schedule: s.Name, Revision: s.Revision, State: s.ScheduleState, After: afterProblem}
	f.State.Problem = core.PlainMessage(err)
	if f.State.Problem != s.Problem {
		e.log.Error("schedule can't fire", "schedule", s.Name, "problem", f.State.Problem, "again", afterProblem)
	}
	return f
}
