// Package executions reads executions from the store: their states, records and audit,
// the values in scope, the items of loops that have failed, the files that steps have
// reported, and why an execution does not go on. It changes nothing.
package executions

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/program"
)

// A Service reads the executions in the store of one engine. Its methods may be called by
// several goroutines.
type Service struct {
	opt Options
}

// Options are what the service uses of the engine. All must be set.
type Options struct {
	Roles    core.Roles
	Programs *program.Cache
	// WaitUntil calls look until it returns true or an error, or ctx ends: at growing
	// intervals, and at once when this engine has ended its part of the execution.
	WaitUntil func(ctx context.Context, id courier.ExecutionID, look func() (done bool, err error)) error
	// Workspace returns the directory of an execution. WorkspaceID is that of the tree in
	// which it lies; see courier.Execution.Workspace.
	Workspace   func(id courier.ExecutionID) string
	WorkspaceID string
	// Members returns the outputs of the members of the chain that a program refers to, by
	// member; nil if there are none.
	Members func(ctx context.Context, p *program.Program, x *courier.Execution) (map[string]any, error)
}

// New returns the service of an engine.
func New(opt Options) *Service { return &Service{opt} }
