package executions

import (
	"errors"
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

var requestCases = []testCase{
	{"created", func(k *kit) { k.table("created", "", "", "cancelled", "queued") }},
	{"queued", func(k *kit) { k.table("queued", "paused", "", "cancelled", "") }},
	{"backing_off", func(k *kit) { k.table("backing off", "paused", "", "cancelled", "") }},
	// Running: pause and cancel are left to the worker.
	{"running", func(k *kit) { k.table("running", "pause", "", "cancel", "") }},
	// Running, expired: pause and cancel act at once.
	{"running_expired", func(k *kit) { k.table("expired", "paused", "", "cancelled", "") }},
	// Running, pausing: a resume withdraws, a cancel replaces the pause.
	{"running_pausing", func(k *kit) { k.table("pausing", "pause", "withdrawn", "cancel", "") }},
	{"running_cancelling", func(k *kit) { k.table("cancelling", "", "", "cancel", "") }},
	// Expired, pausing: pause and cancel act at once, a resume withdraws.
	{"expired_pausing", func(k *kit) { k.table("expired, pausing", "paused", "withdrawn", "cancelled", "") }},
	// Expired, cancelling: nothing but a cancel, which acts at once.
	{"expired_cancelling", func(k *kit) { k.table("expired, cancelling", "", "", "cancelled", "") }},
	{"paused", func(k *kit) { k.table("paused", "", "queued", "cancelled", "") }},
	{"failed", func(k *kit) { k.table("failed", "", "queued", "cancelled", "") }},
	{"completed", func(k *kit) { k.table("completed", "", "", "", "") }},
	{"cancelled", func(k *kit) { k.table("cancelled", "", "", "", "") }},
	{"unknown_execution", func(k *kit) {
		_, err := k.Request(k.Ctx(), store.Request{Execution: "00000000-0000-7000-8000-000000000000", Kind: courier.RequestPause})
		k.Is("error", err, courier.ErrNotFound)
	}},
	{"unknown_kind", func(k *kit) {
		id := k.Add(k.New())[0].ID
		k.Unchanged("an unknown request", id, func() {
			for _, kind := range []courier.RequestKind{"", "stop", "Pause"} {
				_, err := k.Request(k.Ctx(), store.Request{Execution: id, Kind: kind})
				k.Is("error", err, courier.ErrInvalid)
			}
		})
	}},
	{"actor_is_in_the_audit", func(k *kit) {
		id := k.Add(k.New())[0].ID
		k.Ask(id, courier.RequestPause)
		_, err := k.Request(k.Ctx(), store.Request{Execution: id, Kind: courier.RequestResume, By: "bob"})
		k.OK(err)
		list := k.AuditOf(id)
		k.Same("audit", storekit.Moves(list), ">queued queued>paused paused>queued")
		k.Same("by", []string{list[1].By, list[2].By}, []string{"ann", "bob"})
		k.Same("worker", list[2].Worker, "")
	}},
	// A request replaces the pending one, and its actor.
	{"the_last_request_counts", func(k *kit) {
		h := k.Start()
		k.Ask(h.ID(), courier.RequestPause)
		_, err := k.Request(k.Ctx(), store.Request{Execution: h.ID(), Kind: courier.RequestCancel, By: "bob"})
		k.OK(err)
		got := k.renewed("renewed", []store.Lease{{Execution: h.ID(), Token: h.Token}}, h.ID())
		k.Same("request", got[h.ID()], store.Renewed{Execution: h.ID(), Request: courier.RequestCancel, By: "bob"})
	}},
	// A request that is left to the worker writes no audit entry.
	{"pending_writes_no_audit", func(k *kit) {
		h := k.Start()
		k.Ask(h.ID(), courier.RequestPause)
		k.Ask(h.ID(), courier.RequestResume)
		k.Ask(h.ID(), courier.RequestCancel)
		k.Same("audit", storekit.Moves(k.AuditOf(h.ID())), ">queued queued>running")
		h.Must(h.To(courier.Cancelled))
	}},
	// A pending request says when it was made, by whom and why; the entry of the change of state
	// has the actor and the reason.
	{"pending_says_who_when_and_why", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		k.Pass(k.Unit)
		asked := func(x courier.Execution) []string {
			return []string{string(x.Request), x.RequestedBy, x.RequestReason, x.UpdatedAt.Sub(x.RequestedAt).String()}
		}
		x, err := k.Request(k.Ctx(), store.Request{Execution: h.ID(), Kind: courier.RequestPause, By: "ann", Reason: "the disk is full"})
		k.OK(err)
		k.Same("returned", asked(x), []string{"pause", "ann", "the disk is full", "0s"})
		k.Same("stored", asked(k.Get(h.ID())), asked(x))
		if began := x.Current.StartedAt; !x.RequestedAt.After(began) {
			k.Errorf("requested at %v, and the step began at %v", x.RequestedAt, began)
		}
		renewed, err := k.Renew(k.Ctx(), store.RenewRequest{Worker: "worker", Leases: []store.Lease{{Execution: h.ID(), Token: h.Token}}, For: long})
		k.OK(err)
		k.Same("renewed", renewed, []store.Renewed{{Execution: h.ID(), Request: courier.RequestPause, By: "ann", Reason: "the disk is full"}})
		t := h.To(courier.Paused)
		t.Interrupt = true
		h.Must(t)
		x = k.Get(h.ID())
		list := k.AuditOf(h.ID())
		last := list[len(list)-1]
		k.Same("carried out", []string{string(x.Request), x.RequestedBy, x.RequestReason, last.By, last.Error}, []string{"", "", "", "ann", "the disk is full"})
		k.Same("instants", []time.Time{x.RequestedAt, x.UpdatedAt}, []time.Time{{}, last.At})
	}},
	{"withdrawn_leaves_nothing", func(k *kit) {
		h := k.Start()
		before := k.Get(h.ID())
		k.Ask(h.ID(), courier.RequestPause)
		k.Pass(k.Unit)
		x := k.Ask(h.ID(), courier.RequestResume)
		k.Same("returned", x, before)
		k.Same("stored", k.Get(h.ID()), before)
	}},
	// An execution says when it last changed, and how many retries were used.
	{"updated_with_each_entry_of_the_audit", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		for range 3 {
			k.Pass(k.Unit)
			h.Must(h.Next(0, 0))
			list := k.AuditOf(h.ID())
			k.Same("updated", k.Get(h.ID()).UpdatedAt, list[len(list)-1].At)
		}
		k.Pass(k.Unit)
		t := h.To(courier.Queued)
		t.Interrupt, t.Counters = true, store.Counters{Failures: 2, JobFailures: 3}
		h.Must(t)
		x := k.Get(h.ID())
		k.Same("retries", x.Retries, 5)
		k.Same("updated by the state", x.UpdatedAt, x.DueAt)
	}},
	// A resumed execution is due at once; failure, end and counters are reset.
	{"resume_is_due_at_once_with_fresh_counters", func(k *kit) {
		for _, from := range []courier.State{courier.Paused, courier.Failed} {
			h := k.Start()
			h.Must(h.Begin(0))
			t := h.To(from)
			t.Interrupt, t.Position.Step = true, 3
			t.Failure = &courier.Failure{Reason: courier.ReasonError, Message: "why"}
			t.Counters = store.Counters{Attempts: 2, Interrupted: true, Base: 6, Failures: 3, JobFailures: 4, Reclaims: 5}
			h.Must(t)
			k.Pass(k.Unit)
			x := k.Ask(h.ID(), courier.RequestResume)
			list := k.AuditOf(h.ID())
			k.Same("due", x.DueAt, list[len(list)-1].At)
			k.Same("ended", x.EndedAt, time.Time{})
			k.Same("failure", x.Failure, (*courier.Failure)(nil))
			k.Same("resumed", x.Resumed, true)
			k.Same("position", x.Position.Step, 3)
			k.Same("attempts", []int{x.StepAttempts, x.EarlierStarts}, []int{2, 6})
			again := k.Again(h.ID())
			k.Same("counters", again.Counters, store.Counters{Attempts: 2, Interrupted: true, Base: 6, Resumed: from})
			again.Must(again.To(courier.Completed))
			k.Same("resumed once, resumed for ever", k.Get(h.ID()).Resumed, true)
		}
	}},
	{"resume_begins_the_timeout_anew", func(k *kit) {
		h := k.Hold(k.Add(k.With(func(n *store.NewExecution) { n.Timeout = long }))[0].ID, long)
		started := h.Execution.StartedAt
		h.Must(h.To(courier.Failed))
		k.Pass(2 * k.Unit)
		k.Ask(h.ID(), courier.RequestResume)
		again := k.Again(h.ID())
		k.Same("remaining", again.Remaining, long)
		k.Same("started", again.Execution.StartedAt, started)
		k.Pass(k.Unit)
		again.Must(again.To(courier.Queued))
		if got := k.Again(h.ID()).Remaining; got > long-k.Unit {
			k.Errorf("remaining %v after a hand-over, %v after the resume", got, k.Unit)
		}
	}},
	{"resume_of_a_backing_off_one", func(k *kit) {
		h := k.Start()
		t := h.To(courier.Queued)
		t.Delay, t.Failure, t.Counters.Failures = long, &courier.Failure{Message: "why"}, 2
		h.Must(t)
		x := k.Ask(h.ID(), courier.RequestPause)
		k.Same("failure while paused", x.Failure, t.Failure)
		k.Ask(h.ID(), courier.RequestResume)
		c := k.Claimed("claim", k.ClaimRequest(1), h.ID())[0]
		k.Same("counters", c.Counters, store.Counters{Resumed: courier.Paused})
	}},
	// If it is paused before a worker has started a step, the next resume is still that of a
	// failed one.
	{"resume_of_a_failed_one_that_was_paused", func(k *kit) {
		h := k.Start()
		h.Must(h.To(courier.Failed))
		for range 2 {
			k.Ask(h.ID(), courier.RequestResume)
			k.Ask(h.ID(), courier.RequestPause)
		}
		k.Ask(h.ID(), courier.RequestResume)
		again := k.Again(h.ID())
		k.Same("counters before a step has started", again.Counters, store.Counters{Resumed: courier.Failed})
		again.Must(again.Begin(0))
		t := again.To(courier.Paused)
		t.Interrupt = true
		again.Must(t)
		k.Ask(h.ID(), courier.RequestResume)
		k.Same("counters after one has", k.Again(h.ID()).Counters.Resumed, courier.Paused)
	}},
	{"release_keeps_the_due_time", func(k *kit) {
		e := k.Add(k.With(func(n *store.NewExecution) { n.Hold, n.Delay = true, long }))[0]
		x := k.Ask(e.ID, courier.RequestRelease)
		k.Same("due", x.DueAt, e.DueAt)
		k.Same("resumed", x.Resumed, false)
		k.Claimed("claim", k.ClaimRequest(1))
		now := k.Add(k.With(func(n *store.NewExecution) { n.Hold = true }))[0].ID
		k.Ask(now, courier.RequestRelease)
		c := k.Claimed("claim of one without a delay", k.ClaimRequest(1), now)[0]
		k.Same("counters", c.Counters, store.Counters{})
	}},
	// A cancel ends the execution and keeps its failure.
	{"cancel_ends_it", func(k *kit) {
		h := k.Start()
		t := h.To(courier.Failed)
		t.Failure = &courier.Failure{Reason: courier.ReasonError, Message: "why"}
		h.Must(t)
		k.Pass(k.Unit)
		x := k.Ask(h.ID(), courier.RequestCancel)
		list := k.AuditOf(h.ID())
		k.Same("ended", x.EndedAt, list[len(list)-1].At)
		k.Same("failure", x.Failure, t.Failure)
	}},
	// The step of a lost worker goes back to pending.
	{"expired_one_is_interrupted", func(k *kit) {
		for _, kind := range []courier.RequestKind{courier.RequestPause, courier.RequestCancel} {
			h := k.Lose(0, 1)
			x := k.Ask(h.ID(), kind)
			k.Same("present step", x.Current, (*courier.StepExecution)(nil))
			k.Same("lease", x.LeaseExpiresAt, time.Time{})
			k.Same("position", x.Position.Step, 1)
			list := k.AuditOf(h.ID())
			k.Same("audit", storekit.Moves(list[len(list)-2:]), "1:running>pending running>"+string(x.State))
			k.Same("why", list[len(list)-2].Reason, courier.ReasonWorkerLost)
			k.Same("by", []string{list[len(list)-2].By, list[len(list)-1].By}, []string{"", "ann"})
			k.Same("records", len(k.Records(h.ID())), 1)
		}
	}},
	{"expired_one_can_be_resumed", func(k *kit) {
		h := k.Lose(0)
		k.Ask(h.ID(), courier.RequestPause)
		k.Ask(h.ID(), courier.RequestResume)
		again := k.Again(h.ID())
		if again.Lost != nil {
			k.Errorf("lost %s", storekit.Text(again.Lost))
		}
		k.Same("reclaims", again.Counters.Reclaims, 0)
		again.Must(again.Begin(0))
	}},
}

// tables is the state that each row of the table begins with.
var tables = map[string]func(k *kit) courier.ExecutionID{
	"created": func(k *kit) courier.ExecutionID {
		return k.Add(k.With(func(n *store.NewExecution) { n.Hold = true }))[0].ID
	},
	"queued": func(k *kit) courier.ExecutionID { return k.Add(k.New())[0].ID },
	"backing off": func(k *kit) courier.ExecutionID {
		h := k.Start()
		t := h.To(courier.Queued)
		t.Delay, t.Failure = long, &courier.Failure{Reason: courier.ReasonError, Message: "why"}
		h.Must(t)
		return h.ID()
	},
	"running": func(k *kit) courier.ExecutionID { return k.Start().ID() },
	"expired": func(k *kit) courier.ExecutionID { return k.Lose(0).ID() },
	"pausing": func(k *kit) courier.ExecutionID {
		h := k.Start()
		k.Ask(h.ID(), courier.RequestPause)
		return h.ID()
	},
	"cancelling": func(k *kit) courier.ExecutionID {
		h := k.Start()
		k.Ask(h.ID(), courier.RequestCancel)
		return h.ID()
	},
	"expired, pausing":    func(k *kit) courier.ExecutionID { return k.requested(courier.RequestPause).ID() },
	"expired, cancelling": func(k *kit) courier.ExecutionID { return k.requested(courier.RequestCancel).ID() },
	"paused":              func(k *kit) courier.ExecutionID { return k.left(courier.Paused) },
	"failed":              func(k *kit) courier.ExecutionID { return k.left(courier.Failed) },
	"completed":           func(k *kit) courier.ExecutionID { return k.left(courier.Completed) },
	"cancelled":           func(k *kit) courier.ExecutionID { return k.left(courier.Cancelled) },
}

func (k *kit) left(to courier.State) courier.ExecutionID {
	h := k.Start()
	h.Must(h.To(to))
	return h.ID()
}

// table checks a row of the table of [store.Decide]: what becomes of each
// request. Empty is a TransitionError, "withdrawn" no request afterwards, a
// request's name that request, and anything else the state.
func (k *kit) table(row, pause, resume, cancel, release string) {
	k.Helper()
	k.Limit("", "0")
	for kind, want := range map[courier.RequestKind]string{
		courier.RequestPause: pause, courier.RequestResume: resume,
		courier.RequestCancel: cancel, courier.RequestRelease: release,
	} {
		what := fmt.Sprintf("%s of a %s one", kind, row)
		id := tables[row](k)
		if want == "" {
			k.Unchanged(what, id, func() {
				state := k.Get(id).State
				_, err := k.Request(k.Ctx(), store.Request{Execution: id, Kind: kind, By: "bob"})
				var refused *courier.TransitionError
				if !errors.As(err, &refused) || refused.From != state || refused.Execution != id {
					k.Errorf("%s: error %v, want a TransitionError from %s", what, err, state)
				}
			})
			continue
		}
		x := k.Ask(id, kind)
		k.Same(what+": as returned and as stored", k.Get(id), x)
		switch want {
		case "withdrawn":
			k.Same(what, []string{string(x.State), string(x.Request)}, []string{"running", ""})
		case "pause", "cancel":
			k.Same(what, []string{string(x.State), string(x.Request)}, []string{"running", want})
		default:
			k.Same(what, []string{string(x.State), string(x.Request)}, []string{want, ""})
		}
	}
}
