// Package duepoll asks a store again and again what of a service is due: the loop of an engine for
// monitors and for expectations.
package duepoll

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/courierhq/courier/internal/wakeup"
)

const (
	again = 30 * time.Second // the longest time between two questions
	idle  = 5 * time.Minute  // that while the store keeps nothing that can be due; it announces the first
)

// A Loop asks for what is due. It is made by [New]. Its methods may be called by several goroutines.
type Loop struct {
	opt  Options
	wake chan struct{}
	mu   sync.Mutex
	none bool // there is nothing to ask for, as far as is known
}

// Options say how a [Loop] asks.
type Options struct {
	What string // what it does, for the log, such as "look for due monitors"
	Log  *slog.Logger
	Poll time.Duration // until it asks again after an error
	// Wakes says that [Loop.Wake] is called when anybody saves something that may be due. While
	// there is nothing, the loop asks every 5 minutes then, and otherwise every 30 seconds.
	Wakes bool
}

// New returns a loop. It starts nothing.
func New(opt Options) *Loop { return &Loop{opt: opt, wake: make(chan struct{}, 1)} }

// Now has the loop ask at once.
func (l *Loop) Now() { wakeup.Send(l.wake) }

// Wake has the loop ask at once, unless it asks soon anyway.
func (l *Loop) Wake() {
	l.mu.Lock()
	none := l.none
	l.mu.Unlock()
	if none {
		l.Now()
	}
}

func (l *Loop) setNone(none bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.none = none
}

// Run calls ask whenever something may be due, until ctx ends, or ask returns an error that matches
// [errors.ErrUnsupported]. Ask returns the time until the next thing is due, 0 if it does not know
// one, and whether there may be nothing at all.
func (l *Loop) Run(ctx context.Context, ask func() (next time.Duration, none bool, err error)) {
	timer := time.NewTimer(again)
	defer timer.Stop()
	for ctx.Err() == nil {
		l.setNone(true) // so that a change meanwhile is not missed
		next, none, err := ask()
		wait := again
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return
		case err != nil && ctx.Err() == nil:
			l.opt.Log.Error(l.opt.What, "error", err)
			wait = l.opt.Poll
		case next > 0:
			wait = min(wait, next)
		case none && l.opt.Wakes:
			wait = idle
		}
		l.setNone(wait == idle)
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-l.wake:
		}
	}
}
