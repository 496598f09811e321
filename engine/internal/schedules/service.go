// Package schedules starts jobs and chains at given times. The store keeps schedules; a
// [Service] checks and saves them, and fires those that are due: [store.PlanTicks]
// decides what happens at a tick, and the store records it together with what is
// started.
package schedules

import (
	"context"
	"log/slog"
	"time"

	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/store"
)

// Targets are the jobs and chains that schedules start.
type Targets interface {
	// Target returns the latest version of a job, or of a chain if job is empty.
	Target(ctx context.Context, job, chain string) (core.Target, error)
	// TargetOf returns the job or chain of a definition.
	TargetOf(ctx context.Context, d *store.Definition) (core.Target, error)
	// Started is called with the chain executions that were started.
	Started(list []store.StartedChain)
}

// Options are what the service uses of the engine. All must be set.
type Options struct {
	Changed func(context.Context, core.Change) // is called after a schedule was changed
	Targets Targets
	Roles   core.Roles
	Log     *slog.Logger
	Poll    time.Duration // until a call to the store that failed is made again
	// WakeNotifications has deliveries looked for, WakeMonitors due monitors, if none was
	// known so far, and WakeDeadlines overdue executions.
	WakeNotifications, WakeMonitors, WakeDeadlines func()
}

// A Service is the schedules of one engine. Its methods may be called by several
// goroutines.
type Service struct {
	opt   Options
	zones zones
}

// New returns the service of an engine. It starts nothing.
func New(opt Options) *Service { return &Service{opt: opt} }
