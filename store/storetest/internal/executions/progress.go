package executions

import (
	"encoding/json"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

// progressOf is the progress of an attempt with so many bytes.
func progressOf(s *courier.StepExecution, done int64) *store.Progress {
	return &store.Progress{
		Step: s.Step, Iteration: s.Iteration, Attempt: s.Attempt, Cursor: json.RawMessage(`{"n":1.50,"file":"<a&\"b"}`),
		Report: &courier.Progress{Item: `a "file" <é>`, Done: done, Total: -1, Bytes: done + 1, Stage: "transfer", Log: "time=x \"é\"\n"},
	}
}

// report renews the lease of a holder, for a unit, with progress.
func (k *kit) report(h *holder, p *store.Progress) {
	k.Helper()
	got, err := k.Renew(k.Ctx(), store.RenewRequest{Worker: "worker", Leases: []store.Lease{{Execution: h.ID(), Token: h.Token, Progress: p}}, For: k.Unit})
	k.OK(err)
	k.Same("how many are renewed", len(got), 1)
}

// shown reports progress that is not that of the current step, and returns when it changed.
func (k *kit) shown(what string, id courier.ExecutionID, want *courier.Progress) time.Time {
	k.Helper()
	got := k.Get(id).Current.Progress
	if got == nil {
		k.Fatalf("%s: there is none", what)
	}
	plain := *got
	plain.ChangedAt = time.Time{}
	k.Same(what, plain, *want)
	return got.ChangedAt
}

// begun is a holder whose step 1 has reported 100 bytes.
func (k *kit) begun() *holder {
	k.Helper()
	h := k.Hold(k.Add(k.New())[0].ID, k.Unit)
	h.Must(h.Begin(1))
	k.report(h, progressOf(k.Get(h.ID()).Current, 100))
	return h
}

var progressCases = []testCase{
	// Progress of a renewal is that of the current step until another replaces it, with the
	// instant of its last change.
	{"progress_is_shown", func(k *kit) {
		h, quiet := k.begun(), k.Start()
		at := k.Get(h.ID()).Current
		p := progressOf(at, 100)
		first := k.shown("the progress", h.ID(), p.Report)
		k.Pass(k.Unit)
		leases := []store.Lease{{Execution: h.ID(), Token: h.Token}, {Execution: quiet.ID(), Token: quiet.Token}}
		k.renewed("renewed without progress", leases, h.ID(), quiet.ID())
		if again := k.shown("the progress, which is unchanged", h.ID(), p.Report); !again.Equal(first) {
			k.Errorf("changed at %v, then at %v, though nothing has changed", first, again)
		}
		if x := k.Get(quiet.ID()); x.Current != nil {
			k.Errorf("one that reports nothing has the step %s", storekit.Text(x.Current))
		}
		leases[0].Progress = progressOf(at, 200)
		leases[0].Progress.Idle = long
		k.renewed("renewed with more", leases, h.ID(), quiet.ID())
		if before := first.Sub(k.shown("later progress", h.ID(), leases[0].Progress.Report)); before < long/2 || before > long {
			k.Errorf("progress that has not changed for %v changed %v before the first", long, before)
		}
		list, err := k.Executions(k.Ctx(), store.Filter{Job: h.Execution.Job})
		k.OK(err)
		for _, x := range list {
			if x.ID == h.ID() {
				k.Same("the execution in a list", x, k.Get(h.ID()))
			}
		}
	}},
	// Not while another attempt, step or iteration is the current one.
	{"progress_of_another_attempt_is_not_shown", func(k *kit) {
		h := k.begun()
		for what, change := range map[string]func(*store.Progress){
			"step":      func(p *store.Progress) { p.Step++ },
			"attempt":   func(p *store.Progress) { p.Attempt++ },
			"iteration": func(p *store.Progress) { p.Iteration = []int{7} },
		} {
			p := progressOf(k.Get(h.ID()).Current, 1)
			change(p)
			k.report(h, p)
			if got := k.Get(h.ID()).Current.Progress; got != nil {
				k.Errorf("the progress of another %s is shown: %s", what, storekit.Text(got))
			}
		}
	}},
	{"progress_needs_the_lease", func(k *kit) {
		h := k.begun()
		k.Unchanged("a renewal with another token", h.ID(), func() {
			k.renewed("wrong token", []store.Lease{{Execution: h.ID(), Token: "no token", Progress: progressOf(k.Get(h.ID()).Current, 1)}})
		})
	}},
	// The next transition removes it; records have none.
	{"progress_ends_with_the_step", func(k *kit) {
		h := k.begun()
		h.Must(h.Next(1, 2))
		k.Same("progress of the next step", k.Get(h.ID()).Current.Progress, (*courier.Progress)(nil))
		h.Must(h.Finish(2))
		for _, s := range k.Records(h.ID()) {
			k.Same("progress in a record", s.Progress, (*courier.Progress)(nil))
		}
		k.Pass(2 * k.Unit)
		k.Same("progress for the next worker", k.Again(h.ID()).Progress, (*store.Progress)(nil))
	}},
	// A claim leaves it, and returns it with the cursor.
	{"cursor_outlasts_a_lost_worker", func(k *kit) {
		h := k.begun()
		k.Pass(2 * k.Unit)
		c := k.Again(h.ID())
		if c.Lost == nil || c.Lost.Progress != nil {
			k.Errorf("the lost attempt is %s", storekit.Text(c.Lost))
		}
		got := c.Progress
		if got == nil || got.Report == nil || got.Report.ChangedAt.IsZero() {
			k.Fatalf("the next worker gets %s", storekit.Text(got))
		}
		got.Report.ChangedAt = time.Time{}
		k.Same("the next worker gets", got, progressOf(c.Lost, 100))
	}},
	// A transition that requeues, pauses or fails can hand a cursor on, without the report.
	{"cursor_goes_with_a_transition", func(k *kit) {
		for _, to := range []courier.State{courier.Queued, courier.Paused, courier.Failed} {
			h := k.begun()
			t := h.To(to)
			t.Interrupt = true
			t.Progress = progressOf(k.Get(h.ID()).Current, 7)
			h.Must(t)
			if to != courier.Queued {
				k.Ask(h.ID(), courier.RequestResume)
			}
			want := *t.Progress
			want.Report = nil
			k.Same("the worker after "+string(to)+" gets", k.Again(h.ID()).Progress, &want)
		}
	}},
	{"cursor_goes_with_a_start", func(k *kit) {
		h := k.begun()
		k.Pass(2 * k.Unit)
		h = k.Hold(h.ID(), k.Unit)
		t := h.Begin(1)
		t.Start.Attempt = 2
		lost := *h.Lost
		lost.State = courier.StepFailed
		t.Ended = []courier.StepExecution{lost}
		t.Progress = h.Progress.Next(t.Start)
		h.Must(t)
		k.Same("progress of an attempt that has reported nothing", k.Get(h.ID()).Current.Progress, (*courier.Progress)(nil))
		k.Pass(2 * k.Unit)
		k.Same("the third worker gets", k.Again(h.ID()).Progress, t.Progress)
	}},
	{"cursor_is_dropped_unless_it_is_sent", func(k *kit) {
		for _, change := range []func(*store.Transition){
			func(*store.Transition) {},
			func(t *store.Transition) { t.RetryJob = true },
		} {
			h := k.begun()
			t := h.To(courier.Queued)
			t.Interrupt = true
			change(&t)
			h.Must(t)
			k.Same("the next worker gets", k.Again(h.ID()).Progress, (*store.Progress)(nil))
		}
	}},
	{"cursor_ends_with_a_changed_resume", func(k *kit) {
		for what, resume := range map[string]func(id courier.ExecutionID){
			"change": func(id courier.ExecutionID) { k.Changed(id, k.Change(id)) },
			"restart": func(id courier.ExecutionID) {
				k.Ask(id, courier.RequestRestart)
			},
		} {
			h := k.begun()
			t := h.To(courier.Paused)
			t.Workspace = "here"
			t.Interrupt, t.Progress = true, progressOf(k.Get(h.ID()).Current, 7)
			h.Must(t)
			resume(h.ID())
			r := k.ClaimRequest(1)
			r.Only, r.Workspace = []courier.ExecutionID{h.ID()}, "here"
			for _, c := range k.MustClaim(r) {
				k.Same("after a "+what+" the next worker gets", c.Progress, (*store.Progress)(nil))
			}
		}
	}},
}
