// Package couriertest is for unit tests of pipelines and steps: it has an engine on the memory
// store, stubs for step types, and assertions about the results.
//
//	func TestGreeting(t *testing.T) {
//		h := couriertest.New(t, nil)
//		courier.RegisterFunc(h.Registry, "demo.greet", greet, nil)
//		r := h.Run(job, map[string]any{"name": "Ada"})
//		r.RequireState(courier.Completed)
//		r.RequireValue("0.text", "hello Ada")
//	}
//
// Inside a bubble of testing/synctest, timeouts and back-off take no time; see [Virtual].
package couriertest

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/memstore"
)

// A Harness is an engine on a memory store, with a workspace for this test alone. The test may use
// its fields directly.
type Harness struct {
	Engine   *engine.Engine
	Store    *memstore.Store
	Registry *courier.Registry
	// Dir is a directory for this test alone. Steps may use it besides the workspace: it is among
	// the engine's roots.
	Dir string

	t          testing.TB
	workspace  string
	others     []*engine.Engine
	log        *logBuffer
	goroutines map[string]bool // those that existed before
}

// New returns a harness. A nil opt means the engine's defaults; Workspace, Log
// and Roots are set by the harness where opt leaves them empty. When the test
// ends, New's clean-up stops the engine, and fails the test if a step is still
// running, if a completed or cancelled execution left files in its workspace that are not
// the only copies (see [courier.Execution].OnlyCopies),
// or if goroutines are left. If the test failed, it prints the engine's log.
func New(t testing.TB, opt *engine.Options) *Harness {
	t.Helper()
	h := &Harness{
		Store: memstore.New(), Registry: new(courier.Registry), Dir: t.TempDir(),
		t: t, log: new(logBuffer), goroutines: goroutines(),
	}
	if opt != nil && opt.Workspace != "" {
		h.workspace = opt.Workspace
	} else {
		h.workspace = t.TempDir()
	}
	h.Engine = engine.New(h.Store, h.Registry, h.options(opt))
	t.Cleanup(h.finish)
	return h
}

// options returns opt with the settings of the harness.
func (h *Harness) options(opt *engine.Options) *engine.Options {
	var o engine.Options
	if opt != nil {
		o = *opt
	}
	if o.Workspace == "" {
		o.Workspace = h.workspace
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(h.log, nil))
	}
	o.Roots = append(o.Roots[:len(o.Roots):len(o.Roots)], h.Dir)
	return &o
}

// Virtual runs f in a bubble of testing/synctest, with a new harness that [New] returns for opt.
// The time package is virtual there, so a retry after a minute takes no time. Goroutines that are
// left running fail the test. Sockets don't work in a bubble.
func Virtual(t *testing.T, opt *engine.Options, f func(t *testing.T, h *Harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, New(t, opt)) })
}

// AddEngine returns another engine on the harness' store and registry, as a second
// worker: it takes over executions that the first one can't continue. It has the
// workspace, log and roots of the harness where opt leaves them empty, and is stopped
// when the test ends. The test starts it. A nil opt means the defaults.
func (h *Harness) AddEngine(opt *engine.Options) *engine.Engine {
	h.t.Helper()
	e := engine.New(h.Store, h.Registry, h.options(opt))
	h.others = append(h.others, e)
	return e
}

// Start starts the harness's engine, which then runs the executions that
// [Harness.Enqueue] creates. It is stopped when the test ends.
func (h *Harness) Start() {
	h.t.Helper()
	if err := h.Engine.Start(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// Enqueue defines a job and creates an execution of it for a started engine;
// [Harness.Wait] returns its result. A mistake in the definition fails the test at once.
func (h *Harness) Enqueue(job courier.Job, params map[string]any) courier.ExecutionID {
	h.t.Helper()
	saved, err := h.Engine.Jobs().Define(h.t.Context(), job, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	x, err := h.Engine.Enqueue(h.t.Context(), job.Name, &courier.EnqueueOptions{Params: params, Version: saved.Job.Version})
	if err != nil {
		h.t.Fatal(err)
	}
	return x.ID
}

// finish does the clean-up that New describes.
func (h *Harness) finish() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, e := range append([]*engine.Engine{h.Engine}, h.others...) {
		if err := e.Stop(ctx); err != nil {
			h.t.Error(err)
		}
	}
	h.checkWorkspaces(ctx)
	h.checkGoroutines()
	if h.t.Failed() {
		h.t.Logf("log of the engine:\n%s", h.log)
	}
}

func (h *Harness) checkWorkspaces(ctx context.Context) {
	h.t.Helper()
	entries, _ := os.ReadDir(h.workspace)
	for _, d := range entries {
		x, err := h.Store.Execution(ctx, courier.ExecutionID(d.Name()))
		if err == nil && x.State.Final() && (x.OnlyCopies == nil || !x.OnlyCopies.Any()) {
			h.t.Errorf("execution %s of job %q is %s, but its workspace %s is still there", x.ID, x.Job, x.State, filepath.Join(h.workspace, d.Name()))
		}
	}
}

// checkGoroutines fails the test if goroutines are left. It gives goroutines that are about to end
// a moment to do so.
func (h *Harness) checkGoroutines() {
	h.t.Helper()
	var left []string
	for range 100 {
		left = left[:0]
		for id, stack := range stacks() {
			if !h.goroutines[id] && strings.Contains(stack, "github.com/courierhq/courier") && !strings.Contains(stack, "couriertest.stacks") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	h.t.Errorf("%d goroutines are left:\n%s", len(left), strings.Join(left, "\n\n"))
}

func goroutines() map[string]bool {
	ids := make(map[string]bool)
	for id := range stacks() {
		ids[id] = true
	}
	return ids
}

// stacks returns the stack of each goroutine by its id.
func stacks() map[string]string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	all := make(map[string]string)
	for _, s := range strings.Split(string(buf), "\n\n") {
		id, _, _ := strings.Cut(strings.TrimPrefix(s, "goroutine "), " ")
		all[id] = s
	}
	return all
}

// Log returns everything that the engine and the steps have logged so far.
func (h *Harness) Log() string { return h.log.String() }

// WriteFile writes a file below Dir and returns its path, for use in a step's
// configuration.
func (h *Harness) WriteFile(name, content string) string {
	h.t.Helper()
	path := filepath.Join(h.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		h.t.Fatal(err)
	}
	return path
}

// ReadFile returns the content of a file below Dir, and fails the test if the file does not exist.
func (h *Harness) ReadFile(name string) string {
	h.t.Helper()
	b, err := os.ReadFile(filepath.Join(h.Dir, name))
	if err != nil {
		h.t.Fatal(err)
	}
	return string(b)
}

// Job reads a job from JSON text, and fails the test if it can't be read.
func (h *Harness) Job(text string) courier.Job {
	h.t.Helper()
	var job courier.Job
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		h.t.Fatal(err)
	}
	return job
}

// Run defines and executes a job and returns the result. A mistake in the definition
// fails the test at once; the outcome of the execution is for the result's assertions.
func (h *Harness) Run(job courier.Job, params map[string]any) *Result {
	h.t.Helper()
	return h.RunWith(job, &courier.EnqueueOptions{Params: params})
}

// RunWith is [Harness.Run] with all options of an execution.
func (h *Harness) RunWith(job courier.Job, opt *courier.EnqueueOptions) *Result {
	h.t.Helper()
	x, err := h.Engine.Run(h.t.Context(), job, opt)
	if x.ID == "" {
		h.t.Fatal(err)
	}
	return h.result(x, err)
}

// Wait waits until an execution has ended and returns its result.
func (h *Harness) Wait(id courier.ExecutionID) *Result {
	h.t.Helper()
	x, err := h.Engine.Wait(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.result(x, x.Err())
}

func (h *Harness) result(x courier.Execution, err error) *Result {
	h.t.Helper()
	return resultOf(h.t, h.Engine, x, err)
}

// resultOf reads the records of an execution.
func resultOf(t testing.TB, e *engine.Engine, x courier.Execution, err error) *Result {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	r := &Result{Execution: x, Err: err, t: t}
	var errs [3]error
	r.Steps, errs[0] = e.Executions().Steps(ctx, x.ID)
	r.Audit, errs[1] = e.Executions().Audit(ctx, x.ID)
	r.Values, errs[2] = e.Executions().Values(ctx, x.ID)
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// A logBuffer is a buffer to which several goroutines may write.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends a log record.
func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns all records.
func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
