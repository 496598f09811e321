package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storewrap"
)

// A fleet is some engines on one store, and a job that they all know.
type fleet struct {
	t       *testing.T
	store   store.Store
	reg     *courier.Registry
	dir     string
	engines []*engine.Engine
	// work is what the job's step does; nil means nothing.
	work func(ctx context.Context, job *courier.Context) error
}

// newFleet defines the job "job" and makes engines, which it does not start.
func newFleet(t *testing.T, s store.Store, n int) *fleet {
	t.Helper()
	f := &fleet{t: t, store: s, reg: new(courier.Registry), dir: t.TempDir()}
	courier.RegisterFunc(f.reg, "demo.work", func(ctx context.Context, job *courier.Context, _ struct{}) (struct{}, error) {
		if f.work == nil {
			return struct{}{}, nil
		}
		return struct{}{}, f.work(ctx, job)
	}, nil)
	for i := range n {
		f.engines = append(f.engines, f.engine(fmt.Sprint("w", i)))
	}
	f.define("job", `{"day": null}`)
	return f
}

func (f *fleet) engine(name string) *engine.Engine {
	return engine.New(f.store, f.reg, &engine.Options{Worker: name, Workspace: f.dir, Slots: 200, Lease: time.Minute, Poll: time.Minute})
}

func (f *fleet) define(name, params string) {
	f.t.Helper()
	var job courier.Job
	text := fmt.Sprintf(`{"name": %q, "params": %s, "steps": [{"type": "demo.work"}]}`, name, params)
	if err := job.UnmarshalJSON([]byte(text)); err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.engines[0].Jobs().Define(f.t.Context(), job, nil); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) start(i int) {
	f.t.Helper()
	if err := f.engines[i].Start(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) stop(i int) {
	f.t.Helper()
	if err := f.engines[i].Stop(context.WithoutCancel(f.t.Context())); err != nil {
		f.t.Error(err)
	}
}

// run lets the first engine run for a time.
func (f *fleet) run(d time.Duration) {
	f.t.Helper()
	f.start(0)
	time.Sleep(d)
	f.stop(0)
}

func (f *fleet) set(s schedule.Schedule) schedule.Schedule {
	f.t.Helper()
	if s.Job == "" && s.Chain == "" {
		s.Job = "job"
	}
	got, err := f.engines[0].Schedules().Set(f.t.Context(), s, courier.By{})
	if err != nil {
		f.t.Fatal(err)
	}
	return got
}

func (f *fleet) schedule(name string) schedule.Schedule {
	f.t.Helper()
	s, err := f.engines[0].Schedules().Get(f.t.Context(), name)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// executions returns all executions, the oldest first.
func (f *fleet) executions() []courier.Execution {
	f.t.Helper()
	var all []courier.Execution
	for filter := (store.Filter{Limit: 1000}); ; {
		list, err := f.store.Executions(f.t.Context(), filter)
		if err != nil {
			f.t.Fatal(err)
		}
		if len(list) == 0 {
			for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
				all[i], all[j] = all[j], all[i]
			}
			return all
		}
		all = append(all, list...)
		filter.Before = list[len(list)-1].ID
	}
}

// ticks returns the ticks of a schedule that have led to an execution, as
// seconds after start, and how many there are of each.
func (f *fleet) ticks(schedule string, start time.Time) map[float64]int {
	f.t.Helper()
	m := make(map[float64]int)
	for _, x := range f.executions() {
		text, ok := strings.CutPrefix(x.IdempotencyKey, "schedule:"+schedule+":")
		if !ok {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			f.t.Error(err)
		}
		if x.By != "schedule:"+schedule {
			f.t.Errorf("execution %s is by %q", x.ID, x.By)
		}
		m[at.Sub(start).Seconds()]++
	}
	return m
}

// want reports when the ticks that fired are others than those wanted.
func (f *fleet) want(schedule string, start time.Time, seconds ...float64) {
	f.t.Helper()
	got := f.ticks(schedule, start)
	want := make(map[float64]int)
	for _, s := range seconds {
		want[s] = 1
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		f.t.Errorf("schedule %q fired at %v, want %v", schedule, got, want)
	}
}

// An unreliable store is what an engine sees of one: the clock by which it is
// told what is due is wrong, and is put forward and back, and replies get lost.
type unreliable struct {
	*memstore.Store
	mu     sync.Mutex
	random *rand.Rand
	wrong  time.Duration // by how much the clock is
}

// lost reports whether something happens to a call.
func (u *unreliable) lost() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.random.IntN(20) == 0 {
		u.wrong = time.Duration(u.random.Int64N(int64(20*time.Minute))) - 10*time.Minute
	}
	return u.random.IntN(10) == 0
}

func (u *unreliable) DueSchedules(ctx context.Context, most int, lease time.Duration) (schedule.DueList, error) {
	lost := u.lost()
	d, err := u.Store.DueSchedules(ctx, most, lease)
	if d.Now = d.Now.Add(u.wrong); err == nil && lost {
		err = errors.New("the reply is lost")
	}
	return d, err
}

func (u *unreliable) FireSchedules(ctx context.Context, list []schedule.Firing) ([]schedule.Fired, error) {
	lost := u.lost()
	fired, err := u.Store.FireSchedules(ctx, list)
	if err == nil && lost {
		err = errors.New("the reply is lost")
	}
	return fired, err
}

// TestOneExecutionPerTick has ten engines fire 10,000 ticks, while each of them
// is stopped and started again and again.
func TestOneExecutionPerTick(t *testing.T) {
	t.Run("stopped", func(t *testing.T) { oneExecutionPerTick(t, false) })
	t.Run("with wrong clocks", func(t *testing.T) { oneExecutionPerTick(t, true) })
}

func oneExecutionPerTick(t *testing.T, wrong bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		const engines, schedules = 10, 10
		ticks := raced.Or(60, 1000) // of each schedule
		s := memstore.New()
		if err := s.Set(t.Context(), store.LimitSetting(""), "0"); err != nil {
			t.Fatal(err)
		}
		f := newFleet(t, s, engines)
		start := time.Now().UTC()
		for i := range schedules {
			f.set(schedule.Schedule{
				Name: fmt.Sprint("s", i), Every: 10 * time.Second, Jitter: time.Duration(i) * time.Second,
				Starts: start.Add(time.Second), Ends: start.Add(time.Duration(ticks) * 10 * time.Second),
				Misfire: schedule.MisfireAll, // a clock that is put forward makes ticks late
			})
		}
		done := make(chan struct{})
		for i := range engines {
			if wrong {
				seen := &unreliable{Store: s, random: rand.New(rand.NewPCG(2, uint64(i)))}
				f.engines[i] = engine.New(seen, f.reg, &engine.Options{Worker: fmt.Sprint("w", i), Workspace: f.dir, Slots: 200, Lease: time.Minute, Poll: time.Minute})
			}
			go func() {
				defer func() { done <- struct{}{} }()
				random := rand.New(rand.NewPCG(1, uint64(i)))
				for end := start.Add(time.Duration(ticks)*10*time.Second + 20*time.Minute); time.Now().Before(end); {
					f.start(i)
					time.Sleep(time.Duration(random.Int64N(int64(20 * time.Minute))))
					f.stop(i)
					time.Sleep(time.Duration(random.Int64N(int64(3 * time.Minute))))
				}
			}()
		}
		for range engines {
			<-done
		}
		for i := range schedules {
			got := f.ticks(fmt.Sprint("s", i), start)
			if len(got) != ticks {
				t.Errorf("schedule s%d fired %d ticks of %d", i, len(got), ticks)
			}
			for tick, n := range got {
				if n != 1 {
					t.Errorf("schedule s%d has %d executions of tick %v", i, n, tick)
				}
			}
		}
		if n := len(f.executions()); n != schedules*ticks {
			t.Errorf("%d executions, want %d", n, schedules*ticks)
		}
	})
}

// TestTicksSurviveFaults has the store fail, hang or die at a call of the engine
// that fires, while another engine is there: every tick fires, once.
func TestTicksSurviveFaults(t *testing.T) {
	for _, kind := range storewrap.FaultKinds {
		for _, method := range []string{"DueSchedules", "FireSchedules"} {
			for n := 1; n <= 3; n++ {
				fault := storewrap.Fault{Kind: kind, N: n, Method: method}
				t.Run(fault.String(), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { tickSurvives(t, fault) })
				})
			}
		}
	}
}

func tickSurvives(t *testing.T, fault storewrap.Fault) {
	t.Helper()
	f := newFleet(t, memstore.New(), 2)
	start := time.Now().UTC()
	f.set(schedule.Schedule{Name: "s", Every: 10 * time.Second, Starts: start.Add(10 * time.Second), Ends: start.Add(time.Minute)})
	faulty := storewrap.NewFaulty(f.store, fault)
	f.engines[0] = engine.New(faulty, f.reg, &engine.Options{Worker: "faulty", Workspace: f.dir})
	f.start(0)
	time.Sleep(15 * time.Second)
	f.start(1)
	time.Sleep(3 * time.Minute)
	select {
	case <-faulty.Fired():
	default:
		if fault.N == 1 { // later calls may be the other engine's
			t.Error("the fault did not happen")
		}
	}
	f.want("s", start, 10, 20, 30, 40, 50, 60)
	faulty.Release()
	f.stop(0)
	f.stop(1)
}

// TestNoTickTwice has a store that was put back to before a tick, as from a
// backup of the schedules alone.
func TestNoTickTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		f := newFleet(t, s, 1)
		start := time.Now().UTC()
		f.set(schedule.Schedule{Name: "s", Every: time.Minute, Starts: start.Add(time.Minute), Ends: start.Add(3 * time.Minute)})
		before, err := s.Schedules(t.Context(), schedule.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		f.run(150 * time.Second)
		if err := s.RemoveSchedule(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		back := before.List[0]
		back.Revision = 0
		if _, err := s.PutSchedule(t.Context(), back); err != nil {
			t.Fatal(err)
		}
		f.set(schedule.Schedule{
			Name: "s", Every: time.Minute, Starts: start.Add(time.Minute), Ends: start.Add(3 * time.Minute), Misfire: schedule.MisfireAll,
		})
		f.run(time.Minute)
		f.want("s", start, 60, 120, 180)
		if n := len(f.executions()); n != 3 {
			t.Errorf("%d executions, want 3", n)
		}
		if got := f.schedule("s"); !got.LastFire.Equal(start.Add(3 * time.Minute)) {
			t.Errorf("last fired at %v", got.LastFire)
		}
	})
}

// TestTheStoresClock has an engine whose clock is an hour behind that of the
// store: what counts is the latter.
func TestTheStoresClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		f := newFleet(t, s, 1)
		start := time.Now().UTC()
		f.set(schedule.Schedule{Name: "s", Every: 10 * time.Minute, Starts: start.Add(10 * time.Minute), Ends: start.Add(time.Hour), Misfire: schedule.MisfireAll})
		got, err := s.Schedules(t.Context(), schedule.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		due := got.List[0]
		due.Due = start // the store finds it due, whose clock is ahead
		if _, err := s.PutSchedule(t.Context(), due); err != nil {
			t.Fatal(err)
		}
		seen := &unreliable{Store: s, random: rand.New(noLuck{}), wrong: time.Hour + time.Minute}
		f.engines[0] = engine.New(seen, f.reg, &engine.Options{Worker: "w", Workspace: f.dir})
		f.run(time.Second)
		f.want("s", start, 600, 1200, 1800, 2400, 3000, 3600)
	})
}

// noLuck is a source of numbers by which nothing happens.
type noLuck struct{}

func (noLuck) Uint64() uint64 { return 1<<63 - 1 }

// TestManyAtOnce has more schedules due at once than are looked at together.
func TestManyAtOnce(t *testing.T) {
	const many, ticks = 2500, 2
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, memstore.New(), 1)
		start := time.Now().UTC()
		for i := range many {
			f.set(schedule.Schedule{Name: fmt.Sprint("s", i), Every: time.Second, Starts: start.Add(time.Second), Ends: start.Add(ticks * time.Second)})
		}
		f.engines[0] = engine.New(f.store, f.reg, &engine.Options{Workspace: f.dir, Queues: []string{"nobody's"}})
		f.run(5 * time.Second)
		list := f.executions()
		if len(list) != many*ticks {
			t.Errorf("%d executions, want %d", len(list), many*ticks)
		}
		for _, x := range list {
			if late := x.CreatedAt.Sub(mustTick(t, x)); late < 0 || late > 100*time.Millisecond {
				t.Fatalf("%s was created %v after its tick", x.IdempotencyKey, late)
			}
		}
	})
}

// A looking store counts looks at what is due.
type looking struct {
	*memstore.Store
	looks atomic.Int64
}

func (l *looking) DueSchedules(ctx context.Context, most int, lease time.Duration) (schedule.DueList, error) {
	l.looks.Add(1)
	return l.Store.DueSchedules(ctx, most, lease)
}

// TestOneLookForChange has an engine, which has looked at the schedules in vain a few
// times, hear that one was set: it looks once.
func TestOneLookForChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &looking{Store: memstore.New()}
		f := newFleet(t, l, 1)
		f.start(0)
		time.Sleep(100 * time.Second)
		before := l.looks.Load()
		f.set(schedule.Schedule{Name: "hourly", Every: time.Hour})
		time.Sleep(time.Second)
		if got := l.looks.Load() - before; got != 1 {
			t.Errorf("%d looks, want one", got)
		}
		f.stop(0)
	})
}
