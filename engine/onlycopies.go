package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/note"
	"github.com/courierhq/courier/store"
)

// cancelled ends the execution on request. A second cancel may come before the finally part has
// begun because of the first one: what was refused then is written without that.
func (r *run) cancelled() bool {
	pos := r.x.Position
	if r.walk != nil {
		pos = r.walk.Position()
	}
	for r.lease.Held() {
		if err := r.conclude(&store.Transition{To: courier.Cancelled, Position: pos, DiskBytes: r.diskBytes()}); !errors.Is(err, courier.ErrConflict) {
			break
		}
	}
	return true
}

func (r *run) diskBytes() int64 {
	if !r.used {
		return 0
	}
	return r.e.work.Size(r.x.ID)
}

// holdReported keeps what an attempt has written that reports to have removed the source.
func (r *run) holdReported(s *courier.StepExecution, files []courier.File) {
	if err := r.e.work.HoldReported(r.x.ID, s, files); err != nil {
		r.log.Error("record files that may be the only copies", "error", err)
	}
}

// stopsAt takes note of the files that nobody has delivered while the execution does not get
// past a step: steps that are executed later, for other files of the same names, must not
// replace them.
func (r *run) stopsAt(step int) {
	if !r.used || step >= r.program.Tree.Len() {
		return
	}
	loops, iteration := r.iterationOf(step)
	err := r.e.work.Stopped(r.x.ID, r.placeOf(step, iteration), func(f note.HeldFile) bool {
		holder, known := r.program.Tree.Head(f.Step)
		if !known {
			return true
		}
		for i, marker := range r.program.Tree.Loops(holder) {
			if i >= len(loops) || loops[i] != marker || i >= len(f.Iteration) {
				break
			}
			if f.Iteration[i] != iteration[i] {
				return false // an item that was over: it was delivered, or noted when it failed
			}
		}
		return true
	})
	if err != nil {
		r.log.Error("record files that were not delivered", "error", err)
	}
}

// gotPast takes note that a step was completed.
func (r *run) gotPast(step int) {
	if !r.used {
		return
	}
	_, iteration := r.iterationOf(step)
	if err := r.e.work.Passed(r.x.ID, r.placeOf(step, iteration)); err != nil {
		r.log.Error("record files that were delivered", "error", err)
	}
}

// iterationOf returns the loops around a step at which the execution stands, or around a
// marker, and their iterations.
func (r *run) iterationOf(step int) (loops, iteration []int) {
	loops, iteration = r.program.Tree.Loops(step), r.walk.Iteration()
	n := min(len(loops), len(iteration))
	return loops[:n], iteration[:n]
}

// placeOf names a step in an iteration.
func (r *run) placeOf(step int, iteration []int) string {
	return fmt.Sprintf("%s[%s]", cmp.Or(r.program.Tree.Spec(step).ID, strconv.Itoa(step)), courier.FormatIteration(iteration))
}

// onlyCopies returns the files in the workspace that may exist nowhere else; nil if the
// execution has no workspace. It looks there also if a lost worker has not said that it has
// used it, and after the workspace was taken for lost.
func (r *run) onlyCopies() *courier.OnlyCopies {
	if !r.used && !r.reclaimed && r.x.Attempt == 1 && r.x.Repairs == nil {
		return nil // nobody has been there
	}
	clean := r.secrets.Clean
	if !r.secrets.Known() {
		clean = nil
	}
	c := r.e.work.LeftIn(r.x.ID, r.used, clean)
	r.used = c != nil
	return c
}

// letGo removes the workspace of an execution that has ended, unless it holds files that
// may exist nowhere else.
func (r *run) letGo(kept *courier.OnlyCopies) {
	if !r.used && !r.reclaimed {
		return
	}
	r.closeResources()
	j := r.e.janitor()
	j.LetGo(&r.x, kept)
	if kept != nil && kept.Any() && !r.secrets.Known() {
		j.ListAgain(context.WithoutCancel(r.lease.Context()), r.x.ID)
	}
}

// DiscardKept removes the files that an execution keeps after it has ended for good; see
// [Executions.Kept]. Files are their names, as shown to the operator. They must be all names
// that the execution lists: otherwise nothing is done, and the error matches
// [courier.ErrConflict]. Files that the execution does not list are kept, and it lists some of
// them afterwards. The actor and the reason are required. An engine with that workspace removes
// the files: this one at once, others within a minute. Until then the execution has the request
// "discard".
func (e *Engine) DiscardKept(ctx context.Context, id courier.ExecutionID, files []string, by courier.By) (courier.Execution, error) {
	r := store.Request{Execution: id, Kind: store.RequestDiscard, By: by.Actor, Reason: by.Reason, Files: files}
	x, err := e.send(ctx, &r)
	if err != nil || x.Workspace != e.opt.WorkspaceID {
		return x, err
	}
	e.janitor().Discard(ctx, &x)
	return e.store.Execution(ctx, id)
}
