package simulation

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/courierhq/courier"
)

// A program is a random job together with its expected behaviour, computed by a plain recursion
// that does not use package flow.
type program struct {
	job     courier.Job
	body    []statement
	steps   map[int]*statement // those that do work, by index, but for those of the finally part
	finally int                // the index of the flow.finally; -1 if there is none
	last    []statement        // behind it
	finals  map[int]*statement // the steps of these, by index
	plan    []visit
	restart bool         // it has loops that a resume starts again
	items   bool         // it has loops that go on after failed items, and none that start again
	saved   []*statement // blocks with a rescue
}

// A statement is a step or a block of them.
type statement struct {
	kind    kind
	index   int
	id      string
	loops   []*statement // around it, outermost first
	inputs  []reference  // of a step
	list    int          // iterations of a loop
	end     int          // index of the flow.end of a loop
	restart bool         // a resume starts the loop again
	// continues says that a loop goes on after failed items, accepts that it completes
	// with them, tolerates that it also goes on after those of class connection.
	continues, accepts, tolerates bool
	most                          int // how many items of the loop may fail
	holds                         func(iteration []int) bool
	body                          []statement
	orElse                        []statement

	saved  bool           // the block has a rescue
	rescue []statement    // its steps
	els    int            // index of its flow.rescue
	depth  int            // how many loops it lies in; a loop lies in itself
	notOn  courier.Reason // which does not come to the rescue
	fails  bool           // the execution fails at its end because of the rescue
	saver  *statement     // of a step: the innermost block in whose rescue it is
}

type kind int

const (
	work kind = iota
	loop
	branch
	attempt // a flow.try
)

// A reference is an input that a step gets from an earlier one.
type reference struct {
	name string
	from *statement
	// shared is how many loops around both are the same; of deeper ones the
	// last iteration counts.
	shared int
}

// A visit is one execution of a step that the plan asks for.
type visit struct {
	step      int
	iteration string
	path      []int // the iteration
	// again is where the plan goes on if a resume starts a loop again: the index
	// of the visit with which that loop began; -1 outside of such loops.
	again int
}

// maker makes a program.
type maker struct {
	*rand.Rand
	p      *program
	serial string
	refers bool       // steps refer to outputs, which they can't if steps may be skipped
	extra  *rand.Rand // of rescues; nil if there are none
}

// scope is the context of the statement that the maker makes.
type scope struct {
	depth   int
	loops   []*statement
	visible []*statement // steps that have certainly run before
	maybe   *statement   // a branch of the same block, the first step of which may have run
	flat    bool         // there are no loops in it
	saver   *statement   // the innermost block in whose rescue it is
}

// types are the step types of programs.
var types = []string{"sim.work", "sim.work", "sim.stall"}

// newProgram makes a version of the job called name. The serial is in its
// params and in the configuration of each step. Rescues are drawn from extra; nil means that
// it has none.
func newProgram(r, extra *rand.Rand, name, serial string) *program {
	p := &program{steps: make(map[int]*statement), finally: -1}
	p.job = courier.Job{Name: name, FailurePolicy: policy(r), Limit: []int{0, 0, 0, 1, 2}[r.IntN(5)]}
	if r.IntN(3) == 0 {
		p.job.LimitKeys = []string{"${context:params.partner}"}
	}
	p.job.Params = map[string]any{"partner": "", "program": serial, "note": ""}
	p.items = p.job.FailurePolicy.Type != courier.RetryJob && r.IntN(2) == 0
	g := &maker{Rand: r, p: p, serial: serial, refers: p.job.FailurePolicy.Type != courier.SkipAndContinue}
	if p.items {
		g.extra = extra
	}
	p.body, _ = g.block(scope{depth: 3}, 1+r.IntN(4))
	p.visits(p.body, nil, -1)
	return p
}

func policy(r *rand.Rand) courier.FailurePolicy {
	f := courier.FailurePolicy{Type: []courier.Policy{
		courier.Stop, courier.RetryStep, courier.RetryStep, courier.RetryStep, courier.RetryJob, courier.SkipAndContinue,
	}[r.IntN(6)]}
	if f.Type == courier.RetryStep || f.Type == courier.RetryJob {
		retries, base, most := r.IntN(4), time.Duration(1+r.IntN(5_000_000_000)), time.Duration(1+r.IntN(30_000_000_000))
		f.MaxRetries, f.BackoffBase, f.BackoffMax = &retries, &base, &most
		f.Jitter = courier.JitterNone // it depends on the id, which a replay does not have again
	}
	return f
}

// ownPolicy gives one step in four a policy of its own. It never skips a step whose
// outputs others may refer to.
func (g *maker) ownPolicy(s *courier.StepSpec) {
	p := policy(g.Rand)
	switch {
	case g.IntN(4) > 0:
		return
	case p.Type == courier.RetryJob:
		p.Type = courier.RetryStep
	case p.Type == courier.SkipAndContinue && g.refers:
		p.Type = courier.Stop
	}
	if p.Type == courier.RetryStep && g.IntN(2) == 0 {
		p.NoRetryOn = []courier.Reason{courier.ReasonPanic}
	}
	s.FailurePolicy = p
}

func (g *maker) add(s courier.StepSpec) int {
	g.p.job.Steps = append(g.p.job.Steps, s)
	return len(g.p.job.Steps) - 1
}

// block makes n statements and returns what is visible after them.
func (g *maker) block(sc scope, n int) ([]statement, []*statement) {
	list := make([]statement, 0, n)
	for range n {
		list = append(list, statement{loops: sc.loops})
		s := &list[len(list)-1] // there is room for all, so it stays where it is
		switch k := g.IntN(10); {
		case k < 2 && sc.depth > 0 && !sc.flat && len(g.p.job.Steps) < 20:
			g.foreach(s, &sc)
		case k < 4 && sc.depth > 0 && len(g.p.job.Steps) < 20:
			g.choice(s, &sc)
		case g.extra != nil && sc.depth > 0 && len(g.p.job.Steps) < 20 && g.extra.IntN(4) == 0:
			g.attempt(s, &sc)
		default:
			g.step(s, &sc)
		}
	}
	return list, sc.visible
}

func (g *maker) step(s *statement, sc *scope) {
	s.id = fmt.Sprintf("s%d", len(g.p.job.Steps))
	config := map[string]any{"id": s.id, "program": g.serial, "secret": "secret:canary", "note": "context:params.note"}
	if d := len(sc.loops); d > 0 {
		config["item"] = "context:loop.current_item"
	}
	if len(sc.visible) > 0 && g.refers {
		inputs := make(map[string]any)
		for range 1 + g.IntN(2) {
			from := sc.visible[g.IntN(len(sc.visible))]
			ref := reference{name: from.id, from: from, shared: shared(from.loops, sc.loops)}
			s.inputs = append(s.inputs, ref)
			inputs[ref.name] = "context:" + from.id + ".value"
		}
		config["inputs"] = inputs
	}
	if s.saver = sc.saver; s.saver != nil {
		config["cause"] = s.saver.cause()
	}
	spec := courier.StepSpec{ID: s.id, Type: types[g.IntN(len(types))], Config: config}
	if g.IntN(3) == 0 {
		timeout := time.Duration(1+g.IntN(40)) * time.Second
		spec.Timeout = &timeout
	}
	g.ownPolicy(&spec)
	s.index = g.add(spec)
	g.p.steps[s.index] = s
	sc.visible = append(sc.visible[:len(sc.visible):len(sc.visible)], s)
}

// item returns the n-th item of a loop's list.
func (s *statement) item(n int) string { return fmt.Sprintf("item-%d-%d", s.index, n) }

// shared returns the number of loops that contain both places.
func shared(a, b []*statement) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func (g *maker) foreach(s *statement, sc *scope) {
	s.kind, s.list, s.restart, s.index = loop, g.IntN(4), g.IntN(5) == 0 && !g.p.items, len(g.p.job.Steps)
	g.p.restart = g.p.restart || s.restart
	items := make([]any, s.list)
	for i := range items {
		items[i] = s.item(i)
	}
	config := map[string]any{"source": items}
	if s.restart {
		config["on_resume"] = "restart"
	}
	if g.IntN(3) == 0 { // as the JSON text of a list
		raw, _ := json.Marshal(items)
		config["source"] = string(raw)
	}
	if g.p.items && g.IntN(3) > 0 {
		g.continues(s, config)
	}
	g.add(courier.StepSpec{Type: "flow.foreach", Config: config})
	g.saves(s, sc)
	inner := scope{depth: sc.depth - 1, visible: sc.visible, flat: s.saved}
	sc.maybe = nil
	inner.loops = append(sc.loops[:len(sc.loops):len(sc.loops)], s)
	body, visible := g.block(inner, 1+g.IntN(3))
	s.body = body
	if s.saved {
		g.rescue(s, &inner)
	}
	s.end = g.add(courier.StepSpec{Type: "flow.end"})
	if s.list > 0 && !s.continues { // a last item that failed leaves no outputs
		sc.visible = visible
	}
}

func (g *maker) choice(s *statement, sc *scope) {
	s.kind = branch
	config := map[string]any{"operator": "equals"}
	if before := sc.maybe; before != nil && g.IntN(3) > 0 {
		// What an earlier iteration has left must not be there.
		config["left"], config["operator"] = "context:"+before.body[0].id+".value", "exists"
		s.holds = before.holds
	} else if d := len(sc.loops); d > 0 && g.IntN(3) > 0 {
		n := g.IntN(3)
		config["left"], config["operator"], config["right"] = "context:loop.index", "less_than", n
		s.holds = func(iteration []int) bool { return iteration[d-1] < n }
	} else {
		yes := g.IntN(2) == 0
		config["left"], config["right"] = "context:params.partner", map[bool]string{true: "", false: "nobody"}[yes]
		if yes {
			config["operator"] = "not_equals"
		}
		s.holds = func([]int) bool { return yes }
	}
	s.index = g.add(courier.StepSpec{Type: "flow.if", Config: config})
	inner := *sc
	inner.depth--
	inner.maybe = nil
	s.body, _ = g.block(inner, 1+g.IntN(2))
	if g.IntN(2) == 0 {
		g.add(courier.StepSpec{Type: "flow.else"})
		s.orElse, _ = g.block(inner, 1+g.IntN(2))
	}
	if g.refers && s.body[0].kind == work && sc.saver == nil {
		sc.maybe = s
	}
	g.add(courier.StepSpec{Type: "flow.end"})
}

// visits returns the steps that run, in order.
func (p *program) visits(list []statement, iteration []int, again int) {
	for i := range list {
		s := &list[i]
		switch s.kind {
		case work:
			p.plan = append(p.plan, visit{s.index, courier.FormatIteration(iteration), slices.Clone(iteration), again})
		case branch:
			if s.holds(iteration) {
				p.visits(s.body, iteration, again)
			} else {
				p.visits(s.orElse, iteration, again)
			}
		case loop:
			inside := again
			if s.restart && again < 0 {
				inside = len(p.plan)
			}
			for n := range s.list {
				item := append(iteration[:len(iteration):len(iteration)], n)
				p.visits(s.body, item, inside)
				p.visits(s.rescue, item, inside)
			}
		case attempt:
			p.visits(s.body, iteration, again)
			p.visits(s.rescue, iteration, again)
		}
	}
}

// at returns the iteration of the referenced step, for a step in an iteration.
func (r *reference) at(iteration []int) []int {
	at := append([]int{}, iteration[:r.shared]...)
	for _, l := range r.from.loops[r.shared:] {
		at = append(at, l.list-1)
	}
	return at
}

// value returns the output of a step. It is always the same in the same iteration.
func value(execution, id string, iteration []int) string {
	return fmt.Sprintf("%s/%s/%s", execution, id, courier.FormatIteration(iteration))
}

// follow checks that the records of a completed execution are the plan: each
// visit once, in order, and loops again only where a resume may start them.
func (p *program) follow(records []courier.StepExecution) error {
	next := 0
	for i := range records {
		r := &records[i]
		if r.State != courier.StepCompleted && r.State != courier.StepSkipped {
			continue
		}
		at := visit{step: r.Step, iteration: courier.FormatIteration(r.Iteration)}
		if next < len(p.plan) && at.is(p.plan[next]) {
			next++
			continue
		}
		from := -1
		for _, n := range []int{next, next - 1} {
			if n >= 0 && n < len(p.plan) && p.plan[n].again >= 0 && at.is(p.plan[p.plan[n].again]) {
				from = p.plan[n].again
			}
		}
		if from < 0 {
			want := "nothing"
			if next < len(p.plan) {
				want = fmt.Sprintf("step %d[%s]", p.plan[next].step, p.plan[next].iteration)
			}
			return fmt.Errorf("record %d is of step %d[%s], but %s comes next", i, at.step, at.iteration, want)
		}
		next = from + 1
	}
	if next < len(p.plan) {
		return fmt.Errorf("it is completed, but step %d[%s] and %d more were not executed", p.plan[next].step, p.plan[next].iteration, len(p.plan)-next-1)
	}
	return nil
}

func (v visit) is(w visit) bool { return v.step == w.step && v.iteration == w.iteration }
