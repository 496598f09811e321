// Package schedules starts jobs and chains at given times. The store keeps schedules; a
// [Service] checks and saves them, and fires those that are due: [store.PlanTicks]
// decides what happens at a tick, and the store records it together with what is
// started.
package schedules

import (
	"time"

	"github.com/courierhq/courier/engine/internal/core"
)

// A Service is the schedules of one engine. Its methods may be called by several
// goroutines.
type Service struct {
	core  core.Core
	poll  time.Duration // until a call to the store that failed is made again
	zones zones
}

// New returns the service of an engine. It starts nothing.
func New(c core.Core, poll time.Duration) *Service { return &Service{core: c, poll: poll} }
