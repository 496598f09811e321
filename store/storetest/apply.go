package storetest

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

var applyCases = []testCase{
	{"start", func(k *kit) {
		h := k.start()
		t := h.begin(3)
		t.Start = &courier.StepExecution{Step: 3, ID: "get", Type: "a", Iteration: []int{2, 0}, Total: []int{5, 1}, Attempt: 4}
		t.Position = courier.Position{Step: 3, Loops: []courier.LoopPosition{{Step: 1, Index: 2}, {Step: 2, Index: 0}}}
		h.must(t)
		x := k.get(h.id())
		k.same("position", x.Position, t.Position)
		last := k.audit(h.id())[2]
		k.same("present step", x.Current, &courier.StepExecution{
			Execution: h.id(), Step: 3, ID: "get", Type: "a", Iteration: []int{2, 0}, Total: []int{5, 1}, Attempt: 4,
			ExecutionAttempt: 1, State: courier.StepRunning, StartedAt: last.At, Worker: "worker",
		})
		k.same("records", len(k.records(h.id())), 0)
		k.same("state", x.State, courier.Running)
		three := 3
		k.same("audit", last, courier.AuditEntry{
			Execution: h.id(), Seq: 3, At: last.At, Step: &three, ID: "get", Type: "a", Iteration: []int{2, 0}, Attempt: 4,
			From: "pending", To: "running", Worker: "worker",
		})
	}},
	{"end", func(k *kit) {
		h := k.start()
		t := h.begin(0)
		t.Start.ID, t.Start.Iteration = "get", []int{1}
		h.must(t)
		started := k.get(h.id()).Current.StartedAt
		k.pass(k.unit)
		t = h.to(courier.Running)
		t.Ended = []courier.StepExecution{{
			Step: 0, ID: "get", Type: "a", Iteration: []int{1}, Total: []int{2}, Attempt: 1, State: courier.StepCompleted,
			Bytes: 1 << 40, Outputs: json.RawMessage(`{ "n": 9007199254740993 , "n": 1.0 }`),
			Files: []courier.File{{Path: "a b/é", Size: 3}, {Path: "/x", Removed: true}},
		}}
		h.must(t)
		k.same("present step", k.get(h.id()).Current, (*courier.StepExecution)(nil))
		r := k.records(h.id())[0]
		k.same("outputs", string(r.Outputs), string(t.Ended[0].Outputs))
		want := t.Ended[0]
		want.Execution, want.Seq, want.ExecutionAttempt, want.Worker = h.id(), 4, 1, "worker"
		want.StartedAt, want.EndedAt = started, k.audit(h.id())[3].At
		k.same("record", r, want)
		k.same("elapsed", k.audit(h.id())[3].Elapsed, want.EndedAt.Sub(started))
	}},
	{"refuses_what_is_too_large", func(k *kit) {
		h := k.start()
		if k.most == 0 {
			return
		}
		h.must(h.begin(0))
		before := k.get(h.id())
		t := h.to(courier.Running)
		t.Ended = []courier.StepExecution{ended(0)}
		t.Ended[0].Outputs = make(json.RawMessage, k.most+1)
		for range 2 {
			k.is("too large", k.Apply(k.ctx(), t), courier.ErrInvalid)
		}
		k.same("after the refusal", k.get(h.id()), before)
		k.same("entries", len(k.audit(h.id())), 3)
		t.Ended[0].Outputs = json.RawMessage(`{}`)
		h.must(t)
	}},
	{"end_as_failed_or_skipped", func(k *kit) {
		h := k.start()
		for i, s := range []courier.StepState{courier.StepFailed, courier.StepSkipped} {
			h.must(h.begin(i))
			t := h.finish(i)
			t.Ended[0].State, t.Ended[0].Reason, t.Ended[0].Error = s, courier.ReasonTimeout, "too \"slow\"\nby far"
			h.must(t)
			r := k.records(h.id())[i]
			k.same("record", []string{string(r.State), string(r.Reason), r.Error}, []string{string(s), "timeout", "too \"slow\"\nby far"})
			e := k.audit(h.id())[3+2*i]
			k.same("audit", []string{e.To, string(e.Reason), e.Error}, []string{string(s), "timeout", "too \"slow\"\nby far"})
		}
	}},
	{"end_and_start", func(k *kit) {
		h := k.start()
		h.must(h.begin(0))
		h.must(h.next(0, 1))
		h.must(h.next(1, 2))
		k.same("present step", k.get(h.id()).Current.Step, 2)
		k.same("audit", moves(k.audit(h.id())), ">queued queued>running 0:pending>running 0:running>completed 1:pending>running 1:running>completed 2:pending>running")
		var seqs []int64
		for _, r := range k.records(h.id()) {
			seqs = append(seqs, r.Seq)
		}
		k.same("numbers of the records", seqs, []int64{4, 6})
	}},
	{"end_without_start", func(k *kit) {
		h := k.start()
		t := h.to(courier.Failed)
		s := step(2)
		s.State, s.Reason, s.Error = courier.StepFailed, courier.ReasonConfig, "no such value"
		t.Ended = []courier.StepExecution{s}
		h.must(t)
		r := k.records(h.id())[0]
		k.same("started when it ended", r.StartedAt, r.EndedAt)
		k.same("audit", moves(k.audit(h.id())[2:]), "2:pending>failed running>failed")
		k.same("elapsed", k.audit(h.id())[2].Elapsed, time.Duration(0))
	}},
	{"end_of_another_attempt_or_iteration", func(k *kit) {
		h := k.start()
		t := h.begin(1)
		t.Start.Iteration = []int{0}
		h.must(t)
		t = h.to(courier.Running)
		t.Interrupt = true
		other := step(1)
		other.State, other.Iteration = courier.StepFailed, []int{1}
		more := other
		more.Iteration, more.Attempt = []int{0}, 2
		t.Ended = []courier.StepExecution{other, more}
		h.must(t)
		k.same("audit", moves(k.audit(h.id())[3:]), "1:pending>failed 1:pending>failed 1:running>pending")
	}},
	{"end_several", func(k *kit) {
		h := k.start()
		h.must(h.begin(0))
		k.pass(k.unit)
		t := h.next(0, 3)
		for _, i := range []int{1, 2} {
			s := step(i)
			s.State = courier.StepSkipped
			t.Ended = append(t.Ended, s)
		}
		h.must(t)
		var got []string
		for _, r := range k.records(h.id()) {
			got = append(got, text([]any{r.Seq, r.Step, r.State}))
		}
		k.same("records", strings.Join(got, " "), `[4,0,"completed"] [5,1,"skipped"] [6,2,"skipped"]`)
		k.same("audit", moves(k.audit(h.id())[3:]), "0:running>completed 1:pending>skipped 2:pending>skipped 3:pending>running")
	}},
	{"started_at_as_given", func(k *kit) {
		h := k.start()
		h.must(h.begin(0))
		started := k.get(h.id()).Current.StartedAt
		t := h.finish(0)
		t.Ended[0].StartedAt = started.Add(-time.Minute)
		h.must(t)
		k.same("started", k.records(h.id())[0].StartedAt, started.Add(-time.Minute))
	}},
	{"interrupt", func(k *kit) {
		h := k.start()
		h.must(h.begin(0))
		k.pass(k.unit)
		t := h.to(courier.Queued)
		t.Interrupt = true
		h.must(t)
		x := k.get(h.id())
		k.same("present step", x.Current, (*courier.StepExecution)(nil))
		k.same("records", len(k.records(h.id())), 0)
		k.same("audit", moves(k.audit(h.id())[3:]), "0:running>pending running>queued")
		if e := k.audit(h.id())[3].Elapsed; e < k.unit {
			k.Errorf("elapsed %v, want %v at least", e, k.unit)
		}
		again := k.again(h.id())
		again.must(again.begin(0)) // the same attempt goes on
		again.must(again.next(0, 1))
		k.same("records then", len(k.records(h.id())), 1)
	}},
	{"interrupt_of_nothing", func(k *kit) {
		h := k.start()
		t := h.to(courier.Paused)
		t.Interrupt = true
		h.must(t)
		k.same("audit", moves(k.audit(h.id())), ">queued queued>running running>paused")
	}},
	{"leaves_running", func(k *kit) {
		for _, to := range []courier.State{courier.Completed, courier.Failed, courier.Cancelled, courier.Paused, courier.Queued} {
			h := k.start()
			k.pass(k.unit)
			t := h.to(to)
			t.Position.Step = 7
			h.must(t)
			x := k.get(h.id())
			k.same("state", x.State, to)
			k.same("position", x.Position.Step, 7)
			k.same("lease", x.LeaseExpiresAt, time.Time{})
			k.same("worker", x.Worker, "worker")
			last := k.audit(h.id())[2]
			if to.Ended() {
				k.same("ended", x.EndedAt, last.At)
			} else {
				k.same("ended", x.EndedAt, time.Time{})
			}
			k.same("elapsed", last.Elapsed, last.At.Sub(x.StartedAt))
			k.same("worker in the audit", last.Worker, "worker")
		}
	}},
	{"queued_with_a_delay", func(k *kit) {
		h := k.start()
		t := h.to(courier.Queued)
		t.Delay = k.unit
		h.must(t)
		x := k.get(h.id())
		k.same("due after", x.DueAt.Sub(k.audit(h.id())[2].At), k.unit)
		k.pass(2 * k.unit)
		k.claimed("claim", k.request(1), h.id())
		long := k.start()
		t = long.to(courier.Queued)
		t.Delay = time.Hour
		long.must(t)
		k.claimed("claim of one not due", k.request(1))
	}},
	{"queued_without_a_delay", func(k *kit) {
		h := k.start()
		h.must(h.to(courier.Queued))
		k.same("due", k.get(h.id()).DueAt, k.audit(h.id())[2].At)
		r := k.request(1)
		r.Worker = "other"
		k.claimed("claim by another worker", r, h.id())
	}},
	{"failure_set_kept_and_cleared", func(k *kit) {
		f := &courier.Failure{Step: 2, ID: "get", Type: "a", Iteration: []int{1}, Attempt: 3, Reason: courier.ReasonStalled, Message: "no progress"}
		h := k.start()
		t := h.to(courier.Queued)
		t.Failure = f
		h.must(t)
		k.same("while it waits", k.get(h.id()).Failure, f)
		last := k.audit(h.id())[2]
		k.same("audit", []string{string(last.Reason), last.Error}, []string{"stalled", "no progress"})
		h = k.again(h.id())
		k.same("when it is claimed", h.Execution.Failure, f)
		h.must(h.begin(0))
		k.same("while it goes on", k.get(h.id()).Failure, f)
		t = h.to(courier.Queued)
		t.Interrupt = true
		h.must(t)
		k.same("after it was handed over", k.get(h.id()).Failure, f)
		for _, to := range []courier.State{courier.Paused, courier.Completed} {
			h = k.again(h.id())
			h.must(h.to(to))
			k.same("when it is "+string(to), k.get(h.id()).Failure, (*courier.Failure)(nil))
			if to == courier.Paused {
				k.ask(h.id(), courier.RequestResume)
			}
		}
	}},
	{"failed_with_a_failure", func(k *kit) {
		h := k.start()
		t := h.to(courier.Failed)
		t.Failure = &courier.Failure{Step: -1, Reason: courier.ReasonWorkerLost, Message: "three workers in a row"}
		h.must(t)
		k.same("failure", k.get(h.id()).Failure, t.Failure)
	}},
	{"retry_job", func(k *kit) {
		h := k.start()
		h.must(h.begin(0))
		h.must(h.next(0, 1))
		t := h.to(courier.Queued)
		t.Ended, t.RetryJob = []courier.StepExecution{ended(1)}, true
		t.Ended[0].State = courier.StepFailed
		h.must(t)
		x := k.get(h.id())
		k.same("attempt", x.Attempt, 2)
		k.same("position", x.Position, courier.Position{})
		k.same("latest", len(k.latest(h.id())), 0)
		k.same("latest when claimed", len(k.again(h.id()).Latest), 0)
		list := k.records(h.id())
		k.same("attempts of the records", []int{list[0].ExecutionAttempt, list[1].ExecutionAttempt}, []int{1, 1})
	}},
	{"retry_job_at_once", func(k *kit) {
		h := k.start()
		h.must(h.begin(0))
		t := h.next(0, 0)
		t.RetryJob = true
		h.must(t)
		k.same("attempt of the present step", k.get(h.id()).Current.ExecutionAttempt, 2)
		h.must(h.finish(0))
		k.same("attempt of the latest record", k.latest(h.id())[0].ExecutionAttempt, 2)
		k.same("records", len(k.records(h.id())), 2)
	}},
	{"workspace_and_disk", func(k *kit) {
		h := k.start()
		h.must(h.begin(0))
		k.same("workspace at first", k.get(h.id()).Workspace, "")
		t := h.next(0, 1)
		t.Workspace, t.DiskBytes = "here", 1<<33
		h.must(t)
		h.must(h.next(1, 2))
		x := k.get(h.id())
		k.same("workspace", x.Workspace, "here")
		k.same("disk", x.DiskBytes, int64(1<<33))
	}},
	{"counters", func(k *kit) {
		h := k.start()
		t := h.begin(0)
		t.Counters = store.Counters{Attempts: 1, Interrupted: true, Base: 7, Failures: 2, JobFailures: 3, Reclaims: 4, Resumed: courier.Paused}
		h.must(t)
		t = h.to(courier.Queued)
		t.Interrupt = true
		h.must(t)
		k.same("counters are those of the last transition", k.again(h.id()).Counters, store.Counters{})
	}},
	{"expired_lease_may_write", func(k *kit) {
		h := k.lose(0)
		h.must(h.next(0, 1))
		t := h.to(courier.Completed)
		t.Ended = []courier.StepExecution{ended(1)}
		h.must(t)
		k.claimed("claim", k.request(5))
	}},
	{"audit_is_that_of_entries", func(k *kit) {
		h := k.start()
		h.must(h.begin(0))
		k.pass(k.unit)
		k.ask(h.id(), courier.RequestCancel)
		current := k.get(h.id()).Current
		t := h.to(courier.Cancelled)
		t.Ended = []courier.StepExecution{ended(0), ended(1)}
		t.Ended[0].State, t.Ended[0].Bytes, t.Ended[0].Error = courier.StepFailed, 5, "cancelled"
		t.Ended[1].State = courier.StepSkipped
		t.Failure = &courier.Failure{Reason: courier.ReasonError, Message: "why"}
		h.must(t)
		want := t.Entries(current, "ann")
		got := k.audit(h.id())[3:]
		for i := range got {
			k.same("worker", got[i].Worker, "worker")
			got[i].At, got[i].Worker, got[i].Elapsed = time.Time{}, "", 0
		}
		k.same("entries", got, want)
	}},
	{"actor_is_in_the_audit", func(k *kit) {
		for _, c := range []struct {
			ask  courier.RequestKind
			to   courier.State
			want string
		}{
			{courier.RequestPause, courier.Paused, "ann"}, {courier.RequestCancel, courier.Cancelled, "ann"},
			{courier.RequestPause, courier.Completed, ""}, {courier.RequestPause, courier.Cancelled, ""}, {"", courier.Paused, ""},
		} {
			h := k.start()
			if c.ask != "" {
				k.ask(h.id(), c.ask)
			}
			h.must(h.to(c.to))
			k.same("by", k.audit(h.id())[2].By, c.want)
		}
	}},
	{"odd_text_is_kept", func(k *kit) {
		odd := "\x01\t\r\n\x7f\u0085\u2028\ufeff\ufffd 'a'' \"b\\ \\u0000 $1 %s {c,d} <&> e\u0301 \U0001F4E6"
		h := k.hold(k.add(k.with(func(n *store.NewExecution) { n.By, n.LimitKeys = odd, []string{odd} }))[0].ID, long)
		h.must(h.begin(0))
		t := h.to(courier.Failed)
		t.Ended = []courier.StepExecution{ended(0)}
		t.Ended[0].State, t.Ended[0].Error = courier.StepFailed, odd
		t.Ended[0].Files = []courier.File{{Path: odd}}
		t.Failure = &courier.Failure{Reason: courier.ReasonError, Message: odd}
		h.must(t)
		x, r, list := k.get(h.id()), k.records(h.id())[0], k.audit(h.id())
		for what, got := range map[string]string{
			"by": x.By, "limit key": x.LimitKeys[0], "failure": x.Failure.Message, "file": r.Files[0].Path,
			"error": r.Error, "error in the audit": list[3].Error, "failure in the audit": list[4].Error, "by in the audit": list[0].By,
		} {
			k.same(what, got, odd)
		}
	}},
	{"an_execution_of_many_steps", func(k *kit) {
		h := k.start()
		h.must(h.begin(0))
		const n = 60
		for i := 1; i < n; i++ {
			t := h.next((i-1)%7, i%7)
			t.Ended[0].Iteration, t.Start.Iteration = []int{(i - 1) / 7}, []int{i / 7}
			if i == 1 {
				t.Ended[0].Iteration = nil
			}
			h.must(t)
		}
		k.same("records", len(k.records(h.id())), n-1)
		k.same("latest", len(k.latest(h.id())), 7)
		k.same("entries", len(k.audit(h.id())), 2+2*n-1)
	}},
}
