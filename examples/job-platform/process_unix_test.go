//go:build unix

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/test/process"
)

// A program is the platform in a process of its own.
type program struct {
	*testing.T
	*process.Process
}

// start starts the program on a port of its own, and waits until it listens.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	return startAs(t, "", append([]string{"-addr", "127.0.0.1:0"}, args...)...)
}

func startAs(t *testing.T, as string, args ...string) *program {
	t.Helper()
	return &program{t, process.Start(t, process.Options{Args: args, As: as, Last: `"req_3"`})}
}

// try sends a request, and returns the answer.
func (p *program) try(method, path, body string) (code int, raw []byte, err error) {
	resp, raw, err := p.Send(method, path, body, "Content-Type", "application/json")
	if err != nil {
		return 0, nil, err
	}
	return resp.StatusCode, raw, nil
}

// post sends a request for a job, and returns its id.
func (p *program) post(body string) string {
	p.Helper()
	code, raw, err := p.try("POST", "/jobs", body)
	if err != nil || code != http.StatusAccepted {
		p.Fatalf("%d %s, %v", code, raw, err)
	}
	return string(decode[accepted](p.T, raw).JobID)
}

// until waits until a job has a status.
func (p *program) until(id, want string) {
	p.Helper()
	process.Until(p.T, func() (any, bool) {
		code, raw, err := p.try("GET", "/jobs/"+id, "")
		return fmt.Sprintf("%d %s, %v; want %s", code, raw, err, want), err == nil && code == http.StatusOK && decode[view](p.T, raw).Status == want
	})
}

// printed executes the printed commands, and requires that they are accepted.
func (p *program) printed() {
	p.Helper()
	id := "ID"
	for _, line := range p.Commands() {
		code, body := p.Curl(strings.Replace(line, "/ID", "/"+id, 1))
		switch {
		case strings.Contains(line, "-d ") && code == http.StatusAccepted:
			id = string(decode[accepted](p.T, []byte(body)).JobID)
		case strings.Contains(line, "-d ") || code != http.StatusOK:
			p.Errorf("%s: %d %s", line, code, body)
		default:
			p.until(id, "COMPLETED")
		}
	}
	p.until(id, "FAILED") // the last one
}

// lifecycle goes through the contract, with what becomes of jobs that succeed and fail.
func (p *program) lifecycle() {
	p.Helper()
	slow := p.post(request("GENERATE_REPORT", `{"seconds": 0.5}`, "slow"))
	p.until(slow, "RUNNING")
	good := p.post(request("SEND_EMAIL", `{"to": "user@example.com", "subject": "Welcome"}`, "good"))
	for _, body := range []string{request("SEND_EMAIL", `{"to": "user@example.com", "subject": "Welcome"}`, "good"), request("RUN_BATCH", `{"failures": 5}`, "good")} {
		if again := p.post(body); again != good {
			p.Errorf("%s and %s", good, again)
		}
	}
	flaky, bad, fatal := p.post(request("RUN_BATCH", `{"failures": 2}`, "flaky")), p.post(request("RUN_BATCH", `{"failures": 99}`, "bad")), p.post(request("SEND_EMAIL", `{}`, "fatal"))
	for id, want := range map[string]string{slow: "COMPLETED", good: "COMPLETED", flaky: "COMPLETED", bad: "FAILED", fatal: "FAILED"} {
		p.until(id, want)
	}
	for path, want := range map[string]int{"/jobs/" + good: 200, "/jobs/1": 404, "/jobs/019a0000-0000-7000-8000-000000000000": 404} {
		if code, raw, err := p.try("GET", path, ""); code != want || err != nil || want == 200 && names(p.T, raw) != "createdAt jobId jobType status updatedAt" {
			p.Errorf("%s: %d %s, %v", path, code, raw, err)
		}
	}
	if code, raw, err := p.try("POST", "/jobs", `{"jobType": "RUN_BATCH"}`); code != http.StatusBadRequest || err != nil {
		p.Errorf("%d %s, %v", code, raw, err)
	}
}

// The program keeps its contract on the memory store, and ends when it is told to.
func TestContractInMemory(t *testing.T) {
	t.Parallel()
	p := start(t, "-backoff", "20ms")
	p.printed()
	p.lifecycle()
	p.Stop()
}

// statements are those of README.md: the jobs, and their transitions.
func statements(t *testing.T) (jobs, moves string) {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(all) != 2 {
		t.Fatalf("%d statements", len(all))
	}
	return all[0][1], all[1][1]
}

// connect returns a pool on a database.
func connect(t *testing.T, database string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// A row is what the first statement says of a job.
type row struct {
	state   string
	retries int
	owner   *string
	expiry  *time.Time
	key     string
}

// rows returns what the statements of README.md say: the jobs, and the transitions of each.
func rows(t *testing.T, pool *pgxpool.Pool) (map[string]row, map[string]string) {
	t.Helper()
	jobs, moves := statements(t)
	table, list := make(map[string]row), make(map[string]string)
	var r row
	var id, from, to string
	got, err := pool.Query(t.Context(), "select job_id::text, state, retry_count, lease_owner, lease_expiry, idempotency_key from ("+jobs+") j")
	if err == nil {
		_, err = pgx.ForEachRow(got, []any{&id, &r.state, &r.retries, &r.owner, &r.expiry, &r.key}, func() error { table[id] = r; return nil })
	}
	if err == nil {
		got, err = pool.Query(t.Context(), "select job_id::text, from_state, to_state from ("+moves+") m")
	}
	if err == nil {
		_, err = pgx.ForEachRow(got, []any{&id, &from, &to}, func() error {
			list[id] = strings.TrimSpace(list[id] + " " + from + ">" + to)
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return table, list
}

// The program keeps its contract on PostgreSQL, whose tables show the states and transitions of
// the document and no others, with the owner and the lease of a job that runs and of no other.
// The database itself refuses a second job of a key, and a state that is none.
func TestContractOnPostgres(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	p := start(t, "-backoff", "20ms", "-database", database)
	p.lifecycle()
	p.Stop()
	p = start(t, "-backoff", "1h", "-workers", "1", "-database", database)
	p.until(p.post(request("RUN_BATCH", `{}`, "good")), "COMPLETED") // what the former program has recorded
	waits := p.post(request("RUN_BATCH", `{"failures": 1}`, "retry"))
	pool := connect(t, database)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if table, _ := rows(t, pool); table[waits].state == "RETRY" {
			break
		} else if time.Now().After(end) {
			t.Fatalf("%+v", table[waits])
		}
	}
	runs := p.post(request("RUN_BATCH", `{"seconds": 3600}`, "run"))
	p.until(runs, "RUNNING")
	p.post(request("RUN_BATCH", `{}`, "queued"))
	table, list := rows(t, pool)
	states := make(map[string][]string)
	for id, r := range table {
		states[r.state] = append(states[r.state], r.key)
		if has := r.owner != nil && r.expiry != nil; has != (r.state == "RUNNING") || (r.owner == nil) != (r.expiry == nil) {
			t.Errorf("%+v", r)
		}
		for move := range strings.SplitSeq(list[id], " ") {
			if !slices.Contains(legal, move) {
				t.Errorf("%s has made %s", r.key, list[id])
			}
		}
	}
	for s, want := range map[string]string{"SUCCESS": "flaky good slow", "DEAD": "bad fatal", "RETRY": "retry", "RUNNING": "run", "QUEUED": "queued"} {
		if slices.Sort(states[s]); strings.Join(states[s], " ") != want {
			t.Errorf("%s: %v; want %s", s, states[s], want)
		}
	}
	for key, want := range map[string]struct {
		retries int
		moves   string
	}{
		"good": {0, "CREATED>QUEUED QUEUED>RUNNING RUNNING>SUCCESS"}, "fatal": {1, "CREATED>QUEUED QUEUED>RUNNING RUNNING>RETRY RETRY>DEAD"},
		"flaky": {2, "CREATED>QUEUED QUEUED>RUNNING RUNNING>RETRY RETRY>QUEUED QUEUED>RUNNING RUNNING>RETRY RETRY>QUEUED QUEUED>RUNNING RUNNING>SUCCESS"},
		"retry": {1, "CREATED>QUEUED QUEUED>RUNNING RUNNING>RETRY RETRY>QUEUED"},
		"bad":   {4, "CREATED>QUEUED" + strings.Repeat(" QUEUED>RUNNING RUNNING>RETRY RETRY>QUEUED", 3) + " QUEUED>RUNNING RUNNING>RETRY RETRY>DEAD"},
	} {
		for id, r := range table {
			if r.key == key && (r.retries != want.retries || list[id] != want.moves) {
				t.Errorf("%s: %d retries, %s", key, r.retries, list[id])
			}
		}
	}
	for statement, constraint := range map[string]string{
		"update courier.job_executions set idempotency_key = 'good' where idempotency_key = 'bad'": "23505",
		"update courier.job_executions set state = 'DONE'":                                         "23514",
	} {
		if _, err := pool.Exec(t.Context(), statement); err == nil || !strings.Contains(err.Error(), constraint) {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

// Twenty requests with one key at two servers at the same time are one job, whatever their
// payloads and job types, and have the same answer. Neither server executes it; a worker in a third process
// does, and both servers show that.
func TestTwentyRequestsAtTwoServersAreOneJob(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	both := []*program{start(t, "-workers", "0", "-database", database), start(t, "-workers", "0", "-database", database)}
	answers := make([]string, 20)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			code, raw, err := both[i%2].try("POST", "/jobs", request([]string{"RUN_BATCH", "GENERATE_REPORT"}[i/2%2], fmt.Sprintf(`{"n": %d}`, i), "the same"))
			answers[i] = fmt.Sprint(code, " ", string(raw), err)
		})
	}
	all.Wait()
	if slices.Sort(answers); answers[0] != answers[19] || !strings.HasPrefix(answers[0], "202 ") {
		t.Errorf("%v", answers)
	}
	id := both[0].post(request("RUN_BATCH", `{}`, "the same"))
	table, list := rows(t, connect(t, database))
	if len(table) != 1 || table[id].state != "QUEUED" || list[id] != "CREATED>QUEUED" {
		t.Errorf("%+v %v", table, list)
	}
	start(t, "-database", database)
	both[0].until(id, "COMPLETED")
	both[1].until(id, "COMPLETED")
}

// A server that is killed after it has inserted a job, or after it has accepted it, and before
// it answers, leaves it in the database. The repetition at another server has its id. One that
// was not accepted stays CREATED until then, and is not executed.
func TestServerKilledBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	pool := connect(t, database)
	other := start(t, "-database", database)
	ways := map[string]string{"insert": "CREATED", "accept": "QUEUED SUCCESS"}
	for at := range ways {
		p := startAs(t, at, database)
		if code, raw, err := p.try("POST", "/jobs", request("RUN_BATCH", `{}`, at)); err == nil {
			t.Fatalf("a server that was to die has answered %d %s", code, raw)
		}
		p.Died()
	}
	time.Sleep(1200 * time.Millisecond) // in which a worker looks for jobs
	table, _ := rows(t, pool)
	for id, r := range table {
		if want := ways[r.key]; !strings.Contains(want, r.state) {
			t.Errorf("killed after %s: %s; want %s", r.key, r.state, want)
		}
		for range 2 {
			if again := other.post(request("RUN_BATCH", `{"again": true}`, r.key)); again != id {
				t.Errorf("killed after %s: %s and then %s", r.key, id, again)
			}
		}
		other.until(id, "COMPLETED")
	}
	if len(table) != 2 {
		t.Errorf("%+v", table)
	}
}

// A worker that is killed while it runs a job, and one that is suspended, lose their jobs when
// the leases expire, and a third worker completes them. The suspended one, when it goes on,
// changes nothing.
func TestWorkersDieWhileRunning(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	pool := connect(t, database)
	flags := []string{"-database", database, "-workers", "1", "-lease", "1s"}
	killed, suspended := start(t, flags...), start(t, flags...)
	ids := []string{killed.post(request("RUN_BATCH", `{"seconds": 1.5}`, "1")), killed.post(request("RUN_BATCH", `{"seconds": 1.5}`, "2"))}
	for _, id := range ids {
		killed.until(id, "RUNNING")
	}
	before, _ := rows(t, pool)
	if *before[ids[0]].owner == *before[ids[1]].owner {
		t.Errorf("one worker has both jobs")
	}
	for p, sig := range map[*program]syscall.Signal{killed: syscall.SIGKILL, suspended: syscall.SIGSTOP} {
		p.Signal(sig)
	}
	third := start(t, append(flags, "-workers", "2")...)
	for _, id := range ids {
		third.until(id, "COMPLETED")
	}
	suspended.Signal(syscall.SIGCONT)
	suspended.Stop()
	after, list := rows(t, pool)
	for _, id := range ids {
		var completed, other int
		err := pool.QueryRow(t.Context(), "select count(*), count(*) filter (where worker <> $2) from courier.step_executions where state = 'completed' and execution_id::text = $1", id, before[id].owner).Scan(&completed, &other)
		if err != nil || completed != 1 || other != 1 || after[id].state != "SUCCESS" || list[id] != "CREATED>QUEUED QUEUED>RUNNING RUNNING>RETRY RETRY>QUEUED QUEUED>RUNNING RUNNING>SUCCESS" {
			t.Errorf("completed %d times, %d of them by another than %v, %v; %+v %s", completed, other, *before[id].owner, err, after[id], list[id])
		}
	}
}

// Many workers in two processes look for jobs at the same time, and each job is executed by one
// of them, once.
func TestJobsAreExecutedByOneWorker(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	both := []*program{start(t, "-database", database), start(t, "-database", database)}
	var ids []string
	for i := range 40 {
		ids = append(ids, both[i%2].post(request("RUN_BATCH", `{"seconds": 0.05}`, fmt.Sprint(i))))
	}
	for i, id := range ids {
		both[i%2].until(id, "COMPLETED")
	}
	var runs, jobs, workers int
	err := connect(t, database).QueryRow(t.Context(), "select count(*), count(distinct execution_id), count(distinct worker) from courier.step_executions").Scan(&runs, &jobs, &workers)
	if err != nil || runs != 40 || jobs != 40 || workers < 2 {
		t.Errorf("%d runs of %d jobs by %d workers, %v", runs, jobs, workers, err)
	}
}

// A worker does not wait for a job that somebody has locked: it takes the next one.
func TestWorkersSkipLockedJobs(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	api := start(t, "-workers", "0", "-database", database)
	locked, next := api.post(request("RUN_BATCH", `{}`, "locked")), api.post(request("RUN_BATCH", `{}`, "next"))
	tx, err := connect(t, database).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), "select from courier.job_executions where id::text = $1 for update", locked); err != nil {
		t.Fatal(err)
	}
	start(t, "-workers", "1", "-database", database)
	api.until(next, "COMPLETED")
	api.until(locked, "PENDING")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	api.until(locked, "COMPLETED")
}

// The database is killed while a job runs and another waits. When it is back, both are there,
// and are executed to their ends.
func TestDatabaseRestarts(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, nil)
	p := start(t, "-database", server.URL(""), "-workers", "1", "-lease", "2s")
	runs, waits := p.post(request("RUN_BATCH", `{"seconds": 1}`, "runs")), p.post(request("RUN_BATCH", `{}`, "waits"))
	p.until(runs, "RUNNING")
	server.Kill(t)
	server.Begin(t)
	if again := p.post(request("RUN_BATCH", `{}`, "waits")); again != waits {
		t.Errorf("%s and %s", waits, again)
	}
	p.until(runs, "COMPLETED")
	p.until(waits, "COMPLETED")
}
