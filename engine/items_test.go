package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
)

// decryptJob decrypts and sends four files, and reports which failed.
const decryptJob = `{"name": "files", "steps": [
	{"id": "each", "type": "flow.foreach", "config": {"source": ["a", "b", "c", "d"], "on_item_failure": "continue"MORE}},
	{"id": "decrypt", "type": "demo.decrypt", "config": {"name": "context:loop.current_item"}},
	{"id": "send", "type": "demo.send", "config": {"name": "context:loop.current_item", "file": "context:decrypt.file"}},
	{"type": "flow.end"},
	{"id": "report", "type": "demo.report", "config": {"failed": "context:each.failed", "count": "context:each.failed_count", "of": "context:each.count", "last": "context:decrypt.file"}}]}`

// files has the stubs of decryptJob; bad are the names that can't be handled, with the
// step and the class, such as "b decrypt integrity".
func files(h *couriertest.Harness, bad map[string]bool) map[string]*couriertest.Stub {
	stub := func(step string) couriertest.StubFunc {
		return func(_ context.Context, _ *courier.Context, config map[string]any) (map[string]any, error) {
			for key := range bad {
				name, where, _ := strings.Cut(key, " ")
				where, class, _ := strings.Cut(where, " ")
				if bad[key] && where == step && config["name"] == name {
					return nil, courier.WithClass(fmt.Errorf("%s of %s is broken", step, name), courier.Reason(class))
				}
			}
			return m{"file": fmt.Sprintf("%s of %v", step, config["name"])}, nil
		}
	}
	return map[string]*couriertest.Stub{
		"decrypt": h.Stub("demo.decrypt", stub("decrypt")), "send": h.Stub("demo.send", stub("send")), "report": h.Stub("demo.report", stub("report")),
	}
}

// TestFailedItems lets files of a list fail in several ways.
func TestFailedItems(t *testing.T) {
	for _, test := range []struct {
		name, more string
		bad        []string
		state      courier.State
		reason     courier.Reason
		failed     int
		trace      string
	}{
		{"none", ``, nil, courier.Completed, "", 0, "0.1 0.2 1.1 1.2 2.1 2.2 3.1 3.2 4"},
		{"one", ``, []string{"b decrypt integrity"}, courier.Failed, courier.ReasonItems, 1, "0.1 0.2 1.1! 2.1 2.2 3.1 3.2 4"},
		{"the last", ``, []string{"d send exists"}, courier.Failed, courier.ReasonItems, 1, "0.1 0.2 1.1 1.2 2.1 2.2 3.1 3.2! 4"},
		{"all", ``, []string{"a send error", "b send error", "c send error", "d decrypt error"}, courier.Failed, courier.ReasonItems, 4, "0.1 0.2! 1.1 1.2! 2.1 2.2! 3.1! 4"},
		{"accepted", `, "then": "complete"`, []string{"b decrypt integrity"}, courier.Completed, courier.ReasonItems, 1, "0.1 0.2 1.1! 2.1 2.2 3.1 3.2 4"},
		{"the partner", ``, []string{"b send connection"}, courier.Failed, courier.ReasonConnection, 0, "0.1 0.2 1.1 1.2!"},
		{"the partner, but it is meant", `, "continue_on": ["connection"]`, []string{"b send connection"}, courier.Failed, courier.ReasonItems, 1, "0.1 0.2 1.1 1.2! 2.1 2.2 3.1 3.2 4"},
		{"as many as may", `, "max_failures": 1`, []string{"b decrypt error"}, courier.Failed, courier.ReasonItems, 1, "0.1 0.2 1.1! 2.1 2.2 3.1 3.2 4"},
		{"more than may", `, "max_failures": 1`, []string{"a decrypt error", "b decrypt error"}, courier.Failed, courier.ReasonItems, 2, "0.1! 1.1! 0!"},
		{"no more than a share", `, "max_failures": "25%"`, []string{"b decrypt error"}, courier.Failed, courier.ReasonItems, 1, "0.1 0.2 1.1! 2.1 2.2 3.1 3.2 4"},
		{"more than a share", `, "max_failures": "49%"`, []string{"a decrypt error", "b decrypt error"}, courier.Failed, courier.ReasonItems, 2, "0.1! 1.1! 2.1 2.2 3.1 3.2 0!"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var events []courier.Event
			opt := &engine.Options{Observers: []func(courier.Event){func(e courier.Event) { events = append(events, e) }}}
			couriertest.Virtual(t, opt, func(t *testing.T, h *couriertest.Harness) {
				bad := make(map[string]bool)
				for _, key := range test.bad {
					bad[key] = true
				}
				stubs := files(h, bad)
				job := strings.ReplaceAll(decryptJob, "MORE", test.more)
				r := h.Run(h.Job(job), nil)
				if r.RequireState(test.state); r.FailedItems != test.failed || r.Failure == nil != (test.reason == "") || r.Failure != nil && r.Failure.Reason != test.reason {
					t.Errorf("%d failed items, failure %+v, want %d and %q", r.FailedItems, r.Failure, test.failed, test.reason)
				}
				if got := visits(r.Steps); got != test.trace {
					t.Errorf("steps %s, want %s", got, test.trace)
				}
				requireAudit(t, r)
				if calls := stubs["report"].Calls(); len(calls) > 0 && test.failed > 0 {
					list, _ := calls[0].Config["failed"].([]any)
					if len(list) != test.failed || fmt.Sprint(calls[0].Config["count"]) != fmt.Sprint(test.failed) || fmt.Sprint(calls[0].Config["of"]) != "4" {
						t.Errorf("the report was given %v", calls[0].Config)
					}
					if first, _ := list[0].(map[string]any); first["step"] == nil || first["class"] == nil || !strings.Contains(fmt.Sprint(first["message"]), "is broken") {
						t.Errorf("the first failed item is %v", list[0])
					}
					if last := calls[0].Config["last"]; (last == nil) != strings.HasSuffix(strings.TrimSuffix(test.trace, " 4"), "!") {
						t.Errorf("after the loop, the output of the last item is %v", last)
					}
				}
				end := slices.IndexFunc(events, func(e courier.Event) bool {
					return e.Type == courier.EventJobCompleted || e.Type == courier.EventJobFailed
				})
				if end < 0 || events[end].Reason != test.reason {
					t.Errorf("the last event has the reason %q, want %q", events[end].Reason, test.reason)
				}
			})
		})
	}
}

// visits writes the records of steps, such as "0.1" for a completed step 1 in iteration
// 0 and "0.1!" for one that failed.
func visits(steps []courier.StepExecution) string {
	var list []string
	for _, s := range steps {
		v := ""
		for _, i := range s.Iteration {
			v += fmt.Sprint(i) + "."
		}
		v += fmt.Sprint(s.Step)
		if s.State == courier.StepFailed {
			v += "!"
		} else if s.State == courier.StepSkipped {
			v += "-"
		}
		list = append(list, v)
	}
	return strings.Join(list, " ")
}

// TestRepairItems resumes an execution of which items have failed.
func TestRepairItems(t *testing.T) {
	for _, test := range []struct {
		name, more string
		bad        []string
		mended     []string // before the first resume
		items      []int    // that are resumed; nil means all
		state      courier.State
		failed     int
		trace      string // of the records after the resume
	}{
		{"all are good now", ``, []string{"b decrypt error", "d send error"}, []string{"b decrypt error", "d send error"}, nil, courier.Completed, 0, "1.1 1.2 3.2"},
		{"one is good", ``, []string{"b decrypt error", "d send error"}, []string{"d send error"}, nil, courier.Failed, 1, "1.1! 3.2"},
		{"only one is tried", ``, []string{"b decrypt error", "d send error"}, []string{"b decrypt error", "d send error"}, []int{3}, courier.Failed, 1, "3.2"},
		{"what is behind runs again", `, "after_repair": "rerun"`, []string{"b decrypt error"}, []string{"b decrypt error"}, nil, courier.Completed, 0, "1.1 1.2 4"},
		{"the loop goes on where it was given up", `, "max_failures": 0`, []string{"b decrypt error"}, []string{"b decrypt error"}, nil, courier.Completed, 0, "1.1 1.2 2.1 2.2 3.1 3.2 4"},
		{"and is given up again", `, "max_failures": 0`, []string{"b decrypt error"}, nil, nil, courier.Failed, 1, "1.1! 0!"},
		{"and later", `, "max_failures": 1`, []string{"a decrypt error", "b decrypt error", "c decrypt error", "d decrypt error"}, []string{"a decrypt error", "b decrypt error"}, nil, courier.Failed, 2, "0.1 0.2 1.1 1.2 2.1! 3.1! 0!"},
	} {
		t.Run(test.name, func(t *testing.T) {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				bad := make(map[string]bool)
				for _, key := range test.bad {
					bad[key] = true
				}
				files(h, bad)
				r := h.Run(h.Job(strings.ReplaceAll(decryptJob, "MORE", test.more)), nil)
				before := len(r.RequireState(courier.Failed).Steps)
				for _, key := range test.mended {
					bad[key] = false
				}
				h.Start()
				var items []courier.ItemPath
				for _, i := range test.items {
					items = append(items, courier.ItemPath{Loop: 0, Iteration: []int{i}})
				}
				if _, err := h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}, Items: items}); err != nil {
					t.Fatal(err)
				}
				r = h.Wait(r.ID)
				if r.State != test.state || r.FailedItems != test.failed {
					t.Errorf("%s with %d failed items (%+v), want %s with %d", r.State, r.FailedItems, r.Failure, test.state, test.failed)
				}
				if got := visits(r.Steps[before:]); got != test.trace {
					t.Errorf("steps after the resume %s, want %s", got, test.trace)
				}
				list, err := h.Engine.Executions().FailedItems(t.Context(), r.ID)
				if err != nil || len(list) != test.failed {
					t.Errorf("failed items %+v, %v", list, err)
				}
				requireAudit(t, r)
			})
		})
	}
}

// TestUnknownItems asks for items that have not failed.
func TestUnknownItems(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		files(h, map[string]bool{"b decrypt error": true})
		r := h.Run(h.Job(strings.ReplaceAll(decryptJob, "MORE", "")), nil)
		_, err := h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{Items: []courier.ItemPath{{Loop: 0, Iteration: []int{2}}}})
		if !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), "item [2] of the loop of step 0 has neither failed nor been rescued; failed are [1]") {
			t.Errorf("error %v", err)
		}
	})
}

// TestFailedItemAfterReturn goes back in an item that an inner loop had failed: what
// fails in it then counts.
func TestFailedItemAfterReturn(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		classes := map[string]courier.Reason{"x": courier.ReasonError, "y": courier.ReasonConnection}
		for _, name := range []string{"s", "x", "y"} {
			h.Stub("demo."+name, func(_ context.Context, job *courier.Context, _ map[string]any) (map[string]any, error) {
				if class := classes[name]; class != "" && job.Iteration()[0] == 0 {
					return nil, courier.WithClass(errBoom, class)
				}
				return nil, nil
			})
		}
		r := h.Run(h.Job(`{"name": "nested", "steps": [
			{"type": "flow.foreach", "config": {"source": ["a", "b"], "on_item_failure": "continue"}}, {"id": "s", "type": "demo.s"},
			{"type": "flow.foreach", "config": {"source": [1], "on_item_failure": "continue"}}, {"type": "demo.x"}, {"type": "flow.end"},
			{"type": "demo.y"}, {"type": "flow.end"}]}`), nil).RequireState(courier.Failed)
		if r.Failure.Reason != courier.ReasonConnection || r.FailedItems != 1 {
			t.Fatalf("%d failed items, failure %+v", r.FailedItems, r.Failure)
		}
		h.Start()
		classes["x"], classes["y"] = "", courier.ReasonError
		if _, err := h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{From: "s"}); err != nil {
			t.Fatal(err)
		}
		r = h.Wait(r.ID).RequireState(courier.Failed)
		if r.Failure.Reason != courier.ReasonItems || r.FailedItems != 1 {
			t.Errorf("%d failed items, failure %+v", r.FailedItems, r.Failure)
		}
		requireAudit(t, r)
	})
}

// TestSetListOfFailedItems changes the list of a loop that is over: its items are known by
// their index, so the list keeps its length.
func TestSetListOfFailedItems(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		var done []string
		h.Stub("demo.list", func(ctx, *courier.Context, map[string]any) (map[string]any, error) {
			return map[string]any{"names": []string{"a", "b", "wrong"}}, nil
		})
		h.Stub("demo.send", func(_ ctx, _ *courier.Context, cfg map[string]any) (map[string]any, error) {
			if cfg["name"] == "wrong" {
				return nil, errors.New("no such file")
			}
			done = append(done, fmt.Sprint(cfg["name"]))
			return nil, nil
		})
		x := h.Run(h.Job(`{"name": "set", "steps": [{"type": "demo.list", "id": "list"},
			{"type": "flow.foreach", "config": {"source": "context:list.names", "on_item_failure": "continue"}},
			{"type": "demo.send", "config": {"name": "context:loop.current_item"}}, {"type": "flow.end"}]}`), nil).RequireState(courier.Failed)
		set := func(names ...string) error {
			_, err := h.Engine.Resume(t.Context(), x.ID, &courier.ResumeOptions{Set: map[string]any{"list.names": names}})
			return err
		}
		if err := set("a", "b"); !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), "has executed 3 items, and the changed list has 2") {
			t.Errorf("a shorter list: %v", err)
		}
		h.Start()
		if err := set("a", "b", "right"); err != nil {
			t.Fatal(err)
		}
		h.Wait(x.ID).RequireState(courier.Completed)
		if got := strings.Join(done, " "); got != "a b right" {
			t.Errorf("sent %s", got)
		}
	})
}

// A countedReads counts the reads of records. Of an execution that has none, its claims
// have a nil list.
type countedReads struct {
	store.Store
	n       atomic.Int64
	records atomic.Int64 // that Steps has returned
}

func (s *countedReads) Steps(c ctx, f store.StepFilter) ([]courier.StepExecution, error) {
	s.n.Add(1)
	list, err := s.Store.Steps(c, f)
	s.records.Add(int64(len(list)))
	return list, err
}

func (s *countedReads) Latest(c ctx, f store.LatestFilter) ([]courier.StepExecution, error) {
	s.n.Add(1)
	return s.Store.Latest(c, f)
}

func (s *countedReads) Claim(c ctx, r store.ClaimRequest) (store.Claims, error) {
	got, err := s.Store.Claim(c, r)
	for i := range got.List {
		if len(got.List[i].Latest) == 0 {
			got.List[i].Latest = nil
		}
	}
	return got, err
}

// TestNoReadsWithoutRepairs runs an execution that no operator has touched: what a claim
// returns is enough for it, and each read would be a round trip more.
func TestNoReadsWithoutRepairs(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.a", couriertest.Returns(map[string]any{"list": []string{"a", "b"}}))
		counted := &countedReads{Store: h.Store}
		e := engine.New(counted, h.Registry, &engine.Options{Workspace: t.TempDir()})
		x, err := e.Run(t.Context(), h.Job(`{"name": "plain", "steps": [{"type": "demo.a", "id": "a"},
			{"type": "flow.foreach", "config": {"source": "context:a.list", "on_item_failure": "continue"}}, {"type": "demo.a"}, {"type": "flow.end"}]}`), nil)
		if err != nil || x.State != courier.Completed {
			t.Fatal(x.State, err)
		}
		if n := counted.n.Load(); n != 0 {
			t.Errorf("its records were read %d times", n)
		}
	})
}

// TestAcceptedInnerItems has failed items that an inner loop accepts: they fail no item
// around it, so the execution neither counts them nor executes them again.
func TestAcceptedInnerItems(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		broken, calls := true, []string(nil)
		h.Stub("demo.inner", func(_ ctx, _ *courier.Context, cfg map[string]any) (map[string]any, error) {
			calls = append(calls, fmt.Sprint(cfg["name"]))
			if cfg["name"] == "1a" {
				return nil, errors.New("bad")
			}
			return nil, nil
		})
		h.Stub("demo.outer", func(_ ctx, _ *courier.Context, cfg map[string]any) (map[string]any, error) {
			calls = append(calls, fmt.Sprint(cfg["name"]))
			if cfg["name"] == "2" && broken {
				return nil, errors.New("broken")
			}
			return nil, nil
		})
		x := h.Run(h.Job(`{"name": "nested", "steps": [
			{"type": "flow.foreach", "config": {"source": ["1", "2"], "on_item_failure": "continue"}},
			{"type": "flow.foreach", "config": {"source": ["a", "b"], "on_item_failure": "continue", "then": "complete"}},
			{"type": "demo.inner", "config": {"name": "${context:loop.0.current_item}${context:loop.current_item}"}},
			{"type": "flow.end"},
			{"type": "demo.outer", "config": {"name": "context:loop.current_item"}},
			{"type": "flow.end"}]}`), nil).RequireState(courier.Failed)
		list, err := h.Engine.Executions().FailedItems(t.Context(), x.ID)
		if err != nil || x.FailedItems != 1 || len(list) != 1 || list[0].Step != 4 {
			t.Fatalf("%d failed items, %+v, %v", x.FailedItems, list, err)
		}
		broken = false
		h.Start()
		if _, err := h.Engine.Resume(t.Context(), x.ID, nil); err != nil {
			t.Fatal(err)
		}
		if r := h.Wait(x.ID).RequireState(courier.Completed); r.FailedItems != 0 || r.Failure != nil {
			t.Errorf("%d failed items are left: %v", r.FailedItems, r.Failure)
		}
		if got := strings.Join(calls, " "); got != "1a 1b 1 2a 2b 2 2" {
			t.Errorf("called %s", got)
		}
	})
}

// TestRepairBehindInnerLoop repairs an item that failed behind a loop in it, of a loop that
// was given up: outputs of that loop are still there, and the item counts once however
// often it fails.
func TestRepairBehindInnerLoop(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		failures, calls := 2, []string(nil)
		h.Stub("demo.get", func(_ ctx, _ *courier.Context, cfg map[string]any) (map[string]any, error) {
			return map[string]any{"value": cfg["name"]}, nil
		})
		h.Stub("demo.send", func(_ ctx, _ *courier.Context, cfg map[string]any) (map[string]any, error) {
			calls = append(calls, fmt.Sprint(cfg["value"]))
			if failures--; failures >= 0 {
				return nil, errors.New("refused")
			}
			return nil, nil
		})
		x := h.Run(h.Job(`{"name": "behind", "steps": [
			{"type": "flow.foreach", "config": {"source": ["1", "2", "3"], "on_item_failure": "continue", "max_failures": 0}},
			{"type": "flow.foreach", "config": {"source": ["a", "b"]}},
			{"type": "demo.get", "id": "get", "config": {"name": "${context:loop.0.current_item}${context:loop.current_item}"}},
			{"type": "flow.end"},
			{"type": "demo.send", "config": {"value": "context:get.value"}},
			{"type": "flow.end"}]}`), nil).RequireState(courier.Failed)
		h.Start()
		resume := func(want string) courier.Execution {
			if !strings.Contains(x.Failure.Message, want) || x.FailedItems != 1 {
				t.Errorf("%d failed items: %v, want %q", x.FailedItems, x.Failure, want)
			}
			if _, err := h.Engine.Resume(t.Context(), x.ID, nil); err != nil {
				t.Fatal(err)
			}
			return h.Wait(x.ID).Execution
		}
		x.Execution = resume("1 of 3 items")
		x.Execution = resume("1 of 3 items")
		if x.State != courier.Completed || x.FailedItems != 0 {
			t.Errorf("%s, %d failed items: %v", x.State, x.FailedItems, x.Failure)
		}
		if got := strings.Join(calls, " "); got != "1b 1b 1b 2b 3b" {
			t.Errorf("sent %s", got)
		}
	})
}

// TestPauseInRepair pauses between two items that are executed again: those that wait are
// listed and counted still, and a change of where the execution goes on is refused.
func TestPauseInRepair(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		broken, calls := true, []string(nil)
		h.Stub("demo.send", func(_ ctx, job *courier.Context, cfg map[string]any) (map[string]any, error) {
			if broken {
				return nil, errors.New("broken")
			}
			calls = append(calls, fmt.Sprint(cfg["name"]))
			if cfg["name"] == "b" {
				return nil, errOf(h.Engine.Pause(t.Context(), job.Execution(), courier.By{}))
			}
			return nil, nil
		})
		x := h.Run(h.Job(`{"name": "pause", "steps": [
			{"type": "flow.foreach", "config": {"source": ["a", "b", "c", "d"], "on_item_failure": "continue"}},
			{"type": "demo.send", "id": "send", "config": {"name": "context:loop.current_item"}}, {"type": "flow.end"}]}`), nil).RequireState(courier.Failed)
		broken = false
		h.Start()
		if _, err := h.Engine.Resume(t.Context(), x.ID, nil); err != nil {
			t.Fatal(err)
		}
		for now := x.Execution; now.State != courier.Paused; now, _ = h.Engine.Executions().Get(t.Context(), x.ID) {
			time.Sleep(time.Second)
		}
		list, err := h.Engine.Executions().FailedItems(t.Context(), x.ID)
		now, _ := h.Engine.Executions().Get(t.Context(), x.ID)
		if err != nil || len(list) != 3 || now.FailedItems != 3 || list[0].Iteration[0] != 1 {
			t.Errorf("%d failed items, %+v, %v", now.FailedItems, list, err)
		}
		for _, opt := range []courier.ResumeOptions{{From: "send"}, {Items: []courier.ItemPath{{Iteration: []int{3}}}}} {
			if _, err := h.Engine.Resume(t.Context(), x.ID, &opt); !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), "3 of their failures are left") {
				t.Errorf("%+v: %v", opt, err)
			}
		}
		if _, err := h.Engine.Resume(t.Context(), x.ID, nil); err != nil {
			t.Fatal(err)
		}
		h.Wait(x.ID).RequireState(courier.Completed)
		if got := strings.Join(calls, " "); got != "a b c d" {
			t.Errorf("sent %s", got)
		}
	})
}

// TestRepairReadsFailuresOnce repairs items: the records of all are read a few times, not
// for each item again.
func TestRepairReadsFailuresOnce(t *testing.T) {
	const items, most = 100, 6
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		var mended atomic.Bool
		h.Stub("demo.a", func(ctx, *courier.Context, map[string]any) (map[string]any, error) {
			if !mended.Load() {
				return nil, courier.Permanent(errors.New("bad"))
			}
			return nil, nil
		})
		counted := &countedReads{Store: h.Store}
		e := engine.New(counted, h.Registry, &engine.Options{Workspace: t.TempDir()})
		x, _ := e.Run(t.Context(), h.Job(fmt.Sprintf(`{"name": "j", "steps": [
			{"type": "flow.foreach", "config": {"source": [%s0], "on_item_failure": "continue"}}, {"type": "demo.a"}, {"type": "flow.end"}]}`,
			strings.Repeat("0, ", items-1))), nil)
		if x.FailedItems != items {
			t.Fatalf("%s with %d failed items", x.State, x.FailedItems)
		}
		mended.Store(true)
		counted.records.Store(0)
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer e.Stop(t.Context())
		if _, err := e.Resume(t.Context(), x.ID, nil); err != nil {
			t.Fatal(err)
		}
		h.Wait(x.ID).RequireState(courier.Completed)
		if n := counted.records.Load(); n > most*items {
			t.Errorf("%d records were read for %d failed items", n, items)
		}
	})
}

// TestWorkersLostBehindItems gives a loop up behind a good item, and loses three workers there:
// that is the end of the execution, and not of the item, which is over.
func TestWorkersLostBehindItems(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		bad := map[string]bool{"b decrypt integrity": true}
		stubs := files(h, bad)
		x := h.Run(h.Job(strings.Replace(decryptJob, "MORE", `, "max_failures": "10%"`, 1)), nil).RequireState(courier.Failed)
		if _, err := h.Engine.Resume(t.Context(), x.ID, nil); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			claimDead(t, h, x.ID)
			time.Sleep(16 * time.Second)
		}
		h.Start()
		r := h.Wait(x.ID).RequireState(courier.Failed).RequireError("3 workers were lost")
		if r.Failure.Reason != courier.ReasonWorkerLost || r.FailedItems != 1 {
			t.Errorf("it failed by %s with %d failed items", r.Failure.Reason, r.FailedItems)
		}
		bad["b decrypt integrity"] = false
		if _, err := h.Engine.Resume(t.Context(), x.ID, nil); err != nil {
			t.Fatal(err)
		}
		r = h.Wait(x.ID).RequireState(courier.Completed)
		if n := len(stubs["send"].Calls()); n != 4 || r.FailedItems != 0 {
			t.Errorf("%d files were sent, %d items have failed", n, r.FailedItems)
		}
		requireAudit(t, r)
	})
}

// TestDryRunInLoop asks what a resume executes that skips a step in a loop: for items that are
// left all steps of the loop run, and none of them counts as run again.
func TestDryRunInLoop(t *testing.T) {
	for fails, want := range map[int]string{0: "1 2 4", 1: "1 2 4", 2: "4"} {
		couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
			h.Stub("demo.get", nil)
			refused := make([]error, 3)
			refused[fails] = courier.Permanent(errors.New("refused"))
			h.Stub("demo.send", couriertest.Fails(refused...))
			h.Stub("demo.end", nil)
			x := h.Run(h.Job(`{"name": "dry", "steps": [{"type": "flow.foreach", "config": {"source": ["a", "b", "c"]}},
				{"type": "demo.get"}, {"type": "demo.send"}, {"type": "flow.end"}, {"type": "demo.end"}]}`), nil).RequireState(courier.Failed)
			report, err := h.Engine.DryRunResume(t.Context(), x.ID, &courier.ResumeOptions{Skip: true, By: courier.By{Reason: "sent by mail"}})
			var steps []string
			for _, s := range report.Steps {
				steps = append(steps, fmt.Sprint(s.Step))
				if s.Repeated {
					t.Errorf("item %d: step %d counts as repeated", fails, s.Step)
				}
			}
			if got := strings.Join(steps, " "); err != nil || got != want {
				t.Errorf("item %d: steps %s, want %s, %v", fails, got, want, err)
			}
		})
	}
}

// TestDryRunOfRepair asks beforehand what a repair executes: the steps from the one that
// failed to the end of the item, and those behind the loop only if its marker says so.
func TestDryRunOfRepair(t *testing.T) {
	for rerun, want := range map[string]string{"": "2", `, "after_repair": "rerun"`: "2 4"} {
		couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
			h.Stub("demo.get", nil)
			h.Stub("demo.send", couriertest.Fails(nil, errors.New("refused"), nil))
			h.Stub("demo.end", nil)
			x := h.Run(h.Job(fmt.Sprintf(`{"name": "dry", "steps": [
				{"type": "flow.foreach", "config": {"source": ["a", "b"], "on_item_failure": "continue"%s}},
				{"type": "demo.get"}, {"type": "demo.send"}, {"type": "flow.end"}, {"type": "demo.end"}]}`, rerun)), nil).RequireState(courier.Failed)
			for _, opt := range []*courier.ResumeOptions{nil, {Items: []courier.ItemPath{{Iteration: []int{1}}}}} {
				report, err := h.Engine.DryRunResume(t.Context(), x.ID, opt)
				var steps []string
				for _, s := range report.Steps {
					steps = append(steps, fmt.Sprint(s.Step))
				}
				if got := strings.Join(steps, " "); err != nil || got != want || len(report.FailedItems) != 1 {
					t.Errorf("after_repair %q, %+v: steps %s, want %s; %d failed items, %v", rerun, opt, got, want, len(report.FailedItems), err)
				}
			}
		})
	}
}
