// Package checkpoint keeps what a run knows of how far its execution has come: what the
// store has, and what the next transition adds to that. It writes nothing itself: package
// engine calls Apply of [store.Ledger], and that statement is the checkpoint.
package checkpoint

import (
	"encoding/json"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/reports"
	"github.com/courierhq/courier/store"
)

// A Checkpoint is how far an execution has come. A run changes the counters, Items and
// Repairs, and takes note of attempts that have ended by [Checkpoint.Add]; all of it is
// written with the next transition, which [Checkpoint.Fill] completes. When the store has
// accepted that transition, [Checkpoint.Written] is called; otherwise nothing of it counts.
// It is used by one goroutine.
type Checkpoint struct {
	store.Counters                  // as they are to be written
	Items          int              // failed ones, as courier.Execution.FailedItems
	Repairs        *courier.Repairs // to be written; nil if they have not changed
	Kept           *store.Progress  // what the next start gets, if it is of the same step
	Cursor         json.RawMessage  // of Kept
	Continues      bool             // the present attempt was begun by another worker
	current        *courier.StepExecution
	ended          []courier.StepExecution
	seq            int64 // of the last audit entry
	stored         stored
	unstarted      store.Counters // before those of the attempt that a transition starts
	over           bool
	omitted        omitted
}

// stored is where the execution stands in the store.
type stored struct {
	courier.Position
	store.Counters
	items int
}

// omitted says how much is left out because the store refuses it for good.
type omitted int

const (
	omittedOutputs  omitted = iota + 1 // outputs and files of the attempts
	omittedAttempts                    // the attempts
)

// Claimed returns the checkpoint of an execution that was claimed.
func Claimed(c *store.Claimed) Checkpoint {
	x := &c.Execution
	return Checkpoint{
		Counters: c.Counters, Items: x.FailedItems, Kept: c.Progress, current: x.Current, seq: c.Seq,
		stored: stored{x.Position, c.Counters, x.FailedItems},
	}
}

// Seq is the number of the last audit entry that is written.
func (c *Checkpoint) Seq() int64 { return c.seq }

// Over reports whether a transition was written that ends the lease.
func (c *Checkpoint) Over() bool { return c.over }

// Current is the present attempt, as it is in the store; nil if there is none.
func (c *Checkpoint) Current() *courier.StepExecution { return c.current }

// SetCurrent says that the claim has begun an attempt.
func (c *Checkpoint) SetCurrent(s courier.StepExecution) { c.current = &s }

// Ended are the attempts that have ended and are not written yet.
func (c *Checkpoint) Ended() []courier.StepExecution { return c.ended }

// Add adds an attempt that has ended.
func (c *Checkpoint) Add(s courier.StepExecution) { c.ended = append(c.ended, s) }

// TakeLast removes the last attempt that was added, and returns it.
func (c *Checkpoint) TakeLast() courier.StepExecution {
	n := len(c.ended) - 1
	s := c.ended[n]
	c.ended = c.ended[:n]
	return s
}

// Rejected is how many items have failed that fail the execution.
func (c *Checkpoint) Rejected() int { return c.Items - c.AcceptedItems }

// Passed sets the counters to what they are after a step that is over.
func (c *Checkpoint) Passed() {
	c.Counters = store.Counters{JobFailures: c.JobFailures, Base: c.Base, AcceptedItems: c.AcceptedItems, Target: c.Target, RescuedItems: c.RescuedItems, RescueFails: c.RescueFails, FinallyItems: c.FinallyItems}
}

// Restarted sets the counters for a position that the execution goes back to. Every start
// has an audit entry, so no start before has a number above that of the last entry: those
// that follow get greater ones, and with them names of files that none of the first has.
func (c *Checkpoint) Restarted() {
	c.Base, c.Attempts, c.Interrupted = int(c.seq), 0, false
	c.Kept = nil
}

// Count counts one more attempt at the present step. Earlier is the number of its last
// attempt before the execution went back; 0 for none.
func (c *Checkpoint) Count(earlier int) {
	if c.Attempts == 0 {
		c.Attempts = earlier
	}
	c.Attempts++
}

// Start has the counters say that an attempt begins, which count counts unless it is one
// that was interrupted. Cleanup says that something of an earlier attempt may have to be
// cleaned up. Before undoes it.
func (c *Checkpoint) Start(count func()) (cleanup bool, before store.Counters) {
	before = c.Counters
	if !before.Interrupted {
		count()
	}
	c.Continues = before.Interrupted
	c.Interrupted, c.Resumed = false, ""
	c.unstarted = before
	return before.Interrupted || c.Base+c.Attempts > 1, before
}

// Fill adds to a transition what is to be written with it.
func (c *Checkpoint) Fill(t *store.Transition) {
	t.Seq, t.Counters, t.Repairs = c.seq+1, c.Counters, c.Repairs
	if c.Items != c.stored.items && !t.RetryJob {
		t.FailedItems = &c.Items
	}
	t.Progress = reports.HandOn(c.Kept, t)
	t.Ended = append(c.ended, t.Ended...)
}

// Unstart takes the start of an attempt out of a transition. The present attempt is over
// then, and none follows.
func (c *Checkpoint) Unstart(t *store.Transition) {
	if t.Start != nil {
		secrets := t.Counters.Secrets
		t.Start, t.Counters = nil, c.unstarted
		t.Counters.Secrets = secrets
	}
}

// Written says that the store has accepted a transition.
func (c *Checkpoint) Written(t *store.Transition) {
	c.seq += entries(t, c.current)
	c.stored, c.Repairs = stored{t.Position, t.Counters, c.Items}, nil
	c.over = t.To != courier.Running
	c.ended, c.current = nil, t.Start
}

// entries is how many entries [store.Transition.Entries] returns.
func entries(t *store.Transition, current *courier.StepExecution) int64 {
	n := int64(len(t.Ended))
	if t.Interrupt && current != nil {
		n++
	}
	if t.To != courier.Running || t.Finish != nil {
		n++
	}
	if t.Start != nil {
		n++
	}
	return n
}

// Bare reports whether nothing more can be left out for a store that refuses what is to be
// written.
func (c *Checkpoint) Bare() bool { return c.omitted == omittedAttempts }

// Omits reports whether something is left out that the store refuses to keep.
func (c *Checkpoint) Omits() bool { return c.omitted > 0 }

// Omit goes back to what the store has, because it refuses a transition for good, and
// leaves out what may have made it refuse: outputs and files of the attempts that have
// ended, which count as failed for the reason why, and when it is called again, the
// attempts. It returns the last of them, nil if there is none, and where the execution
// stands in the store.
func (c *Checkpoint) Omit(t *store.Transition, why string) (last *courier.StepExecution, at courier.Position) {
	c.omitted++
	c.Items, c.Counters = c.stored.items, c.stored.Counters
	c.ended = t.Ended
	for i := range c.ended {
		s := &c.ended[i]
		s.Outputs, s.Files, s.Events, s.Stack, s.Log = nil, nil, nil, "", ""
		if s.State == courier.StepCompleted {
			s.State, s.Reason, s.Error = courier.StepFailed, courier.ReasonStore, why
		}
		last = s
	}
	if c.Bare() {
		c.ended = nil
	}
	return last, c.stored.Position
}

// Lost adds the attempt of a worker that was lost.
func (c *Checkpoint) Lost(s courier.StepExecution) {
	s.State, s.Reason = courier.StepFailed, courier.ReasonWorkerLost
	s.Error = fmt.Sprintf("worker %q was lost", s.Worker)
	c.Add(s)
}
