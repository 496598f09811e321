//go:build unix

package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/test/process"
)

// A program is the service in a process of its own.
type program struct {
	*testing.T
	*process.Process
	worker string
}

// start starts the program on a port of its own, and waits until it listens.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{T: t, Process: process.Start(t, process.Options{Args: append([]string{"-addr", "127.0.0.1:0"}, args...), Last: `"delaySeconds": 60`})}
	for _, line := range p.Printed {
		if name, ok := strings.CutPrefix(line, "# worker "); ok {
			p.worker = name
		}
	}
	return p
}

// send sends a request, and returns the job that it is answered with.
func (p *program) send(method, path, body string, code int) (j job) {
	p.Helper()
	var headers []string
	if strings.HasSuffix(path, "/status") {
		headers = []string{"Content-Type", "application/json"}
	}
	resp, raw, err := p.Send(method, path, body, headers...)
	if err != nil || resp.StatusCode != code {
		p.Fatalf("%s %s: %s, %v; want %d", method, path, raw, err, code)
	}
	if code < 300 {
		kinds(p.T, raw)
		if err := json.Unmarshal(raw, &j); err != nil {
			p.Fatal(err)
		}
	}
	return j
}

func (p *program) post(body string) string {
	p.Helper()
	return string(p.send("POST", "/reports/acme?format=pdf", body, http.StatusAccepted).ID)
}

// until waits until a job has a status.
func (p *program) until(id string, want status) job {
	p.Helper()
	var j job
	process.Until(p.T, func() (any, bool) {
		j = p.send("GET", "/jobs/"+id, "", http.StatusOK)
		return j, j.Status == want
	})
	return j
}

// printed executes the printed commands, in their order and with the id of the last answer to a
// POST, and requires the status of each answer.
func (p *program) printed(codes ...int) {
	p.Helper()
	commands, id := p.Commands(), "ID"
	if len(commands) != len(codes) {
		p.Fatalf("%q", commands)
	}
	for i, line := range commands {
		if strings.Contains(line, "Scheduled") {
			p.until(id, failed)
		}
		code, body := p.Curl(strings.Replace(line, "/ID", "/"+id, 1))
		if code != codes[i] {
			p.Errorf("%s: %d %s; want %d", line, code, body, codes[i])
		}
		if strings.Contains(line, "-X POST") {
			var j job
			if err := json.Unmarshal([]byte(body), &j); err != nil {
				p.Fatal(err)
			}
			id = string(j.ID)
			p.until(id, map[bool]status{true: failed, false: inProgress}[strings.Contains(line, "fail")])
		}
	}
}

// lifecycle goes through all statuses of the document, and the transitions between them, of a
// program with one worker at a time and short delays.
func (p *program) lifecycle() {
	p.Helper()
	put := func(id, body string, code int) job {
		p.Helper()
		return p.send("PUT", "/jobs/"+id+"/status", body, code)
	}
	busy := p.post(`{"seconds": 3600}`)
	if j := p.until(busy, inProgress); *j.WorkerID != p.worker || j.StartedAt == nil || j.QueryParams[0].Key != "format" || j.RouteParams["customer"] != "acme" {
		p.Errorf("%+v", j)
	}
	waits := p.post("")
	if j := p.until(waits, queued); j.WorkerID != nil || j.StartedAt != nil {
		p.Errorf("%+v", j)
	}
	if j := put(waits, `{"status": "Scheduled", "delaySeconds": 60}`, http.StatusOK); j.RetryDelayUntil == nil || time.Until(*j.RetryDelayUntil) < 50*time.Second {
		p.Errorf("%+v", j)
	}
	p.until(waits, scheduled)
	put(waits, `{"status": "Queued"}`, http.StatusOK)
	p.until(waits, queued)
	put(waits, `{"status": "Scheduled", "delaySeconds": 0.1}`, http.StatusOK)
	p.until(waits, queued) // its delay has passed
	gone := p.post("")
	put(gone, `{"status": "Canceled"}`, http.StatusOK)
	put(gone, `{"status": "Queued"}`, http.StatusConflict)
	put(busy, `{"status": "Scheduled", "delaySeconds": 60}`, http.StatusConflict)
	put(busy, `{"status": "Canceled"}`, http.StatusAccepted)
	p.until(busy, canceled)
	if j := p.until(waits, completed); j.Result == nil || *j.Result != `{"customer":"acme","pages":12}` || j.CompletedAt == nil {
		p.Errorf("%+v", j)
	}
	put(waits, `{"status": "Canceled"}`, http.StatusConflict)
	put(waits, `{"status": "Completed"}`, http.StatusOK)
	bad := p.post(`{"fail": "closed"}`)
	j := p.until(bad, failed)
	if at := j.CompletedAt.Sub(*j.StartedAt); j.RetryCount != 3 || j.Error == nil || j.Error.Code != "error" || at < 140*time.Millisecond {
		p.Errorf("%+v, %+v", j, j.Error)
	}
	put(bad, `{"status": "Scheduled", "delaySeconds": 60}`, http.StatusOK)
	p.until(bad, scheduled)
	put(bad, `{"status": "Canceled"}`, http.StatusOK)
	slow := p.post(`{"seconds": 3600}`)
	if j := p.until(slow, failed); j.Error.Code != "timeout" || j.RetryCount != 0 {
		p.Errorf("%+v, %+v", j, j.Error)
	}
	put(slow, `{"status": "Queued"}`, http.StatusOK)
	p.until(slow, inProgress)
}

// expires shows that a job fails that no worker claims in time.
func (p *program) expires() {
	p.Helper()
	for busy := false; !busy; { // a busy machine may claim the first ones too late
		id := p.post(`{"seconds": 3600}`)
		process.Until(p.T, func() (any, bool) {
			j := p.send("GET", "/jobs/"+id, "", http.StatusOK)
			busy = j.Status == inProgress
			return j, j.Status != queued
		})
	}
	if j := p.until(p.post(""), failed); j.Error.Code != "expired" || j.StartedAt != nil {
		p.Errorf("%+v, %+v", j, j.Error)
	}
}

// The program goes through all statuses on both stores, and ends when it is told to.
func TestLifecycleInMemory(t *testing.T) {
	t.Parallel()
	p := start(t, "-concurrency", "1", "-retry-base", "20ms", "-timeout", "1s")
	p.lifecycle()
	p.Stop()
	start(t, "-retry-base", "1ms").printed(202, 200, 202, 202, 200, 200)
	start(t, "-concurrency", "1", "-claim-timeout", "200ms").expires()
}

// On Postgres, the jobs outlast the program: another one goes on with those that were cut off.
func TestLifecycleOnPostgres(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	p := start(t, "-concurrency", "1", "-retry-base", "20ms", "-timeout", "1s", "-database", database)
	p.lifecycle()
	last := p.post("")
	p.Stop()
	other := start(t, "-concurrency", "1", "-timeout", "1s", "-database", database)
	other.until(last, completed)
	other.Stop()
	start(t, "-concurrency", "1", "-claim-timeout", "200ms", "-database", database).expires()
}

// A program is killed while it runs a job: another one, on the same database, runs it again when
// the lease has ended. That is no retry.
func TestJobsOfKilledInstanceAreRecovered(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	flags := []string{"-lease", "1s", "-database", database}
	first := start(t, flags...)
	id := first.post(`{"seconds": 1.5}`)
	if j := first.until(id, inProgress); *j.WorkerID != first.worker {
		t.Errorf("%+v", j)
	}
	second := start(t, flags...)
	first.Kill()
	killed := time.Now()
	if j := second.until(id, inProgress); *j.WorkerID != first.worker {
		t.Errorf("%+v", j) // it is stuck
	}
	for j := second.until(id, inProgress); *j.WorkerID != second.worker; j = second.until(id, inProgress) {
		if time.Since(killed) > 20*time.Second {
			t.Fatalf("%+v", j)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if j := second.until(id, completed); j.RetryCount != 0 || j.WorkerID != nil {
		t.Errorf("%+v", j)
	}
	second.Stop()
}

// Two programs pull jobs from one queue, and no job is run twice.
func TestClaimsAreAtomic(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	both := []*program{start(t, "-database", database, "-concurrency", "4"), start(t, "-database", database, "-concurrency", "4")}
	var ids []string
	for i := range 40 {
		ids = append(ids, both[i%2].post(`{"seconds": 0.05}`))
	}
	for i, id := range ids {
		both[i%2].until(id, completed)
	}
	pool, err := pgxpool.New(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var runs, workers int
	if err := pool.QueryRow(t.Context(), "select count(*), count(distinct worker) from courier.step_executions").Scan(&runs, &workers); err != nil || runs != len(ids) || workers != 2 {
		t.Errorf("%d runs of %d jobs by %d workers, %v", runs, len(ids), workers, err)
	}
}
