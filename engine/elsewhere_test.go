package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/store"
)

// unplugged is a store that its engine no longer reaches once it is off.
type unplugged struct {
	store.Store
	off atomic.Bool
}

var errUnplugged = errors.New("the network is down")

func (u *unplugged) Claim(c ctx, r store.ClaimRequest) (store.Claims, error) {
	if u.off.Load() {
		return store.Claims{}, errUnplugged
	}
	return u.Store.Claim(c, r)
}

func (u *unplugged) Renew(c ctx, r store.RenewRequest) ([]store.Renewed, error) {
	if u.off.Load() {
		return nil, errUnplugged
	}
	return u.Store.Renew(c, r)
}

func (u *unplugged) Apply(c ctx, t store.Transition) error {
	if u.off.Load() {
		return errUnplugged
	}
	return u.Store.Apply(c, t)
}

// TestElsewhere has a host die with its own disk, in the middle of a step, after a
// failure, and while paused. Since the last step needs a file of the first one, the execution
// begins again on another host, with an empty workspace, and the host that comes back gets
// nothing of it.
func TestElsewhere(t *testing.T) {
	for _, state := range []courier.State{courier.Running, courier.Failed, courier.Paused} {
		couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
			u := &unplugged{Store: h.Store}
			host := func(s store.Store, id, dir string) *engine.Engine {
				e := engine.New(s, h.Registry, &engine.Options{Worker: id, Workspace: dir, WorkspaceID: "tree of " + id})
				t.Cleanup(func() { e.Stop(t.Context()) })
				return e
			}
			dir := t.TempDir()
			one, two, operator := host(u, "one", dir), host(h.Store, "two", t.TempDir()), host(h.Store, "operator", t.TempDir())
			calls := 0
			fileStubs(h, func(c ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
				calls++
				switch {
				case calls > 1:
					return nil, nil
				case state == courier.Failed:
					return nil, errors.New("boom")
				case state == courier.Paused:
					return nil, errOf(operator.Pause(t.Context(), job.Execution(), courier.By{Actor: "ops"}))
				}
				u.off.Store(true)
				<-c.Done()
				return nil, c.Err()
			})
			x := begin(t, one, h.Job(strings.Replace(filesJob, `"demo.last"`, `"demo.last", "config": {"source": "a"}`, 1)), nil)
			if x.State != state || x.Workspace != "tree of one" {
				t.Fatalf("%s in %q, want %s in the tree of one", x.State, x.Workspace, state)
			}
			u.off.Store(true)
			elsewhere := &courier.ResumeOptions{By: courier.By{Actor: "ops", Reason: "host one burnt down"}, Elsewhere: true}
			if _, err := operator.Resume(t.Context(), x.ID, elsewhere); state == courier.Running && (!errors.Is(err, courier.ErrConflict) || !strings.Contains(err.Error(), `worker "one" holds its lease`)) {
				t.Fatalf("while its worker has it: %v", err)
			}
			if err := two.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if state == courier.Running {
				time.Sleep(time.Minute)
				x, _ = operator.Executions().Get(t.Context(), x.ID)
				if text := advice.Status(&x, time.Now()); !strings.HasPrefix(text, "lost: ") || !strings.Contains(text, `workspace "tree of one"`) || !strings.Contains(text, "Elsewhere") {
					t.Errorf("the status in words: %s", text)
				}
				if _, err := operator.Resume(t.Context(), x.ID, elsewhere); err != nil {
					t.Fatal(err)
				}
			}
			r := h.Wait(x.ID).RequireState(courier.Completed)
			if r.Attempt != 2 || r.Workspace != "tree of two" || !r.Resumed {
				t.Errorf("attempt %d in %q, resumed %v", r.Attempt, r.Workspace, r.Resumed)
			}
			audit, err := operator.Executions().Audit(t.Context(), x.ID)
			if err != nil {
				t.Fatal(err)
			}
			var told bool
			for _, a := range audit {
				told = told || a.By == "ops" && a.Error == "host one burnt down" && a.Reason == courier.ReasonWithoutFiles && (a.From == string(state) || state == courier.Running && a.From == "paused") && a.To == "queued"
			}
			if !told {
				t.Errorf("the audit does not say who and why: %+v", audit)
			}
			if _, err := os.Stat(filepath.Join(dir, string(x.ID))); err != nil {
				t.Errorf("the files on host one were touched: %v", err)
			}
			u.off.Store(false)
			quiet()
			if after, _ := operator.Executions().Get(t.Context(), x.ID); after.State != courier.Completed {
				t.Errorf("after host one came back: %s", after.State)
			}
		})
	}
}

// TestElsewhereIsRefused has what can go on with its files, or has none.
func TestElsewhereIsRefused(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.a", couriertest.Fails(errors.New("boom")))
		r := h.Run(h.Job(`{"name": "a", "steps": [{"type": "demo.a"}]}`), nil).RequireState(courier.Failed)
		elsewhere := &courier.ResumeOptions{By: courier.By{Actor: "ops"}, Elsewhere: true}
		if _, err := h.Engine.Resume(t.Context(), r.ID, elsewhere); !errors.Is(err, courier.ErrConflict) || !strings.Contains(err.Error(), "resume it without Elsewhere") {
			t.Errorf("of one without files: %v", err)
		}
		if _, err := h.Engine.Resume(t.Context(), "nobody", elsewhere); !errors.Is(err, courier.ErrNotFound) {
			t.Errorf("of none: %v", err)
		}
		if _, err := h.Engine.Resume(t.Context(), r.ID, nil); err != nil {
			t.Errorf("without options: %v", err)
		}
	})
}

// elsewhereSteps registers demo.get, which leaves the file that it is told to and takes
// another one away, and fails once if it is told to. Calls has the names that it was
// called with.
func elsewhereSteps(h *couriertest.Harness, calls *[]string) {
	type config struct {
		Name string `json:"name,omitempty"`
		Take string `json:"take,omitempty"`
		Fail bool   `json:"fail,omitempty"`
		Use  any    `json:"use,omitempty"`
	}
	type output struct {
		Path string   `json:"path"`
		List []string `json:"list"`
		Use  any      `json:"use"`
	}
	failed := false
	courier.RegisterFunc(h.Registry, "demo.get", func(_ ctx, job *courier.Context, cfg config) (output, error) {
		*calls = append(*calls, cfg.Name)
		if cfg.Fail && !failed {
			failed = true
			return output{}, errors.New("boom")
		}
		if cfg.Take != "" {
			if err := errors.Join(job.Files().Remove(cfg.Take), stepcontext.Of(job).Removed(cfg.Take)); err != nil {
				return output{}, err
			}
		}
		if !strings.Contains(cfg.Name, "/") {
			return output{List: []string{"1", "2", "3"}, Use: cfg.Use}, nil
		}
		w, err := job.Files().Create(cfg.Name)
		if err != nil {
			return output{}, err
		}
		return output{Path: cfg.Name}, w.Commit()
	}, nil)
}

// TestElsewhereGoesOn has executions fail whose workspace is lost then, and go on at the
// last step from which no file of it is needed.
func TestElsewhereGoesOn(t *testing.T) {
	get := func(id, fields string) string {
		return fmt.Sprintf(`{"type": "demo.get", "id": %q, "config": {%s}}`, id, fields)
	}
	each := `{"type": "flow.foreach", "id": "each", "config": {"source": "context:list.list"}}`
	list, a, fail, end := get("list", `"name": "list"`), get("a", `"name": "d/a"`), `"name": "fail", "fail": true`, `{"type": "flow.end"}`
	item := get("a", `"name": "d/${context:loop.current_item}"`)
	if1 := `{"type": "flow.if", "config": {"left": 1, "operator": "equals", "right": 1}}`
	for name, c := range map[string]struct {
		steps []string
		opt   courier.ResumeOptions
		want  string // the calls after the resume
		note  string
	}{
		"nothing is needed":      {[]string{a, get("b", fail)}, courier.ResumeOptions{}, "fail", ""},
		"by reference":           {[]string{list, a, get("b", fail+`, "use": "context:a.path"`)}, courier.ResumeOptions{}, "d/a fail", `step 2 "b" (demo.get) needs d/a, which step 1 "a" (demo.get) left`},
		"by a path":              {[]string{list, a, get("b", fail+`, "use": "./d/a"`)}, courier.ResumeOptions{}, "d/a fail", ""},
		"by a directory":         {[]string{list, a, get("b", fail+`, "use": {"in": ["d"]}`)}, courier.ResumeOptions{}, "d/a fail", ""},
		"by a pattern":           {[]string{list, a, get("b", fail+`, "use": "d/*.csv"`)}, courier.ResumeOptions{}, "d/a fail", ""},
		"by another pattern":     {[]string{list, a, get("b", fail+`, "use": "e/*.csv"`)}, courier.ResumeOptions{}, "fail", ""},
		"by a step behind":       {[]string{list, a, get("b", fail), get("c", `"name": "c", "use": "context:a.path"`)}, courier.ResumeOptions{}, "d/a fail c", ""},
		"by a value":             {[]string{list, a, get("b", `"name": "b", "use": "./d/a"`), get("c", fail+`, "use": "context:b.use"`)}, courier.ResumeOptions{}, "d/a b fail", ""},
		"by the workspace":       {[]string{list, a, get("b", fail+`, "use": "${context:job.workspace}/x"`)}, courier.ResumeOptions{}, "d/a fail", ""},
		"taken away by a step":   {[]string{list, a, get("b", `"name": "e/b", "take": "d/a"`), get("c", fail+`, "use": "context:b.path"`)}, courier.ResumeOptions{}, "d/a e/b fail", ""},
		"in an iteration":        {[]string{list, each, item, get("b", fail+`, "use": "context:a.path"`), end}, courier.ResumeOptions{}, "d/1 fail d/2 fail d/3 fail", ""},
		"from outside the loop":  {[]string{list, a, each, get("b", fail+`, "use": "context:a.path"`), end}, courier.ResumeOptions{}, "d/a fail fail fail", ""},
		"of a loop that is over": {[]string{list, each, item, end, get("b", fail+`, "use": "d"`)}, courier.ResumeOptions{}, "d/1 d/2 d/3 fail", ""},
		"in a branch":            {[]string{list, if1, a, end, get("b", fail+`, "use": "context:a.path"`)}, courier.ResumeOptions{}, "d/a fail", ""},
		"from the first step":    {[]string{a, get("b", fail+`, "use": "context:a.path"`)}, courier.ResumeOptions{}, "d/a fail", "from the beginning"},
		"From":                   {[]string{list, a, get("b", fail)}, courier.ResumeOptions{From: "a"}, "d/a fail", ""},
		"From, too late":         {[]string{list, a, get("b", `"name": "b"`), get("c", fail+`, "use": "context:a.path"`)}, courier.ResumeOptions{From: "b"}, "", "leave From out"},
		"From, by force":         {[]string{list, a, get("b", `"name": "b"`), get("c", fail+`, "use": "context:a.path"`)}, courier.ResumeOptions{From: "b", Force: true}, "b fail", ""},
		"with another change":    {[]string{a, get("b", fail)}, courier.ResumeOptions{Set: map[string]any{"a.path": "x"}}, "", "no other change"},
	} {
		t.Run(name, func(t *testing.T) {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				var calls []string
				elsewhereSteps(h, &calls)
				dir := t.TempDir()
				host := engine.New(h.Store, h.Registry, &engine.Options{Worker: "one", Workspace: dir, WorkspaceID: "tree of one"})
				defer host.Stop(t.Context())
				x := begin(t, host, h.Job(fmt.Sprintf(`{"name": "lost", "steps": [%s]}`, strings.Join(c.steps, ", "))), nil)
				if x.State != courier.Failed || x.Workspace != "tree of one" {
					t.Fatalf("it is %s, with files in %q: %v", x.State, x.Workspace, x.Failure)
				}
				calls = nil
				c.opt.Elsewhere, c.opt.By = true, courier.By{Actor: "ops"}
				report, dryErr := h.Engine.DryRunResume(t.Context(), x.ID, &c.opt)
				_, err := h.Engine.Resume(t.Context(), x.ID, &c.opt)
				if c.want == "" {
					if !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), c.note) {
						t.Errorf("%v, want %q", err, c.note)
					}
					return
				}
				if err != nil || dryErr != nil {
					t.Fatal(err, dryErr)
				}
				h.Start()
				r := h.Wait(x.ID).RequireState(courier.Completed)
				if got := strings.Join(calls, " "); got != c.want {
					t.Errorf("after the resume: %s; want %s (%+v)", got, c.want, report)
				}
				if r.Attempt == 1 && report.Position.Step == 0 || r.Attempt == 2 && report.Position.Step > 0 {
					t.Errorf("attempt %d, but the dry run begins at %+v", r.Attempt, report.Position)
				}
				if !strings.Contains(report.Note, c.note) {
					t.Errorf("note %q, want %q", report.Note, c.note)
				}
			})
		})
	}
}

// TestFromMakesFilesAgain goes back to the step that leaves a file which is missing.
func TestFromMakesFilesAgain(t *testing.T) {
	dir := t.TempDir()
	couriertest.Virtual(t, &engine.Options{Workspace: dir}, func(t *testing.T, h *couriertest.Harness) {
		var calls []string
		elsewhereSteps(h, &calls)
		x := h.Run(h.Job(`{"name": "again", "steps": [
			{"type": "demo.get", "config": {"name": "list"}}, {"type": "demo.get", "id": "a", "config": {"name": "d/a"}},
			{"type": "demo.get", "config": {"name": "fail", "fail": true, "use": "context:a.path"}}]}`), nil).RequireState(courier.Failed)
		if err := os.Remove(filepath.Join(dir, string(x.ID), "d", "a")); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Engine.Resume(t.Context(), x.ID, nil); !errors.Is(err, courier.ErrConflict) || !strings.Contains(err.Error(), "d/a") {
			t.Errorf("where it stands: %v", err)
		}
		h.Start()
		if _, err := h.Engine.Resume(t.Context(), x.ID, &courier.ResumeOptions{From: "a"}); err != nil {
			t.Fatal(err)
		}
		h.Wait(x.ID).RequireState(courier.Completed)
		if got := strings.Join(calls, " "); got != "list d/a fail d/a fail" {
			t.Errorf("called: %s", got)
		}
	})
}

// TestFromForgetsFiles: what a step had left before a resume from it is not asked for any more,
// if the step leaves another file when it runs again.
func TestFromForgetsFiles(t *testing.T) {
	dir := t.TempDir()
	couriertest.Virtual(t, &engine.Options{Workspace: dir}, func(t *testing.T, h *couriertest.Harness) {
		runs, fails := 0, 2
		courier.RegisterFunc(h.Registry, "demo.numbered", func(_ ctx, job *courier.Context, _ struct{}) (struct{}, error) {
			runs++
			w, err := job.Files().Create(fmt.Sprintf("file-%d", runs))
			if err != nil {
				return struct{}{}, err
			}
			return struct{}{}, w.Commit()
		}, nil)
		courier.RegisterFunc(h.Registry, "demo.fails", func(ctx, *courier.Context, struct{}) (struct{}, error) {
			if fails--; fails >= 0 {
				return struct{}{}, errors.New("boom")
			}
			return struct{}{}, nil
		}, nil)
		x := h.Run(h.Job(`{"name": "again", "steps": [{"id": "a", "type": "demo.numbered"}, {"type": "demo.fails"}]}`), nil).RequireState(courier.Failed)
		h.Start()
		if _, err := h.Engine.Resume(t.Context(), x.ID, &courier.ResumeOptions{From: "a"}); err != nil {
			t.Fatal(err)
		}
		h.Wait(x.ID).RequireState(courier.Failed)
		_ = os.Remove(filepath.Join(dir, string(x.ID), "file-1"))
		if _, err := h.Engine.Resume(t.Context(), x.ID, nil); err != nil {
			t.Fatal(err)
		}
		h.Wait(x.ID).RequireState(courier.Completed)
		if runs != 2 {
			t.Errorf("the step ran %d times", runs)
		}
	})
}

// TestElsewhereInAFailedItem loses the workspace while an execution stands in the middle of
// an item that has failed already, and whose failed step needs a file that is gone. The item
// begins again at once: a step that was completed where the execution stood would run a
// second time when the item is repaired.
func TestElsewhereInAFailedItem(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		var calls []string
		failed := make(map[string]bool)
		type config struct {
			Name  string `json:"name"`
			Use   string `json:"use,omitempty"`
			Class string `json:"class,omitempty"` // of the error of the first call
		}
		type output struct {
			Path string `json:"path"`
		}
		courier.RegisterFunc(h.Registry, "demo.item", func(_ ctx, job *courier.Context, cfg config) (output, error) {
			calls = append(calls, cfg.Name)
			if cfg.Class != "" && !failed[cfg.Name] {
				failed[cfg.Name] = true
				return output{}, courier.WithClass(errors.New("boom"), courier.Reason(cfg.Class))
			}
			w, err := job.Files().Create("d/" + cfg.Name)
			if err != nil {
				return output{}, err
			}
			return output{"d/" + cfg.Name}, w.Commit()
		}, nil)
		host := engine.New(h.Store, h.Registry, &engine.Options{Worker: "one", Workspace: t.TempDir(), WorkspaceID: "tree of one"})
		defer host.Stop(t.Context())
		x := begin(t, host, h.Job(`{"name": "lost", "steps": [
			{"type": "flow.foreach", "config": {"source": ["x"], "on_item_failure": "continue"}},
			{"id": "get", "type": "demo.item", "config": {"name": "get"}},
			{"type": "flow.foreach", "config": {"source": ["y"], "on_item_failure": "continue"}},
			{"type": "demo.item", "config": {"name": "use", "use": "context:get.path", "class": "error"}},
			{"type": "flow.end"},
			{"type": "demo.item", "config": {"name": "send", "class": "connection"}},
			{"type": "flow.end"}]}`), nil)
		if got := strings.Join(calls, " "); x.State != courier.Failed || got != "get use send" {
			t.Fatalf("it is %s after %s: %v", x.State, got, x.Failure)
		}
		calls = nil
		opt := &courier.ResumeOptions{Elsewhere: true, By: courier.By{Actor: "ops"}}
		if _, err := h.Engine.Resume(t.Context(), x.ID, opt); err != nil {
			t.Fatal(err)
		}
		h.Start()
		h.Wait(x.ID).RequireState(courier.Completed)
		if got := strings.Join(calls, " "); got != "get use send" {
			t.Errorf("after the resume: %s; want get use send", got)
		}
	})
}
