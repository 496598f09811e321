// Package duepoll polls a store for due items of a service: it is the loop of an engine for
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
	again = 30 * time.Second // the maximum time between two polls
	idle  = 5 * time.Minute  // the same while the store has nothing that can be due; it announces the first item
)

// A Loop polls for due items. [New] makes it. Its methods may be called by several goroutines.
type Loop struct {
	opt  Options
	wake chan struct{}
	mu   sync.Mutex
	none bool // there is nothing to poll for, as far as the loop has seen
}

// Options are the settings of a [Loop].
type Options struct {
	What string // what it does, for the log, such as "look for due monitors"
	Log  *slog.Logger
	Poll time.Duration // the delay after an error
	// Wakes says that [Loop.Wake] is called when anybody saves something that may be due. While
	// there is nothing, the loop then polls every 5 minutes; otherwise it polls every 30 seconds.
	Wakes bool
}

// New returns a loop. It starts nothing.
func New(opt Options) *Loop { return &Loop{opt: opt, wake: make(chan struct{}, 1)} }

// Now makes the loop poll at once.
func (l *Loop) Now() { wakeup.Send(l.wake) }

// Wake makes the loop poll at once, unless it polls soon anyway.
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

// Run calls ask whenever something may be due, until ctx ends, or until ask returns an error that
// matches [errors.ErrUnsupported]. Ask returns the time until the next item is due, 0 if it is
// unknown, and whether there may be nothing at all.
func (l *Loop) Run(ctx context.Context, ask func() (next time.Duration, none bool, err error)) {
	timer := time.NewTimer(again)
	defer timer.Stop()
	for ctx.Err() == nil {
		l.setNone(true) // before the call, so that a change during it is not missed
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
