package store_test

import (
	"errors"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		key, value string
		ok         bool
	}{
		{"job.concurrency_limit", "5", true},
		{"job.concurrency_limit", "0", true},
		{"job.concurrency_limit", "", true},
		{"job.concurrency_limit", "2147483647", true},
		{"job.concurrency_limit", "2147483648", false},
		{"job.concurrency_limit", "-1", false},
		{"job.concurrency_limit", "five", false},
		{"job.concurrency_limit", " 5", false},
		{"job.concurrency_limit.key:a.b", "x", false},
		{"job.concurrency_limits", "x", true},
		{"anything", "x", true},
	} {
		err := store.CheckSetting(c.key, c.value)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, courier.ErrInvalid) {
			t.Errorf("CheckSetting(%q, %q) = %v, want ok %v", c.key, c.value, err, c.ok)
		}
	}
	for _, scope := range []string{"", "job:x", "key:a.b"} {
		if got, ok := store.LimitScope(store.LimitSetting(scope)); got != scope || !ok {
			t.Errorf("LimitScope of %q = %q, %v", scope, got, ok)
		}
	}
	if scope, ok := store.LimitScope("job.concurrency"); ok {
		t.Errorf("a setting that is no limit has scope %q", scope)
	}
}

func TestEntries(t *testing.T) {
	current := &courier.StepExecution{Step: 1, ID: "get", Type: "a", Iteration: []int{2}, Attempt: 3}
	done := *current
	done.State, done.Bytes, done.Reason, done.Error = courier.StepFailed, 7, courier.ReasonError, "why"
	skipped := courier.StepExecution{Step: 2, Type: "b", Attempt: 1, State: courier.StepSkipped}
	transition := store.Transition{
		Execution: "x", Seq: 5, To: courier.Queued, Ended: []courier.StepExecution{done, skipped},
		Failure: &courier.Failure{Reason: courier.ReasonTimeout, Message: "later"},
	}
	got := transition.Entries(current, "ann")
	one, two := 1, 2
	want := []courier.AuditEntry{
		{Execution: "x", Seq: 5, Step: &one, ID: "get", Type: "a", Iteration: []int{2}, Attempt: 3, From: "running", To: "failed", Bytes: 7, Reason: "error", Error: "why"},
		{Execution: "x", Seq: 6, Step: &two, Type: "b", Attempt: 1, From: "pending", To: "skipped"},
		{Execution: "x", Seq: 7, From: "running", To: "queued", By: "ann", Reason: "timeout", Error: "later"},
	}
	same(t, got, want)

	progress := store.Transition{Execution: "x", Seq: 9, To: courier.Running, Interrupt: true, Start: &courier.StepExecution{Step: 2, Type: "b", Attempt: 1}}
	same(t, progress.Entries(current, ""), []courier.AuditEntry{
		{Execution: "x", Seq: 9, Step: &one, ID: "get", Type: "a", Iteration: []int{2}, Attempt: 3, From: "running", To: "pending"},
		{Execution: "x", Seq: 10, Step: &two, Type: "b", Attempt: 1, From: "pending", To: "running"},
	})
	same(t, progress.Entries(nil, ""), []courier.AuditEntry{
		{Execution: "x", Seq: 9, Step: &two, Type: "b", Attempt: 1, From: "pending", To: "running"},
	})
}

func same(t *testing.T, got, want []courier.AuditEntry) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d entries, want %d", len(got), len(want))
	}
	for i := range got {
		g, w := got[i], want[i]
		if (g.Step == nil) != (w.Step == nil) || g.Step != nil && *g.Step != *w.Step || len(g.Iteration) != len(w.Iteration) {
			t.Errorf("entry %d: %+v, want %+v", i, g, w)
		}
		if g.Seq != w.Seq || g.From != w.From || g.To != w.To || g.ID != w.ID || g.Type != w.Type || g.Attempt != w.Attempt ||
			g.Bytes != w.Bytes || g.Reason != w.Reason || g.Error != w.Error || g.By != w.By {
			t.Errorf("entry %d: %+v, want %+v", i, g, w)
		}
	}
}

func TestCheck(t *testing.T) {
	step := &courier.StepExecution{Type: "a", Attempt: 1}
	ended := func(s courier.StepState) []courier.StepExecution { return []courier.StepExecution{{State: s}} }
	for name, c := range map[string]struct {
		t    store.Transition
		want error
	}{
		"start":              {store.Transition{To: courier.Running, Start: step}, nil},
		"end":                {store.Transition{To: courier.Running, Ended: ended(courier.StepSkipped)}, nil},
		"state":              {store.Transition{To: courier.Paused}, nil},
		"nothing":            {store.Transition{To: courier.Running}, courier.ErrInvalid},
		"only an interrupt":  {store.Transition{To: courier.Running, Interrupt: true}, courier.ErrInvalid},
		"start at the end":   {store.Transition{To: courier.Completed, Start: step}, courier.ErrInvalid},
		"ended as pending":   {store.Transition{To: courier.Running, Ended: ended(courier.StepPending)}, courier.ErrInvalid},
		"ended as running":   {store.Transition{To: courier.Running, Ended: ended(courier.StepRunning)}, courier.ErrInvalid},
		"ended as nothing":   {store.Transition{To: courier.Running, Ended: ended("")}, courier.ErrInvalid},
		"to created":         {store.Transition{To: courier.Created}, courier.ErrConflict},
		"to no state at all": {store.Transition{}, courier.ErrConflict},
	} {
		if err := c.t.Check(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestAdmit(t *testing.T) {
	standing := store.LeaseState{State: courier.Running, Lease: "l", First: 2, Last: 4, Seq: 4}
	start := store.Transition{Lease: "l", Seq: 5, To: courier.Running, Start: &courier.StepExecution{}}
	for name, c := range map[string]struct {
		change func(s *store.LeaseState, t *store.Transition)
		write  bool
		want   error
	}{
		"as it should be":   {func(*store.LeaseState, *store.Transition) {}, true, nil},
		"a token above":     {func(s *store.LeaseState, _ *store.Transition) { s.Lease = "m" }, false, courier.ErrLeaseLost},
		"a token below":     {func(s *store.LeaseState, _ *store.Transition) { s.Lease = "k" }, false, courier.ErrLeaseLost},
		"no token":          {func(s *store.LeaseState, t *store.Transition) { s.Lease, t.Lease = "", "" }, false, courier.ErrLeaseLost},
		"repeated":          {func(_ *store.LeaseState, t *store.Transition) { t.Seq = 3 }, false, nil},
		"repeated at last":  {func(s *store.LeaseState, t *store.Transition) { t.Seq, s.State, s.Seq = 4, courier.Failed, 9 }, false, nil},
		"not of this lease": {func(_ *store.LeaseState, t *store.Transition) { t.Seq = 2 }, false, courier.ErrLeaseLost},
		"an operator's":     {func(s *store.LeaseState, _ *store.Transition) { s.State, s.Seq = courier.Queued, 5 }, false, courier.ErrLeaseLost},
		"a gap":             {func(_ *store.LeaseState, t *store.Transition) { t.Seq = 6 }, false, courier.ErrLeaseLost},
		"no longer running": {func(s *store.LeaseState, _ *store.Transition) { s.State = courier.Paused }, false, courier.ErrLeaseLost},
		"a request":         {func(s *store.LeaseState, _ *store.Transition) { s.Request = courier.RequestPause }, false, courier.ErrConflict},
		"a request answered": {func(s *store.LeaseState, t *store.Transition) {
			s.Request, t.To, t.Start = courier.RequestPause, courier.Paused, nil
		}, true, nil},
	} {
		s, x := standing, start
		c.change(&s, &x)
		if write, err := x.Admit(s); write != c.write || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v, want %v, %v", name, write, err, c.write, c.want)
		}
	}
}

func TestAnswersAndBy(t *testing.T) {
	for _, c := range []struct {
		request courier.RequestKind
		to      courier.State
		answers bool
		by      string
	}{
		{"", courier.Queued, true, ""}, {"", courier.Paused, true, ""},
		{courier.RequestPause, courier.Paused, true, "ann"}, {courier.RequestPause, courier.Completed, true, ""},
		{courier.RequestPause, courier.Failed, true, ""}, {courier.RequestPause, courier.Cancelled, true, ""},
		{courier.RequestPause, courier.Queued, false, ""},
		{courier.RequestCancel, courier.Cancelled, true, "ann"}, {courier.RequestCancel, courier.Completed, false, ""},
		{courier.RequestCancel, courier.Paused, false, ""}, {courier.RequestCancel, courier.Running, true, ""},
	} {
		x := store.Transition{To: c.to}
		if starts := (&store.Transition{To: courier.Running, Start: &courier.StepExecution{}}); c.request != "" && starts.Answers(c.request) {
			t.Errorf("the start of a step answers %q", c.request)
		}
		if got := x.Answers(c.request); got != c.answers {
			t.Errorf("%s answers %q: %v, want %v", c.to, c.request, got, c.answers)
		}
		if got := x.CarriedOut(c.request, "ann"); c.answers && got != c.by {
			t.Errorf("%s after %q is by %q, want %q", c.to, c.request, got, c.by)
		}
	}
}

// Every request in every state leads to a legal move, to nothing, or is refused.
func TestDecideIsLegal(t *testing.T) {
	kinds := []courier.RequestKind{courier.RequestPause, courier.RequestResume, courier.RequestCancel, courier.RequestRelease, courier.RequestRestart}
	states := []courier.State{courier.Created, courier.Queued, courier.Running, courier.Paused, courier.Completed, courier.Failed, courier.Cancelled}
	for _, state := range states {
		for _, request := range []courier.RequestKind{"", courier.RequestPause, courier.RequestCancel} {
			for _, expired := range []bool{false, true} {
				if state != courier.Running && (expired || request != "") {
					continue
				}
				for _, kind := range kinds {
					x := &courier.Execution{ID: "x", State: state, Request: request, Workspace: "there"}
					d, err := store.Decide(x, expired, kind)
					if kind == courier.RequestRestart {
						want := state == courier.Paused || state == courier.Failed || expired && request != courier.RequestCancel
						if (err == nil) != want || err == nil && d.To != courier.Queued {
							t.Errorf("restart of %s, expired %v, asked to %q: %v, %v", state, expired, request, d, err)
						}
						x.Workspace = ""
						if _, err := store.Decide(x, expired, kind); !errors.Is(err, courier.ErrConflict) {
							t.Errorf("restart of %s without files: %v", state, err)
						}
					}
					switch {
					case err != nil && !errors.Is(err, courier.ErrConflict):
						t.Errorf("%s of %s: %v", kind, state, err)
					case err == nil && d.To != "" && !state.CanBecome(d.To):
						t.Errorf("%s of %s leads to %s", kind, state, d.To)
					case err == nil && d.To == "" && state != courier.Running:
						t.Errorf("%s of %s leaves it to nobody", kind, state)
					case err == nil && d.To == courier.Running:
						t.Errorf("%s of %s runs it without a claim", kind, state)
					}
				}
			}
		}
	}
}
