package flow_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
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
	body, els program
	hasElse   bool
	bodyFrom  int
	bodyTo    int
}

// maker makes a random program and its flat list.
type maker struct {
	*rand.Rand
	flat []courier.StepSpec
}

func (g *maker) program(depth, loops int, before []int) program {
	var p program
	for range 1 + g.IntN(3) {
		s := statement{index: len(g.flat)}
		switch n := g.IntN(10); {
		case n < 3 && depth > 0:
			s.kind = "loop"
			g.source(&s, loops, before)
			g.flat = append(g.flat, with("flow.foreach", m{"source": s.list, "on_resume": map[bool]string{true: "restart", false: "continue"}[s.restart]}))
			s.bodyFrom = len(g.flat)
			s.body = g.program(depth-1, loops+1, before)
			s.bodyTo = len(g.flat)
			g.flat = append(g.flat, end)
		case n < 6 && depth > 0:
			s.kind = "if"
			g.condition(&s, loops, before)
			g.flat = append(g.flat, when(s.left, s.op, s.right))
			s.body = g.program(depth-1, loops, before)
			if s.hasElse = g.IntN(2) == 0; s.hasElse {
				g.flat = append(g.flat, otherwise)
				s.els = g.program(depth-1, loops, before)
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
	case n < 2 && len(before) > 0:
		s.list = g.key(before[g.IntN(len(before))], []string{"list", "text"}[g.IntN(2)])
	case n == 2:
		s.list = []string{"[]", "[1]", "[3, 4]", `["a", null, {"b": 1}]`}[g.IntN(4)]
	default:
		s.list = []any{json.Number("1"), "x", json.Number("3")}[:g.IntN(4)]
	}
}

func (g *maker) condition(s *statement, loops int, before []int) {
	any := g.IntN(len(g.flat) + 2) // may be later, a marker, out of scope or nothing
	switch n := g.IntN(8); {
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

// A moment is a step that is about to run.
type moment struct {
	step      int
	iteration string
	total     string
	keys      string // in scope
}

func keysOf(env map[string]any) string { return strings.Join(slices.Sorted(maps.Keys(env)), " ") }

// interpreter runs programs by recursion.
type interpreter struct {
	trace []moment
	items [][]any // of the open loops
	at    []int
}

func (in *interpreter) run(p program, env map[string]any) map[string]any {
	for _, s := range p {
		switch s.kind {
		case "step":
			total := make([]int, len(in.items))
			for i := range in.items {
				total[i] = len(in.items[i])
			}
			in.trace = append(in.trace, moment{s.index, fmt.Sprint(in.at), fmt.Sprint(total), keysOf(env)})
			env = maps.Clone(env)
			for name, v := range outputs(s.index, in.at) {
				env[fmt.Sprintf("%d.%s", s.index, name)] = v
			}
		case "if":
			if in.holds(s, env) {
				env = in.run(s.body, env)
			} else {
				env = in.run(s.els, env)
			}
		case "loop":
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
			for i := range list.([]any) {
				in.items, in.at = append(in.items, list.([]any)), append(in.at, i)
				env = in.run(s.body, outside)
				in.items, in.at = in.items[:len(in.items)-1], in.at[:len(in.at)-1]
			}
		}
	}
	return env
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

// follow walks from p, with what the records leave in scope, and compares what
// it sees with the moments.
func follow(tree *flow.Tree, p courier.Position, records []courier.StepExecution, want []moment, each func(w *flow.Walk, s courier.StepExecution)) error {
	v := values{}
	put := func(s courier.StepExecution) {
		for name, x := range outputs(s.Step, s.Iteration) {
			v[fmt.Sprintf("%d.%s", s.Step, name)] = x
		}
	}
	latest := map[int]courier.StepExecution{}
	for _, s := range records {
		latest[s.Step] = s
	}
	for _, s := range latest {
		if tree.InScope(p, &s) {
			put(s)
		}
	}
	w, err := tree.Walk(p, v)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		step, err := w.Next()
		if err != nil {
			return err
		}
		if step == tree.Len() {
			if i != len(want) {
				return fmt.Errorf("the walk ends after %d steps, want %d", i, len(want))
			}
			return nil
		}
		got := moment{step, fmt.Sprint(w.Iteration()), fmt.Sprint(w.Total()), keysOf(v)}
		if i >= len(want) || got != want[i] {
			return fmt.Errorf("moment %d from %v is %+v, want %+v", i, p, got, want[min(i, len(want)-1)])
		}
		s := courier.StepExecution{Step: step, Iteration: w.Iteration(), Total: w.Total()}
		if each != nil {
			each(w, s)
		}
		put(s)
		w.Advance()
	}
}

// stored is a position after a round trip through its stored form.
func stored(p courier.Position) courier.Position {
	raw, _ := json.Marshal(p)
	var q courier.Position
	_ = json.Unmarshal(raw, &q)
	return q
}

func TestRandomPrograms(t *testing.T) {
	programs := 500
	if testing.Short() {
		programs = 100
	}
	steps, resumes := 0, 0
	for seed := range uint64(programs) {
		g := &maker{Rand: rand.New(rand.NewPCG(seed, 1))}
		p := g.program(1+int(seed%6), 0, nil)
		if len(g.flat) > 100 {
			continue
		}
		fail := func(err error) {
			tree, _ := flow.Parse(g.flat)
			t.Fatalf("seed %d: %v\n%v\n%v", seed, err, tree, g.flat)
		}
		in := &interpreter{}
		in.run(p, map[string]any{})
		want := in.trace
		if len(want) > 200 {
			continue
		}
		tree, err := flow.Parse(g.flat)
		if err != nil {
			fail(err)
		}
		var records []courier.StepExecution
		var at []courier.Position
		err = follow(tree, courier.Position{}, nil, want, func(w *flow.Walk, s courier.StepExecution) {
			at = append(at, stored(w.Position()))
			records = append(records, s)
		})
		if err != nil {
			fail(err)
		}
		for i := 0; i < len(at); i += 1 + len(at)/30 {
			p := at[i]
			after := courier.Position{Step: p.Step + 1, Loops: p.Loops} // may be a marker
			for n, from := range []courier.Position{p, after} {
				if err := follow(tree, from, records[:i+n], want[i+n:], nil); err != nil {
					fail(fmt.Errorf("resumed: %w", err))
				}
				resumes++
			}
			if from := tree.Resume(p); !from.Equal(p) {
				// The first moment of the loop that is restarted.
				first := slices.IndexFunc(at, func(q courier.Position) bool {
					n := len(from.Loops)
					return len(q.Loops) > n && slices.Equal(q.Loops[:n], from.Loops) && q.Loops[n].Step == from.Step
				})
				if err := follow(tree, from, records[:i], want[first:], nil); err != nil {
					fail(fmt.Errorf("restarted: %w", err))
				}
				resumes++
			}
			if err := pure(tree, p, records[:i], at[i:]); err != nil {
				fail(err)
			}
		}
		steps += len(want)
	}
	t.Logf("%d steps, %d resumes", steps, resumes)
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
