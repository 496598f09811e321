package storetest

import (
	"errors"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// restartCases are about executions that begin again because the workspace with
// their files is gone.
var restartCases = []testCase{
	{"restart_without_files", func(k *kit) {
		k.limit("", "0")
		for row, begin := range tables {
			id := begin(k)
			k.unchanged("a restart of a "+row+" one", id, func() {
				_, err := k.Request(k.ctx(), store.Request{Execution: id, Kind: courier.RequestRestart, By: "bob"})
				k.is("error", err, courier.ErrConflict)
			})
		}
	}},
	{"restart_begins_again_on_any_worker", func(k *kit) {
		for _, from := range []courier.State{courier.Paused, courier.Failed, courier.Running} {
			h := k.leave(from)
			k.pass(k.unit)
			before := k.get(h.id())
			x, err := k.Request(k.ctx(), store.Request{Execution: h.id(), Kind: courier.RequestRestart, By: "bob", Reason: "the disk is gone"})
			k.ok(err)
			k.same("as returned and as stored", k.get(h.id()), x)
			list := k.audit(h.id())
			last := list[len(list)-1]
			k.same("state", x.State, courier.Queued)
			k.same("attempt", x.Attempt, before.Attempt+1)
			k.same("position", x.Position, courier.Position{})
			k.same("workspace", []any{x.Workspace, x.DiskBytes}, []any{"", int64(0)})
			k.same("what it was left with", []any{x.Failure, x.Current, x.Request, x.EndedAt.IsZero(), x.StepAttempts}, []any{(*courier.Failure)(nil), (*courier.StepExecution)(nil), courier.RequestKind(""), true, 0})
			k.same("resumed", x.Resumed, true)
			k.same("due", x.DueAt, last.At)
			k.same("audit", moves(list[len(list)-1:]), string(from)+">queued")
			k.same("who and why", []string{last.By, string(last.Reason), last.Error, last.Worker}, []string{"bob", string(courier.ReasonElsewhere), "the disk is gone", ""})
			if from == courier.Running {
				k.same("the lost step", moves(list[len(list)-2:len(list)-1]), "2:running>pending")
			}
			k.same("records", len(k.records(h.id())), len(h.records))
			k.same("latest", len(k.latest(h.id())), 0)
			if err := h.try(h.to(courier.Completed)); !errors.Is(err, courier.ErrLeaseLost) {
				k.Errorf("the former worker's write: %v", err)
			}
			r := k.request(1)
			r.Workspace, r.Worker = "elsewhere", "another"
			c := k.claimed("claim", r, h.id())[0]
			k.same("counters", c.Counters, store.Counters{})
			k.same("claimed", []any{c.First, c.Reclaimed, c.Lost, len(c.Latest)}, []any{false, false, (*courier.StepExecution)(nil), 0})
			again := &holder{k, c, c.Seq}
			again.must(again.begin(0))
			again.must(again.finish(0))
			k.same("attempt of the latest record", k.latest(h.id())[0].ExecutionAttempt, before.Attempt+1)
			again.must(again.to(courier.Completed))
		}
	}},
	{"restart_withdraws_a_pause_only", func(k *kit) {
		h := k.leaveWith(courier.Running, courier.RequestPause)
		x := k.ask(h.id(), courier.RequestRestart)
		k.same("of a pausing one", []any{x.State, x.Request}, []any{courier.Queued, courier.RequestKind("")})
		h = k.leaveWith(courier.Running, courier.RequestCancel)
		k.unchanged("a restart of a cancelling one", h.id(), func() {
			_, err := k.Request(k.ctx(), store.Request{Execution: h.id(), Kind: courier.RequestRestart})
			k.is("error", err, courier.ErrConflict)
		})
	}},
	{"restart_needs_the_lease_to_have_ended", func(k *kit) {
		h := k.start()
		h.must(h.begin(0))
		t := h.next(0, 1)
		t.Workspace = "here"
		h.must(t)
		k.unchanged("a restart of a running one", h.id(), func() {
			_, err := k.Request(k.ctx(), store.Request{Execution: h.id(), Kind: courier.RequestRestart})
			k.is("error", err, courier.ErrConflict)
		})
		t = h.to(courier.Queued)
		t.Interrupt = true
		h.must(t)
		k.unchanged("a restart of a queued one", h.id(), func() {
			_, err := k.Request(k.ctx(), store.Request{Execution: h.id(), Kind: courier.RequestRestart})
			k.is("error", err, courier.ErrConflict)
		})
		k.ask(h.id(), courier.RequestPause)
		k.same("once it is paused", k.ask(h.id(), courier.RequestRestart).State, courier.Queued)
	}},
	{"reasons_of_requests_are_in_the_audit", func(k *kit) {
		id := k.add(k.new())[0].ID
		for _, kind := range []courier.RequestKind{courier.RequestPause, courier.RequestResume} {
			_, err := k.Request(k.ctx(), store.Request{Execution: id, Kind: kind, By: "bob", Reason: "because of " + string(kind)})
			k.ok(err)
			list := k.audit(id)
			last := list[len(list)-1]
			k.same("who and why", []string{last.By, string(last.Reason), last.Error}, []string{"bob", "", "because of " + string(kind)})
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
		lease = k.unit
	}
	h := k.holdBy("who is lost", k.add(k.new())[0].ID, lease)
	h.must(h.begin(0))
	h.must(h.next(0, 1))
	t := h.next(1, 2)
	t.Workspace, t.DiskBytes = workspace, 7
	t.Counters = store.Counters{Attempts: 1, Failures: 2, JobFailures: 3, Base: 4}
	h.must(t)
	if request != "" {
		k.ask(h.id(), request)
	}
	if state == courier.Running {
		k.pass(2 * k.unit)
	} else {
		t := h.to(state)
		t.Interrupt, t.Position.Step = true, 2
		t.Failure = &courier.Failure{Reason: courier.ReasonError, Message: "why"}
		h.must(t)
	}
	return &left{h, k.records(h.id())}
}
