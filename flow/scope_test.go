package flow_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

func TestScope(t *testing.T) {
	tree := parse(t,
		do("a.a"),                 // 0
		each([]any{1, 2, 3}, nil), // 1
		do("a.b"),                 // 2
		each([]any{1, 2}, nil),    // 3
		do("a.c"),                 // 4
		end,                       // 5
		do("a.d"),                 // 6
		end,                       // 7
		do("a.e"),                 // 8
		when("1", "equals", "1"),  // 9
		do("a.f"),                 // 10
		end,                       // 11
		do("a.g"),                 // 12
	)
	in := func(step int, loops ...int) courier.Position {
		p := courier.Position{Step: step}
		for i, n := range loops {
			p.Loops = append(p.Loops, courier.LoopPosition{Step: []int{1, 3}[i], Index: n})
		}
		return p
	}
	ok := func(seq int64, step int, of ...int) courier.StepExecution {
		return courier.StepExecution{Seq: seq, Step: step, Iteration: of, Total: []int{3, 2}[:len(of)], State: courier.StepCompleted}
	}
	bad := func(seq int64, loop, step int, of ...int) courier.StepExecution {
		r := ok(seq, step, of...)
		r.State, r.FailedLoop = courier.StepFailed, &loop
		return r
	}
	back := func(seq int64, p courier.Position) courier.RepairPass {
		return courier.RepairPass{Seq: seq, From: &p, Then: p}
	}
	items := func(seq int64, then courier.Position) courier.RepairPass {
		return courier.RepairPass{Seq: seq, Then: then}
	}
	type list = []courier.StepExecution
	for _, c := range []struct {
		name    string
		p       courier.Position
		records list
		passes  []courier.RepairPass
		want    string // seq@step, and the loops that read null
	}{
		{"plain", in(8), list{ok(1, 0), ok(20, 2, 2), ok(23, 4, 2, 1), ok(24, 6, 2)}, nil, "1@0 20@2 23@4 24@6 []"},
		{"several records of a step", in(8), list{ok(30, 2, 1), ok(20, 2, 2), ok(25, 2, 2), ok(22, 2, 2)}, nil, "25@2 []"},
		{"another iteration", in(6, 1), list{ok(20, 2, 2), ok(10, 2, 1), ok(13, 4, 1, 1), ok(12, 4, 1, 0)}, nil, "10@2 13@4 []"},

		{"the last item failed", in(8), list{ok(1, 0), ok(20, 2, 2), bad(21, 1, 4, 2, 0), ok(15, 6, 1)}, nil, "1@0 [1]"},
		{"an item before it failed", in(8), list{ok(20, 2, 2), ok(23, 4, 2, 1), bad(14, 1, 6, 1)}, nil, "20@2 23@4 []"},
		{"the last item of the inner loop failed", in(8), list{ok(20, 2, 2), bad(23, 3, 4, 2, 1), ok(24, 6, 2)}, nil, "20@2 24@6 [3]"},
		{"the same, in the item", in(6, 2), list{ok(20, 2, 2), bad(23, 3, 4, 2, 1)}, nil, "20@2 [3]"},
		{"the inner loop is open", in(5, 2, 1), list{ok(20, 2, 2), ok(23, 4, 2, 1)}, nil, "20@2 23@4 []"},
		{"the present item of the inner loop failed", in(5, 2, 0), list{ok(20, 2, 2), bad(23, 3, 4, 2, 0)}, nil, "20@2 [3]"},
		{"the present item of the outer loop failed", in(7, 1), list{ok(10, 2, 1), bad(11, 1, 4, 1, 0)}, nil, "[1]"},
		{"and is executed again", in(4, 1, 0), list{ok(10, 2, 1), bad(11, 1, 4, 1, 0)}, nil, "10@2 []"},
		{"and is good now", in(7, 1), list{ok(10, 2, 1), bad(11, 1, 4, 1, 0), ok(31, 4, 1, 0), ok(32, 4, 1, 1), ok(33, 6, 1)}, nil, "10@2 32@4 33@6 []"},
		{"the loop that was given up", in(7, 2), list{ok(20, 2, 2), bad(21, 3, 4, 2, 0), bad(22, 1, 3, 2)}, nil, "[1]"},

		{"a first pass took another branch", in(12), list{ok(1, 0), ok(30, 8), ok(20, 10)}, nil, "1@0 30@8 []"},
		{"an item was repaired, what follows the loop was not repeated", in(12), list{ok(1, 0), ok(50, 2, 2), ok(51, 6, 2), ok(30, 8), ok(31, 10)}, []courier.RepairPass{items(40, in(12))}, "1@0 50@2 51@6 30@8 31@10 []"},
		{"before the pass, a loop was started again", in(12), list{ok(50, 2, 2), ok(30, 8), ok(20, 10)}, []courier.RepairPass{items(40, in(12))}, "50@2 30@8 []"},
		{"what follows the loop is repeated", in(12), list{ok(50, 2, 2), ok(30, 8), ok(31, 10)}, []courier.RepairPass{items(40, in(8))}, "50@2 []"},
		{"and was", in(12), list{ok(50, 2, 2), ok(61, 8), ok(31, 10)}, []courier.RepairPass{items(40, in(8))}, "50@2 61@8 []"},
		{"back to an earlier step", in(8), list{ok(1, 0), ok(20, 2, 2), ok(24, 6, 2)}, []courier.RepairPass{back(40, in(1))}, "1@0 []"},
		{"back in an iteration", in(6, 1), list{ok(10, 2, 1), ok(13, 4, 1, 1)}, []courier.RepairPass{back(40, in(3, 1))}, "10@2 []"},
		{"a failure before it does not count", in(8), list{ok(20, 2, 2), bad(21, 1, 4, 2, 0), ok(42, 4, 2, 1), ok(43, 6, 2)}, []courier.RepairPass{back(40, in(4, 2, 0))}, "20@2 42@4 43@6 []"},
		{"records that don't fit", in(8), list{ok(1, 99), ok(2, -1), ok(3, 2), bad(4, 1, 4, 2)}, []courier.RepairPass{back(40, in(0))}, "[]"},
	} {
		for range 3 { // in any order
			rand.Shuffle(len(c.records), func(i, j int) { c.records[i], c.records[j] = c.records[j], c.records[i] })
			inScope, null := tree.Scope(c.p, c.records, c.passes)
			var got []string
			for _, r := range inScope {
				got = append(got, fmt.Sprintf("%d@%d", r.Seq, r.Step))
			}
			if s := strings.Join(append(got, fmt.Sprint(null)), " "); s != c.want {
				t.Errorf("%s: Scope(%v) = %s, want %s", c.name, c.p, s, c.want)
			}
		}
	}
}

func TestCompare(t *testing.T) {
	l := func(step, index int) courier.LoopPosition { return courier.LoopPosition{Step: step, Index: index} }
	at := func(step int, loops ...courier.LoopPosition) courier.Position {
		return courier.Position{Step: step, Loops: loops}
	}
	// In the order of a walk through nested.
	order := []courier.Position{
		at(0), at(1, l(0, 0)), at(2, l(0, 0), l(1, 0)), at(3, l(0, 0), l(1, 0)), at(4, l(0, 0), l(1, 0), l(3, 0)), at(5, l(0, 0), l(1, 0), l(3, 0)),
		at(4, l(0, 0), l(1, 0), l(3, 1)), at(6, l(0, 0), l(1, 0)), at(7, l(0, 0), l(1, 0)), at(2, l(0, 0), l(1, 1)), at(8, l(0, 0)), at(9, l(0, 0)),
		at(1, l(0, 1)), at(4, l(0, 1), l(1, 0), l(3, 0)), at(8, l(0, 1)), at(10), at(11), at(13, l(12, 0)), at(14),
	}
	for i, a := range order {
		for j, b := range order {
			if got := flow.Compare(a, b); got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("Compare(%v, %v) = %d", a, b, got)
			}
		}
	}
	if flow.Compare(courier.Position{Step: 1, Loops: []courier.LoopPosition{{Failed: 1}}}, at(1, l(0, 0))) != 0 {
		t.Error("Compare minds failures")
	}
}
