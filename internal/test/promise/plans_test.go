package promise_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/internal/test/promise"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storewrap"
)

// start starts a chain execution: b and then c depend on a, c also if it fails.
func (s *scene) start(id courier.ChainExecutionID, key string) {
	s.t.Helper()
	s.startWith(id, key, "a")
}

// startWith is start with another member on which c depends.
func (s *scene) startWith(id courier.ChainExecutionID, key, c string) {
	s.t.Helper()
	member := func(name string, on ...chain.Dependency) chain.NewMember {
		return chain.NewMember{Name: name, DependsOn: on, Execution: store.NewExecution{
			ID: courier.ExecutionID(string(id) + name), Job: "job", Version: 1, StepTypes: []string{"a.b"}, Queue: "default",
		}}
	}
	_, err := s.s.(chain.Store).StartChains(s.t.Context(), []chain.NewExecution{{
		ID: id, Chain: "chain", Version: 1, IdempotencyKey: key, Members: []chain.NewMember{
			member("a"), member("b", chain.Dependency{Member: "a"}), member("c", chain.Dependency{Member: c, RunOnFailure: true}),
		},
	}})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) askChain(id courier.ChainExecutionID, kind courier.RequestKind, ids ...courier.ExecutionID) {
	if _, _, err := s.s.(chain.Store).RequestChain(s.t.Context(), chain.Request{Chain: id, Kind: kind, IDs: ids}); err != nil {
		s.t.Fatal(err)
	}
}

// end claims what is first in the queue, and ends it.
func (s *scene) end(to courier.State) {
	t := store.Transition{To: to, Chain: "k"}
	if to == courier.Failed {
		t.Failure = &courier.Failure{Message: "no"}
	}
	s.apply(s.claim("a"), t)
}

// schedule sets a schedule that is due every second, with a policy, and returns
// it.
func (s *scene) schedule(policy string) schedule.Record {
	s.t.Helper()
	next := time.Now().UTC().Add(time.Second)
	got, err := s.s.(schedule.Store).PutSchedule(s.t.Context(), schedule.Record{
		Name: "s", Kind: store.Job, Target: "job", Body: json.RawMessage(`{"name": "s", "job": "job", "every_seconds": 1` + policy + `}`),
		Status: schedule.Status{Next: next, Due: next},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}

// fire fires the schedule at its next tick, or others in its place.
func (s *scene) fire(ticks ...time.Time) {
	s.t.Helper()
	a := s.s.(schedule.Store)
	time.Sleep(time.Second)
	d, err := a.DueSchedules(s.t.Context(), 1, time.Minute)
	if err != nil || len(d.List) != 1 {
		s.t.Fatal(d, err)
	}
	got := d.List[0]
	if len(ticks) == 0 {
		ticks = []time.Time{got.Next}
	}
	f := schedule.Firing{Schedule: "s", Revision: got.Revision, Status: got.Status}
	f.Status.Next = got.Next.Add(time.Second)
	f.Status.Due = f.Status.Next
	for _, tick := range ticks {
		s.n++
		f.Executions = append(f.Executions, store.NewExecution{
			ID: courier.ExecutionID(strings.Repeat("t", s.n)), Job: "job", Version: 1, StepTypes: []string{"a.b"}, Queue: "default",
			IdempotencyKey: schedule.TickKey("s", tick),
		})
	}
	if _, err := a.FireSchedules(s.t.Context(), []schedule.Firing{f}); err != nil {
		s.t.Fatal(err)
	}
}

// lateChain removes a schedule whose first tick has fired, and has one of a chain in its place,
// by a call that was late: its first tick is the same.
func (s *scene) lateChain() {
	s.t.Helper()
	a := s.s.(schedule.Store)
	was := s.schedule("")
	s.fire()
	s.end(courier.Completed)
	if err := a.RemoveSchedule(s.t.Context(), "s"); err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(time.Second)
	body := json.RawMessage(`{"name": "s", "chain": "chain", "every_seconds": 1}`)
	next := schedule.Status{Next: was.Next, Due: was.Next}
	if _, err := a.PutSchedule(s.t.Context(), schedule.Record{Name: "s", Kind: store.Chain, Target: "chain", Body: body, Status: next}); err != nil {
		s.t.Fatal(err)
	}
	d, err := a.DueSchedules(s.t.Context(), 1, time.Minute)
	if err != nil || len(d.List) != 1 {
		s.t.Fatal(d, err)
	}
	f := schedule.Firing{Schedule: "s", Revision: d.List[0].Revision, Status: d.List[0].Status}
	f.Status.Next = was.Next.Add(time.Minute)
	f.Status.Due = f.Status.Next
	f.Chains = []chain.NewExecution{{
		ID: "c", Chain: "chain", Version: 1, IdempotencyKey: schedule.TickKey("s", was.Next), Members: []chain.NewMember{{Name: "a", Execution: store.NewExecution{
			ID: "ca", Job: "job", Version: 1, StepTypes: []string{"a.b"}, Queue: "default",
		}}},
	}}
	if _, err := a.FireSchedules(s.t.Context(), []schedule.Firing{f}); err != nil {
		s.t.Fatal(err)
	}
}

// defined returns a store with a job and a chain, which are called so.
func defined(t *testing.T) *memstore.Store {
	t.Helper()
	m := memstore.New()
	for _, kind := range []store.Kind{store.Job, store.Chain} {
		if _, err := m.Save(t.Context(), store.Definition{Kind: kind, Name: string(kind), Body: json.RawMessage("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// TestPlanned shows that what is broken of schedules and chains is seen.
func TestPlanned(t *testing.T) {
	type call = func(ctx context.Context, m *memstore.Store, c *storewrap.Call, do func(context.Context) error) error
	// besides makes another call after the one that was made.
	besides := func(f func(ctx context.Context, m *memstore.Store) error) call {
		return func(ctx context.Context, m *memstore.Store, c *storewrap.Call, do func(context.Context) error) error {
			if err := do(ctx); err != nil {
				return err
			}
			return f(ctx, m)
		}
	}
	ask := func(kind courier.RequestKind) call {
		return besides(func(ctx context.Context, m *memstore.Store) error {
			_, _, err := m.RequestChain(ctx, chain.Request{Chain: "k", Kind: kind})
			return err
		})
	}
	nothing := func(context.Context, *memstore.Store, *storewrap.Call, func(context.Context) error) error { return nil }
	skip := `, "overlap": "skip"`
	for _, c := range []struct {
		name string
		bad  breaking
		play func(s *scene)
		want string // part of what is told; empty if nothing is
	}{
		{name: "a chain", play: func(s *scene) {
			s.start("k", "key")
			s.start("k", "key")
			s.end(courier.Failed)
			s.end(courier.Completed)
			s.askChain("k", courier.RequestRetry, "r1", "r2", "r3")
			s.askChain("k", courier.RequestPause)
			s.askChain("k", courier.RequestResume)
			s.end(courier.Completed)
			s.end(courier.Completed)
			s.w.AcknowledgedChain("k")
		}},
		{name: "a schedule", play: func(s *scene) {
			s.schedule(skip)
			s.fire()
			s.end(courier.Completed)
			s.fire()
		}},
		{name: "a chain acknowledged and not written", want: "chain: chain execution lost: it was acknowledged",
			play: func(s *scene) { s.w.AcknowledgedChain("lost") }},
		{name: "a cancel acknowledged and not written", want: "chain: chain execution k: a cancel was acknowledged",
			play: func(s *scene) { s.start("k", ""); s.w.ObeyedChain("k", courier.RequestCancel) }},
		{name: "more was written than was asked", want: `after StartChains: chain: chain execution k: it is paused, and must be running`,
			bad: breaking{"StartChains": ask(courier.RequestPause)}, play: func(s *scene) { s.start("k", "") }},
		{name: "a pause beside an end", want: `after Apply: chain: chain execution k: it is paused, and must be running`,
			bad: breaking{"Apply": func(ctx context.Context, m *memstore.Store, c *storewrap.Call, do func(context.Context) error) error {
				if err := ask(courier.RequestPause)(ctx, m, c, func(context.Context) error { return nil }); err != nil {
					return err
				}
				return do(ctx)
			}},
			play: func(s *scene) { s.start("k", ""); s.end(courier.Completed) }},
		{name: "a cancel is not written", want: `P8: execution ka: after RequestChain it is queued, though a cancel was taken`,
			bad: breaking{"RequestChain": nothing}, play: func(s *scene) { s.start("k", ""); s.askChain("k", courier.RequestCancel) }},
		{name: "a removed schedule is due", want: `P6: schedule "s" is due with revision 1, which it has not`,
			bad: breaking{"RemoveSchedule": nothing},
			play: func(s *scene) {
				s.schedule("")
				s.s.(schedule.Store).RemoveSchedule(s.t.Context(), "s")
				s.fire()
			}},
		{name: "skip does not", want: `P6: schedule "s": its overlap is skip, and it started tt while t had not ended`,
			play: func(s *scene) { s.schedule(skip); s.fire(); s.fire() }},
		{name: "cancel_running does not", want: `P6: schedule "s": its overlap is cancel_running, and it started tt, and did not cancel t`,
			play: func(s *scene) { s.schedule(`, "overlap": "cancel_running"`); s.fire(); s.fire() }},
		{name: "too early", want: `P6: schedule "s": it fired its tick`,
			play: func(s *scene) { s.schedule(""); s.fire(time.Now().Add(time.Hour)) }},
		{name: "again", want: `P6: schedule "s": its tick 2000-01-01 00:00:01 +0000 UTC was fired again`,
			play: func(s *scene) { at := s.schedule("").Next; s.fire(); s.fire(at) }},
		{name: "back", want: `P6: schedule "s": it fired its tick 1999-12-31 23:59:01 +0000 UTC, though 2000-01-01 00:00:01`,
			play: func(s *scene) { s.fire(s.schedule("").Next.Add(-time.Minute)) }},
		{name: "missed", want: `P6: schedule "s": it fired its tick 2000-01-01 00:00:01 +0000 UTC, which had been missed`,
			play: func(s *scene) { s.schedule(`, "misfire": "skip"`); time.Sleep(2 * time.Minute); s.fire() }},
		{name: "one of a chain that was late, in the place of one of a job", play: func(s *scene) { s.lateChain() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := defined(t)
				s := &scene{t: t, w: promise.Watch(storewrap.Intercept(m, func(ctx context.Context, call *storewrap.Call, do func(context.Context) error) error {
					if f := c.bad[call.Method]; f != nil {
						return f(ctx, m, call, do)
					}
					return do(ctx)
				}))}
				s.s = s.w.Planned()
				c.play(s)
				err := s.w.Err()
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
					t.Errorf("told\n%v\nwant %q", err, c.want)
				}
				if err := s.w.Unknown(t.Context()); err != nil && len(c.bad) == 0 {
					t.Error(err)
				}
			})
		})
	}
}

// TestCheckChain shows what the archive tells of a chain execution.
func TestCheckChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := defined(t)
		s := &scene{t: t, s: m}
		s.start("k", "")
		err := promise.CheckChain(t.Context(), m, "k")
		if err == nil || !strings.Contains(err.Error(), "it is still running") {
			t.Errorf("of one that runs: %v", err)
		}
		s.end(courier.Failed)
		s.end(courier.Completed)
		if err := promise.CheckChain(t.Context(), m, "k"); err != nil {
			t.Error(err)
		}
		if err := promise.CheckChain(t.Context(), m, "lost"); err == nil {
			t.Error("one that is not there is fine")
		}
		if err := promise.CheckChain(t.Context(), altered{m}, "k"); err == nil || !strings.Contains(err.Error(), "it is completed, and must be failed") {
			t.Errorf("of one whose state does not follow: %v", err)
		}
	})
}

// TestCheckChainOfRevived has a member begin because another one was skipped, whose turn comes
// again when the chain execution is retried, and never comes when that is cancelled. Without
// the retry it could not have begun.
func TestCheckChainOfRevived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := defined(t)
		s := &scene{t: t, s: m}
		s.startWith("k", "", "b")
		s.end(courier.Failed)
		s.end(courier.Completed)
		s.askChain("k", courier.RequestRetry, "", "", "")
		a := s.claim("a")
		s.askChain("k", courier.RequestPause)
		s.apply(a, store.Transition{To: courier.Completed, Chain: "k"})
		s.askChain("k", courier.RequestCancel)
		if err := promise.CheckChain(t.Context(), m, "k"); err != nil {
			t.Error(err)
		}
		if err := promise.CheckChain(t.Context(), unresumed{m}, "k"); err == nil || !strings.Contains(err.Error(), `member "c" has an execution, though it depends on "b"`) {
			t.Errorf("of one that was not retried: %v", err)
		}
	})
}

// unresumed shows no execution as resumed.
type unresumed struct{ *memstore.Store }

func (u unresumed) Execution(ctx context.Context, id courier.ExecutionID) (courier.Execution, error) {
	x, err := u.Store.Execution(ctx, id)
	x.Resumed = false
	return x, err
}

// altered shows every chain execution as completed.
type altered struct{ *memstore.Store }

func (a altered) ChainExecution(ctx context.Context, id courier.ChainExecutionID) (chain.Execution, error) {
	c, err := a.Store.ChainExecution(ctx, id)
	c.State = chain.Completed
	return c, err
}
