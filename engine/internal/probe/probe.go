// Package probe tells a probe of the host what an engine does.
package probe

import (
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/internal/metrics"
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

// A Recorder records the metrics of an engine.
type Recorder = metrics.Recorder[*metrics.Registry]

// Calls are those to a probe, and to what records metrics. They contain the panics of the
// probe, and give it copies. They may be used by several goroutines.
type Calls struct {
	rec   *Recorder
	probe Probe // nil if the host has none
	// Every is of how many calls of Apply one is measured for the recorder: with a store in
	// this process, to measure each would be felt.
	every uint64
	calls atomic.Uint64
	log   *slog.Logger
	once  sync.Once // for the first panic
}

// To returns calls to a recorder and to a probe; nil for no probe.
func To(rec *Recorder, p Probe, log *slog.Logger) *Calls {
	return &Calls{rec: rec, probe: p, log: log, every: 1}
}

// contain is deferred in each call of the probe.
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
	took := time.Since(sent)
	c.rec.Claimed(n, took)
	if c.probe != nil {
		defer c.contain()
		c.probe.Claimed(n, took)
	}
}

// Began tells of an execution that was claimed.
func (c *Calls) Began(claimed *store.Claimed) {
	x, waited := &claimed.Execution, time.Duration(-1)
	if !claimed.Reclaimed {
		waited = max(0, x.UpdatedAt.Sub(x.DueAt))
	}
	c.rec.Began(x, waited)
	if c.probe != nil {
		defer c.contain()
		x := *x
		c.probe.Began(&x, waited)
	}
}

// Step tells of an attempt of a step of an execution whose end was written.
func (c *Calls) Step(x courier.ExecutionID, s *courier.StepExecution, took time.Duration) {
	c.rec.Step(s, took)
	if c.probe != nil {
		defer c.contain()
		s := *s
		s.Execution = x
		c.probe.Step(&s, took)
	}
}

// Ended tells that the engine is done with an execution with which it began at a time.
func (c *Calls) Ended(x *courier.Execution, began time.Time) {
	took := time.Since(began)
	c.rec.Ended(x, took)
	if c.probe != nil {
		defer c.contain()
		x := *x
		c.probe.Ended(&x, took)
	}
}

// Store tells of a call to the store, which began at a time and has now ended.
func (c *Calls) Store(call string, began time.Time, err *error) {
	took := time.Since(began)
	c.rec.Store(call, took, *err)
	if c.probe != nil {
		c.toldStore(call, took, *err)
	}
}

// measures reports whether this call of Apply is measured.
func (c *Calls) measures() bool { return c.every == 1 || c.calls.Add(1)%c.every == 1 }

func (c *Calls) toldStore(call string, took time.Duration, err error) {
	defer c.contain()
	c.probe.Store(call, took, err)
}

// Around returns a store on s, each call of which is told.
func (c *Calls) Around(s store.Store) store.Store {
	if s == core.NoStore {
		return s
	}
	if _, here := s.(interface{ Now() time.Time }); here && c.probe == nil {
		c.every = 16
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
