package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

var requestCases = []testCase{
	{"created", func(k *kit) { k.table("created", "", "", "cancelled", "queued") }},
	{"queued", func(k *kit) { k.table("queued", "paused", "", "cancelled", "") }},
	{"backing_off", func(k *kit) { k.table("backing off", "paused", "", "cancelled", "") }},
	{"running", func(k *kit) { k.table("running", "pause", "", "cancel", "") }},
	{"running_expired", func(k *kit) { k.table("expired", "paused", "", "cancelled", "") }},
	{"running_pausing", func(k *kit) { k.table("pausing", "pause", "withdrawn", "cancel", "") }},
	{"running_cancelling", func(k *kit) { k.table("cancelling", "", "", "cancel", "") }},
	{"expired_pausing", func(k *kit) { k.table("expired, pausing", "paused", "withdrawn", "cancelled", "") }},
	{"expired_cancelling", func(k *kit) { k.table("expired, cancelling", "", "", "cancelled", "") }},
	{"paused", func(k *kit) { k.table("paused", "", "queued", "cancelled", "") }},
	{"failed", func(k *kit) { k.table("failed", "", "queued", "cancelled", "") }},
	{"completed", func(k *kit) { k.table("completed", "", "", "", "") }},
	{"cancelled", func(k *kit) { k.table("cancelled", "", "", "", "") }},
	{"unknown_execution", func(k *kit) {
		_, err := k.Request(k.ctx(), store.Request{Execution: "00000000-0000-7000-8000-000000000000", Kind: courier.RequestPause})
		k.is("error", err, courier.ErrNotFound)
	}},
	{"unknown_kind", func(k *kit) {
		id := k.add(k.new())[0].ID
		k.unchanged("an unknown request", id, func() {
			for _, kind := range []courier.RequestKind{"", "stop", "Pause"} {
				_, err := k.Request(k.ctx(), store.Request{Execution: id, Kind: kind})
				k.is("error", err, courier.ErrInvalid)
			}
		})
	}},
	{"actor_is_in_the_audit", func(k *kit) {
		id := k.add(k.new())[0].ID
		k.ask(id, courier.RequestPause)
		_, err := k.Request(k.ctx(), store.Request{Execution: id, Kind: courier.RequestResume, By: "bob"})
		k.ok(err)
		list := k.audit(id)
		k.same("audit", moves(list), ">queued queued>paused paused>queued")
		k.same("by", []string{list[1].By, list[2].By}, []string{"ann", "bob"})
		k.same("worker", list[2].Worker, "")
	}},
	{"the_last_request_counts", func(k *kit) {
		h := k.start()
		k.ask(h.id(), courier.RequestPause)
		_, err := k.Request(k.ctx(), store.Request{Execution: h.id(), Kind: courier.RequestCancel, By: "bob"})
		k.ok(err)
		got := k.renewed("renewed", []store.Lease{{Execution: h.id(), Token: h.Token}}, h.id())
		k.same("request", got[h.id()], store.Renewed{Execution: h.id(), Request: courier.RequestCancel, By: "bob"})
	}},
	{"pending_writes_no_audit", func(k *kit) {
		h := k.start()
		k.ask(h.id(), courier.RequestPause)
		k.ask(h.id(), courier.RequestResume)
		k.ask(h.id(), courier.RequestCancel)
		k.same("audit", moves(k.audit(h.id())), ">queued queued>running")
		h.must(h.to(courier.Cancelled))
	}},
	{"resume_is_due_at_once_with_fresh_counters", func(k *kit) {
		for _, from := range []courier.State{courier.Paused, courier.Failed} {
			h := k.start()
			h.must(h.begin(0))
			t := h.to(from)
			t.Interrupt, t.Position.Step = true, 3
			t.Failure = &courier.Failure{Reason: courier.ReasonError, Message: "why"}
			t.Counters = store.Counters{Attempts: 2, Interrupted: true, Base: 6, Failures: 3, JobFailures: 4, Reclaims: 5}
			h.must(t)
			k.pass(k.unit)
			x := k.ask(h.id(), courier.RequestResume)
			list := k.audit(h.id())
			k.same("due", x.DueAt, list[len(list)-1].At)
			k.same("ended", x.EndedAt, time.Time{})
			k.same("failure", x.Failure, (*courier.Failure)(nil))
			k.same("resumed", x.Resumed, true)
			k.same("position", x.Position.Step, 3)
			k.same("attempts", []int{x.StepAttempts, x.EarlierStarts}, []int{2, 6})
			again := k.again(h.id())
			k.same("counters", again.Counters, store.Counters{Attempts: 2, Interrupted: true, Base: 6, Resumed: from})
			again.must(again.to(courier.Completed))
			k.same("resumed once, resumed for ever", k.get(h.id()).Resumed, true)
		}
	}},
	{"resume_begins_the_timeout_anew", func(k *kit) {
		h := k.hold(k.add(k.with(func(n *store.NewExecution) { n.Timeout = long }))[0].ID, long)
		started := h.Execution.StartedAt
		h.must(h.to(courier.Failed))
		k.pass(2 * k.unit)
		k.ask(h.id(), courier.RequestResume)
		again := k.again(h.id())
		k.same("remaining", again.Remaining, long)
		k.same("started", again.Execution.StartedAt, started)
		k.pass(k.unit)
		again.must(again.to(courier.Queued))
		if got := k.again(h.id()).Remaining; got > long-k.unit {
			k.Errorf("remaining %v after a hand-over, %v after the resume", got, k.unit)
		}
	}},
	{"resume_of_a_backing_off_one", func(k *kit) {
		h := k.start()
		t := h.to(courier.Queued)
		t.Delay, t.Failure, t.Counters.Failures = long, &courier.Failure{Message: "why"}, 2
		h.must(t)
		x := k.ask(h.id(), courier.RequestPause)
		k.same("failure while paused", x.Failure, t.Failure)
		k.ask(h.id(), courier.RequestResume)
		c := k.claimed("claim", k.request(1), h.id())[0]
		k.same("counters", c.Counters, store.Counters{Resumed: courier.Paused})
	}},
	{"release_keeps_the_due_time", func(k *kit) {
		e := k.add(k.with(func(n *store.NewExecution) { n.Hold, n.Delay = true, long }))[0]
		x := k.ask(e.ID, courier.RequestRelease)
		k.same("due", x.DueAt, e.DueAt)
		k.same("resumed", x.Resumed, false)
		k.claimed("claim", k.request(1))
		now := k.add(k.with(func(n *store.NewExecution) { n.Hold = true }))[0].ID
		k.ask(now, courier.RequestRelease)
		c := k.claimed("claim of one without a delay", k.request(1), now)[0]
		k.same("counters", c.Counters, store.Counters{})
	}},
	{"cancel_ends_it", func(k *kit) {
		h := k.start()
		t := h.to(courier.Failed)
		t.Failure = &courier.Failure{Reason: courier.ReasonError, Message: "why"}
		h.must(t)
		k.pass(k.unit)
		x := k.ask(h.id(), courier.RequestCancel)
		list := k.audit(h.id())
		k.same("ended", x.EndedAt, list[len(list)-1].At)
		k.same("failure", x.Failure, t.Failure)
	}},
	{"expired_one_is_interrupted", func(k *kit) {
		for _, kind := range []courier.RequestKind{courier.RequestPause, courier.RequestCancel} {
			h := k.lose(0, 1)
			x := k.ask(h.id(), kind)
			k.same("present step", x.Current, (*courier.StepExecution)(nil))
			k.same("lease", x.LeaseExpiresAt, time.Time{})
			k.same("position", x.Position.Step, 1)
			list := k.audit(h.id())
			k.same("audit", moves(list[len(list)-2:]), "1:running>pending running>"+string(x.State))
			k.same("why", list[len(list)-2].Reason, courier.ReasonWorkerLost)
			k.same("by", []string{list[len(list)-2].By, list[len(list)-1].By}, []string{"", "ann"})
			k.same("records", len(k.records(h.id())), 1)
		}
	}},
	{"expired_one_can_be_resumed", func(k *kit) {
		h := k.lose(0)
		k.ask(h.id(), courier.RequestPause)
		k.ask(h.id(), courier.RequestResume)
		again := k.again(h.id())
		if again.Lost != nil {
			k.Errorf("lost %s", text(again.Lost))
		}
		k.same("reclaims", again.Counters.Reclaims, 0)
		again.must(again.begin(0))
	}},
}

// tables is the state that each row of the table begins with.
var tables = map[string]func(k *kit) courier.ExecutionID{
	"created": func(k *kit) courier.ExecutionID {
		return k.add(k.with(func(n *store.NewExecution) { n.Hold = true }))[0].ID
	},
	"queued": func(k *kit) courier.ExecutionID { return k.add(k.new())[0].ID },
	"backing off": func(k *kit) courier.ExecutionID {
		h := k.start()
		t := h.to(courier.Queued)
		t.Delay, t.Failure = long, &courier.Failure{Reason: courier.ReasonError, Message: "why"}
		h.must(t)
		return h.id()
	},
	"running": func(k *kit) courier.ExecutionID { return k.start().id() },
	"expired": func(k *kit) courier.ExecutionID { return k.lose(0).id() },
	"pausing": func(k *kit) courier.ExecutionID {
		h := k.start()
		k.ask(h.id(), courier.RequestPause)
		return h.id()
	},
	"cancelling": func(k *kit) courier.ExecutionID {
		h := k.start()
		k.ask(h.id(), courier.RequestCancel)
		return h.id()
	},
	"expired, pausing":    func(k *kit) courier.ExecutionID { return k.requested(courier.RequestPause).id() },
	"expired, cancelling": func(k *kit) courier.ExecutionID { return k.requested(courier.RequestCancel).id() },
	"paused":              func(k *kit) courier.ExecutionID { return k.left(courier.Paused) },
	"failed":              func(k *kit) courier.ExecutionID { return k.left(courier.Failed) },
	"completed":           func(k *kit) courier.ExecutionID { return k.left(courier.Completed) },
	"cancelled":           func(k *kit) courier.ExecutionID { return k.left(courier.Cancelled) },
}

func (k *kit) left(to courier.State) courier.ExecutionID {
	h := k.start()
	h.must(h.to(to))
	return h.id()
}

// table checks a row of the table of [store.Decide]: what becomes of each
// request. Empty is a TransitionError, "withdrawn" no request afterwards, a
// request's name that request, and anything else the state.
func (k *kit) table(row, pause, resume, cancel, release string) {
	k.Helper()
	k.limit("", "0")
	for kind, want := range map[courier.RequestKind]string{
		courier.RequestPause: pause, courier.RequestResume: resume,
		courier.RequestCancel: cancel, courier.RequestRelease: release,
	} {
		what := fmt.Sprintf("%s of a %s one", kind, row)
		id := tables[row](k)
		if want == "" {
			k.unchanged(what, id, func() {
				state := k.get(id).State
				_, err := k.Request(k.ctx(), store.Request{Execution: id, Kind: kind, By: "bob"})
				var refused *courier.TransitionError
				if !errors.As(err, &refused) || refused.From != state || refused.Execution != id {
					k.Errorf("%s: error %v, want a TransitionError from %s", what, err, state)
				}
			})
			continue
		}
		x := k.ask(id, kind)
		k.same(what+": as returned and as stored", k.get(id), x)
		switch want {
		case "withdrawn":
			k.same(what, []string{string(x.State), string(x.Request)}, []string{"running", ""})
		case "pause", "cancel":
			k.same(what, []string{string(x.State), string(x.Request)}, []string{"running", want})
		default:
			k.same(what, []string{string(x.State), string(x.Request)}, []string{want, ""})
		}
	}
}
