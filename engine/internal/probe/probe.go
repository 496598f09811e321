// Package probe tells a probe of the host what an engine does.
package probe

import (
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/store"
)

// A Probe is that of package engine, where the calls are described.
type Probe interface {
	// Claimed tells of a claim that has succeeded.
	Claimed(n int, took time.Duration)
	// Began tells of an execution that was claimed.
	Began(x *courier.Execution, waited time.Duration)
	// Step tells of an attempt whose end was written.
	Step(s *courier.StepExecution, took time.Duration)
	// Ended tells of an execution with which the engine is done.
	Ended(x *courier.Execution, took time.Duration)
	// Store tells of a call to the store.
	Store(call string, took time.Duration, err error)
}

// Calls are those to a probe. They contain its panics, and give it copies. They may
// be used by several goroutines.
type Calls struct {
	probe Probe
	log   *slog.Logger
	once  sync.Once // for the first panic
}

// To returns calls to a probe; nil if there is none.
func To(p Probe, log *slog.Logger) *Calls {
	if p == nil {
		return nil
	}
	return &Calls{probe: p, log: log}
}

// contain is deferred in each call.
func (c *Calls) contain() {
	if p := recover(); p != nil {
		stack := debug.Stack()
		c.once.Do(func() {
			c.log.Error("Options.Probe panicked; further panics of it are not logged", "panic", p, "stack", string(stack))
		})
	}
}

// Claimed tells of a claim that was sent at a time.
func (c *Calls) Claimed(n int, sent time.Time) {
	defer c.contain()
	c.probe.Claimed(n, time.Since(sent))
}

// Began tells of an execution that was claimed.
func (c *Calls) Began(claimed *store.Claimed) {
	defer c.contain()
	x, waited := claimed.Execution, time.Duration(0)
	if !claimed.Reclaimed {
		waited = max(0, x.UpdatedAt.Sub(x.DueAt))
	}
	c.probe.Began(&x, waited)
}

// Step tells of an attempt of a step whose end was written.
func (c *Calls) Step(s courier.StepExecution, took time.Duration) {
	defer c.contain()
	c.probe.Step(&s, took)
}

// Ended tells that the engine is done with an execution with which it began at a time.
func (c *Calls) Ended(x courier.Execution, began time.Time) {
	defer c.contain()
	c.probe.Ended(&x, time.Since(began))
}

// Store tells of a call to the store, which began at a time and has now ended.
func (c *Calls) Store(call string, began time.Time, err *error) {
	defer c.contain()
	c.probe.Store(call, time.Since(began), *err)
}

// Around returns a store on s, each call of which the probe is told. Without a probe it is
// s.
func (c *Calls) Around(s store.Store) store.Store {
	if s == core.NoStore || c == nil {
		return s
	}
	return &probed{s, c}
}

// Behind returns the store that was given to [Calls.Around].
func Behind(s store.Store) store.Store {
	if p, ok := s.(*probed); ok {
		return p.Store
	}
	return s
}
