package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storewrap"
)

// A noted probe notes what it is told.
type noted struct {
	mu      sync.Mutex
	lines   []string
	claimed int
	claims  int
	calls   map[string]int
	long    []string // calls that did not take what the store takes
	panics  bool
}

const storeTakes = 3 * time.Millisecond

func (n *noted) note(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
	if n.panics {
		panic("the probe")
	}
}

func (n *noted) Claimed(count int, took time.Duration) {
	n.mu.Lock()
	n.claims, n.claimed = n.claims+1, n.claimed+count
	n.mu.Unlock()
	if count > 0 {
		n.note("claimed %d in %v", count, took)
	}
}

func (n *noted) Began(x *courier.Execution, waited time.Duration) {
	n.note("began %s, %s, after %v", x.Job, x.State, waited)
}

func (n *noted) Step(s *courier.StepExecution, took time.Duration) {
	n.note("step %s.%d %s %s in %v", s.Type, s.Attempt, s.State, s.Reason, took)
}

func (n *noted) Ended(x *courier.Execution, took time.Duration) {
	n.note("ended %s, at %d, %v, in %v", x.State, x.Position.Step, x.Failure != nil, took)
}

func (n *noted) Store(call string, took time.Duration, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.calls == nil {
		n.calls = make(map[string]int)
	}
	n.calls[call]++
	if !strings.HasPrefix(call, "Await") && (took != storeTakes || err != nil && !errors.Is(err, courier.ErrNotFound)) {
		n.long = append(n.long, fmt.Sprintf("%s in %v: %v", call, took, err))
	}
}

// counted is a store that takes its time, and counts the calls.
func counted(s store.Store) (store.Store, func() map[string]int) {
	var mu sync.Mutex
	calls := make(map[string]int)
	return storewrap.Intercept(s, func(c ctx, call *storewrap.Call, do func(ctx) error) error {
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				calls[call.Method]++
			}()
			if !strings.HasPrefix(call.Method, "Await") {
				time.Sleep(storeTakes)
			}
			return do(c)
		}), func() map[string]int {
			mu.Lock()
			defer mu.Unlock()
			return maps.Clone(calls)
		}
}

func wantLines(t *testing.T, n *noted, want ...string) {
	t.Helper()
	if !slices.Equal(n.lines, want) {
		t.Errorf("the probe was told\n%s\nwant\n%s", strings.Join(n.lines, "\n"), strings.Join(want, "\n"))
	}
}

// TestProbe has one engine lose its lease in the second step, and another one take over:
// the probe of each is told all that its engine does, with exact times.
func TestProbe(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.a", func(ctx, *courier.Context, map[string]any) (map[string]any, error) {
			time.Sleep(time.Second)
			return nil, nil
		})
		h.Stub("demo.b", func(c ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			if job.Attempt() == 2 {
				time.Sleep(2 * time.Second)
				return nil, errors.New("not now")
			}
			if job.Attempt() == 3 {
				return nil, nil
			}
			<-c.Done()
			return nil, context.Cause(c)
		})
		var first, second noted
		killable, dead := killable(h.Store)
		a := engine.New(killable, h.Registry, &engine.Options{Worker: "a", Probe: &first, Workspace: t.TempDir()})
		slow, calls := counted(h.Store)
		b := engine.New(slow, h.Registry, &engine.Options{Worker: "b", Probe: &second, Workspace: t.TempDir()})
		job := h.Job(`{"name": "j", "steps": [{"type": "demo.a"},
			{"type": "demo.b", "failure_policy": {"type": "retry_step", "max_retries": 1, "backoff_base_seconds": 60}}]}`)
		id := h.Enqueue(job, nil)
		time.Sleep(10 * time.Second)
		for _, e := range []*engine.Engine{a, b} {
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(6 * time.Second)
		}
		dead.Store(true)
		if x, err := h.Engine.Wait(t.Context(), id); err != nil || x.State != courier.Completed {
			t.Fatal(x.State, err)
		}
		a.Stop(t.Context())
		b.Stop(t.Context())
		wantLines(t, &first, "claimed 1 in 3ms", "began j, running, after 10.003s", "step demo.a.1 completed  in 1s",
			"ended running, at 1, false, in 22.003s") // the lease was renewed 10 s after the claim, and is relied on for 12 s
		wantLines(t, &second, "claimed 1 in 3ms", "began j, running, after -1ns", "step demo.b.1 failed worker_lost in 24.003s",
			"step demo.b.2 failed error in 2s", "ended queued, at 1, true, in 2.006s",
			"claimed 1 in 3ms", "began j, running, after 3ms", "step demo.b.3 completed  in 0s", "ended completed, at 2, false, in 6ms")
		if second.claimed != 2 || second.claims != second.calls["Claim"] {
			t.Errorf("%d claims with %d executions of %d calls", second.claims, second.claimed, second.calls["Claim"])
		}
		if got := calls(); !maps.Equal(got, second.calls) || len(second.long) > 0 {
			t.Errorf("the probe was told of %v\nthe store had %v\nothers: %q", second.calls, got, second.long)
		}
	})
}

// TestProbeThatPanics checks that the panics of a probe harm nothing, and that the first one
// is logged.
func TestProbeThatPanics(t *testing.T) {
	probe := &noted{panics: true}
	couriertest.Virtual(t, &engine.Options{Probe: probe}, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.a", nil)
		h.Run(h.Job(`{"name": "j", "steps": [{"type": "demo.a"}, {"type": "demo.a"}]}`), nil).RequireState(courier.Completed)
		if n := strings.Count(h.Log(), "Options.Probe panicked"); n != 1 || len(probe.lines) != 5 {
			t.Errorf("%d lines in the log, the probe was told %q", n, probe.lines)
		}
	})
}

// TestProbeRoles checks that an engine with a probe has the roles of its store, and no
// other.
func TestProbeRoles(t *testing.T) {
	h := couriertest.New(t, nil)
	e := h.AddEngine(&engine.Options{Probe: new(noted)})
	if _, err := e.Executions().Census(t.Context(), 0); err != nil {
		t.Error(err)
	}
	e = engine.New(struct{ store.Store }{h.Store}, nil, &engine.Options{Probe: new(noted)})
	_, err := e.Executions().Census(t.Context(), 0)
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "struct { store.Store }") {
		t.Errorf("without the role: %v", err)
	}
	if _, err := engine.New(nil, nil, &engine.Options{Probe: new(noted)}).Executions().Census(t.Context(), 0); !errors.Is(err, courier.ErrInvalid) {
		t.Errorf("without a store: %v", err)
	}
}
