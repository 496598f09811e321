package pgstore_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

var manyRecords = flag.Int("records", 24_000, "how many records the execution of TestFailedItemsPage has")

// TestPlanOfRecords has an execution with many records, a few of which are of failed
// items, beside many other executions. Filters find what they select by an index, and
// read little more than that, whether or not the server has statistics.
func TestPlanOfRecords(t *testing.T) {
	if raced.On {
		return // what it looks at is the server's
	}
	u := pgtest.URL(t)
	s, sent := recorded(t, u)
	pool := dial(t, u)
	for _, table := range []string{"job_executions", "execution_history", "chain_executions"} {
		exec(t, pool, "alter table courier."+table+" set (autovacuum_enabled = off)")
	}
	job := defined(t, s, pool, "j")
	other := past{job: job, state: "completed", count: 50_000, created: 9 * time.Hour, ended: time.Hour}.make(t, pool)[0]
	id := past{job: job, state: "failed", count: 1, created: 10 * time.Hour, ended: time.Hour}.make(t, pool)[0]
	past{job: defined(t, s, pool, "rare"), state: "completed", count: 3, created: 20 * time.Hour, ended: time.Hour}.make(t, pool)
	exec(t, pool, "update courier.job_executions set failed_items = 200, rerun_of = id, last_audit_seq = 200010 where id = '"+id+"'")
	exec(t, pool, `insert into courier.execution_history (execution_id, seq, started_at, at, bytes, execution_attempt, step, attempt, state, step_type, worker, failed_loop)
		select '`+id+`', 10 + 2 * n, now(), now(), 0, 1, 1 + n % 3, 1, case when n % 500 = 0 then 'failed' end, 'file.copy', 'w',
			case when n % 500 = 0 then 0 end from generate_series(1, 100000) n`)
	exec(t, pool, `insert into courier.chain_executions (id, created_at, definition_id, version, created_by, plan, state, member_states, rerun_of)
		select gen_random_uuid(), now(), `+value[string](t, pool, "select id::text from courier.job_definitions")+`, 1, '', '[]', 'completed', '', case when n = 9 then '`+id+`'::uuid end
		from generate_series(1, 20000) n`)
	for _, statistics := range []string{"none", "present"} {
		t.Run(statistics, func(t *testing.T) {
			if statistics == "present" {
				exec(t, pool, "vacuum analyze")
			}
			for _, view := range []string{"job_audit_log", "step_executions"} { // what people ask
				plan := explained(t, pool, "explain select * from courier."+view+" where execution_id = '"+other+"' order by seq")
				if strings.Contains(plan, "Seq Scan on execution_history") || strings.Contains(plan, "Seq Scan on job_executions") {
					t.Errorf("%s of one execution reads all of a table:\n%s", view, plan)
				}
			}
			for _, q := range recordQueries {
				n, err := q.send(t.Context(), s, courier.ExecutionID(id))
				if err != nil || n != q.rows {
					t.Fatalf("%s: %d rows, want %d, %v", q.what, n, q.rows, err)
				}
				read, plan := sent.pagesOf(t, pool, q.name)
				for kind, plan := range map[string]string{"executed": plan, "generic": sent.genericPlan(t, pool, q.name)} {
					if !strings.Contains(plan, q.index) || strings.Contains(plan, "Seq Scan on execution_history") || strings.Contains(plan, "Seq Scan on job_executions") {
						t.Errorf("%s: the %s plan does not use %s:\n%s", q.what, kind, q.index, plan)
					}
				}
				if read > q.pages {
					t.Errorf("%s reads %d pages, at most %d are needed:\n%s", q.what, read, q.pages, plan)
				}
			}
		})
	}
}

// recordQueries are lists of an execution with 100,000 records.
var recordQueries = []struct {
	what, name, index string
	rows, pages       int
	send              func(ctx context.Context, s *pgstore.Store, id courier.ExecutionID) (int, error)
}{
	{"a page of a step", "execution/list_steps_by_index", "execution_history_steps", 50, 100, func(ctx context.Context, s *pgstore.Store, id courier.ExecutionID) (int, error) {
		return count(s.Steps(ctx, store.StepFilter{Execution: id, Attempt: 1, Step: new(2), After: 150_000, Limit: 50}))
	}},
	{"failed items of an attempt", "execution/list_steps_by_index", "execution_history_failed_items", 200, 450, func(ctx context.Context, s *pgstore.Store, id courier.ExecutionID) (int, error) {
		return count(s.Steps(ctx, store.StepFilter{Execution: id, Attempt: 1, FailedItems: true}))
	}},
	{"a page of failed items", "execution/list_steps_by_index", "execution_history_failed_items", 20, 100, func(ctx context.Context, s *pgstore.Store, id courier.ExecutionID) (int, error) {
		return count(s.Steps(ctx, store.StepFilter{Execution: id, FailedItems: true, After: 100_000, Limit: 20}))
	}},
	{"a page of an attempt", "execution/list_steps", "execution_history_pkey", 50, 1500, func(ctx context.Context, s *pgstore.Store, id courier.ExecutionID) (int, error) {
		return count(s.Steps(ctx, store.StepFilter{Execution: id, Attempt: 1, After: 100_000, Limit: 50}))
	}},
	{"a page of failed records", "execution/list_steps_by_index", "execution_history_not_completed", 11, 100, func(ctx context.Context, s *pgstore.Store, id courier.ExecutionID) (int, error) {
		return count(s.Steps(ctx, store.StepFilter{Execution: id, States: []courier.StepState{courier.StepFailed}, After: 190_000, Limit: 50}))
	}},
	{"a page of failed records of a step", "execution/list_steps_by_index", "execution_history_not_completed", 20, 200, func(ctx context.Context, s *pgstore.Store, id courier.ExecutionID) (int, error) {
		return count(s.Steps(ctx, store.StepFilter{Execution: id, Step: new(2), States: []courier.StepState{courier.StepFailed}, After: 50_000, Limit: 20}))
	}},
	{"the latest records before one", "execution/list_latest_steps", "execution_history_steps", 4, 100, func(ctx context.Context, s *pgstore.Store, id courier.ExecutionID) (int, error) {
		return count(s.Latest(ctx, store.LatestFilter{Execution: id, Before: 1000}))
	}},
	{"the records of a page of files", "trail/list_reports", "execution_history_pkey", 100, 1500, func(ctx context.Context, s *pgstore.Store, id courier.ExecutionID) (int, error) {
		var entries []store.TrailEntry
		for n := range int64(100) {
			entries = append(entries, store.TrailEntry{Execution: id, Seq: 12 + 2000*n})
		}
		return count(s.Reports(ctx, entries))
	}},
	{"the newest attempts of a step", "execution/list_transfers", "execution_history_steps", 30, 300, func(ctx context.Context, s *pgstore.Store, id courier.ExecutionID) (int, error) {
		return count(s.Transfers(ctx, store.TransferFilter{Steps: []store.TransferStep{{Execution: id, Attempt: 1, Step: 2}}, Limit: 30}))
	}},
	{"the newest executions of jobs", "execution/list", "job_executions_job", 100, 1000, func(ctx context.Context, s *pgstore.Store, _ courier.ExecutionID) (int, error) {
		return count(s.Executions(ctx, store.Filter{Jobs: []string{"j", "none"}, Limit: 100}))
	}},
	{"the newest executions of rare jobs", "execution/list", "job_executions_job", 3, 60, func(ctx context.Context, s *pgstore.Store, _ courier.ExecutionID) (int, error) {
		return count(s.Executions(ctx, store.Filter{Jobs: []string{"rare", "none"}, Limit: 100}))
	}},
	{"executions with failed items", "execution/list", "job_executions_failed_items", 1, 20, func(ctx context.Context, s *pgstore.Store, _ courier.ExecutionID) (int, error) {
		return count(s.Executions(ctx, store.Filter{FailedItems: true}))
	}},
	{"reruns", "execution/list", "job_executions_rerun_of", 1, 20, func(ctx context.Context, s *pgstore.Store, id courier.ExecutionID) (int, error) {
		return count(s.Executions(ctx, store.Filter{RerunOf: id}))
	}},
	{"reruns of a chain execution", "chain/list", "chain_executions_rerun_of", 1, 20, func(ctx context.Context, s *pgstore.Store, id courier.ExecutionID) (int, error) {
		return count(s.ChainExecutions(ctx, chain.Filter{RerunOf: courier.ChainExecutionID(id)}))
	}},
}

// TestFailedItemsPage has an execution with many records, twelve of which are of failed
// items: the page of these costs no more with a million of them.
func TestFailedItemsPage(t *testing.T) {
	if raced.On {
		return // what it looks at is the server's
	}
	u := pgtest.URL(t)
	s, sent := recorded(t, u)
	pool := dial(t, u)
	id := past{job: defined(t, s, pool, "j"), state: "failed", count: 1, created: 10 * time.Hour, ended: time.Hour}.make(t, pool)[0]
	exec(t, pool, fmt.Sprintf(`insert into courier.execution_history (execution_id, seq, started_at, at, bytes, execution_attempt, step, attempt, state, step_type, worker, failed_loop)
		select '%s', 10 + 2 * n, now(), now(), 0, 1, 1, 1, case when n %% %d = 0 then 'failed' end, 'file.copy', 'w', case when n %% %[2]d = 0 then 0 end
		from generate_series(1, %d) n`, id, *manyRecords/12, *manyRecords))
	exec(t, pool, "analyze")
	var took []time.Duration
	for range 101 {
		began := time.Now()
		list, err := s.Steps(t.Context(), store.StepFilter{Execution: courier.ExecutionID(id), Attempt: 1, FailedItems: true})
		if err != nil || len(list) != 12 {
			t.Fatalf("%d failed items, %v", len(list), err)
		}
		took = append(took, time.Since(began))
	}
	read, plan := sent.pagesOf(t, pool, "execution/list_steps_by_index")
	if read > 60 {
		t.Errorf("it reads %d pages:\n%s", read, plan)
	}
	slices.Sort(took)
	t.Logf("%d records, 12 failed items: %d pages; median %v, 99 of 100 within %v", *manyRecords, read, took[50], took[99])
}

func count[T any](list []T, err error) (int, error) { return len(list), err }
