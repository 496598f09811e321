package maintenance_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/maintenance"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/internal/test/lockedbuffer"
	"github.com/courierhq/courier/store"
)

// workers is a store that records workers.
type workers struct {
	store.Store
	present []store.Worker
	err     error
}

func (w *workers) Workers(context.Context, time.Duration) ([]store.Worker, error) {
	return w.present, w.err
}
func (*workers) Drain(context.Context, string) error { return nil }
func (*workers) Stranded(context.Context, time.Duration) ([]store.Stranded, error) {
	return nil, nil
}

// anonymous is a store that does not record workers.
type anonymous struct{ store.Store }

// A caretaker keeps the times of its calls, and does what do says.
type caretaker struct {
	do func(context.Context) error

	mu sync.Mutex
	at []time.Time
}

func (k *caretaker) Maintain(ctx context.Context, _ courier.Maintenance) error {
	k.mu.Lock()
	k.at = append(k.at, time.Now())
	k.mu.Unlock()
	if k.do != nil {
		return k.do(ctx)
	}
	return nil
}

// calls returns when it was called.
func (k *caretaker) calls() []time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.at)
}

// An engine is a service of maintenance that runs.
type engine struct {
	*maintenance.Service
	caretaker
	log lockedbuffer.Buffer
	end func() // stops it, and waits until it has
}

// start returns an engine with one maintained step type, which has two more names.
func start(t *testing.T, s store.Store, worker string, every time.Duration, do func(context.Context) error) *engine {
	e := new(engine)
	e.do = do
	r := new(courier.Registry)
	courier.RegisterFunc(r, "demo.kept", func(context.Context, *courier.Context, struct{}) (struct{}, error) { return struct{}{}, nil },
		&courier.TypeOptions{Aliases: []string{"demo.old", "demo.a"}, Maintainer: &e.caretaker, MaintainEvery: every})
	courier.RegisterFunc(r, "demo.b", func(context.Context, *courier.Context, struct{}) (struct{}, error) { return struct{}{}, nil }, nil)
	e.Service = maintenance.New(core.Roles{Store: s, Behind: s}, r, slog.New(slog.NewTextHandler(&e.log, nil)), worker)
	ctx, cancel := context.WithCancel(t.Context())
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		e.Run(core.Lifetime{Base: t.Context(), Ctx: ctx, Stop: stop})
	}()
	e.end = func() {
		if ctx.Err() == nil {
			close(stop)
			cancel()
		}
		<-ended
	}
	t.Cleanup(e.end)
	return e
}

// worker returns a worker that has a step type.
func worker(name, typ string) store.Worker { return store.Worker{Name: name, StepTypes: []string{typ}} }

// TestPeriods: a maintainer is called once at the start, whatever its type is called, and once in
// each period after that. No call follows the stop.
func TestPeriods(t *testing.T) {
	for every, want := range map[time.Duration]int{time.Second: 3601, time.Minute: 61, 7 * time.Minute: 9, 24 * time.Hour: 1} {
		t.Run(every.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := start(t, anonymous{}, "w", every, nil)
				synctest.Wait()
				if len(e.calls()) != 1 {
					t.Fatalf("%d calls at the start", len(e.calls()))
				}
				time.Sleep(time.Hour)
				e.end()
				if n := len(e.calls()); n < want-1 || n > want {
					t.Errorf("%d calls in an hour, want %d", n, want)
				}
				spread := make(map[time.Duration]bool)
				for _, at := range e.calls()[1:] {
					spread[time.Duration(at.UnixNano()%int64(every))] = true
				}
				for late := range spread {
					if len(spread) > 1 || late > every/4 {
						t.Errorf("calls begin %v after the beginning of their periods", spread)
					}
				}
				n := len(e.calls())
				time.Sleep(48 * time.Hour)
				if len(e.calls()) != n {
					t.Error("it is called after the stop")
				}
			})
		})
	}
}

// TestTurns: in each period it is the turn of one of the present workers that have the step type
// and do not drain, each in its place of the list.
func TestTurns(t *testing.T) {
	draining := worker("a", "demo.kept")
	draining.Draining = true
	for name, c := range map[string]struct {
		present []store.Worker
		want    [2]int // calls in an hour
	}{
		"alone":                  {[]store.Worker{worker("me", "demo.kept")}, [2]int{60, 61}},
		"just starting":          {nil, [2]int{60, 61}},
		"one of two":             {[]store.Worker{worker("me", "demo.kept"), worker("you", "demo.kept")}, [2]int{29, 32}},
		"one of three":           {[]store.Worker{worker("a", "demo.kept"), worker("b", "demo.kept"), worker("me", "demo.kept")}, [2]int{19, 22}},
		"the other ones lack it": {[]store.Worker{worker("a", "demo.b"), worker("me", "demo.kept"), worker("you", "")}, [2]int{60, 61}},
		"the other one drains":   {[]store.Worker{draining, worker("me", "demo.kept")}, [2]int{60, 61}},
		"no longer present":      {[]store.Worker{worker("you", "demo.kept")}, [2]int{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := start(t, &workers{present: c.present}, "me", time.Minute, nil)
				time.Sleep(time.Hour)
				e.end()
				if n := len(e.calls()); n < c.want[0] || n > c.want[1] {
					t.Errorf("%d calls in an hour, want %v", n, c.want)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // together they have all periods, each once
		s := &workers{present: []store.Worker{worker("a", "demo.kept"), worker("b", "demo.kept"), worker("c", "demo.kept")}}
		periods := make(map[time.Time]int)
		for _, name := range []string{"a", "b", "c"} {
			e := start(t, s, name, time.Minute, nil)
			defer func() {
				e.end()
				for _, at := range e.calls() {
					periods[at.Truncate(time.Minute)]++
				}
				for at, n := range periods {
					if n != 1 || name == "a" && len(periods) != 60 {
						t.Fatalf("%d calls in the period %v, of %d periods", n, at, len(periods))
					}
				}
			}()
		}
		time.Sleep(time.Hour - time.Second)
	})
}

// shy is an error whose method panics if it is nil.
type shy struct{ text string }

func (s *shy) Error() string { return s.text }

// TestFailures: what fails is in the log once while it lasts, and again after it has worked. It is
// tried in each period, whatever way it fails.
func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(context.Context) error
		text  string
		stack bool
	}{
		"an error":        {func(context.Context) error { return errors.New("the disk is full") }, "the disk is full", false},
		"a long error":    {func(context.Context) error { return errors.New(strings.Repeat("x", 1<<20)) }, "xxx", false},
		"a panic":         {func(context.Context) error { panic("oh") }, "it panicked: oh", true},
		"Goexit":          {func(context.Context) error { runtime.Goexit(); return nil }, "it called runtime.Goexit", false},
		"a hostile error": {func(context.Context) error { return (*shy)(nil) }, "whose method Error ", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var broken atomic.Bool
				broken.Store(true)
				e := start(t, anonymous{}, "w", time.Minute, func(ctx context.Context) error {
					if broken.Load() {
						return c.do(ctx)
					}
					return nil
				})
				began := time.Now()
				is := func(b bool) {
					broken.Store(b)
					time.Sleep(30 * time.Minute)
					synctest.Wait()
				}
				is(true)
				list := e.Failures()
				if len(list) != 1 || list[0].StepType != "demo.kept" || !list[0].Since.Equal(began) || !strings.Contains(list[0].Error, c.text) || len(list[0].Error) > 5000 {
					t.Fatalf("failures %.300v", list)
				}
				log := e.log.String()
				if strings.Count(log, "maintenance failed") != 1 || !strings.Contains(log, "step_type=demo.kept") || strings.Contains(log, "maintenance_test.go") != c.stack {
					t.Errorf("log %.900s", log)
				}
				if n := len(e.calls()); n < 29 {
					t.Errorf("%d calls in half an hour", n)
				}
				if is(false); e.Failures() != nil || strings.Count(e.log.String(), "maintenance works again") != 1 {
					t.Errorf("after it has worked: %v", e.Failures())
				}
				if is(true); strings.Count(e.log.String(), "maintenance failed") != 2 {
					t.Error("the second failure is not in the log once")
				}
			})
		})
	}
}

// TestFailureChanges: another failure is logged too, and keeps the time of the first.
func TestFailureChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, n := time.Now(), 0
		e := start(t, anonymous{}, "w", time.Minute, func(context.Context) error {
			n++
			return fmt.Errorf("failure %d", n/10)
		})
		time.Sleep(15 * time.Minute)
		synctest.Wait()
		if list := e.Failures(); len(list) != 1 || list[0].Error != "failure 1" || !list[0].Since.Equal(began) || strings.Count(e.log.String(), "maintenance failed") != 2 {
			t.Errorf("%+v, log %s", list, e.log.String())
		}
	})
}

// TestWhoseTurnIsUnknown: if the other workers can't be read, no call is made and that is the
// failure. A wrapper around a store without workers counts as one that does not record them.
func TestWhoseTurnIsUnknown(t *testing.T) {
	for err, want := range map[error]int{errors.New("out of reach"): 0, fmt.Errorf("wrapped: %w", errors.ErrUnsupported): 1} {
		synctest.Test(t, func(t *testing.T) {
			e := start(t, &workers{err: err}, "w", time.Hour, nil)
			synctest.Wait()
			list := e.Failures()
			if len(e.calls()) != want || len(list) != 1-want || want == 0 && list[0].Error != "the other engines of the store can't be found: out of reach" {
				t.Errorf("%v: %d calls, failures %+v", err, len(e.calls()), list)
			}
		})
	}
}

// TestHangs: a call that does not return is a failure after ten minutes, and no other is made. The
// stop ends its context and waits for it as long as for a call to the store.
func TestHangs(t *testing.T) {
	for heeds, want := range map[bool]time.Duration{true: 0, false: storecall.Timeout} {
		synctest.Test(t, func(t *testing.T) {
			free := make(chan struct{})
			defer close(free)
			e := start(t, anonymous{}, "w", time.Minute, func(ctx context.Context) error {
				if heeds {
					<-ctx.Done()
					return ctx.Err()
				}
				<-free
				return nil
			})
			time.Sleep(10*time.Minute - 1)
			if synctest.Wait(); e.Failures() != nil {
				t.Errorf("failures %+v", e.Failures())
			}
			time.Sleep(time.Hour)
			if list := e.Failures(); len(list) != 1 || list[0].Error != "the call has not returned for 10m0s, and no other one is made before it returns" {
				t.Errorf("failures %+v", list)
			}
			began := time.Now()
			e.end()
			if took := time.Since(began); took != want || len(e.calls()) != 1 || strings.Contains(e.log.String(), "the engine stops without it") == heeds {
				t.Errorf("heeds the end: %v; the stop took %v, %d calls, log %s", heeds, took, len(e.calls()), e.log.String())
			}
		})
	}
}
