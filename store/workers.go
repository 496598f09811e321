package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/courierhq/courier"
)

// Workers is the role of a store that knows which workers there are, so that somebody can say
// what no worker can take. The role is optional. Whoever claims without
// [ClaimRequest.Only] is present, and so is who holds a lease that has not ended; there
// is nothing else to call. A store may note a worker up to [PresenceInterval] later
// than it claims.
type Workers interface {
	// Workers returns the workers that are present, in byte order of their names,
	// at most [MaxWorkers]: those that claimed within age, and those that hold a
	// lease.
	Workers(ctx context.Context, age time.Duration) ([]Worker, error)
	// Stranded returns executions that have been due or lost for at least age and
	// that no worker can take which is present by Workers with the same age, in
	// groups. It looks at [MaxSampled] executions of each queue and priority at
	// most, in the order in which they would be claimed, and tells the oldest groups,
	// [MaxStranded] at most. Limits don't matter: what waits for room under one
	// isn't stranded if some worker could take it.
	Stranded(ctx context.Context, age time.Duration) ([]Stranded, error)
}

// Bounds of [Workers].
const (
	PresenceInterval = 30 * time.Second
	MaxWorkers       = 1000
	MaxSampled       = 1000
	MaxStranded      = 100
)

// A Worker is an engine that claims.
type Worker struct {
	Name      string    `json:"name"`
	Workspace string    `json:"workspace"`
	Queues    []string  `json:"queues"`
	StepTypes []string  `json:"step_types"`
	SeenAt    time.Time `json:"seen_at"` // when it was last noted as claiming
}

// A Lack is what keeps a group of executions from all workers that are present.
type Lack string

// The lacks, in the order in which they are looked for.
const (
	LackQueue     Lack = "queue"      // no worker serves the queue
	LackWorkspace Lack = "workspace"  // none of those has the workspace
	LackStepTypes Lack = "step_types" // none of those knows all the step types
)

// A Stranded is a group of executions that no worker which is present can take.
type Stranded struct {
	Lack  Lack   `json:"lack"`
	Queue string `json:"queue"`
	// Workspace is the id of the workspace that holds their files; empty if they
	// have none.
	Workspace string `json:"workspace,omitempty"`
	// StepTypes are all types that they need, and Missing those that the worker lacks
	// which comes closest; Missing is nil for another lack.
	StepTypes []string `json:"step_types"`
	Missing   []string `json:"missing,omitempty"`
	// Lost says that they are running, and their leases have ended.
	Lost bool `json:"lost,omitempty"`
	// Count is how many were seen; there may be more.
	Count  int                 `json:"count"`
	Oldest courier.ExecutionID `json:"oldest"`
	Since  time.Time           `json:"since"` // since when the oldest is due or lost
}

// FindStranded returns those of the groups that none of the workers can take,
// with what they lack, the oldest first, at most [MaxStranded].
func FindStranded(groups []Stranded, workers []Worker) []Stranded {
	var list []Stranded
	for _, g := range groups {
		if g.Lack, g.Missing = g.lacks(workers); g.Lack != "" {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, func(a, b Stranded) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Oldest, b.Oldest))
	})
	return list[:min(len(list), MaxStranded)]
}

// lacks returns what keeps the group from all of the workers; empty if some can
// take it.
func (s *Stranded) lacks(workers []Worker) (lack Lack, missing []string) {
	lack = LackQueue
	for i := range workers {
		w := &workers[i]
		if !slices.Contains(w.Queues, s.Queue) {
			continue
		}
		if s.Workspace != "" && s.Workspace != w.Workspace {
			if lack == LackQueue {
				lack = LackWorkspace
			}
			continue
		}
		var unknown []string
		for _, t := range s.StepTypes {
			if !slices.Contains(w.StepTypes, t) {
				unknown = append(unknown, t)
			}
		}
		if len(unknown) == 0 {
			return "", nil
		}
		if lack != LackStepTypes || len(unknown) < len(missing) {
			lack, missing = LackStepTypes, unknown
		}
	}
	return lack, missing
}
