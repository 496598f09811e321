package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest"
	"github.com/courierhq/courier/store/storewrap"
)

// richJob has loops in branches in loops, branches that are taken and not,
// empty lists, JSON text as a list, and passes values of all kinds from step to
// step. OUTER and INNER stand for what the markers of its loops say of a resume.
const richJob = `{"name": "rich", "params": {"big": 9007199254740993, "none": null, "flag": false}, "steps": [
	{"id": "list", "type": "demo.list"},
	{"type": "flow.foreach", "config": {"source": "context:list.items", "on_resume": "OUTER"}},
	{"id": "get", "type": "demo.step", "config": {"item": "context:loop.current_item", "index": "context:loop.index", "big": "context:params.big", "flag": "context:list.flag"}},
	{"type": "flow.if", "config": {"left": "context:get.size", "operator": "greater_than", "right": 10}},
	{"id": "big", "type": "demo.step", "config": {"size": "context:get.size", "text": "<${context:get.size}> ${context:get.flag} ${context:get.list}"}},
	{"type": "flow.foreach", "config": {"source": "context:loop.current_item.subs", "on_resume": "INNER"}},
	{"id": "sub", "type": "demo.step", "config": {"item": "context:loop.current_item", "outer": "context:loop.0.current_item.name", "at": "context:loop.0.index", "file": "context:get.out"}},
	{"type": "flow.if", "config": {"left": "context:loop.index", "operator": "equals", "right": 0}},
	{"id": "first", "type": "demo.step", "config": {"of": "context:sub.out", "json": "context:list.json"}},
	{"type": "flow.else"},
	{"id": "rest", "type": "demo.step", "config": {"of": "context:sub.out", "first": "${context:sub.number}"}},
	{"type": "flow.end"},
	{"type": "flow.end"},
	{"type": "flow.if", "config": {"left": "context:sub.out", "operator": "exists"}},
	{"id": "after", "type": "demo.step", "config": {"last": "context:sub.out"}},
	{"type": "flow.end"},
	{"type": "flow.else"},
	{"id": "small", "type": "demo.step", "config": {"file": "context:get.out", "decimal": "context:get.decimal", "none": "context:params.none"}},
	{"type": "flow.end"},
	{"id": "join", "type": "demo.step", "config": {"size": "context:get.size", "list": "context:get.list"}},
	{"type": "flow.end"},
	{"type": "flow.if", "config": {"left": "context:big.out", "operator": "exists"}},
	{"id": "done", "type": "demo.step", "config": {"big": "context:big.out", "last": "context:get.size"}},
	{"type": "flow.else"},
	{"id": "undone", "type": "demo.step"},
	{"type": "flow.end"},
	{"type": "flow.foreach", "config": {"source": "context:list.json"}},
	{"id": "text", "type": "demo.step", "config": {"item": "context:loop.current_item", "n": "context:loop.current_item.n"}},
	{"type": "flow.end"},
	{"id": "last", "type": "demo.step", "config": {"n": "context:text.number", "name": "${context:job.name} ${context:job.attempt}", "empty": "context:list.empty"}}]}`

// richLoops are the loops of richJob: the index of the marker, and that of its
// flow.end.
var richLoops = [][2]int{{1, 20}, {5, 12}, {26, 28}}

var richList = m{
	"items": []m{
		{"name": "a", "size": 5, "subs": []string{}},
		{"name": "b", "size": json.Number("50.250"), "subs": []string{"x", "secret:y"}},
		{"name": "c", "size": json.Number("10.0"), "subs": []string{"never"}},
		{"name": "d", "size": json.Number("9007199254740993"), "subs": `[{"json": true}]`},
		{"name": "e", "size": 11, "subs": []string{}},
	},
	"json": `[{"n": 1.50}, {"n": 18446744073709551617}]`, "flag": true, "empty": []string{},
}

// A scene is one execution of richJob with all that its steps have seen.
type scene struct {
	t     *testing.T
	h     *couriertest.Harness
	calls []call
	// fault is asked at every call of a step what becomes of it.
	fault func(n int, c *call) error
	id    courier.ExecutionID
}

// A call is what a step saw.
type call struct {
	Step      int
	Iteration []int
	Config    m
	Values    m
	attempt   int
	number    int // of the start
	dir       string
}

// newScene makes the step types of richJob known.
func newScene(t *testing.T, h *couriertest.Harness) *scene {
	s := &scene{t: t, h: h}
	for _, typ := range []string{"demo.list", "demo.step"} {
		h.Stub(typ, s.step)
	}
	return s
}

func (s *scene) step(_ context.Context, job *courier.Context, cfg map[string]any) (map[string]any, error) {
	c := call{Step: job.Step(), Iteration: job.Iteration(), Config: maps.Clone(cfg), Values: stepcontext.Of(job).Snapshot(), attempt: job.Attempt(), number: stepcontext.Of(job).StartNumber(), dir: job.Files().Dir()}
	for _, name := range []string{"execution_id", "started_at", "workspace"} {
		delete(c.Values, "job."+name) // differ from one execution to the next
	}
	n := len(s.calls)
	s.calls = append(s.calls, c)
	if s.fault != nil {
		if err := s.fault(n, &c); err != nil {
			return nil, err
		}
	}
	if job.Type() == "demo.list" {
		return richList, nil
	}
	out := m{
		"out": fmt.Sprintf("%s%v", job.ID(), job.Iteration()), "number": json.Number("9007199254740993"),
		"decimal": json.Number("0.10"), "flag": len(cfg)%2 == 0, "list": []any{1, "two", nil, m{"three": 3.5}},
	}
	if item, ok := cfg["item"].(map[string]any); ok {
		out["size"] = item["size"]
	}
	return out, job.Set("set", job.Attempt() > 0)
}

// job returns richJob with a failure policy and what the markers of its loops
// say.
func (s *scene) job(policy, outer, inner string) courier.Job {
	s.t.Helper()
	job := s.h.Job(strings.NewReplacer("OUTER", outer, "INNER", inner).Replace(richJob))
	if err := json.Unmarshal([]byte(policy), &job.FailurePolicy); err != nil {
		s.t.Fatal(err)
	}
	return job
}

// another returns an engine on the harness's store, with the directory tree of
// dir.
func another(t *testing.T, h *couriertest.Harness, s store.Store, dir string) *engine.Engine {
	e := engine.New(s, h.Registry, &engine.Options{Workspace: dir, WorkspaceID: "tree"})
	t.Cleanup(func() { e.Stop(context.Background()) })
	return e
}

// play runs a job with one engine until nothing moves, lets meanwhile change
// what it wants, has another engine resume it, and returns the result.
func (s *scene) play(job courier.Job, st store.Store, meanwhile func(id courier.ExecutionID, state courier.State)) *couriertest.Result {
	s.t.Helper()
	dir := s.t.TempDir()
	one, two := another(s.t, s.h, st, dir), another(s.t, s.h, s.h.Store, dir)
	if _, err := one.Jobs().Define(s.t.Context(), job, nil); err != nil {
		s.t.Fatal(err)
	}
	x, err := one.Enqueue(s.t.Context(), job.Name, &courier.EnqueueOptions{Hold: true})
	if err != nil {
		s.t.Fatal(err)
	}
	s.id = x.ID
	if err := errors.Join(errOf(one.Release(s.t.Context(), x.ID, courier.By{Actor: "ops"})), one.Start(s.t.Context())); err != nil {
		s.t.Fatal(err)
	}
	x = settled(s.t, one, x.ID)
	if err := one.Stop(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	if !x.State.Final() {
		if meanwhile != nil {
			meanwhile(x.ID, x.State)
		}
		if err := errors.Join(errOf(two.Resume(s.t.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}})), two.Start(s.t.Context())); err != nil {
			s.t.Fatal(err)
		}
	}
	r := s.h.Wait(x.ID)
	if err := storetest.CheckAudit(r.Audit); err != nil {
		s.t.Errorf("audit: %v", err)
	}
	return r
}

// settled waits until an execution is paused or has ended.
func settled(t *testing.T, e *engine.Engine, id courier.ExecutionID) courier.Execution {
	t.Helper()
	for range 100 {
		quiet()
		x, err := e.Executions().Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if x.State == courier.Paused || x.State.Ended() {
			return x
		}
		time.Sleep(time.Second)
	}
	t.Fatal("the execution does not come to rest")
	return courier.Execution{}
}

// values returns the values of a result without those that differ from one
// execution to the next.
func valuesOf(r *couriertest.Result) map[string]any {
	for _, name := range []string{"execution_id", "started_at", "workspace"} {
		delete(r.Values, "job."+name)
	}
	return r.Values
}

// richTrace is what richJob does, undisturbed.
var richTrace = []string{
	"0 demo.list completed",
	"2 demo.step[0] completed", "17 demo.step[0] completed", "19 demo.step[0] completed",
	"2 demo.step[1] completed", "4 demo.step[1] completed", "6 demo.step[1.0] completed", "8 demo.step[1.0] completed",
	"6 demo.step[1.1] completed", "10 demo.step[1.1] completed", "14 demo.step[1] completed", "19 demo.step[1] completed",
	"2 demo.step[2] completed", "17 demo.step[2] completed", "19 demo.step[2] completed",
	"2 demo.step[3] completed", "4 demo.step[3] completed", "6 demo.step[3.0] completed", "8 demo.step[3.0] completed",
	"14 demo.step[3] completed", "19 demo.step[3] completed",
	"2 demo.step[4] completed", "4 demo.step[4] completed", "19 demo.step[4] completed",
	"22 demo.step completed", "27 demo.step[0] completed", "27 demo.step[1] completed", "29 demo.step completed",
}

// undisturbed runs richJob without any disturbance but fault.
func undisturbed(t *testing.T, policy string, fault func(n int, c *call) error) (calls []call, trace []string, values map[string]any) {
	t.Helper()
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		s := newScene(t, h)
		s.fault = fault
		r := s.play(s.job(policy, "continue", "continue"), h.Store, nil).RequireState(courier.Completed)
		calls, trace, values = s.calls, r.Trace(), valuesOf(r)
	})
	if fault == nil && !slices.Equal(trace, richTrace) {
		t.Fatalf("steps\n  %s", strings.Join(trace, "\n  "))
	}
	return calls, trace, values
}

// requireCalls asserts that steps have seen the same, attempts and directories
// aside.
func requireCalls(t *testing.T, got, want []call) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d calls, want %d", len(got), len(want))
	}
	for i := range got {
		g, w := got[i], want[i]
		g.attempt, g.number, g.dir, w.attempt, w.number, w.dir = 0, 0, "", 0, 0, ""
		if !reflect.DeepEqual(g, w) {
			t.Fatalf("call %d saw\n%v\nwant\n%v", i, g, w)
		}
	}
}

// requireNewDirs asserts that no two attempts shared a directory, or the number in
// the names of side files.
func requireNewDirs(t *testing.T, calls []call) {
	t.Helper()
	seen := make(map[string]bool)
	for i, c := range calls {
		if seen[c.dir] {
			t.Errorf("call %d: the directory %s was used before", i, c.dir)
		}
		seen[c.dir] = true
		start := fmt.Sprint(c.Step, c.Iteration, " start ", c.number)
		if seen[start] {
			t.Errorf("call %d: %s was there before", i, start)
		}
		seen[start] = true
	}
}

// TestResumeAfterFailureAnywhere fails each call of a step of richJob once, and
// has another engine resume it.
func TestResumeAfterFailureAnywhere(t *testing.T) {
	calls, trace, values := undisturbed(t, `"stop"`, nil)
	want := m{"item": m{"name": "d", "size": json.Number("9007199254740993"), "subs": `[{"json": true}]`}, "index": json.Number("3"), "big": json.Number("9007199254740993"), "flag": true}
	if got := calls[15].Config; !reflect.DeepEqual(got, want) {
		t.Fatalf("configuration of step 2 in iteration 3: %v", got)
	}
	for n := range calls {
		couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
			s := newScene(t, h)
			s.fault = failOnce(n)
			r := s.play(s.job(`"stop"`, "continue", "continue"), h.Store, func(_ courier.ExecutionID, state courier.State) {
				if state != courier.Failed {
					t.Fatalf("call %d: %s before the resume", n, state)
				}
			}).RequireState(courier.Completed)
			failed := strings.TrimSuffix(trace[n], " completed")
			r.RequireTrace(slices.Concat(trace[:n], []string{failed + " failed", failed + "#2 completed"}, trace[n+1:])...)
			requireCalls(t, s.calls, slices.Concat(calls[:n+1], calls[n:]))
			requireNewDirs(t, s.calls)
			if got := valuesOf(r); !reflect.DeepEqual(got, values) {
				t.Errorf("call %d: values\n%v\nwant\n%v", n, got, values)
			}
		})
	}
}

func failOnce(n int) func(int, *call) error {
	return func(i int, _ *call) error {
		if i == n {
			return errors.New("boom")
		}
		return nil
	}
}

// TestResumeAfterPauseAnywhere pauses richJob during each call of a step, and
// also before the first one, under policies that leave failures behind.
func TestResumeAfterPauseAnywhere(t *testing.T) {
	seldom := func(_ int, c *call) error {
		if c.attempt == 1 && (c.Step == 10 || c.Step == 6 && c.Iteration[0] == 3 || c.Step == 2 && c.Iteration[0] == 0 || c.Step == 27 && c.Iteration[0] == 1) {
			return errors.New("boom")
		}
		return nil
	}
	for name, fault := range map[string]func(int, *call) error{`"stop"`: nil, `"skip_and_continue"`: seldom, `{"type": "retry_step", "max_retries": 1}`: seldom} {
		calls, trace, values := undisturbed(t, name, fault)
		for n := -2; n < len(calls)-1; n++ {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				s := newScene(t, h)
				pause := func() error {
					return errOf(another(t, h, h.Store, t.TempDir()).Pause(t.Context(), s.id, courier.By{Actor: "ops"}))
				}
				s.fault = func(i int, c *call) error {
					if i == n {
						if err := pause(); err != nil {
							t.Error(err)
						}
					}
					if fault == nil {
						return nil
					}
					return fault(i, c)
				}
				var once bool
				st := storewrap.Intercept(h.Store, func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
					err := do(ctx)
					queued := n == -2 && c.Method == "Request"
					claimed := n == -1 && c.Method == "Claim" && len(c.Result.(store.Claims).List) > 0
					if err == nil && (queued || claimed) && !once { // other calls may be made at the same time
						once = true
						err = pause()
					}
					return err
				})
				r := s.play(s.job(name, "continue", "continue"), st, func(_ courier.ExecutionID, state courier.State) {
					if state != courier.Paused || len(s.calls) != max(0, n+1) {
						t.Fatalf("%s: call %d: %s after %d calls", name, n, state, len(s.calls))
					}
				}).RequireState(courier.Completed)
				if !r.Resumed {
					t.Errorf("%s: call %d: was not paused", name, n)
				}
				r.RequireTrace(trace...)
				requireCalls(t, s.calls, calls)
				requireNewDirs(t, s.calls)
				if got := valuesOf(r); !reflect.DeepEqual(got, values) {
					t.Errorf("%s: call %d: values\n%v\nwant\n%v", name, n, got, values)
				}
			})
		}
	}
}

// restartOf returns the call at which a resume begins that failed at call n, and
// whether a loop is started again there.
func restartOf(calls []call, n int, restarts []int) (from int, restarted bool) {
	for depth, loop := range loopsAround(calls[n].Step) {
		if !slices.Contains(restarts, loop[0]) {
			continue
		}
		return slices.IndexFunc(calls, func(c call) bool {
			return c.Step > loop[0] && c.Step < loop[1] && slices.Equal(c.Iteration[:depth], calls[n].Iteration[:depth])
		}), true
	}
	return n, false
}

func loopsAround(step int) (list [][2]int) {
	for _, loop := range richLoops {
		if loop[0] < step && step < loop[1] {
			list = append(list, loop)
		}
	}
	return list
}

// TestResumeRestartsLoopsAnywhere is TestResumeAfterFailureAnywhere where the
// outer loop, or the inner one, says that it starts again.
func TestResumeRestartsLoopsAnywhere(t *testing.T) {
	calls, trace, values := undisturbed(t, `"stop"`, nil)
	for _, test := range []struct {
		outer, inner string
		restarts     []int
	}{{"restart", "continue", []int{1}}, {"continue", "restart", []int{5}}, {"restart", "restart", []int{1, 5}}} {
		for n := 0; n < len(calls); n += raced.Or(7, 1) {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				s := newScene(t, h)
				s.fault = failOnce(n)
				r := s.play(s.job(`"stop"`, test.outer, test.inner), h.Store, nil).RequireState(courier.Completed)
				from, restarted := restartOf(calls, n, test.restarts)
				failed := strings.TrimSuffix(trace[n], " completed")
				want := slices.Concat(trace[:n], []string{failed + " failed"}, trace[from:])
				if !restarted {
					want[n+1] = failed + "#2 completed"
				}
				if got := r.Trace(); !slices.Equal(got, want) {
					t.Errorf("call %d: steps\n  %s\nwant\n  %s", n, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
				}
				requireCalls(t, s.calls, slices.Concat(calls[:n+1], calls[from:]))
				requireNewDirs(t, s.calls)
				if got := valuesOf(r); !reflect.DeepEqual(got, values) {
					t.Errorf("call %d: values\n%v\nwant\n%v", n, got, values)
				}
			})
		}
	}
}
