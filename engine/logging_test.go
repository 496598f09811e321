package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/stepcontext"
)

// TestLog counts the lines of executions that end in every way: each start and end
// at info, each failed attempt and each retry at warn, once.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(logbook)
		h := couriertest.New(t, &engine.Options{Log: log.logger(), Secrets: func(ctx, courier.SecretRequest) (string, error) { return "hunter-two", nil }})
		h.Stub("demo.work", func(c ctx, job *courier.Context, cfg map[string]any) (map[string]any, error) {
			time.Sleep(2 * time.Second)
			if cfg["fail"] == true {
				return nil, fmt.Errorf("the password %v is wrong", cfg["password"])
			}
			return nil, nil
		})
		job := func(name, policy string) courier.Job {
			return h.Job(fmt.Sprintf(`{"name": %q, "failure_policy": %s, "steps": [
				{"type": "flow.foreach", "config": {"source": [1, 2]}}, {"type": "demo.work", "id": "w", "config": {"fail": true, "password": "secret:db"}}, {"type": "flow.end"}]}`, name, policy))
		}
		h.Run(h.Job(`{"name": "good", "steps": [{"type": "demo.work"}, {"type": "demo.work"}]}`), nil).RequireState(courier.Completed)
		log.count(t, 2)
		log.count(t, 1, "level=INFO", `"execution started"`, "job=good", "execution=", "version=1")
		log.count(t, 1, "level=INFO", `"execution completed"`, "job=good", "duration=4s")

		log.Reset()
		h.Run(job("stops", `"stop"`), nil).RequireState(courier.Failed)
		log.count(t, 3)
		log.count(t, 1, "level=WARN", `"step failed"`, "job=stops", "step=1", "id=w", "type=demo.work", "iteration=0", "attempt=1", "reason=error", "duration=2s", "the password [secret db] is wrong")
		log.count(t, 1, "level=INFO", `"execution failed"`, "step=1", "iteration=0", "attempt=1", "reason=error", "duration=2s", "[secret db]")

		log.Reset()
		h.Run(job("again", `{"type": "retry_step", "max_retries": 2, "backoff_base_seconds": 10}`), nil).RequireState(courier.Failed)
		log.count(t, 7)
		for n := 1; n <= 3; n++ {
			log.count(t, 1, "level=WARN", `"step failed"`, fmt.Sprintf("attempt=%d ", n))
		}
		log.count(t, 2, "level=WARN", `"execution is retried"`, "iteration=0", "after=", "whole_job=false")
		log.count(t, 1, `"execution started"`)
		log.count(t, 1, "level=INFO", `"execution failed"`, "attempt=3")

		log.Reset()
		h.Run(job("skips", `"skip_and_continue"`), nil).RequireState(courier.Completed)
		log.count(t, 4)
		log.count(t, 2, "level=WARN", `"step failed and was skipped"`, "reason=error", "duration=2s")

		log.Reset()
		h.Run(job("anew", `{"type": "retry_job", "max_retries": 1}`), nil).RequireState(courier.Failed)
		log.count(t, 5)
		log.count(t, 1, "level=WARN", `"execution is retried"`, "whole_job=true")
		if strings.Contains(log.String(), "hunter") {
			t.Errorf("the log shows a secret:\n%s", log)
		}
	})
}

// TestLogOfRequests cancels a queued execution, and one that runs.
func TestLogOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(logbook)
		h := couriertest.New(t, &engine.Options{Log: log.logger()})
		h.Stub("demo.work", func(c ctx, _ *courier.Context, _ map[string]any) (map[string]any, error) {
			<-c.Done()
			return nil, errors.New("interrupted")
		})
		if _, err := h.Engine.Jobs().Define(t.Context(), h.Job(`{"name": "a", "steps": [{"type": "demo.work"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		queued, err := h.Engine.Enqueue(t.Context(), "a", nil)
		if err == nil {
			_, err = h.Engine.Cancel(t.Context(), queued.ID, &courier.CancelOptions{By: courier.By{Actor: "ops"}})
		}
		if err != nil {
			t.Fatal(err)
		}
		log.count(t, 2)
		log.count(t, 1, "level=WARN", "no worker that was seen lately serves its queue")
		log.count(t, 1, "level=INFO", `"execution cancelled"`, "job=a", "by=ops", "execution="+string(queued.ID))
		log.Reset()
		running := launch(t, h.Engine, h.Job(`{"name": "a", "steps": [{"type": "demo.work"}]}`))
		time.Sleep(time.Second)
		if _, err := h.Engine.Cancel(t.Context(), running, &courier.CancelOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		h.Wait(running).RequireState(courier.Cancelled)
		synctest.Wait() // for the line about the end
		log.count(t, 3)
		log.count(t, 1, "level=WARN", `"step failed"`, "reason=cancelled", "duration=1s")
		log.count(t, 1, "level=INFO", `"execution cancelled"`, "duration=1s")
	})
}

// TestLogOfATakeover has an engine that can't renew lose an execution to another.
func TestLogOfATakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good, bad := new(logbook), new(logbook)
		var events []courier.EventType
		h := couriertest.New(t, &engine.Options{Log: good.logger(), Worker: "good", Observers: []func(courier.Event){
			func(e courier.Event) { events = append(events, e.Type) },
		}})
		h.Stub("demo.work", func(ctx, *courier.Context, map[string]any) (map[string]any, error) {
			time.Sleep(20 * time.Second)
			return nil, nil
		})
		e := engine.New(&brokenRenew{h.Store}, h.Registry, &engine.Options{Log: bad.logger(), Worker: "bad", Workspace: t.TempDir()})
		id := launch(t, e, h.Job(`{"name": "a", "steps": [{"type": "demo.work"}]}`))
		time.Sleep(time.Second)
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.Wait(id).RequireState(courier.Completed)
		if err := e.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		bad.count(t, 1, "level=WARN", `"execution lost`, "execution="+string(id), "job=a", "step=0", "type=demo.work", "attempt=1", "reason=worker_lost", "duration=")
		bad.count(t, 1, `"execution started"`)
		bad.count(t, 0, `"execution completed"`)
		good.count(t, 3)
		good.count(t, 1, "level=WARN", `"execution taken over from a lost worker"`, "step=0", "attempt=1", "lost_worker=bad", "workers_lost=1", "duration=15s")
		good.count(t, 1, "level=WARN", `"step failed"`, "reason=worker_lost", "attempt=1", "duration=15s")
		good.count(t, 1, "level=INFO", `"execution completed"`, "duration=35s")
		synctest.Wait()
		if got := fmt.Sprint(events); got != "[JobTakenOver StepFailed StepStarted StepCompleted JobCompleted]" {
			t.Errorf("events %s", got)
		}
	})
}

// TestSizeLimits has outputs, values, lists of files and parameters that are just
// within their limits, and a byte beyond.
func TestSizeLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(logbook)
		h := couriertest.New(t, &engine.Options{MaxOutput: 1000, MaxValue: 100, MaxParams: 200, Log: log.logger()})
		const frame = len(`{"x":""}`)
		h.Stub("demo.output", func(_ ctx, _ *courier.Context, cfg map[string]any) (map[string]any, error) {
			n, _ := cfg["n"].(fmt.Stringer)
			var size int
			fmt.Sscan(n.String(), &size)
			return map[string]any{"x": strings.Repeat("x", size)}, nil
		})
		h.Stub("demo.value", func(_ ctx, job *courier.Context, cfg map[string]any) (map[string]any, error) {
			var size int
			fmt.Sscan(fmt.Sprint(cfg["n"]), &size)
			return nil, job.Set("v", strings.Repeat("x", size))
		})
		h.Stub("demo.files", func(_ ctx, job *courier.Context, cfg map[string]any) (map[string]any, error) {
			var size int
			fmt.Sscan(fmt.Sprint(cfg["n"]), &size)
			for i := range size {
				if err := stepcontext.Of(job).Removed(fmt.Sprintf("%068d", i)); err != nil {
					return nil, err
				}
			}
			return nil, nil
		})
		for typ, tt := range map[string]struct {
			most int
			say  string
		}{
			"demo.output": {1000 - frame, "its output has 1001 bytes"},
			"demo.value":  {98, "the value has 101 bytes, more than the 100 of engine.Options.MaxValue"},
			"demo.files":  {10, "the list of its files 1100, more than the 1000 of engine.Options.MaxOutput"},
		} {
			job := func(n int) courier.Job {
				return h.Job(fmt.Sprintf(`{"name": %q, "failure_policy": {"type": "retry_step", "max_retries": 5}, "steps": [{"type": %q, "config": {"n": %d}}]}`, typ, typ, n))
			}
			h.Run(job(tt.most), nil).RequireState(courier.Completed)
			r := h.Run(job(tt.most+1), nil).RequireState(courier.Failed).RequireTrace("0 " + typ + " failed")
			if f := r.Failure; f == nil || !strings.Contains(f.Message, tt.say) || len(r.Steps[0].Files) > 0 {
				t.Errorf("%s: %+v", typ, f)
			}
		}
		job := h.Job(`{"name": "p", "steps": [{"type": "demo.output", "config": {"n": 1}}]}`)
		fits := map[string]any{"x": strings.Repeat("x", 200-frame)}
		h.Run(job, fits).RequireState(courier.Completed)
		fits["x"] = fits["x"].(string) + "x"
		_, err := h.Engine.Enqueue(t.Context(), "p", &courier.EnqueueOptions{Params: fits})
		if !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), "they have 201 bytes, more than the 200 of engine.Options.MaxParams") {
			t.Errorf("enqueue: %v", err)
		}
	})
}
