package engine_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/pgstoretest"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storewrap"
)

var (
	rescuedItems = flag.Int("rescued", 2_000, "how many items the loop of TestManyItemsAreRescued has")
	rescuedKills = flag.Int("rescued-kills", 3, "how many workers TestManyItemsAreRescued kills")
)

// A withNumber is the configuration of a step that gets an item.
type withNumber struct {
	N int `json:"n"`
}

// TestManyItemsAreRescued has a loop on PostgreSQL of which every hundredth item is bad. The
// worker that has it is killed again and again; its lease is a second. Each good item is completed
// once, each bad one rescued once, and nothing is lost.
func TestManyItemsAreRescued(t *testing.T) {
	total := *rescuedItems
	s, _ := pgstoretest.Open(t, pgtest.URL(t))
	var reg courier.Registry
	var done atomic.Int64
	courier.RegisterFunc(&reg, "many.work", func(_ context.Context, _ *courier.Context, cfg withNumber) (struct{}, error) {
		done.Add(1)
		if cfg.N%100 == 7 {
			return struct{}{}, courier.WithClass(errors.New("is bad"), courier.ReasonInvalid)
		}
		return struct{}{}, nil
	}, nil)
	courier.RegisterFunc(&reg, "many.aside", func(context.Context, *courier.Context, withNumber) (struct{}, error) { return struct{}{}, nil }, nil)
	dir := t.TempDir()
	every := int64(total / (*rescuedKills + 1))
	var next, kills atomic.Int64 // when the worker at work is killed, by what is done
	next.Store(every)
	killed := make(chan *engine.Engine, *rescuedKills+1)
	workers := 0
	start := func() *engine.Engine {
		var dead atomic.Bool
		var e *engine.Engine
		workers++
		e = engine.New(storewrap.Intercept(s, func(c ctx, call *storewrap.Call, do func(ctx) error) error {
			if at := next.Load(); call.Method == "Apply" && done.Load() >= at && next.CompareAndSwap(at, at+every) {
				if kills.Add(1)%2 == 0 { // it may be lost before its write or after it
					do(c)
				}
				dead.Store(true)
				killed <- e
			}
			if dead.Load() && call.Method != "Await" && call.Method != "AwaitSchedules" {
				return errors.New("killed")
			}
			return do(c)
		}), &reg, &engine.Options{Workspace: dir, WorkspaceID: "shared", Worker: fmt.Sprint("w", workers), Lease: time.Second, Grace: time.Millisecond})
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		return e
	}
	numbers := make([]int, total)
	for i := range numbers {
		numbers[i] = i
	}
	config := map[string]any{"n": "context:loop.current_item"}
	job := courier.Job{Name: "many", Params: map[string]any{"numbers": nil}, Steps: []courier.StepSpec{
		{ID: "each", Type: "flow.foreach", Config: map[string]any{"source": "context:params.numbers"}},
		{ID: "work", Type: "many.work", Config: config},
		{Type: "flow.rescue"},
		{ID: "aside", Type: "many.aside", Config: config},
		{Type: "flow.end"},
	}}
	first, all := start(), []*engine.Engine{start()}
	if _, err := first.Jobs().Define(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	x, err := first.Enqueue(t.Context(), job.Name, &courier.EnqueueOptions{Params: map[string]any{"numbers": numbers}})
	for all = append(all, first); err == nil && !x.State.Ended(); x, err = s.Execution(t.Context(), x.ID) {
		select {
		case <-killed:
			all = append(all, start())
		case <-time.After(100 * time.Millisecond):
		}
		if time.Since(began) > 20*time.Minute {
			t.Fatalf("it is %s at %+v after %d kills", x.State, x.Position, kills.Load())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d items in %v, with %d workers killed; %d steps were executed", total, time.Since(began).Round(time.Millisecond), kills.Load(), done.Load())
	for _, e := range all {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		e.Stop(ctx)
		cancel()
	}
	if bad := total / 100; x.State != courier.Completed || x.RescuedItems != bad || x.FailedItems != 0 || kills.Load() < int64(*rescuedKills) {
		t.Errorf("it is %s, %+v; %d items were rescued and %d failed, want %d rescued; %d workers were killed", x.State, x.Failure, x.RescuedItems, x.FailedItems, bad, kills.Load())
	}
	completed, rescues := make(map[string]int), 0
	for f := (store.StepFilter{Execution: x.ID, Brief: true, Limit: 10_000}); ; {
		page, err := s.Steps(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		f.After = page[len(page)-1].Seq
		for i := range page {
			if r := &page[i]; r.State == courier.StepCompleted {
				completed[fmt.Sprint(r.ID, r.Iteration)]++
			} else if r.Rescue != nil {
				rescues++
			}
		}
	}
	if rescues != total/100 || len(completed) != total {
		t.Errorf("%d rescues began, and %d steps were completed, want %d and %d", rescues, len(completed), total/100, total)
	}
	for i := range total {
		what := fmt.Sprintf("work[%d]", i)
		if i%100 == 7 {
			what = fmt.Sprintf("aside[%d]", i)
		}
		if n := completed[what]; n != 1 {
			t.Errorf("%s was completed %d times", what, n)
		}
	}
}
