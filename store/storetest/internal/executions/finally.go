package executions

import (
	"errors"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

// startWithFinally is a worker's lease of an execution with a finally part.
func (k *kit) startWithFinally(lease time.Duration) *holder {
	k.Helper()
	n := k.With(func(n *store.NewExecution) { n.StepTypes = []string{"a", "b", store.FinallyType} })
	return k.Hold(k.Add(n)[0].ID, lease)
}

// failing is the failure of an outcome.
func failing(message string) *courier.Failure {
	return &courier.Failure{Step: 1, Reason: courier.ReasonError, Message: message}
}

// concluding is the transition with which a finally part begins.
func concluding(h *holder, outcome courier.State) store.Transition {
	t := h.To(courier.Running)
	t.Finish = &store.Finish{
		Finishing: courier.Finishing{Outcome: outcome, Position: courier.Position{Step: 1, Loops: []courier.LoopPosition{{Step: 0, Index: 2}}}, Seq: t.Seq},
		Counters:  store.Counters{Attempts: 2, RescuedItems: 3}, Timeout: time.Hour, Text: "it is decided",
	}
	t.Position.Step, t.Counters.Base = 5, 4
	if outcome == courier.Failed {
		t.Failure = failing("boom")
	}
	if outcome == courier.Completed {
		t.Result = []byte(`"done"`)
	}
	return t
}

// ending is the transition with which a finally part ends.
func ending(h *holder, f *store.Finish) store.Transition {
	t := h.To(f.Outcome)
	t.Finally, t.Position, t.Counters = true, f.Position, f.Counters
	if f.Outcome == courier.Failed {
		t.Failure = failing("boom")
	}
	return t
}

// partly is a transition of the finally part.
func partly(t store.Transition) store.Transition {
	t.Finally = true
	return t
}

// finished begins the finally part of an execution.
func (k *kit) finished(h *holder, outcome courier.State) *store.Finish {
	k.Helper()
	t := concluding(h, outcome)
	h.Must(t)
	return t.Finish
}

var finallyCases = []testCase{
	{"finally_keeps_the_outcome", func(k *kit) {
		for _, outcome := range []courier.State{courier.Completed, courier.Failed, courier.Cancelled} {
			h := k.startWithFinally(long)
			k.Same("the row says it", k.Get(h.ID()).HasFinally, true)
			h.Must(h.Begin(0))
			t := concluding(h, outcome)
			t.Seq, t.Ended = h.Seq+1, []courier.StepExecution{storekit.Ended(0)}
			t.Finish.Seq = t.Seq + 1
			h.Must(t)
			x := k.Get(h.ID())
			k.Same("finishing", x.Finishing, &t.Finish.Finishing)
			k.Same("state", []any{x.State, x.Status(x.HeartbeatAt), x.RescuedItems, x.Position.Step}, []any{courier.Running, "finishing", 3, 5})
			h.Must(partly(h.Begin(6)))
			h.Must(partly(h.Finish(6)))
			x = k.Get(h.ID())
			k.Same("the failure while the finally part runs", x.Failure, t.Failure)
			end := ending(h, t.Finish)
			end.FinallyError, end.By, end.Text = failing("no mail"), "ann", "too late"
			h.Must(end)
			x = k.Get(h.ID())
			k.Same("state", x.State, outcome)
			k.Same("what is left", []any{x.Finishing, x.Failure, x.FinallyError, x.Position, x.StepAttempts, x.RescuedItems, string(x.Result)},
				[]any{(*courier.Finishing)(nil), t.Failure, end.FinallyError, t.Finish.Position, 2, 3, map[courier.State]string{courier.Completed: `"done"`}[outcome]})
			list := k.AuditOf(h.ID())
			k.Same("audit", storekit.Moves(list), ">queued queued>running 0:pending>running 0:running>completed running>running 6:pending>running 6:running>completed running>"+string(outcome))
			k.Same("its text", list[4].Error, "it is decided")
			last := list[len(list)-1]
			why := map[bool]string{true: "boom", false: "too late"}[outcome == courier.Failed]
			k.Same("who and why", []string{last.By, last.Error}, []string{"ann", why})
			if outcome == courier.Failed {
				x = k.Ask(h.ID(), courier.RequestResume)
				k.Same("after a resume", x.FinallyError, (*courier.Failure)(nil))
			}
			k.listedFinally(h.ID(), outcome != courier.Failed)
		}
	}},
	{"finally_is_taken_over", func(k *kit) {
		h := k.startWithFinally(3 * k.Unit)
		f := k.finished(h, courier.Failed)
		h.Must(partly(h.Begin(6)))
		k.Pass(4 * k.Unit)
		again := k.Again(h.ID())
		k.Same("what was decided", again.Claimed.Finish, &store.Finish{Finishing: f.Finishing, Counters: f.Counters, Timeout: f.Timeout})
		k.Same("counters", again.Counters, store.Counters{Reclaims: 1})
		if r := again.Remaining; r > time.Hour-4*k.Unit || r < time.Hour/2 {
			k.Errorf("%v of the timeout are left", r)
		}
		lost := storekit.Ended(6)
		lost.State, lost.Worker = courier.StepFailed, "worker"
		t := again.To(courier.Queued)
		t.Finally, t.Ended, t.Failure, t.Position.Step, t.Delay = true, []courier.StepExecution{lost}, failing("again"), 6, 0
		again.Must(t)
		x := k.Get(h.ID())
		k.Same("while it waits", []any{x.State, x.Failure, x.Status(x.DueAt)}, []any{courier.Queued, failing("boom"), "finishing"})
		third := k.Again(h.ID())
		third.Must(ending(third, f))
		k.Same("in the end", []any{k.Get(h.ID()).State, k.Get(h.ID()).Failure}, []any{courier.Failed, failing("boom")})
	}},
	{"finally_of_a_cancel", func(k *kit) {
		h := k.startWithFinally(long)
		x := k.Ask(h.ID(), courier.RequestCancel)
		k.Same("running", []any{x.State, x.Request}, []any{courier.Running, courier.RequestCancel})
		k.unwritten("another outcome", h, concluding(h, courier.Completed), courier.ErrConflict)
		k.unwritten("an end with another outcome", h, h.To(courier.Failed), courier.ErrConflict)
		f := k.finished(h, courier.Cancelled)
		x = k.Get(h.ID())
		k.Same("the request is carried out", []any{x.Request, x.RequestedBy, x.Status(x.HeartbeatAt)}, []any{courier.RequestKind(""), "", "finishing"})
		list := k.AuditOf(h.ID())
		k.Same("by", list[len(list)-1].By, "ann")
		x = k.Ask(h.ID(), courier.RequestCancel)
		k.Same("the second one", x.Request, courier.RequestAbort)
		k.unwritten("the next step", h, partly(h.Begin(6)), courier.ErrConflict)
		later := h.To(courier.Queued)
		later.Finally = true
		k.unwritten("a retry", h, later, courier.ErrConflict)
		end := ending(h, f)
		end.FinallyError = store.AbortedFinally("ann", "")
		h.Must(end)
		list = k.AuditOf(h.ID())
		k.Same("in the end", []any{k.Get(h.ID()).State, list[len(list)-1].By}, []any{courier.Cancelled, "ann"})
	}},
	{"finally_over_before_its_cancel", func(k *kit) {
		for _, own := range []*courier.Failure{nil, failing("no mail")} {
			h := k.startWithFinally(long)
			f := k.finished(h, courier.Completed)
			k.Same("the request", k.Ask(h.ID(), courier.RequestAbort).Request, courier.RequestAbort)
			end := ending(h, f)
			end.FinallyError = own
			h.Must(end)
			list := k.AuditOf(h.ID())
			k.Same("by nobody", []any{k.Get(h.ID()).State, list[len(list)-1].By}, []any{courier.Completed, ""})
		}
	}},
	{"finally_of_a_cancel_without_a_worker", func(k *kit) {
		for _, from := range []courier.State{courier.Queued, courier.Paused, courier.Running} {
			for _, second := range []courier.RequestKind{"", courier.RequestCancel, courier.RequestAbort} {
				h := k.startWithFinally(map[bool]time.Duration{true: k.Unit, false: long}[from == courier.Running])
				if from == courier.Running {
					k.Pass(2 * k.Unit)
				} else {
					t := h.To(from)
					if from == courier.Queued {
						t.Delay = long
					}
					h.Must(t)
				}
				x := k.Ask(h.ID(), courier.RequestCancel)
				want := courier.Queued
				if from == courier.Running {
					want = from
				}
				k.Same("the first", []any{x.State, x.Request, x.RequestedBy}, []any{want, courier.RequestCancel, "ann"})
				k.Same("as stored", k.Get(h.ID()), x)
				k.Unchanged("a pause of it", h.ID(), func() {
					var refused *courier.TransitionError
					if _, err := k.Request(k.Ctx(), store.Request{Execution: h.ID(), Kind: courier.RequestPause}); !errors.As(err, &refused) {
						k.Errorf("error %v", err)
					}
				})
				if second != "" {
					x = k.Ask(h.ID(), second)
					k.Same("the second", []any{x.State, x.Request, x.Finishing}, []any{courier.Cancelled, courier.RequestKind(""), (*courier.Finishing)(nil)})
					k.Same("as stored", k.Get(h.ID()), x)
					continue
				}
				again := k.Again(h.ID())
				k.Same("claimed", []any{again.Execution.Request, again.Execution.RequestedBy}, []any{courier.RequestCancel, "ann"})
				k.unwritten("a step", again, again.Begin(0), courier.ErrConflict)
				again.Must(ending(again, k.finished(again, courier.Cancelled)))
			}
		}
	}},
	{"finally_of_no_cancel", func(k *kit) {
		n := k.With(func(n *store.NewExecution) { n.StepTypes = []string{store.FinallyType} })
		id := k.Add(n)[0].ID
		k.Same("never begun", k.Ask(id, courier.RequestCancel).State, courier.Cancelled)
		h := k.startWithFinally(long)
		t := h.To(courier.Failed)
		t.Failure = failing("boom")
		h.Must(t)
		k.Same("given up", k.Ask(h.ID(), courier.RequestCancel).State, courier.Cancelled)
		h = k.startWithFinally(long)
		x := k.Ask(h.ID(), courier.RequestAbort)
		k.Same("without the finally part", []any{x.State, x.Request}, []any{courier.Running, courier.RequestAbort})
		k.unwritten("a finally part", h, concluding(h, courier.Cancelled), courier.ErrConflict)
		h.Must(h.To(courier.Cancelled))
		list := k.AuditOf(h.ID())
		k.Same("by", list[len(list)-1].By, "ann")
		h = k.Start()
		k.Same("an abort of one that has none", k.Ask(h.ID(), courier.RequestAbort).Request, courier.RequestCancel)
	}},
	{"finally_with_requests", func(k *kit) {
		for _, outcome := range []courier.State{courier.Completed, courier.Failed} {
			h := k.startWithFinally(long)
			k.Ask(h.ID(), courier.RequestPause)
			f := k.finished(h, outcome)
			k.Same("a pause stays", k.Get(h.ID()).Request, courier.RequestPause)
			h.Must(partly(h.Begin(6)))
			t := h.To(courier.Queued)
			t.Finally, t.Interrupt, t.Position.Step = true, true, 6
			h.Must(t)
			k.Same("also while it waits", []any{k.Get(h.ID()).Request, k.Get(h.ID()).RequestedBy}, []any{courier.RequestPause, "ann"})
			k.Unchanged("a cancel of what is decided", h.ID(), func() {
				var refused *courier.TransitionError
				if _, err := k.Request(k.Ctx(), store.Request{Execution: h.ID(), Kind: courier.RequestCancel}); !errors.As(err, &refused) || refused.Outcome != outcome {
					k.Errorf("error %v", err)
				}
			})
			k.Unchanged("a restart", h.ID(), func() {
				_, err := k.Request(k.Ctx(), store.Request{Execution: h.ID(), Kind: courier.RequestRestart})
				k.Is("error", err, courier.ErrConflict)
			})
			k.Same("a pause that is withdrawn", k.Ask(h.ID(), courier.RequestResume).Request, courier.RequestKind(""))
			k.Same("a pause of one that waits", k.Ask(h.ID(), courier.RequestPause).Request, courier.RequestPause)
			again := k.Again(h.ID())
			end := ending(again, f)
			again.Must(end)
			list := k.AuditOf(h.ID())
			k.Same("state", k.Get(h.ID()).State, outcome)
			if last := list[len(list)-1]; !strings.HasSuffix(last.Error, store.PauseDropped+"ann") {
				k.Errorf("the audit does not say that the pause was dropped: %q", last.Error)
			}
		}
	}},
	{"finally_given_up", func(k *kit) {
		for _, outcome := range []courier.State{courier.Completed, courier.Failed, courier.Cancelled} {
			h := k.startWithFinally(long)
			h.Must(h.Begin(0))
			t := concluding(h, outcome)
			t.Seq, t.Ended, t.Workspace = h.Seq+1, []courier.StepExecution{storekit.Ended(0)}, "gone"
			h.Must(t)
			later := h.To(courier.Queued)
			later.Finally, later.Position.Step = true, 6
			h.Must(later)
			x, err := k.Request(k.Ctx(), store.Request{Execution: h.ID(), Kind: courier.RequestAbort, By: "bob", Reason: "the disk is gone"})
			k.OK(err)
			k.Same("as returned and as stored", k.Get(h.ID()), x)
			k.Same("state", []any{x.State, x.Finishing, x.Failure, x.FinallyError.Reason, x.Position, x.StepAttempts, x.EndedAt.IsZero()},
				[]any{outcome, (*courier.Finishing)(nil), t.Failure, courier.ReasonCancelled, t.Finish.Position, 2, false})
			k.Same("files", x.OnlyCopies != nil && x.OnlyCopies.Any(), outcome != courier.Failed)
			list := k.AuditOf(h.ID())
			last := list[len(list)-1]
			k.Same("audit", storekit.Moves(list[len(list)-1:]), "queued>"+string(outcome))
			if last.By != "bob" || !strings.Contains(last.Error, "the disk is gone") {
				k.Errorf("the last entry is %+v", last)
			}
		}
	}},
	{"finally_that_makes_no_sense", func(k *kit) {
		h := k.startWithFinally(long)
		bad := concluding(h, courier.Completed)
		bad.Finally = true
		k.unwritten("begins and goes on", h, bad, courier.ErrInvalid)
		bad = concluding(h, courier.Paused)
		k.unwritten("for no end", h, bad, courier.ErrInvalid)
		bad = concluding(h, courier.Completed)
		bad.To = courier.Completed
		k.unwritten("at the end", h, bad, courier.ErrInvalid)
		bad = h.Begin(0)
		bad.FinallyError = failing("no")
		k.unwritten("an error while it goes on", h, bad, courier.ErrInvalid)
	}},
	{"finally_of_another_version", func(k *kit) {
		k.SaveAll(store.Job, "job", `{"name": "job", "queue": "x"}`)
		h := k.startWithFinally(long)
		h.Must(h.To(courier.Paused))
		c := k.Change(h.ID())
		c.Version = &store.PinnedVersion{Version: 1, StepTypes: []string{"a"}}
		k.Same("it has none any more", k.Changed(h.ID(), c).HasFinally, false)
		k.Same("a cancel is one", k.Ask(h.ID(), courier.RequestCancel).State, courier.Cancelled)
	}},
}

// listedFinally checks whether an execution is in the list of those whose finally part has
// failed.
func (k *kit) listedFinally(id courier.ExecutionID, want bool) {
	k.Helper()
	list, err := k.Executions(k.Ctx(), store.Filter{FinallyError: true, IDs: []courier.ExecutionID{id}})
	k.OK(err)
	k.Same("listed by the error of its finally part", len(list) == 1, want)
}
