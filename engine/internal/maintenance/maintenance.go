// Package maintenance calls the maintainers of step types while an engine is started.
//
// Time is divided into periods that begin at the same instants for all engines. In each period
// one of the present workers that have the step type calls the maintainer: the one whose place
// in the list is the number of the period modulo their number. If clocks disagree, a period is
// served twice or not at all, and the next one is right again; so a maintainer has to be safe in
// several engines at once. With a store that does not record workers, every engine calls it. A
// maintainer runs in a goroutine of its own, a panic is an error, and a stop waits 10 s for it.
package maintenance

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/store"
)

const (
	// longCall is after which time a call that has not returned counts as a failure.
	longCall = 10 * time.Minute
	// maxText is how many bytes the text of a failure has at most.
	maxText = 4 << 10
)

// A Service does the maintenance of the step types of one engine. Its methods may be
// called by several goroutines.
type Service struct {
	roles    core.Roles
	registry *courier.Registry
	log      *slog.Logger
	worker   string // the engine's name in the store

	mu     sync.Mutex
	failed map[string]courier.FailedMaintenance // by step type
}

// New returns the service of an engine. It starts nothing.
func New(roles core.Roles, r *courier.Registry, log *slog.Logger, worker string) *Service {
	return &Service{roles: roles, registry: r, log: log, worker: worker, failed: make(map[string]courier.FailedMaintenance)}
}

// Failures returns what fails now, in the order of the step types.
func (v *Service) Failures() []courier.FailedMaintenance {
	v.mu.Lock()
	defer v.mu.Unlock()
	var list []courier.FailedMaintenance
	for _, f := range v.failed {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b courier.FailedMaintenance) int { return strings.Compare(a.StepType, b.StepType) })
	return list
}

// Run does the maintenance of all step types until the engine stops.
func (v *Service) Run(l core.Lifetime) {
	v.mu.Lock()
	clear(v.failed) // of an earlier start
	v.mu.Unlock()
	reg := v.registry
	var loops sync.WaitGroup
	for _, key := range reg.Keys() {
		t, ok := reg.Lookup(key)
		if !ok || t.Key() != key { // an alias
			continue
		}
		if m, every := t.Maintainer(); m != nil {
			loops.Go(func() { v.loop(l, &task{key: key, m: m, every: every}) })
		}
	}
	loops.Wait()
}

// A task is the maintenance of a step type.
type task struct {
	key   string
	m     courier.Maintainer
	every time.Duration
}

// loop calls a maintainer at once, and then in each period in which it is this engine's
// turn. Periods begin at the same instants in all engines whose clocks agree.
func (v *Service) loop(l core.Lifetime, t *task) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-l.Stop:
			return
		case <-timer.C:
		}
		if l.Ctx.Err() != nil {
			return
		}
		f := v.turn(l, t)
		if l.Ctx.Err() != nil {
			return
		}
		if f != nil {
			v.note(t, *f)
		}
		timer.Reset(core.NextTurn(v.worker+" "+t.key, t.every))
	}
}

// turn calls the maintainer if it is this engine's turn. It returns how the call ended, nil
// if there was none.
func (v *Service) turn(l core.Lifetime, t *task) *result {
	mine, err := v.roles.Turn(l.Ctx, v.worker, t.every, func(w *store.Worker) bool { return slices.Contains(w.StepTypes, t.key) })
	switch {
	case err != nil:
		return &result{text: fmt.Sprintf("the other engines of the store can't be found: %v", err)}
	case !mine:
		return nil
	}
	return v.call(l, t)
}

// A result is how a call has ended.
type result struct {
	text  string // why it has failed; empty if it has not
	stack string // of a panic
}

// call calls the maintainer. After the engine has begun to stop, it waits as long as for a
// call to the store.
func (v *Service) call(l core.Lifetime, t *task) *result {
	done := make(chan *result, 1)
	go func() { done <- v.guarded(l.Ctx, t.m) }()
	long := time.NewTimer(longCall)
	defer long.Stop()
	for {
		select {
		case r := <-done:
			return r
		case <-long.C:
			v.note(t, result{text: fmt.Sprintf("the call has not returned for %v, and no other one is made before it returns", longCall)})
		case <-l.Stop:
			end := time.NewTimer(storecall.Timeout)
			defer end.Stop()
			select {
			case <-done:
			case <-end.C:
				v.log.Error("maintenance does not return after the end of its context; the engine stops without it", "step_type", t.key)
			}
			return nil
		}
	}
}

// guarded calls the maintainer in a goroutine of its own, which it may end.
func (v *Service) guarded(ctx context.Context, m courier.Maintainer) *result {
	r := &result{text: "it called runtime.Goexit"}
	var done sync.WaitGroup
	done.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				r.text, r.stack = text.Shorten(fmt.Sprintf("it panicked: %v", p), maxText), string(debug.Stack())
			}
		}()
		id, err := v.roles.StoreID(ctx)
		if err == nil {
			err = m.Maintain(ctx, courier.Maintenance{Log: v.log, Execution: v.execution, StoreID: id})
		}
		r.text = ""
		if err != nil {
			r.text, _ = text.OfError(err)
			r.text = text.Shorten(r.text, maxText)
		}
	})
	done.Wait()
	return r
}

// execution returns an execution of the store.
func (v *Service) execution(ctx context.Context, id courier.ExecutionID) (courier.Execution, error) {
	ctx, cancel := context.WithTimeout(ctx, storecall.Timeout)
	defer cancel()
	return v.roles.Archive().Execution(ctx, id)
}

// note keeps how the last call ended, and writes each failure to the log once while it
// lasts.
func (v *Service) note(t *task, r result) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f, failed := v.failed[t.key]
	switch {
	case r.text == "" && failed:
		delete(v.failed, t.key)
		v.log.Info("maintenance works again", "step_type", t.key, "failed_since", f.Since)
		return
	case r.text == "" || r.text == f.Error:
		return
	case !failed:
		f = courier.FailedMaintenance{StepType: t.key, Since: time.Now().UTC()}
	}
	f.Error = r.text
	v.failed[t.key] = f
	attrs := []any{"step_type", t.key, "error", r.text}
	if r.stack != "" {
		attrs = append(attrs, "stack", r.stack)
	}
	v.log.Error("maintenance failed; it will be retried in the next period", attrs...)
}
