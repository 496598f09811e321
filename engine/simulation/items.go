package simulation

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
)

// continues makes a loop one that goes on after failed items.
func (g *maker) continues(s *statement, config map[string]any) {
	s.continues, s.accepts = true, g.IntN(3) == 0
	config["on_item_failure"] = "continue"
	if s.accepts {
		config["then"] = "complete"
	}
	if s.tolerates = g.IntN(3) == 0; s.tolerates {
		config["continue_on"] = []any{string(courier.ReasonConnection)}
	}
	switch s.most = s.list; g.IntN(5) {
	case 0:
		s.most = g.IntN(3)
		config["max_failures"] = s.most
	case 1:
		s.most = s.list / 2
		config["max_failures"] = "50%"
	}
}

// loopsAround returns the loops around an entry of the list: a step, or a marker, at which a
// worker may be lost too.
func (p *program) loopsAround(index int) (around []*statement) {
	for _, s := range p.steps {
		loops := s.loops
		if d := slices.IndexFunc(loops, func(l *statement) bool { return index <= l.index || l.end <= index }); d >= 0 {
			loops = loops[:d]
		}
		if len(loops) > len(around) {
			around = loops
		}
	}
	return around
}

// resume resumes an execution, now and then in another way than where it stands.
func (w *world) resume(ctx context.Context, e *engine.Engine, id courier.ExecutionID) error {
	opt := &courier.ResumeOptions{By: courier.By{Actor: "operator", Reason: "it was looked at"}}
	r := w.dice("resume", int(w.numberOf(id)), fmt.Sprint(time.Since(w.start)))
	if x, err := e.Executions().Get(ctx, id); err == nil && (x.State == courier.Failed || x.State == courier.Paused) {
		opt.Seq = x.Seq
		if !w.dealWithItems(ctx, e, &x, opt) && !w.leaveWorkspace(&x, opt) {
			w.vary(ctx, e, &x, r, opt)
		}
	}
	_, err := e.Resume(ctx, id, opt)
	if err == nil && opt.Changes() && !opt.Elsewhere {
		w.mu.Lock()
		w.resumed[id]++
		w.mu.Unlock()
	}
	if errors.Is(err, courier.ErrInvalid) { // what was chosen at random does not fit
		_, err = e.Resume(ctx, id, &courier.ResumeOptions{By: opt.By})
	}
	return err
}

// vary chooses what a resume changes: nothing, the items, the step that failed, or where
// the execution goes on.
func (w *world) vary(ctx context.Context, e *engine.Engine, x *courier.Execution, r *rand.Rand, opt *courier.ResumeOptions) {
	p := w.programFor(x)
	_, shift, err := w.mendOf(ctx, x.Job, x.Version)
	if err != nil {
		return
	}
	at := x.Position.Step - shift
	if r.IntN(4) == 0 {
		opt.Version = w.mend(ctx, e, p, r)
	}
	if r.IntN(4) == 0 {
		opt.Set = w.set(p, at, r)
	}
	switch r.IntN(6) {
	case 0, 3, 4:
		list, err := e.Executions().FailedItems(ctx, x.ID)
		if err != nil || len(list) == 0 {
			return
		}
		for _, i := range r.Perm(len(list))[:1+r.IntN(len(list))] {
			opt.Items = append(opt.Items, list[i].ItemPath)
		}
	case 1:
		if s := p.steps[at]; s != nil {
			opt.Skip, opt.Outputs = true, map[string]any{"value": value(fmt.Sprint(w.numberOf(x.ID)), s.id, x.Position.Iteration())}
		}
	case 2:
		if steps := p.before(at); p.items && len(steps) > 0 {
			opt.From = steps[r.IntN(len(steps))]
		}
	}
}

// before returns the ids of the steps before an index.
func (p *program) before(index int) (ids []string) {
	for i := range index {
		if s := p.steps[i]; s != nil {
			ids = append(ids, s.id)
		}
	}
	return ids
}

// progress is what the records of the last attempt of an execution tell of its items.
type progress struct {
	p        *program
	x        *courier.Execution
	index    map[string]int // of visits, by their names
	done     map[int]bool   // visits that are over for good
	failures []*courier.StepExecution
	redone   []redone
	rescueState
}

func visitName(step int, iteration []int) string {
	return fmt.Sprintf("%d[%s]", step, courier.FormatIteration(iteration))
}

// progressOf reads the records. What lies behind a place to which an operator has gone back
// does not count if it was written before.
func (p *program) progressOf(x *courier.Execution, losses []courier.RepairPass, records []courier.StepExecution) (*progress, error) {
	g := &progress{p: p, x: x, index: make(map[string]int), done: make(map[int]bool), rescueState: newRescueState(x)}
	for i, v := range p.plan {
		g.index[fmt.Sprintf("%d[%s]", v.step, v.iteration)] = i
	}
	g.redone = g.redoneItems(losses, records)
	for i := range records {
		r := &records[i]
		g.apply(r.Seq)
		at, known := g.index[visitName(r.Step, r.Iteration)]
		switch over := r.State == courier.StepCompleted || r.State == courier.StepSkipped; {
		case g.void(r), g.replaced(r):
		case over && !known:
			return nil, fmt.Errorf("record %d of step %s, which the plan does not have", r.Seq, visitName(r.Step, r.Iteration))
		case known && g.done[at]:
			return nil, fmt.Errorf("record %d is of step %s, which was over, and is %s", r.Seq, visitName(r.Step, r.Iteration), r.State)
		case over:
			if err := g.checkPlace(r); err != nil {
				return nil, err
			}
			g.done[at] = true
		case r.Rescue != nil:
			if err := g.begins(r); err != nil {
				return nil, err
			}
		case r.FailedLoop != nil:
			if l, rescue := p.handler(r.Step, r.Reason); l == nil || rescue || l.index != *r.FailedLoop {
				return nil, fmt.Errorf("record %d of step %s, which is %s, fails an item of the loop at %d, want %+v", r.Seq, visitName(r.Step, r.Iteration), r.Reason, *r.FailedLoop, l)
			}
			// What has failed there before was executed again, and may have failed another loop.
			g.failures = slices.DeleteFunc(g.failures, func(f *courier.StepExecution) bool {
				return f.Step == r.Step && slices.Equal(f.Iteration, r.Iteration)
			})
			g.failures = append(g.failures, r)
		}
	}
	g.apply(math.MaxInt64)
	return g, nil
}

// void reports whether an operator has gone back before a record since it was written.
func (g *progress) void(r *courier.StepExecution) bool {
	return g.x.Repairs != nil && slices.ContainsFunc(g.x.Repairs.Passes, func(p courier.RepairPass) bool {
		return p.From != nil && r.Seq <= p.Seq && slices.Compare(g.placeOf(r), placeAt(*p.From)) >= 0
	})
}

// inside reports whether a visit lies in a loop, or for a step is it, in an iteration of
// the loops around.
func (g *progress) inside(v visit, step int, iteration []int) bool {
	s := g.p.steps[v.step]
	if v.step == step {
		return v.iteration == courier.FormatIteration(iteration)
	}
	d := slices.IndexFunc(s.loops, func(l *statement) bool { return l.index == step })
	return d == len(iteration) && d >= 0 && slices.Equal(v.path[:d], iteration)
}

// loopOf returns the loop of a failure, and its depth from 1 on.
func (g *progress) loopOf(r *courier.StepExecution, marker int) (*statement, int) {
	for _, s := range g.p.steps {
		if d := slices.IndexFunc(s.loops, func(l *statement) bool { return l.index == marker }); d >= 0 {
			return s.loops[d], d + 1
		}
	}
	return nil, 0
}

// inItem reports whether a visit lies in the item that a failure ended.
func (g *progress) inItem(v visit, r *courier.StepExecution) bool {
	l, d := g.loopOf(r, *r.FailedLoop)
	return l != nil && slices.Contains(g.p.steps[v.step].loops, l) && slices.Equal(v.path[:d], r.Iteration[:d])
}

// left reports whether a failure was not repaired: its step is not over, or something in
// the loop that was given up with it. A loop that accepts failed items is not given up any
// more when so many are left as it accepts, and what a loop in it accepts counts as over.
func (g *progress) left(r *courier.StepExecution) bool {
	if at, ok := g.index[visitName(r.Step, r.Iteration)]; ok {
		return !g.done[at]
	}
	loop, depth := g.loopOf(r, r.Step)
	if loop == nil {
		return !g.repaired(r)
	}
	items := make(map[int]bool)
	for i, v := range g.p.plan {
		if !g.done[i] && !g.needless(v) && g.inside(v, r.Step, r.Iteration) && !g.accepted(v, depth) {
			items[v.path[depth-1]] = true
		}
	}
	return len(items) > 0 && !(loop.accepts && len(items) <= loop.most)
}

// accepted reports whether a visit that is not done lies in a failed item of a loop that
// accepts as many as have failed, and that is deeper than so many others.
func (g *progress) accepted(v visit, depth int) bool {
	for d, l := range g.p.steps[v.step].loops {
		if d < depth || !l.accepts {
			continue
		}
		items := make(map[int]bool)
		for i, o := range g.p.plan {
			if !g.done[i] && !g.needless(o) && slices.Contains(g.p.steps[o.step].loops, l) && slices.Equal(o.path[:d], v.path[:d]) {
				items[o.path[d]] = true
			}
		}
		if len(items) <= l.most && slices.ContainsFunc(g.failures, func(f *courier.StepExecution) bool { return *f.FailedLoop == l.index && g.inItem(v, f) }) {
			return true
		}
	}
	return false
}

// repaired reports whether the item that a failure at a flow.end has ended was executed again
// since, which leaves no record there.
func (g *progress) repaired(r *courier.StepExecution) bool {
	return g.x.Repairs != nil && slices.ContainsFunc(g.x.Repairs.Passes, func(p courier.RepairPass) bool {
		return r.Seq <= p.Seq && !p.Settles() && (len(p.Items)+len(p.Rescued) == 0 || slices.ContainsFunc(p.Items, func(item courier.ItemPath) bool { return g.of(r, item) }))
	})
}

// counted returns the items of outermost loops that have failed, and how many of them
// fail the execution.
func (g *progress) counted() (items map[string]bool, rejected int) {
	items = make(map[string]bool)
	for _, r := range g.failures {
		if !g.left(r) {
			continue
		}
		l, d := g.loopOf(r, *r.FailedLoop)
		var around []*statement
		for _, s := range g.p.steps {
			if slices.Contains(s.loops, l) {
				around = s.loops[:d]
			}
		}
		for n := d - 2; n >= 0 && l != nil; n-- {
			if !around[n].continues {
				continue
			}
			if l.accepts {
				l = nil // it fails nothing around it
			} else {
				l, d = around[n], n+1
			}
		}
		if l == nil {
			continue
		}
		if name := visitName(l.index, r.Iteration[:d]); !items[name] {
			items[name] = true
			if !l.accepts {
				rejected++
			}
		}
	}
	return items, rejected
}

// checkItems checks an execution with items that has come to the end of its list: all that
// was not executed lies in items that failed, and these are counted and listed.
func (w *world) checkItems(ctx context.Context, x *courier.Execution, p *program, records []courier.StepExecution) error {
	if err := p.checkTaken(x); err != nil {
		return err
	}
	losses, err := w.lossesOf(ctx, x)
	if err != nil {
		return err
	}
	g, err := p.progressOf(x, losses, records)
	if err == nil {
		err = g.checkChosen(x, records)
	}
	rescued := x.Failure != nil && x.Failure.Reason == courier.ReasonRescued
	if items := rescued || x.Failure != nil && x.Failure.Reason == courier.ReasonItems; err != nil || x.State != courier.Completed && !items || x.Position.Step < len(p.job.Steps) {
		return err
	}
	for i, v := range p.plan {
		explained := slices.ContainsFunc(g.failures, func(r *courier.StepExecution) bool { return g.left(r) && g.inItem(v, r) })
		if !g.done[i] && !explained && !g.needless(v) {
			return fmt.Errorf("step %d[%s] was not executed, and is in no item that failed", v.step, v.iteration)
		}
	}
	if err := g.checkMost(); err != nil {
		return err
	}
	items, rejected := g.counted()
	_, shift, err := w.mendOf(ctx, x.Job, x.Version)
	if err != nil {
		return err
	}
	list, err := engine.New(w.store, registry(), nil).Executions().FailedItems(ctx, x.ID)
	for _, i := range list {
		if !items[visitName(i.Loop-shift, i.Iteration)] {
			return fmt.Errorf("%+v is listed as a failed item, which are %v", i, items)
		}
	}
	switch {
	case err != nil:
		return err
	case x.FailedItems != len(items) || len(list) != len(items):
		return fmt.Errorf("%d items have failed, but %d are counted and %d listed: %v, %+v", len(items), x.FailedItems, len(list), items, list)
	case (x.State == courier.Completed || rescued) != (rejected == 0):
		return fmt.Errorf("it is %s, with %d failed items that are not accepted", x.State, rejected)
	}
	if rescued && !slices.ContainsFunc(p.saved, func(b *statement) bool { return b.fails }) {
		return errors.New("it failed because of rescues, which is not what the job says")
	}
	return g.checkRescued(ctx, w, shift)
}

// checkChosen checks the repairs of chosen items: before the place where the execution goes
// on behind them, nothing is executed but in these items.
func (g *progress) checkChosen(x *courier.Execution, records []courier.StepExecution) error {
	if x.Repairs == nil {
		return nil
	}
	for i, pass := range x.Repairs.Passes {
		until := int64(math.MaxInt64)
		if i+1 < len(x.Repairs.Passes) {
			until = x.Repairs.Passes[i+1].Seq
		}
		for _, r := range records {
			items := slices.Concat(pass.Items, pass.Rescued)
			if len(items) == 0 || pass.Settles() || r.Seq <= pass.Seq || r.Seq > until || g.p.steps[r.Step] == nil || slices.Compare(g.placeOf(&r), placeAt(pass.Then)) >= 0 {
				continue
			}
			if !slices.ContainsFunc(items, func(item courier.ItemPath) bool { return g.of(&r, item) }) {
				return fmt.Errorf("record %d is of step %s, though only the items %v were to be executed again", r.Seq, visitName(r.Step, r.Iteration), items)
			}
		}
	}
	return nil
}

// placeOf returns where a record was written, in the order of the walk: the index of each
// loop around the step and its iteration, and the index of the step.
func (g *progress) placeOf(r *courier.StepExecution) (place []int) {
	for i, l := range g.p.loopsAround(r.Step) {
		place = append(place, l.index, r.Iteration[i])
	}
	return append(place, r.Step)
}

// placeAt is placeOf for a position.
func placeAt(p courier.Position) (place []int) {
	for _, l := range p.Loops {
		place = append(place, l.Step, l.Index)
	}
	return append(place, p.Step)
}

// checkMost checks that no outermost loop that is over has more failed items than it may.
func (g *progress) checkMost() error {
	failed := make(map[string]map[int]bool)
	for _, r := range g.failures {
		l, d := g.loopOf(r, *r.FailedLoop)
		if !g.left(r) || slices.ContainsFunc(g.p.loopsAround(l.index), func(o *statement) bool { return o.continues }) {
			continue
		}
		key := visitName(l.index, r.Iteration[:d-1])
		if failed[key] == nil {
			failed[key] = make(map[int]bool)
		}
		if failed[key][r.Iteration[d-1]] = true; len(failed[key]) > l.most {
			return fmt.Errorf("%d items of loop %s have failed, which is more than %d", len(failed[key]), key, l.most)
		}
	}
	return nil
}

// checkTaken checks that a failure of an execution is none of an item.
func (p *program) checkTaken(x *courier.Execution) error {
	f := x.Failure
	if x.State != courier.Failed || f.Step < 0 {
		return nil
	}
	switch f.Reason {
	case courier.ReasonError, courier.ReasonPanic, courier.ReasonTimeout, courier.ReasonStalled, courier.ReasonWorkerLost, courier.ReasonConnection:
		if b, _ := p.handler(f.Step, f.Reason); b != nil {
			return fmt.Errorf("it failed by %s at step %d, which should have come to %v", f.Reason, f.Step, b)
		}
	}
	return nil
}

// countRepairs counts what operators have changed.
func (w *world) countRepairs(x *courier.Execution, records []courier.StepExecution) {
	for i := range records {
		if records[i].Reason == courier.ReasonOperator {
			w.counts["step skipped by operator"]++
		}
	}
	w.countRescues(x, records)
	if x.Repairs == nil {
		return
	}
	if n := len(x.Repairs.Passes) + len(x.Repairs.Versions); n > 1 {
		w.counts["repaired again"] += n - 1
	}
	if hasMoved(x) {
		w.counts["indexes moved"]++
	}
	for i, p := range x.Repairs.Passes {
		if p.Restart != nil {
			w.counts["items restarted"]++
		}
		lost := func(r courier.StepExecution) bool { return r.Reason == courier.ReasonWorkerLost && r.Seq > p.Seq }
		if i+1 == len(x.Repairs.Passes) && slices.ContainsFunc(records, lost) {
			w.counts["worker lost in a repair"]++
		}
		switch {
		case p.From != nil:
			w.counts["resumed from"]++
		case p.Settles(): // see countRescues
		case p.Items != nil:
			w.counts["items chosen"]++
		default:
			w.counts["items repaired"]++
		}
	}
}

// goesBack reports whether steps of an execution run again by one of its passes.
func goesBack(r *courier.Repairs) bool {
	return r != nil && slices.ContainsFunc(r.Passes, func(p courier.RepairPass) bool { return p.From != nil || p.Restart != nil || p.Rescued != nil })
}
