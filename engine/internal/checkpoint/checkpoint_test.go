package checkpoint_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/checkpoint"
	"github.com/courierhq/courier/store"
)

// claimed is an execution that stands in its third step, with two failed items.
func claimed() *store.Claimed {
	return &store.Claimed{
		Execution: courier.Execution{
			ID: "x", Attempt: 1, FailedItems: 2, Position: courier.Position{Step: 2},
			Current: &courier.StepExecution{Step: 2, ID: "load", Attempt: 1, State: courier.StepRunning, Worker: "w1"},
		},
		Counters: store.Counters{Attempts: 1, Failures: 1, AcceptedItems: 1, Base: 3},
		Seq:      10,
	}
}

func attempt(step, n int) courier.StepExecution {
	return courier.StepExecution{Step: step, Attempt: n, State: courier.StepCompleted, Outputs: json.RawMessage(`{"n":1}`)}
}

// TestSeq checks on random transitions that the checkpoint counts the audit entries that
// each of them makes: the next transition begins behind them.
func TestSeq(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	states := []courier.State{courier.Running, courier.Running, courier.Queued, courier.Paused, courier.Failed, courier.Completed, courier.Cancelled}
	for range 2000 {
		c := checkpoint.Claimed(claimed())
		for i := range 5 {
			for range r.IntN(3) {
				c.Add(attempt(i, 1))
			}
			tr := store.Transition{To: states[r.IntN(len(states))], Interrupt: r.IntN(4) == 0}
			if tr.To == courier.Running && r.IntN(2) == 0 {
				s := attempt(i+1, 1)
				tr.Start = &s
			}
			c.Fill(&tr)
			entries := tr.Entries(c.Current(), "")
			if tr.Seq != c.Seq()+1 {
				t.Fatalf("the transition begins at %d after %d", tr.Seq, c.Seq())
			}
			want := c.Seq() + int64(len(entries))
			c.Written(&tr)
			if c.Seq() != want || len(c.Ended()) != 0 || c.Over() != (tr.To != courier.Running) || !reflect.DeepEqual(c.Current(), tr.Start) {
				t.Fatalf("after %+v: entry %d, want %d; %d attempts wait, over %v, current %+v", tr, c.Seq(), want, len(c.Ended()), c.Over(), c.Current())
			}
		}
	}
}

// TestUnwritten checks that what a transition had which was not written waits for the next
// one, and that nothing is written twice.
func TestUnwritten(t *testing.T) {
	c := checkpoint.Claimed(claimed())
	c.Add(attempt(2, 1))
	c.Items = 3
	c.Repairs = new(courier.Repairs)
	for range 2 { // the first one meets a request
		tr := store.Transition{To: courier.Running}
		c.Fill(&tr)
		if len(tr.Ended) != 1 || tr.FailedItems == nil || *tr.FailedItems != 3 || tr.Repairs == nil || tr.Counters.Attempts != 1 {
			t.Fatalf("the transition has %d attempts, failed items %v, repairs %v, counters %+v", len(tr.Ended), tr.FailedItems, tr.Repairs, tr.Counters)
		}
	}
	retry := store.Transition{To: courier.Queued, RetryJob: true}
	c.Fill(&retry)
	if retry.FailedItems != nil {
		t.Error("a retry of the whole job counts items, which begin anew")
	}
	tr := store.Transition{To: courier.Running}
	c.Fill(&tr)
	c.Written(&tr)
	tr = store.Transition{To: courier.Running}
	c.Fill(&tr)
	if len(tr.Ended) != 0 || tr.FailedItems != nil || tr.Repairs != nil {
		t.Errorf("written again: %d attempts, failed items %v, repairs %v", len(tr.Ended), tr.FailedItems, tr.Repairs)
	}
}

// TestStart checks the counters of attempts that begin, go on, and are not begun after all.
func TestStart(t *testing.T) {
	for _, s := range []struct {
		name            string
		before          store.Counters
		earlier         int // attempts before the execution went back
		cleanup, goesOn bool
		attempts        int
	}{
		{name: "first", attempts: 1},
		{name: "second", before: store.Counters{Attempts: 1, Failures: 1}, cleanup: true, attempts: 2},
		{name: "interrupted", before: store.Counters{Attempts: 2, Interrupted: true}, cleanup: true, goesOn: true, attempts: 2},
		{name: "of a loop that was started again", before: store.Counters{Base: 7}, cleanup: true, attempts: 1},
		{name: "after a return", before: store.Counters{}, earlier: 4, cleanup: true, attempts: 5},
		{name: "resumed", before: store.Counters{Resumed: courier.Failed}, attempts: 1},
	} {
		t.Run(s.name, func(t *testing.T) {
			in := claimed()
			in.Counters = s.before
			c := checkpoint.Claimed(in)
			cleanup, before := c.Start(func() { c.Count(s.earlier) })
			if !reflect.DeepEqual(before, s.before) || cleanup != s.cleanup || c.Continues != s.goesOn || c.Attempts != s.attempts || c.Interrupted || c.Resumed != "" {
				t.Errorf("cleanup %v, goes on %v, counters %+v, before %+v", cleanup, c.Continues, c.Counters, before)
			}
			start := attempt(2, c.Attempts)
			tr := store.Transition{To: courier.Running, Start: &start}
			c.Fill(&tr)
			tr.Counters.Secrets = []courier.SecretUse{{Name: "used"}}
			c.Unstart(&tr)
			want := s.before
			want.Secrets = tr.Counters.Secrets
			if tr.Start != nil || len(want.Secrets) != 1 || !reflect.DeepEqual(tr.Counters, want) {
				t.Errorf("not begun after all: start %v, counters %+v, want %+v", tr.Start, tr.Counters, want)
			}
		})
	}
}

// TestPassed checks what a step that is over leaves to the next one: a retry of the job, a
// restart of a loop, and a repair go on, and what belongs to the step does not.
func TestPassed(t *testing.T) {
	in := claimed()
	in.Counters = store.Counters{
		Attempts: 3, Interrupted: true, Failures: 2, Base: 5, JobFailures: 1, AcceptedItems: 4, Target: 6, Reclaims: 2, Resumed: courier.Paused,
	}
	c := checkpoint.Claimed(in)
	c.Passed()
	if want := (store.Counters{Base: 5, JobFailures: 1, AcceptedItems: 4, Target: 6}); !reflect.DeepEqual(c.Counters, want) {
		t.Errorf("%+v, want %+v", c.Counters, want)
	}
	c.Attempts, c.Interrupted = 3, true
	c.Restarted()
	if c.Base != 10 || c.Attempts != 0 || c.Interrupted || c.Kept != nil {
		t.Errorf("a restart after entry 10: %+v", c.Counters)
	}
	if c.Rejected() != -2 {
		t.Errorf("%d items are rejected of %d with %d accepted", c.Rejected(), c.Items, c.AcceptedItems)
	}
}

// TestOmit checks what is left of a transition that the store refuses for good: first the
// attempts without what they have written, and then none. The execution stands where it
// stood.
func TestOmit(t *testing.T) {
	in := claimed()
	c := checkpoint.Claimed(in)
	for i, state := range []courier.StepState{courier.StepCompleted, courier.StepSkipped} {
		s := attempt(2+i, 1)
		s.State, s.Files, s.Stack, s.Log = state, []courier.File{{Path: "a"}}, "stack", "log"
		c.Add(s)
	}
	c.Passed()
	c.Items++
	tr := store.Transition{To: courier.Running, Position: courier.Position{Step: 4}}
	c.Fill(&tr)
	last, at := c.Omit(&tr, "too large")
	bare := func(s courier.StepExecution) bool {
		return s.Outputs == nil && s.Files == nil && s.Stack == "" && s.Log == ""
	}
	ended := c.Ended()
	if c.Bare() || at.Step != 2 || !reflect.DeepEqual(c.Counters, in.Counters) || c.Items != 2 || len(ended) != 2 || last != &ended[1] ||
		slices.ContainsFunc(ended, func(s courier.StepExecution) bool { return !bare(s) }) {
		t.Fatalf("at %+v, %d failed items, counters %+v, attempts %+v", at, c.Items, c.Counters, ended)
	}
	if ended[0].State != courier.StepFailed || ended[0].Reason != courier.ReasonStore || ended[0].Error != "too large" || ended[1].State != courier.StepSkipped {
		t.Errorf("the attempts are %+v", ended)
	}
	tr = store.Transition{To: courier.Failed}
	c.Fill(&tr)
	last, at = c.Omit(&tr, "too large")
	if !c.Bare() || at.Step != 2 || len(c.Ended()) != 0 || last == nil || last.Step != 3 {
		t.Errorf("at %+v, %d attempts, the last is %+v", at, len(c.Ended()), last)
	}
}

// TestLost checks the record of the attempt in which a worker was lost.
func TestLost(t *testing.T) {
	c := checkpoint.Claimed(claimed())
	c.Lost(*c.Current())
	s := c.TakeLast()
	if s.State != courier.StepFailed || s.Reason != courier.ReasonWorkerLost || s.Error != `worker "w1" was lost` || len(c.Ended()) != 0 {
		t.Errorf("%+v", s)
	}
}
