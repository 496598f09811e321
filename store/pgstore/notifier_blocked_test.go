package pgstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// TestSlotFreedByAnotherStore checks that a worker that waits for room under a limit is
// woken when the worker of another store frees a slot. That one lacks the step types of
// the waiting executions.
func TestSlotFreedByAnotherStore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		limits map[string]string
		key    string // of all executions
		held   int    // by the other
		queued int
		now    int // how many of these can be claimed before the other ends one
	}{
		{"the limit is reached", map[string]string{"": "2"}, "", 2, 1, 0},
		{"the limit leaves room for one of two", map[string]string{"": "2"}, "", 1, 2, 1},
		{"a key is full", map[string]string{"": "0", "key:k": "1"}, "k", 1, 1, 0},
		{"a key has room for one of two", map[string]string{"": "0", "key:k": "2"}, "k", 1, 2, 1},
		{"the job is full", map[string]string{"": "0", "job:job": "1"}, "", 1, 1, 0},
		{"the job has room for one of two", map[string]string{"": "0", "job:job": "2"}, "", 1, 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			other, waiting := open(t, url, nil), open(t, url, nil)
			define(t, other, "job")
			for scope, n := range c.limits {
				set(t, other, store.LimitSetting(scope), n)
			}
			watched(t, other)
			watched(t, waiting)
			enqueue := func(n int, stepType string) {
				list := make([]store.NewExecution, n)
				for i := range list {
					list[i] = newExecution("job")
					if list[i].StepTypes = []string{stepType}; c.key != "" {
						list[i].LimitKeys = []string{c.key}
					}
				}
				if _, err := other.Enqueue(t.Context(), list); err != nil {
					t.Fatal(err)
				}
			}
			r := request("other", 5)
			r.StepTypes = []string{"b"}
			enqueue(c.held, "b")
			held := claimN(t, other, r, c.held)[0]
			claimN(t, other, r, 0)

			r = request("waiting", 5)
			enqueue(c.queued, "a")
			claimN(t, waiting, r, c.now)
			for started := time.Now(); !pgstore.OthersBlocked(other); time.Sleep(time.Millisecond) {
				if time.Since(started) > 5*time.Second {
					t.Fatal("the other does not hear that somebody waits for room")
				}
			}
			mark := quiet(t, waiting, r)
			if err := other.Apply(t.Context(), store.Transition{Execution: held.Execution.ID, Lease: held.Token, Seq: held.Seq + 1, To: courier.Completed}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if err := waiting.Await(ctx, []string{courier.DefaultQueue}, mark); err != nil {
				t.Fatalf("hear of the room: %v", err)
			}
			claimN(t, waiting, r, 1)
		})
	}
}

// quiet claims nothing until no bell has rung for a while.
func quiet(t *testing.T, s *pgstore.Store, r store.ClaimRequest) (mark uint64) {
	t.Helper()
	for range 20 {
		c, err := s.Claim(t.Context(), r)
		if err != nil || len(c.List) != 0 {
			t.Fatalf("claimed %v, %v", c.List, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err = s.Await(ctx, []string{courier.DefaultQueue}, c.Mark)
		cancel()
		if err != nil {
			return c.Mark
		}
	}
	t.Fatal("a bell keeps ringing")
	return 0
}

func claimN(t testing.TB, s *pgstore.Store, r store.ClaimRequest, n int) []store.Claimed {
	t.Helper()
	c, err := s.Claim(t.Context(), r)
	if err != nil || len(c.List) != n {
		t.Fatalf("claimed %v, %v, want %d", c.List, err, n)
	}
	return c.List
}
