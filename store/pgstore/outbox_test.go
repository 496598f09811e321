package pgstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// subscribeAll saves a subscription of all events of jobs and steps.
func subscribeAll(t *testing.T, s *pgstore.Store, window time.Duration) {
	t.Helper()
	err := s.PutSubscription(t.Context(), notify.Record{
		Name: "all", Channel: "webhook", Window: window, Body: json.RawMessage(`{}`),
		Events: []courier.EventType{"JobStarted", "JobCompleted", "JobFailed", "JobPaused", "JobCancelled", "JobResumed", "StepStarted", "StepCompleted", "StepFailed", "StepSkipped"},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// takeAll takes what is due and returns the types of the events, in the order of
// executions and audit.
func takeAll(t *testing.T, s *pgstore.Store) (types []string, list []notify.Due) {
	t.Helper()
	got, err := s.DueDeliveries(t.Context(), notify.DueRequest{Channels: []string{"webhook"}, Max: 1000, Each: 1000, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got.List, func(a, b notify.Due) int {
		if a.Notification.Execution != b.Notification.Execution {
			return strings.Compare(string(a.Notification.Execution), string(b.Notification.Execution))
		}
		return int(a.Notification.Seq - b.Notification.Seq)
	})
	for _, d := range got.List {
		types = append(types, string(d.Notification.Type))
	}
	return types, got.List
}

// queued creates an execution of job "j" with the step that a claim may start.
func queued(t *testing.T, s *pgstore.Store) courier.ExecutionID {
	t.Helper()
	id := courier.ExecutionID(idSource.New())
	n := store.NewExecution{ID: id, Job: "j", Version: 1, StepTypes: []string{"a"}, Queue: "q", First: &courier.StepExecution{ID: "one", Type: "a"}}
	if _, err := s.Enqueue(t.Context(), []store.NewExecution{n}); err != nil {
		t.Fatal(err)
	}
	return id
}

// claimed claims what is queued with the given request.
func claimed(t *testing.T, s *pgstore.Store, only ...courier.ExecutionID) store.Claimed {
	t.Helper()
	got, err := s.Claim(t.Context(), store.ClaimRequest{Worker: "w", StepTypes: []string{"a"}, Queues: []string{"q"}, Max: 1, Lease: time.Hour, Only: only})
	if err != nil || len(got.List) != 1 {
		t.Fatalf("claimed %d, %v", len(got.List), err)
	}
	return got.List[0]
}

// TestSubscribedElsewhere subscribes in one process and checks the first thing
// that another writes, which has not heard of it.
func TestSubscribedElsewhere(t *testing.T) {
	u := pgtest.URL(t)
	here, pool := open(t, u, nil), dial(t, u)
	defined(t, here, pool, "j")
	ctx := t.Context()
	end := func(c store.Claimed, to courier.State) store.Transition {
		s := *c.Started
		s.State = courier.StepCompleted
		tr := store.Transition{Execution: c.Execution.ID, Lease: c.Token, Seq: c.Seq + 1, To: to, Ended: []courier.StepExecution{s}}
		if to == courier.Failed {
			tr.Ended[0].State, tr.Failure = courier.StepFailed, &courier.Failure{Message: "no"}
		}
		return tr
	}
	var member store.Claimed // of a chain, claimed before
	ended := func(s *pgstore.Store, named bool) error {
		tr := endOf(&member, courier.Completed)
		if !named {
			tr.Chain = ""
		}
		return s.Apply(ctx, tr)
	}
	for _, tt := range []struct {
		name  string
		limit string
		do    func(s *pgstore.Store, before store.Claimed) error
		want  string
	}{
		{"progress", "0", func(s *pgstore.Store, c store.Claimed) error { return s.Apply(ctx, end(c, courier.Completed)) }, "StepCompleted JobCompleted"},
		{"failure", "0", func(s *pgstore.Store, c store.Claimed) error { return s.Apply(ctx, end(c, courier.Failed)) }, "StepFailed JobFailed"},
		{"cancel", "0", func(s *pgstore.Store, _ store.Claimed) error {
			_, err := s.Request(ctx, store.Request{Execution: queued(t, s), Kind: courier.RequestCancel})
			return err
		}, "JobCancelled"},
		{"end of a member", "0", func(s *pgstore.Store, _ store.Claimed) error { return ended(s, true) }, "JobCompleted"},
		{"end of a member of whose chain nobody told", "0", func(s *pgstore.Store, _ store.Claimed) error { return ended(s, false) }, "JobCompleted"},
		{"claim", "0", func(s *pgstore.Store, _ store.Claimed) error { queued(t, s); claimed(t, s); return nil }, "JobStarted StepStarted"},
		{"claim of one", "0", func(s *pgstore.Store, _ store.Claimed) error { claimed(t, s, queued(t, s)); return nil }, "JobStarted StepStarted"},
		{"claim under limits", "9", func(s *pgstore.Store, _ store.Claimed) error { queued(t, s); claimed(t, s); return nil }, "JobStarted StepStarted"},
		{"claim of a busy worker", "0", func(s *pgstore.Store, _ store.Claimed) error {
			for range 3 {
				queued(t, s)
			}
			claimed(t, s)
			claimed(t, s)
			return nil
		}, "JobStarted StepStarted JobStarted StepStarted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			exec(t, pool, "set local courier.retention = 'on'; delete from courier.subscriptions; delete from courier.outbox; delete from courier.outbox_windows; delete from courier.job_executions; delete from courier.chain_members; delete from courier.chain_executions")
			if err := here.Set(ctx, store.LimitSetting(""), tt.limit); err != nil {
				t.Fatal(err)
			}
			there, err := pgstore.New(ctx, pool, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer there.Close()
			queued(t, there)
			before := claimed(t, there)
			n := rowOf(t, there, 1, 1)
			startOne(t, there, n)
			member = claimAll(t, there)[0]
			subscribeAll(t, here, 0)
			if err := tt.do(there, before); err != nil {
				t.Fatal(err)
			}
			if got, _ := takeAll(t, here); strings.Join(got, " ") != tt.want {
				t.Errorf("kept %q, want %q", got, tt.want)
			}
		})
	}
}

// TestLateCommit has a transaction commit after others that began later and
// whose events were delivered by then.
func TestLateCommit(t *testing.T) {
	u := pgtest.URL(t)
	s, pool := open(t, u, nil), dial(t, u)
	defined(t, s, pool, "j")
	if err := s.Set(t.Context(), store.LimitSetting(""), "0"); err != nil {
		t.Fatal(err)
	}
	for _, window := range []time.Duration{0, 10 * time.Millisecond} {
		subscribeAll(t, s, window)
		late, early := queued(t, s), queued(t, s)
		claims := map[courier.ExecutionID]store.Claimed{late: claimed(t, s, late), early: claimed(t, s, early)}
		time.Sleep(2 * window)
		takeAll(t, s)
		exec(t, pool, `drop trigger if exists late on courier.outbox;
			create or replace function courier.late() returns trigger language plpgsql as $$
			begin
				if new.execution_id = '`+string(late)+`' then perform pg_advisory_xact_lock(4711); end if;
				return null;
			end $$;
			create constraint trigger late after insert on courier.outbox deferrable initially deferred for each row execute function courier.late()`)
		holder, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := holder.Exec(t.Context(), "select pg_advisory_xact_lock(4711)"); err != nil {
			t.Fatal(err)
		}
		cancelled := func(id courier.ExecutionID) store.Transition {
			c := claims[id]
			return store.Transition{Execution: id, Lease: c.Token, Seq: c.Seq + 1, To: courier.Failed, Interrupt: true, Failure: &courier.Failure{Message: "no"}}
		}
		done := make(chan error, 1)
		go func() { done <- s.Apply(t.Context(), cancelled(late)) }()
		for value[int](t, pool, "select count(*) from pg_locks where locktype = 'advisory' and not granted") == 0 {
			time.Sleep(time.Millisecond)
		}
		if err := s.Apply(t.Context(), cancelled(early)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * window)
		_, list := takeAll(t, s)
		if len(list) != 1 || list[0].Notification.Execution != early {
			t.Fatalf("window %v: before the late commit %+v, want one of %s", window, list, early)
		}
		settleAll(t, s, list)
		if err := holder.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * window)
		_, list = takeAll(t, s)
		if len(list) != 1 || list[0].Notification.Execution != late || list[0].Notification.Count != 1 {
			t.Errorf("window %v: after the late commit %+v, want one of %s", window, list, late)
		}
		settleAll(t, s, list)
	}
}

func settleAll(t *testing.T, s *pgstore.Store, list []notify.Due) {
	t.Helper()
	outcomes := make([]notify.Outcome, len(list))
	for i, d := range list {
		outcomes[i] = notify.Outcome{Subscription: d.Notification.Subscription, Event: d.Notification.ID, Token: d.Token, Result: notify.Delivered}
	}
	if err := s.RecordDeliveries(t.Context(), outcomes); err != nil {
		t.Fatal(err)
	}
}

// TestNoEventIsLostUnderLoad completes executions in several processes while
// others deliver, some of whom die with what they took, and the windows of a
// second subscription end: every event is delivered at least once, and of those
// in windows every one is counted once.
func TestNoEventIsLostUnderLoad(t *testing.T) {
	u := pgtest.URL(t)
	s, pool := open(t, u, nil), dial(t, u)
	defined(t, s, pool, "j")
	ctx := t.Context()
	if err := s.Set(ctx, store.LimitSetting(""), "0"); err != nil {
		t.Fatal(err)
	}
	for name, window := range map[string]time.Duration{"each": 0, "joined": 20 * time.Millisecond} {
		err := s.PutSubscription(ctx, notify.Record{Name: name, Channel: "webhook", Events: []courier.EventType{"JobCompleted"}, Window: window, Body: json.RawMessage(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
	}
	const workers, each = 4, 25
	var working, delivering sync.WaitGroup
	for w := range workers {
		own, err := pgstore.New(ctx, pool, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer own.Close()
		working.Go(func() {
			for i := range each {
				id := courier.ExecutionID(idSource.New())
				n := store.NewExecution{ID: id, Job: "j", Version: 1, StepTypes: []string{"a"}, Queue: fmt.Sprint("q", w)}
				if _, err := own.Enqueue(ctx, []store.NewExecution{n}); err != nil {
					t.Error(err)
					return
				}
				got, err := own.Claim(ctx, store.ClaimRequest{Worker: fmt.Sprint(w), StepTypes: []string{"a"}, Queues: []string{n.Queue}, Max: 1, Lease: time.Hour})
				if err != nil || len(got.List) != 1 {
					t.Errorf("claim %d of %d: %d, %v", i, w, len(got.List), err)
					return
				}
				c := got.List[0]
				if err := own.Apply(ctx, store.Transition{Execution: id, Lease: c.Token, Seq: c.Seq + 1, To: courier.Completed}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var mu sync.Mutex
	told := make(map[string]int) // events that were settled, by subscription and id
	joined := 0
	stop := make(chan struct{})
	for d := range 3 {
		delivering.Go(func() {
			for n := 0; ; n++ {
				stopped := false
				select {
				case <-stop:
					stopped = true
				default:
				}
				got, err := s.DueDeliveries(ctx, notify.DueRequest{Channels: []string{"webhook"}, Max: 7, Each: 5, Lease: 100 * time.Millisecond})
				if err != nil {
					t.Error(err)
					return
				}
				if stopped && len(got.List) == 0 && got.Next == 0 {
					return
				}
				if n%5 == d {
					continue // dies with what it took
				}
				for _, x := range got.List {
					err := s.RecordDeliveries(ctx, []notify.Outcome{{Subscription: x.Notification.Subscription, Event: x.Notification.ID, Token: x.Token, Result: notify.Delivered}})
					if err != nil && !errors.Is(err, courier.ErrConflict) {
						t.Error(err)
					}
					mu.Lock()
					key := x.Notification.Subscription + " " + x.Notification.ID
					if told[key]++; told[key] == 1 && x.Notification.Subscription == "joined" {
						joined += x.Notification.Count
					}
					mu.Unlock()
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	working.Wait()
	close(stop)
	delivering.Wait()
	single := 0
	for key := range told {
		if strings.HasPrefix(key, "each ") {
			single++
		}
	}
	if single != workers*each || joined != workers*each {
		t.Errorf("told of %d events one by one, and of %d joined; want %d", single, joined, workers*each)
	}
	if n := value[int](t, pool, "select count(*) from courier.outbox"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}
