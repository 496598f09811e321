package engine_test

import (
	"context"
	"errors"
	"fmt"
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

// A deed is what a step does.
type deed func(ctx context.Context, job *courier.Context) error

// A doings keeps what steps do, and has some of them fail.
type doings struct {
	mu    sync.Mutex
	done  []string
	fails map[string]courier.Reason // by what the step would note
	deeds map[string]deed           // likewise
}

func (d *doings) stub(h *couriertest.Harness) {
	h.Stub("demo.do", func(ctx context.Context, job *courier.Context, config map[string]any) (map[string]any, error) {
		what := fmt.Sprint(config["what"])
		d.mu.Lock()
		d.done = append(d.done, what)
		class, does := d.fails[what], d.deeds[what]
		d.mu.Unlock()
		if class != "" {
			return nil, courier.WithClass(errors.New(what+" is bad"), class)
		}
		if does != nil {
			if err := does(ctx, job); err != nil {
				return nil, err
			}
		}
		return map[string]any{"out": "of " + what}, nil
	})
}

// begin defines a job, and enqueues it.
func (d *doings) begin(t *testing.T, h *couriertest.Harness, text string) courier.ExecutionID {
	t.Helper()
	d.stub(h)
	return enqueue(t, h.Engine, h.Job(text))
}

// enqueue defines a job, and enqueues it.
func enqueue(t *testing.T, e *engine.Engine, job courier.Job) courier.ExecutionID {
	t.Helper()
	if _, err := e.Jobs().Define(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	x, err := e.Enqueue(t.Context(), job.Name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return x.ID
}

// did is what was done until now.
func (d *doings) did() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.done, "|")
}

// taken is what was done since it was last called.
func (d *doings) taken() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := strings.Join(d.done, " ")
	d.done = nil
	return s
}

func (d *doings) set(fails map[string]courier.Reason) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails = fails
}

// until is a deed that lasts until the step is told to end.
func until(ctx context.Context, _ *courier.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// lasting is a deed that takes a while.
func lasting(d time.Duration) deed {
	return func(ctx context.Context, _ *courier.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// lostAt is a store that can't be reached any more from one of the writes of progress on: from
// before the n-th if at is 2n, from behind it if at is 2n+1.
func lostAt(s store.Store, at int) store.Store {
	writes, dead := 0, false
	var mu sync.Mutex
	return storewrap.Intercept(s, func(c ctx, call *storewrap.Call, do func(ctx) error) error {
		mu.Lock()
		defer mu.Unlock()
		if call.Method == "Apply" {
			if dead = dead || writes == at; !dead {
				defer func() { dead = dead || writes == at+1 }()
			}
			writes += 2
		}
		if dead || call.Method == "Await" || call.Method == "AwaitSchedules" {
			return errors.New("killed")
		}
		return do(c)
	})
}

// outlive has a worker begin an execution, which is lost at one of its writes, see lostAt, and
// another one go on. Begin gets the other one before both have started, and meanwhile when the
// first one had a minute. It returns how the execution has ended, and the records.
func outlive(t *testing.T, h *couriertest.Harness, at int, begin func(b *engine.Engine) courier.ExecutionID, meanwhile func(b *engine.Engine, id courier.ExecutionID)) (courier.Execution, []courier.StepExecution) {
	t.Helper()
	dir := t.TempDir()
	a := engine.New(lostAt(h.Store, at), h.Registry, &engine.Options{Workspace: dir, Worker: "a", Grace: time.Second})
	b := engine.New(h.Store, h.Registry, &engine.Options{Workspace: dir, Worker: "b"})
	id := begin(b)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	if meanwhile != nil {
		meanwhile(b, id)
		time.Sleep(time.Minute)
	}
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	x, err := b.Wait(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	records, err := b.Executions().StepsPage(t.Context(), store.StepFilter{Execution: id})
	if err != nil {
		t.Fatal(err)
	}
	b.Stop(t.Context())
	a.Stop(t.Context())
	return x, records
}

// completedIn counts the completed attempts of records, by step and iteration.
func completedIn(records []courier.StepExecution) map[string]int {
	completed := make(map[string]int)
	for _, r := range records {
		if r.State == courier.StepCompleted {
			completed[fmt.Sprint(r.Step, r.Iteration)]++
		}
	}
	return completed
}
