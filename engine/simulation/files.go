package simulation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// In some worlds steps leave files in the workspace, which steps that refer to them need.
// Operators have executions go on without their workspace. The files stay where they are,
// and have the times at which they were written: a step that is executed later must not
// need one that is older than that.

// leaves reports whether a step leaves a file.
func (w *world) leaves(id string) bool {
	return w.dice("files").IntN(3) == 0 && id != pad && w.dice("leaves", id).IntN(4) > 0
}

func fileOf(id string, iteration []int) string {
	return "files/" + id + "-" + courier.FormatIteration(iteration)
}

// leave writes the file of a step.
func (a *act) leave(id string) error {
	if !a.p.w.leaves(id) {
		return nil
	}
	f, err := a.job.Files().Create(fileOf(id, a.job.Iteration()))
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(f, int64(time.Since(a.p.w.start)))
	return errors.Join(err, f.Commit())
}

// checkFile returns an error if a step needs a file that was lost. A step that an operator
// has skipped leaves none.
func (a *act) checkFile(r *reference) error {
	w := a.p.w
	if !w.leaves(r.from.id) {
		return nil
	}
	name := fileOf(r.from.id, r.at(a.job.Iteration()))
	f, err := a.job.Files().Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	written, err := strconv.ParseInt(string(text), 10, 64)
	w.mu.Lock()
	defer w.mu.Unlock()
	if lost := w.lost[a.number]; err == nil && time.Duration(written) < lost && !w.skipped[fmt.Sprint(a.number, r.from.id)] {
		return fmt.Errorf("it needs %s of %v, which was lost with the workspace at %v", name, time.Duration(written), lost)
	}
	return err
}

// lose records that an execution continues without its workspace, which steps run again, and
// which were skipped.
func (w *world) lose(r *store.Request) {
	number := w.number(r.Execution)
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Kind == courier.RequestRestart || r.Change != nil && r.Change.Elsewhere {
		w.lost[number] = time.Since(w.start)
		w.counts["workspace lost"]++
	}
	if c := r.Change; c != nil {
		w.back[r.Execution] = w.back[r.Execution] || goesBack(c.Repairs)
		if c.Elsewhere && c.Repairs != nil && len(c.Repairs.Passes) > 0 {
			passes := c.Repairs.Passes
			w.losses[r.Execution] = append(w.losses[r.Execution], passes[len(passes)-1])
		}
		if c.Skipped != nil {
			w.skipped[fmt.Sprint(number, c.Skipped.ID)] = true
		}
	}
}

// wentBack reports whether an operator made steps of an execution run again.
func (w *world) wentBack(id courier.ExecutionID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.back[id]
}

// lossesOf returns the losses of an execution, with the indexes that the steps of its program
// have.
func (w *world) lossesOf(ctx context.Context, x *courier.Execution) ([]courier.RepairPass, error) {
	w.mu.Lock()
	list := slices.Clone(w.losses[x.ID])
	w.mu.Unlock()
	for i := range list {
		_, shift, err := w.mendOf(ctx, x.Job, versionAt(x, list[i].FilesLost))
		if err != nil {
			return nil, err
		}
		list[i].Restart = slices.Clone(list[i].Restart)
		for j := range list[i].Restart {
			list[i].Restart[j].Loop -= shift
		}
	}
	return list, nil
}

// leaveWorkspace sometimes makes an execution continue without its workspace, more often if items
// have failed.
func (w *world) leaveWorkspace(x *courier.Execution, opt *courier.ResumeOptions) bool {
	if x.Workspace == "" || !w.programFor(x).items {
		return false
	}
	r := w.dice("lose", int(w.numberOf(x.ID)), fmt.Sprint(time.Since(w.start)))
	opt.Elsewhere = r.IntN(4) < 1+2*min(1, x.FailedItems)
	return opt.Elsewhere
}

// A redone item began again because files of it were lost.
type redone struct {
	courier.ItemPath
	seq int64 // the records of it up to this one don't count
}

// redoneItems lists the items that were executed again from their first step: those of the
// loops of a pass that had failed, and of which that step has a later record. An item in
// which the execution went on where it stood has later records too, and did not begin again.
func (g *progress) redoneItems(losses []courier.RepairPass, records []courier.StepExecution) (list []redone) {
	for _, p := range losses {
		for i := range records {
			r := &records[i]
			if r.FailedLoop == nil {
				continue
			}
			for _, restart := range p.Restart {
				if l, d := g.loopOf(r, restart.Loop); l != nil && len(r.Iteration) >= d && r.Seq <= restart.UpTo {
					item := courier.ItemPath{Loop: restart.Loop, Iteration: r.Iteration[:d]}
					if seq, again := g.beganAgain(records, item, restart.UpTo); again {
						list = append(list, redone{item, seq})
					}
				}
			}
		}
	}
	return list
}

// beganAgain reports whether the first step of an item has a record behind one, and returns
// the number up to which the records of the item don't count then.
func (g *progress) beganAgain(records []courier.StepExecution, item courier.ItemPath, behind int64) (seq int64, ok bool) {
	var first []int
	for i := range records {
		switch r := &records[i]; {
		case !g.of(r, item) || g.p.steps[r.Step] == nil: // a loop that was given up
		case r.Seq > behind:
			if slices.Compare(g.placeOf(r), first) <= 0 {
				return r.Seq - 1, true
			}
		case first == nil || slices.Compare(g.placeOf(r), first) < 0:
			first = g.placeOf(r)
		}
	}
	return 0, false
}

// of reports whether a record lies in an item.
func (g *progress) of(r *courier.StepExecution, item courier.ItemPath) bool {
	d := len(item.Iteration)
	loops := g.p.loopsAround(r.Step)
	return len(loops) >= d && loops[d-1].index == item.Loop && slices.Equal(r.Iteration[:d], item.Iteration)
}

// replaced reports whether a record is of an item that began again later.
func (g *progress) replaced(r *courier.StepExecution) bool {
	return slices.ContainsFunc(g.redone, func(item redone) bool { return r.Seq <= item.seq && g.of(r, item.ItemPath) })
}
