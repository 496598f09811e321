package memstore

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/uuid7"
	"github.com/courierhq/courier/store"
)

// stock returns a store with n executions that are queued.
func stock(tb testing.TB, n int, change func(i int, n *store.NewExecution)) *Store {
	s, ctx := New(), context.Background()
	if _, err := s.Save(ctx, store.Definition{Kind: store.Job, Name: "job", Body: json.RawMessage(`{}`)}); err != nil {
		tb.Fatal(err)
	}
	if err := s.Set(ctx, store.LimitSetting(""), "0"); err != nil {
		tb.Fatal(err)
	}
	var ids uuid7.Source
	list := make([]store.NewExecution, n)
	for i := range list {
		list[i] = store.NewExecution{
			ID: courier.ExecutionID(ids.New()), Job: "job", Version: 1, StepTypes: []string{"file.copy", "file.zip"}, Queue: "default",
		}
		if change != nil {
			change(i, &list[i])
		}
	}
	if _, err := s.Enqueue(ctx, list); err != nil {
		tb.Fatal(err)
	}
	return s
}

func request(max int) store.ClaimRequest {
	return store.ClaimRequest{
		Worker: "worker", StepTypes: []string{"file.copy", "file.zip"}, Queues: []string{"default"}, Max: max, Lease: time.Hour,
	}
}

// BenchmarkApply writes checkpoints: one step ends, the next starts. The number
// is that of executions at once, each with its own goroutine.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ctx := b.Context()
			s := stock(b, n, nil)
			claims, err := s.Claim(ctx, request(n))
			if err != nil || len(claims.List) != n {
				b.Fatal(len(claims.List), err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					if err := checkpoints(ctx, s, &claims.List[i], b.N/n+1); err != nil {
						b.Error(err)
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "applies/s")
		})
	}
}

func checkpoints(ctx context.Context, s *Store, c *store.Claimed, n int) error {
	outputs := json.RawMessage(`{"copied_file": "1/0/a.txt"}`)
	seq := c.Seq + 1
	for i := range n {
		start := courier.StepExecution{Step: i%10 + 1, Type: "file.copy", Attempt: 1}
		t := store.Transition{
			Execution: c.Execution.ID, Lease: c.Token, Seq: seq, To: courier.Running, Start: &start,
			Position: courier.Position{Step: i%10 + 1}, Counters: store.Counters{Attempts: 1},
		}
		seq++
		if i > 0 {
			t.Ended = []courier.StepExecution{{
				Step: (i-1)%10 + 1, Type: "file.copy", Attempt: 1, State: courier.StepCompleted, Bytes: 1000, Outputs: outputs,
			}}
			seq++
		}
		if err := s.Apply(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkClaim claims one execution and gives it back, while many wait.
func BenchmarkClaim(b *testing.B) {
	for _, n := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ctx := b.Context()
			s := stock(b, n, func(i int, n *store.NewExecution) { n.Priority = int16(i % 3) })
			b.ReportAllocs()
			for b.Loop() {
				claims, err := s.Claim(ctx, request(1))
				if err != nil {
					b.Fatal(err)
				}
				c := &claims.List[0]
				err = s.Apply(ctx, store.Transition{Execution: c.Execution.ID, Lease: c.Token, Seq: c.Seq + 1, To: courier.Queued})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkClaimPassesOver claims where 100,000 executions stand in front that
// the limits of 100 keys hold back.
func BenchmarkClaimPassesOver(b *testing.B) {
	ctx := b.Context()
	s := stock(b, 100_000, func(i int, n *store.NewExecution) { n.LimitKeys = []string{fmt.Sprint(i % 100)}; n.Priority = 1 })
	for i := range 100 {
		if err := s.Set(ctx, store.LimitSetting(fmt.Sprint("key:", i)), "1"); err != nil {
			b.Fatal(err)
		}
	}
	if claims, err := s.Claim(ctx, request(1000)); err != nil || len(claims.List) != 100 {
		b.Fatal(len(claims.List), err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if claims, err := s.Claim(ctx, request(1)); err != nil || len(claims.List) != 0 {
			b.Fatal(len(claims.List), err)
		}
	}
}

// BenchmarkEnqueue creates executions one by one.
func BenchmarkEnqueue(b *testing.B) {
	ctx := b.Context()
	s := stock(b, 0, nil)
	var ids uuid7.Source
	n := store.NewExecution{Job: "job", Version: 1, StepTypes: []string{"file.copy"}, Queue: "default"}
	b.ReportAllocs()
	for b.Loop() {
		n.ID = courier.ExecutionID(ids.New())
		if _, err := s.Enqueue(ctx, []store.NewExecution{n}); err != nil {
			b.Fatal(err)
		}
	}
}
