package pgstore_test

import (
	"context"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// A sent is a statement as it was sent.
type sent struct {
	sql  string
	args []any
}

// A recorder keeps the last statement of each name that a store sends.
type recorder struct {
	mu   sync.Mutex
	last map[string]sent
}

func (r *recorder) note(name, sql string, args []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last[name] = sent{sql, args}
}

// of returns the last statement of a name, empty if there was none.
func (r *recorder) of(name string) sent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[name]
}

// recorded returns a store and the statements it sends from now on.
func recorded(t *testing.T, u string) (*pgstore.Store, *recorder) {
	t.Helper()
	r := &recorder{last: make(map[string]sent)}
	return traced(t, u, nil, r.note), r
}

// TestOldSnapshot shows that a claim that begins behind the last claimed row does
// not read what was claimed before, and can't be removed as long as somebody
// holds a snapshot that is older.
func TestOldSnapshot(t *testing.T) {
	u := pgtest.URL(t)
	s, sent := recorded(t, u)
	pool := dial(t, u)
	job := defined(t, s, pool, "j")
	work(t, s)
	// A planner that has seen nothing run would take an index of what does for all.
	exec(t, pool, "update courier.job_executions set state = 'completed', lease_expires_at = null where state = 'running'")
	exec(t, pool, "vacuum analyze courier.job_executions")
	if plan := sent.genericPlan(t, pool, "claim/queued_without_limits"); strings.Contains(plan, "Index Cond: (state = 'running'::text)\n") {
		t.Errorf("a claim walks over all that ran, also where it need not:\n%s", plan)
	}
	old, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer old.Rollback(context.WithoutCancel(t.Context()))
	if _, err := old.Exec(t.Context(), "set transaction isolation level repeatable read; select txid_current()", pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	past{job: job, state: "queued", count: 50_000, created: time.Hour}.make(t, pool)
	exec(t, pool, "update courier.job_executions set state = 'completed' where state = 'queued'")
	const nobody = "00000000-0000-0000-0000-000000000000"
	read := func(due time.Duration) int {
		q := sent.of("claim/queued_fast")
		q.args = slices.Clone(q.args)
		q.args[7], q.args[8], q.args[9] = []int32{0}, []string{time.Now().Add(-due).Format(time.RFC3339Nano)}, []string{nobody}
		sent.note("claim/queued_fast", q.sql, q.args)
		return pages(t, pool, sent)["claim/queued_fast"]
	}
	all, behind := read(2*time.Hour), read(time.Hour-51*time.Second)
	t.Logf("%d pages from the start, %d from behind what was claimed", all, behind)
	if all < 400 || behind > all/8 {
		t.Error("it reads what was claimed before")
	}
	exec(t, pool, "update courier.job_executions set state = 'running', lease_expires_at = now(), lease_token = id where state = 'completed' and created_at < now() - interval '10 minutes'")
	exec(t, pool, "update courier.job_executions set state = 'completed', lease_expires_at = null where state = 'running' and created_at < now() - interval '10 minutes'")
	look := func(suspects []string) int {
		q := sent.of("claim/queued_without_limits")
		q.args = slices.Clone(q.args)
		q.args[9], q.args[10], q.args[11], q.args[12], q.args[13] = true, []int32{0}, []string{time.Now().Format(time.RFC3339Nano)}, []string{nobody}, suspects
		sent.note("claim/queued_without_limits", q.sql, q.args)
		return pages(t, pool, sent)["claim/queued_without_limits"]
	}
	queued := all
	all, behind = look(nil), look([]string{})
	t.Logf("%d pages to look at all that runs, %d to look at nothing", all, behind)
	if all < 400 || behind > all/8 {
		t.Error("a look that needs nothing reads what ran before")
	}
	if _, err := s.Workers(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stranded(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, "update courier.workers set seen_at = now() - interval '1 hour'") // so that their leases count
	for name, rest := range map[string]int{"claim/find_passed_over": 0, "worker/list": 0, "worker/list_stranded": queued} {
		q := sent.of(name)
		q.args = slices.Clone(q.args)
		since := slices.Index(q.args, any("-infinity"))
		if since < 0 {
			t.Fatalf("%s does not walk over all that runs: %v", name, q.args)
		}
		if name == "claim/find_passed_over" {
			q.args[7] = false // whether to walk through the queues
			sent.note(name, q.sql, q.args)
		}
		all := pages(t, pool, sent)[name]
		q.args[since] = time.Now().Add(-time.Minute).UTC().Format(time.RFC3339Nano)
		sent.note(name, q.sql, q.args)
		behind := pages(t, pool, sent)[name]
		t.Logf("%s: %d pages with all that ran, %d with what was claimed in the last minute", name, all, behind)
		if all-rest < 400 || behind-rest > (all-rest)/8 {
			t.Errorf("%s reads what ran before", name)
		}
	}
	held := make([]store.Lease, 300)
	for i := range held {
		held[i] = store.Lease{Execution: newExecution("j").ID, Token: nobody}
	}
	if _, err := s.Renew(t.Context(), store.RenewRequest{Worker: "w", For: time.Minute, Leases: held}); err != nil {
		t.Fatal(err)
	}
	renewal := pages(t, pool, sent)["lease/renew"]
	t.Logf("%d pages to renew %d leases", renewal, len(held))
	if renewal > all/4 {
		t.Error("a renewal reads what ran before")
	}
}

// finishedBefore is how many executions have finished before those that wait.
const finishedBefore, waitingNow = 200_000, 10_000

// TestPlan has a long history, and checks how the server carries out what is
// sent for each claim and each step: by the indexes, and reading about as much as
// with no history, whether or not the server has statistics.
func TestPlan(t *testing.T) {
	if raced.On {
		return // what it looks at is the server's
	}
	u := pgtest.URL(t)
	s, sent := recorded(t, u)
	pool := dial(t, u)
	job := defined(t, s, pool, "j")
	for _, table := range []string{"job_executions", "execution_history"} {
		exec(t, pool, "alter table courier."+table+" set (autovacuum_enabled = off)")
	}
	work(t, s) // with hardly anything there
	empty := pages(t, pool, sent)
	past{job: job, state: "completed", count: finishedBefore, created: 9 * time.Hour, ended: time.Hour}.make(t, pool)
	for _, statistics := range []string{"none", "from before", "present", "of many that wait"} {
		t.Run(statistics, func(t *testing.T) {
			switch statistics {
			case "none":
				past{job: job, state: "queued", count: waitingNow, created: time.Hour}.make(t, pool)
			case "from before":
				exec(t, pool, "update courier.job_executions set queue = 'elsewhere', state = 'created' where state = 'queued'; analyze")
				exec(t, pool, "update courier.job_executions set queue = 'default', state = 'queued' where state = 'created'")
				exec(t, pool, "vacuum") // which leaves the statistics as they are
			case "present":
				exec(t, pool, "analyze")
			case "of many that wait":
				past{job: job, state: "queued", count: 10 * waitingNow, created: time.Hour}.make(t, pool)
				exec(t, pool, "vacuum analyze")
			}
			work(t, s)
			for name, indexes := range map[string][]string{
				"claim/queued_without_limits": {"job_executions_queued"},
				"claim/queued_fast":           {"job_executions_queued"},
				"claim/queued_with_limits":    {"job_executions_queued", "job_executions_running"},
				"checkpoint/write":            {"job_executions_pkey"},
				"checkpoint/write_fast":       {"job_executions_pkey"},
				"delivery/keep_events":        {"job_executions_pkey", "execution_history_pkey"},
				"trail/keep":                  {"execution_history_pkey"},
				"enqueue/keep_labels":         {"job_executions_pkey"},
				"enqueue/keep_deadlines":      {"job_executions_pkey"},
				"lease/renew":                 {"job_executions_pkey"},
				"lease/renew_progress":        {"job_executions_pkey"},
				"lease/get_state":             {"job_executions_pkey"},
				"claim/find_passed_over":      {"job_executions_queued", "job_executions_running", "job_executions_pkey"},
				"worker/list":                 {"job_executions_running", "job_executions_pkey"},
				"worker/list_stranded":        {"job_executions_running", "job_executions_pkey", "job_executions_queued"},
				"execution/list_latest_steps": {"execution_history_steps"},
				"overview/census":             {"job_executions_queued", "job_executions_state", "job_executions_running"},
				"overview/circumstances":      {"job_executions_pkey", "job_executions_queued", "job_executions_running"},
				"overview/incidents":          {"job_executions_job", "job_executions_state", "job_executions_running", "job_executions_pkey"},
				"retention/find_jobs":         {"job_executions_job"},
				"retention/remove_executions": {"job_executions_job"},
			} {
				if sent.of(name).sql == "" {
					t.Errorf("%s was not sent", name)
					continue
				}
				for kind, plan := range map[string]string{"custom": sent.customPlan(t, pool, name), "generic": sent.genericPlan(t, pool, name)} {
					if strings.Contains(plan, "Seq Scan on job_executions") || strings.Contains(plan, "Seq Scan on execution_history") {
						t.Errorf("%s: the %s plan reads all of a table:\n%s", name, kind, plan)
					}
					// Retention is rare, and goes through much.
					if c := cost(t, plan); c >= jitAbove && !strings.HasPrefix(name, "retention/") {
						t.Errorf("%s: the %s plan is estimated at %.0f; from %d on the server compiles it each time, which takes longer than the statement", name, kind, c, jitAbove)
					}
					for _, i := range indexes {
						if !strings.Contains(plan, i) {
							t.Errorf("%s: the %s plan does not use %s:\n%s", name, kind, i, plan)
						}
					}
				}
			}
			for name, n := range pages(t, pool, sent) {
				most := 4*empty[name] + 300
				if strings.HasPrefix(name, "overview/") {
					most += 2 * store.DefaultCountLimit // they count so many, perhaps each on a page of its own
				}
				if n > most {
					t.Errorf("%s reads %d pages; %d with no history", name, n, empty[name])
				}
			}
		})
	}
}

// work has a store send all statements that an engine sends often.
func work(t *testing.T, s *pgstore.Store) {
	t.Helper()
	ctx := t.Context()
	workWatched(t, s)
	for _, limit := range []string{"100000", "0"} { // without in the end: then all that is sent again takes effect
		if err := s.Set(ctx, store.LimitSetting(""), limit); err != nil {
			t.Fatal(err)
		}
		enqueue := func() {
			if _, err := s.Enqueue(ctx, []store.NewExecution{{ID: courier.ExecutionID(idSource.New()), Job: "j", Version: 1, StepTypes: []string{"file.copy"}, Queue: "default"}}); err != nil {
				t.Fatal(err)
			}
		}
		for range 19 {
			enqueue()
		}
		r := store.ClaimRequest{Worker: "w", StepTypes: []string{"file.copy"}, Queues: []string{"default"}, Max: 10, Lease: time.Hour}
		if _, err := s.Claim(ctx, r); err != nil { // learns whether there are limits
			t.Fatal(err)
		}
		enqueue() // which wakes the next claim, however long the first one took
		got, err := s.Claim(ctx, r)
		if err != nil || len(got.List) != 10 {
			t.Fatalf("claimed %d, %v", len(got.List), err)
		}
		if _, _, err := pgstore.Probe(ctx, s, r); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Workers(ctx, time.Minute); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Stranded(ctx, time.Minute); err != nil {
			t.Fatal(err)
		}
		x := got.List[0]
		lease := store.Lease{Execution: x.Execution.ID, Token: x.Token}
		for range 2 {
			if _, err := s.Renew(ctx, store.RenewRequest{Worker: "w", Leases: []store.Lease{lease}, For: time.Hour}); err != nil {
				t.Fatal(err)
			}
			lease.Progress = &store.Progress{Attempt: 1, Report: &courier.Progress{Item: "a.csv", Done: 1, Total: 2}}
		}
		start := &courier.StepExecution{Step: 0, Attempt: 1, Type: "file.copy"}
		if err := s.Apply(ctx, store.Transition{Execution: x.Execution.ID, Lease: x.Token, Seq: x.Seq + 1, To: courier.Running, Start: start}); err != nil {
			t.Fatal(err)
		}
		next := store.Transition{Execution: x.Execution.ID, Lease: x.Token, Seq: x.Seq + 2, To: courier.Completed,
			Position: courier.Position{Step: 1}, Ended: []courier.StepExecution{{Step: 0, Attempt: 1, Type: "file.copy", State: courier.StepCompleted}}}
		for range 2 { // the second time the store looks how it stands
			if err := s.Apply(ctx, next); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Latest(ctx, store.LatestFilter{Execution: x.Execution.ID}); err != nil {
			t.Fatal(err)
		}
		y := got.List[1]
		back := store.Transition{Execution: y.Execution.ID, Lease: y.Token, Seq: y.Seq + 1, To: courier.Queued, Delay: 24 * time.Hour}
		if err := s.Apply(ctx, back); err != nil {
			t.Fatal(err)
		}
	}
	health(t, s)
	if _, err := s.Census(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Incidents(ctx, 0); err != nil {
		t.Fatal(err)
	}
	list, err := s.Executions(ctx, store.Filter{States: []courier.State{courier.Queued}, Limit: 1})
	if err == nil {
		_, err = s.Circumstances(ctx, list[0].ID, time.Minute)
	}
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.Retain(ctx, pgstore.Retention{MaxAge: time.Minute * 50, MaxCount: finishedBefore - 500}); err != nil {
		t.Fatalf("removed %d, %v", n, err)
	}
}

// workWatched has a store send what it sends behind others: for labels, deadlines, files and
// events.
func workWatched(t *testing.T, s *pgstore.Store) {
	t.Helper()
	ctx := t.Context()
	if err := s.Set(ctx, store.LimitSetting(""), "0"); err != nil {
		t.Fatal(err)
	}
	if err := s.PutSubscription(ctx, notify.Record{Name: "s", Channel: "c", Events: []courier.EventType{courier.EventStepCompleted}, Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	n := store.NewExecution{ID: courier.ExecutionID(idSource.New()), Job: "j", Version: 1, StepTypes: []string{"file.copy"}, Queue: "watched",
		First: &courier.StepExecution{Type: "file.copy"}, Labels: map[string]string{"partner": "acme"}, MaxDuration: time.Hour}
	if _, err := s.Enqueue(ctx, []store.NewExecution{n}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Claim(ctx, store.ClaimRequest{Worker: "w", StepTypes: []string{"file.copy"}, Queues: []string{"watched"}, Max: 1, Lease: time.Hour})
	if err != nil || len(got.List) != 1 {
		t.Fatalf("claimed %d, %v", len(got.List), err)
	}
	x := got.List[0]
	ended := courier.StepExecution{Step: 0, Attempt: 1, Type: "file.copy", State: courier.StepCompleted, Files: []courier.File{{Path: "a.csv"}}}
	err = s.Apply(ctx, store.Transition{Execution: x.Execution.ID, Lease: x.Token, Seq: x.Seq + 1, To: courier.Completed,
		Position: courier.Position{Step: 1}, Ended: []courier.StepExecution{ended}})
	if err == nil {
		err = s.RemoveSubscription(ctx, "s")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// inTx calls f in a transaction that takes no effect, and is like the one in
// which a statement was sent.
func (r *recorder) inTx(t *testing.T, pool *pgxpool.Pool, name string, f func(tx pgx.Tx)) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if strings.HasPrefix(name, "retention/") {
		if _, err := tx.Exec(t.Context(), r.of("retention/begin_transaction").sql, r.of("retention/begin_transaction").args...); err != nil {
			t.Fatal(err)
		}
	}
	f(tx)
}

// customPlan is how a statement is carried out for its arguments.
func (r *recorder) customPlan(t *testing.T, pool *pgxpool.Pool, name string) (plan string) {
	t.Helper()
	r.inTx(t, pool, name, func(tx pgx.Tx) { plan = explained(t, tx, "explain "+r.of(name).sql, r.of(name).args...) })
	return plan
}

var parameter = regexp.MustCompile(`\$(\d+)`)

// genericPlan is how a statement is carried out for any arguments.
func (r *recorder) genericPlan(t *testing.T, pool *pgxpool.Pool, name string) (plan string) {
	t.Helper()
	sql, most := r.of(name).sql, 0
	for _, p := range parameter.FindAllStringSubmatch(sql, -1) {
		n, _ := strconv.Atoi(p[1])
		most = max(most, n)
	}
	execute := "explain execute it"
	if most > 0 {
		execute += "(" + strings.Join(slices.Repeat([]string{"null"}, most), ", ") + ")"
	}
	r.inTx(t, pool, name, func(tx pgx.Tx) {
		for _, sql := range []string{"set local plan_cache_mode = force_generic_plan", "prepare it as " + sql} {
			if _, err := tx.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Fatal(err)
			}
		}
		plan = explained(t, tx, execute, pgx.QueryExecModeSimpleProtocol)
		if _, err := tx.Exec(t.Context(), "deallocate it"); err != nil {
			t.Fatal(err)
		}
	})
	return plan
}

func explained(t *testing.T, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, sql string, args ...any) string {
	t.Helper()
	rows, err := db.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%v\nin %.100s", err, sql)
	}
	return strings.Join(lines, "\n")
}

// jitAbove is the default of jit_above_cost.
const jitAbove = 100_000

var estimate = regexp.MustCompile(`\(cost=[\d.]+\.\.([\d.]+) `)

// cost is what the server estimates for all of a plan. What it was told not to
// do counts ten thousand million.
func cost(t *testing.T, plan string) float64 {
	t.Helper()
	found := estimate.FindStringSubmatch(plan)
	if found == nil {
		t.Fatalf("no estimate in\n%s", plan)
	}
	c, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return math.Mod(c, 1e10)
}

var buffers = regexp.MustCompile(`shared hit=(\d+)(?: read=(\d+))?`)

// pages is how many pages each statement reads when it is sent again, in a
// transaction that takes no effect.
func pages(t *testing.T, pool *pgxpool.Pool, r *recorder) map[string]int {
	t.Helper()
	list := make(map[string]int)
	for _, name := range []string{"claim/queued_without_limits", "claim/queued_fast", "claim/queued_with_limits", "checkpoint/write", "checkpoint/write_fast", "delivery/keep_events", "trail/keep", "lease/renew", "lease/renew_progress", "lease/get_state", "execution/list_latest_steps", "schedule/lease_due", "claim/find_passed_over", "worker/list", "worker/list_stranded", "overview/census", "overview/circumstances", "overview/incidents"} {
		if r.of(name).sql != "" {
			list[name], _ = r.pagesOf(t, pool, name)
		}
	}
	return list
}

// pagesOf is how many pages a statement reads when it is sent again, and its plan.
func (r *recorder) pagesOf(t *testing.T, pool *pgxpool.Pool, name string) (n int, plan string) {
	t.Helper()
	q := r.of(name)
	r.inTx(t, pool, name, func(tx pgx.Tx) {
		plan = explained(t, tx, "explain (analyze, buffers, timing off, summary off) "+q.sql, q.args...)
	})
	first := buffers.FindStringSubmatch(plan) // that of the whole statement
	if first == nil {
		t.Fatalf("%s: no buffers in\n%s", name, plan)
	}
	hit, _ := strconv.Atoi(first[1])
	read, _ := strconv.Atoi(first[2])
	return hit + read, plan
}

// TestClaimIsWaitedFor checks which claims the server must have on disk before
// it answers: those that start a step, which is executed next.
func TestClaimIsWaitedFor(t *testing.T) {
	u := pgtest.URL(t)
	s, sent := recorded(t, u)
	pool := dial(t, u)
	defined(t, s, pool, "j")
	work(t, s)
	exec(t, pool, "set local courier.retention = 'on'; delete from courier.job_executions where state = 'queued'")
	for _, first := range []*courier.StepExecution{nil, {Type: "file.copy"}} {
		n := store.NewExecution{ID: courier.ExecutionID(idSource.New()), Job: "j", Version: 1, StepTypes: []string{"file.copy"}, Queue: "default", First: first}
		if _, err := s.Enqueue(t.Context(), []store.NewExecution{n}); err != nil {
			t.Fatal(err)
		}
		want := "off"
		if first != nil {
			want = "on"
		}
		for _, name := range []string{"claim/queued_fast", "claim/queued_without_limits", "claim/queued_with_limits"} {
			sent.inTx(t, pool, name, func(tx pgx.Tx) {
				q := sent.of(name)
				if name == "claim/queued_fast" { // from the beginning, wherever the last claim began
					q.args = append(slices.Clone(q.args[:7]), []int32{math.MinInt32}, []string{"-infinity"}, []string{"00000000-0000-0000-0000-000000000000"}, false)
				}
				if _, err := tx.Exec(t.Context(), q.sql, q.args...); err != nil {
					t.Fatal(err)
				}
				var claimed bool
				var commit string
				err := tx.QueryRow(t.Context(), "select state = 'running', current_setting('synchronous_commit') from courier.job_executions where id = $1", string(n.ID)).Scan(&claimed, &commit)
				if err != nil || !claimed || commit != want {
					t.Errorf("%s: claimed %t, synchronous_commit %s, want %s, %v; sent with %v", name, claimed, commit, want, err, q.args)
				}
			})
		}
		exec(t, pool, "set local courier.retention = 'on'; delete from courier.job_executions where state = 'queued'")
	}
}
