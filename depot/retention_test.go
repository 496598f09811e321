package depot_test

import (
	"context"
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
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/lockedbuffer"
)

var _ depot.Executions = engine.Executions{}

// records are executions as a store has them.
type records struct {
	mu  sync.Mutex
	all map[courier.ExecutionID]courier.Execution
	err error
	got int // calls
}

func (r *records) Get(_ context.Context, id courier.ExecutionID) (courier.Execution, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got++
	if r.err != nil {
		return courier.Execution{}, r.err
	}
	x, ok := r.all[id]
	if !ok {
		return x, courier.Errorf(courier.ErrNotFound, "there is no execution %s", id)
	}
	return x, nil
}

// set puts an execution into a state, now.
func (r *records) set(id courier.ExecutionID, job string, s courier.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = make(map[courier.ExecutionID]courier.Execution)
	}
	x := r.all[id]
	x.ID, x.Job, x.State, x.EndedAt = id, job, s, time.Time{}
	x.Seq++
	if s.Ended() {
		x.EndedAt = time.Now()
	}
	r.all[id] = x
}

func (r *records) forget(id courier.ExecutionID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, id)
}

// A room is a depot with a cleaner, in virtual time.
type room struct {
	*testing.T
	depot.Depot
	records
	log lockedbuffer.Buffer
	opt depot.Retention
}

func logger(b *lockedbuffer.Buffer) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// eachDepot runs a test in virtual time on the depot in a directory and on that in memory.
func eachDepot(t *testing.T, test func(r *room)) {
	for name, open := range map[string]func(t *testing.T) depot.Depot{
		"directory": func(t *testing.T) depot.Depot { return openDir(t, 0) },
		"memory":    func(*testing.T) depot.Depot { return new(couriertest.Depot) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &room{T: t, Depot: open(t)}
				r.opt.Log = logger(&r.log)
				test(r)
			})
		})
	}
}

func (r *room) put(key, content string) {
	r.Helper()
	p, err := r.Create(r.Context(), key)
	must(r, err)
	defer p.Close()
	_, err = p.Write([]byte(content))
	must(r, err)
	_, err = p.Commit()
	must(r, err)
}

// start begins to clean until the test ends.
func (r *room) start() {
	ctx, stop := context.WithCancel(r.Context())
	done := make(chan error)
	go func() { done <- depot.Clean(ctx, r, &r.records, &r.opt) }()
	r.Cleanup(func() {
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			r.Errorf("Clean returned %v", err)
		}
	})
	synctest.Wait()
}

// later lets time pass.
func (r *room) later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// has checks which keys are there.
func (r *room) has(when string, want ...string) {
	r.Helper()
	all, err := r.List(r.Context(), "")
	must(r, err)
	var got []string
	for _, info := range all {
		got = append(got, info.Key)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.Errorf("%s: there are %q, want %q", when, got, want)
	}
}

// TestClean: files are kept as long as the state of their execution says, and not longer.
func TestClean(t *testing.T) {
	const hour, day = time.Hour, 24 * time.Hour
	for _, c := range []struct {
		name string
		job  string
		path []courier.State
		opt  depot.Retention
		keep time.Duration // after the last state; 0 is for ever
	}{
		{"completed", "a", []courier.State{courier.Completed}, depot.Retention{}, 48 * hour},
		{"cancelled", "a", []courier.State{courier.Cancelled}, depot.Retention{}, 48 * hour},
		{"failed", "a", []courier.State{courier.Failed}, depot.Retention{}, 30 * day},
		{"created", "a", []courier.State{courier.Created}, depot.Retention{Keep: 1, KeepFailed: 1}, 0},
		{"queued", "a", []courier.State{courier.Queued}, depot.Retention{Keep: 1, KeepFailed: 1}, 0},
		{"running", "a", []courier.State{courier.Running}, depot.Retention{Keep: 1, KeepFailed: 1}, 0},
		{"paused", "a", []courier.State{courier.Paused}, depot.Retention{Keep: 1, KeepFailed: 1}, 0},
		{"failed, then resumed", "a", []courier.State{courier.Failed, courier.Queued, courier.Running}, depot.Retention{}, 0},
		{"failed, then completed", "a", []courier.State{courier.Failed, courier.Running, courier.Completed}, depot.Retention{}, 48 * hour},
		{"failed, then cancelled", "a", []courier.State{courier.Failed, courier.Cancelled}, depot.Retention{}, 48 * hour},
		{"options", "a", []courier.State{courier.Completed}, depot.Retention{Keep: 5 * hour}, 5 * hour},
		{"options for failed ones", "a", []courier.State{courier.Failed}, depot.Retention{Keep: 1, KeepFailed: 5 * hour}, 5 * hour},
		{"a job's own", "b", []courier.State{courier.Completed}, depot.Retention{Jobs: map[string]time.Duration{"b": 3 * hour}}, 3 * hour},
		{"another job's", "a", []courier.State{courier.Completed}, depot.Retention{Jobs: map[string]time.Duration{"b": 3 * hour}}, 48 * hour},
		{"for ever", "a", []courier.State{courier.Completed}, depot.Retention{Keep: -1}, 0},
		{"failed for ever", "a", []courier.State{courier.Failed}, depot.Retention{Keep: 1, KeepFailed: -1}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachDepot(t, func(r *room) {
				c.opt.Log, c.opt.Every = r.opt.Log, 30*time.Minute
				r.opt = c.opt
				files := []string{depot.InputKey(running, "a"), depot.ResultKey(running, "d/b")}
				for _, key := range files {
					r.put(key, "content")
				}
				r.set(running, c.job, courier.Queued)
				r.start()
				for _, s := range c.path {
					r.later(3 * hour)
					r.set(running, c.job, s)
				}
				x := r.all[running]
				until := depot.Until(x, &c.opt)
				if c.keep == 0 {
					r.later(40 * day)
					r.has("for ever", files...)
					if !until.IsZero() {
						r.Errorf("Until is %v", until)
					}
					return
				}
				if want := x.EndedAt.Add(c.keep); !until.Equal(want) {
					r.Errorf("Until is %v, want %v", until, want)
				}
				r.later(c.keep - time.Second)
				r.has("before", files...)
				r.later(30*time.Minute + time.Hour) // it may have been looked at an hour ago
				r.has("after", depot.RemovedKey(running))
				at, removed, err := depot.Removed(r.Context(), r, running)
				if err != nil || !removed || at.Before(until) || at.After(until.Add(time.Hour+30*time.Minute)) {
					r.Errorf("removed: %v, %v, %v; want an instant after %v", at, removed, err, until)
				}
				if log := r.log.String(); strings.Count(log, "removed the files") != 1 || !strings.Contains(log, "bytes=14") {
					r.Errorf("the log is %s", log)
				}
				r.later(10 * day)
				r.has("the mark stays", depot.RemovedKey(running))
				r.forget(running)
				r.later(2 * day)
				r.has("until the record is gone")
			})
		})
	}
}

// TestMarkEnds: a mark is removed after a year even if the record stays.
func TestMarkEnds(t *testing.T) {
	eachDepot(t, func(r *room) {
		r.opt.Every = 6 * time.Hour
		r.put(depot.InputKey(running, "a"), "a")
		r.set(running, "a", courier.Completed)
		r.start()
		r.later(360 * 24 * time.Hour)
		r.has("before a year", depot.RemovedKey(running))
		r.later(10 * 24 * time.Hour)
		r.has("after a year")
	})
}

// TestUnknown: files without an execution are removed a day after the last of them came.
func TestUnknown(t *testing.T) {
	eachDepot(t, func(r *room) {
		r.start()
		r.put(depot.InputKey(running, "a"), "a")
		r.later(20 * time.Hour)
		r.put(depot.InputKey(running, "b"), "b")
		r.put(depot.InputKey("late", "a"), "a")
		r.later(23 * time.Hour)
		r.has("23 hours after the last", depot.InputKey(running, "a"), depot.InputKey(running, "b"), depot.InputKey("late", "a"))
		r.set("late", "a", courier.Queued)
		r.later(3 * time.Hour)
		r.has("a day after the last", depot.RemovedKey(running), depot.InputKey("late", "a"))
		r.later(26 * time.Hour)
		r.has("the next day", depot.InputKey("late", "a"))
	})
}

// TestMost: above the size, the files of executions that ended first are removed, and
// never those that somebody may need.
func TestMost(t *testing.T) {
	eachDepot(t, func(r *room) {
		r.opt.Most = 59_000
		large := strings.Repeat("x", 20_000)
		states := []courier.State{courier.Failed, courier.Running, courier.Completed, courier.Completed, courier.Cancelled}
		key := func(i int) string { return depot.InputKey(courier.ExecutionID(fmt.Sprint("x", i)), "a") }
		mark := func(i int) string { return depot.RemovedKey(courier.ExecutionID(fmt.Sprint("x", i))) }
		for i, s := range states {
			r.put(key(i), large)
			r.set(courier.ExecutionID(fmt.Sprint("x", i)), "a", s)
			time.Sleep(time.Second)
		}
		r.start()
		r.has("of five", key(0), key(1), mark(2), mark(3), mark(4))
		r.put(key(5), large)
		r.set("x5", "a", courier.Paused)
		r.later(10 * time.Minute)
		r.has("too much that is needed", key(0), key(1), key(5), mark(2), mark(3), mark(4))
		if log := r.log.String(); strings.Count(log, "raise Most in depot.Retention") != 1 {
			r.Errorf("the log has it not once: %s", log)
		}
		r.set("x5", "a", courier.Completed)
		r.later(time.Minute)
		r.has("at last", key(0), key(1), mark(2), mark(3), mark(4), mark(5))
	})
}

// TestMostOfOne: who has the most bytes makes room, and the files of others who have less stay,
// though they ended before.
func TestMostOfOne(t *testing.T) {
	eachDepot(t, func(r *room) {
		r.opt.Most = 125_000
		large := strings.Repeat("x", 20_000)
		key := func(i int) string { return depot.ResultKey(courier.ExecutionID(fmt.Sprint("x", i)), "a") }
		var want []string
		for i := range 10 {
			id, by := courier.ExecutionID(fmt.Sprint("x", i)), "ann"
			if i < 2 {
				by = "ben"
			}
			r.put(key(i), large)
			r.set(id, "a", courier.Completed)
			x := r.all[id]
			x.Labels = map[string]string{"by": by}
			r.all[id] = x
			time.Sleep(time.Second)
			if i < 2 {
				want = append(want, key(i))
			}
		}
		r.start()
		all, err := r.List(r.Context(), "x0")
		others, err2 := r.List(r.Context(), "x1")
		if err != nil || err2 != nil || len(all) != 1 || all[0].Key != want[0] || len(others) != 1 || others[0].Key != want[1] {
			r.Errorf("of who has little there are %v and %v", all, others)
		}
		if all, err := r.List(r.Context(), "x2"); err != nil || len(all) != 1 || all[0].Key != depot.RemovedKey("x2") {
			r.Errorf("of who has much there is %v, %v", all, err)
		}
	})
}

// TestFewLooks: a depot with many executions is not asked about each of them each minute.
func TestFewLooks(t *testing.T) {
	eachDepot(t, func(r *room) {
		const n = 20
		for i := range n {
			id := courier.ExecutionID(fmt.Sprint("x", i))
			r.put(depot.InputKey(id, "a"), "a")
			r.set(id, "a", courier.Completed)
		}
		r.start()
		r.later(24*time.Hour + time.Second)
		if r.got > n*26 {
			r.Errorf("there were %d calls in a day for %d executions", r.got, n)
		}
	})
}

// TestErrors: what can't be done is logged once and done later.
func TestErrors(t *testing.T) {
	eachDepot(t, func(r *room) {
		r.put(depot.InputKey(running, "a"), "a")
		r.set(running, "a", courier.Completed)
		r.err = errors.New("the store is away")
		r.start()
		r.later(60 * time.Hour)
		r.has("while the store is away", depot.InputKey(running, "a"))
		if log := r.log.String(); strings.Count(log, "the store is away") != 1 {
			r.Errorf("the log has it not once: %s", log)
		}
		r.mu.Lock()
		r.err = nil
		r.mu.Unlock()
		r.later(time.Minute)
		r.has("when it is back", depot.RemovedKey(running))
	})
}

// TestClockPutBack: instants that lie ahead remove nothing, and do not end the looks.
func TestClockPutBack(t *testing.T) {
	eachDepot(t, func(r *room) {
		r.put(depot.InputKey(running, "a"), "a")
		r.put(depot.InputKey("unknown", "a"), "a")
		r.set(running, "a", courier.Completed)
		x := r.all[running]
		x.EndedAt = time.Now().Add(100 * time.Hour) // before the clock was put back
		r.all[running] = x
		r.start()
		r.later(20 * time.Hour)
		r.has("at first", depot.InputKey(running, "a"), depot.InputKey("unknown", "a"))
		r.later(128*time.Hour + time.Minute)
		r.has("in the end", depot.RemovedKey(running))
	})
}

// meddling is a depot in which something happens before an operation.
type meddling struct {
	depot.Depot
	before func(op, key string)
}

func (m meddling) Create(ctx context.Context, key string) (depot.Pending, error) {
	m.before("create", key)
	return m.Depot.Create(ctx, key)
}

func (m meddling) Remove(ctx context.Context, prefix string) error {
	m.before("remove", prefix)
	return m.Depot.Remove(ctx, prefix)
}

// fetch executes depot.fetch.
func fetch(t testing.TB, d depot.Depot) (depot.FetchOutput, error) {
	job := courier.NewContext(courier.ContextConfig{Execution: running, Workspace: t.TempDir(), Step: 1, Attempt: 1})
	defer job.Close()
	return depot.Fetch{Depot: d}.Execute(t.Context(), job, depot.FetchConfig{})
}

// TestResumedWhileRemoved: an execution that is resumed while its files are about to be
// removed keeps all of them, or is told that they are gone; it never sees some of them.
func TestResumedWhileRemoved(t *testing.T) {
	for _, c := range []struct {
		name, op, key string
		whole         bool
	}{
		{"before the mark", "create", depot.RemovedKey(running), true},
		{"after the second look", "remove", depot.InputKey(running, ""), false},
		{"between inputs and results", "remove", depot.ResultKey(running, ""), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachDepot(t, func(r *room) {
				r.opt.Keep, r.opt.KeepFailed = time.Hour, time.Hour
				r.put(depot.InputKey(running, "a"), "a")
				r.put(depot.InputKey(running, "b"), "b")
				r.put(depot.ResultKey(running, "c"), "c")
				r.set(running, "a", courier.Failed)
				time.Sleep(2 * time.Hour)
				var out depot.FetchOutput
				var err error
				var wg sync.WaitGroup
				cleaned := meddling{r.Depot, func(op, key string) {
					if op == c.op && key == c.key {
						r.set(running, "a", courier.Running)
						wg.Go(func() { out, err = fetch(r, r.Depot) })
						time.Sleep(time.Second)
					}
				}}
				must(r, depot.CleanOnce(r.Context(), cleaned, &r.records, &r.opt))
				wg.Wait()
				if c.whole {
					if err != nil || out.FileCount != 2 {
						r.Errorf("fetch: %+v, %v", out, err)
					}
					r.has("resumed in time", depot.InputKey(running, "a"), depot.InputKey(running, "b"), depot.ResultKey(running, "c"))
					return
				}
				var gone *depot.RemovedError
				if !errors.As(err, &gone) || gone.Execution != running || !courier.IsPermanent(err) || !errors.Is(err, courier.ErrNotFound) {
					r.Errorf("fetch: %+v, %v; want a RemovedError", out, err)
				}
				r.has("resumed too late", depot.RemovedKey(running))
			})
		})
	}
	t.Run("after the mark", func(t *testing.T) {
		// fetch finds the mark, waits, and goes on when the cleaner has taken it away.
		eachDepot(t, func(r *room) {
			r.put(depot.InputKey(running, "a"), "a")
			r.put(depot.RemovedKey(running), "")
			r.set(running, "a", courier.Running)
			go func() {
				time.Sleep(time.Second)
				must(r, r.Remove(context.Background(), depot.RemovedKey(running)))
			}()
			if out, err := fetch(r, r.Depot); err != nil || out.FileCount != 1 {
				r.Errorf("fetch: %+v, %v", out, err)
			}
		})
	})
}

// TestDeadCleaner: what a cleaner that died has left undone is done by the next one, and a
// mark that it made for an execution that runs is taken away.
func TestDeadCleaner(t *testing.T) {
	eachDepot(t, func(r *room) {
		r.put(depot.InputKey("x1", "a"), "a")
		r.put(depot.RemovedKey("x1"), "")
		r.set("x1", "a", courier.Completed)
		r.put(depot.InputKey("x2", "a"), "a")
		r.put(depot.RemovedKey("x2"), "")
		r.set("x2", "a", courier.Running)
		r.put(depot.RemovedKey("x3"), "") // its files are gone
		r.set("x3", "a", courier.Running)
		r.start()
		r.later(30 * time.Minute)
		r.has("after a time", depot.RemovedKey("x1"), depot.InputKey("x2", "a"), depot.RemovedKey("x3"))
	})
}

// TestTwoCleaners: several cleaners on one depot do what one does.
func TestTwoCleaners(t *testing.T) {
	eachDepot(t, func(r *room) {
		for i := range 10 {
			id := courier.ExecutionID(fmt.Sprint("x", i))
			r.put(depot.InputKey(id, "a"), "a")
			r.put(depot.ResultKey(id, "a"), "a")
			r.set(id, "a", courier.Completed)
		}
		r.opt.Every = 10 * time.Minute
		for range 3 {
			r.start()
		}
		r.later(50 * time.Hour)
		var want []string
		for i := range 10 {
			want = append(want, depot.RemovedKey(courier.ExecutionID(fmt.Sprint("x", i))))
		}
		r.has("in the end", want...)
		if log := r.log.String(); strings.Contains(log, "ERROR") {
			r.Errorf("the log is %s", log)
		}
	})
}

// fullDisk is a depot that takes no mark while files of the execution are there.
type fullDisk struct{ depot.Depot }

func (f fullDisk) Create(ctx context.Context, key string) (depot.Pending, error) {
	if all, _ := f.List(ctx, running); len(all) > 0 {
		return nil, courier.Errorf(depot.ErrFull, "full")
	}
	return f.Depot.Create(ctx, key)
}

// TestCleanFullDisk: on a disk without room for a mark, files of completed executions go
// before there is one.
func TestCleanFullDisk(t *testing.T) {
	eachDepot(t, func(r *room) {
		r.put(depot.InputKey(running, "a"), "a")
		r.set(running, "a", courier.Completed)
		time.Sleep(50 * time.Hour)
		must(r, depot.CleanOnce(r.Context(), fullDisk{r.Depot}, &r.records, &r.opt))
		r.has("after the look", depot.RemovedKey(running))
	})
}

// TestBadRetention: all that is wrong is said at once.
func TestBadRetention(t *testing.T) {
	err := depot.Clean(t.Context(), new(couriertest.Depot), &records{}, &depot.Retention{Most: -1, Every: -1})
	if !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), "Most") || !strings.Contains(err.Error(), "Every") {
		t.Errorf("Clean: %v", err)
	}
	if _, err := depot.Dir("", nil); !errors.Is(err, courier.ErrInvalid) {
		t.Errorf("Dir without a path: %v", err)
	}
	if _, err := depot.Dir(t.TempDir(), &depot.DirOptions{Most: -1}); !errors.Is(err, courier.ErrInvalid) {
		t.Errorf("Dir with a negative limit: %v", err)
	}
}
