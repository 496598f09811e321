// Package deadlines raises the event JobOverdue for executions that have not ended by a
// deadline of their job. The store keeps the deadlines, and the events for subscribers; a
// [Service] asks for those that have passed.
//
// A deadline is a row of its own, which is removed when it passes and not when the execution
// ends, so that ends cost nothing. A row of an overdue execution stays until the execution has
// ended, and is looked at every 10 minutes. The event has no audit entry and a negative number:
// nothing has changed, and an entry would take the number of the worker's next transition. A
// deadline that passes while the execution is failed is dropped. An expected time of day becomes
// a duration when the execution is created, from the time at which it is due, and for a member
// of a chain from the chain's start.
package deadlines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/internal/wakeup"
	"github.com/courierhq/courier/store"
)

// lookAgain is the longest time between two calls of the store. Each returns when the next
// deadline passes. One that is less than lookAgain ahead, of an execution that an engine
// which is not started has enqueued, and that none has claimed, is found so late.
const lookAgain = 5 * time.Minute

// Options are what the service uses of the engine. All must be set.
type Options struct {
	Roles    core.Roles
	Programs *program.Cache
	Log      *slog.Logger
	Poll     time.Duration // until a call to the store that failed is made again
	// Observe gives an event that was committed to the observers, and WakeNotifications has
	// deliveries looked for.
	Observe           func(courier.Event)
	WakeNotifications func()
	// Expire fails an execution that has not begun, with a message. If it has begun or
	// ended, the error is a *courier.TransitionError.
	Expire func(ctx context.Context, id courier.ExecutionID, message string) error
}

// A Service finds the overdue executions of one store. Its methods may be called by
// several goroutines.
type Service struct {
	opt  Options
	wake chan struct{} // next has changed

	mu   sync.Mutex
	next time.Time // of the next call
}

// New returns the service of an engine. It starts nothing.
func New(opt Options) *Service { return &Service{opt: opt, wake: make(chan struct{}, 1)} }

// Created is called after executions were created. The store is asked when the first of
// their deadlines passes.
func (v *Service) Created(list []store.NewExecution) {
	for i := range list {
		n := &list[i]
		if n.MaxDuration > 0 {
			v.lookIn(n.Delay + n.MaxDuration)
		}
		if n.ExpectedBy > 0 {
			v.lookIn(n.ExpectedBy)
		}
		if n.Expires > 0 {
			v.lookIn(n.Expires)
		}
	}
}

// Claimed is called after an execution was claimed, which another engine may have
// enqueued.
func (v *Service) Claimed(c *store.Claimed) {
	if !c.First {
		return
	}
	p, err := v.opt.Programs.Of(&c.Definition)
	if err != nil {
		return
	}
	since := c.Execution.StartedAt.Sub(c.Execution.DueAt)
	if p.Job.MaxDuration > 0 {
		v.lookIn(max(0, p.Job.MaxDuration-since))
	}
	if in, _ := p.ExpectedIn(c.Execution.DueAt); in > 0 {
		v.lookIn(max(0, in-since))
	}
}

// Wake has the store asked at once, as when its clock may have been put forward.
func (v *Service) Wake() { v.lookIn(0) }

// lookIn has the store asked in d, unless it is asked before that anyway.
func (v *Service) lookIn(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if at := time.Now().Add(d); at.Before(v.next) {
		v.next = at
		wakeup.Send(v.wake)
	}
}

// Run asks the store for overdue executions until the engine stops. It does nothing where
// the store keeps no deadlines.
func (v *Service) Run(l core.Lifetime) {
	d, err := v.opt.Roles.Deadlines()
	if err != nil {
		return
	}
	timer := time.NewTimer(lookAgain)
	defer timer.Stop()
	for l.Ctx.Err() == nil {
		v.mu.Lock()
		v.next = time.Now().Add(lookAgain)
		v.mu.Unlock()
		next, err := v.look(l, d)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return
		case err != nil && l.Ctx.Err() == nil:
			v.opt.Log.Error("find overdue executions", "error", err)
			v.lookIn(v.opt.Poll)
		case next > 0:
			v.lookIn(next)
		}
		if !v.wait(l, timer) {
			return
		}
	}
}

// wait waits until it is time for the next call, and reports false when the engine stops.
func (v *Service) wait(l core.Lifetime, timer *time.Timer) bool {
	for {
		v.mu.Lock()
		left := time.Until(v.next)
		v.mu.Unlock()
		timer.Reset(max(0, left))
		select {
		case <-l.Stop:
			return false
		case <-timer.C:
			return true
		case <-v.wake:
		}
	}
}

// look asks the store once. It returns the time until the next deadline passes, 0 if
// there is none.
func (v *Service) look(l core.Lifetime, d store.Deadlines) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(l.Ctx, storecall.Timeout)
	defer cancel()
	got, err := d.Overdue(ctx, 0)
	if err != nil {
		return 0, err
	}
	for i := range got.List {
		o := &got.List[i]
		if o.Reason == courier.ReasonExpired {
			v.expire(ctx, o)
			continue
		}
		v.opt.Log.LogAttrs(ctx, slog.LevelWarn, "execution is overdue",
			slog.String("execution", string(o.Execution)), slog.String("job", o.Job), slog.Int("version", o.Version),
			slog.String("state", string(o.State)), slog.String("reason", string(o.Reason)), slog.Time("deadline", o.Deadline))
		v.opt.Observe(courier.Event{
			Type: courier.EventJobOverdue, Execution: o.Execution, Job: o.Job, Version: o.Version, Step: -1, Reason: o.Reason, Error: o.Text(),
		})
	}
	if len(got.List) > 0 {
		v.opt.WakeNotifications()
	}
	return got.Next, nil
}

// expire fails an execution that has not begun in time. If it has begun meanwhile, it
// goes on. If the store can't be reached, it returns the deadline again.
func (v *Service) expire(ctx context.Context, o *store.OverdueExecution) {
	err := v.opt.Expire(ctx, o.Execution, fmt.Sprintf("the execution had not begun by %s, when it expired", o.Deadline.UTC().Format(time.RFC3339)))
	if _, begun := errors.AsType[*courier.TransitionError](err); err != nil && !begun {
		v.opt.Log.Error("expire execution", "execution", string(o.Execution), "job", o.Job, "error", err)
	}
}
