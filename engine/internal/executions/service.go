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
	core core.Core
	opt  Options
}

// Options are what values in scope consist of besides what the store has. All must be set.
type Options struct {
	// Workspace returns the directory of an execution. WorkspaceID is that of the tree in
	// which it lies; see courier.Execution.Workspace.
	Workspace   func(id courier.ExecutionID) string
	WorkspaceID string
	// Members returns the outputs of the members of the chain that a program refers to, by
	// member; nil if there are none.
	Members func(ctx context.Context, p *program.Program, x *courier.Execution) (map[string]any, error)
}

// New returns the service of an engine.
func New(c core.Core, opt Options) *Service { return &Service{c, opt} }
