package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storewrap"
)

// TestBadMonitors shows what is said about monitors that can't be saved, and that
// none of them is.
func TestBadMonitors(t *testing.T) {
	inTower(t, 1, func(w *tower) {
		w.define("invoices", `{"files": null, "day": null}`)
		w.defineJob(`{"name": "deaf", "params": {"day": null}, "steps": [{"type": "demo.take"}]}`)
		w.defineChain("chain", map[string]any{"files": nil, "day": nil})
		w.defineChain("deaf", map[string]any{"day": nil})
		ok := courier.Monitor{Name: "x", Path: "/in", Job: "job"}
		with := func(change func(*courier.Monitor)) courier.Monitor {
			m := ok
			change(&m)
			return m
		}
		for _, tt := range []struct {
			m    courier.Monitor
			want []string
		}{
			{courier.Monitor{}, []string{"name: it is missing", "path: it is missing", "job: there is neither a job nor a chain", "problems (nothing was saved)"}},
			{with(func(m *courier.Monitor) { m.Name = "a\nb" }), []string{"name: ", "control characters"}},
			{with(func(m *courier.Monitor) { m.Name = strings.Repeat("x", 201) }), []string{"201 characters, more than 200"}},
			{with(func(m *courier.Monitor) { m.Chain = "c" }), []string{"chain: there is a job too"}},
			{with(func(m *courier.Monitor) { m.Job, m.Chain = "", "chian" }), []string{`chain: there is no chain "chian"; did you mean "chain"?`}},
			{with(func(m *courier.Monitor) { m.Job, m.Chain = "", "deaf" }), []string{`chain: chain "deaf" has params, but not "files"`}},
			{with(func(m *courier.Monitor) { m.Job, m.Chain, m.Params = "", "chain", map[string]any{"dy": 1} }), []string{`params.dy: unknown parameter "dy"; did you mean "day"?`}},
			{with(func(m *courier.Monitor) { m.Job, m.Chain, m.Priority = "", "chain", 1 }), []string{"priority: 1 is given, but the members of a chain"}},
			{with(func(m *courier.Monitor) { m.Job = "invoice" }), []string{`there is no job "invoice"; did you mean "invoices"?`}},
			{with(func(m *courier.Monitor) { m.Job = "deaf" }), []string{`job "deaf" has params, but not "files"`}},
			{with(func(m *courier.Monitor) { m.Job, m.Params = "invoices", map[string]any{"dy": 1} }), []string{`params.dy: unknown parameter "dy"; did you mean "day"?`}},
			{with(func(m *courier.Monitor) { m.Params = map[string]any{"files": 1} }), []string{`params: "files" is given by the monitor itself`}},
			{with(func(m *courier.Monitor) { m.Params = map[string]any{"a": "\xff"} }), []string{"params: "}},
			{with(func(m *courier.Monitor) { m.Lister = "fil" }), []string{`lister: this engine has no lister "fil"; did you mean "file"?`}},
			{with(func(m *courier.Monitor) { m.Path = "/out" }), []string{`path: path: "/out" is not below /in`}},
			{with(func(m *courier.Monitor) { m.Every = time.Millisecond }), []string{"every_seconds: 1ms is less than 1s"}},
			{with(func(m *courier.Monitor) { m.Every, m.Stable = -1, 25*time.Hour }), []string{"every_seconds: -1ns is not between", "stable_seconds: 25h0m0s is not between"}},
			{with(func(m *courier.Monitor) { m.Patterns = []string{"*.csv", "", "a/*"} }), []string{"patterns[1]: it is empty", `patterns[2]: "a/*" has a path separator`}},
			{with(func(m *courier.Monitor) { m.Events = []courier.MonitorEvent{"created", "modifed", "created"} }), []string{`events[1]: unknown event "modifed"; did you mean "modified"?`, `events[2]: "created" is there twice`}},
			{with(func(m *courier.Monitor) { m.DoneFile = "*.done" }), []string{"done_file: "}},
			{with(func(m *courier.Monitor) { m.MaxFailures = -1 }), []string{"max_failures: -1 is negative; 0 means 5"}},
		} {
			_, err := w.engines[0].Monitors().Set(t.Context(), tt.m, courier.By{})
			problems, ok := errors.AsType[*courier.MonitorError](err)
			if !ok || !errors.Is(err, courier.ErrInvalid) || len(problems.Problems) == 0 {
				t.Errorf("%+v: %v", tt.m, err)
				continue
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		}
		if list, err := w.engines[0].Monitors().List(t.Context(), store.MonitorFilter{}); err != nil || len(list) != 0 {
			t.Errorf("saved: %v, %v", list, err)
		}
		if m, err := w.engines[0].Monitors().Set(t.Context(), ok, courier.By{}); err != nil || m.State != courier.MonitorActive {
			t.Errorf("the good one: %+v, %v", m, err)
		}
	})
}

// TestMonitorJSON writes a monitor and reads it back.
func TestMonitorJSON(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	m := courier.Monitor{
		Name: "m", Description: "d", Lister: "sftp", Connection: "acme", Path: "/in", Patterns: []string{"*"}, Events: []courier.MonitorEvent{"exists"},
		Every: 1500 * time.Millisecond, Stable: time.Second, DoneFile: ".done", Batch: true, Job: "j", Chain: "c", Params: map[string]any{"a": "b"},
		Priority: -3, MaxFailures: 2, Disabled: true, State: courier.MonitorPaused, Reason: "r", NextPoll: at, SavedAt: at,
		Health: courier.MonitorHealth{LastPoll: at, PollSeconds: 0.5, Files: 1, Waiting: 2, Refused: 3, Failures: 4, Problem: "p", Triggered: 5, LastTriggered: at, LastExecution: "x"},
	}
	for _, v := range []reflect.Value{reflect.ValueOf(m), reflect.ValueOf(m.Health)} {
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Errorf("%s is not tried", v.Type().Field(i).Name)
			}
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var back courier.Monitor
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, m) {
		t.Errorf("%s\nread as %+v, %v", text, back, err)
	}
	if d := m.Definition(); d.State != "" || d.Disabled || d.Health.Files != 0 || !d.NextPoll.IsZero() || d.Path == "" || d.MaxFailures == 0 {
		t.Errorf("definition %+v", d)
	}
	for text, want := range map[string]string{
		`{"name": "m", "pattern": []}`:         `unknown field "pattern"; did you mean "patterns"?`,
		`{"name": "m", "every_seconds": -1}`:   "negative",
		`{"name": "m", "saved_at": "tuesday"}`: "must be an instant",
		`[]`:                                   "must be an object",
	} {
		if err := json.Unmarshal([]byte(text), &back); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestSelects compares names with patterns.
func TestSelects(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"*.csv", "a.csv", true}, {"*.csv", "a.csvx", false}, {"*", "", true}, {"?", "", false}, {"?", "é", true}, {"a*b*c", "aXbXbc", true},
		{"a*b*c", "acb", false}, {"**a**", "bab", true}, {"[a]", "a", false}, {"[a]", "[a]", true}, {"A", "a", false}, {"a?c", "abc", true},
		{strings.Repeat("a*", 100) + "b", strings.Repeat("a", 200), false},
	} {
		m := courier.Monitor{Patterns: []string{"no", tt.pattern}}
		if got := m.Selects(tt.name); got != tt.want {
			t.Errorf("%q selects %q: %v", tt.pattern, tt.name, got)
		}
	}
	m := courier.Monitor{DoneFile: ".done"}
	if m.Selects("a.done") || !m.Selects("a") {
		t.Error("done files are selected")
	}
}

// TestMonitorWithFaults lets calls of the store fail at random, before or after
// they took effect, and engines die: each file is handed over once.
func TestMonitorWithFaults(t *testing.T) {
	for seed := range uint64(raced.Or(20, 100)) {
		synctest.Test(t, func(t *testing.T) {
			r, files := rand.New(rand.NewPCG(seed, 6)), rand.New(rand.NewPCG(seed, 7))
			lost := errors.New("the reply is lost")
			dead := make(map[int]bool)
			behind := memstore.New()
			w := newTower(t, behind, 0)
			engineOf := func(i int) *engine.Engine {
				w.store = storewrap.Intercept(behind, func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
					monitors := strings.Contains(c.Method, "Monitors") || c.Method == "Record" || c.Method == "Seen"
					w.mu.Lock()
					n, gone := r.IntN(8), dead[i]
					w.mu.Unlock()
					switch {
					case gone && monitors, monitors && n == 0:
						return lost
					case monitors && n == 1:
						_ = do(ctx)
						return lost
					}
					return do(ctx)
				})
				return w.engine(fmt.Sprint("w", i))
			}
			w.engines = []*engine.Engine{engineOf(0)}
			var want []string
			w.store = behind
			calm := w.engine("calm") // sets up, and never starts
			w.engines = append(w.engines, calm)
			defineOn(t, calm)
			m := courier.Monitor{Name: "m", Path: "/in", Job: "job", Every: 5 * time.Second, Stable: time.Second}
			if seed%2 == 1 {
				m.Job, m.Chain = "", "chain"
			}
			if _, err := calm.Monitors().Set(t.Context(), m, courier.By{}); err != nil {
				t.Fatal(err)
			}
			w.start(0)
			for i := range 12 {
				name := fmt.Sprint("f", i)
				w.shelf.put(int64(i), name)
				want = append(want, fmt.Sprintf("created %s:%d", name, i))
				time.Sleep(time.Duration(files.IntN(20)) * time.Second)
				if files.IntN(3) == 0 {
					w.mu.Lock()
					dead[i] = true
					w.mu.Unlock()
					w.stop(0)
					w.engines[0] = engineOf(i + 1)
					w.start(0)
				}
			}
			time.Sleep(time.Hour) // leases end
			w.require(want...)
			w.stop(0)
		})
	}
}

func defineOn(t *testing.T, e *engine.Engine) {
	t.Helper()
	var job courier.Job
	if err := job.UnmarshalJSON([]byte(`{"name": "job", "steps": [{"type": "demo.take", "config": {"files": "context:params.files"}}]}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Jobs().Define(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Chains().Define(t.Context(), chain.Chain{Name: "chain", Members: []chain.Member{{Job: "job"}}}, nil); err != nil {
		t.Fatal(err)
	}
}

// TestMonitorListers survives listers that panic, hang or are not there.
func TestMonitorListers(t *testing.T) {
	inTower(t, 1, func(w *tower) {
		w.set(courier.Monitor{Every: 10 * time.Second, MaxFailures: 100})
		w.shelf.slow = time.Hour
		w.start(0)
		time.Sleep(65 * time.Second)
		if m := w.monitor(); m.Health.Failures != 1 || !strings.Contains(m.Health.Problem, "given up after 1m0s") {
			t.Errorf("after a listing that hung: %+v", m)
		}
		begun := time.Now()
		w.stop(0) // in the middle of a listing
		if d := time.Since(begun); d > time.Second {
			t.Errorf("the stop took %v", d)
		}
		w.shelf.slow = 0
		if m := w.monitor(); m.Health.Failures > 2 || m.State != courier.MonitorDegraded {
			t.Errorf("the stop counts as a failure: %+v", m)
		}
		bare := engine.New(w.store, w.reg, &engine.Options{Workspace: w.dir, Listers: map[string]courier.Lister{"sftp": w.shelf}})
		if err := bare.Start(w.t.Context()); err != nil {
			t.Fatal(err)
		}
		looks := w.shelf.looks()
		time.Sleep(time.Hour)
		if n := w.shelf.looks(); n != looks {
			t.Errorf("%d looks by an engine without the lister", n-looks)
		}
		if err := bare.Stop(w.t.Context()); err != nil {
			t.Error(err)
		}
		w.shelf.files["a"] = courier.ListedFile{Name: "a", Size: 1, Modified: time.Now()}
		loud := engine.New(w.store, w.reg, &engine.Options{Workspace: w.dir, Listers: map[string]courier.Lister{"file": panics{w.shelf}}})
		if err := loud.Start(w.t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if m := w.monitor(); !strings.Contains(m.Health.Problem, "panicked: oh") {
			t.Errorf("after a panic: %+v", m)
		}
		if err := loud.Stop(w.t.Context()); err != nil {
			t.Error(err)
		}
		w.start(0)
		time.Sleep(time.Minute)
		w.require("created a:1")
		w.stop(0)
	})
}

type panics struct{ courier.Lister }

func (panics) List(context.Context, *courier.Context, courier.MonitorTarget) (courier.Listing, error) {
	panic("oh")
}

// TestMonitorOfADirectory hands a real file over soon after it is complete.
func TestMonitorOfADirectory(t *testing.T) {
	dir := t.TempDir()
	reg, got := new(courier.Registry), make(chan string, 10)
	type config struct {
		Path string `json:"path"`
	}
	courier.RegisterFunc(reg, "demo.take", func(_ context.Context, _ *courier.Context, cfg config) (struct{}, error) {
		got <- cfg.Path
		return struct{}{}, nil
	}, nil)
	e := engine.New(memstore.New(), reg, &engine.Options{
		Workspace: t.TempDir(), Roots: []string{dir}, Listers: map[string]courier.Lister{"file": file.NewLister([]string{dir}, nil)},
	})
	var job courier.Job
	if err := job.UnmarshalJSON([]byte(`{"name": "job", "steps": [{"type": "demo.take", "config": {"path": "context:params.monitor.triggered_files[0].path"}}]}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Jobs().Define(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Monitors().Set(t.Context(), courier.Monitor{Name: "m", Path: dir, Job: "job", Every: time.Hour, Stable: time.Second}, courier.By{}); err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer e.Stop(context.WithoutCancel(t.Context()))
	for m, err := e.Monitors().Get(t.Context(), "m"); m.Health.LastPoll.IsZero(); m, err = e.Monitors().Get(t.Context(), "m") {
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // it begins to watch
	name := filepath.Join(dir, "a")
	if err := os.WriteFile(name, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "linux" {
		return // the next look is in an hour
	}
	select {
	case path := <-got:
		if path != name {
			t.Errorf("got %q, want %q", path, name)
		}
	case <-time.After(20 * time.Second):
		t.Error("nothing was handed over")
	}
}
