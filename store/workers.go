package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/courierhq/courier"
)

// Workers records the workers of all engines, to find executions that no worker can
// claim. It is an optional role of a [Store]; an engine finds it by a type assertion. A
// worker is present if it has claimed lately without [ClaimRequest.Only], or holds a
// lease that has not ended; it need not call anything else. A store may record a worker
// up to [PresenceInterval] after its claim.
type Workers interface {
	// Workers returns the present workers, in byte order of their names, at most
	// [MaxWorkers]: those that claimed within age, and those that hold a lease.
	Workers(ctx context.Context, age time.Duration) ([]Worker, error)
	// Drain records that a worker claims nothing more, until a later claim of the worker
	// is recorded. It does nothing if no claim of the worker was recorded.
	Drain(ctx context.Context, worker string) error
	// Stranded returns, in groups, executions that have been due or lost for at least
	// age, and that none of the workers that Workers returns for the same age can
	// claim; draining workers can't claim. It examines at most [MaxSampled] executions of each
	// queue and priority, in the order of claims, and returns the oldest groups, at most
	// [MaxStranded]. If an execution waits for room under a limit, but some worker could claim it
	// otherwise, it is not stranded.
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
	Slots     int       `json:"slots"`               // executions that it runs at once
	Version   string    `json:"version,omitempty"`   // of the main module of its program
	StartedAt time.Time `json:"started_at,omitzero"` // by the worker's clock
	SeenAt    time.Time `json:"seen_at"`             // the last claim that was recorded
	Draining  bool      `json:"draining,omitempty"`  // it is stopping, and claims nothing more
}

// A StrandedReason is the reason why no present worker can claim a group of executions.
type StrandedReason string

// The reasons, in the order in which they are examined.
const (
	StrandedQueue     StrandedReason = "queue"      // no worker serves the queue
	StrandedWorkspace StrandedReason = "workspace"  // none of those has the workspace
	StrandedStepTypes StrandedReason = "step_types" // none of those has all the step types
)

// A Stranded is a group of executions that no present worker can claim.
type Stranded struct {
	Reason StrandedReason `json:"reason"`
	Queue  string         `json:"queue"`
	// Workspace is the id of the workspace that holds their files; empty if they
	// have none.
	Workspace string `json:"workspace,omitempty"`
	// StepTypes are all step types of their jobs. Missing are the step types that are
	// missing in the worker that lacks the fewest; nil unless the reason is
	// [StrandedStepTypes].
	StepTypes []string `json:"step_types"`
	Missing   []string `json:"missing,omitempty"`
	// Served are the queues that present workers serve and do not leave, in byte order; nil
	// unless the reason is [StrandedQueue].
	Served []string `json:"served,omitempty"`
	// Lost reports whether they are running with leases that have ended.
	Lost bool `json:"lost,omitempty"`
	// Count is the number of executions that were examined; there may be more.
	Count  int                 `json:"count"`
	Oldest courier.ExecutionID `json:"oldest"`
	Since  time.Time           `json:"since"` // since when the oldest is due or lost
}

// FindStranded returns the groups that none of the workers can claim, with the reason,
// the oldest first, at most [MaxStranded].
func FindStranded(groups []Stranded, workers []Worker) []Stranded {
	var list []Stranded
	for _, g := range groups {
		if g.Reason, g.Missing = g.lacks(workers); g.Reason == StrandedQueue {
			g.Served = served(workers)
		}
		if g.Reason != "" {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, func(a, b Stranded) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Oldest, b.Oldest))
	})
	return list[:min(len(list), MaxStranded)]
}

// Stranded returns the execution as a group of its own, if no present worker can claim it;
// otherwise, or if the store does not record workers, stranded is false.
func (c *Circumstances) Stranded() (g Stranded, stranded bool) {
	if c.WorkersUnknown {
		return g, false
	}
	x := &c.Execution
	g = Stranded{Queue: x.Queue, Workspace: x.Workspace, StepTypes: c.StepTypes, Lost: x.State == courier.Running, Served: served(c.Workers)}
	g.Reason, g.Missing = g.lacks(c.Workers)
	return g, g.Reason != ""
}

// served returns the queues that workers serve and do not leave.
func served(workers []Worker) (queues []string) {
	for i := range workers {
		if !workers[i].Draining {
			queues = append(queues, workers[i].Queues...)
		}
	}
	slices.Sort(queues)
	return slices.Compact(queues)
}

// lacks returns why none of the workers can claim the group; empty if one can.
func (s *Stranded) lacks(workers []Worker) (reason StrandedReason, missing []string) {
	reason = StrandedQueue
	for i := range workers {
		w := &workers[i]
		if w.Draining || !slices.Contains(w.Queues, s.Queue) {
			continue
		}
		if s.Workspace != "" && s.Workspace != w.Workspace {
			if reason == StrandedQueue {
				reason = StrandedWorkspace
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
		if reason != StrandedStepTypes || len(unknown) < len(missing) {
			reason, missing = StrandedStepTypes, unknown
		}
	}
	return reason, missing
}
