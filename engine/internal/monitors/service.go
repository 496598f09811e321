// Package monitors starts jobs and chains for files that appear in directories. The
// store keeps monitors and what they have seen; a [Service] checks and saves them,
// has their directories polled when they are due, decides by [store.PlanFiles] which
// files are ready, and records them together with what is started for them.
package monitors

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine/internal/core"
)

// Targets are the jobs and chains that monitors start.
type Targets interface {
	// Target returns the latest version of a job, or of a chain if job is empty.
	Target(ctx context.Context, job, chain string) (core.Target, error)
	// Started is called with the chain executions that were started.
	Started(list []chain.Started)
}

// Options are what the service uses of the engine, and the settings that concern monitors.
type Options struct {
	Changed   func(context.Context, core.Change) // is called after a monitor was changed
	Targets   Targets
	Roles     core.Roles
	Log       *slog.Logger
	Secrets   func(context.Context, courier.SecretRequest) (string, error) // nil if there are none
	Listers   map[string]courier.Lister                                    // by the names that monitors use
	Roots     []string                                                     // directories that listers may use
	MaxParams int                                                          // bytes of the parameters of an execution
	Poll      time.Duration                                                // until a call to the store that failed is made again
	// StoreWakes says that the store has [Service.Wake] called when a monitor is saved,
	// so that an engine without monitors need not look for them often.
	StoreWakes bool
}

// A Service is the monitors of one engine. Its methods may be called by several
// goroutines.
type Service struct {
	opt Options

	mu       sync.Mutex
	early    map[string]bool // monitors whose directories may have changed
	known    map[string]known
	wake     chan struct{}
	watchers map[string]directoryWatcher
	none     bool // there is no monitor to look for, as far as is known
}

// New returns the service of an engine. It starts nothing.
func New(opt Options) *Service {
	return &Service{
		opt: opt, wake: make(chan struct{}, 1),
		early: make(map[string]bool), known: make(map[string]known), watchers: make(map[string]directoryWatcher),
	}
}
