package store

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/courierhq/courier"
)

// A Progress is how far an attempt of a step is, and what it has saved for the next one.
// The store keeps one for each execution, in place of the one before: that of the last
// [Lease] or [Transition] that had one. It outlives the lease, and claims do not change
// it, so that the next worker gets the cursor: see [Claimed].Progress. A transition
// without one removes it, and so does a request that restarts or cancels the execution,
// or has a Change.
type Progress struct {
	Step      int   `json:"step"` // the attempt to which it belongs, with Iteration and Attempt
	Iteration []int `json:"iteration,omitempty"`
	Attempt   int   `json:"attempt"`
	// Report is the progress that the attempt has reported, without ChangedAt; nil if
	// none. The store returns it as the [courier.StepExecution].Progress of the
	// execution's current step while that is the same attempt, with ChangedAt set to the
	// store's time less Idle.
	Report *courier.Progress `json:"report,omitempty"`
	Idle   time.Duration     `json:"-"` // since ChangedAt; at least 0
	// Cursor is the cursor that the step has saved for its next attempt: compact JSON of
	// at most 4 KiB; nil if none. The store does not interpret it.
	Cursor json.RawMessage `json:"cursor,omitempty"`
}

// Of returns the Report of p, or nil if p does not belong to the attempt s.
func (p *Progress) Of(s *courier.StepExecution) *courier.Progress {
	if p == nil || s == nil || p.Step != s.Step || p.Attempt != s.Attempt || !slices.Equal(p.Iteration, s.Iteration) {
		return nil
	}
	return p.Report
}

// WithoutReport returns p as a [Transition] writes it: without Report and Idle. It returns
// nil if p is nil.
func (p *Progress) WithoutReport() *Progress {
	if p == nil {
		return nil
	}
	return &Progress{Step: p.Step, Iteration: p.Iteration, Attempt: p.Attempt, Cursor: p.Cursor}
}

// Next returns the progress with which the next start of the step in the same iteration
// begins, or with which the same start continues: the cursor alone. It returns nil if
// there is no cursor, or if p belongs to another step, another iteration or an attempt
// that is not the previous one.
func (p *Progress) Next(s *courier.StepExecution) *Progress {
	if p == nil || p.Cursor == nil || p.Step != s.Step || !slices.Equal(p.Iteration, s.Iteration) ||
		p.Attempt != s.Attempt && p.Attempt != s.Attempt-1 {
		return nil
	}
	return &Progress{Step: s.Step, Iteration: s.Iteration, Attempt: s.Attempt, Cursor: p.Cursor}
}
