package engine_test

import (
	"context"
	"errors"
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
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// A shelf is a directory of a server that exists only in the test.
type shelf struct {
	mu    sync.Mutex
	files map[string]courier.ListedFile
	err   error
	lists int
	slow  time.Duration // what a listing takes
	least time.Duration
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

// put writes files, each with a size.
func (s *shelf) put(size int64, names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		s.files[name] = courier.ListedFile{Name: name, Size: size, Modified: time.Now()}
	}
}

func (s *shelf) remove(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		delete(s.files, name)
	}
}

func (s *shelf) file(name string) courier.ListedFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[name]
}

// restore puts a file back as it was.
func (s *shelf) restore(f courier.ListedFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[f.Name] = f
}

func (s *shelf) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
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
func (w *tower) set(m courier.Monitor) courier.Monitor {
	w.t.Helper()
	m.Name, m.Path, m.Job = "m", "/in", "job"
	got, err := w.engines[0].Monitors().Set(w.t.Context(), m, courier.By{})
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

func (w *tower) monitor() courier.Monitor {
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
		w.set(courier.Monitor{Every: 10 * time.Second})
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
		w.set(courier.Monitor{Every: time.Second, Stable: time.Second})
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

// TestMonitorWaitsForGrowingFiles hands a file over when its size has not
// changed for the time that is asked for, with the size that it has then.
func TestMonitorWaitsForGrowingFiles(t *testing.T) {
	inTower(t, 1, func(w *tower) {
		w.set(courier.Monitor{Every: 2 * time.Second, Stable: 10 * time.Second})
		w.start(0)
		for i := range 12 {
			w.shelf.put(int64(i+1), "big")
			time.Sleep(5 * time.Second)
		}
		w.require()
		if h := w.monitor().Health; h.Waiting != 1 || h.Files != 1 {
			t.Errorf("health %+v", h)
		}
		time.Sleep(10 * time.Second)
		w.require("created big:12")
		w.stop(0)
	})
}

// TestMonitorDoneFile waits for the file that says that another is complete.
func TestMonitorDoneFile(t *testing.T) {
	inTower(t, 1, func(w *tower) {
		w.set(courier.Monitor{Every: 5 * time.Second, DoneFile: ".done"})
		w.start(0)
		w.shelf.put(1, "a", "b")
		time.Sleep(time.Minute)
		w.require()
		w.shelf.put(7, "a")
		w.shelf.put(0, "a.done")
		time.Sleep(time.Minute)
		w.require("created a:7")
		w.stop(0)
	})
}

// TestMonitorEvents hands files over that came back, changed, or are just there.
func TestMonitorEvents(t *testing.T) {
	run := func(events []courier.MonitorEvent, test func(w *tower)) {
		inTower(t, 1, func(w *tower) {
			w.shelf.put(1, "a")
			w.set(courier.Monitor{Every: 10 * time.Second, Stable: time.Second, Events: events})
			w.start(0)
			time.Sleep(5 * time.Second)
			test(w)
			w.stop(0)
		})
	}
	run(nil, func(w *tower) {
		w.require("created a:1")
		w.shelf.put(2, "a") // modified: not asked for
		time.Sleep(time.Minute)
		w.require()
		w.shelf.remove("a")
		time.Sleep(15 * time.Second)
		w.shelf.put(2, "a")
		time.Sleep(15 * time.Second)
		w.require("created a:2")
		away := w.shelf.file("a")
		w.shelf.remove("a")
		time.Sleep(15 * time.Second)
		w.shelf.restore(away) // moved away and back: its time is as it was
		time.Sleep(15 * time.Second)
		w.require("created a:2")
	})
	run([]courier.MonitorEvent{courier.FileModified}, func(w *tower) {
		w.require()
		w.shelf.put(1, "a") // its time
		time.Sleep(15 * time.Second)
		w.require("modified a:1")
		w.shelf.put(3, "b")
		time.Sleep(15 * time.Second)
		w.require()
		w.shelf.remove("b")
		time.Sleep(15 * time.Second)
		w.shelf.put(4, "b")
		time.Sleep(15 * time.Second)
		w.require("modified b:4")
	})
	run([]courier.MonitorEvent{courier.FileCreated, courier.FileModified}, func(w *tower) {
		w.require("created a:1")
		w.shelf.put(2, "a")
		time.Sleep(15 * time.Second)
		w.require("modified a:2")
	})
	run([]courier.MonitorEvent{courier.FileExists}, func(w *tower) {
		w.require("exists a:1")
		time.Sleep(20 * time.Second)
		w.require("exists a:1", "exists a:1")
	})
}

// TestMonitorBatch hands all files that are ready over to one execution.
func TestMonitorBatch(t *testing.T) {
	inTower(t, 1, func(w *tower) {
		w.set(courier.Monitor{Batch: true, Patterns: []string{"*.csv", "?.txt"}, Every: 10 * time.Second})
		w.shelf.put(4, "b.csv", "a.csv", "x.txt", "xy.txt", "z.csv.tmp", ".csv")
		w.start(0)
		time.Sleep(time.Minute)
		w.require("created .csv:4, created a.csv:4, created b.csv:4, created x.txt:4")
		for i := range 1500 {
			w.shelf.put(1, fmt.Sprintf("%04d.csv", i))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		w.mu.Lock()
		var sizes []int
		for _, got := range w.got {
			sizes = append(sizes, strings.Count(got, "created"))
		}
		w.mu.Unlock()
		if !slices.Equal(sizes, []int{1000, 500}) {
			t.Errorf("executions got %v files", sizes)
		}
		w.stop(0)
	})
}

// TestMonitorFailures counts looks that fail, gives up in the end, and recovers.
func TestMonitorFailures(t *testing.T) {
	inTower(t, 1, func(w *tower) {
		ctx, e := t.Context(), w.engines[0]
		w.set(courier.Monitor{Every: 10 * time.Second, MaxFailures: 3})
		w.start(0)
		time.Sleep(5 * time.Second)
		w.shelf.fail(errors.New("connection refused"))
		time.Sleep(10 * time.Second)
		if m := w.monitor(); m.State != courier.MonitorDegraded || m.Health.Failures != 1 || m.Health.Problem != "connection refused" {
			t.Errorf("after a failure: %+v", m)
		}
		w.shelf.fail(nil)
		time.Sleep(10 * time.Second)
		if m := w.monitor(); m.State != courier.MonitorActive || m.Health.Failures != 0 || m.Health.Problem != "" {
			t.Errorf("recovered: %+v", m)
		}
		w.shelf.fail(errors.New("gone"))
		time.Sleep(time.Minute)
		m := w.monitor()
		if m.State != courier.MonitorFailed || m.Health.Failures != 3 || !strings.Contains(m.Reason, "3 looks in a row") || !m.NextPoll.IsZero() {
			t.Errorf("after three failures: %+v", m)
		}
		looks := w.shelf.looks()
		time.Sleep(time.Hour)
		if n := w.shelf.looks(); n != looks {
			t.Errorf("%d looks in the state error", n-looks)
		}
		w.shelf.fail(nil)
		w.shelf.put(1, "a")
		if _, err := e.Monitors().Enable(ctx, "m", courier.By{Actor: "ada"}); !errors.Is(err, courier.ErrConflict) {
			t.Errorf("enabled: %v", err)
		}
		if m, err := e.Monitors().Acknowledge(ctx, "m", courier.By{Actor: "ada"}); err != nil || m.State != courier.MonitorActive || m.Health.Failures != 0 {
			t.Errorf("acknowledged: %+v, %v", m, err)
		}
		time.Sleep(10 * time.Second)
		w.require("created a:1")
		w.shelf.fail(courier.Errorf(courier.ErrLogin, "%w", errors.New("no such user")))
		time.Sleep(15 * time.Second)
		if m := w.monitor(); m.State != courier.MonitorFailed || m.Health.Failures != 1 || m.Health.Problem != "no such user" {
			t.Errorf("after a refused login: %+v", m)
		}
		w.stop(0)
	})
}

// TestMonitorStates pauses, disables and enables a monitor; files that come
// meanwhile are handed over afterwards.
func TestMonitorStates(t *testing.T) {
	inTower(t, 1, func(w *tower) {
		ctx, e := t.Context(), w.engines[0]
		w.set(courier.Monitor{Every: 10 * time.Second})
		w.start(0)
		time.Sleep(time.Second)
		must := func(m courier.Monitor, err error) courier.Monitor {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		if m := must(e.Monitors().Pause(ctx, "m", courier.By{Actor: "ada"})); m.State != courier.MonitorPaused || m.Reason != "it was paused by ada" || !m.NextPoll.IsZero() {
			t.Errorf("paused: %+v", m)
		}
		w.shelf.put(1, "a")
		looks := w.shelf.looks()
		time.Sleep(time.Hour)
		if m := must(e.Monitors().Disable(ctx, "m", courier.By{})); m.State != courier.MonitorDisabled || !m.Disabled {
			t.Errorf("disabled: %+v", m)
		}
		if _, err := e.Monitors().Pause(ctx, "m", courier.By{}); !errors.Is(err, courier.ErrConflict) {
			t.Errorf("paused while disabled: %v", err)
		}
		if m := w.set(courier.Monitor{Every: 20 * time.Second}); m.State != courier.MonitorDisabled {
			t.Errorf("setting it has enabled it: %+v", m)
		}
		time.Sleep(time.Hour)
		if n := w.shelf.looks(); n != looks {
			t.Errorf("%d looks", n-looks)
		}
		must(e.Monitors().Enable(ctx, "m", courier.By{}))
		time.Sleep(10 * time.Second)
		w.require("created a:1")
		if err := e.Monitors().Remove(ctx, "m", courier.By{}); err != nil {
			t.Fatal(err)
		}
		w.set(courier.Monitor{Every: 10 * time.Second})
		time.Sleep(time.Minute)
		w.require() // its key is used
		if f, err := e.Monitors().Files(ctx, store.SeenFilter{Monitor: "m"}); err != nil || len(f) != 1 || f[0].Name != "a" || f[0].Execution == "" {
			t.Errorf("files %+v, %v", f, err)
		}
		if err := e.Monitors().Remove(ctx, "n", courier.By{}); !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), `did you mean "m"?`) && !strings.Contains(err.Error(), "known are") {
			t.Errorf("removed: %v", err)
		}
		w.stop(0)
	})
}

// TestMonitorHostileNames leaves out what no store can keep, and says so.
func TestMonitorHostileNames(t *testing.T) {
	inTower(t, 1, func(w *tower) {
		good := []string{"a\nb", "-rf", "$(reboot)", "..a", "' or 1=1", "é", "\u202e", strings.Repeat("x", 1000)}
		w.shelf.put(1, good...)
		w.shelf.put(1, "\xff", "a\x00b", "..", ".", "", "a/b", strings.Repeat("x", 1001))
		w.set(courier.Monitor{Every: 10 * time.Second})
		w.start(0)
		time.Sleep(time.Minute)
		var want []string
		for _, name := range good {
			want = append(want, "created "+name+":1")
		}
		w.require(want...)
		m := w.monitor()
		if m.State != courier.MonitorDegraded || m.Health.Refused != 7 || !strings.Contains(m.Health.Problem, "7 entries are left out") || m.Health.Files != len(good) {
			t.Errorf("health %+v", m)
		}
		w.stop(0)
	})
	inTower(t, 1, func(w *tower) {
		w.shelf.put(1, "..", "a")
		w.set(courier.Monitor{Every: 10 * time.Second})
		w.start(0)
		time.Sleep(time.Minute)
		if m := w.monitor(); !strings.HasPrefix(m.Health.Problem, "1 entry is left out, since its name can't be used: ") {
			t.Errorf("health %+v", m)
		}
		w.stop(0)
	})
}

// TestMonitorWithoutItsJob hands files over when the job takes them again.
func TestMonitorWithoutItsJob(t *testing.T) {
	inTower(t, 1, func(w *tower) {
		w.set(courier.Monitor{Every: 10 * time.Second})
		w.defineJob(`{"name": "job", "params": {"other": 1}, "steps": [{"type": "demo.take"}]}`)
		w.shelf.put(1, "a")
		w.start(0)
		time.Sleep(time.Minute)
		w.require()
		if m := w.monitor(); m.State != courier.MonitorDegraded || !strings.Contains(m.Health.Problem, "1 file is ready and could not be handed over") {
			t.Errorf("monitor %+v", m)
		}
		w.define("job", `{"files": null, "monitor": null}`)
		time.Sleep(time.Minute)
		w.require("created a:1")
		if m := w.monitor(); m.State != courier.MonitorActive || m.Health.Problem != "" {
			t.Errorf("monitor %+v", m)
		}
		w.stop(0)
	})
}
