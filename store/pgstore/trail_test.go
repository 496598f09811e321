package pgstore_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// TestRetainRemovesTheTrail removes executions with labels and files with odd names. No
// entry of theirs is left, and those of others stay.
func TestRetainRemovesTheTrail(t *testing.T) {
	u := pgtest.URL(t)
	s, pool := open(t, u, nil), dial(t, u)
	defined(t, s, pool, "j")
	names := []string{"A/B", "dir/", "Ä/ÄÖ-Z", strings.Repeat("Ü", 300), `x\Y`, "a\nb/C\nD", `%_'"`, "\u202eabc", "same", "same"}
	end := func() courier.ExecutionID {
		t.Helper()
		n := store.NewExecution{
			ID: courier.ExecutionID(idSource.New()), Job: "j", Version: 1, StepTypes: []string{"file.copy"}, Queue: "default",
			Labels: map[string]string{"partner": "acme", "odd": `it's "odd" \ %`},
		}
		if _, err := s.Enqueue(t.Context(), []store.NewExecution{n}); err != nil {
			t.Fatal(err)
		}
		got, err := s.Claim(t.Context(), store.ClaimRequest{Worker: "w", StepTypes: n.StepTypes, Queues: []string{"default"}, Max: 1, Lease: time.Hour})
		if err != nil || len(got.List) != 1 {
			t.Fatalf("claimed %d, %v", len(got.List), err)
		}
		c := &got.List[0]
		move := store.Transition{Execution: n.ID, Lease: c.Token, Seq: c.Seq + 1, To: courier.Completed}
		for i, name := range names {
			move.Ended = append(move.Ended, courier.StepExecution{Step: i, Attempt: 1, Type: "file.copy", State: courier.StepCompleted, Files: []courier.File{{Path: name}, {Path: "second/" + name}}})
		}
		if err := s.Apply(t.Context(), move); err != nil {
			t.Fatal(err)
		}
		return n.ID
	}
	old, recent := end(), end()
	count := func(id courier.ExecutionID) int {
		return value[int](t, pool, fmt.Sprintf("select count(*) from courier.trail where execution_id = '%s'", id))
	}
	if n := count(old); n != 2+len(names)-1 || count(recent) != n {
		t.Fatalf("the trail has %d entries of an execution, want %d: two labels, and one for each record with a name", n, 2+len(names)-1)
	}
	if n, err := s.Retain(t.Context(), pgstore.Retention{MaxCount: 1}); err != nil || n != 1 {
		t.Fatalf("removed %d, %v", n, err)
	}
	if a, b := count(old), count(recent); a != 0 || b != 2+len(names)-1 {
		t.Errorf("%d entries are left of the removed execution, %d of the other", a, b)
	}
}

// TestFindFilesStatements finds a page of 100 reports in two statements.
func TestFindFilesStatements(t *testing.T) {
	u := pgtest.URL(t)
	var mu sync.Mutex
	var sent []string
	s := traced(t, u, nil, func(name, _ string, _ []any) {
		mu.Lock()
		defer mu.Unlock()
		if name != "notify/send" { // which follows a write, in the background
			sent = append(sent, name)
		}
	})
	defined(t, s, dial(t, u), "j")
	n := store.NewExecution{ID: courier.ExecutionID(idSource.New()), Job: "j", Version: 1, StepTypes: []string{"file.copy"}, Queue: "default"}
	if _, err := s.Enqueue(t.Context(), []store.NewExecution{n}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Claim(t.Context(), store.ClaimRequest{Worker: "w", StepTypes: n.StepTypes, Queues: []string{"default"}, Max: 1, Lease: time.Hour})
	if err != nil || len(got.List) != 1 {
		t.Fatalf("claimed %d, %v", len(got.List), err)
	}
	c := &got.List[0]
	end := store.Transition{Execution: n.ID, Lease: c.Token, Seq: c.Seq + 1, To: courier.Completed}
	for i := range 120 {
		end.Ended = append(end.Ended, courier.StepExecution{Step: i, Attempt: 1, Type: "file.copy", State: courier.StepCompleted, Files: []courier.File{{Path: fmt.Sprintf("dir/same-%03d", i)}}})
	}
	if err := s.Apply(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	e := engine.New(s, nil, nil)
	mu.Lock()
	sent = nil
	mu.Unlock()
	found, err := e.Executions().FindFiles(t.Context(), engine.FileFilter{Name: "same*"})
	if err != nil || len(found) != 100 || found[99].Step.Step != 20 || found[99].Files[0].Path != "dir/same-020" {
		t.Fatalf("found %d, %v", len(found), err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(sent, []string{"trail/find", "trail/list_reports"}) {
		t.Errorf("statements: %q", sent)
	}
}
