// Package monitors starts jobs and chains for files that appear in directories. The
// store keeps monitors and what they have seen; a [Service] checks and saves them,
// has their directories polled when they are due, decides by [store.PlanFiles] which
// files are ready, and records them together with what is started for them.
package monitors

import (
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
)

// Options are the settings of an engine that concern monitors.
type Options struct {
	Listers   map[string]courier.Lister // by the names that monitors use
	Roots     []string                  // directories that listers may use
	MaxParams int                       // bytes of the parameters of an execution
	Poll      time.Duration             // until a call to the store that failed is made again
	// StoreWakes says that the store has [Service.Wake] called when a monitor is saved,
	// so that an engine without monitors need not look for them often.
	StoreWakes bool
}

// A Service is the monitors of one engine. Its methods may be called by several
// goroutines.
type Service struct {
	core core.Core
	opt  Options

	mu       sync.Mutex
	early    map[string]bool // monitors whose directories may have changed
	known    map[string]known
	wake     chan struct{}
	watchers map[string]directoryWatcher
	none     bool // there is no monitor to look for, as far as is known
}

// New returns the service of an engine. It starts nothing.
func New(c core.Core, opt Options) *Service {
	return &Service{
		core: c, opt: opt, wake: make(chan struct{}, 1),
		early: make(map[string]bool), known: make(map[string]known), watchers: make(map[string]directoryWatcher),
	}
}
