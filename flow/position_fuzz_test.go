package flow_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

// FuzzPosition takes an execution up at any position, with any record of a
// step, as a store may hand them out. A position that does not fit is refused;
// one that does is where the walk stands, and the walk ends.
func FuzzPosition(f *testing.F) {
	list := []any{"x", "y", "z"}
	restart := with("flow.foreach", m{"source": list, "on_resume": "restart"})
	tree := parse(f,
		do("a.b"), each(list, m{"max_failures": 2}), do("a.b"), restart, when("context:loop.index", "less_than", 2), do("a.b"), otherwise, do("a.c"), end, end, do("a.b"), end,
		forEach("context:params.list"), do("a.b"), end, when("1", "equals", "2"), forEach(list), do("a.b"), end, end, do("a.b"))
	for _, p := range []string{`{"step":0}`, `{"step":5,"loops":[{"step":1,"index":2},{"step":3,"index":1}]}`, `{"step":13,"loops":[{"step":12,"index":0}]}`, `{"step":21}`, `{"step":2}`, `{"step":-1}`, `{"step":22}`, `{"step":2,"loops":[{"step":1,"index":3}]}`, `{"step":2,"loops":[{"step":1,"index":-1}]}`, `{"step":2,"loops":[{"step":3,"index":0}]}`, `{"step":17,"loops":[{"step":16,"index":9223372036854775807}]}`,
		`{"step":11,"loops":[{"step":1,"index":2,"failed":3,"item_failed":true}]}`, `{"step":11,"loops":[{"step":1,"index":2,"failed":2}]}`, `{"step":2,"loops":[{"step":1,"failed":-1}]}`} {
		f.Add([]byte(p), []byte(`{"step":5,"iteration":[2,1],"total":[3,3]}`), `["a"]`)
		f.Add([]byte(p), []byte(`{"step":2,"iteration":[0],"total":[]}`), `[]`)
		f.Add([]byte(p), []byte(`{"step":0}`), `{}`)
		f.Add([]byte(p), []byte(`{"seq":3,"step":2,"iteration":[2],"total":[3],"failed_loop":1}`), `[]`)
	}
	f.Fuzz(func(t *testing.T, position, record []byte, list string) {
		var p courier.Position
		if json.Unmarshal(position, &p) != nil || len(list) > 100 {
			return
		}
		var s courier.StepExecution
		if json.Unmarshal(record, &s) == nil && tree.InScope(p, &s) && (s.Step < 0 || s.Step >= p.Step) {
			t.Errorf("step %d is in scope at step %d", s.Step, p.Step)
		}
		inScope, null := tree.Scope(p, []courier.StepExecution{s, s}, []courier.RepairPass{{Seq: 2, From: &p, Then: p}})
		if len(inScope) > 1 || len(null) > 1 || len(inScope) == 1 && !tree.InScope(p, inScope[0]) {
			t.Errorf("Scope(%s, %s) = %v, %v", position, record, inScope, null)
		}
		for _, marker := range null {
			if s.FailedLoop == nil || marker != *s.FailedLoop || !slices.Contains(tree.Loops(s.Step), marker) {
				t.Errorf("Scope(%s, %s) has loop %d read null", position, record, marker)
			}
		}
		v := values{"params.list": list}
		w, err := tree.Walk(p, v)
		if err != nil {
			if _, ok := errors.AsType[*flow.EvalError](err); !ok && err.Error() == "" {
				t.Errorf("Walk(%s) = %v", position, err)
			}
			return
		}
		if !w.Position().Equal(p) {
			t.Errorf("Walk(%s) stands at %+v", position, w.Position())
		}
		if again := tree.Recount(p, []courier.StepExecution{s}); again.Step != p.Step || len(again.Loops) != len(p.Loops) {
			t.Errorf("Recount(%s, %s) = %v", position, record, again)
		}
		if err := w.Seek(p); err != nil || !w.Position().Equal(p) {
			t.Errorf("Seek(%s) = %v", position, err)
		}
		if flow.Compare(p, p) != 0 {
			t.Errorf("%s is not where it is", position)
		}
		if r := tree.Resume(p); r.Step > p.Step || len(r.Loops) > len(p.Loops) {
			t.Errorf("Resume(%s) = %+v", position, r)
		} else if _, err := tree.Walk(r, v); err != nil {
			t.Errorf("Walk(%+v), from which %s goes on: %v", r, position, err)
		}
		for n := 0; ; n++ {
			for i, total := range w.Total() {
				if at := w.Iteration()[i]; at < 0 || at >= total {
					t.Fatalf("the walk from %s is in iteration %d of %d", position, at, total)
				}
			}
			step, err := w.Next()
			if err == nil && step == tree.Len() {
				return
			}
			if _, given := errors.AsType[*flow.LoopError](err); given {
				return
			}
			if n%7 == 6 {
				w.FailItem(1)
				continue
			}
			if n > 200 {
				t.Fatalf("the walk from %s does not end", position)
			}
			w.Advance()
		}
	})
}
