package pgstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// TestOverdueAfterRetention checks that the deadlines of executions that retention has
// removed raise nothing and are removed when they pass.
func TestOverdueAfterRetention(t *testing.T) {
	u := pgtest.URL(t)
	s, pool := open(t, u, nil), dial(t, u)
	oneExecution(t, s)
	n := store.NewExecution{ID: courier.ExecutionID(idSource.New()), Job: "odd", Version: 1, Queue: "q", MaxDuration: time.Second, ExpectedBy: time.Hour}
	if _, err := s.Enqueue(t.Context(), []store.NewExecution{n}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Request(t.Context(), store.Request{Execution: n.ID, Kind: courier.RequestCancel}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Retain(t.Context(), pgstore.Retention{MaxAge: time.Microsecond}); err != nil || n != 2 {
		t.Fatalf("removed %d, %v", n, err)
	}
	if got, err := s.Overdue(t.Context(), 0); err != nil || len(got.List) != 0 || got.Next <= 0 || got.Next > time.Second {
		t.Errorf("before the deadlines: %+v, %v", got, err)
	}
	exec(t, pool, "update courier.execution_deadlines set due_at = due_at - interval '1 day'")
	if got, err := s.Overdue(t.Context(), 0); err != nil || len(got.List) != 0 || got.Next != 0 {
		t.Errorf("after the deadlines: %+v, %v", got, err)
	}
	var left int
	if err := pool.QueryRow(t.Context(), "select count(*) from courier.execution_deadlines").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d deadlines are left (%v)", left, err)
	}
}

// TestOverdueIsLookedAtAgain checks that the row of an overdue execution raises nothing
// again, and goes once the execution has ended.
func TestOverdueIsLookedAtAgain(t *testing.T) {
	u := pgtest.URL(t)
	s, pool := open(t, u, nil), dial(t, u)
	oneExecution(t, s)
	n := store.NewExecution{ID: courier.ExecutionID(idSource.New()), Job: "odd", Version: 1, Queue: "q", MaxDuration: time.Microsecond}
	if _, err := s.Enqueue(t.Context(), []store.NewExecution{n}); err != nil {
		t.Fatal(err)
	}
	look := func(when string, events, left int) {
		t.Helper()
		got, err := s.Overdue(t.Context(), 0)
		if rows := value[int](t, pool, "select count(*) from courier.execution_deadlines"); err != nil || len(got.List) != events || got.Next != 0 || rows != left {
			t.Errorf("%s: %+v, %v, and %d rows are left", when, got, err, rows)
		}
		exec(t, pool, "update courier.execution_deadlines set due_at = due_at - interval '1 hour'")
	}
	look("at first", 1, 1)
	look("again", 0, 1)
	in, err := s.Incidents(t.Context(), 0)
	if err != nil || len(in.List) != 1 || in.List[0].Since.After(time.Now()) || in.At.Sub(in.List[0].Since) > 30*time.Minute {
		t.Errorf("%+v, %v", in, err)
	}
	if _, err := s.Request(t.Context(), store.Request{Execution: n.ID, Kind: courier.RequestCancel}); err != nil {
		t.Fatal(err)
	}
	look("once it has ended", 0, 0)
}

// TestOverduePlan checks that the look at the deadlines reads a few pages of an index,
// however many deadlines there are, with and without statistics.
func TestOverduePlan(t *testing.T) {
	u := pgtest.URL(t)
	s, sent := recorded(t, u)
	pool := dial(t, u)
	look := func(when string) {
		t.Helper()
		if _, err := s.Overdue(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if plan := sent.genericPlan(t, pool, "deadline/raise_overdue"); strings.Contains(plan, "Seq Scan on execution_deadlines") || !strings.Contains(plan, "execution_deadlines_pkey") {
			t.Errorf("%s: it reads the whole table:\n%s", when, plan)
		}
	}
	exec(t, pool, "insert into courier.execution_deadlines select now() + interval '1 day', gen_random_uuid(), 'max_duration' from generate_series(1, 100000)")
	look("without statistics")
	exec(t, pool, "vacuum analyze courier.execution_deadlines")
	look("with statistics")
}
