package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storewrap"
)

// on defines a job of one step that depends on others, given as JSON.
func (w *chainWorld) on(job, dependencies string) {
	w.t.Helper()
	w.define(`{"name": "` + job + `", "depends_on": ` + dependencies + `, "steps": [{"id": "do", "type": "demo.do"}]}`)
}

func (w *chainWorld) enqueue(job string) courier.ExecutionID {
	w.t.Helper()
	x, err := w.Enqueue(w.t.Context(), job, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return x.ID
}

// status reports an execution that is shown otherwise than wanted.
func (w *chainWorld) status(id courier.ExecutionID, want string) courier.Execution {
	w.t.Helper()
	time.Sleep(500 * time.Millisecond)
	synctest.Wait()
	x, err := w.Executions().Get(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	if got := x.Status(time.Now()); got != want {
		w.t.Errorf("execution of %s is %s, want %s", x.Job, got, want)
	}
	return x
}

func TestWaitsForOtherJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newChains(t)
		w.on("b", `["a"]`)
		w.on("c", `[{"job": "b", "run_on_failure": true}, {"job": "a", "required_status": "any"}]`)
		c, b := w.enqueue("c"), w.enqueue("b")
		w.status(b, "waiting")
		if x := w.status(c, "waiting"); len(x.Waits) != 2 || !strings.Contains(x.Waits[0].Reason, "of job \"b\" is queued") || x.Waits[1].Reason != `job "a" has no execution yet` {
			t.Errorf("waits: %+v", x.Waits)
		}
		begun := time.Now()
		open := w.hold("a")
		a := w.enqueue("a")
		w.status(a, "running")
		time.Sleep(time.Minute)
		w.status(b, "waiting")
		w.fails("b", true)
		open()
		w.status(b, "failed")
		x := w.status(c, "completed")
		if d := x.EndedAt.Sub(begun); d > time.Minute+2*time.Second {
			t.Errorf("the last one ended %v after the first could begin", d)
		}
		list, err := w.Executions().List(t.Context(), store.Filter{Waiting: true})
		if err != nil || len(list) > 0 {
			t.Errorf("what waits: %v, %v", list, err)
		}
	})
}

// TestRunWaits shows that Run waits for others too, and gives up with its
// context.
func TestRunWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newChains(t)
		w.on("b", `["a"]`)
		go func() {
			time.Sleep(time.Minute)
			w.enqueue("a")
		}()
		begun := time.Now()
		job, err := w.Jobs().Get(t.Context(), "b", 0)
		if err != nil {
			t.Fatal(err)
		}
		x, err := w.Run(t.Context(), job, nil)
		if err != nil || x.State != courier.Completed || time.Since(begun) < time.Minute {
			t.Errorf("%s after %v: %v", x.State, time.Since(begun), err)
		}
	})
}

func TestRefusesWhatIsUnmet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newChains(t)
		w.on("b", `[{"job": "a", "on_unmet": "refuse"}]`)
		refused := func(want string) {
			t.Helper()
			_, err := w.Enqueue(t.Context(), "b", nil)
			if d, ok := errors.AsType[*courier.DependencyError](err); !ok || !errors.Is(err, courier.ErrConflict) || !strings.Contains(err.Error(), want) || d.Waits[0].Job != "a" {
				t.Errorf("error %v, want one with %q", err, want)
			}
		}
		refused(`job "a" has no execution yet; nothing was created`)
		w.fails("a", true)
		a := w.enqueue("a")
		w.status(a, "failed")
		refused("execution " + string(a) + ` of job "a" failed, and has to complete`)
		if list, _ := w.Executions().List(t.Context(), store.Filter{Job: "b"}); len(list) > 0 {
			t.Errorf("executions: %v", list)
		}
		w.fails("a", false)
		w.status(w.enqueue("a"), "completed")
		w.status(w.enqueue("b"), "completed")
	})
}

// TestChainsAndDependencies shows that a member of a chain waits for jobs outside
// of it, even where the dependency refuses, and that others wait for members.
func TestChainsAndDependencies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newChains(t)
		w.on("b", `[{"job": "d", "on_unmet": "refuse"}]`)
		w.on("e", `["b"]`)
		e := w.enqueue("e")
		id := w.chain(`[{"job": "a"}, {"job": "b", "depends_on": ["a"]}, {"job": "c", "depends_on": ["b"]}]`, nil)
		synctest.Wait()
		x, err := w.Chains().Execution(t.Context(), id)
		if err != nil || x.Members[0].State != "completed" || x.Members[1].State != "queued" {
			t.Fatalf("chain: %+v, %v", x.Members, err)
		}
		w.status(x.Members[1].Execution, "waiting")
		w.status(e, "waiting")
		w.enqueue("d")
		w.status(e, "completed")
		if x, err = w.Chains().Execution(t.Context(), id); err != nil || x.State != chain.Completed {
			t.Errorf("chain is %s, %v", x.State, err)
		}
	})
}

// TestScheduleThatIsRefused shows that a tick that a dependency refuses starts
// nothing, that the schedule tells why, and that the next one may.
func TestScheduleThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newChains(t)
		w.on("b", `[{"job": "a", "on_unmet": "refuse"}]`)
		if _, err := w.Schedules().Set(t.Context(), schedule.Schedule{Name: "hourly", Job: "b", Every: time.Hour}, courier.By{}); err != nil {
			t.Fatal(err)
		}
		look := func(problem string, started int) {
			t.Helper()
			time.Sleep(time.Hour)
			s, err := w.Schedules().Get(t.Context(), "hourly")
			if err != nil || s.Problem != problem && (problem == "" || !strings.Contains(s.Problem, problem)) || !s.NextFire.After(time.Now()) {
				t.Errorf("problem %q, next fire %v: %v", s.Problem, s.NextFire, err)
			}
			if list, _ := w.Executions().List(t.Context(), store.Filter{Job: "b"}); len(list) != started {
				t.Errorf("%d executions, want %d", len(list), started)
			}
		}
		time.Sleep(time.Minute)
		look(`job "a" has no execution yet`, 0)
		look(`job "a" has no execution yet`, 0)
		w.enqueue("a")
		look("", 1)
	})
}

// TestDependencySavedMeanwhile shows what is said about a cycle that comes about
// after it was looked for.
func TestDependencySavedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newChains(t)
		body := json.RawMessage(`{"name": "b", "depends_on": ["a"], "steps": [{"type": "demo.do"}]}`)
		late := storewrap.Intercept(w.store, func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
			if c.Method == "Save" {
				if _, err := w.store.Save(ctx, store.Definition{Kind: store.Job, Name: "b", Body: body}); err != nil {
					t.Error(err)
				}
			}
			return do(ctx)
		})
		job, err := w.Jobs().Get(t.Context(), "a", 0)
		if err != nil {
			t.Fatal(err)
		}
		job.DependsOn = []courier.JobDependency{{Job: "b"}}
		_, err = engine.New(late, w.reg, nil).Jobs().Define(t.Context(), job, nil)
		if d, ok := errors.AsType[*courier.DefinitionError](err); !ok || !strings.Contains(err.Error(), "a -> b -> a") || d.Problems[0].Field != "depends_on" {
			t.Errorf("error %v", err)
		}
	})
}
