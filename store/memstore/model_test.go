package memstore

import (
	"flag"
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/internal/test/raced"
)

var fullModel = flag.Bool("full", false, "explore more than a million states of the model")

// TestModel goes through all that can happen to two executions in the hands of
// two workers, as far as the budget allows: every order of claims, renewals,
// writes, requests, deaths, ended leases, lost replies and late messages, also in rescues and
// in finally parts. Every
// operation is carried out on a store that is in the state that the operations
// before led to. Its answer and all that it holds afterwards have to be what the
// model says, and what Courier promises has to hold. From every state it must be
// possible, without further faults and requests, that all executions end or wait
// for an operator.
//
// With -full it explores more than a million states, which takes about a minute
// of one processor and 1.6 GB.
func TestModel(t *testing.T) {
	searches := []*search{
		{name: "global limit", limit: 1, budget: modelBudget{asks: 1, expiries: 1}},
		{name: "limit of the job", scope: "job:job", limit: 1, hold: true, budget: modelBudget{asks: 2, failures: 1}},
		{name: "limit of a key", scope: "key:" + modelKey, limit: 1, budget: modelBudget{crashes: 1, losses: 1}},
		{name: "hand-over", limit: 1, budget: modelBudget{stops: 1, expiries: 1}},
		{name: "no limit", budget: modelBudget{asks: 1}},
		{name: "lost workers", limit: 1, budget: modelBudget{crashes: 3}},
		{name: "two repairs", limit: 1, alone: true, budget: modelBudget{asks: 2, failures: 2, crashes: 1}},
		{name: "rescue", limit: 1, alone: true, rescues: true, budget: modelBudget{asks: 1, failures: 2, crashes: 1}},
		{name: "lost workers and a rescue", limit: 1, alone: true, rescues: true, budget: modelBudget{failures: 1, crashes: 3}},
		{name: "finally", limit: 1, alone: true, finally: true, budget: modelBudget{asks: 2, failures: 1, crashes: 1}},
		{name: "finally with lost replies", limit: 1, alone: true, finally: true, budget: modelBudget{asks: 1, expiries: 1, losses: 1}},
		{name: "hand-over and finally", limit: 1, alone: true, finally: true, budget: modelBudget{asks: 2, stops: 1}},
	}
	if *fullModel {
		searches = []*search{
			{name: "global limit", limit: 1, budget: modelBudget{asks: 1, crashes: 1, expiries: 1, losses: 1}},
			{name: "limit of the job", scope: "job:job", limit: 1, hold: true, budget: modelBudget{asks: 2, failures: 1, stops: 1}},
			{name: "limit of a key", scope: "key:" + modelKey, limit: 1, budget: modelBudget{asks: 1, failures: 1, losses: 1}},
			{name: "no limit", budget: modelBudget{asks: 1, crashes: 1}},
			{name: "lost workers", budget: modelBudget{crashes: 3}},
			{name: "two repairs", limit: 1, alone: true, budget: modelBudget{asks: 3, failures: 2, crashes: 1}},
			{name: "rescue", limit: 1, alone: true, rescues: true, budget: modelBudget{asks: 2, failures: 2, crashes: 1}},
			{name: "lost workers and a rescue", limit: 1, alone: true, rescues: true, budget: modelBudget{asks: 1, failures: 1, crashes: 3}},
			{name: "finally", limit: 1, alone: true, finally: true, budget: modelBudget{asks: 3, failures: 1, crashes: 1}},
			{name: "rescue and finally", limit: 1, alone: true, rescues: true, finally: true, budget: modelBudget{asks: 1, failures: 2, stops: 1, expiries: 1}},
			{name: "finally with lost replies", limit: 1, alone: true, finally: true, budget: modelBudget{asks: 2, crashes: 1, losses: 1}},
		}
	}
	if raced.On { // for what the goroutines of a search share, which is the same in all
		searches = slices.DeleteFunc(searches, func(s *search) bool { return s.budget.asks > 0 || s.budget.stops > 0 })
	}
	for _, s := range searches {
		t.Run(s.name, func(t *testing.T) {
			began := time.Now()
			synctest.Test(t, s.run)
			t.Log(time.Since(began)) // a bubble has its own time
		})
	}
}

// A search explores what can happen.
type search struct {
	name   string
	scope  string // of the limit
	limit  uint8
	hold   bool // the second execution is created held
	alone  bool // the second execution is cancelled: all happens to the first
	budget modelBudget

	rescues bool // the loop of the job has a rescue
	finally bool // the job has a finally part

	seen   [64]shard
	count  atomic.Uint32
	seed   maphash.Seed
	failed atomic.Pointer[violation]
}

// A shard holds some of the states that were seen, with their numbers.
type shard struct {
	mu     sync.Mutex
	number map[model]uint32
}

// A trace says how a state was reached first.
type trace struct {
	from uint32
	by   operation
}

// A violation is an operation that did not lead to what it should have.
type violation struct {
	trace
	err error
}

// An edge is an operation that happens in the end.
type edge struct{ from, to uint32 }

// number returns the number of a state, and whether it is new.
func (s *search) number(m *model) (n uint32, added bool) {
	sh := &s.seen[maphash.Comparable(s.seed, *m)%uint64(len(s.seen))]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if n, ok := sh.number[*m]; ok {
		return n, false
	}
	n = s.count.Add(1) - 1
	sh.number[*m] = n
	return n, true
}

// An explorer is one of the goroutines of a search.
type explorer struct {
	*search
	rig         *rig
	prediction  prediction
	operations  []operation
	found       []*node
	traces      []trace // of what was found
	edges       []edge
	transitions int
}

// auditEvery is how many states share one check of the whole audit, which takes
// longer than all the rest. What an operation adds to it is compared always.
const auditEvery = 32

// explore carries out all operations that are possible in the state of n.
func (e *explorer) explore(n *node) {
	e.operations = n.model.operations(e.operations[:0])
	for _, o := range e.operations {
		p := &e.prediction
		p.predict(&n.model, o)
		next, err := e.rig.do(n, o, p)
		e.transitions++
		if err != nil {
			e.failed.CompareAndSwap(nil, &violation{trace{n.id, o}, err})
			return
		}
		id, added := e.number(&p.next)
		if n.model.fair(o) && id != n.id {
			e.edges = append(e.edges, edge{n.id, id})
		}
		if !added {
			continue
		}
		if id%auditEvery == 0 && o.kind != send {
			if err := e.rig.audited(); err != nil {
				e.failed.CompareAndSwap(nil, &violation{trace{n.id, o}, err})
				return
			}
		}
		next.id, next.frozen = id, n.frozen
		for i := range next.frozen {
			if e.rig.changed[i] {
				next.frozen[i] = freeze(e.rig.x[i])
			}
		}
		e.found = append(e.found, &next)
		e.traces = append(e.traces, trace{n.id, o})
	}
}

func (s *search) run(t *testing.T) {
	s.seed = maphash.MakeSeed()
	for i := range s.seen {
		s.seen[i].number = make(map[model]uint32)
	}
	explorers := make([]*explorer, runtime.GOMAXPROCS(0))
	for i := range explorers {
		rig, err := newRig(s)
		if err != nil {
			t.Fatal(err)
		}
		explorers[i] = &explorer{search: s, rig: rig}
	}
	rig := explorers[0].rig
	root := &node{frozen: [2]*execution{freeze(rig.x[0]), freeze(rig.x[1])}}
	root.model.limit, root.model.left, root.model.rescues = s.limit, s.budget, s.rescues
	for i, x := range rig.x {
		root.model.x[i] = modelOf(x, rig.now)
	}
	s.number(&root.model)
	traces := []trace{{}}
	goals := []bool{waits(&root.model)}
	depth, widest, transitions := 0, 0, 0
	for level := []*node{root}; len(level) > 0; depth++ {
		widest = max(widest, len(level))
		var next atomic.Int64
		var wg sync.WaitGroup
		for _, e := range explorers {
			e.found, e.traces = nil, nil
			wg.Go(func() {
				for s.failed.Load() == nil {
					i := next.Add(1) - 1
					if i >= int64(len(level)) {
						return
					}
					e.explore(level[i])
					level[i] = nil
				}
			})
		}
		wg.Wait()
		if v := s.failed.Load(); v != nil {
			t.Fatalf("after %d states:\n%s%v", s.count.Load(), path(append(traces, v.trace), v.trace), v.err)
		}
		level = nil
		n := int(s.count.Load()) - len(traces)
		traces = append(traces, make([]trace, n)...)
		goals = append(goals, make([]bool, n)...)
		for _, e := range explorers {
			for i, n := range e.found {
				traces[n.id], goals[n.id] = e.traces[i], waits(&n.model)
			}
			level = append(level, e.found...)
		}
	}
	var edges []edge
	for _, e := range explorers {
		edges = append(edges, e.edges...)
		transitions += e.transitions
	}
	if id, ok := stuck(goals, edges); ok {
		t.Errorf("this leads to no state in which all executions have ended or wait for an operator:\n%s", path(traces, traces[id]))
	}
	t.Logf("%d states, %d transitions, depth %d, at most %d states of one depth",
		s.count.Load(), transitions, depth, widest)
}

// waits reports whether all executions have ended or wait for an operator.
func waits(m *model) bool {
	for i := range m.x {
		if s := m.x[i].state; s == isQueued || s == isRunning {
			return false
		}
	}
	return true
}

// stuck returns a state from which no goal can be reached, if there is one.
func stuck(goals []bool, edges []edge) (uint32, bool) {
	into := make([]uint32, len(goals)+1) // where the edges into a state begin
	for _, e := range edges {
		into[e.to+1]++
	}
	for i := range goals {
		into[i+1] += into[i]
	}
	from, fill := make([]uint32, len(edges)), make([]uint32, len(goals))
	for _, e := range edges {
		from[into[e.to]+fill[e.to]] = e.from
		fill[e.to]++
	}
	var list []uint32
	for i, ok := range goals {
		if ok {
			list = append(list, uint32(i))
		}
	}
	for len(list) > 0 {
		to := list[len(list)-1]
		list = list[:len(list)-1]
		for _, f := range from[into[to]:into[to+1]] {
			if !goals[f] {
				goals[f] = true
				list = append(list, f)
			}
		}
	}
	for i, ok := range goals {
		if !ok {
			return uint32(i), true
		}
	}
	return 0, false
}

// path lists the operations that lead to a state, and the one in it.
func path(traces []trace, last trace) string {
	var list []operation
	for at := last; at.by.kind != begin; at = traces[at.from] {
		list = append(list, at.by)
	}
	var b strings.Builder
	for i := range list {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, list[len(list)-1-i])
	}
	return b.String()
}
