package flow_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/test/raced"
)

var finally = do("flow.finally")

// Misplaced, repeated and empty markers are reported all at once, with their positions.
func TestFinallyProblems(t *testing.T) {
	for name, c := range map[string]struct {
		steps []courier.StepSpec
		want  []string
	}{
		"in a block": {[]courier.StepSpec{try, do("a.b"), finally, do("a.b"), rescue, do("a.b"), end}, []string{
			"step 2 (flow.finally): stands inside the flow.try of step 0, but belongs behind the last step, outside of all blocks; is a flow.end missing before it?"}},
		"in a block that is not closed": {[]courier.StepSpec{when(1, "equals", 1), do("a.b"), finally, do("a.b")}, []string{
			"step 0 (flow.if): no flow.end closes it; add one after the last step that belongs to it",
			"step 2 (flow.finally): stands inside the flow.if of step 0, but belongs behind the last step, outside of all blocks; is a flow.end missing before it?"}},
		"twice": {[]courier.StepSpec{do("a.b"), finally, do("a.b"), finally, do("a.b"), finally}, []string{
			"step 3 (flow.finally): is the second flow.finally; the first one is step 1; remove one of them",
			"step 5 (flow.finally): is the second flow.finally; the first one is step 1; remove one of them"}},
		"empty": {[]courier.StepSpec{do("a.b"), finally, when(1, "equals", 1), end}, []string{
			"step 1 (flow.finally): there is no step behind it; add those that run however the others end, or remove it"}},
		"alone": {[]courier.StepSpec{finally}, []string{
			"step 0 (flow.finally): there is no step before it; add the steps that the job consists of, or remove it",
			"step 0 (flow.finally): there is no step behind it; add those that run however the others end, or remove it"}},
		"with a configuration": {[]courier.StepSpec{do("a.b"), with("flow.finally", m{"timeout_seconds": 3}), do("a.b")}, []string{
			`step 1 (flow.finally): config: unknown field "timeout_seconds"; a flow.finally has no configuration`}},
		"misspelt": {[]courier.StepSpec{do("a.b"), do("flow.finaly"), do("a.b")}, []string{`step 1 (flow.finaly): type: unknown marker "flow.finaly"; did you mean "flow.finally"?`}},
		"right":    {[]courier.StepSpec{do("a.b"), do("Flow.Finally"), try, do("a.b"), rescue, do("a.b"), end}, nil},
	} {
		_, err := flow.Parse(c.steps)
		var got []string
		if e, ok := errors.AsType[*flow.ParseError](err); ok {
			got = texts(e.Problems)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
}

// The values of the finally part have none elsewhere, and nothing before it sees its outputs.
func TestFinallyReferences(t *testing.T) {
	reg := &courier.Registry{}
	courier.Register(reg, "a.b", stub{}, nil)
	job := courier.Job{Name: "a", Result: "context:last.out", FailurePolicy: courier.FailurePolicy{Type: courier.RetryJob}, Steps: []courier.StepSpec{
		{ID: "first", Type: "a.b", Config: m{"in": "context:job.outcome"}},
		{Type: "flow.if", Config: m{"left": "context:first.out", "operator": "exists"}},
		{ID: "perhaps", Type: "a.b"},
		end,
		{Type: "flow.finally", FailurePolicy: courier.FailurePolicy{Type: courier.RetryJob}},
		{ID: "each", Type: "flow.foreach", Config: m{"source": "context:job.failed"}},
		{ID: "last", Type: "a.b", Config: m{"in": "${context:perhaps.out} ${context:job.outcome} ${context:job.error.message} ${context:job.error.attempts} ${context:loop.current_item.label} ${context:loop.current_item.name}"}},
		end,
	}}
	tree, err := flow.Parse(job.Steps)
	if err != nil {
		t.Fatal(err)
	}
	problems, warnings := flow.Check(tree, &job, reg)
	want := []string{
		`result: "last.out" refers to step 6 "last" (a.b) in the finally part, which runs when the result and the outputs of the job are known already`,
		`step 0 "first" (a.b): config.in: "job.outcome" has a value only in the finally part, behind a flow.finally`,
		`step 4 (flow.finally): failure_policy.type: "retry_job" is for the job; a step can have "stop", "retry_step" or "skip_and_continue"`,
		`step 6 "last" (a.b): config.in: "job.error.attempts" has no value: error has no .attempts; known are .step, .id, .type, .class, .message`,
		`step 6 "last" (a.b): config.in: "loop.current_item.name" has no value: current_item has no .name; known are .index, .label, .step, .class, .message`,
	}
	got := texts(problems)
	if len(got) != len(want) {
		t.Errorf("problems are\n%s", strings.Join(got, "\n"))
	}
	for i := range min(len(got), len(want)) {
		if a, _, _ := strings.Cut(got[i], ";"); !strings.HasPrefix(want[i], a) {
			t.Errorf("problem %d is\n%s, want\n%s", i, got[i], want[i])
		}
	}
	if got := texts(warnings); len(got) > 0 { // a value that may be missing reads null there
		t.Errorf("warnings are %q", got)
	}
}

type stub struct{}

func (stub) Execute(_ context.Context, _ *courier.Context, _ stubConfig) (stubOutput, error) {
	return stubOutput{}, nil
}

type (
	stubConfig struct {
		In string `json:"in"`
	}
	stubOutput struct {
		Out string `json:"out"`
	}
)

// The policy and the timeout of the part are those of its marker, and otherwise usual ones.
func TestFinallyOfItsOwn(t *testing.T) {
	retries := 7
	job := courier.FailurePolicy{Type: courier.RetryJob, MaxRetries: &retries}
	minute := time.Minute
	own := courier.StepSpec{Type: "flow.finally", Timeout: &minute, FailurePolicy: courier.FailurePolicy{Type: courier.Stop}}
	for _, c := range []struct {
		marker  courier.StepSpec
		policy  courier.Policy
		timeout time.Duration
	}{{finally, courier.RetryStep, 300 * time.Second}, {own, courier.Stop, minute}} {
		tree, err := flow.Parse([]courier.StepSpec{do("a.b"), c.marker, do("a.b")}, do("a.out"))
		if err != nil {
			t.Fatal(err)
		}
		p := tree.FinallyPolicy(job)
		if p.Type != c.policy || tree.FinallyTimeout() != c.timeout || c.policy == courier.RetryStep && *p.MaxRetries != 7 {
			t.Errorf("%+v, %v", p, tree.FinallyTimeout())
		}
		if tree.InFinally(1) || !tree.InFinally(2) || tree.InFinally(3) || tree.FinallyMarker() != 1 || tree.Len() != 4 {
			t.Error("the outputs are part of it")
		}
		var order []int
		w, err := tree.Walk(courier.Position{}, &scoped{values: values{}, history: &history{tree: tree}})
		for range 5 {
			if err != nil {
				t.Fatal(err)
			}
			var step int
			if step, err = w.Next(); step == tree.Len() && len(order) < 3 {
				w.BeginFinally()
				continue
			}
			order = append(order, step)
			w.Advance()
		}
		if !slices.Equal(order, []int{0, 3, 2, 4}) {
			t.Errorf("the order is %v", order)
		}
		if got := tree.String(); !strings.HasSuffix(got, "Finally\n└── StepNode(a.b)\n") {
			t.Errorf("the tree is\n%s", got)
		}
	}
}

// Random finally parts do what a plain interpreter does, behind random programs that have
// ended anywhere, and wherever they are interrupted.
func TestRandomFinally(t *testing.T) {
	var sum struct{ programs, steps, cuts, failed, after int }
	for seed := range uint64(raced.Or(100, 1000)) {
		g := &maker{Rand: rand.New(rand.NewPCG(seed, 77)), failed: seed%4 > 0}
		main := g.program(1+int(seed%4), 0, nil, nil)
		in := &interpreter{fails: g.failed, markers: g.markers, tries: g.tries}
		if _, _ = in.run(main, map[string]any{}); len(g.flat) > 60 || len(in.trace) > 100 {
			continue
		}
		g.flat, g.markers, g.tries = append(g.flat, finally), nil, nil
		last := g.program(1+int(seed%3), 0, nil, nil)
		tree, err := flow.Parse(g.flat)
		if errors.Is(err, courier.ErrInvalid) && strings.Contains(err.Error(), "there is no step") {
			continue // in the program, or in the finally part
		}
		fail := func(err error) { t.Fatalf("seed %d: %v\n%v%s", seed, err, tree, configs(g.flat)) }
		if err != nil {
			fail(err)
		}
		h := &history{tree: tree, fails: g.failed, markers: in.markers, tries: in.tries}
		w, err := h.walker(cut{}, in.trace)
		if err = errors.Join(err, w.run()); err != nil {
			fail(err)
		}
		if w.class != "" {
			sum.after++
		}
		came := stored(w.walk.Position())
		env := maps.Clone(w.vals.values)
		then := &interpreter{fails: g.failed, markers: g.markers, tries: g.tries}
		_, why := then.run(last, maps.Clone(env))
		if len(then.trace) > 200 {
			continue
		}
		// What the first part has left is no part of what failed items are read from.
		own := &history{tree: tree, fails: g.failed, markers: g.markers, tries: g.tries}
		again := func(c cut, records []courier.StepExecution) (*walker, error) {
			of := *own
			of.records = slices.Clone(records)
			n := &walker{history: &of, vals: &scoped{values: values{}, history: &of}, want: then.trace, moments: c.moments, failed: c.failed, accepted: c.accepted, rescued: c.rescued}
			n.vals.restore(c.p)
			maps.Copy(n.vals.values, env)
			var err error
			n.walk, err = tree.FinallyWalk(came, c.p, n.vals)
			return n, err
		}
		part := *own
		w.history, w.vals.history = &part, &part
		w.want, w.moments, w.failed, w.accepted, w.rescued, w.cuts, w.class, w.refused = then.trace, 0, 0, 0, 0, nil, "", false
		w.walk.BeginFinally()
		w.cut()
		if err := errors.Join(w.run(), then.ended(w, why)); err != nil {
			fail(fmt.Errorf("in the finally part, which began at %v with %v: %w", came, keysOf(env), err))
		}
		sum.programs, sum.steps = sum.programs+1, sum.steps+len(then.trace)
		if why != nil {
			sum.failed++
		}
		for i := 0; i < len(w.cuts); i += 1 + len(w.cuts)/10 {
			c := w.cuts[i]
			if w.class != "" && c.records == len(w.records) {
				continue
			}
			n, err := again(c, w.records[:c.records])
			if err == nil {
				err = errors.Join(n.run(), then.ended(n, why))
			}
			if err != nil {
				fail(fmt.Errorf("cut %d at %v: %w", i, c.p, err))
			}
			sum.cuts++
		}
	}
	t.Logf("%+v", sum)
}
