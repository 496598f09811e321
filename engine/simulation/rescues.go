package simulation

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
)

// hasRescues reports whether programs of the world have rescues. Those of the others are what
// they would be if there were no rescues at all.
func (w *world) hasRescues() bool { return !w.plainly && w.dice("rescues").IntN(2) == 0 }

// rescues are the random numbers from which a program's rescues are drawn; nil if it has none.
func (w *world) rescues(serial string) *rand.Rand {
	if !w.hasRescues() {
		return nil
	}
	return w.dice("rescues of", serial)
}

// saves decides whether a loop that goes on after failed items has a rescue. It has no loops in
// it then, and lies in none that goes on.
func (g *maker) saves(s *statement, sc *scope) {
	if g.extra == nil || !s.continues || slices.ContainsFunc(sc.loops, func(l *statement) bool { return l.continues }) {
		return
	}
	s.saved = g.extra.IntN(3) > 0
}

// try makes a block with a rescue.
func (g *maker) attempt(s *statement, sc *scope) {
	s.kind, s.saved = attempt, true
	s.id = fmt.Sprintf("t%d", len(g.p.job.Steps))
	s.index = g.add(courier.StepSpec{ID: s.id, Type: "flow.try"})
	inner := *sc
	inner.depth, inner.flat, inner.maybe = sc.depth-1, true, nil
	s.body, _ = g.block(inner, 1+g.IntN(2))
	g.rescue(s, &inner)
	s.end = g.add(courier.StepSpec{Type: "flow.end"})
	sc.maybe = nil
}

// rescue makes the rescue of a block. Its steps see what has run before the block.
func (g *maker) rescue(s *statement, sc *scope) {
	config := make(map[string]any)
	switch g.extra.IntN(6) {
	case 0, 1:
		s.notOn, config["no_rescue_on"] = courier.ReasonError, []any{string(courier.ReasonError)}
	case 2, 3:
		s.fails, config["rescued"] = true, "fail"
	}
	s.els = g.add(courier.StepSpec{Type: "flow.rescue", Config: config})
	inner := *sc
	inner.depth, inner.flat, inner.maybe, inner.saver = sc.depth-1, true, nil, s
	s.rescue, _ = g.block(inner, 1+g.IntN(2))
	s.depth = len(sc.loops)
	g.p.saved = append(g.p.saved, s)
}

// cause is the reference of a step in a rescue to the step that has failed.
func (s *statement) cause() string {
	if s.kind == attempt {
		return "${context:" + s.id + ".error.step}"
	}
	return "${context:loop.error.step}"
}

// checkCause checks that a step in a rescue was told what it is for: a step or a marker in the
// body.
func (s *statement) checkCause(cfg config) error {
	if s.saver == nil {
		return nil
	}
	step, err := strconv.Atoi(cfg.Cause)
	if b := s.saver; err != nil || step-cfg.Shift <= b.index || step-cfg.Shift >= b.els {
		return fmt.Errorf("the rescue of the block at %d is for step %q", b.index+cfg.Shift, cfg.Cause)
	}
	return nil
}

// takes reports whether a failure in the body of a block comes to its rescue.
func (s *statement) takes(reason courier.Reason) bool {
	return s.saved && reason != s.notOn && (s.kind == attempt || s.goesOn(reason))
}

// goesOn reports whether a loop goes on with its next item after a failure.
func (s *statement) goesOn(reason courier.Reason) bool {
	return s.continues && (reason != courier.ReasonConnection || s.tolerates)
}

// handler returns what a failure of an entry comes to: a block whose rescue begins, or the loop
// whose item fails; nil if the execution does.
func (p *program) handler(index int, reason courier.Reason) (block *statement, rescue bool) {
	for _, l := range p.loopsAround(index) {
		if l.goesOn(reason) {
			block = l
		}
	}
	for _, b := range p.saved {
		if b.index < index && index < b.els && b.takes(reason) && (block == nil || b.index >= block.index) {
			block, rescue = b, true
		}
	}
	return block, rescue
}

// instance names a block with a rescue in an iteration.
func (s *statement) instance(iteration []int) string {
	return visitName(s.index, iteration[:min(s.depth, len(iteration))])
}

// A rescueState is what is known of the rescues of an execution.
type rescueState struct {
	begun   map[string]*courier.StepExecution // by the blocks: with which failure
	settled map[string]bool                   // items that were accepted or skipped
	passes  []courier.RepairPass              // those that are not applied yet
}

func newRescueState(x *courier.Execution) rescueState {
	s := rescueState{begun: make(map[string]*courier.StepExecution), settled: make(map[string]bool)}
	if x.Repairs != nil {
		s.passes = x.Repairs.Passes
	}
	return s
}

// begins takes note of a record with which a rescue began.
func (g *progress) begins(r *courier.StepExecution) error {
	b, rescue := g.p.handler(r.Step, r.Reason)
	if !rescue || b.index != *r.Rescue {
		return fmt.Errorf("record %d of step %s, which is %s, begins the rescue at %d, want %+v", r.Seq, visitName(r.Step, r.Iteration), r.Reason, *r.Rescue, b)
	}
	if before := g.begun[b.instance(r.Iteration)]; before != nil {
		return fmt.Errorf("record %d of step %s begins a rescue that record %d has begun", r.Seq, visitName(r.Step, r.Iteration), before.Seq)
	}
	g.begun[b.instance(r.Iteration)] = r
	// What has failed there before was executed again.
	g.failures = slices.DeleteFunc(g.failures, func(f *courier.StepExecution) bool {
		return f.Step == r.Step && slices.Equal(f.Iteration, r.Iteration)
	})
	return nil
}

// checkPlace checks that a step that was executed lies in the part of each block that was to
// run.
func (g *progress) checkPlace(r *courier.StepExecution) error {
	for _, b := range g.p.saved {
		if r.Step <= b.index || r.Step >= b.end {
			continue
		}
		if begun := g.begun[b.instance(r.Iteration)] != nil; begun != (r.Step > b.els) {
			return fmt.Errorf("record %d is of step %s, but that the rescue of the block at %d has begun is %t", r.Seq, visitName(r.Step, r.Iteration), b.index, begun)
		}
	}
	return nil
}

// needless reports whether a visit was not to be made: it lies in a body that has failed, or in
// a rescue that was not needed, or in an item that an operator has settled.
func (g *progress) needless(v visit) bool {
	for _, l := range g.p.steps[v.step].loops {
		if d := slices.Index(g.p.steps[v.step].loops, l); g.settled[visitName(l.index, v.path[:d+1])] {
			return true
		}
	}
	return slices.ContainsFunc(g.p.saved, func(b *statement) bool {
		return b.index < v.step && v.step < b.end && (g.begun[b.instance(v.path)] != nil) == (v.step < b.els)
	})
}

// apply takes note of what operators have asked for until a record was written.
func (g *progress) apply(until int64) {
	for len(g.passes) > 0 && g.passes[0].Seq < until {
		p := &g.passes[0]
		g.passes = g.passes[1:]
		for _, item := range p.Rescued {
			g.again(item)
		}
		g.failures = slices.DeleteFunc(g.failures, func(r *courier.StepExecution) bool {
			item := func(i courier.ItemPath) bool { return r.Seq <= p.Seq && g.of(r, i) }
			if slices.ContainsFunc(p.Rescued, item) {
				return true
			}
			if at := slices.IndexFunc(p.Rescue, item); at >= 0 {
				for _, b := range g.p.saved {
					if i := p.Rescue[at]; b.index == i.Loop && r.Step < b.els {
						g.begun[b.instance(r.Iteration)] = r
						return true
					}
				}
			}
			at := slices.IndexFunc(p.Items, item)
			if !p.Settles() || at < 0 {
				return false
			}
			i := p.Items[at]
			g.settled[visitName(i.Loop, i.Iteration)] = true
			delete(g.begun, visitName(i.Loop, i.Iteration)) // it has failed in the rescue, if that has begun
			return true
		})
	}
}

// again forgets the rescue of an item that is executed again, and all in it.
func (g *progress) again(item courier.ItemPath) {
	delete(g.begun, visitName(item.Loop, item.Iteration))
	for _, b := range g.p.saved {
		if b.index != item.Loop {
			continue
		}
		in := func(step int, path []int) bool {
			return b.els < step && step < b.end && len(path) >= b.depth && slices.Equal(path[:b.depth], item.Iteration)
		}
		for i, v := range g.p.plan {
			if in(v.step, v.path) {
				delete(g.done, i)
			}
		}
		for _, inner := range g.p.saved {
			for key, r := range g.begun {
				if inner.kind == attempt && in(inner.index, r.Iteration) && key == inner.instance(r.Iteration) {
					delete(g.begun, key)
				}
			}
		}
	}
}

// rescued lists the items that were rescued.
func (g *progress) rescued() (items []string) {
	for _, b := range g.p.saved {
		for key, r := range g.begun {
			if b.kind != loop || key != b.instance(r.Iteration) {
				continue
			}
			item := courier.ItemPath{Loop: b.index, Iteration: r.Iteration[:b.depth]}
			if !slices.ContainsFunc(g.failures, func(f *courier.StepExecution) bool { return g.left(f) && g.of(f, item) }) {
				items = append(items, key)
			}
		}
	}
	slices.Sort(items)
	return items
}

// checkRescued compares the rescued items with what is counted and listed.
func (g *progress) checkRescued(ctx context.Context, w *world, shift int) error {
	list, err := engine.New(w.store, registry(), nil).Executions().RescuedItems(ctx, g.x.ID)
	if err != nil {
		return err
	}
	var listed []string
	for _, i := range list {
		listed = append(listed, visitName(i.Loop-shift, i.Iteration))
	}
	slices.Sort(listed)
	if items := g.rescued(); g.x.RescuedItems != len(items) || !slices.Equal(items, listed) {
		return fmt.Errorf("the items %v were rescued, but %d are counted, and %v listed", items, g.x.RescuedItems, listed)
	}
	return nil
}

// dealWithItems chooses what a resume does with failed and rescued items, besides or in place of
// executing some of them again, and reports whether it has.
func (w *world) dealWithItems(ctx context.Context, e *engine.Engine, x *courier.Execution, opt *courier.ResumeOptions) bool {
	r := w.dice("items", int(w.numberOf(x.ID)), fmt.Sprint(x.Seq))
	if !w.hasRescues() || x.FailedItems+x.RescuedItems == 0 || r.IntN(3) == 0 {
		return false
	}
	failed, err := e.Executions().FailedItems(ctx, x.ID)
	if err != nil {
		return false
	}
	rescued, err := e.Executions().RescuedItems(ctx, x.ID)
	if err != nil {
		return false
	}
	if r.IntN(4) == 0 {
		opt.Version = w.mend(ctx, e, w.programFor(x), r)
	}
	for i := range failed {
		item := failed[i].ItemPath
		switch r.IntN(8) {
		case 0:
			opt.Accept = append(opt.Accept, item)
		case 1:
			opt.SkipItems = append(opt.SkipItems, item)
		case 2, 3, 4:
			opt.Rescue = append(opt.Rescue, item)
		}
	}
	if len(rescued) > 0 && r.IntN(2) == 0 {
		opt.Items = append(opt.Items, rescued[r.IntN(len(rescued))].ItemPath)
	}
	return opt.Changes()
}

// countRescues counts what has become of rescues.
func (w *world) countRescues(x *courier.Execution, records []courier.StepExecution) {
	p, begun := w.programFor(x), false
	for i := range records {
		s := &records[i]
		if s.Rescue != nil {
			w.counts["rescue begun"]++
			w.counts["rescue begun by "+string(s.Reason)]++
			begun = true
		}
		lost := s.Reason == courier.ReasonWorkerLost
		if begun && slices.ContainsFunc(p.saved, func(b *statement) bool { return b.els < s.Step && s.Step < b.end }) {
			switch {
			case lost:
				w.counts["worker lost in a rescue"]++
			case s.FailedLoop != nil:
				w.counts["rescue failed"]++
			}
		}
	}
	if x.Repairs == nil {
		return
	}
	for i := range x.Repairs.Passes {
		p := &x.Repairs.Passes[i]
		for what, n := range map[string]int{"rescued by operator": len(p.Rescue), "rescued items chosen": len(p.Rescued)} {
			if n > 0 {
				w.counts[what] += n
			}
		}
		switch {
		case p.Accepted:
			w.counts["items accepted"]++
		case p.Skipped:
			w.counts["items skipped"]++
		}
	}
}

// String names a block in messages.
func (s *statement) String() string {
	if s == nil {
		return "nothing"
	}
	return strings.TrimSpace(cmp.Or(s.id, "the block") + " at " + strconv.Itoa(s.index))
}
