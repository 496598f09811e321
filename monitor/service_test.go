package monitor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/internal/uuid7"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// A directory is a directory of a server that exists only in the test.
type directory struct {
	mu    sync.Mutex
	files map[string]courier.ListedFile
	err   error
	lists int
	slow  time.Duration // what a listing takes
	panic bool
}

func (d *directory) Check(t courier.Directory) error {
	if !strings.HasPrefix(t.Path, "/in") {
		return fmt.Errorf("path: %q is not below /in", t.Path)
	}
	return nil
}

func (d *directory) Least() time.Duration { return time.Second }

func (d *directory) List(ctx context.Context, job *courier.Context, t courier.Directory) (courier.Listing, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lists++
	if d.panic {
		panic("oh")
	}
	if _, err := job.Secret(ctx, "password"); err != nil {
		return courier.Listing{}, err
	}
	var got courier.Listing
	for _, f := range d.files {
		f.Path = t.Path + "/" + f.Name
		got.Files = append(got.Files, f)
	}
	select {
	case <-time.After(d.slow):
	case <-ctx.Done():
		return courier.Listing{}, ctx.Err()
	}
	return got, d.err
}

// change changes the directory while nobody lists it.
func (d *directory) change(f func(d *directory)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d)
}

// put writes files, each with a size.
func (d *directory) put(size int64, names ...string) {
	d.change(func(d *directory) {
		for _, name := range names {
			d.files[name] = courier.ListedFile{Name: name, Size: size, Modified: time.Now()}
		}
	})
}

func (d *directory) remove(name string) (f courier.ListedFile) {
	d.change(func(d *directory) {
		f = d.files[name]
		delete(d.files, name)
	})
	return f
}

func (d *directory) fail(err error) { d.change(func(d *directory) { d.err = err }) }

func (d *directory) listed() (n int) {
	d.change(func(d *directory) { n = d.lists })
	return n
}

// A world is a service on a store in memory, with one directory, whose lister needs a
// secret, and one job, named job.
type world struct {
	*monitor.Service
	t       *testing.T
	store   *memstore.Store
	dir     *directory
	ids     uuid7.Source
	changes []string // what was changed, in words
	log     bytes.Buffer
	known   map[courier.ExecutionID]bool // executions that were required before
	stop    func()

	mu       sync.Mutex
	declared map[string]any // the parameters of the job
	refuses  error          // of all executions
	days     *calendar.Days // of the calendar "week"; nil if there is none
	unread   error          // of reading the calendar
	recorded int            // polls that were written
}

// inWorld runs a test in virtual time, with a service that polls.
func inWorld(t *testing.T, run func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		run(w)
		w.stop()
	})
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, store: memstore.New(), dir: &directory{files: make(map[string]courier.ListedFile)}, known: make(map[courier.ExecutionID]bool)}
	w.Service = monitor.New(monitor.Options{
		Store:      func() (monitor.Store, error) { return w.store, nil },
		Targets:    w,
		Calendar:   w.calendar,
		Listers:    map[string]courier.Lister{"file": w.dir},
		NewContext: w.newContext,
		Changed: func(_ context.Context, by courier.By, a store.Action, _ ...slog.Attr) {
			w.changes = append(w.changes, a.Verb+" "+a.Name+by.String())
		},
		Recorded:  func(monitor.Recorded) { w.change(func() { w.recorded++ }) },
		MaxParams: 4 << 20,
		Log:       slog.New(slog.NewTextHandler(&w.log, nil)),
		Poll:      time.Minute,
	})
	if _, err := w.store.Save(t.Context(), store.Definition{Kind: store.Job, Name: "job", Body: json.RawMessage(`{"name": "job"}`)}); err != nil {
		t.Fatal(err)
	}
	return w
}

// change changes the world while the service polls.
func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// start lets the service poll until stop is called.
func (w *world) start() {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	w.stop = func() {
		cancel()
		<-done
	}
}

// newContext returns a context with one secret, "hunter-2".
func (w *world) newContext(name string) (*courier.Context, *courier.Redactor) {
	secrets := new(courier.Redactor)
	return courier.NewContext(courier.ContextConfig{Monitor: name, Redactor: secrets, Secrets: func(_ context.Context, q courier.SecretRequest) (string, error) {
		if q.Monitor != name || q.Execution != "" {
			w.t.Errorf("request %+v", q)
		}
		secrets.Add(q.Name, "hunter-2")
		return "hunter-2", nil
	}}), secrets
}

// calendar knows the calendar "week".
func (w *world) calendar(_ context.Context, name string) (days *calendar.Days, err error) {
	w.change(func() {
		if days, err = w.days, w.unread; err == nil && (days == nil || name != "week") {
			err = courier.Errorf(courier.ErrNotFound, "there is no calendar %q; there are none", name)
		}
	})
	return days, err
}

// CheckStart refuses the parameter "bad".
func (w *world) CheckStart(_ context.Context, job, chain string, params map[string]any) ([]courier.Problem, error) {
	if job != "job" {
		return []courier.Problem{{Step: -1, Field: "job", Message: fmt.Sprintf("there is no job %q", job)}}, nil
	}
	if _, ok := params["files"]; !ok {
		w.t.Errorf("it is checked with %v", params)
	}
	if _, ok := params["bad"]; ok {
		return []courier.Problem{{Step: -1, Field: "params.bad", Message: "unknown"}}, nil
	}
	return nil, nil
}

// Latest knows the job by its name.
func (w *world) Latest(_ context.Context, job, _ string) (monitor.Target, error) {
	if job != "job" {
		return nil, courier.Errorf(courier.ErrNotFound, "there is no job %q", job)
	}
	return w, nil
}

func (w *world) Params() (declared map[string]any) {
	w.change(func() { declared = w.declared })
	return declared
}

// Prepare adds an execution of the job.
func (w *world) Prepare(_ context.Context, r *monitor.PollResult, opt courier.EnqueueOptions) (courier.ExecutionID, error) {
	var refuses error
	if w.change(func() { refuses = w.refuses }); refuses != nil {
		return "", refuses
	}
	params, err := json.Marshal(opt.Params)
	if err != nil {
		return "", err
	}
	n := store.NewExecution{
		ID: courier.ExecutionID(w.ids.New()), Job: "job", Version: 1, Priority: opt.Priority, Params: params,
		Queue: courier.DefaultQueue, StepTypes: []string{"demo.a"}, IdempotencyKey: opt.IdempotencyKey, By: opt.By.Actor,
	}
	r.Executions = append(r.Executions, n)
	return n.ID, nil
}

// set sets the monitor "m" of the directory /in.
func (w *world) set(m monitor.Monitor) monitor.Monitor {
	w.t.Helper()
	m.Name, m.Path, m.Job = "m", "/in", "job"
	got, err := w.Set(w.t.Context(), m, courier.By{})
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

func (w *world) get() monitor.Monitor {
	w.t.Helper()
	m, err := w.Get(w.t.Context(), "m")
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// executions returns those that were created since the last time, each with its
// parameters.
func (w *world) executions() (list []courier.Execution) {
	w.t.Helper()
	synctest.Wait()
	all, err := w.store.Executions(w.t.Context(), store.Filter{Limit: 10_000})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, x := range all {
		if w.known[x.ID] {
			continue
		}
		w.known[x.ID] = true
		if x, err = w.store.Execution(w.t.Context(), x.ID); err != nil {
			w.t.Fatal(err)
		}
		list = append(list, x)
	}
	return list
}

// require checks which files executions have got since the last time, in any order.
func (w *world) require(want ...string) {
	w.t.Helper()
	var got []string
	for _, x := range w.executions() {
		var params struct {
			Files []struct {
				Name, Event string
				Size        int
			}
		}
		if err := json.Unmarshal(x.Params, &params); err != nil {
			w.t.Fatal(err)
		}
		var all []string
		for _, f := range params.Files {
			all = append(all, fmt.Sprintf("%s %s:%d", f.Event, f.Name, f.Size))
		}
		got = append(got, strings.Join(all, ", "))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.t.Errorf("executions got %q, want %q", got, want)
	}
}

// TestBadMonitors shows what is said about monitors that can't be saved, and that none of
// them is.
func TestBadMonitors(t *testing.T) {
	inWorld(t, func(w *world) {
		ok := monitor.Monitor{Name: "x", Path: "/in", Job: "job"}
		with := func(change func(*monitor.Monitor)) monitor.Monitor {
			m := ok
			change(&m)
			return m
		}
		for _, tt := range []struct {
			m    monitor.Monitor
			want []string
		}{
			{monitor.Monitor{}, []string{"name: it is missing", "path: it is missing", "job: there is neither a job nor a chain", "problems (nothing was saved)"}},
			{with(func(m *monitor.Monitor) { m.Name = "a\nb" }), []string{"name: ", "control characters"}},
			{with(func(m *monitor.Monitor) { m.Name = strings.Repeat("x", 201) }), []string{"201 characters, more than 200"}},
			{with(func(m *monitor.Monitor) { m.Chain = "c" }), []string{"chain: there is a job too; a monitor starts one or the other"}},
			{with(func(m *monitor.Monitor) { m.Job, m.Chain, m.Priority = "", "chain", 1 }), []string{"priority: 1 is given, but the members of a chain"}},
			{with(func(m *monitor.Monitor) { m.Job = "invoice" }), []string{`job: there is no job "invoice"`}},
			{with(func(m *monitor.Monitor) { m.Params = map[string]any{"bad": 1} }), []string{"params.bad: unknown"}},
			{with(func(m *monitor.Monitor) { m.Params = map[string]any{"files": 1} }), []string{`params: "files" is given by the monitor itself`}},
			{with(func(m *monitor.Monitor) { m.Params = map[string]any{"a": "\xff"} }), []string{"params: "}},
			{with(func(m *monitor.Monitor) { m.Lister = "fil" }), []string{`lister: this engine has no lister "fil"; did you mean "file"?`}},
			{with(func(m *monitor.Monitor) { m.Path = "/out" }), []string{`path: path: "/out" is not below /in`}},
			{with(func(m *monitor.Monitor) { m.Every = time.Millisecond }), []string{"every_seconds: 1ms is less than 1s"}},
			{with(func(m *monitor.Monitor) { m.Every, m.Stable = -1, 25*time.Hour }), []string{"every_seconds: -1ns is not between", "stable_seconds: 25h0m0s is not between"}},
			{with(func(m *monitor.Monitor) { m.Patterns = []string{"*.csv", "", "a/*"} }), []string{"patterns[1]: it is empty", `patterns[2]: "a/*" has a path separator`}},
			{with(func(m *monitor.Monitor) { m.Events = []monitor.Event{"created", "modifed", "created"} }), []string{`events[1]: unknown event "modifed"; did you mean "modified"?`, `events[2]: "created" is there twice`}},
			{with(func(m *monitor.Monitor) { m.DoneFile = "*.done" }), []string{"done_file: "}},
			{with(func(m *monitor.Monitor) { m.MaxFailures = -1 }), []string{"max_failures: -1 is negative; 0 means 5"}},
		} {
			_, err := w.Set(t.Context(), tt.m, courier.By{})
			problems, ok := errors.AsType[*monitor.Error](err)
			if !ok || !errors.Is(err, courier.ErrInvalid) || len(problems.Problems) == 0 {
				t.Errorf("%+v: %v", tt.m, err)
				continue
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
			if found, err := w.Check(t.Context(), tt.m, true); err != nil || len(found) != len(problems.Problems) {
				t.Errorf("Check found %v, %v; Set %v", found, err, problems.Problems)
			}
		}
		w.change(func() { w.declared = map[string]any{"day": nil} })
		if _, err := w.Set(t.Context(), ok, courier.By{}); !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), `job: job "job" has params, but not "files"`) {
			t.Errorf("for a job that takes no files: %v", err)
		}
		w.change(func() { w.declared = nil })
		if found, err := w.Check(t.Context(), with(func(m *monitor.Monitor) { m.Lister = "sftp" }), false); err != nil || len(found) != 0 {
			t.Errorf("without its lister: %v, %v", found, err)
		}
		if list, err := w.List(t.Context(), monitor.Filter{}); err != nil || len(list) != 0 {
			t.Errorf("saved: %v, %v", list, err)
		}
		if m, err := w.Set(t.Context(), ok, courier.By{}); err != nil || m.State != monitor.Active {
			t.Errorf("the good one: %+v, %v", m, err)
		}
	})
}

// TestGrowingFiles hands a file over when its size has not changed for the time that is
// asked for, with the size that it has then.
func TestGrowingFiles(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set(monitor.Monitor{Every: 2 * time.Second, Stable: 10 * time.Second})
		for i := range 12 {
			w.dir.put(int64(i+1), "big")
			time.Sleep(5 * time.Second)
		}
		w.require()
		if h := w.get().Health; h.Waiting != 1 || h.Files != 1 {
			t.Errorf("health %+v", h)
		}
		time.Sleep(10 * time.Second)
		w.require("created big:12")
	})
}

// TestDoneFile waits for the file that says that another is complete.
func TestDoneFile(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set(monitor.Monitor{Every: 5 * time.Second, DoneFile: ".done"})
		w.dir.put(1, "a", "b")
		time.Sleep(time.Minute)
		w.require()
		w.dir.put(7, "a")
		w.dir.put(0, "a.done")
		time.Sleep(time.Minute)
		w.require("created a:7")
	})
}

// TestEvents hands files over that came back, changed, or are just there.
func TestEvents(t *testing.T) {
	run := func(events []monitor.Event, test func(w *world)) {
		inWorld(t, func(w *world) {
			w.dir.put(1, "a")
			w.set(monitor.Monitor{Every: 10 * time.Second, Stable: time.Second, Events: events})
			time.Sleep(5 * time.Second)
			test(w)
		})
	}
	run(nil, func(w *world) {
		w.require("created a:1")
		w.dir.put(2, "a") // modified: not asked for
		time.Sleep(time.Minute)
		w.require()
		w.dir.remove("a")
		time.Sleep(15 * time.Second)
		w.dir.put(2, "a")
		time.Sleep(15 * time.Second)
		w.require("created a:2")
		away := w.dir.remove("a")
		time.Sleep(15 * time.Second)
		w.dir.change(func(d *directory) { d.files["a"] = away }) // moved away and back: its time is as it was
		time.Sleep(15 * time.Second)
		w.require("created a:2")
	})
	run([]monitor.Event{monitor.Modified}, func(w *world) {
		w.require()
		w.dir.put(1, "a") // its time
		time.Sleep(15 * time.Second)
		w.require("modified a:1")
		w.dir.put(3, "b")
		time.Sleep(15 * time.Second)
		w.require()
		w.dir.remove("b")
		time.Sleep(15 * time.Second)
		w.dir.put(4, "b")
		time.Sleep(15 * time.Second)
		w.require("modified b:4")
	})
	run([]monitor.Event{monitor.Created, monitor.Modified}, func(w *world) {
		w.require("created a:1")
		w.dir.put(2, "a")
		time.Sleep(15 * time.Second)
		w.require("modified a:2")
	})
	run([]monitor.Event{monitor.Exists}, func(w *world) {
		w.require("exists a:1")
		time.Sleep(20 * time.Second)
		w.require("exists a:1", "exists a:1")
	})
}

// TestBatch hands all files that are ready over to one execution.
func TestBatch(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set(monitor.Monitor{Batch: true, Patterns: []string{"*.csv", "?.txt"}, Every: 10 * time.Second})
		w.dir.put(4, "b.csv", "a.csv", "x.txt", "xy.txt", "z.csv.tmp", ".csv")
		time.Sleep(time.Minute)
		w.require("created .csv:4, created a.csv:4, created b.csv:4, created x.txt:4")
		for i := range 1500 {
			w.dir.put(1, fmt.Sprintf("%04d.csv", i))
		}
		time.Sleep(time.Minute)
		var sizes []int
		for _, x := range w.executions() {
			sizes = append(sizes, strings.Count(string(x.Params), `"event"`))
		}
		if slices.Sort(sizes); !slices.Equal(sizes, []int{500, 1000}) {
			t.Errorf("executions got %v files", sizes)
		}
	})
}

// TestParams hands over what a job declares.
func TestParams(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set(monitor.Monitor{Every: 10 * time.Second, Params: map[string]any{"day": "monday"}, Priority: 7})
		w.dir.put(1, "a")
		time.Sleep(time.Minute)
		w.change(func() { w.declared = map[string]any{"files": nil, "day": nil} })
		w.dir.put(1, "b")
		time.Sleep(time.Minute)
		list := w.executions()
		if len(list) != 2 {
			t.Fatalf("%d executions", len(list))
		}
		for i, want := range []string{"day files", "day files monitor"} { // the last one first
			var params map[string]any
			if err := json.Unmarshal(list[i].Params, &params); err != nil {
				t.Fatal(err)
			}
			var names []string
			for name := range params {
				names = append(names, name)
			}
			if slices.Sort(names); strings.Join(names, " ") != want || params["day"] != "monday" {
				t.Errorf("params %s, want %s", list[i].Params, want)
			}
			if x := list[i]; x.By != "monitor:m" || x.Priority != 7 || !strings.HasPrefix(x.IdempotencyKey, "monitor:m:") {
				t.Errorf("execution %+v", x)
			}
		}
	})
}

// TestRefused refuses all executions for a time; files are handed over afterwards.
func TestRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set(monitor.Monitor{Every: 10 * time.Second})
		w.change(func() { w.refuses = courier.Errorf(courier.ErrInvalid, "params.files: unknown parameter") })
		w.dir.put(1, "a")
		time.Sleep(time.Minute)
		w.require()
		if m := w.get(); m.State != monitor.Degraded || m.Health.Problem != "1 file is ready and could not be handed over: params.files: unknown parameter" {
			t.Errorf("while it is refused: %+v", m)
		}
		w.dir.put(1, "b")
		time.Sleep(time.Minute)
		if m := w.get(); !strings.HasPrefix(m.Health.Problem, "2 files are ready and could not be handed over: ") {
			t.Errorf("while it is refused: %+v", m)
		}
		w.change(func() { w.refuses = nil })
		time.Sleep(time.Minute)
		w.require("created a:1", "created b:1")
		if m := w.get(); m.State != monitor.Active || m.Health.Problem != "" {
			t.Errorf("afterwards: %+v", m)
		}
		w.change(func() {
			if w.recorded < 10 {
				t.Errorf("%d polls were recorded", w.recorded)
			}
		})
	})
}

// TestFailures counts polls that fail, gives up in the end, and recovers.
func TestFailures(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx := t.Context()
		w.set(monitor.Monitor{Every: 10 * time.Second, MaxFailures: 3})
		time.Sleep(5 * time.Second)
		w.dir.fail(errors.New("connection refused with hunter-2"))
		time.Sleep(10 * time.Second)
		if m := w.get(); m.State != monitor.Degraded || m.Health.Failures != 1 || m.Health.Problem != "connection refused with [secret password]" {
			t.Errorf("after a failure: %+v", m)
		}
		w.dir.fail(nil)
		time.Sleep(10 * time.Second)
		if m := w.get(); m.State != monitor.Active || m.Health.Failures != 0 || m.Health.Problem != "" {
			t.Errorf("recovered: %+v", m)
		}
		w.dir.fail(errors.New("gone"))
		time.Sleep(time.Minute)
		m := w.get()
		if m.State != monitor.Failed || m.Health.Failures != 3 || !strings.Contains(m.Reason, "3 polls in a row") || !m.NextPoll.IsZero() {
			t.Errorf("after three failures: %+v", m)
		}
		listed := w.dir.listed()
		time.Sleep(time.Hour)
		if n := w.dir.listed(); n != listed {
			t.Errorf("%d polls in the state error", n-listed)
		}
		w.dir.fail(nil)
		w.dir.put(1, "a")
		if _, err := w.Enable(ctx, "m", courier.By{Actor: "ada"}); !errors.Is(err, courier.ErrConflict) {
			t.Errorf("enabled: %v", err)
		}
		if m, err := w.Acknowledge(ctx, "m", courier.By{Actor: "ada"}); err != nil || m.State != monitor.Active || m.Health.Failures != 0 {
			t.Errorf("acknowledged: %+v, %v", m, err)
		}
		time.Sleep(10 * time.Second)
		w.require("created a:1")
		w.dir.fail(courier.Errorf(courier.ErrLogin, "%w", errors.New("no such user")))
		time.Sleep(15 * time.Second)
		if m := w.get(); m.State != monitor.Failed || m.Health.Failures != 1 || m.Health.Problem != "no such user" {
			t.Errorf("after a refused login: %+v", m)
		}
		if log := w.log.String(); strings.Contains(log, "hunter-2") || strings.Count(log, "monitor has a problem") != 4 {
			t.Errorf("log:\n%s", log)
		}
	})
}

// TestStates pauses, disables and enables a monitor; files that come meanwhile are handed
// over afterwards.
func TestStates(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, ada := t.Context(), courier.By{Actor: "ada"}
		w.set(monitor.Monitor{Every: 10 * time.Second})
		time.Sleep(time.Second)
		must := func(m monitor.Monitor, err error) monitor.Monitor {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		if m := must(w.Pause(ctx, "m", ada)); m.State != monitor.Paused || m.Reason != "it was paused by ada" || !m.NextPoll.IsZero() {
			t.Errorf("paused: %+v", m)
		}
		w.dir.put(1, "a")
		listed := w.dir.listed()
		time.Sleep(time.Hour)
		if m := must(w.Disable(ctx, "m", courier.By{})); m.State != monitor.Disabled || !m.Disabled {
			t.Errorf("disabled: %+v", m)
		}
		if _, err := w.Pause(ctx, "m", ada); !errors.Is(err, courier.ErrConflict) {
			t.Errorf("paused while disabled: %v", err)
		}
		if m := w.set(monitor.Monitor{Every: 20 * time.Second}); m.State != monitor.Disabled {
			t.Errorf("setting it has enabled it: %+v", m)
		}
		time.Sleep(time.Hour)
		if n := w.dir.listed(); n != listed {
			t.Errorf("%d polls", n-listed)
		}
		must(w.Enable(ctx, "m", ada))
		time.Sleep(10 * time.Second)
		w.require("created a:1")
		if err := w.Remove(ctx, "m", courier.By{}); err != nil {
			t.Fatal(err)
		}
		w.set(monitor.Monitor{Every: 10 * time.Second})
		time.Sleep(time.Minute)
		w.require() // its key is used
		if f, err := w.Files(ctx, monitor.SeenFilter{Monitor: "m"}); err != nil || len(f) != 1 || f[0].Name != "a" || f[0].Execution == "" {
			t.Errorf("files %+v, %v", f, err)
		}
		for _, err := range []error{
			w.Remove(ctx, "n", ada), second(w.Get(ctx, "n")), second(w.Enable(ctx, "n", ada)), second(w.Pause(ctx, "n", ada)), second(w.Acknowledge(ctx, "n", ada)),
		} {
			if !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), `there is no monitor "n"`) {
				t.Errorf("of one that is not there: %v", err)
			}
		}
		want := "set m; paused m by ada; disabled m; set m; enabled m by ada; removed m; set m"
		if got := strings.Join(w.changes, "; "); got != want {
			t.Errorf("changes: %s\nwant: %s", got, want)
		}
	})
}

func second(_ monitor.Monitor, err error) error { return err }

// TestHostileNames leaves out what no store can keep, and says so.
func TestHostileNames(t *testing.T) {
	inWorld(t, func(w *world) {
		good := []string{"a\nb", "-rf", "$(reboot)", "..a", "' or 1=1", "é", "\u202e", strings.Repeat("x", 1000)}
		w.dir.put(1, good...)
		w.dir.put(1, "\xff", "a\x00b", "..", ".", "", "a/b", strings.Repeat("x", 1001), "my-hunter-2.csv")
		w.set(monitor.Monitor{Every: 10 * time.Second})
		time.Sleep(time.Minute)
		var want []string
		for _, name := range good {
			want = append(want, "created "+name+":1")
		}
		w.require(want...)
		m := w.get()
		if m.State != monitor.Degraded || m.Health.Refused != 8 || !strings.Contains(m.Health.Problem, "8 entries are left out") || m.Health.Files != len(good) || strings.Contains(m.Health.Problem, "hunter-2") {
			t.Errorf("health %+v", m)
		}
	})
	inWorld(t, func(w *world) {
		w.dir.put(1, "..", "a")
		w.set(monitor.Monitor{Every: 10 * time.Second})
		time.Sleep(time.Minute)
		if m := w.get(); !strings.HasPrefix(m.Health.Problem, "1 entry is left out, since its name can't be used: ") {
			t.Errorf("health %+v", m)
		}
	})
}

// TestBadListers survives listers that panic or hang.
func TestBadListers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set(monitor.Monitor{Every: 10 * time.Second, MaxFailures: 100})
		time.Sleep(time.Second)
		w.dir.change(func(d *directory) { d.slow = time.Hour })
		time.Sleep(75 * time.Second)
		if m := w.get(); m.Health.Failures != 1 || !strings.Contains(m.Health.Problem, "aborted after 1m0s") {
			t.Errorf("after a listing that hung: %+v", m)
		}
		begun := time.Now()
		w.stop() // in the middle of a listing
		if d := time.Since(begun); d > time.Second {
			t.Errorf("the stop took %v", d)
		}
		if m := w.get(); m.Health.Failures > 2 || m.State != monitor.Degraded {
			t.Errorf("the stop counts as a failure: %+v", m)
		}
		w.dir.change(func(d *directory) { d.slow, d.panic = 0, true })
		w.dir.put(1, "a")
		w.start()
		time.Sleep(30 * time.Second)
		if m := w.get(); !strings.Contains(m.Health.Problem, `the lister "file" panicked: oh`) {
			t.Errorf("after a panic: %+v", m)
		}
		w.dir.change(func(d *directory) { d.panic = false })
		time.Sleep(time.Minute)
		w.require("created a:1")
	})
}

// TestNoStore has a store that keeps no monitors.
func TestNoStore(t *testing.T) {
	v := monitor.New(monitor.Options{
		Store:   func() (monitor.Store, error) { return nil, errors.ErrUnsupported },
		Listers: map[string]courier.Lister{"file": new(directory)},
	})
	ctx, by := t.Context(), courier.By{}
	_, listed := v.List(ctx, monitor.Filter{})
	_, files := v.Files(ctx, monitor.SeenFilter{})
	for _, err := range []error{
		second(v.Set(ctx, monitor.Monitor{Name: "m", Job: "job", Path: "/in"}, by)), second(v.Get(ctx, "m")), listed, files,
		second(v.Enable(ctx, "m", by)), second(v.Disable(ctx, "m", by)), v.Remove(ctx, "m", by),
	} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("error %v", err)
		}
	}
	v.Run(ctx) // returns
}

// TestNoName checks that no method takes an empty name for that of the first monitor.
func TestNoName(t *testing.T) {
	w := newWorld(t)
	w.set(monitor.Monitor{})
	ctx, by := t.Context(), courier.By{}
	_, get := w.Get(ctx, "")
	_, pause := w.Pause(ctx, "", by)
	_, disable := w.Disable(ctx, "", by)
	_, enable := w.Enable(ctx, "", by)
	_, acknowledge := w.Acknowledge(ctx, "", by)
	for name, err := range map[string]error{
		"get": get, "pause": pause, "disable": disable, "enable": enable, "acknowledge": acknowledge, "remove": w.Remove(ctx, "", by),
	} {
		if !errors.Is(err, courier.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", name, err)
		}
	}
	if m := w.get(); m.State != monitor.Active {
		t.Errorf("the monitor is %s: %s", m.State, m.Reason)
	}
}
