// Package chains starts chains and makes requests for chain executions. The store
// releases the members of a chain execution when those that they depend on have ended;
// a [Service] decides what is created, and reads the outputs of members for the steps of
// those that begin later.
package chains

import "github.com/courierhq/courier/engine/internal/core"

// A Service is the chain executions of one engine. Its methods may be called by several
// goroutines.
type Service struct {
	core     core.Core
	observed observed
}

// New returns the service of an engine.
func New(c core.Core) *Service { return &Service{core: c} }
