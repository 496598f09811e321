package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// A shelf is a directory of a server that exists only in the test.
type shelf struct {
	mu    sync.Mutex
	files map[string]courier.ListedFile
	lists int
	slow  time.Duration // what a listing takes
	least time.Duration
	err   error // of listings
}

func (s *shelf) Check(t courier.Directory) error {
	if !strings.HasPrefix(t.Path, "/in") {
		return fmt.Errorf("path: %q is not below /in", t.Path)
	}
	return nil
}

func (s *shelf) Least() time.Duration { return s.least }

func (s *shelf) List(ctx context.Context, _ *courier.Context, t courier.Directory) (courier.Listing, error) {
	s.mu.Lock()
	s.lists++
	slow, err := s.slow, s.err
	var got courier.Listing
	for _, f := range s.files {
		f.Path = t.Path + "/" + f.Name
		got.Files = append(got.Files, f)
	}
	s.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		return courier.Listing{}, ctx.Err()
	}
	return got, err
}

// fail has listings fail; nil ends that.
func (s *shelf) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// touch gives a file a time.
func (s *shelf) touch(name string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[name]
	f.Modified = at
	s.files[name] = f
}

// put writes files, each with a size.
func (s *shelf) put(size int64, names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		s.files[name] = courier.ListedFile{Name: name, Size: size, Modified: time.Now()}
	}
}

func (s *shelf) looks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}

// A tower is some engines on one store that look at one shelf, with a job "job"
// that notes which files it gets.
type tower struct {
	t       *testing.T
	store   store.Store
	reg     *courier.Registry
	dir     string
	shelf   *shelf
	engines []*engine.Engine

	mu  sync.Mutex
	got []string // what each execution got, such as "created a:5, modified b:6"
}

// inTower runs a test in virtual time.
func inTower(t *testing.T, engines int, run func(*tower)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { run(newTower(t, memstore.New(), engines)) })
}

func newTower(t *testing.T, s store.Store, engines int) *tower {
	t.Helper()
	w := &tower{t: t, store: s, reg: new(courier.Registry), dir: t.TempDir(), shelf: &shelf{files: make(map[string]courier.ListedFile), least: time.Second}}
	type file struct {
		Name     string    `json:"name"`
		Path     string    `json:"path"`
		Size     int64     `json:"size"`
		Modified time.Time `json:"modified"`
		Event    string    `json:"event"`
	}
	type config struct {
		Files []file `json:"files"`
	}
	courier.RegisterFunc(w.reg, "demo.take", func(_ context.Context, _ *courier.Context, cfg config) (struct{}, error) {
		var all []string
		for _, f := range cfg.Files {
			if f.Path != "/in/"+f.Name || f.Modified.IsZero() {
				w.t.Errorf("got %+v", f)
			}
			all = append(all, fmt.Sprintf("%s %s:%d", f.Event, f.Name, f.Size))
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.got = append(w.got, strings.Join(all, ", "))
		return struct{}{}, nil
	}, nil)
	for i := range engines {
		w.engines = append(w.engines, w.engine(fmt.Sprint("w", i)))
	}
	if engines > 0 {
		w.define("job", "null")
	}
	return w
}

func (w *tower) engine(name string) *engine.Engine {
	return engine.New(w.store, w.reg, &engine.Options{
		Worker: name, Workspace: w.dir, Lease: time.Minute, Poll: time.Minute, Listers: map[string]courier.Lister{"file": w.shelf},
	})
}

func (w *tower) define(name, params string) {
	w.t.Helper()
	w.defineJob(fmt.Sprintf(`{"name": %q, "params": %s, "steps": [{"type": "demo.take", "config": {"files": "context:params.files"}}]}`, name, params))
}

func (w *tower) defineJob(text string) {
	w.t.Helper()
	var job courier.Job
	if err := job.UnmarshalJSON([]byte(text)); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.engines[0].Jobs().Define(w.t.Context(), job, nil); err != nil {
		w.t.Fatal(err)
	}
}

// set sets the monitor "m" of the directory /in.
func (w *tower) set(m monitor.Monitor) monitor.Monitor {
	w.t.Helper()
	m.Name, m.Path, m.Job = "m", "/in", "job"
	got, err := w.engines[0].Monitors().Set(w.t.Context(), m, courier.By{})
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

func (w *tower) monitor() monitor.Monitor {
	w.t.Helper()
	m, err := w.engines[0].Monitors().Get(w.t.Context(), "m")
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func (w *tower) start(i int) {
	w.t.Helper()
	if err := w.engines[i].Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *tower) stop(i int) {
	w.t.Helper()
	if err := w.engines[i].Stop(context.WithoutCancel(w.t.Context())); err != nil {
		w.t.Error(err)
	}
}

// require checks what executions have got since the last time, in any order.
func (w *tower) require(want ...string) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.got)
	slices.Sort(want)
	if !slices.Equal(w.got, want) {
		w.t.Errorf("executions got %q, want %q", w.got, want)
	}
	w.got = nil
}

// TestMonitorHandsOverOnce hands each file over once, to an execution of its
// own, and not again after a restart.
func TestMonitorHandsOverOnce(t *testing.T) {
	inTower(t, 1, func(w *tower) {
		w.shelf.put(3, "old")
		w.set(monitor.Monitor{Every: 10 * time.Second})
		w.start(0)
		time.Sleep(4 * time.Second)
		w.require() // not stable yet
		time.Sleep(2 * time.Second)
		w.require("created old:3")
		w.shelf.put(5, "a", "b")
		time.Sleep(time.Minute)
		w.require("created a:5", "created b:5")
		w.stop(0)
		w.shelf.put(6, "c")
		w.engines[0] = w.engine("again") // remembers nothing
		w.start(0)
		time.Sleep(time.Minute)
		w.require("created c:6")
		w.stop(0)
		list, err := w.engines[0].Executions().List(t.Context(), store.Filter{})
		if err != nil || len(list) != 4 {
			t.Fatalf("%d executions, %v", len(list), err)
		}
		if x := list[0]; x.By != "monitor:m" || !strings.HasPrefix(x.IdempotencyKey, "monitor:m:") {
			t.Errorf("execution by %q with key %q", x.By, x.IdempotencyKey)
		}
		h := w.monitor().Health
		if h.Triggered != 4 || h.LastExecution != list[0].ID || h.Files != 4 || h.Waiting != 0 || h.LastTriggered.IsZero() || h.LastPoll.IsZero() {
			t.Errorf("health %+v", h)
		}
	})
}

// TestMonitorOfTwoEngines lets engines come and go while files arrive.
func TestMonitorOfTwoEngines(t *testing.T) {
	inTower(t, 3, func(w *tower) {
		w.shelf.slow = 300 * time.Millisecond
		w.set(monitor.Monitor{Every: time.Second, Stable: time.Second})
		var want []string
		w.start(0)
		files := raced.Or(60, 21)
		for i := range files {
			name := fmt.Sprintf("f%02d", i)
			w.shelf.put(int64(i), name)
			want = append(want, fmt.Sprintf("created %s:%d", name, i))
			time.Sleep(time.Second)
			w.start((i + 1) % 3)
			time.Sleep(time.Duration(i*37%1000) * time.Millisecond)
			w.stop(i % 3)
		}
		time.Sleep(time.Minute)
		w.require(want...)
		w.stop(files % 3)
	})
}

// TestMonitorWithoutItsJob hands files over when the job takes them again.
func TestMonitorWithoutItsJob(t *testing.T) {
	inTower(t, 1, func(w *tower) {
		w.set(monitor.Monitor{Every: 10 * time.Second})
		w.defineJob(`{"name": "job", "params": {"other": 1}, "steps": [{"type": "demo.take"}]}`)
		w.shelf.put(1, "a")
		w.start(0)
		time.Sleep(time.Minute)
		w.require()
		if m := w.monitor(); m.State != monitor.Degraded || !strings.Contains(m.Health.Problem, "1 file is ready and could not be handed over") {
			t.Errorf("monitor %+v", m)
		}
		w.define("job", `{"files": null, "monitor": null}`)
		time.Sleep(time.Minute)
		w.require("created a:1")
		if m := w.monitor(); m.State != monitor.Active || m.Health.Problem != "" {
			t.Errorf("monitor %+v", m)
		}
		w.stop(0)
	})
}
