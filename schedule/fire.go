package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/internal/wakeup"
	"github.com/courierhq/courier/store"
)

// Intervals of the loops that fire schedules.
const (
	// lookAgain is the longest time between two looks at the schedules.
	lookAgain = 30 * time.Second
	// dueLease is the time for which this engine leases due schedules.
	dueLease = 10 * time.Second
	dueBatch = 1000
	// afterProblem is the time until a schedule that could not fire is tried again.
	afterProblem = time.Minute
)

// Run fires schedules when they are due, until ctx ends. Then it waits for its pending store
// calls and returns. It returns at once if the store keeps no schedules. An engine calls it while
// it is started; several engines may do so for one store.
func (v *Service) Run(ctx context.Context) {
	a, err := v.opt.Store()
	if err != nil {
		return
	}
	marks, changed, more := make(chan uint64, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	var loops sync.WaitGroup
	loops.Go(func() { v.fireLoop(ctx, a, marks, changed, more) })
	loops.Go(func() { v.changeLoop(ctx, a, marks, changed) })
	loops.Go(func() { v.helpLoop(ctx, a, changed, more) })
	loops.Wait()
}

// fireLoop fires schedules when they are due.
func (v *Service) fireLoop(ctx context.Context, a Store, marks chan<- uint64, changed <-chan struct{}, more chan<- struct{}) {
	timer := time.NewTimer(lookAgain)
	defer timer.Stop()
	for ctx.Err() == nil {
		wait := lookAgain
		d, err := v.fireDue(ctx, a) // Next counts from the return of this call
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return
		case err != nil && ctx.Err() == nil:
			v.opt.Log.Error("fire schedules", "error", err)
			wait = v.opt.Poll
		case err == nil:
			if d.Next > 0 {
				wait = min(wait, d.Next)
			}
			if len(d.List) == dueBatch {
				wakeup.Send(more)
			}
			select {
			case marks <- d.Mark:
			default: // changeLoop still waits for the last mark, and wakes us then
			}
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-changed:
		}
	}
}

// helpLoop also fires schedules while very many are due: this engine decides on some of them
// while the store fires others. Then fireLoop looks again, because it has not read when these
// schedules are due next.
func (v *Service) helpLoop(ctx context.Context, a Store, changed chan<- struct{}, more <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-more:
		}
		for full := true; full && ctx.Err() == nil; {
			d, err := v.fireDue(ctx, a)
			if err != nil && ctx.Err() == nil {
				v.opt.Log.Error("fire schedules", "error", err)
			}
			full = err == nil && len(d.List) == dueBatch
		}
		wakeup.Send(changed)
	}
}

// changeLoop waits until the store reports changed schedules, and wakes fireLoop.
func (v *Service) changeLoop(ctx context.Context, a Store, marks <-chan uint64, changed chan<- struct{}) {
	for {
		var mark uint64
		select {
		case <-ctx.Done():
			return
		case mark = <-marks:
		}
		if err := a.AwaitSchedules(ctx, mark); err != nil {
			if ctx.Err() != nil {
				return
			}
			v.opt.Log.Warn("await changes of schedules; polling continues", "error", err)
			continue // the next mark comes with the next look
		}
		wakeup.Taken(marks) // of a look before the change
		wakeup.Send(changed)
		v.opt.Awaited()
	}
}

// fireDue fires the due schedules. A stop waits for it, because other engines do not fire leased
// schedules until the lease ends.
func (v *Service) fireDue(ctx context.Context, a Store) (d DueList, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storecall.Timeout)
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
	list := make([]Firing, len(d.List))
	tables := v.Timetables(ctx) // read after the schedules, so the calendars are current
	for i := range d.List {
		list[i] = v.firing(ctx, &d.List[i], tables, d.Now)
		d.Next = sooner(d.Next, untilDue(&list[i], d.Now))
	}
	fired, err := v.fire(ctx, a, list)
	if err != nil {
		return d, err
	}
	var wrong []Firing
	for i := range fired {
		err := fired[i].Err
		if _, ok := errors.AsType[*courier.DependencyError](err); ok {
			wrong = append(wrong, v.refused(&d.List[i], list[i], err))
		} else if err != nil {
			wrong = append(wrong, v.unfired(&d.List[i], err))
		}
	}
	if len(wrong) > 0 {
		_, err = v.fire(ctx, a, wrong)
	}
	return d, err
}

// untilDue returns the time until a schedule that fires now is due again; 0 if it never is.
func untilDue(f *Firing, now time.Time) time.Duration {
	switch {
	case f.After > 0:
		return f.After
	case f.Status.Due.IsZero():
		return 0
	}
	return max(f.Status.Due.Sub(now), time.Microsecond)
}

// sooner returns the smaller of two durations, where 0 means none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// fire carries out firings. It may send them again: a firing is carried out only once.
func (v *Service) fire(ctx context.Context, a Store, list []Firing) (fired []Fired, err error) {
	calls := storecall.Calls{Parent: ctx}
	defer calls.End()
	err = storecall.Retry(&calls, func(ctx context.Context) (err error) {
		fired, err = a.FireSchedules(ctx, list)
		return err
	})
	if err == nil {
		v.opt.Fired(fired)
	}
	return fired, err
}

// firing returns the decision on a due schedule.
func (v *Service) firing(ctx context.Context, s *Due, tables func(*Schedule) (*Timetable, error), now time.Time) Firing {
	var def Schedule
	if err := json.Unmarshal(s.Body, &def); err != nil {
		return v.unfired(s, fmt.Errorf("its definition can't be read: %w", err))
	}
	def.MovesFrom = s.MovesFrom
	t, err := tables(&def)
	if err != nil {
		f := v.unfired(s, err)
		if _, wrong := errors.AsType[*Error](err); !wrong {
			f.After = dueLease // the calendar could not be read from the store
		}
		return f
	}
	p := PlanTicks(s, &def, t.Next, now)
	f := Firing{
		Schedule: s.Name, Revision: s.Revision, Status: p.Status, After: p.After, Cancel: p.Cancel, By: "schedule:" + s.Name,
	}
	for _, tick := range p.Ticks {
		id, err := v.start(ctx, &f, s, &def, tick)
		if err != nil && s.Kind == store.Chain && !storecall.Promised(err) {
			f = v.unfired(s, err)
			f.After = dueLease // the members of the chain could not be read from the store
			return f
		}
		if err != nil {
			return v.unfired(s, err)
		}
		f.Status.Open = append(f.Status.Open, id)
		f.Status.LastExecution = id
	}
	if p.Status.Paused {
		v.opt.Log.Warn("schedule paused", "schedule", s.Name, "reason", p.Status.Reason)
	}
	return f
}

// start adds the execution of a tick to a firing, and returns its id.
func (v *Service) start(ctx context.Context, f *Firing, s *Due, def *Schedule, tick time.Time) (courier.ExecutionID, error) {
	if s.Definition == nil {
		return "", courier.Errorf(courier.ErrNotFound, "there is no %s %q; define it, or change the schedule", s.Kind, s.Target)
	}
	id, err := v.opt.Targets.Prepare(ctx, f, s.Definition, def, TickKey(s.Name, tick))
	if err != nil && s.Kind == store.Job {
		err = fmt.Errorf("job %q version %d: %w", s.Target, s.Definition.Version, err)
	}
	return id, err
}

// unfired returns a firing that only records why the schedule could not fire.
func (v *Service) unfired(s *Due, err error) Firing {
	f := Firing{Schedule: s.Name, Revision: s.Revision, Status: s.Status, After: afterProblem}
	f.Status.Problem = text.Plain(err)
	if f.Status.Problem != s.Problem {
		v.opt.Log.Error("schedule can't fire", "schedule", s.Name, "problem", f.Status.Problem, "again", afterProblem)
	}
	return f
}

// refused returns a firing that starts nothing at its ticks, because a dependency of the job has
// refused the execution.
func (v *Service) refused(s *Due, f Firing, err error) Firing {
	f.Status.Open = slices.DeleteFunc(slices.Clone(f.Status.Open), func(id courier.ExecutionID) bool {
		return slices.ContainsFunc(f.Executions, func(n store.NewExecution) bool { return n.ID == id })
	})
	f.Status.LastExecution = s.LastExecution
	f.Executions, f.Cancel = nil, nil
	f.Status.Problem = text.Plain(err)
	if f.Status.Problem != s.Problem {
		v.opt.Log.Warn("schedule has started nothing", "schedule", s.Name, "problem", f.Status.Problem)
	}
	return f
}
