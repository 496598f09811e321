package executions

import (
	"errors"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

// restartCases are about executions that begin again because the workspace with
// their files is gone.
var restartCases = []testCase{
	// A restart of an execution without files in a workspace is refused.
	{"restart_without_files", func(k *kit) {
		k.Limit("", "0")
		for row, begin := range tables {
			id := begin(k)
			k.Unchanged("a restart of a "+row+" one", id, func() {
				_, err := k.Request(k.Ctx(), store.Request{Execution: id, Kind: courier.RequestRestart, By: "bob"})
				k.Is("error", err, courier.ErrConflict)
			})
		}
	}},
	// A restart makes it the next attempt, without workspace and counters, for any worker; actor
	// and reason are in the audit.
	{"restart_begins_again_on_any_worker", func(k *kit) {
		for _, from := range []courier.State{courier.Paused, courier.Failed, courier.Running} {
			h := k.leave(from)
			k.Pass(k.Unit)
			before := k.Get(h.ID())
			x, err := k.Request(k.Ctx(), store.Request{Execution: h.ID(), Kind: courier.RequestRestart, By: "bob", Reason: "the disk is gone"})
			k.OK(err)
			k.Same("as returned and as stored", k.Get(h.ID()), x)
			list := k.AuditOf(h.ID())
			last := list[len(list)-1]
			k.Same("state", x.State, courier.Queued)
			k.Same("attempt", x.Attempt, before.Attempt+1)
			k.Same("position", x.Position, courier.Position{})
			k.Same("workspace", []any{x.Workspace, x.DiskBytes}, []any{"", int64(0)})
			k.Same("what it was left with", []any{x.Failure, x.Current, x.Request, x.EndedAt.IsZero(), x.StepAttempts}, []any{(*courier.Failure)(nil), (*courier.StepExecution)(nil), courier.RequestKind(""), true, 0})
			k.Same("resumed", x.Resumed, true)
			k.Same("due", x.DueAt, last.At)
			k.Same("audit", storekit.Moves(list[len(list)-1:]), string(from)+">queued")
			k.Same("attempt in the audit", last.ExecutionAttempt, before.Attempt)
			k.Same("who and why", []string{last.By, string(last.Reason), last.Error, last.Worker}, []string{"bob", string(courier.ReasonWithoutFiles), "the disk is gone", ""})
			if from == courier.Running {
				k.Same("the lost step", storekit.Moves(list[len(list)-2:len(list)-1]), "2:running>pending")
			}
			k.Same("records", len(k.Records(h.ID())), len(h.records))
			k.Same("latest", len(k.LatestOf(h.ID())), 0)
			if err := h.Try(h.To(courier.Completed)); !errors.Is(err, courier.ErrLeaseLost) {
				k.Errorf("the former worker's write: %v", err)
			}
			r := k.ClaimRequest(1)
			r.Workspace, r.Worker = "elsewhere", "another"
			c := k.Claimed("claim", r, h.ID())[0]
			k.Same("counters", c.Counters, store.Counters{})
			k.Same("attempt in the audit then", k.AuditOf(h.ID())[len(list)].ExecutionAttempt, before.Attempt+1)
			k.Same("claimed", []any{c.First, c.Reclaimed, c.Lost, len(c.Latest)}, []any{false, false, (*courier.StepExecution)(nil), 0})
			again := k.Holder(c)
			again.Must(again.Begin(0))
			again.Must(again.Finish(0))
			k.Same("attempt of the latest record", k.LatestOf(h.ID())[0].ExecutionAttempt, before.Attempt+1)
			again.Must(again.To(courier.Completed))
		}
	}},
	{"restart_withdraws_a_pause_only", func(k *kit) {
		h := k.leaveWith(courier.Running, courier.RequestPause)
		x := k.Ask(h.ID(), courier.RequestRestart)
		k.Same("of a pausing one", []any{x.State, x.Request}, []any{courier.Queued, courier.RequestKind("")})
		h = k.leaveWith(courier.Running, courier.RequestCancel)
		k.Unchanged("a restart of a cancelling one", h.ID(), func() {
			_, err := k.Request(k.Ctx(), store.Request{Execution: h.ID(), Kind: courier.RequestRestart})
			k.Is("error", err, courier.ErrConflict)
		})
	}},
	// It is refused while a worker has the execution or may claim it.
	{"restart_needs_the_lease_to_have_ended", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		t := h.Next(0, 1)
		t.Workspace = "here"
		h.Must(t)
		k.Unchanged("a restart of a running one", h.ID(), func() {
			_, err := k.Request(k.Ctx(), store.Request{Execution: h.ID(), Kind: courier.RequestRestart})
			k.Is("error", err, courier.ErrConflict)
		})
		t = h.To(courier.Queued)
		t.Interrupt = true
		h.Must(t)
		k.Unchanged("a restart of a queued one", h.ID(), func() {
			_, err := k.Request(k.Ctx(), store.Request{Execution: h.ID(), Kind: courier.RequestRestart})
			k.Is("error", err, courier.ErrConflict)
		})
		k.Ask(h.ID(), courier.RequestPause)
		k.Same("once it is paused", k.Ask(h.ID(), courier.RequestRestart).State, courier.Queued)
	}},
	{"reasons_of_requests_are_in_the_audit", func(k *kit) {
		id := k.Add(k.New())[0].ID
		for _, kind := range []courier.RequestKind{courier.RequestPause, courier.RequestResume} {
			_, err := k.Request(k.Ctx(), store.Request{Execution: id, Kind: kind, By: "bob", Reason: "because of " + string(kind)})
			k.OK(err)
			list := k.AuditOf(id)
			last := list[len(list)-1]
			k.Same("who and why", []string{last.By, string(last.Reason), last.Error}, []string{"bob", "", "because of " + string(kind)})
		}
	}},
}

// left is an execution that was left with files, and how many records it has.
type left struct {
	*holder
	records []courier.StepExecution
}

// leave returns an execution with files in a workspace, whose third step runs or
// was interrupted, in a state; running means that its lease has ended.
func (k *kit) leave(state courier.State) *left { return k.leaveWith(state, "") }

func (k *kit) leaveWith(state courier.State, request courier.RequestKind) *left {
	k.Helper()
	return k.leaveIn("here", state, request)
}

// leaveIn is leaveWith for a workspace.
func (k *kit) leaveIn(workspace string, state courier.State, request courier.RequestKind) *left {
	k.Helper()
	lease := long
	if state == courier.Running {
		lease = k.Unit
	}
	h := k.HoldBy("who is lost", k.Add(k.New())[0].ID, lease)
	h.Must(h.Begin(0))
	h.Must(h.Next(0, 1))
	t := h.Next(1, 2)
	t.Workspace, t.DiskBytes = workspace, 7
	t.Counters = store.Counters{Attempts: 1, Failures: 2, JobFailures: 3, Base: 4}
	h.Must(t)
	if request != "" {
		k.Ask(h.ID(), request)
	}
	if state == courier.Running {
		k.Pass(2 * k.Unit)
	} else {
		t := h.To(state)
		t.Interrupt, t.Position.Step = true, 2
		t.Failure = &courier.Failure{Reason: courier.ReasonError, Message: "why"}
		h.Must(t)
	}
	return &left{h, k.Records(h.ID())}
}
