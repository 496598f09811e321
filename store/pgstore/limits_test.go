package pgstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// TestRoomOfOthers has a worker wait for room under the global limit that another
// holds who can't execute what waits, and so knows of nothing that waits.
func TestRoomOfOthers(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	busy, waiting := open(t, url, nil), open(t, url, nil)
	define(t, busy, "job")
	set(t, busy, "job.concurrency_limit", "2")
	watched(t, busy)
	watched(t, waiting)
	x := newExecution("job")
	x.StepTypes = []string{"b"}
	enqueueOne(t, busy, x)
	r := request("busy", 5)
	r.StepTypes = []string{"b"}
	held := claimOne(t, busy, r)
	if c, err := busy.Claim(t.Context(), r); err != nil || len(c.List) != 0 {
		t.Fatalf("%v, %v", c.List, err)
	}
	enqueueOne(t, waiting, newExecution("job"))
	claimOne(t, waiting, request("waiting", 5))
	enqueueOne(t, waiting, newExecution("job"))

	// A claim that finds no room may have to be repeated: until then the other does not
	// know that somebody waits for it.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	c, err := waiting.Claim(ctx, request("waiting", 5))
	for n := 0; err == nil && c.Next > 0 && c.Next < time.Second && n < 20; n++ {
		time.Sleep(c.Next)
		c, err = waiting.Claim(ctx, request("waiting", 5))
	}
	if err != nil || len(c.List) != 0 {
		t.Fatalf("%v, %v", c.List, err)
	}
	if err := busy.Apply(ctx, store.Transition{Execution: held.Execution.ID, Lease: held.Token, Seq: held.Seq + 1, To: courier.Completed}); err != nil {
		t.Fatal(err)
	}
	for len(c.List) == 0 {
		if err := waiting.Await(ctx, []string{courier.DefaultQueue}, c.Mark); err != nil {
			t.Fatalf("hear of the room: %v", err)
		}
		if c, err = waiting.Claim(ctx, request("waiting", 5)); err != nil {
			t.Fatal(err)
		}
	}
}

func claimOne(t testing.TB, s *pgstore.Store, r store.ClaimRequest) store.Claimed {
	t.Helper()
	c, err := s.Claim(t.Context(), r)
	if err != nil || len(c.List) != 1 {
		t.Fatalf("claimed %v, %v", c.List, err)
	}
	return c.List[0]
}
