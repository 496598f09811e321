package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
)

// TestElsewhereWithFailedItems repairs the item that failed, and no other: at the step that
// failed, or from the first step of the item where a later one needs a file that is gone.
func TestElsewhereWithFailedItems(t *testing.T) {
	get := func(id, fields string) string {
		return fmt.Sprintf(`{"type": "demo.get", "id": %q, "config": {%s}}`, id, fields)
	}
	each := func(id, source string) string {
		return fmt.Sprintf(`{"type": "flow.foreach", "id": %q, "config": {"source": %q, "on_item_failure": "continue"}}`, id, source)
	}
	item, fail, end := get("a", `"name": "d/${context:loop.current_item}"`), `"name": "fail", "fail": true`, `{"type": "flow.end"}`
	list, loop, outside := get("list", `"name": "list"`), each("each", "context:list.list"), get("o", `"name": "d/o"`)
	for name, c := range map[string]struct {
		steps []string
		want  string // the calls after the resume
		note  string
	}{
		"nothing is needed":  {[]string{list, loop, item, get("b", fail+`, "use": "x"`), end}, "fail", ""},
		"a file of the item": {[]string{list, loop, item, get("b", fail+`, "use": "context:a.path"`), end}, "d/1 fail", "from its first step"},
		"by a step behind":   {[]string{list, loop, item, get("b", fail), get("c", `"name": "c", "use": "context:a.path"`), end}, "d/1 fail c", "from its first step"},
		"a step between":     {[]string{list, loop, item, get("m", `"name": "m"`), get("b", fail+`, "use": "context:a.path"`), end, get("z", `"name": "z"`)}, "d/1 m fail", "from its first step"},
		"of an inner loop":   {[]string{list, loop, item, each("inner", "context:list.list"), get("b", fail+`, "use": "context:a.path"`), end, end}, "d/1 fail fail fail", "from its first step"},
		"of later inner items": {[]string{list, loop, item, `{"type": "flow.foreach", "config": {"source": "context:list.list"}}`, get("c", `"name": "c", "use": "context:a.path"`), get("b", fail), end, end},
			"d/1 c fail c fail c fail", "from its first step"},
		"of later items in a later loop": {[]string{list, loop, get("v", `"name": "v", "use": "v${context:loop.current_item}"`), `{"type": "flow.foreach", "config": {"source": "context:list.list"}}`,
			get("a", `"name": "${context:v.use}/${context:loop.current_item}"`), `{"type": "flow.foreach", "config": {"source": "context:list.list"}}`,
			get("c", `"name": "c", "use": "context:a.path"`), get("b", fail), end, end, end}, "v v1/1 c fail c fail c fail v1/2 c fail c fail c fail v1/3 c fail c fail c fail", "from its first step"},
		"in an iteration before the last": {[]string{list, `{"type": "flow.foreach", "config": {"source": "context:list.list"}}`, get("v", `"name": "v", "use": "v${context:loop.current_item}"`), loop,
			get("a", `"name": "${context:v.use}/${context:loop.current_item}"`), each("inner", "context:list.list"), get("b", fail+`, "use": "context:a.path"`), end, end, end}, "v1/1 fail fail fail", "from its first step"},
		"a file before the loop":   {[]string{list, outside, loop, item, get("b", fail+`, "use": "context:o.path"`), end}, "d/o d/1 fail d/2 fail d/3 fail", ""},
		"both":                     {[]string{list, outside, loop, get("y", `"name": "y", "use": "context:o.path"`), item, get("b", fail+`, "use": "context:a.path"`), end}, "d/o y d/1 fail y d/2 fail y d/3 fail", ""},
		"only before what is done": {[]string{list, outside, get("u", `"name": "u", "use": "context:o.path"`), loop, item, get("b", fail+`, "use": "context:a.path"`), end}, "d/1 fail", "from its first step"},
		"a step behind the loop":   {[]string{list, loop, item, get("b", fail), end, get("z", `"name": "z", "use": "d"`)}, "fail", ""},
	} {
		t.Run(name, func(t *testing.T) {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				var calls []string
				elsewhereSteps(h, &calls)
				host := engine.New(h.Store, h.Registry, &engine.Options{Worker: "one", Workspace: t.TempDir(), WorkspaceID: "tree of one"})
				defer host.Stop(t.Context())
				x := begin(t, host, h.Job(fmt.Sprintf(`{"name": "items", "steps": [%s]}`, strings.Join(c.steps, ", "))), nil)
				if x.State != courier.Failed || x.FailedItems != 1 {
					t.Fatalf("it is %s, %d items failed", x.State, x.FailedItems)
				}
				calls = nil
				opt := &courier.ResumeOptions{Elsewhere: true}
				report, err := h.Engine.DryRunResume(t.Context(), x.ID, opt)
				if err != nil || !strings.Contains(report.Note, c.note) {
					t.Errorf("the dry run says %q, want %q: %v", report.Note, c.note, err)
				}
				if _, err := h.Engine.Resume(t.Context(), x.ID, opt); err != nil {
					t.Fatal(err)
				}
				h.Start()
				if r := h.Wait(x.ID).RequireState(courier.Completed); r.FailedItems != 0 {
					t.Errorf("%d failed items are left", r.FailedItems)
				}
				if got := strings.Join(calls, " "); got != c.want {
					t.Errorf("after the resume: %s; want %s", got, c.want)
				}
			})
		})
	}
}

// TestElsewhereWhileItemsAreRepaired loses the workspace while failed items are executed
// again: the item that is executed then, and those that wait, begin with their first step
// if one of them needs a file that is gone.
func TestElsewhereWhileItemsAreRepaired(t *testing.T) {
	for use, want := range map[string]string{
		"x":              "c2 b3 c3",
		"context:a.path": "a2 b2 c2 a3 b3 c3",
		"context:o.path": "list o a1 b1 c1 a2 b2 c2 a3 b3 c3 z",
		// The items of a loop behind, which wait, need files of their own.
		"behind": "c2 b3 c3 aa ba ca",
	} {
		behind := ""
		if use == "behind" {
			behind = `, {"type": "flow.foreach", "config": {"source": ["a"], "on_item_failure": "continue"}},
				{"type": "demo.do", "id": "last", "config": {"name": "a${context:loop.current_item}"}},
				{"type": "demo.do", "config": {"name": "b${context:loop.current_item}"}},
				{"type": "demo.do", "config": {"name": "c${context:loop.current_item}", "use": "context:last.path"}}, {"type": "flow.end"}`
		}
		t.Run(use, func(t *testing.T) {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				var calls []string
				fails := true
				h.Stub("demo.do", func(c ctx, job *courier.Context, cfg map[string]any) (map[string]any, error) {
					name := cfg["name"].(string)
					calls = append(calls, name)
					switch {
					case name[0] == 'b' && fails:
						return nil, errors.New("boom")
					case name == "b2" && len(calls) == 3:
						_, err := h.Engine.Pause(c, job.Execution(), courier.By{Actor: "ops"})
						return nil, err
					case name[0] == 'a' || name == "o":
						w, err := job.Files().Create("d/" + name)
						if err != nil {
							return nil, err
						}
						return map[string]any{"path": "d/" + name}, w.Commit()
					}
					return map[string]any{"list": []string{"1", "2", "3"}}, nil
				})
				host := engine.New(h.Store, h.Registry, &engine.Options{Worker: "one", Workspace: t.TempDir(), WorkspaceID: "tree of one"})
				x := begin(t, host, h.Job(fmt.Sprintf(`{"name": "items", "steps": [
					{"type": "demo.do", "id": "list", "config": {"name": "list"}}, {"type": "demo.do", "id": "o", "config": {"name": "o"}},
					{"type": "flow.foreach", "config": {"source": "context:list.list", "on_item_failure": "continue"}},
					{"type": "demo.do", "id": "a", "config": {"name": "a${context:loop.current_item}"}},
					{"type": "demo.do", "config": {"name": "b${context:loop.current_item}"}},
					{"type": "demo.do", "config": {"name": "c${context:loop.current_item}", "use": %q}},
					{"type": "flow.end"}, {"type": "demo.do", "config": {"name": "z"}}%s]}`, use, behind)), nil)
				failed := 3 + strings.Count(behind, "foreach")
				if x.State != courier.Failed || x.FailedItems != failed {
					t.Fatalf("it is %s, %d items failed: %v", x.State, x.FailedItems, x.Failure)
				}
				calls, fails = nil, false
				if _, err := host.Resume(t.Context(), x.ID, nil); err != nil {
					t.Fatal(err)
				}
				quiet()
				if x, _ = host.Executions().Get(t.Context(), x.ID); x.State != courier.Paused || x.FailedItems != failed-1 {
					t.Fatalf("after %s it is %s, %d failed items are left", calls, x.State, x.FailedItems)
				}
				if err := host.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
				calls = nil
				if _, err := h.Engine.Resume(t.Context(), x.ID, &courier.ResumeOptions{Elsewhere: true}); err != nil {
					t.Fatal(err)
				}
				h.Start()
				if r := h.Wait(x.ID).RequireState(courier.Completed); r.FailedItems != 0 {
					t.Errorf("%d failed items are left", r.FailedItems)
				}
				if got := strings.Join(calls, " "); got != want {
					t.Errorf("after the resume: %s; want %s", got, want)
				}
			})
		})
	}
}

// doing registers the type demo.do, whose calls are listed by name. What begins with "f" leaves a
// file. Act is called with each name; its error is that of the step.
func doing(h *couriertest.Harness, calls *[]string, act func(job *courier.Context, name string) error) {
	h.Stub("demo.do", func(_ ctx, job *courier.Context, cfg map[string]any) (map[string]any, error) {
		name := cfg["name"].(string)
		*calls = append(*calls, name)
		if err := act(job, name); err != nil {
			return nil, err
		}
		out := map[string]any{"path": "left-by-" + name}
		if name[0] != 'f' {
			return out, nil
		}
		w, err := job.Files().Create("left-by-" + name)
		if err != nil {
			return nil, err
		}
		defer w.Close()
		return out, w.Commit()
	})
}

// do is a step of the type demo.do that uses something.
func do(id, name, use string) string {
	return fmt.Sprintf(`{"type": "demo.do", "id": %q, "config": {"name": %q, "use": %q}}`, id, name, use)
}

// TestFromAfterElsewhere goes back to a step of an item that would have begun again, because the
// workspace was lost: it is refused where a step needs a file that is gone, and otherwise the
// steps before have the values that they left.
func TestFromAfterElsewhere(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		var calls []string
		fails := true
		doing(h, &calls, func(_ *courier.Context, name string) error {
			if name == "bad" && fails {
				return errors.New("boom")
			}
			return nil
		})
		host := engine.New(h.Store, h.Registry, &engine.Options{Worker: "one", Workspace: t.TempDir(), WorkspaceID: "tree of one"})
		x := begin(t, host, h.Job(fmt.Sprintf(`{"name": "items", "steps": [
			{"type": "flow.foreach", "config": {"source": ["x"], "on_item_failure": "continue", "max_failures": "10%%"}}, %s, %s, %s, %s, {"type": "flow.end"}]}`,
			do("v", "value", "x"), do("f", "file", "x"), do("p", "plain", "context:v.path"), do("b", "bad", "context:f.path"))), nil)
		if err := host.Stop(t.Context()); err != nil || x.State != courier.Failed {
			t.Fatalf("it is %s: %v", x.State, err)
		}
		fails = false
		by := courier.By{Actor: "ops"}
		if _, err := h.Engine.Resume(t.Context(), x.ID, &courier.ResumeOptions{Elsewhere: true, By: by}); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Engine.Pause(t.Context(), x.ID, by); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Engine.Resume(t.Context(), x.ID, &courier.ResumeOptions{From: "p", By: by}); !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), `needs left-by-file, which step 2 "f" (demo.do) left in the workspace that is gone`) {
			t.Errorf("behind the step that left the file: %v", err)
		}
		calls = nil
		if _, err := h.Engine.Resume(t.Context(), x.ID, &courier.ResumeOptions{From: "f", By: by}); err != nil {
			t.Fatal(err)
		}
		h.Start()
		h.Wait(x.ID).RequireState(courier.Completed)
		if got := strings.Join(calls, " "); got != "file plain bad" {
			t.Errorf("called: %s", got)
		}
	})
}

// TestElsewhereAfterAnotherFailure loses the workspace behind an item that was executed again and
// has failed again, at a later step, which needs a file of the item that is gone now.
func TestElsewhereAfterAnotherFailure(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		var calls []string
		bad := "file"
		var host *engine.Engine
		doing(h, &calls, func(job *courier.Context, name string) error {
			if name != bad {
				return nil
			}
			if name == "late" {
				if _, err := host.Pause(t.Context(), job.Execution(), courier.By{Actor: "ops"}); err != nil {
					t.Error(err)
				}
			}
			return errors.New("boom")
		})
		host = engine.New(h.Store, h.Registry, &engine.Options{Worker: "one", Workspace: t.TempDir(), WorkspaceID: "tree of one"})
		x := begin(t, host, h.Job(fmt.Sprintf(`{"name": "items", "steps": [
			{"type": "flow.foreach", "config": {"source": ["x"], "on_item_failure": "continue"}}, %s, %s, {"type": "flow.end"}]}`,
			do("f", "file", "x"), do("l", "late", "context:f.path"))), nil)
		bad = "late"
		if _, err := host.Resume(t.Context(), x.ID, nil); err != nil {
			t.Fatal(err)
		}
		quiet()
		if x, _ = host.Executions().Get(t.Context(), x.ID); x.State != courier.Paused {
			t.Fatalf("after %s it is %s", calls, x.State)
		}
		if err := host.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		calls, bad = nil, ""
		if _, err := h.Engine.Resume(t.Context(), x.ID, &courier.ResumeOptions{Elsewhere: true}); err != nil {
			t.Fatal(err)
		}
		h.Start()
		if r := h.Wait(x.ID); r.State == courier.Failed {
			if _, err := h.Engine.Resume(t.Context(), x.ID, nil); err != nil {
				t.Fatal(err)
			}
		}
		h.Wait(x.ID).RequireState(courier.Completed)
		if got := strings.Join(calls, " "); got != "file late" {
			t.Errorf("after the loss: %s", got)
		}
	})
}

// TestElsewhereTwice loses the workspace while failed items are executed again, and once more. The
// item that is executed then goes on, and those that wait still begin with their first step.
func TestElsewhereTwice(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		var calls []string
		fails := true
		doing(h, &calls, func(job *courier.Context, name string) error {
			if name[0] == 'b' && fails {
				return errors.New("boom")
			}
			if fails || name != "b1" && name != "g3" {
				return nil
			}
			_, err := h.Engine.Pause(t.Context(), job.Execution(), courier.By{Actor: "ops"})
			return err
		})
		dir := t.TempDir()
		host := engine.New(h.Store, h.Registry, &engine.Options{Worker: "one", Workspace: dir, WorkspaceID: "tree of one"})
		x := begin(t, host, h.Job(fmt.Sprintf(`{"name": "items", "steps": [
			{"type": "flow.foreach", "config": {"source": ["1", "2", "3", "4"], "on_item_failure": "continue"}}, %s, %s, %s, {"type": "flow.end"}]}`,
			do("g", "g${context:loop.current_item}", "x"), do("f", "f${context:loop.current_item}", "context:g.path"), do("b", "b${context:loop.current_item}", "context:f.path"))), nil)
		fails = false
		if _, err := host.Resume(t.Context(), x.ID, nil); err != nil {
			t.Fatal(err)
		}
		quiet()
		if err := host.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		lose := func(id string) {
			t.Helper()
			calls = nil
			e := engine.New(h.Store, h.Registry, &engine.Options{Worker: id, Workspace: t.TempDir(), WorkspaceID: "tree of " + id})
			if _, err := e.Resume(t.Context(), x.ID, &courier.ResumeOptions{Elsewhere: true}); err != nil {
				t.Fatal(err)
			}
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			quiet()
			if err := e.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			x, _ = e.Executions().Get(t.Context(), x.ID)
		}
		lose("two")
		if got := strings.Join(calls, " "); got != "g2 f2 b2 g3" || x.State != courier.Paused {
			t.Fatalf("after the first loss: %s, it is %s", got, x.State)
		}
		lose("three")
		if got := strings.Join(calls, " "); got != "f3 b3 g4 f4 b4" || x.State != courier.Completed {
			t.Errorf("after the second loss: %s, it is %s", got, x.State)
		}
	})
}
