package flow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/test/raced"
)

// A program is a random job as a syntax tree, with an interpreter of its own
// that is written as differently as possible from package flow: it recurses
// over the tree, and keeps values in environments that are copied.
type program []statement

type statement struct {
	index     int // of the step, or of the marker
	kind      string
	list      any // source of a loop
	left      any // condition
	op        string
	right     any
	restart   bool
	policy    *policy // of a loop that goes on after failed items
	body, els program
	hasElse   bool
	rescue    *takes // of a loop or a try
	bodyFrom  int
	bodyTo    int
}

// policy is what a loop says of its failed items.
type policy struct {
	most, percent int // -1 for any
	complete      bool
	on            []courier.Reason
}

// takes is which classes come to a rescue; without any, the default.
type takes struct{ on, not []courier.Reason }

// maker makes a random program and its flat list.
type maker struct {
	*rand.Rand
	flat    []courier.StepSpec
	failed  bool  // whether steps fail
	markers []int // of the loops with a policy
	tries   []int // markers of flow.try
}

func (g *maker) program(depth, loops int, before, over []int) program {
	var p program
	for range 1 + g.IntN(3) {
		s := statement{index: len(g.flat)}
		switch n := g.IntN(10); {
		case n < 3 && depth > 0:
			s.kind = "loop"
			g.source(&s, loops, before)
			config := m{"source": s.list, "on_resume": map[bool]string{true: "restart", false: "continue"}[s.restart]}
			g.policy(&s, config)
			g.flat = append(g.flat, with("flow.foreach", config))
			s.bodyFrom = len(g.flat)
			s.body = g.program(depth-1, loops+1, before, over)
			if s.rescue != nil {
				g.rescue(&s)
				s.els = g.program(depth-1, loops+1, before, over)
			}
			s.bodyTo = len(g.flat)
			g.flat = append(g.flat, end)
			if s.policy != nil {
				g.markers = append(g.markers, s.index)
				over = append(slices.Clip(over), s.index)
			}
		case n == 3 && depth > 0 && g.failed:
			s.kind, s.rescue = "try", new(takes)
			g.tries = append(g.tries, s.index)
			g.flat = append(g.flat, do("flow.try"))
			s.body = g.program(depth-1, loops, before, over)
			g.rescue(&s)
			s.els = g.program(depth-1, loops, before, over)
			g.flat = append(g.flat, end)
		case n < 6 && depth > 0:
			s.kind = "if"
			g.condition(&s, loops, before, over)
			g.flat = append(g.flat, when(s.left, s.op, s.right))
			s.body = g.program(depth-1, loops, before, over)
			if s.hasElse = g.IntN(2) == 0; s.hasElse {
				g.flat = append(g.flat, otherwise)
				s.els = g.program(depth-1, loops, before, over)
			}
			g.flat = append(g.flat, end)
		default:
			s.kind = "step"
			g.flat = append(g.flat, courier.StepSpec{ID: fmt.Sprintf("s%d", s.index), Type: "a.b"})
			before = append(slices.Clip(before), s.index)
		}
		p = append(p, s)
	}
	return p
}

// rescue adds the flow.rescue of a block.
func (g *maker) rescue(s *statement) {
	config := m{}
	switch g.IntN(5) {
	case 0:
		s.rescue.on = []courier.Reason{courier.ReasonConnection}
		config["rescue_on"] = []any{"connection"}
	case 1:
		s.rescue.on = []courier.Reason{courier.ReasonInvalid, courier.ReasonItems}
		config["rescue_on"] = []any{"invalid", "items_failed"}
	case 2:
		s.rescue.not = []courier.Reason{courier.ReasonInvalid}
		config["no_rescue_on"] = []any{"invalid"}
	}
	g.flat = append(g.flat, with("flow.rescue", config))
}

// policy gives a loop a policy, or none.
func (g *maker) policy(s *statement, config m) {
	if !g.failed || g.IntN(4) == 0 {
		return
	}
	s.policy = &policy{most: -1, percent: -1}
	if g.IntN(3) == 0 {
		s.rescue = new(takes)
	} else {
		config["on_item_failure"] = "continue"
	}
	switch g.IntN(4) {
	case 0:
		s.policy.most = g.IntN(3)
		config["max_failures"] = s.policy.most
	case 1:
		s.policy.percent = []int{0, 30, 50, 70, 100}[g.IntN(5)]
		config["max_failures"] = fmt.Sprintf("%d%%", s.policy.percent)
	}
	if s.policy.complete = g.IntN(3) == 0; s.policy.complete {
		config["then"] = "complete"
	}
	if g.IntN(3) == 0 {
		s.policy.on = []courier.Reason{courier.ReasonConnection}
		config["continue_on"] = []any{"connection"}
	}
}

// key is a reference to an output of a step, by index or id.
func (g *maker) key(step int, name string) string {
	if g.IntN(2) == 0 {
		return fmt.Sprintf("context:s%d.%s", step, name)
	}
	return fmt.Sprintf("context:%d.%s", step, name)
}

func (g *maker) source(s *statement, loops int, before []int) {
	s.restart = g.IntN(6) == 0
	switch n := g.IntN(6); {
	case g.failed && g.IntN(2) == 0:
		s.list = []any{json.Number("1"), "x", json.Number("3"), nil, "y"}[:g.IntN(6)]
	case n < 2 && len(before) > 0:
		s.list = g.key(before[g.IntN(len(before))], []string{"list", "text"}[g.IntN(2)])
	case n == 2:
		s.list = []string{"[]", "[1]", "[3, 4]", `["a", null, {"b": 1}]`}[g.IntN(4)]
	default:
		s.list = []any{json.Number("1"), "x", json.Number("3")}[:g.IntN(4)]
	}
}

func (g *maker) condition(s *statement, loops int, before, over []int) {
	any := g.IntN(len(g.flat) + 2) // may be later, a marker, out of scope or nothing
	switch n := g.IntN(8); {
	case len(g.markers) > 0 && n < 2: // perhaps of a loop elsewhere
		s.left, s.op = fmt.Sprintf("context:%d.%s", g.markers[g.IntN(len(g.markers))], []string{"count", "failed_count"}[g.IntN(2)]), "exists"
	case len(over) > 0 && n < 4:
		s.left, s.op, s.right = fmt.Sprintf("context:%d.%s", over[g.IntN(len(over))], []string{"count", "failed_count"}[g.IntN(2)]), "greater_than", "0"
	case n < 3:
		s.left, s.op = g.key(any, "n"), "exists"
	case n < 5 && loops > 0:
		s.left, s.op, s.right = "context:loop.index", []string{"less_than", "equals", "not_equals"}[g.IntN(3)], g.IntN(3)
	case n == 5 && loops > 1:
		s.left, s.op, s.right = fmt.Sprintf("context:loop.%d.index", g.IntN(loops-1)), "equals", "${context:loop.index}"
	case n == 6 && loops > 0:
		s.left, s.op, s.right = "context:loop.current_item", "equals", "3"
	case len(before) > 0:
		s.left, s.op, s.right = g.key(before[g.IntN(len(before))], "n"), "greater_than", "1"
	default:
		s.left, s.op, s.right = "a", "equals", []string{"A", "b"}[g.IntN(2)]
	}
}

// outputs are what a step returns, always the same for the same iteration.
func outputs(step int, iteration []int) m {
	h := step*7 + 3
	for _, n := range iteration {
		h = (h*31 + n*17 + 5) % 1009
	}
	list := []any{json.Number("3"), "a", nil}[:h%4]
	raw, _ := json.Marshal(list)
	return m{"n": num(h % 4), "list": list, "text": string(raw)}
}

// failing says for what reason a step fails in an iteration, if it does.
func failing(step int, iteration []int) courier.Reason {
	h := step*13 + 7
	for _, n := range iteration {
		h = (h*37 + n*29 + 11) % 2003
	}
	switch {
	case len(iteration) == 0:
		return ""
	case h%9 == 0:
		return courier.ReasonInvalid
	case h%31 == 1:
		return courier.ReasonConnection
	}
	return ""
}

// A moment is a step that is about to run.
type moment struct {
	step      int
	iteration string
	total     string
	keys      string // in scope
	results   string // values of the loops with a policy
}

// keysOf lists the keys of outputs.
func keysOf(env map[string]any) string {
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(env)), func(key string) bool { return strings.HasSuffix(key, "count") || strings.HasSuffix(key, "error") })
	return strings.Join(keys, " ")
}

// interpreter runs programs by recursion.
type interpreter struct {
	fails    bool // whether steps fail
	markers  []int
	tries    []int
	handlers []func(courier.Reason) verdict // innermost last
	errors   []any                          // of the open loops, nil outside of a rescue
	rescued  int
	trace    []moment
	items    [][]any // of the open loops
	at       []int
	open     []*openLoop // those with a policy
	failed   int
	accepted int
}

// openLoop is what an open loop with a policy has of failed items.
type openLoop struct {
	*policy
	failed  int
	bad     bool // the present item has failed
	accepts bool // failed items do not fail the execution
}

// A broken statement has failed for a reason.
type broken struct {
	class courier.Reason
	step  int
}

// A verdict is what a block says of a failure in it.
type verdict int

const (
	passesOn verdict = iota
	failsItem
	beginsRescue
)

// takes reports whether a failure comes to a rescue, by default one that usual is true for.
func (t *takes) takes(class courier.Reason, usual bool) bool {
	if t.on != nil {
		return slices.Contains(t.on, class)
	}
	return usual && !slices.Contains(t.not, class)
}

// says is what a loop with a policy says of a failure in its body, or in its rescue.
func (s *statement) says(class courier.Reason, inRescue bool) verdict {
	goesOn := class != courier.ReasonConnection || len(s.policy.on) > 0
	switch {
	case s.rescue != nil && !inRescue && s.rescue.takes(class, goesOn):
		return beginsRescue
	case goesOn:
		return failsItem
	}
	return passesOn
}

// verdict is what becomes of a failure at a place.
func (in *interpreter) verdict(class courier.Reason) verdict {
	for _, h := range slices.Backward(in.handlers) {
		if v := h(class); v != passesOn {
			return v
		}
	}
	return passesOn
}

// within runs a program in a block that has a say about failures.
func (in *interpreter) within(h func(courier.Reason) verdict, p program, env map[string]any) (map[string]any, *broken) {
	in.handlers = append(in.handlers, h)
	defer func() { in.handlers = in.handlers[:len(in.handlers)-1] }()
	return in.run(p, env)
}

func (in *interpreter) try(s statement, env map[string]any) (map[string]any, *broken) {
	env, why := in.within(func(class courier.Reason) verdict {
		if s.rescue.takes(class, true) {
			return beginsRescue
		}
		return passesOn
	}, s.body, env)
	env = maps.Clone(env)
	key := fmt.Sprintf("%d.error", s.index)
	switch {
	case why == nil:
		env[key] = "none"
		return env, nil
	case !s.rescue.takes(why.class, true):
		return env, why
	}
	env[key] = why.step
	return in.run(s.els, env)
}

func (in *interpreter) run(p program, env map[string]any) (map[string]any, *broken) {
	for _, s := range p {
		var why *broken
		switch s.kind {
		case "step":
			env, why = in.step(s, env)
		case "if":
			if in.holds(s, env) {
				env, why = in.run(s.body, env)
			} else {
				env, why = in.run(s.els, env)
			}
		case "loop":
			env, why = in.loop(s, env)
		case "try":
			env, why = in.try(s, env)
		}
		if why != nil {
			return env, why
		}
	}
	return env, nil
}

func (in *interpreter) step(s statement, env map[string]any) (map[string]any, *broken) {
	total := make([]int, len(in.items))
	for i := range in.items {
		total[i] = len(in.items[i])
	}
	in.trace = append(in.trace, moment{s.index, fmt.Sprint(in.at), fmt.Sprint(total), keysOf(env), in.results(env)})
	if class := failing(s.index, in.at); in.fails && class != "" {
		return env, &broken{class, s.index}
	}
	env = maps.Clone(env)
	for name, v := range outputs(s.index, in.at) {
		env[fmt.Sprintf("%d.%s", s.index, name)] = v
	}
	return env, nil
}

// results lists the values of loops with a policy.
func (in *interpreter) results(env map[string]any) (list string) {
	for _, marker := range in.markers {
		if n, ok := env[fmt.Sprintf("%d.count", marker)]; ok {
			list += fmt.Sprintf("%d: %v of %v ", marker, env[fmt.Sprintf("%d.failed_count", marker)], n)
		}
	}
	for _, marker := range in.tries {
		if e, ok := env[fmt.Sprintf("%d.error", marker)]; ok {
			list += fmt.Sprintf("%d: %v ", marker, e)
		}
	}
	if n := len(in.errors); n > 0 && in.errors[n-1] != nil {
		list += fmt.Sprintf("loop: %v", in.errors[n-1])
	}
	return list
}

func (in *interpreter) loop(s statement, env map[string]any) (map[string]any, *broken) {
	list := in.value(s.list, env)
	if text, ok := list.(string); ok {
		var l []any
		_ = json.Unmarshal([]byte(text), &l)
		list = l
	}
	outside := maps.Clone(env)
	maps.DeleteFunc(outside, func(key string, _ any) bool {
		return s.bodyFrom <= stepOf(key) && stepOf(key) < s.bodyTo
	})
	env = outside
	self := &openLoop{policy: s.policy}
	self.accepts = s.policy != nil && (s.policy.complete || in.verdict(courier.ReasonItems) == beginsRescue)
	defer func(open []*openLoop) { in.open = open }(in.open)
	if s.policy != nil {
		in.open = append(slices.Clip(in.open), self)
	}
	n := len(list.([]any))
	// left is what is seen behind the loop; counted says that its own values are among it.
	left := func(env map[string]any, counted bool) map[string]any {
		env = maps.Clone(env)
		maps.DeleteFunc(env, func(key string, _ any) bool {
			at := stepOf(key)
			return s.bodyFrom <= at && at < s.bodyTo && (strings.HasSuffix(key, "count") || strings.HasSuffix(key, "error"))
		})
		if s.policy != nil && counted {
			env[fmt.Sprintf("%d.count", s.index)], env[fmt.Sprintf("%d.failed_count", s.index)] = n, self.failed
		}
		return env
	}
	for i := range list.([]any) {
		self.bad = false
		in.items, in.at, in.errors = append(in.items, list.([]any)), append(in.at, i), append(in.errors, nil)
		after, why := outside, (*broken)(nil)
		if s.policy == nil {
			after, why = in.run(s.body, outside)
		} else {
			after, why = in.within(func(class courier.Reason) verdict { return s.says(class, false) }, s.body, outside)
		}
		if why != nil && s.policy != nil && s.says(why.class, false) == beginsRescue {
			in.errors[len(in.errors)-1] = why.step
			after, why = in.within(func(class courier.Reason) verdict { return s.says(class, true) }, s.els, after)
			if why == nil && !self.bad {
				in.rescued++
			}
		}
		in.items, in.at, in.errors = in.items[:len(in.items)-1], in.at[:len(in.at)-1], in.errors[:len(in.errors)-1]
		seen := outside // if the loop is given up here
		if i == n-1 {
			seen = after
		}
		switch {
		case why != nil && (s.policy == nil || s.says(why.class, true) == passesOn):
			if s.policy != nil {
				in.open = in.open[:len(in.open)-1]
				if self.failed > 0 && !s.policy.complete && in.verdict(why.class) == beginsRescue && in.verdict(courier.ReasonItems) != beginsRescue && len(in.open) > 0 {
					in.bad(in.open[len(in.open)-1])
				}
			}
			return left(seen, false), why
		case why != nil:
			in.bad(self)
			after = maps.Clone(outside)
			for j := s.bodyFrom; j < s.bodyTo; j++ {
				after[fmt.Sprintf("%d.*", j)] = nil
			}
			if i == n-1 {
				seen = after
			}
		}
		env = after
		if s.policy != nil && s.policy.most >= 0 && self.failed > s.policy.most {
			return left(seen, true), &broken{courier.ReasonItems, s.index}
		}
	}
	if s.policy != nil {
		if s.policy.percent >= 0 && self.failed*100 > n*s.policy.percent && self.failed > n*s.policy.percent/100 {
			return left(env, true), &broken{courier.ReasonItems, s.index}
		}
		in.open = in.open[:len(in.open)-1]
		if self.failed > 0 && !s.policy.complete {
			if in.verdict(courier.ReasonItems) == beginsRescue {
				return left(env, true), &broken{courier.ReasonItems, s.index}
			}
			if len(in.open) > 0 {
				in.bad(in.open[len(in.open)-1])
			}
		}
	}
	return left(env, true), nil
}

// bad counts the present item of a loop as failed.
func (in *interpreter) bad(l *openLoop) {
	if l.bad {
		return
	}
	l.bad = true
	l.failed++
	if l == in.open[0] {
		in.failed++
		if l.accepts {
			in.accepted++
		}
	}
}

func (in *interpreter) holds(s statement, env map[string]any) bool {
	left := in.value(s.left, env)
	switch s.op {
	case "exists":
		return left != nil
	case "equals":
		return fmt.Sprint(left) == fmt.Sprint(in.value(s.right, env)) || s.right == "A" // left is "a"
	case "not_equals":
		return fmt.Sprint(left) != fmt.Sprint(in.value(s.right, env))
	case "less_than":
		return fmt.Sprint(left) < fmt.Sprint(s.right) // one digit each
	}
	return fmt.Sprint(left) > fmt.Sprint(s.right)
}

func (in *interpreter) value(v any, env map[string]any) any {
	text, ok := v.(string)
	if !ok {
		return v
	}
	text = strings.TrimSuffix(strings.TrimPrefix(text, "${"), "}")
	key, ok := strings.CutPrefix(text, "context:")
	if !ok {
		return v
	}
	last := len(in.at) - 1
	switch parts := strings.Split(key, "."); {
	case key == "loop.index":
		return in.at[last]
	case key == "loop.current_item":
		return in.items[last][in.at[last]]
	case parts[0] == "loop":
		var depth int
		_, _ = fmt.Sscan(parts[1], &depth)
		return in.at[depth]
	default:
		return env[strings.TrimPrefix(key, "s")]
	}
}

// A history is what an execution has left in a store.
type history struct {
	tree    *flow.Tree
	fails   bool
	markers []int
	tries   []int
	records []courier.StepExecution
	passes  []courier.RepairPass
}

// failures are the records with which items failed.
func (h *history) failures() []courier.StepExecution {
	return h.left(func(r *courier.StepExecution) bool { return r.FailedLoop != nil })
}

// rescues are the records that led to a rescue.
func (h *history) rescues() []courier.StepExecution {
	return h.left(func(r *courier.StepExecution) bool { return r.Rescue != nil })
}

// left are the records that are not undone.
func (h *history) left(want func(*courier.StepExecution) bool) []courier.StepExecution {
	return slices.DeleteFunc(slices.Clone(h.records), func(s courier.StepExecution) bool {
		p := courier.Position{Step: s.Step}
		for n, marker := range h.tree.Loops(s.Step) {
			p.Loops = append(p.Loops, courier.LoopPosition{Step: marker, Index: s.Iteration[n]})
		}
		return !want(&s) || slices.ContainsFunc(h.passes, func(pass courier.RepairPass) bool {
			return s.Seq <= pass.Seq && flow.Compare(p, *pass.From) >= 0
		})
	})
}

// scoped are the values of an execution, as an engine keeps them.
type scoped struct {
	values
	*history
	wrong error
}

func (s *scoped) LoopEnded(marker int, outer []int, count, failed, rescued int) {
	n := len(s.tree.FailedItems(marker, outer, s.failures()))
	if failed >= 0 && failed != n && s.wrong == nil {
		s.wrong = fmt.Errorf("loop %d%v ended with %d failed items, the records tell %d", marker, outer, failed, n)
	}
	at := courier.Position{Step: s.tree.End(marker) + 1}
	for i, l := range s.tree.Loops(marker) {
		at.Loops = append(at.Loops, courier.LoopPosition{Step: l, Index: outer[i]})
	}
	told := 0
	for _, r := range s.tree.RescuedItems(at, s.rescues(), s.failures()) {
		if *r.Rescue == marker && slices.Equal(r.Iteration[:len(outer)], outer) {
			told++
		}
	}
	if rescued >= 0 && rescued != told && s.wrong == nil {
		s.wrong = fmt.Errorf("loop %d%v ended with %d rescued items, the records tell %d", marker, outer, rescued, told)
	}
	s.values.LoopEnded(marker, outer, count, n, rescued)
}

// restore sets the values to those at a position: the latest record of each step tells.
func (s *scoped) restore(p courier.Position) {
	clear(s.values)
	latest := map[int]courier.StepExecution{}
	for _, r := range s.records {
		latest[r.Step] = r
	}
	inScope, null := s.tree.Scope(p, slices.Collect(maps.Values(latest)), s.passes)
	for _, r := range inScope {
		if r.State == courier.StepCompleted {
			s.put(r)
		}
	}
	for _, marker := range null {
		s.SetNull(marker+1, s.tree.End(marker)-1)
	}
	for _, r := range s.tree.Rescued(p, slices.Collect(maps.Values(latest)), s.passes) {
		s.putError(r)
	}
}

func (s *scoped) putError(r *courier.StepExecution) {
	s.values[fmt.Sprintf("%d.error", *r.Rescue)] = flow.ErrorValue(r)
}

func (s *scoped) put(r *courier.StepExecution) {
	for name, x := range outputs(r.Step, r.Iteration) {
		s.values[fmt.Sprintf("%d.%s", r.Step, name)] = x
	}
}

// A cut is a place where an execution can be interrupted.
type cut struct {
	p                courier.Position
	records, moments int // before it
	failed, accepted int
	rescued          int
}

// A walker follows an execution and compares what it sees with the moments.
type walker struct {
	*history
	vals             *scoped
	walk             *flow.Walk
	want             []moment
	moments          int
	failed, accepted int
	rescued          int
	cuts             []cut
	class            courier.Reason // with which the execution failed
	refused          bool           // because a rescue could not begin
}

// walker returns one that stands at a cut.
func (h *history) walker(c cut, want []moment) (*walker, error) {
	of := &history{h.tree, h.fails, h.markers, h.tries, slices.Clone(h.records[:c.records]), h.passes}
	w := &walker{history: of, vals: &scoped{values: values{}, history: of}, want: want, moments: c.moments, failed: c.failed, accepted: c.accepted, rescued: c.rescued}
	w.vals.restore(c.p)
	var err error
	w.walk, err = h.tree.Walk(c.p, w.vals)
	if err == nil && !w.walk.Position().Equal(c.p) {
		err = fmt.Errorf("the walk stands at %v", w.walk.Position())
	}
	return w, err
}

func (w *walker) cut() {
	failed, accepted := w.walk.TakeFailures()
	w.failed, w.accepted = w.failed+failed, w.accepted+accepted
	rescued, _ := w.walk.TakeRescued()
	w.rescued += rescued
	w.cuts = append(w.cuts, cut{stored(w.walk.Position()), len(w.records), w.moments, w.failed, w.accepted, w.rescued})
}

// run walks to the end, or to the end of the item that is the bound.
func (w *walker) run() error {
	for w.class == "" {
		step, err := w.walk.Next()
		if w.vals.wrong != nil {
			return w.vals.wrong
		}
		w.cut()
		if e, ok := errors.AsType[*flow.LoopError](err); ok {
			n := len(w.tree.Loops(e.Step))
			w.fail(courier.StepExecution{Step: e.Step, Iteration: w.walk.Iteration()[:n], Total: w.walk.Total()[:n]}, courier.ReasonItems)
			continue
		}
		if err != nil {
			return err
		}
		if step == w.tree.Len() {
			break
		}
		got := moment{step, fmt.Sprint(w.walk.Iteration()), fmt.Sprint(w.walk.Total()), keysOf(w.vals.values), w.results()}
		if w.moments >= len(w.want) || got != w.want[w.moments] {
			return fmt.Errorf("moment %d is %+v, want %+v", w.moments, got, w.want[min(w.moments, len(w.want)-1)])
		}
		w.moments++
		r := courier.StepExecution{Step: step, Iteration: w.walk.Iteration(), Total: w.walk.Total()}
		if class := failing(step, r.Iteration); w.fails && class != "" {
			w.fail(r, class)
		} else {
			r.State = courier.StepCompleted
			w.record(r)
			w.vals.put(&r)
			w.walk.Advance()
		}
		w.cut()
	}
	if w.moments != len(w.want) && !w.refused {
		return fmt.Errorf("the walk ends after %d steps, want %d", w.moments, len(w.want))
	}
	return nil
}

// results lists the values of loops with a policy.
func (w *walker) results() (list string) {
	for _, marker := range w.markers {
		if n, ok := w.walk.Value(fmt.Sprint(marker), "count"); ok {
			failed, _ := w.walk.Value(fmt.Sprint(marker), "failed_count")
			list += fmt.Sprintf("%d: %v of %v ", marker, failed, n)
		}
	}
	for _, marker := range w.tries {
		if e, ok := w.walk.Value(fmt.Sprint(marker), "error"); ok {
			list += fmt.Sprintf("%d: %v ", marker, stepOfError(e))
		}
	}
	if e, ok := w.walk.Value("loop", "error"); ok {
		list += fmt.Sprintf("loop: %v", stepOfError(e))
	}
	return list
}

// stepOfError is the step of an error, or none.
func stepOfError(e any) any {
	if e == nil {
		return "none"
	}
	return e.(m)["step"]
}

func (w *walker) record(r courier.StepExecution) {
	r.Seq = int64(len(w.records) + 1)
	w.records = append(w.records, r)
}

// fail ends the present item of the loop that goes on then, or the execution.
func (w *walker) fail(r courier.StepExecution, class courier.Reason) {
	r.State, r.Reason = courier.StepFailed, class
	switch h, ok := w.tree.Handler(r.Step, class); {
	case !ok:
		w.class = class
	case h.Rescue && !w.walk.CanRescue(h.Marker):
		w.class, w.refused = class, true
	case h.Rescue:
		r.Rescue = &h.Marker
		w.walk.Rescue(h.Marker)
		w.vals.putError(&r)
	default:
		r.FailedLoop = &h.Marker
		w.walk.FailItem(h.Marker)
	}
	w.record(r)
	w.cut()
}

// stored is a position after a round trip through its stored form.
func stored(p courier.Position) courier.Position {
	raw, _ := json.Marshal(p)
	var q courier.Position
	_ = json.Unmarshal(raw, &q)
	return q
}

func TestRandomPrograms(t *testing.T) {
	programs := raced.Or(100, 1200)
	var sum struct{ steps, resumes, failed, rescued, given int }
	for seed := range uint64(programs) {
		g := &maker{Rand: rand.New(rand.NewPCG(seed, 1)), failed: seed%2 == 1}
		p := g.program(1+int(seed/2%6), 0, nil, nil)
		if len(g.flat) > 100 {
			continue
		}
		in := &interpreter{fails: g.failed, markers: g.markers, tries: g.tries}
		_, why := in.run(p, map[string]any{})
		if len(in.trace) > 200 {
			continue
		}
		tree, err := flow.Parse(g.flat)
		fail := func(err error) { t.Fatalf("seed %d: %v\n%v%s", seed, err, tree, configs(g.flat)) }
		if err != nil {
			fail(err)
		}
		h := &history{tree: tree, fails: g.failed, markers: g.markers, tries: g.tries}
		w, err := h.walker(cut{}, in.trace)
		if err == nil {
			err = w.run()
		}
		if err == nil {
			err = in.ended(w, why)
		}
		if err != nil {
			fail(err)
		}
		h.records = w.records
		for i := 0; i < len(w.cuts); i += 1 + len(w.cuts)/25 {
			if err := in.interrupted(h, w, i, why, g.IntN(len(w.cuts))); err != nil {
				fail(fmt.Errorf("cut %d at %v: %w", i, w.cuts[i].p, err))
			}
			sum.resumes++
		}
		if !g.failed {
			err = allPure(w)
		}
		if err != nil {
			fail(err)
		}
		sum.steps, sum.failed, sum.rescued = sum.steps+len(in.trace), sum.failed+in.failed, sum.rescued+in.rescued
		if why != nil {
			sum.given++
		}
	}
	t.Logf("%+v", sum)
}

// configs lists the configurations of markers.
func configs(flat []courier.StepSpec) (list string) {
	for i, s := range flat {
		if s.Config != nil {
			list += fmt.Sprintf("%d %s %v\n", i, s.Type, s.Config)
		}
	}
	return list
}

// ended compares how an execution ended.
func (in *interpreter) ended(w *walker, why *broken) error {
	want := walker{failed: in.failed, accepted: in.accepted, rescued: in.rescued}
	if why != nil {
		want.class = why.class
	}
	if w.failed != want.failed || w.accepted != want.accepted || w.rescued != want.rescued || w.class != want.class {
		return fmt.Errorf("the walk ends with %q, %d failed items, %d accepted, %d rescued; want %q, %d, %d, %d", w.class, w.failed, w.accepted, w.rescued, want.class, want.failed, want.accepted, want.rescued)
	}
	return nil
}

// interrupted takes an execution up at a cut, in several ways.
func (in *interpreter) interrupted(h *history, first *walker, i int, why *broken, other int) error {
	c := first.cuts[i]
	if first.class != "" && c.records == len(first.records) {
		return nil // it has failed there
	}
	w, err := h.walker(c, in.trace)
	if err != nil {
		return err
	}
	plain := stored(c.p)
	for n := range plain.Loops {
		plain.Loops[n].Failed, plain.Loops[n].ItemFailed, plain.Loops[n].Rescued = 0, false, 0
	}
	if got := h.tree.Recount(plain, append(w.failures(), w.rescues()...)); !got.Equal(c.p) {
		return fmt.Errorf("Recount() = %v", got)
	}
	if err := errors.Join(w.run(), in.ended(w, why)); err != nil {
		return err
	}
	if w, err = h.walker(first.cuts[other], in.trace); err != nil {
		return err
	}
	// From elsewhere.
	*w.history = history{h.tree, h.fails, h.markers, h.tries, slices.Clone(h.records[:c.records]), nil}
	w.vals.restore(c.p)
	w.moments, w.failed, w.accepted, w.rescued = c.moments, c.failed, c.accepted, c.rescued
	if err := w.walk.Seek(c.p); err != nil {
		return fmt.Errorf("Seek from %v: %w", first.cuts[other].p, err)
	}
	if got := w.walk.Position(); !got.Equal(c.p) {
		return fmt.Errorf("Seek from %v goes to %v", first.cuts[other].p, got)
	}
	if len(c.p.Loops) > 0 {
		if err := w.bound(c, other%len(c.p.Loops)); err != nil || w.refused {
			return err
		}
	}
	if err := errors.Join(w.run(), in.ended(w, why)); err != nil {
		return fmt.Errorf("after Seek from %v: %w", first.cuts[other].p, err)
	}
	return in.restarted(h, first, c, why)
}

// bound walks to the end of an item of an open loop.
func (w *walker) bound(c cut, depth int) error {
	within := func(p courier.Position) bool {
		return len(p.Loops) > depth && slices.Equal(p.Iteration()[:depth+1], c.p.Iteration()[:depth+1]) && p.Loops[depth].Step == c.p.Loops[depth].Step
	}
	w.walk.SetBound(c.p.Loops[depth].Step)
	err := w.run()
	switch p := w.walk.Position(); {
	case err == nil && w.class != "": // the execution failed in the item
		rescues := slices.ContainsFunc(w.records[c.records:], func(r courier.StepExecution) bool { return r.Rescue != nil })
		if p := w.cuts[len(w.cuts)-1].p; !within(p) && !rescues { // a rescue may lie outside of the item
			return fmt.Errorf("the walk went on to %v", p)
		}
	case !errors.Is(err, flow.ErrItemEnded):
		return fmt.Errorf("with a bound at loop %d, Next() = %v at %v", depth, err, p)
	case !within(p) && len(p.Loops) > depth || p.Step != w.tree.End(p.Loops[len(p.Loops)-1].Step):
		return fmt.Errorf("with a bound at loop %d, the walk ends at %v", depth, p)
	}
	w.walk.SetBound(-1)
	return nil
}

// restarted takes an execution up in a loop that starts again.
func (in *interpreter) restarted(h *history, first *walker, c cut, why *broken) error {
	from := h.tree.Resume(c.p)
	if from.Equal(c.p) {
		return nil
	}
	again := slices.IndexFunc(first.cuts, func(d cut) bool {
		n := len(from.Loops)
		return d.p.Step == from.Step && slices.Equal(d.p.Iteration(), from.Iteration()) ||
			len(d.p.Loops) > n && slices.Equal(d.p.Iteration()[:n], from.Iteration()) && d.p.Loops[n].Step == from.Step
	})
	d := first.cuts[again]
	anew := history{h.tree, h.fails, h.markers, h.tries, h.records[:c.records], []courier.RepairPass{{Seq: int64(c.records), From: &from, Then: from}}}
	from = h.tree.Recount(from, append(anew.failures(), anew.rescues()...))
	w, err := anew.walker(cut{from, c.records, d.moments, d.failed, d.accepted, d.rescued}, in.trace)
	if err == nil {
		err = errors.Join(w.run(), in.ended(w, why))
	}
	if err != nil {
		return fmt.Errorf("restarted: %w", err)
	}
	return nil
}

// allPure checks Tree.Next at each step.
func allPure(w *walker) error {
	var at []courier.Position
	for _, c := range w.cuts {
		if w.tree.Works(min(c.p.Step, w.tree.Len()-1)) && c.p.Step < w.tree.Len() && c.moments == len(at) {
			at = append(at, c.p)
		}
	}
	for i := range at {
		if err := pure(w.tree, at[i], w.records[:i], at[i:]); err != nil {
			return err
		}
	}
	return nil
}

// pure checks Tree.Next at a step and after it.
func pure(tree *flow.Tree, p courier.Position, records []courier.StepExecution, at []courier.Position) error {
	v := courier.Values{}
	for _, s := range append(slices.Clone(records), courier.StepExecution{Step: p.Step, Iteration: p.Iteration()}) {
		// All records, the stale ones too: conditions of the next iteration must
		// not see them.
		if q := (courier.Position{Step: p.Step + 1, Loops: p.Loops}); !tree.InScope(q, &s) {
			continue
		}
		for name, x := range outputs(s.Step, s.Iteration) {
			v[fmt.Sprintf("%d.%s", s.Step, name)] = x
		}
	}
	if got, more, err := tree.Next(p, v); err != nil || !more || !got.Equal(p) {
		return fmt.Errorf("Next(%v) = %v, %t, %v", p, got, more, err)
	}
	want, more := courier.Position{Step: tree.Len()}, len(at) > 1
	if more {
		want = at[1]
	}
	if got, ok, err := tree.Next(courier.Position{Step: p.Step + 1, Loops: p.Loops}, v); err != nil || ok != more || !got.Equal(want) {
		return fmt.Errorf("Next after %v = %v, %t, %v, want %v", p, got, ok, err, want)
	}
	return nil
}
