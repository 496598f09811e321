// Package chains starts chains and makes requests for chain executions. The store
// releases the members of a chain execution when those that they depend on have ended;
// a [Service] decides what is created, and reads the outputs of members for the steps of
// those that begin later.
package chains

import (
	"context"
	"log/slog"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/store"
)

// An Engine makes executions and acts on requests to them.
type Engine interface {
	// Trace returns the trace context of a call, empty if there is none.
	Trace(ctx context.Context) string
	// NewExecution returns a new execution of a program, with a new id.
	NewExecution(ctx context.Context, p *program.Program, opt *courier.EnqueueOptions) (store.NewExecution, error)
	// Requested acts on a request that the store has recorded for an execution, which is
	// given as it is since then.
	Requested(ctx context.Context, x *courier.Execution, r *store.Request)
}

// A Config is what the service uses of the engine besides. All must be set.
type Config struct {
	Roles     core.Roles
	Programs  *program.Cache
	Log       *slog.Logger
	NewID     func() string // for a chain execution or an execution
	MaxParams int           // bytes of the parameters of an execution
	// Observe gives an event that was committed to the observers, and Observed reports
	// whether there are any. WakeNotifications has deliveries looked for.
	Observe           func(courier.Event)
	Observed          func() bool
	WakeNotifications func()
	// Chain returns a version of a chain; version 0 means the latest. The error of one that
	// does not exist matches [courier.ErrNotFound] and names the nearest.
	Chain func(ctx context.Context, name string, version int) (courier.Chain, error)
	// WaitUntil calls look until it returns true or an error, or ctx ends: at growing
	// intervals, and at once when this engine has ended its part of an execution or of
	// one of a chain execution with the id.
	WaitUntil func(ctx context.Context, id courier.ExecutionID, look func() (done bool, err error)) error
}

// A Service is the chain executions of one engine. Its methods may be called by several
// goroutines.
type Service struct {
	engine   Engine
	cfg      Config
	observed observed
}

// New returns the service of an engine.
func New(e Engine, cfg Config) *Service { return &Service{engine: e, cfg: cfg} }
