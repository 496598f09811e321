package deadlines_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/deadlines"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/internal/test/lockedbuffer"
	"github.com/courierhq/courier/store"
)

// A deadlineStore answers the n-th call with what overdue returns, and keeps the times of the
// calls.
type deadlineStore struct {
	store.Store
	began   time.Time
	calls   []time.Duration
	overdue func(n int) (store.Overdue, error)
}

func (s *deadlineStore) Overdue(context.Context, int) (store.Overdue, error) {
	s.calls = append(s.calls, time.Since(s.began))
	if s.overdue == nil {
		return store.Overdue{}, nil
	}
	return s.overdue(len(s.calls))
}

// A world is a service that runs on a deadlineStore, with all that it has reported.
type world struct {
	*deadlines.Service
	store   *deadlineStore
	log     lockedbuffer.Buffer
	events  []courier.Event
	wakes   int
	expired []string
	refuse  error // of Expire
	ended   chan struct{}
}

// run returns a service that runs until the test ends.
func run(t *testing.T, overdue func(n int) (store.Overdue, error)) *world {
	w := &world{store: &deadlineStore{began: time.Now(), overdue: overdue}, ended: make(chan struct{})}
	w.Service = deadlines.New(deadlines.Options{
		Roles: core.Roles{Store: w.store, Behind: w.store}, Programs: program.NewCache(w.store, new(courier.Registry)),
		Log: slog.New(slog.NewTextHandler(&w.log, nil)), Poll: 3 * time.Second,
		Observe:           func(e courier.Event) { w.events = append(w.events, e) },
		WakeNotifications: func() { w.wakes++ },
		Expire: func(_ context.Context, id courier.ExecutionID, message string) error {
			w.expired = append(w.expired, string(id)+": "+message)
			return w.refuse
		},
	})
	stop := make(chan struct{})
	go func() {
		defer close(w.ended)
		w.Run(core.Lifetime{Base: t.Context(), Ctx: t.Context(), Stop: stop})
	}()
	t.Cleanup(func() { close(stop); <-w.ended })
	synctest.Wait()
	return w
}

// TestNextCall: the store is asked at the start, when the first deadline passes that the engine
// has read or set, and at the latest five minutes after the last call.
func TestNextCall(t *testing.T) {
	const h, m, s = time.Hour, time.Minute, time.Second
	claimed := func(first bool, late time.Duration, body string) func(*world) {
		return func(w *world) {
			due := time.Date(2026, 11, 20, 7, 28, 0, 0, time.UTC)
			w.Claimed(&store.Claimed{
				First: first, Definition: store.Definition{Kind: store.Job, Name: "a", Version: 1, Body: []byte(body)},
				Execution: courier.Execution{DueAt: due, StartedAt: due.Add(late)},
			})
		}
	}
	created := func(list ...store.NewExecution) func(*world) {
		return func(w *world) { w.Created(list) }
	}
	const minute, half = `{"name":"a","steps":[{"type":"x"}],"max_duration_seconds":60}`, `{"name":"a","steps":[{"type":"x"}],"expected_by":"08:30 Europe/Berlin"}`
	for name, c := range map[string]struct {
		does func(*world)
		next time.Duration // of the store; 0 for none
		want time.Duration
	}{
		"nothing":                       {nil, 0, 5 * m},
		"no deadline":                   {created(store.NewExecution{Delay: s}), 0, 5 * m},
		"longest time":                  {created(store.NewExecution{MaxDuration: m}), 0, m},
		"longest time, due later":       {created(store.NewExecution{MaxDuration: m, Delay: 30 * s}), 0, 90 * s},
		"expected, due later":           {created(store.NewExecution{ExpectedBy: m, Delay: 30 * s}), 0, m},
		"expires":                       {created(store.NewExecution{Expires: 2 * m, MaxDuration: h}), 0, 2 * m},
		"the first of several":          {created(store.NewExecution{MaxDuration: 3 * m}, store.NewExecution{ExpectedBy: 20 * s}, store.NewExecution{Expires: m}), 0, 20 * s},
		"far away":                      {created(store.NewExecution{MaxDuration: h}), 0, 5 * m},
		"the store has an earlier one":  {created(store.NewExecution{MaxDuration: m}), 10 * s, 10 * s},
		"the store has a later one":     {created(store.NewExecution{MaxDuration: m}), 2 * m, m},
		"its clock was put forward":     {func(w *world) { w.Wake() }, 0, 0},
		"claimed":                       {claimed(true, 0, minute), 0, m},
		"claimed late":                  {claimed(true, 50*s, minute), 0, 10 * s},
		"claimed when it is overdue":    {claimed(true, h, minute), 0, 0},
		"claimed again":                 {claimed(false, 0, minute), 0, 5 * m},
		"expected by, in its time zone": {claimed(true, 30*s, half), 0, 90 * s},
		"no definition":                 {claimed(true, 0, `{"steps": 1}`), 0, 5 * m},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := run(t, func(n int) (store.Overdue, error) {
					if n > 1 {
						return store.Overdue{}, nil
					}
					return store.Overdue{Next: c.next}, nil
				})
				if c.does != nil {
					c.does(w)
				}
				time.Sleep(6 * time.Minute)
				synctest.Wait()
				if got := w.store.calls; len(got) < 2 || got[0] != 0 || got[1] != c.want {
					t.Errorf("the store was asked after %v, want the second call after %v", got, c.want)
				}
			})
		})
	}
}

// TestOverdue: an overdue execution is in the log and told to observers, with the deadline that
// has passed, and subscribers are notified only if there is one.
func TestOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zone := time.FixedZone("", 3600)
		w := run(t, func(n int) (store.Overdue, error) {
			if n != 2 {
				return store.Overdue{}, nil
			}
			return store.Overdue{List: []store.OverdueExecution{{
				Execution: "x", Job: "a", Version: 3, State: courier.Running, Reason: courier.ReasonExpectedBy,
				Deadline: time.Date(2026, 11, 20, 7, 30, 0, 0, zone),
			}}}, nil
		})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		want := courier.Event{
			Type: courier.EventJobOverdue, Execution: "x", Job: "a", Version: 3, Step: -1, Reason: courier.ReasonExpectedBy,
			Error: "the execution is running, and was expected to end by 2026-11-20T06:30:00Z",
		}
		if len(w.events) != 1 || fmt.Sprint(w.events[0]) != fmt.Sprint(want) {
			t.Errorf("events %+v", w.events)
		}
		if len(w.store.calls) != 2 || w.wakes != 1 || len(w.expired) > 0 || !strings.Contains(w.log.String(), `level=WARN msg="execution is overdue" execution=x job=a version=3 state=running reason=expected_by`) {
			t.Errorf("%d wakes, expired %q, log %s", w.wakes, w.expired, w.log.String())
		}
	})
}

// TestExpired: an execution that expires fails with the instant in UTC and is not reported as
// overdue. It is no error if the execution has begun meanwhile.
func TestExpired(t *testing.T) {
	begun := fmt.Errorf("expire: %w", &courier.TransitionError{Execution: "x", From: courier.Running, To: courier.Failed})
	for name, c := range map[string]struct {
		err    error
		logged string
	}{
		"waiting": {nil, ""}, "begun": {begun, ""}, "store away": {errors.New("out of reach"), `level=ERROR msg="expire execution" execution=x job=a error="out of reach"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := store.OverdueExecution{Execution: "x", Job: "a", Reason: courier.ReasonExpired, Deadline: time.Date(2026, 11, 20, 1, 0, 0, 0, time.FixedZone("", -3600))}
				w := run(t, func(n int) (store.Overdue, error) {
					if n != 2 {
						return store.Overdue{}, nil
					}
					return store.Overdue{List: []store.OverdueExecution{first, {Execution: "y", Reason: courier.ReasonMaxDuration}}}, nil
				})
				w.refuse = c.err
				w.Wake()
				synctest.Wait()
				if !slices.Equal(w.expired, []string{"x: the execution had not begun by 2026-11-20T02:00:00Z, when it expired"}) {
					t.Errorf("expired %q", w.expired)
				}
				if len(w.events) != 1 || w.events[0].Execution != "y" {
					t.Errorf("events %+v", w.events)
				}
				if log := w.log.String(); !strings.Contains(log, c.logged) || c.logged == "" && strings.Contains(log, "ERROR") {
					t.Errorf("log %s", log)
				}
			})
		})
	}
}

// TestStoreFails: a call that failed is made again after Poll, and a store without deadlines is
// not asked again.
func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t, func(n int) (store.Overdue, error) {
			switch n {
			case 1:
				return store.Overdue{}, errors.New("out of reach")
			case 3:
				return store.Overdue{}, fmt.Errorf("wrapped: %w", errors.ErrUnsupported)
			}
			return store.Overdue{}, nil
		})
		time.Sleep(time.Hour)
		synctest.Wait()
		if want := []time.Duration{0, 3 * time.Second, 5*time.Minute + 3*time.Second}; !slices.Equal(w.store.calls, want) {
			t.Errorf("the store was asked after %v", w.store.calls)
		}
		select {
		case <-w.ended:
		default:
			t.Error("it still runs")
		}
		if n := strings.Count(w.log.String(), "level=ERROR"); n != 1 || !strings.Contains(w.log.String(), "out of reach") {
			t.Errorf("log %s", w.log.String())
		}
	})
}
