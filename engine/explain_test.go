package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
)

// TestExplainOfMisspelledQueue asks a program without step types why an execution waits:
// its queue is misspelled, and then no worker has its step type.
func TestExplainOfMisspelledQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, nil)
		h.Stub("demo.a", nil)
		reg := new(courier.Registry) // without demo.b
		courier.RegisterFunc(reg, "demo.a", func(context.Context, *courier.Context, struct{}) (struct{}, error) { return struct{}{}, nil }, nil)
		e := engine.New(h.Store, reg, &engine.Options{Queues: []string{"night"}, Worker: "w", Workspace: t.TempDir()})
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer e.Stop(t.Context())
		synctest.Wait()
		waiting := enqueueIn(t, h, h.Engine, "job", "demo.a", "nigth")
		h.Stub("demo.b", nil)
		typed := enqueueIn(t, h, h.Engine, "typed", "demo.b", "night")
		front := engine.New(h.Store, nil, nil)
		for id, want := range map[courier.ExecutionID]string{
			waiting: `No worker serves the queue "nigth". Did you mean "night"?`,
			typed:   `No worker that serves the queue "night" has the step types demo.b.`,
		} {
			got, err := front.Executions().Explain(t.Context(), id)
			if err != nil || got.Status != "queued" || len(got.Because) != 1 || got.Because[0].Text != want || got.Because[0].Kind != advice.NoWorker {
				t.Errorf("explained %+v, %v, want %s", got, err, want)
			}
		}
		census, err := front.Executions().Census(t.Context(), 0)
		if err != nil || len(census.Queues) != 2 || census.Queues[0].Queue != "night" || census.Queues[1].Oldest != waiting {
			t.Errorf("census %+v, %v", census, err)
		}
		workers, err := front.Workers(t.Context())
		if err != nil || len(workers) != 1 || workers[0].Name != "w" {
			t.Errorf("workers %+v, %v", workers, err)
		}
		if _, err := front.Executions().Explain(t.Context(), "nobody"); !errors.Is(err, courier.ErrNotFound) {
			t.Errorf("of none: %v", err)
		}
	})
}

// TestStoreWithoutOverview names the role that the store lacks.
func TestStoreWithoutOverview(t *testing.T) {
	h := couriertest.New(t, nil)
	e := engine.New(struct{ store.Store }{h.Store}, nil, nil)
	_, explained := e.Executions().Explain(t.Context(), "x")
	_, counted := e.Executions().Census(t.Context(), 0)
	_, listed := e.Workers(t.Context())
	for role, err := range map[string]error{"store.Overview": errors.Join(explained, counted), "store.Workers": listed} {
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), role) {
			t.Errorf("without %s: %v", role, err)
		}
	}
}
