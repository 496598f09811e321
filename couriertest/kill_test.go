package couriertest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store/pgstore"
)

// noWorkerEnv makes a worker process one whose TestMain does not call WorkerMain.
const noWorkerEnv = "COURIER_TEST_NO_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(noWorkerEnv) == "" {
		couriertest.WorkerMain(open)
	}
	pgtest.Main(m)
}

// A noteConfig is the configuration of demo.note.
type noteConfig struct {
	Path    string  `json:"path"`
	Text    string  `json:"text"`
	Seconds float64 `json:"seconds"`
	Fail    bool    `json:"fail"`
}

// note appends a line to a file, and then takes some time.
func note(ctx context.Context, _ *courier.Context, cfg noteConfig) (map[string]any, error) {
	if cfg.Fail {
		return nil, courier.Permanent(errors.New("it fails"))
	}
	f, err := os.OpenFile(cfg.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintln(f, cfg.Text)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	select {
	case <-time.After(time.Duration(cfg.Seconds * float64(time.Second))):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return map[string]any{"text": cfg.Text}, nil
}

// open opens the store of a database on PostgreSQL. The address "refused" is refused to workers.
func open(ctx context.Context, url string, opt *engine.Options) (*engine.Engine, func(), error) {
	url, refused := strings.CutSuffix(url, " refused")
	if refused && opt.Worker != "test" {
		return nil, nil, errors.New("the worker has no database")
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	if _, err := pgstore.Migrate(ctx, pool, nil); err != nil {
		return nil, nil, err
	}
	s, err := pgstore.New(ctx, pool, nil)
	if err != nil {
		return nil, nil, err
	}
	var reg courier.Registry
	courier.RegisterFunc(&reg, "demo.note", note, nil)
	return engine.New(s, &reg, opt), func() { s.Close(); pool.Close() }, nil
}

// notes are steps in a loop of three items, and one behind it.
func notes(path string, seconds float64) courier.Job {
	config := func(text string) map[string]any {
		return map[string]any{"path": path, "text": text, "seconds": seconds}
	}
	return courier.Job{Name: "notes", FailurePolicy: courier.FailurePolicy{Type: courier.RetryStep}, Params: map[string]any{"items": nil}, Steps: []courier.StepSpec{
		{Type: "flow.foreach", Config: map[string]any{"source": "context:params.items"}},
		{ID: "note", Type: "demo.note", Config: config("item ${context:loop.current_item}")},
		{Type: "flow.end"},
		{Type: "demo.note", Config: config("end")},
	}}
}

// TestKillWorker kills a worker before a step, after it, and while it executes.
func TestKillWorker(t *testing.T) {
	items := map[string]any{"items": []string{"a", "b", "c"}}
	for name, c := range map[string]struct {
		kill    couriertest.Kill
		seconds float64
		before  string // the trace when the worker was dead
		written string // the file in the end
	}{
		"before a step":   {couriertest.Kill{Step: "note", Iteration: []int{1}}, 0, "1 demo.note[0] completed", "item a, item b, item c, end"},
		"after a step":    {couriertest.Kill{Step: "note", Iteration: []int{1}, Executed: true}, 0, "1 demo.note[0] completed", "item a, item b, item b, item c, end"},
		"within a step":   {couriertest.Kill{Step: "3", Delay: 100 * time.Millisecond}, 0.5, "1 demo.note[0] completed, 1 demo.note[1] completed, 1 demo.note[2] completed", "item a, item b, item c, end, end"},
		"a step is ready": {couriertest.Kill{Step: "3", Delay: 300 * time.Millisecond}, 0, "1 demo.note[0] completed, 1 demo.note[1] completed, 1 demo.note[2] completed", "item a, item b, item c, end, end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := t.TempDir() + "/notes"
			c.kill.Arg, c.kill.Job, c.kill.Params = pgtest.URL(t), notes(path, c.seconds), items
			r := couriertest.KillWorker(t, open, c.kill)
			r.Before.RequireState(courier.Running)
			if got := strings.Join(r.Before.Trace(), ", "); got != c.before || r.Before.Worker != "worker-1" {
				t.Errorf("before, by %s: %s; want %s", r.Before.Worker, got, c.before)
			}
			r.After.RequireState(courier.Completed)
			lost := 0
			for _, s := range r.After.Steps {
				if s.State != courier.StepCompleted {
					lost++
				}
			}
			if lost != 1 || r.After.Worker != "worker-2" {
				t.Errorf("after, by %s: %d attempts are lost: %s", r.After.Worker, lost, strings.Join(r.After.Trace(), ", "))
			}
			text, err := os.ReadFile(path)
			if got := strings.Join(strings.Split(strings.TrimSpace(string(text)), "\n"), ", "); err != nil || got != c.written {
				t.Errorf("written %q, want %q, %v", got, c.written, err)
			}
			if !strings.Contains(r.FirstLog, "execution=") || !strings.Contains(r.SecondLog, string(r.After.ID)) {
				t.Errorf("logs\n%s\n%s", r.FirstLog, r.SecondLog)
			}
		})
	}
}

// TestKillWorkerFails: what keeps a worker from being killed at the step is said.
func TestKillWorkerFails(t *testing.T) {
	url := pgtest.URL(t)
	fails := notes(t.TempDir()+"/notes", 0)
	fails.Name, fails.Steps[1].Config = "fails", map[string]any{"path": "x", "text": "x", "fail": true}
	params := map[string]any{"items": []string{"a"}}
	for name, c := range map[string]struct {
		kill couriertest.Kill
		env  string
		want []string
	}{
		"no such step":   {couriertest.Kill{Arg: url, Job: fails, Params: params, Step: "nte"}, "", []string{`job "fails" has no step "nte"`}},
		"two moments":    {couriertest.Kill{Arg: url, Job: fails, Params: params, Step: "note", Executed: true, Delay: 1}, "", []string{"Delay is 1ns"}},
		"not reached":    {couriertest.Kill{Arg: url, Job: fails, Params: params, Step: "3"}, "", []string{"step 3: it was not reached: the execution is failed", "it fails", "output of the worker:"}},
		"no iteration":   {couriertest.Kill{Arg: url, Job: notes(t.TempDir()+"/notes", 0), Params: params, Step: "note", Iteration: []int{7}}, "", []string{"step note[7]: it was not reached: the execution is completed"}},
		"a worker fails": {couriertest.Kill{Arg: url + " refused", Job: fails, Params: params, Step: "3"}, "", []string{"the worker has ended: exit status 1", "worker: the worker has no database"}},
		"no worker":      {couriertest.Kill{Arg: url, Job: fails, Params: params, Step: "3"}, "1", []string{"the worker has ended; does TestMain call couriertest.WorkerMain first?"}},
		"too slow":       {couriertest.Kill{Arg: url, Job: notes(t.TempDir()+"/notes", 60), Params: params, Step: "3", Timeout: time.Second}, "", []string{"deadline exceeded"}},
	} {
		t.Setenv(noWorkerEnv, c.env)
		said := watch(t, func(t testing.TB) { couriertest.KillWorker(t, open, c.kill) })
		for _, want := range c.want {
			if !strings.Contains(said, want) {
				t.Errorf("%s: %s\ndoes not say %q", name, said, want)
			}
		}
	}
}
