package promise_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/promise"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storewrap"
)

// A scene is a store with a job, what a witness sees of it, and what happens.
type scene struct {
	t *testing.T
	s store.Store // as workers see it
	w *promise.Witness
	n int
}

func (s *scene) enqueue(key string) courier.ExecutionID {
	s.t.Helper()
	s.n++
	got, err := s.s.Enqueue(s.t.Context(), []store.NewExecution{{
		ID: courier.ExecutionID(fmt.Sprint("x", s.n)), Job: "job", Version: 1, StepTypes: []string{"a.b"}, Queue: "default", IdempotencyKey: key,
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	return got[0].Execution.ID
}

func (s *scene) claim(worker string) *store.Claimed {
	s.t.Helper()
	got, err := s.s.Claim(s.t.Context(), store.ClaimRequest{
		Worker: worker, StepTypes: []string{"a.b"}, Queues: []string{"default"}, Max: 1, Lease: time.Minute,
	})
	if err != nil || len(got.List) != 1 {
		s.t.Fatal(got, err)
	}
	return &got.List[0]
}

func (s *scene) apply(c *store.Claimed, t store.Transition) {
	t.Execution, t.Lease = c.Execution.ID, c.Token
	if t.Seq == 0 {
		t.Seq = c.Seq + 1
	}
	s.s.Apply(s.t.Context(), t)
}

// attempt is the record of an attempt at the only step.
func attempt(n int) *courier.StepExecution { return &courier.StepExecution{Type: "a.b", Attempt: n} }

func ended(n int, state courier.StepState) courier.StepExecution {
	s := attempt(n)
	s.State = state
	return *s
}

// breaking is a store that breaks promises: it does wrong when a method is
// called.
type breaking map[string]func(ctx context.Context, m *memstore.Store, c *storewrap.Call, do func(context.Context) error) error

// TestWitness shows that each promise that is broken is seen, and that none is
// where all are kept.
func TestWitness(t *testing.T) {
	for _, c := range []struct {
		name string
		bad  breaking
		play func(s *scene)
		want string // part of the breach; empty if there is none
	}{
		{name: "all kept", play: func(s *scene) {
			s.w.Acknowledged(s.enqueue("k"))
			s.enqueue("k")
			c := s.claim("a")
			s.apply(c, store.Transition{To: courier.Running, Start: attempt(1), Counters: store.Counters{Attempts: 1}})
			s.apply(c, store.Transition{To: courier.Running, Start: attempt(1), Counters: store.Counters{Attempts: 1}})
			s.apply(c, store.Transition{To: courier.Completed, Seq: c.Seq + 2, Ended: []courier.StepExecution{ended(1, courier.StepCompleted)}})
		}},
		{name: "acknowledged and not written", want: "P1: execution lost: it was acknowledged", play: func(s *scene) { s.w.Acknowledged("lost") }},
		{name: "late write", want: "P2: execution x1: a write under a lease that was taken over",
			bad: breaking{"Apply": func(ctx context.Context, m *memstore.Store, c *storewrap.Call, do func(context.Context) error) error {
				x, _ := m.Execution(ctx, c.Execution)
				if t := c.Request.(store.Transition); t.To == courier.Completed && x.Worker == "b" {
					return nil
				}
				return do(ctx)
			}},
			play: func(s *scene) {
				s.enqueue("")
				a := s.claim("a")
				time.Sleep(time.Hour)
				s.claim("b")
				s.apply(a, store.Transition{To: courier.Completed})
			}},
		{name: "completed twice", want: "P3: execution x1: step 0[] was completed twice", play: func(s *scene) {
			s.enqueue("")
			c := s.claim("a")
			s.apply(c, store.Transition{To: courier.Running, Ended: []courier.StepExecution{ended(1, courier.StepCompleted)}})
			s.apply(c, store.Transition{To: courier.Running, Seq: c.Seq + 2, Ended: []courier.StepExecution{ended(2, courier.StepCompleted)}})
		}},
		{name: "started after it was completed", want: "P3: execution x1: step 0[] was completed, and starts again", play: func(s *scene) {
			s.enqueue("")
			c := s.claim("a")
			s.apply(c, store.Transition{To: courier.Running, Ended: []courier.StepExecution{ended(1, courier.StepCompleted)}})
			s.apply(c, store.Transition{To: courier.Running, Seq: c.Seq + 2, Start: attempt(2)})
		}},
		{name: "attempt number used twice", want: "P4: execution x1: attempt 1 of step 0[] was started before", play: func(s *scene) {
			s.enqueue("")
			c := s.claim("a")
			s.apply(c, store.Transition{To: courier.Running, Start: attempt(1)})
			s.apply(c, store.Transition{To: courier.Running, Seq: c.Seq + 2, Ended: []courier.StepExecution{ended(1, courier.StepFailed)}})
			s.apply(c, store.Transition{To: courier.Running, Seq: c.Seq + 3, Start: attempt(1)})
		}},
		{name: "executed without a record", want: "P4: execution x1: Execute by worker a of step 0[], attempt 1: the store does not know", play: func(s *scene) {
			id := s.enqueue("")
			s.claim("a")
			s.w.Begin("a", promise.Execute, courier.NewContext(courier.ContextConfig{Execution: id}))
		}},
		{name: "two in one directory", want: "P4: execution x1: Execute by worker b of step 0[], attempt 1: worker a is still at work", play: func(s *scene) {
			id := s.enqueue("")
			c := s.claim("a")
			s.apply(c, store.Transition{To: courier.Running, Start: attempt(1)})
			job := courier.NewContext(courier.ContextConfig{Execution: id, Workspace: "w", Values: firstAttempt})
			s.w.Begin("a", promise.Execute, job)
			s.w.Begin("b", promise.Execute, job)
		}},
		{name: "no cleanup", want: "P4: execution x1: Execute by worker a of step 0[], attempt 2: no Cleanup was called", play: func(s *scene) {
			id := s.enqueue("")
			c := s.claim("a")
			for n := 1; n <= 2; n++ {
				s.apply(c, store.Transition{To: courier.Running, Seq: c.Seq + int64(2*n-1), Start: attempt(n)})
				job := courier.NewContext(courier.ContextConfig{Execution: id, Attempt: n, Workspace: "w", Values: firstAttempt})
				s.w.Begin("a", promise.Execute, job)()
				s.apply(c, store.Transition{To: courier.Running, Seq: c.Seq + int64(2*n), Ended: []courier.StepExecution{ended(n, courier.StepFailed)}})
			}
		}},
		{name: "limit", want: `P5: execution x2: worker b claimed it, and now 2 run under the limit "" of 1`, play: func(s *scene) {
			s.enqueue("")
			s.enqueue("")
			s.claim("a")
			s.s.Set(s.t.Context(), store.LimitSetting(""), "1")
			s.claim("b")
		}, bad: breaking{"Set": func(context.Context, *memstore.Store, *storewrap.Call, func(context.Context) error) error { return nil }}},
		{name: "one key, two executions", want: `P6: execution x2: it was created with the idempotency key "k" of execution x1`, play: func(s *scene) {
			s.enqueue("k")
			s.enqueue("k")
		}, bad: breaking{"Enqueue": func(ctx context.Context, m *memstore.Store, c *storewrap.Call, do func(context.Context) error) error {
			list := c.Request.([]store.NewExecution)
			list[0].IdempotencyKey = ""
			err := do(ctx)
			list[0].IdempotencyKey = "k"
			return err
		}}},
		{name: "refused and written", want: `P7: execution x1: Apply was refused with "the disk is full", but changed it`, play: func(s *scene) {
			s.enqueue("")
			s.apply(s.claim("a"), store.Transition{To: courier.Running, Start: attempt(1)})
		}, bad: breaking{"Apply": func(ctx context.Context, m *memstore.Store, c *storewrap.Call, do func(context.Context) error) error {
			do(ctx)
			return fmt.Errorf("the disk is full")
		}}},
		{name: "cancel forgotten", want: "P8: execution x1: a cancel was acknowledged, but never written", play: func(s *scene) {
			s.w.Obeyed(s.enqueue(""), courier.RequestCancel)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := memstore.New()
				if _, err := m.Save(t.Context(), store.Definition{Kind: store.Job, Name: "job", Body: json.RawMessage("{}")}); err != nil {
					t.Fatal(err)
				}
				s := &scene{t: t, w: promise.Watch(storewrap.Intercept(m, func(ctx context.Context, call *storewrap.Call, do func(context.Context) error) error {
					if f := c.bad[call.Method]; f != nil {
						return f(ctx, m, call, do)
					}
					return do(ctx)
				}))}
				s.s = s.w.Store()
				c.play(s)
				err := s.w.Err()
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
					t.Errorf("breach = %v, want %q", err, c.want)
				}
			})
		})
	}
}

// firstAttempt are the values of a first attempt of an execution.
var firstAttempt = courier.Values{"job.attempt": 1}

// TestCheck shows what the archive's view tells.
func TestCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memstore.New()
		if _, err := m.Save(t.Context(), store.Definition{Kind: store.Job, Name: "job", Body: json.RawMessage("{}")}); err != nil {
			t.Fatal(err)
		}
		s := &scene{t: t, s: m}
		one, two := s.enqueue(""), s.enqueue("")
		a, b := s.claim("a"), s.claim("b")
		time.Sleep(time.Second)
		s.apply(a, store.Transition{To: courier.Running, Ended: []courier.StepExecution{ended(1, courier.StepCompleted), ended(2, courier.StepCompleted)}})
		s.apply(a, store.Transition{To: courier.Completed, Seq: a.Seq + 3})
		err := promise.Check(t.Context(), m, []courier.ExecutionID{one, two, "lost"}, promise.Rules{Limits: map[string]int{"": 1, "job:job": 2}})
		for _, want := range []string{
			"P3: execution x1: step 0[] of attempt 1 was over with audit entry 3, and was executed again as attempt 2",
			"P1: execution x2: it is still running",
			"P1: execution lost: it is lost",
			`P5: execution x2: with it, 2 executions ran at once under the limit "" of 1`,
		} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Check tells\n%v\nwithout %q", err, want)
			}
		}
		if err != nil && strings.Contains(err.Error(), "job:job") {
			t.Errorf("Check tells %v, but that limit was kept", err)
		}
		s.apply(b, store.Transition{To: courier.Paused})
		if err := promise.Check(t.Context(), m, []courier.ExecutionID{two}, promise.Rules{Waiting: true}); err != nil {
			t.Error(err)
		}
	})
}
