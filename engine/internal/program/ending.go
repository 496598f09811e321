package program

import (
	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

// An Ending is how the steps before the finally part have ended, as its steps see it. The
// lists are read when they are first needed.
type Ending struct {
	outcome         string
	err             any
	failed, rescued itemList
}

// The values job.* of a finally part.
const (
	endingOutcome = "outcome"
	endingError   = "error"
	endingFailed  = "failed"
	endingRescued = "rescued"
)

var endingNames = []string{endingOutcome, endingError, endingFailed, endingRescued}

// SetEnding sets the values job.outcome, job.error, job.failed and job.rescued, which steps in
// the finally part have. F is the failure of an execution that has failed, or the reason of
// one that was cancelled. Failed and rescued return the first 1,000 items, and how many
// there are; each is called at most once.
func (v *Values) SetEnding(outcome courier.State, f *courier.Failure, failed, rescued func() ([]courier.ItemFailure, int)) {
	v.ending = &Ending{
		outcome: string(outcome), err: flow.JobError(f),
		failed: itemList{count: -1, read: failed}, rescued: itemList{count: -1, read: rescued},
	}
}

func (e *Ending) value(name string) (any, bool) {
	switch name {
	case endingOutcome:
		return e.outcome, true
	case endingError:
		return e.err, true
	case endingFailed:
		return e.failed.values(), true
	case endingRescued:
		return e.rescued.values(), true
	}
	return nil, false
}

// RestoreFinally sets the outputs of the steps in the finally part that are in scope at a
// position in it, besides those that [Values.Restore] has set. Records are those of the steps,
// from which those of earlier passes are left out: they have no greater Seq than after.
func (v *Values) RestoreFinally(records []courier.StepExecution, pos courier.Position, after int64) {
	var list []courier.StepExecution
	for i := range records {
		if records[i].Seq > after && v.program.Tree.InFinally(records[i].Step) {
			list = append(list, records[i])
		}
	}
	v.restoreAll(list, pos, nil)
}
