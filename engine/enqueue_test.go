package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storewrap"
)

// define saves the job "a", which declares a parameter.
func define(t *testing.T, h *couriertest.Harness) {
	t.Helper()
	h.Stub("demo.a", nil)
	job := h.Job(`{"name": "a", "queue": "night", "limit": 3, "limit_keys": ["${context:params.day}"],
		"params": {"day": 1}, "steps": [{"type": "demo.a"}]}`)
	if _, err := h.Engine.Jobs().Define(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
}

func prepare(t *testing.T, e *engine.Engine, opt *courier.EnqueueOptions) store.NewExecution {
	t.Helper()
	n, err := e.Prepare(t.Context(), "a", opt)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestPrepareIsWhatEnqueueCreates enqueues once each way, and compares.
func TestPrepareIsWhatEnqueueCreates(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		define(t, h)
		timeout := time.Minute
		all := &courier.EnqueueOptions{Params: m{"day": 2}, Priority: 3, Delay: time.Hour, LimitKeys: []string{"x"}, Hold: true, Version: 1, Timeout: &timeout, By: courier.By{Actor: "ann"}}
		for opt, want := range map[*courier.EnqueueOptions]store.NewExecution{
			nil: {Params: json.RawMessage(`{"day":1}`), LimitKeys: []string{"1"}},
			all: {
				Params: json.RawMessage(`{"day":2}`), LimitKeys: []string{"2", "x"}, Priority: 3, Delay: time.Hour, Hold: true,
				Timeout: time.Minute, By: "ann",
			},
		} {
			n := prepare(t, h.Engine, opt)
			want.ID, want.Job, want.Version, want.Queue, want.JobLimit, want.StepTypes = n.ID, "a", 1, "night", 3, []string{"demo.a"}
			want.First = &courier.StepExecution{Type: "demo.a"}
			if !reflect.DeepEqual(n, want) {
				t.Errorf("prepared %+v, want %+v", n, want)
			}
			if _, err := h.Store.Execution(t.Context(), n.ID); !errors.Is(err, courier.ErrNotFound) {
				t.Fatalf("Prepare created something, or %v", err)
			}
			one, err := h.Engine.EnqueueAll(t.Context(), []store.NewExecution{n})
			if err != nil || len(one) != 1 || one[0].ID != n.ID {
				t.Fatalf("%d executions, %v", len(one), err)
			}
			other, err := h.Engine.Enqueue(t.Context(), "a", opt)
			if err != nil || other.ID == n.ID {
				t.Fatal(other.ID, err)
			}
			other.ID = n.ID
			if a, b := fmt.Sprintf("%+v", one[0]), fmt.Sprintf("%+v", other); a != b {
				t.Errorf("created\n%s\nand by Enqueue\n%s", a, b)
			}
		}
	})
}

func TestPrepareRefusesWhatEnqueueRefuses(t *testing.T) {
	h := couriertest.New(t, nil)
	define(t, h)
	for _, c := range []struct {
		job  string
		opt  courier.EnqueueOptions
		is   error
		text string
	}{
		{"b", courier.EnqueueOptions{}, courier.ErrNotFound, `there is no job "b"`},
		{"a", courier.EnqueueOptions{Version: 2}, courier.ErrNotFound, "the latest is 1"},
		{"a", courier.EnqueueOptions{Delay: -1}, courier.ErrInvalid, `job "a": delay: -1ns is negative`},
		{"a", courier.EnqueueOptions{Timeout: new(time.Duration(-1))}, courier.ErrInvalid, `job "a": timeout: -1ns is negative; 0 means none`},
		{"a", courier.EnqueueOptions{By: courier.By{Actor: "\xff"}}, courier.ErrInvalid, `job "a": By`},
		{"a", courier.EnqueueOptions{Params: m{"dya": 2}}, courier.ErrInvalid, `did you mean "day"?`},
		{"a", courier.EnqueueOptions{LimitKeys: []string{"\x00"}}, courier.ErrInvalid, `job "a": limit key`},
		{"a", courier.EnqueueOptions{LimitKeys: numbered(16)}, courier.ErrInvalid, `job "a": limit_keys: there are 17; 16 is the most`},
		{"a", courier.EnqueueOptions{LimitKeys: []string{strings.Repeat("x", 900), strings.Repeat("y", 900), strings.Repeat("z", 900)}}, courier.ErrInvalid, `job "a": limit_keys: they have 2701 bytes together; 2048 is the most`},
	} {
		_, err := h.Engine.Prepare(t.Context(), c.job, &c.opt)
		_, same := h.Engine.Enqueue(t.Context(), c.job, &c.opt)
		for prefix, err := range map[string]error{"prepare: ": err, "enqueue: ": same} {
			if !errors.Is(err, c.is) || !strings.HasPrefix(err.Error(), prefix) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s%s %+v: %v", prefix, c.job, c.opt, err)
			}
		}
	}
}

// numbered returns n limit keys.
func numbered(n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("user:%d", i))
	}
	return keys
}

// TestMostLimitKeys starts an execution with as many keys as it can have, and again.
func TestMostLimitKeys(t *testing.T) {
	h := couriertest.New(t, nil)
	define(t, h)
	x, err := h.Engine.Enqueue(t.Context(), "a", &courier.EnqueueOptions{LimitKeys: append(numbered(15), numbered(15)...)})
	if err != nil || len(x.LimitKeys) != 16 {
		t.Fatalf("limit keys %q, %v; want 15 and that of the job", x.LimitKeys, err)
	}
}

func TestEnqueueAllIsAllOrNone(t *testing.T) {
	h := couriertest.New(t, nil)
	define(t, h)
	old, err := h.Engine.Enqueue(t.Context(), "a", &courier.EnqueueOptions{IdempotencyKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	fresh := prepare(t, h.Engine, nil)
	used := prepare(t, h.Engine, &courier.EnqueueOptions{IdempotencyKey: "k"})
	other := prepare(t, h.Engine, &courier.EnqueueOptions{IdempotencyKey: "k", Params: m{"day": 2}})
	if _, err := h.Engine.EnqueueAll(t.Context(), []store.NewExecution{fresh, other}); !errors.Is(err, courier.ErrConflict) {
		t.Errorf("other parameters: %v", err)
	}
	if _, err := h.Store.Execution(t.Context(), fresh.ID); !errors.Is(err, courier.ErrNotFound) {
		t.Errorf("a part of what was refused: %v", err)
	}
	for range 2 {
		got, err := h.Engine.EnqueueAll(t.Context(), []store.NewExecution{used, fresh})
		if err != nil || len(got) != 2 || got[0].ID != old.ID || got[1].ID != fresh.ID {
			t.Fatalf("executions %+v, %v; want %s and %s", got, err, old.ID, fresh.ID)
		}
	}
	if got, err := h.Engine.EnqueueAll(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("nothing: %v, %v", got, err)
	}
	if list, err := h.Engine.Executions().List(t.Context(), store.Filter{}); err != nil || len(list) != 2 {
		t.Errorf("%d executions, %v", len(list), err)
	}
}

// TestEnqueueAllSurvivesFaults lets the one call of the store fail in each way
// after which the engine can go on.
func TestEnqueueAllSurvivesFaults(t *testing.T) {
	for _, kind := range []storewrap.FaultKind{storewrap.FailBefore, storewrap.FailAfter, storewrap.HangBefore, storewrap.HangAfter} {
		synctest.Test(t, func(t *testing.T) {
			h := couriertest.New(t, nil)
			define(t, h)
			s := storewrap.NewFaulty(h.Store, storewrap.Fault{Kind: kind, N: 1, Method: "Enqueue"})
			defer s.Release()
			e := engine.New(s, h.Registry, nil)
			list := []store.NewExecution{prepare(t, e, nil), prepare(t, e, nil)}
			got, err := e.EnqueueAll(t.Context(), list)
			hangs := kind == storewrap.HangBefore || kind == storewrap.HangAfter
			if hangs { // that used up its time
				if err == nil {
					t.Errorf("%v: no error", kind)
				}
				got, err = e.EnqueueAll(t.Context(), list)
			}
			if err != nil || len(got) != 2 || got[0].ID != list[0].ID || got[1].ID != list[1].ID {
				t.Errorf("%v: %+v, %v", kind, got, err)
			}
			if n := s.Calls("Enqueue"); n != 2 {
				t.Errorf("%v: %d calls of the store", kind, n)
			}
			if list, err := h.Store.Executions(t.Context(), store.Filter{}); err != nil || len(list) != 2 {
				t.Errorf("%v: %d executions, %v", kind, len(list), err)
			}
		})
	}
}

// EnqueueAll creates many executions at once, or none.
func ExampleEngine_EnqueueAll() {
	ctx := context.Background()
	e := newExample()
	if _, err := e.Jobs().Define(ctx, greetings, nil); err != nil {
		log.Fatal(err)
	}
	var list []store.NewExecution
	for _, name := range []string{"Ada", "Grace"} {
		n, err := e.Prepare(ctx, "greetings", &courier.EnqueueOptions{Params: map[string]any{"names": []string{name}}})
		if err != nil {
			log.Fatal(err)
		}
		list = append(list, n)
	}
	executions, err := e.EnqueueAll(ctx, list)
	if err != nil {
		log.Fatal(err)
	}
	for _, x := range executions {
		fmt.Println(x.State, string(x.Params))
	}
	// Output:
	// queued {"names":["Ada"]}
	// queued {"names":["Grace"]}
}

func TestPrepareAsksOnceForAVersion(t *testing.T) {
	h := couriertest.New(t, nil)
	define(t, h)
	loads := 0
	other := engine.New(storewrap.Intercept(h.Store, func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
		if c.Method == "Load" {
			loads++
		}
		return do(ctx)
	}), h.Registry, &engine.Options{Workspace: t.TempDir()})
	for range 3 {
		prepare(t, other, &courier.EnqueueOptions{Version: 1})
	}
	if loads != 1 {
		t.Errorf("the store was asked %d times for version 1", loads)
	}
	for range 3 {
		prepare(t, other, nil)
	}
	if loads != 4 {
		t.Errorf("the store was asked %d times for the latest version, want 3", loads-1)
	}
}

// TestEnqueueUsesTheLatest defines a job by one engine and enqueues it by
// another, which knows it: while nothing changes that asks the store but once,
// and when there is a newer version it takes that one, with its parameters.
func TestEnqueueUsesTheLatest(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		define(t, h)
		var calls []string
		other := engine.New(storewrap.Intercept(h.Store, func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
			calls = append(calls, c.Method)
			return do(ctx)
		}), h.Registry, &engine.Options{Workspace: t.TempDir()})
		enqueue := func(key, params string, version int, want ...string) {
			t.Helper()
			calls = nil
			x, err := other.Enqueue(t.Context(), "a", &courier.EnqueueOptions{IdempotencyKey: key})
			if err != nil {
				t.Fatal(err)
			}
			if x.Version != version || string(x.Params) != params || !slices.Equal(calls, want) {
				t.Errorf("version %d with %s by %q, want version %d with %s by %q", x.Version, x.Params, calls, version, params, want)
			}
		}
		enqueue("", `{"day":1}`, 1, "Load", "Enqueue")
		enqueue("", `{"day":1}`, 1, "Enqueue")
		if _, err := h.Engine.Jobs().Define(t.Context(), h.Job(`{"name": "a", "params": {"day": 2}, "steps": [{"type": "demo.a"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Engine.Enqueue(t.Context(), "a", &courier.EnqueueOptions{IdempotencyKey: "x"}); err != nil {
			t.Fatal(err)
		}
		enqueue("x", `{"day":2}`, 2, "Enqueue", "Load", "Enqueue") // what exists is that of the new version
		enqueue("", `{"day":2}`, 2, "Enqueue")
		calls = nil
		if _, err := other.Enqueue(t.Context(), "a", &courier.EnqueueOptions{Version: 1}); err != nil || !slices.Equal(calls, []string{"Enqueue"}) {
			t.Errorf("a version that was asked for: %q, %v", calls, err)
		}
	})
}

// TestUnknownExecution: nothing that is asked of an execution that isn't there is
// empty without an error.
func TestUnknownExecution(t *testing.T) {
	h := couriertest.New(t, nil)
	const id = "0198c0de-0000-7000-8000-00000000dead"
	if list, err := h.Engine.Executions().Steps(t.Context(), id); !errors.Is(err, courier.ErrNotFound) || len(list) > 0 {
		t.Errorf("Steps: %v, %v", list, err)
	}
	if list, err := h.Engine.Executions().Audit(t.Context(), id); !errors.Is(err, courier.ErrNotFound) || len(list) > 0 {
		t.Errorf("Audit: %v, %v", list, err)
	}
	h.Stub("demo.a", nil)
	x := h.Enqueue(h.Job(`{"name": "j", "steps": [{"type": "demo.a"}]}`), nil)
	if list, err := h.Engine.Executions().Steps(t.Context(), x); err != nil || len(list) > 0 {
		t.Errorf("Steps of one that has not begun: %v, %v", list, err)
	}
}
