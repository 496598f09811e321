package engine_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest"
)

// eventText names what an event and an audit entry have in common.
func eventText(e *courier.Event) string {
	return fmt.Sprintf("%s %d%v#%d %s by %q", e.Type, e.Step, e.Iteration, e.Attempt, e.Reason, e.By)
}

// eventOfEntry is the event of an audit entry that follows others; "" if it has
// none: creation and release, what goes back to the queue or to pending, and all
// claims but the first.
func eventOfEntry(before []courier.AuditEntry, a *courier.AuditEntry) string {
	e := courier.Event{Step: -1, Reason: a.Reason, By: a.By}
	if a.Step != nil {
		e.Step, e.Iteration, e.Attempt = *a.Step, a.Iteration, a.Attempt
		e.Type = map[string]courier.EventType{
			"running": courier.EventStepStarted, "completed": courier.EventStepCompleted,
			"failed": courier.EventStepFailed, "skipped": courier.EventStepSkipped,
		}[a.To]
	} else {
		e.Type = map[string]courier.EventType{
			"completed": courier.EventJobCompleted, "failed": courier.EventJobFailed,
			"paused": courier.EventJobPaused, "cancelled": courier.EventJobCancelled,
		}[a.To]
		failed := before
		for i := len(before) - 1; i >= 0 && (before[i].Step != nil || !courier.State(before[i].To).Ended()); i-- {
			if b := &before[i]; b.Step == nil && b.From == b.To {
				failed = before[:i] // and runs the finally part since
			}
		}
		if a.To == "failed" && len(failed) > 0 { // it names the step that has just failed
			if b := failed[len(failed)-1]; b.Step != nil && b.To == "failed" && (b.Reason == a.Reason || a.Reason != courier.ReasonItems) {
				e.Step, e.Iteration, e.Attempt = *b.Step, b.Iteration, b.Attempt
			}
		}
		if a.To == "queued" && (a.From == "paused" || a.From == "failed") && a.Reason != courier.ReasonCancelled {
			e.Type = courier.EventJobResumed
		}
		if a.To == "queued" && a.From == "running" && a.Reason == courier.ReasonWorkerLost {
			e.Type = courier.EventJobTakenOver
		}
		if a.To == "running" {
			e.Type = courier.EventJobStarted
			for _, b := range before {
				if b.Step == nil && b.To == "running" {
					return ""
				}
			}
		}
	}
	if e.Type == "" {
		return ""
	}
	return eventText(&e)
}

// A listener keeps what it is told of each execution, without what is not in the
// audit: progress, and that an engine has lost an execution.
type listener struct {
	mu   sync.Mutex
	seen map[courier.ExecutionID][]string
	bad  []string
	look func(e *courier.Event) string // what is wrong at the moment of an event
}

func (l *listener) hear(e courier.Event) {
	var bad string
	if l.look != nil {
		bad = l.look(&e)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if bad != "" {
		l.bad = append(l.bad, bad)
	}
	if l.seen == nil {
		l.seen = make(map[courier.ExecutionID][]string)
	}
	if e.Type != courier.EventStepProgress && e.Type != courier.EventJobLost {
		l.seen[e.Execution] = append(l.seen[e.Execution], eventText(&e))
	}
}

// expected are the events of an audit, in order.
func expected(audit []courier.AuditEntry) []string {
	var list []string
	for i := range audit {
		if text := eventOfEntry(audit[:i], &audit[i]); text != "" {
			list = append(list, text)
		}
	}
	return list
}

// inOrder returns events with each resume before the start that it led to: it comes from
// another goroutine, and may be told behind that.
func inOrder(events []string) []string {
	events = slices.Clone(events)
	for i := 1; i < len(events); i++ {
		if strings.HasPrefix(events[i], "JobResumed ") && strings.HasPrefix(events[i-1], "StepStarted ") {
			events[i-1], events[i] = events[i], events[i-1]
		}
	}
	return events
}

// TestEventsAreTheAudit leads executions through everything that can happen to
// one, on two engines with one listener, and compares the events with the audit,
// one by one. No event comes before what it tells of can be read.
func TestEventsAreTheAudit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(listener)
		dir := t.TempDir()
		h := couriertest.New(t, &engine.Options{Workspace: dir, Worker: "a", Observers: []func(courier.Event){l.hear}})
		l.look = func(e *courier.Event) string {
			audit, _ := h.Store.Audit(t.Context(), store.AuditFilter{Execution: e.Execution})
			for i := range audit {
				if eventOfEntry(audit[:i], &audit[i]) == eventText(e) {
					return ""
				}
			}
			if e.Type == courier.EventStepProgress || e.Type == courier.EventJobLost {
				return ""
			}
			return fmt.Sprintf("%s: not in the audit yet", eventText(e))
		}
		b := engine.New(h.Store, h.Registry, &engine.Options{Workspace: dir, Worker: "b", Observers: []func(courier.Event){l.hear}})
		var mu sync.Mutex
		failures := make(map[string]bool)
		h.Stub("demo.work", func(c ctx, job *courier.Context, cfg map[string]any) (map[string]any, error) {
			job.Progress(1, 10, "x")
			select {
			case <-time.After(10 * time.Second):
			case <-c.Done():
				return nil, contextCause(c)
			}
			key := fmt.Sprint(job.Execution(), job.Step(), job.Iteration())
			mu.Lock()
			defer mu.Unlock()
			if cfg["fail"] == "once" && !failures[key] {
				failures[key] = true
				return nil, errors.New("boom")
			}
			return nil, nil
		})
		for name, policy := range map[string]string{"stop": `"stop"`, "retry": `"retry_step"`, "again": `"retry_job"`, "skip": `"skip_and_continue"`} {
			if _, err := h.Engine.Jobs().Define(t.Context(), h.Job(`{"name": "`+name+`", "failure_policy": `+policy+`, "steps": [
				{"type": "demo.work"},
				{"type": "flow.foreach", "config": {"source": ["a", "b"]}}, {"type": "demo.work", "config": {"fail": "once"}}, {"type": "flow.end"},
				{"type": "flow.if", "config": {"left": 1, "operator": "equals", "right": 2}}, {"type": "demo.work"}, {"type": "flow.end"},
				{"type": "demo.work"}]}`), nil); err != nil {
				t.Fatal(err)
			}
		}
		start := func(e *engine.Engine) {
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		stop := func(e *engine.Engine) {
			done, cancel := contextWithCancel(t)
			cancel()
			if err := e.Stop(done); err != nil {
				t.Error(err)
			}
		}
		enqueue := func(name string, hold bool) courier.ExecutionID {
			x, err := h.Engine.Enqueue(t.Context(), name, &courier.EnqueueOptions{Hold: hold, By: courier.By{Actor: "me"}})
			if err != nil {
				t.Fatal(err)
			}
			return x.ID
		}
		do := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		if err := h.Engine.Limits().Set(t.Context(), "global", 0, courier.By{}); err != nil {
			t.Fatal(err)
		}
		start(h.Engine)
		plain, retried, again, skipped := enqueue("stop", false), enqueue("retry", false), enqueue("again", false), enqueue("skip", false)
		held := enqueue("retry", true)
		waiting := enqueue("retry", true)
		time.Sleep(5 * time.Second)
		do(errOf(h.Engine.Pause(t.Context(), retried, courier.By{Actor: "ops"})))
		do(errOf(h.Engine.Release(t.Context(), held, courier.By{Actor: "ops"})))
		do(errOf(h.Engine.Cancel(t.Context(), waiting, &courier.CancelOptions{By: courier.By{Actor: "ops"}})))
		time.Sleep(10 * time.Second)
		do(errOf(h.Engine.Resume(t.Context(), retried, &courier.ResumeOptions{By: courier.By{Actor: "ops"}})))
		do(errOf(h.Engine.Pause(t.Context(), skipped, courier.By{Actor: "ops"})))
		do(errOf(h.Engine.Resume(t.Context(), skipped, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}))) // withdrawn
		time.Sleep(7 * time.Second)
		stop(h.Engine) // in the middle of steps
		start(b)
		time.Sleep(5 * time.Second)
		do(errOf(b.Cancel(t.Context(), held, &courier.CancelOptions{By: courier.By{Actor: "ops"}})))
		time.Sleep(time.Minute)
		do(errOf(b.Resume(t.Context(), plain, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}))) // it has failed
		dead := enqueue("skip", true)
		stop(b)
		do(errOf(b.Release(t.Context(), dead, courier.By{Actor: "ops"})))
		claimDead(t, h, dead)
		time.Sleep(16 * time.Second)
		start(b)
		time.Sleep(20 * time.Minute)
		do(errOf(b.Cancel(t.Context(), plain, &courier.CancelOptions{By: courier.By{Actor: "ops"}}))) // failed again, in the second iteration
		stop(b)
		synctest.Wait()
		for id, name := range map[courier.ExecutionID]string{plain: "plain", retried: "retried", again: "again", skipped: "skipped", held: "held", waiting: "waiting", dead: "dead"} {
			audit, err := h.Engine.Executions().Audit(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			want, got := expected(audit), l.seen[id]
			if id == dead {
				want = want[1:] // its start was that of a worker that told nobody
			}
			if !slices.Equal(inOrder(got), want) {
				t.Errorf("%s: events\n  %s\nwant\n  %s", name, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
			}
			if err := storetest.CheckExecution(t.Context(), h.Store, id); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if x, _ := h.Store.Execution(t.Context(), id); !x.State.Final() {
				t.Errorf("%s: %s", name, x.State)
			}
		}
		if len(l.bad) > 0 || h.Engine.Metrics().Dropped()+b.Metrics().Dropped() > 0 {
			t.Errorf("early: %v; dropped %d", l.bad, h.Engine.Metrics().Dropped()+b.Metrics().Dropped())
		}
	})
}

// manySteps is a job with n iterations: 2n+2 events.
func manySteps(n int) courier.Job {
	return courier.Job{Name: "many", Steps: []courier.StepSpec{
		{Type: "flow.foreach", Config: m{"source": make([]int, n)}}, {Type: "demo.a"}, {Type: "flow.end"},
	}}
}

// TestDroppedEventsAreCounted blocks an observer while more happens than may
// wait: 1,024 and the one that it is looking at.
func TestDroppedEventsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		var seen []courier.Event
		h := couriertest.New(t, &engine.Options{Observers: []func(courier.Event){func(e courier.Event) {
			<-open
			seen = append(seen, e)
		}}})
		h.Stub("demo.a", nil)
		start := time.Now()
		const n = 2000
		h.Run(manySteps(n), nil).RequireState(courier.Completed)
		if d := time.Since(start); d > 6*time.Second { // Run gives observers 5 s
			t.Errorf("an observer that blocks held up the execution for %v", d)
		}
		const most = 1024 + 1
		if got := h.Engine.Metrics().Dropped(); got != 2*n+2-most {
			t.Errorf("dropped %d of %d, want %d", got, 2*n+2, 2*n+2-most)
		}
		close(open)
		synctest.Wait()
		if len(seen) != most || seen[0].Type != courier.EventJobStarted {
			t.Errorf("%d seen, want the first %d", len(seen), most)
		}
		before := h.Engine.Metrics().Dropped()
		h.Run(manySteps(10), nil).RequireState(courier.Completed)
		if len(seen) != most+22 || h.Engine.Metrics().Dropped() != before {
			t.Errorf("afterwards %d seen, want %d; dropped %d more", len(seen), most+22, h.Engine.Metrics().Dropped()-before)
		}
	})
}

// TestObserversHarmNobody has observers that panic, end their goroutine, are
// slow, or never return, before one that is well.
func TestObserversHarmNobody(t *testing.T) {
	for name, bad := range map[string]func(courier.Event){
		"panic":  func(courier.Event) { panic("observer") },
		"nil":    func(courier.Event) { panic(nil) },
		"goexit": func(courier.Event) { runtime.Goexit() },
		"slow":   func(courier.Event) { time.Sleep(time.Second) },
	} {
		synctest.Test(t, func(t *testing.T) {
			var l listener
			h := couriertest.New(t, &engine.Options{Slots: 1, Observers: []func(courier.Event){bad, l.hear}})
			h.Stub("demo.a", nil)
			if _, err := h.Engine.Jobs().Define(t.Context(), manySteps(5), nil); err != nil {
				t.Fatal(err)
			}
			if err := h.Engine.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				x, err := h.Engine.Enqueue(t.Context(), "many", nil)
				if err != nil {
					t.Fatal(err)
				}
				r := h.Wait(x.ID).RequireState(courier.Completed)
				if d := r.EndedAt.Sub(r.StartedAt); d > time.Second/2 {
					t.Errorf("%s: took %v", name, d)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if got, want := l.seen[x.ID], expected(r.Audit); !slices.Equal(got, want) {
					t.Errorf("%s: the other observer saw %v, want %v", name, got, want)
				}
			}
		})
	}
}

// TestStopDoesNotWaitForObservers has one that does not return for an hour.
func TestStopDoesNotWaitForObservers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, &engine.Options{Observers: []func(courier.Event){func(courier.Event) { time.Sleep(time.Hour) }}})
		id, open := startThree(t, h)
		close(open)
		h.Wait(id).RequireState(courier.Completed)
		start := time.Now()
		if err := h.Engine.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("the stop took %v", d)
		}
		time.Sleep(24 * time.Hour) // lets the goroutine end
	})
}
