package executions

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

var applyCases = []testCase{
	// The result of a completed execution is kept byte by byte; lists leave it out.
	{"result_of_a_completed_execution", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		t := h.To(courier.Completed)
		t.Ended, t.Position.Step, t.Result = []courier.StepExecution{storekit.Ended(0)}, 1, json.RawMessage(`{"a": [1.0, "x"]}`)
		h.Must(t)
		k.Same("result", string(k.Get(h.ID()).Result), string(t.Result))
		list, err := k.Executions(k.Ctx(), store.Filter{})
		k.OK(err)
		k.Same("in a list", list[0].Result, json.RawMessage(nil))
		without := k.Start()
		without.Must(without.To(courier.Completed))
		k.Same("none", k.Get(without.ID()).Result, json.RawMessage(nil))
	}},
	// Start becomes the current step, with the store's instant, worker and attempt.
	{"start", func(k *kit) {
		h := k.Start()
		t := h.Begin(3)
		t.Start = &courier.StepExecution{Step: 3, ID: "get", Type: "a", Iteration: []int{2, 0}, Total: []int{5, 1}, Attempt: 4}
		t.Position = courier.Position{Step: 3, Loops: []courier.LoopPosition{{Step: 1, Index: 2}, {Step: 2, Index: 0}}}
		h.Must(t)
		x := k.Get(h.ID())
		k.Same("position", x.Position, t.Position)
		last := k.AuditOf(h.ID())[2]
		k.Same("present step", x.Current, &courier.StepExecution{
			Execution: h.ID(), Step: 3, ID: "get", Type: "a", Iteration: []int{2, 0}, Total: []int{5, 1}, Attempt: 4,
			ExecutionAttempt: 1, State: courier.StepRunning, StartedAt: last.At, Worker: "worker",
		})
		k.Same("records", len(k.Records(h.ID())), 0)
		k.Same("state", x.State, courier.Running)
		three := 3
		k.Same("audit", last, courier.AuditEntry{
			Execution: h.ID(), Seq: 3, At: last.At, Step: &three, ID: "get", Type: "a", Iteration: []int{2, 0}, Attempt: 4,
			ExecutionAttempt: 1, From: "pending", To: "running", Worker: "worker",
		})
	}},
	// An ended step becomes a record, its JSON byte by byte, numbered as its audit entry.
	{"end", func(k *kit) {
		h := k.Start()
		t := h.Begin(0)
		t.Start.ID, t.Start.Iteration = "get", []int{1}
		h.Must(t)
		started := k.Get(h.ID()).Current.StartedAt
		k.Pass(k.Unit)
		t = h.To(courier.Running)
		t.Ended = []courier.StepExecution{{
			Step: 0, ID: "get", Type: "a", Iteration: []int{1}, Total: []int{2}, Attempt: 1, State: courier.StepCompleted,
			Bytes: 1 << 40, Outputs: json.RawMessage(`{ "n": 9007199254740993 , "n": 1.0 }`),
			Files: []courier.File{{Path: "a b/é", Size: 3}, {Path: "/x", Removed: true}},
		}}
		h.Must(t)
		k.Same("present step", k.Get(h.ID()).Current, (*courier.StepExecution)(nil))
		r := k.Records(h.ID())[0]
		k.Same("outputs", string(r.Outputs), string(t.Ended[0].Outputs))
		want := t.Ended[0]
		want.Execution, want.Seq, want.ExecutionAttempt, want.Worker = h.ID(), 4, 1, "worker"
		want.StartedAt, want.EndedAt = started, k.AuditOf(h.ID())[3].At
		k.Same("record", r, want)
		k.Same("elapsed", k.AuditOf(h.ID())[3].Elapsed, want.EndedAt.Sub(started))
	}},
	// A transition that is too large for the store is ErrInvalid, also when it is repeated;
	// nothing is written, and a smaller one with the same number may follow (Options.MaxTransition
	// of the suite says what is too large; without it the case does nothing).
	{"refuses_what_is_too_large", func(k *kit) {
		h := k.Start()
		if k.MaxOutput == 0 {
			return
		}
		h.Must(h.Begin(0))
		before := k.Get(h.ID())
		t := h.To(courier.Running)
		t.Ended = []courier.StepExecution{storekit.Ended(0)}
		t.Ended[0].Outputs = make(json.RawMessage, k.MaxOutput+1)
		for range 2 {
			k.Is("too large", k.Apply(k.Ctx(), t), courier.ErrInvalid)
		}
		k.Same("after the refusal", k.Get(h.ID()), before)
		k.Same("entries", len(k.AuditOf(h.ID())), 3)
		t.Ended[0].Outputs = json.RawMessage(`{}`)
		h.Must(t)
	}},
	// Reason and error are kept in record and audit.
	{"end_as_failed_or_skipped", func(k *kit) {
		h := k.Start()
		for i, s := range []courier.StepState{courier.StepFailed, courier.StepSkipped} {
			h.Must(h.Begin(i))
			t := h.Finish(i)
			t.Ended[0].State, t.Ended[0].Reason, t.Ended[0].Error = s, courier.ReasonTimeout, "too \"slow\"\nby far"
			h.Must(t)
			r := k.Records(h.ID())[i]
			k.Same("record", []string{string(r.State), string(r.Reason), r.Error}, []string{string(s), "timeout", "too \"slow\"\nby far"})
			e := k.AuditOf(h.ID())[3+2*i]
			k.Same("audit", []string{e.To, string(e.Reason), e.Error}, []string{string(s), "timeout", "too \"slow\"\nby far"})
		}
	}},
	// One step ends and the next starts in one transition.
	{"end_and_start", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		h.Must(h.Next(0, 1))
		h.Must(h.Next(1, 2))
		k.Same("present step", k.Get(h.ID()).Current.Step, 2)
		k.Same("audit", storekit.Moves(k.AuditOf(h.ID())), ">queued queued>running 0:pending>running 0:running>completed 1:pending>running 1:running>completed 2:pending>running")
		var seqs []int64
		for _, r := range k.Records(h.ID()) {
			seqs = append(seqs, r.Seq)
		}
		k.Same("numbers of the records", seqs, []int64{4, 6})
	}},
	// A step that never started goes from pending to its end, at one instant.
	{"end_without_start", func(k *kit) {
		h := k.Start()
		t := h.To(courier.Failed)
		s := storekit.Step(2)
		s.State, s.Reason, s.Error = courier.StepFailed, courier.ReasonConfig, "no such value"
		t.Ended = []courier.StepExecution{s}
		h.Must(t)
		r := k.Records(h.ID())[0]
		k.Same("started when it ended", r.StartedAt, r.EndedAt)
		k.Same("audit", storekit.Moves(k.AuditOf(h.ID())[2:]), "2:pending>failed running>failed")
		k.Same("elapsed", k.AuditOf(h.ID())[2].Elapsed, time.Duration(0))
	}},
	{"end_of_another_attempt_or_iteration", func(k *kit) {
		h := k.Start()
		t := h.Begin(1)
		t.Start.Iteration = []int{0}
		h.Must(t)
		t = h.To(courier.Running)
		t.Interrupt = true
		other := storekit.Step(1)
		other.State, other.Iteration = courier.StepFailed, []int{1}
		more := other
		more.Iteration, more.Attempt = []int{0}, 2
		t.Ended = []courier.StepExecution{other, more}
		h.Must(t)
		k.Same("audit", storekit.Moves(k.AuditOf(h.ID())[3:]), "1:pending>failed 1:pending>failed 1:running>pending")
	}},
	// Several steps can end together, numbered in order.
	{"end_several", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		k.Pass(k.Unit)
		t := h.Next(0, 3)
		for _, i := range []int{1, 2} {
			s := storekit.Step(i)
			s.State = courier.StepSkipped
			t.Ended = append(t.Ended, s)
		}
		h.Must(t)
		var got []string
		for _, r := range k.Records(h.ID()) {
			got = append(got, storekit.Text([]any{r.Seq, r.Step, r.State}))
		}
		k.Same("records", strings.Join(got, " "), `[4,0,"completed"] [5,1,"skipped"] [6,2,"skipped"]`)
		k.Same("audit", storekit.Moves(k.AuditOf(h.ID())[3:]), "0:running>completed 1:pending>skipped 2:pending>skipped 3:pending>running")
	}},
	{"started_at_as_given", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		started := k.Get(h.ID()).Current.StartedAt
		t := h.Finish(0)
		t.Ended[0].StartedAt = started.Add(-time.Minute)
		h.Must(t)
		k.Same("started", k.Records(h.ID())[0].StartedAt, started.Add(-time.Minute))
	}},
	// Interrupt puts the current step back to pending and makes no record.
	{"interrupt", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		k.Pass(k.Unit)
		t := h.To(courier.Queued)
		t.Interrupt = true
		h.Must(t)
		x := k.Get(h.ID())
		k.Same("present step", x.Current, (*courier.StepExecution)(nil))
		k.Same("records", len(k.Records(h.ID())), 0)
		k.Same("audit", storekit.Moves(k.AuditOf(h.ID())[3:]), "0:running>pending running>queued")
		if e := k.AuditOf(h.ID())[3].Elapsed; e < k.Unit {
			k.Errorf("elapsed %v, want %v at least", e, k.Unit)
		}
		again := k.Again(h.ID())
		again.Must(again.Begin(0)) // the same attempt goes on
		again.Must(again.Next(0, 1))
		k.Same("records then", len(k.Records(h.ID())), 1)
	}},
	// Does nothing without a current step.
	{"interrupt_of_nothing", func(k *kit) {
		h := k.Start()
		t := h.To(courier.Paused)
		t.Interrupt = true
		h.Must(t)
		k.Same("audit", storekit.Moves(k.AuditOf(h.ID())), ">queued queued>running running>paused")
	}},
	// Another state than running ends the lease; an end sets EndedAt.
	{"leaves_running", func(k *kit) {
		for _, to := range []courier.State{courier.Completed, courier.Failed, courier.Cancelled, courier.Paused, courier.Queued} {
			h := k.Start()
			k.Pass(k.Unit)
			t := h.To(to)
			t.Position.Step = 7
			h.Must(t)
			x := k.Get(h.ID())
			k.Same("state", x.State, to)
			k.Same("position", x.Position.Step, 7)
			k.Same("lease", x.LeaseExpiresAt, time.Time{})
			k.Same("worker", x.Worker, "worker")
			last := k.AuditOf(h.ID())[2]
			if to.Ended() {
				k.Same("ended", x.EndedAt, last.At)
			} else {
				k.Same("ended", x.EndedAt, time.Time{})
			}
			k.Same("elapsed", last.Elapsed, last.At.Sub(x.StartedAt))
			k.Same("worker in the audit", last.Worker, "worker")
		}
	}},
	{"queued_with_a_delay", func(k *kit) {
		h := k.Start()
		t := h.To(courier.Queued)
		t.Delay = k.Unit
		h.Must(t)
		x := k.Get(h.ID())
		k.Same("due after", x.DueAt.Sub(k.AuditOf(h.ID())[2].At), k.Unit)
		k.Pass(2 * k.Unit)
		k.Claimed("claim", k.ClaimRequest(1), h.ID())
		long := k.Start()
		t = long.To(courier.Queued)
		t.Delay = time.Hour
		long.Must(t)
		k.Claimed("claim of one not due", k.ClaimRequest(1))
	}},
	{"queued_without_a_delay", func(k *kit) {
		h := k.Start()
		h.Must(h.To(courier.Queued))
		k.Same("due", k.Get(h.ID()).DueAt, k.AuditOf(h.ID())[2].At)
		r := k.ClaimRequest(1)
		r.Worker = "other"
		k.Claimed("claim by another worker", r, h.ID())
	}},
	// A failure stays while the execution is queued or runs, and is cleared otherwise.
	{"failure_set_kept_and_cleared", func(k *kit) {
		f := &courier.Failure{Step: 2, ID: "get", Type: "a", Iteration: []int{1}, Attempt: 3, Reason: courier.ReasonStalled, Message: "no progress"}
		h := k.Start()
		t := h.To(courier.Queued)
		t.Failure = f
		h.Must(t)
		k.Same("while it waits", k.Get(h.ID()).Failure, f)
		last := k.AuditOf(h.ID())[2]
		k.Same("audit", []string{string(last.Reason), last.Error}, []string{"stalled", "no progress"})
		h = k.Again(h.ID())
		k.Same("when it is claimed", h.Execution.Failure, f)
		h.Must(h.Begin(0))
		k.Same("while it goes on", k.Get(h.ID()).Failure, f)
		t = h.To(courier.Queued)
		t.Interrupt = true
		h.Must(t)
		k.Same("after it was handed over", k.Get(h.ID()).Failure, f)
		for _, to := range []courier.State{courier.Paused, courier.Completed} {
			h = k.Again(h.ID())
			h.Must(h.To(to))
			k.Same("when it is "+string(to), k.Get(h.ID()).Failure, (*courier.Failure)(nil))
			if to == courier.Paused {
				k.Ask(h.ID(), courier.RequestResume)
			}
		}
	}},
	{"failed_with_a_failure", func(k *kit) {
		h := k.Start()
		t := h.To(courier.Failed)
		t.Failure = &courier.Failure{Step: -1, Reason: courier.ReasonWorkerLost, Message: "three workers in a row"}
		h.Must(t)
		k.Same("failure", k.Get(h.ID()).Failure, t.Failure)
	}},
	// RetryJob raises the attempt; earlier records and those of Ended are no longer latest.
	{"retry_job", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		h.Must(h.Next(0, 1))
		t := h.To(courier.Queued)
		t.Ended, t.RetryJob = []courier.StepExecution{storekit.Ended(1)}, true
		t.Ended[0].State = courier.StepFailed
		h.Must(t)
		x := k.Get(h.ID())
		k.Same("attempt", x.Attempt, 2)
		k.Same("position", x.Position, courier.Position{})
		k.Same("latest", len(k.LatestOf(h.ID())), 0)
		k.Same("latest when claimed", len(k.Again(h.ID()).Latest), 0)
		list := k.Records(h.ID())
		k.Same("attempts of the records", []int{list[0].ExecutionAttempt, list[1].ExecutionAttempt}, []int{1, 1})
	}},
	{"retry_job_starts_no_step", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		t := h.Next(0, 0)
		t.RetryJob = true
		k.unwritten("with a step", h, t, courier.ErrInvalid)
	}},
	// Audit entries have the attempt of the execution before the transition or request.
	{"audit_has_the_attempt_of_the_execution", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		for range 2 {
			t := h.To(courier.Queued)
			t.Ended, t.RetryJob = []courier.StepExecution{storekit.Ended(0)}, true
			t.Ended[0].State = courier.StepFailed
			h.Must(t)
			h = k.Again(h.ID())
			h.Must(h.Begin(0))
		}
		t := h.To(courier.Queued)
		t.Interrupt = true
		h.Must(t)
		k.Ask(h.ID(), courier.RequestPause)
		k.Ask(h.ID(), courier.RequestResume)
		of := make(map[int][]courier.AuditEntry)
		for _, e := range k.AuditOf(h.ID()) {
			of[e.ExecutionAttempt] = append(of[e.ExecutionAttempt], e)
		}
		k.Same("attempts", len(of), 3)
		k.Same("the first", storekit.Moves(of[1]), ">queued queued>running 0:pending>running 0:running>failed running>queued")
		k.Same("the second", storekit.Moves(of[2]), "queued>running 0:pending>running 0:running>failed running>queued")
		k.Same("the third", storekit.Moves(of[3]), "queued>running 0:pending>running 0:running>pending running>queued queued>paused paused>queued")
	}},
	// Workspace and disk are set where given, and stay otherwise.
	{"workspace_and_disk", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		k.Same("workspace at first", k.Get(h.ID()).Workspace, "")
		t := h.Next(0, 1)
		t.Workspace, t.DiskBytes = "here", 1<<33
		h.Must(t)
		h.Must(h.Next(1, 2))
		x := k.Get(h.ID())
		k.Same("workspace", x.Workspace, "here")
		k.Same("disk", x.DiskBytes, int64(1<<33))
	}},
	// The counters are those of the last transition.
	{"counters", func(k *kit) {
		h := k.Start()
		t := h.Begin(0)
		t.Counters = store.Counters{Attempts: 1, Interrupted: true, Base: 7, Failures: 2, JobFailures: 3, Reclaims: 4, Resumed: courier.Paused}
		h.Must(t)
		t = h.To(courier.Queued)
		t.Interrupt = true
		h.Must(t)
		k.Same("counters are those of the last transition", k.Again(h.ID()).Counters, store.Counters{})
	}},
	// A worker whose lease has expired may write until another takes over.
	{"expired_lease_may_write", func(k *kit) {
		h := k.Lose(0)
		h.Must(h.Next(0, 1))
		t := h.To(courier.Completed)
		t.Ended = []courier.StepExecution{storekit.Ended(1)}
		h.Must(t)
		k.Claimed("claim", k.ClaimRequest(5))
	}},
	{"audit_is_that_of_entries", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		k.Pass(k.Unit)
		k.Ask(h.ID(), courier.RequestCancel)
		current := k.Get(h.ID()).Current
		t := h.To(courier.Cancelled)
		t.Ended = []courier.StepExecution{storekit.Ended(0), storekit.Ended(1)}
		t.Ended[0].State, t.Ended[0].Bytes, t.Ended[0].Error = courier.StepFailed, 5, "cancelled"
		t.Ended[1].State = courier.StepSkipped
		t.Failure = &courier.Failure{Reason: courier.ReasonError, Message: "why"}
		h.Must(t)
		want := t.Entries(current, "ann")
		got := k.AuditOf(h.ID())[3:]
		for i := range got {
			k.Same("worker", got[i].Worker, "worker")
			got[i].At, got[i].Worker, got[i].Elapsed, got[i].ExecutionAttempt = time.Time{}, "", 0, 0
		}
		k.Same("entries", got, want)
	}},
	// A transition that carries out a request has the actor of the request in the audit.
	{"actor_is_in_the_audit", func(k *kit) {
		for _, c := range []struct {
			ask  courier.RequestKind
			to   courier.State
			want string
		}{
			{courier.RequestPause, courier.Paused, "ann"}, {courier.RequestCancel, courier.Cancelled, "ann"},
			{courier.RequestPause, courier.Completed, ""}, {courier.RequestPause, courier.Cancelled, ""}, {"", courier.Paused, ""},
		} {
			h := k.Start()
			if c.ask != "" {
				k.Ask(h.ID(), c.ask)
			}
			h.Must(h.To(c.to))
			k.Same("by", k.AuditOf(h.ID())[2].By, c.want)
		}
	}},
	// Every valid text is kept byte by byte.
	{"odd_text_is_kept", func(k *kit) {
		odd := "\x01\t\r\n\x7f\u0085\u2028\ufeff\ufffd 'a'' \"b\\ \\u0000 $1 %s {c,d} <&> e\u0301 \U0001F4E6"
		h := k.Hold(k.Add(k.With(func(n *store.NewExecution) { n.By, n.LimitKeys = odd, []string{odd} }))[0].ID, long)
		h.Must(h.Begin(0))
		t := h.To(courier.Failed)
		t.Ended = []courier.StepExecution{storekit.Ended(0)}
		t.Ended[0].State, t.Ended[0].Error = courier.StepFailed, odd
		t.Ended[0].Files = []courier.File{{Path: odd}}
		t.Failure = &courier.Failure{Reason: courier.ReasonError, Message: odd}
		h.Must(t)
		x, r, list := k.Get(h.ID()), k.Records(h.ID())[0], k.AuditOf(h.ID())
		for what, got := range map[string]string{
			"by": x.By, "limit key": x.LimitKeys[0], "failure": x.Failure.Message, "file": r.Files[0].Path,
			"error": r.Error, "error in the audit": list[3].Error, "failure in the audit": list[4].Error, "by in the audit": list[0].By,
		} {
			k.Same(what, got, odd)
		}
	}},
	// Records and audit grow with the steps, the latest records do not.
	{"an_execution_of_many_steps", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		const n = 60
		for i := 1; i < n; i++ {
			t := h.Next((i-1)%7, i%7)
			t.Ended[0].Iteration, t.Start.Iteration = []int{(i - 1) / 7}, []int{i / 7}
			if i == 1 {
				t.Ended[0].Iteration = nil
			}
			h.Must(t)
		}
		k.Same("records", len(k.Records(h.ID())), n-1)
		k.Same("latest", len(k.LatestOf(h.ID())), 7)
		k.Same("entries", len(k.AuditOf(h.ID())), 2+2*n-1)
	}},
}
