package couriertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/steps/file"
)

type m = map[string]any

// spy is a test that may fail without failing this one.
type spy struct {
	testing.TB
	messages []string
	cleanups []func()
	failed   bool
}

func (s *spy) Helper()             {}
func (s *spy) Failed() bool        { return s.failed }
func (s *spy) Cleanup(f func())    { s.cleanups = append(s.cleanups, f) }
func (s *spy) Logf(string, ...any) {}
func (s *spy) Error(args ...any) {
	s.failed = true
	s.messages = append(s.messages, fmt.Sprint(args...))
}
func (s *spy) Errorf(f string, args ...any) {
	s.Error(fmt.Sprintf(f, args...))
}
func (s *spy) Fatal(args ...any) {
	s.Error(args...)
	runtime.Goexit()
}
func (s *spy) Fatalf(f string, args ...any) { s.Fatal(fmt.Sprintf(f, args...)) }

// watch runs f as a test of its own, with its clean-ups, and returns what it
// complained about.
func watch(t *testing.T, f func(t testing.TB)) string {
	t.Helper()
	s := &spy{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for i := len(s.cleanups) - 1; i >= 0; i-- {
				s.cleanups[i]()
			}
		}()
		f(s)
	}()
	<-done
	return strings.Join(s.messages, "\n")
}

const job = `{"name": "j", "steps": [{"id": "a", "type": "demo.a"}, {"type": "demo.b", "config": {"x": "context:a.n"}}]}`

func TestAssertionsPass(t *testing.T) {
	h := couriertest.New(t, nil)
	h.Stub("demo.a", couriertest.Returns(m{"n": 1, "list": []string{"x"}}))
	b := h.Stub("demo.b", couriertest.Fails(errors.New("boom")))
	r := h.Run(h.Job(job), nil)
	r.RequireState(courier.Failed).RequireError("boom").RequireTrace("0 demo.a completed", "1 demo.b failed")
	r.RequireValue("0.n", 1).RequireValue("a.list", []any{"x"}).RequireValue("0.list[0]", "x").RequireNoValue("1.n")
	if c := b.Calls(); len(c) != 1 || c[0].Step != 1 || c[0].Attempt != 1 || c[0].Config["x"] != json.Number("1") {
		t.Errorf("calls = %+v", c)
	}
}

func TestAssertionsFail(t *testing.T) {
	for want, assert := range map[string]func(r *couriertest.Result){
		"the execution is completed, want failed":  func(r *couriertest.Result) { r.RequireState(courier.Failed) },
		"value a.n = 1, want 2":                    func(r *couriertest.Result) { r.RequireValue("a.n", 2) },
		`did you mean "a.n"?`:                      func(r *couriertest.Result) { r.RequireValue("a.m", 2) },
		"value a.n = 1, want none":                 func(r *couriertest.Result) { r.RequireNoValue("a.n") },
		`error is <nil>, want one with "x"`:        func(r *couriertest.Result) { r.RequireError("x") },
		"steps:\n  0 demo.a completed\n  1 demo.b": func(r *couriertest.Result) { r.RequireTrace("0 demo.a completed") },
	} {
		got := watch(t, func(tb testing.TB) {
			h := couriertest.New(tb, nil)
			h.Stub("demo.a", couriertest.Returns(m{"n": 1}))
			h.Stub("demo.b", nil)
			assert(h.Run(h.Job(job), nil))
			tb.Error("the assertion passed")
		})
		if !strings.Contains(got, want) || strings.Contains(got, "passed") {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
}

func TestLeaksFailTheTest(t *testing.T) {
	stop := make(chan struct{})
	got := watch(t, func(tb testing.TB) {
		h := couriertest.New(tb, nil)
		h.Stub("demo.a", func(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
			go func() { <-stop }()
			return nil, nil
		})
		h.Run(h.Job(`{"name": "j", "steps": [{"type": "demo.a"}]}`), nil)
	})
	close(stop)
	if !strings.Contains(got, "1 goroutines are left") || !strings.Contains(got, "couriertest_test.go") {
		t.Errorf("a goroutine that a step left: %q", got)
	}

	release := make(chan struct{})
	got = watch(t, func(tb testing.TB) {
		h := couriertest.New(tb, &engine.Options{Grace: time.Millisecond})
		h.Stub("demo.a", func(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
			<-release
			return nil, nil
		})
		h.Run(h.Job(`{"name": "j", "steps": [{"type": "demo.a", "timeout_seconds": 0.1}]}`), nil)
		if err := h.Engine.Start(tb.Context()); err != nil {
			tb.Fatal(err)
		}
	})
	close(release)
	if !strings.Contains(got, "ignore the end of their context") {
		t.Errorf("a step that is still running: %q", got)
	}
}

func TestLeftWorkspaceFailsTheTest(t *testing.T) {
	dir := t.TempDir()
	got := watch(t, func(tb testing.TB) {
		h := couriertest.New(tb, &engine.Options{Workspace: dir})
		h.Stub("demo.a", nil)
		r := h.Run(h.Job(`{"name": "j", "steps": [{"type": "demo.a"}]}`), nil)
		if err := os.Mkdir(filepath.Join(dir, string(r.ID)), 0o700); err != nil {
			tb.Fatal(err)
		}
	})
	if !strings.Contains(got, "its workspace") {
		t.Errorf("files that are left: %q", got)
	}
}

func TestBadDefinitionFailsTheTest(t *testing.T) {
	got := watch(t, func(tb testing.TB) {
		h := couriertest.New(tb, nil)
		h.Run(courier.Job{Name: "j", Steps: []courier.StepSpec{{Type: "demo.none"}}}, nil)
	})
	if !strings.Contains(got, `unknown step type "demo.none"`) {
		t.Errorf("got %q", got)
	}
}

type counting struct{ cleanups int }

func (c *counting) Execute(_ context.Context, job *courier.Context, cfg struct {
	Path string `json:"path" courier:"required"`
}) (struct {
	Size int64 `json:"size"`
}, error) {
	var out struct {
		Size int64 `json:"size"`
	}
	info, err := job.Files().Stat(cfg.Path)
	if err == nil {
		out.Size = info.Size()
	}
	return out, err
}

func (c *counting) Cleanup(context.Context, *courier.Context, struct {
	Path string `json:"path" courier:"required"`
}) error {
	c.cleanups++
	return nil
}

func TestRunStep(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "a.txt")
	if err := os.WriteFile(path, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := new(counting)
	for attempt := 1; attempt <= 2; attempt++ {
		out, err := couriertest.RunStep(t, c, m{"path": path}, root, attempt)
		if err != nil || out.Size != 5 || c.cleanups != attempt-1 {
			t.Errorf("attempt %d: %+v, %v, %d clean-ups", attempt, out, err, c.cleanups)
		}
	}
	if _, err := couriertest.RunStep(t, c, m{"path": path}, "", 1); err == nil || !strings.Contains(err.Error(), "Roots") {
		t.Errorf("a file outside the root: %v", err)
	}
	if _, err := couriertest.RunStep(t, c, m{"paht": path}, root, 1); err == nil {
		t.Error("an unknown field was accepted")
	}
}

func TestVirtualTimeTakesNone(t *testing.T) {
	start := time.Now()
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.a", couriertest.Fails(errors.New("1"), errors.New("2")))
		began := time.Now()
		h.Run(h.Job(`{"name": "j", "failure_policy": {"type": "retry_step", "backoff_base_seconds": 3600, "backoff_max_seconds": 7200, "jitter": false}, "steps": [{"type": "demo.a"}]}`), nil).RequireState(courier.Completed)
		if d := time.Since(began); d < 3*time.Hour {
			t.Errorf("the back-off took %v, want 3 h", d)
		}
	})
	if d := time.Since(start); d > time.Minute {
		t.Errorf("three virtual hours took %v", d)
	}
}

// A stub takes the place of a registered type, under its aliases too.
func TestStubOverrides(t *testing.T) {
	h := couriertest.New(t, nil)
	file.Register(h.Registry, nil)
	s := h.Stub("file.move", couriertest.Returns(m{"moved_file": "/b"}))
	h.Run(h.Job(`{"name": "j", "steps": [
		{"id": "a", "type": "file.move", "config": {"source_path": "/nowhere/a", "destination_path": "/b"}},
		{"type": "file.rename", "config": {"source_path": "context:a.moved_file", "destination_path": "/c"}},
		{"type": "file.mkdir", "config": {"path": "real"}}]}`), nil).
		RequireState(courier.Completed).RequireTrace("0 file.move completed", "1 file.move completed", "2 file.mkdir completed")
	if calls := s.Calls(); len(calls) != 2 || calls[1].Config["source_path"] != "/b" {
		t.Errorf("calls = %v", calls)
	}
}

// A second engine takes over from one that is stopped, with several executions and
// secrets, in virtual time.
func TestSecondEngine(t *testing.T) {
	opt := &engine.Options{
		Worker:   "first",
		SoftStop: time.Second,
		Secrets:  func(context.Context, courier.SecretRequest) (string, error) { return "hunter2", nil },
	}
	couriertest.Virtual(t, opt, func(t *testing.T, h *couriertest.Harness) {
		stub := h.Stub("demo.a", func(ctx context.Context, job *courier.Context, config map[string]any) (map[string]any, error) {
			if config["password"] != "hunter2" {
				return nil, courier.Permanent(errors.New("no secret"))
			}
			select {
			case <-time.After(time.Minute):
				return m{"done": true}, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})
		second := *opt
		second.Worker = "second"
		other := h.AddEngine(&second)
		h.Start()
		var ids []courier.ExecutionID
		for range 3 {
			ids = append(ids, h.Enqueue(h.Job(`{"name": "j", "steps": [{"id": "a", "type": "demo.a", "config": {"password": "secret:db"}}]}`), nil))
		}
		time.Sleep(10 * time.Second)
		if err := other.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := h.Engine.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			if r := h.Wait(id).RequireState(courier.Completed).RequireValue("a.done", true); r.Worker != "second" {
				t.Errorf("the worker was %q", r.Worker)
			}
		}
		if n := len(stub.Calls()); n != 6 {
			t.Errorf("%d calls, want 6", n)
		}
	})
}
