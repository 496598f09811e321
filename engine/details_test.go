package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
)

// detailed returns the records of an execution with their details.
func detailed(t *testing.T, h *couriertest.Harness, id courier.ExecutionID) []courier.StepExecution {
	t.Helper()
	list, err := h.Engine.Executions().StepsPage(t.Context(), store.StepFilter{Execution: id, Details: true})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

//go:noinline
func fallDeep(n int) int {
	if n == 0 {
		panic("bang")
	}
	return fallDeep(n-1) + n
}

//go:noinline
func fallInAFunctionWithAVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryLongName(n int) int {
	if n == 0 {
		panic("bang")
	}
	return fallInAFunctionWithAVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryLongName(n-1) + n
}

//go:noinline
func waitForLong(c chan struct{}) { <-c }

// TestStackIsKept checks that the record of an attempt has the stack of the step if it
// panicked or was cut off, without secrets and cut, and no other record has one.
func TestStackIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, &engine.Options{
			Secrets: func(ctx, courier.SecretRequest) (string, error) { return "engine_test.fallDeep", nil },
		})
		release := make(chan struct{})
		type config struct {
			Do     string `json:"do"`
			Secret string `json:"secret"`
		}
		courier.RegisterFunc(h.Registry, "demo.do", func(c ctx, job *courier.Context, cfg config) (struct{}, error) {
			switch cfg.Do {
			case "panic":
				fallDeep(1)
			case "secret":
				fallDeep(1)
			case "deep":
				fallInAFunctionWithAVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryVeryLongName(1000)
			case "wait":
				waitForLong(release)
			}
			return struct{}{}, nil
		}, nil)
		job := h.Job(`{"name": "stacks", "failure_policy": "skip_and_continue", "steps": [
			{"type": "demo.do"},
			{"type": "demo.do", "config": {"do": "panic"}},
			{"type": "demo.do", "config": {"do": "deep"}},
			{"type": "demo.do", "config": {"do": "secret", "secret": "secret:s"}},
			{"type": "demo.do", "timeout_seconds": 1, "config": {"do": "wait"}},
			{"type": "demo.do"}]}`)
		r := h.Run(job, nil)
		r.RequireState(courier.Completed)
		list := detailed(t, h, r.ID)
		for i, want := range []string{"", "engine_test.fallDeep", "VeryLongName", "[secret s]", "engine_test.waitForLong", ""} {
			s := list[i].Stack
			if want == "" && s != "" || !strings.Contains(s, want) || len(s) > 16<<10 {
				t.Errorf("stack of step %d has %d bytes and not %q: %s", i, len(s), want, s)
			}
			if r.Steps[i].Stack != "" {
				t.Errorf("step %d in a list without details: %s", i, r.Steps[i].Stack)
			}
		}
		if s := list[2].Stack; !strings.HasSuffix(s, "(cut)") {
			t.Errorf("a deep stack has %d bytes, and was not cut: %s", len(s), s)
		}
		if s := list[3].Stack; strings.Contains(s, "fallDeep") {
			t.Errorf("a stack with a secret: %s", s)
		}
		if s := list[4].Stack; strings.Count(s, "goroutine ") > 2 { // and the one that has created it
			t.Errorf("stack of the step that was cut off: %s", s)
		}
		close(release)
		time.Sleep(time.Second)
	})
}

// TestLogIsKept checks that each record has what its attempt has logged, without secrets,
// also those that became known later, and that KeepLog limits it.
func TestLogIsKept(t *testing.T) {
	for _, keep := range []int{0, 2048, -1} {
		synctest.Test(t, func(t *testing.T) {
			h := couriertest.New(t, &engine.Options{
				KeepLog: keep,
				Secrets: func(ctx, courier.SecretRequest) (string, error) { return "hunter2", nil },
			})
			type config struct {
				Lines int `json:"lines"`
			}
			courier.RegisterFunc(h.Registry, "demo.log", func(c ctx, job *courier.Context, cfg config) (struct{}, error) {
				for i := range cfg.Lines {
					job.Log().Info("line", "n", i, "key", "hunter2", "attempt", job.Attempt())
				}
				if cfg.Lines == 0 {
					return struct{}{}, nil
				}
				if _, err := job.Secret(c, "s"); err != nil { // known from now on
					return struct{}{}, err
				}
				if job.Attempt() == 1 {
					return struct{}{}, errors.New("boom")
				}
				return struct{}{}, nil
			}, nil)
			r := h.Run(h.Job(`{"name": "logs", "failure_policy": {"type": "retry_step", "max_retries": 1}, "steps": [
				{"type": "demo.log", "config": {"lines": 0}}, {"type": "demo.log", "config": {"lines": 2}}, {"type": "demo.log", "config": {"lines": 400}}]}`), nil)
			r.RequireState(courier.Completed)
			most := keep
			if keep == 0 {
				most = 16 << 10
			}
			for i, s := range detailed(t, h, r.ID) {
				lines, want := strings.Count(s.Log, "msg=line"), []int{0, 2, 2, 400, 400}[i]
				switch {
				case r.Steps[i].Log != "":
					t.Errorf("record %d in a list without details: %s", i, r.Steps[i].Log)
				case keep < 0 && s.Log != "":
					t.Errorf("KeepLog %d: record %d: %s", keep, i, s.Log)
				case keep >= 0 && (len(s.Log) > most || strings.Contains(s.Log, "hunter") || strings.Count(s.Log, "[secret s]") != lines || strings.Count(s.Log, fmt.Sprint(" attempt=", s.Attempt)) != lines):
					t.Errorf("KeepLog %d: record %d has %d bytes: %s", keep, i, len(s.Log), s.Log)
				case keep >= 0 && lines != want && !(want == 400 && strings.Contains(s.Log, " n=0 ") && strings.Contains(s.Log, " n=399 ") && strings.Contains(s.Log, " are left out\n")):
					t.Errorf("KeepLog %d: record %d has %d lines, want %d: %s", keep, i, lines, want, s.Log)
				}
			}
		})
	}
}

// TestEmit checks that the events of a completed attempt are in its record and told once
// to observers and subscribers, without secrets, and that those of failed attempts, and
// those that are too many, are not.
func TestEmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var observed, told []string
		h := couriertest.New(t, &engine.Options{
			Secrets: func(ctx, courier.SecretRequest) (string, error) { return "hunter2", nil },
			Observers: []func(courier.Event){func(e courier.Event) {
				if e.Type == courier.EventStep || e.Type == courier.EventStepCompleted {
					mu.Lock()
					defer mu.Unlock()
					observed = append(observed, fmt.Sprint(e.Type, " ", e.Step, " ", e.Attempt, " ", e.Name, " ", string(e.Payload)))
				}
			}},
			Subscribers: map[string]func(ctx, notify.Notification) error{"f": func(_ ctx, n notify.Notification) error {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, fmt.Sprint(*n.Step, " ", n.StepAttempt, " ", n.Name, " ", string(n.Payload)))
				return nil
			}},
		})
		courier.RegisterFunc(h.Registry, "demo.emit", func(c ctx, job *courier.Context, _ struct{}) (struct{}, error) {
			if err := job.Emit("row", map[string]any{"attempt": job.Attempt(), "key": "hunter2", "n": 1.5}); err != nil {
				return struct{}{}, err
			}
			if _, err := job.Secret(c, "s"); err != nil { // known from now on
				return struct{}{}, err
			}
			if job.Attempt() == 1 {
				return struct{}{}, errors.New("boom")
			}
			return struct{}{}, job.Emit("end-of-rows", nil)
		}, nil)
		courier.RegisterFunc(h.Registry, "demo.many", func(_ ctx, job *courier.Context, _ struct{}) (struct{}, error) {
			for i := range 101 {
				if err := job.Emit("e", i); err != nil {
					return struct{}{}, err
				}
			}
			return struct{}{}, nil
		}, nil)
		h.Start()
		sub := notify.Subscription{Name: "s", Kind: notify.KindFunc, Events: []courier.EventType{courier.EventStep}, Func: "f"}
		if _, err := h.Engine.Subscriptions().Set(t.Context(), sub, courier.By{}); err != nil {
			t.Fatal(err)
		}
		job := h.Job(`{"name": "emits", "steps": [
			{"type": "demo.emit", "failure_policy": {"type": "retry_step", "max_retries": 1}}, {"type": "demo.many", "failure_policy": {"type": "retry_step", "max_retries": 2}}]}`)
		r := h.Wait(h.Enqueue(job, nil)).RequireState(courier.Failed).RequireError("the attempt has 100 events already, the most that it may have")
		if _, err := h.Engine.Resume(t.Context(), r.ID, nil); err != nil {
			t.Fatal(err)
		}
		r = h.Wait(r.ID).RequireState(courier.Failed)
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		list := []string{`0 2 row {"attempt":2,"key":"[secret s]","n":1.5}`, "0 2 end-of-rows null"}
		if slices.Sort(told); !slices.Equal(told, []string{list[1], list[0]}) {
			t.Errorf("subscribers were told %q", told)
		}
		if want := []string{"StepEvent " + list[0], "StepEvent " + list[1], "StepCompleted 0 2  "}; !slices.Equal(observed, want) {
			t.Errorf("observers were told %q", observed)
		}
		for i, s := range detailed(t, h, r.ID) {
			if want := map[int]int{1: 2}[i]; len(s.Events) != want || r.Steps[i].Events != nil {
				t.Errorf("record %d has %d events, want %d; without details %d", i, len(s.Events), want, len(r.Steps[i].Events))
			}
		}
		if len(r.Steps) != 4 {
			t.Errorf("%d records: a permanent failure was repeated", len(r.Steps))
		}
	})
}
