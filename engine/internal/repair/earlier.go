package repair

import (
	"context"
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/history"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// MaxReading is how long reading all records of an execution may take.
const MaxReading = time.Minute

// Earlier is what an execution did before the present claim, and what of it is executed
// again. It is used by one goroutine.
type Earlier struct {
	Archive   store.Archive
	Tree      *flow.Tree
	Execution *courier.Execution
	Pass      *Pass // in which failed items are executed again; nil if none are

	begun    bool                    // a pass was begun since the claim
	latest   []courier.StepExecution // of each step, in the present version
	attempts map[string]int          // of steps before the execution went back, by place; see [history.Place]
	places   map[string]bool         // of steps that have a record; nil until it is read
}

// History returns a reader of the records, which has read none.
func (e *Earlier) History() *History {
	return &History{Archive: e.Archive, Tree: e.Tree, Execution: e.Execution, Retry: true}
}

// Claimed sets the latest record of each step, as a claim returns them.
func (e *Earlier) Claimed(latest []courier.StepExecution) {
	e.latest = e.History().Mapped(latest)
}

// Latest is the latest record of each step when the execution was claimed.
func (e *Earlier) Latest() []courier.StepExecution { return e.latest }

// Repaired reports whether the execution was repaired.
func (e *Earlier) Repaired() bool { return e.Execution.Repairs != nil }

// Restore sets values to those at a position at which a target of the last pass is executed
// again; target is 0 if none is.
func (e *Earlier) Restore(ctx context.Context, vals *program.Values, latest []courier.StepExecution, target int, pos courier.Position) error {
	if e.Repaired() {
		e.attempts = Attempts(e.latest)
	}
	if target > 0 {
		pass, err := e.History().Current(ctx)
		if err == nil && (pass == nil || target > len(pass.Targets)) {
			err = fmt.Errorf("failed item number %d, which is executed again, has no record", target)
		}
		if e.Pass = pass; err != nil {
			return err
		}
	}
	return e.History().Restore(ctx, vals, latest, pos)
}

// LastAttempt is the number of the last attempt at a step in an iteration before the
// execution went back; 0 if there is none.
func (e *Earlier) LastAttempt(step int, iteration []int) int {
	if e.attempts == nil {
		return 0
	}
	return e.attempts[history.Place(step, iteration)]
}

// Failed returns the record of a step in an iteration if it is the latest and has failed;
// otherwise nil.
func (e *Earlier) Failed(step int, iteration []int) *courier.StepExecution {
	return history.Failed(e.latest, step, iteration)
}

// Executed reports whether there is a record of a step in an iteration, also of an earlier
// attempt of the execution. Where a loop or the job was started again, such a record is one
// of an earlier pass, for a pass comes to each step of an iteration once.
func (e *Earlier) Executed(ctx context.Context, step int, iteration []int) (bool, error) {
	if e.places == nil {
		ctx, cancel := context.WithTimeout(ctx, MaxReading)
		defer cancel()
		places, err := e.History().Places(ctx)
		if err != nil {
			return false, err
		}
		e.places = places
	}
	return e.places[history.Place(step, iteration)], nil
}

// Begin begins the pass in which all failed items are executed again. It does that once: it
// returns nil if it has done so before, or if nothing has failed. See [History.Begin].
func (e *Earlier) Begin(ctx context.Context, seq int64, at courier.Position) (*courier.Repairs, error) {
	if e.begun {
		return nil, nil
	}
	e.begun = true
	repairs, pass, err := e.History().Begin(ctx, courier.RepairPass{Seq: seq, Then: at})
	if err != nil || pass == nil {
		return nil, err
	}
	e.Execution.Repairs, e.Pass = repairs, pass
	return repairs, nil
}
