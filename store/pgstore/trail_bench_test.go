package pgstore_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// BenchmarkFiles runs executions of ten steps that report a file each, 64 at once, and
// counts the processor time of a step. The trail's cost is the difference between the
// commits before and after it was added, by turns on one machine; Labels of the new
// executions are the difference between the two kinds.
func BenchmarkFiles(b *testing.B) {
	for _, kind := range []string{"none", "files", "files and labels"} {
		b.Run(kind, func(b *testing.B) {
			u := pgtest.URL(b)
			s, pool := unlimited(b, u), dial(b, u)
			tenSteps(b, s, kind, 256) // so that connections and plans are there
			report := metered(b, pool)
			b.ResetTimer()
			tenSteps(b, s, kind, b.N)
			report(time.Microsecond*10, "us/step")
		})
	}
}

// tenSteps runs so many executions of ten steps, 64 at once.
func tenSteps(b *testing.B, s *pgstore.Store, kind string, n int) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for next.Add(1) <= int64(n) {
				if err := run10(b, s, kind); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func run10(b *testing.B, s *pgstore.Store, kind string) error {
	ctx, id := b.Context(), courier.ExecutionID(idSource.New())
	n := store.NewExecution{ID: id, Job: "j", Version: 1, Queue: "default", StepTypes: []string{"a"}}
	label(&n, kind)
	if _, err := s.Enqueue(ctx, []store.NewExecution{n}); err != nil {
		return err
	}
	got, err := s.Claim(ctx, store.ClaimRequest{Worker: "w", StepTypes: n.StepTypes, Queues: []string{"default"}, Max: 1, Lease: time.Hour, Only: []courier.ExecutionID{id}})
	if err != nil || len(got.List) != 1 {
		return fmt.Errorf("claimed %d: %w", len(got.List), err)
	}
	c := &got.List[0]
	t := store.Transition{Execution: id, Lease: c.Token, Seq: c.Seq + 1, To: courier.Running, Start: &courier.StepExecution{Type: "a", Attempt: 1}}
	if err := s.Apply(ctx, t); err != nil {
		return err
	}
	for i := range 10 {
		t.Seq++
		if i > 0 {
			t.Seq++
		}
		ended := courier.StepExecution{Step: i, Type: "a", Attempt: 1, State: courier.StepCompleted}
		if kind != "none" {
			ended.Files = []courier.File{{Path: fmt.Sprintf("%d/1/invoice-%s-%d.csv", i, id[9:], i), Size: 4096}}
		}
		t.Ended, t.Position.Step = []courier.StepExecution{ended}, i+1
		if t.Start = (&courier.StepExecution{Step: i + 1, Type: "a", Attempt: 1}); i == 9 {
			t.Start, t.To = nil, courier.Completed
		}
		if err := s.Apply(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// label gives a new execution a label, if its kind has any.
func label(n *store.NewExecution, kind string) {
	if kind == "files and labels" {
		n.Labels = map[string]string{"partner": "acme-" + string(n.ID[30:])}
	}
}
