package storetest

import (
	"errors"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

var guardCases = []testCase{
	{"check_comes_first", func(k *kit) {
		h := k.start()
		bad := h.to(courier.Created)
		bad.Lease = "another"
		var move *courier.TransitionError
		if err := h.try(bad); !errors.As(err, &move) {
			k.Errorf("illegal move: error %v, want a TransitionError", err)
		}
		bad = h.to(courier.Running)
		bad.Execution = "00000000-0000-7000-8000-000000000000"
		k.is("nothing to write", k.Apply(k.ctx(), bad), courier.ErrInvalid)
		bad = h.begin(0)
		bad.To = courier.Completed
		k.is("a start at the end", h.try(bad), courier.ErrInvalid)
		bad = h.finish(0)
		bad.Ended[0].State = courier.StepRunning
		k.is("ended as running", h.try(bad), courier.ErrInvalid)
		k.same("audit", moves(k.audit(h.id())), ">queued queued>running")
	}},
	{"unknown_execution", func(k *kit) {
		h := k.start()
		t := h.begin(0)
		t.Execution = "00000000-0000-7000-8000-000000000000"
		k.is("unknown execution", k.Apply(k.ctx(), t), courier.ErrNotFound)
	}},
	{"wrong_token", func(k *kit) {
		h, other := k.start(), k.start()
		for _, token := range []store.Token{"", "0", "~", other.Token, h.Token + "x", h.Token[1:], h.Token[:len(h.Token)-1]} {
			t := h.begin(0)
			t.Lease = token
			k.unwritten(fmt.Sprintf("token %q", token), h, t, courier.ErrLeaseLost)
		}
	}},
	{"never_claimed", func(k *kit) {
		id := k.add(k.new())[0].ID
		for _, token := range []store.Token{"", "x"} {
			s := step(0)
			err := k.Apply(k.ctx(), store.Transition{Execution: id, Lease: token, Seq: 2, To: courier.Running, Start: &s})
			k.is("a transition without a claim", err, courier.ErrLeaseLost)
		}
	}},
	{"repeated_is_written_once", func(k *kit) {
		h := k.start()
		first, second := h.begin(0), store.Transition{}
		h.must(first)
		second = h.next(0, 1)
		h.must(second)
		k.unwritten("the last one again", h, second, nil)
		k.unwritten("the first one again", h, first, nil)
		h.must(h.next(1, 2))
	}},
	{"repeated_after_the_end", func(k *kit) {
		for _, to := range []courier.State{courier.Completed, courier.Failed, courier.Cancelled, courier.Paused, courier.Queued} {
			h := k.start()
			h.must(h.begin(0))
			t := h.to(to)
			t.Delay, t.Ended = long, []courier.StepExecution{ended(0)}
			h.must(t)
			k.unwritten("repeated when "+string(to), h, t, nil)
		}
	}},
	{"repeated_after_an_operator_resumed", func(k *kit) {
		h := k.start()
		t := h.to(courier.Failed)
		h.must(t)
		k.ask(h.id(), courier.RequestResume)
		k.unwritten("repeated", h, t, nil)
		more := h.to(courier.Failed)
		more.Seq++ // the number of the operator's entry
		k.unwritten("the number of the resume", h, more, courier.ErrLeaseLost)
		more.Seq++
		k.unwritten("the number after it", h, more, courier.ErrLeaseLost)
	}},
	{"repeated_after_the_next_claim", func(k *kit) {
		h := k.start()
		t := h.to(courier.Queued)
		h.must(t)
		k.again(h.id())
		k.unwritten("repeated", h, t, courier.ErrLeaseLost)
	}},
	{"repeated_with_other_content", func(k *kit) {
		h := k.start()
		h.must(h.begin(0))
		t := h.to(courier.Failed)
		t.Seq = 3
		k.unwritten("another transition of the same number", h, t, nil)
	}},
	{"repeated_within_several_entries", func(k *kit) {
		h := k.start()
		h.must(h.begin(0))
		h.must(h.next(0, 1)) // entries 4 and 5
		for seq := int64(3); seq <= 5; seq++ {
			t := h.finish(1)
			t.Seq = seq
			k.unwritten(fmt.Sprint("number ", seq), h, t, nil)
		}
	}},
	{"number_before_the_lease", func(k *kit) {
		h := k.start()
		h.must(h.begin(0))
		for seq := int64(-1); seq <= 2; seq++ {
			t := h.finish(0)
			t.Seq = seq
			k.unwritten(fmt.Sprint("number ", seq), h, t, courier.ErrLeaseLost)
		}
	}},
	{"number_too_high", func(k *kit) {
		h := k.start()
		for _, more := range []int64{1, 2, 100} {
			t := h.begin(0)
			t.Seq += more
			k.unwritten(fmt.Sprint(more, " too high"), h, t, courier.ErrLeaseLost)
		}
	}},
	{"late_after_the_end", func(k *kit) {
		for _, to := range []courier.State{courier.Completed, courier.Failed, courier.Cancelled, courier.Paused, courier.Queued} {
			h := k.start()
			h.must(h.to(to))
			k.unwritten("a start when "+string(to), h, h.begin(0), courier.ErrLeaseLost)
			k.unwritten("a completion when "+string(to), h, h.to(courier.Completed), courier.ErrLeaseLost)
		}
	}},
	{"late_after_a_reclaim", func(k *kit) {
		h := k.lose(0)
		again := k.again(h.id())
		for seq := int64(1); seq <= again.seq+1; seq++ {
			t := h.next(0, 1)
			t.Seq = seq
			k.unwritten(fmt.Sprint("number ", seq), h, t, courier.ErrLeaseLost)
		}
		t := again.begin(1)
		t.Interrupt = true
		again.must(t)
	}},
	{"late_after_an_operator_moved_it", func(k *kit) {
		for _, kind := range []courier.RequestKind{courier.RequestPause, courier.RequestCancel} {
			h := k.lose(0)
			k.ask(h.id(), kind)
			for seq := h.seq + 1; seq <= h.seq+3; seq++ {
				t := h.next(0, 1)
				t.Seq = seq
				k.unwritten(fmt.Sprint("number ", seq), h, t, courier.ErrLeaseLost)
			}
		}
	}},
	{"late_while_queued_again", func(k *kit) {
		h := k.lose()
		k.ask(h.id(), courier.RequestPause)
		k.ask(h.id(), courier.RequestResume)
		for seq := h.seq + 1; seq <= h.seq+3; seq++ {
			t := h.begin(0)
			t.Seq = seq
			k.unwritten(fmt.Sprint("number ", seq), h, t, courier.ErrLeaseLost)
		}
	}},
	{"pause_admits_only_its_answer", func(k *kit) {
		k.answers(courier.RequestPause, map[courier.State]bool{
			courier.Paused: true, courier.Completed: true, courier.Failed: true, courier.Cancelled: true,
		})
	}},
	{"cancel_admits_only_its_answer", func(k *kit) {
		k.answers(courier.RequestCancel, map[courier.State]bool{courier.Cancelled: true})
	}},
	{"answer_to_a_withdrawn_request_is_refused", func(k *kit) {
		h := k.start()
		k.ask(h.id(), courier.RequestPause)
		k.ask(h.id(), courier.RequestResume) // withdraws it
		t := h.to(courier.Paused)
		t.Request = courier.RequestPause
		var refused *store.RequestedError
		if err := h.try(t); !errors.As(err, &refused) || refused.Kind != "" || !errors.Is(err, courier.ErrConflict) {
			k.Errorf("a pause that was withdrawn: error %v, want a RequestedError without a kind", err)
		}
		k.same("state", k.get(h.id()).State, courier.Running)
		k.ask(h.id(), courier.RequestPause)
		h.must(t)
	}},
	{"withdrawn_request_admits_everything", func(k *kit) {
		h := k.start()
		k.ask(h.id(), courier.RequestPause)
		k.is("a start", h.try(h.begin(0)), courier.ErrConflict)
		k.ask(h.id(), courier.RequestResume)
		h.must(h.begin(0))
	}},
	{"number_before_request", func(k *kit) {
		h := k.start()
		first := h.begin(0)
		h.must(first)
		k.ask(h.id(), courier.RequestCancel)
		k.unwritten("repeated", h, first, nil)
		t := h.next(0, 1)
		t.Seq += 5
		k.unwritten("a wrong number", h, t, courier.ErrLeaseLost)
		t = h.next(0, 1)
		t.Lease = "x"
		k.unwritten("a wrong token", h, t, courier.ErrLeaseLost)
	}},
	{"refused_changes_nothing", func(k *kit) {
		h := k.start()
		h.must(h.begin(0))
		h.must(h.next(0, 1))
		k.ask(h.id(), courier.RequestCancel)
		full := h.to(courier.Queued)
		full.Ended, full.Interrupt, full.RetryJob = []courier.StepExecution{ended(1), ended(2)}, true, true
		full.Position.Step, full.Counters, full.Delay = 9, store.Counters{Attempts: 9}, long
		full.Failure, full.Workspace, full.DiskBytes = &courier.Failure{Message: "x"}, "there", 5
		k.unwritten("requested", h, full, courier.ErrConflict)
		t := full
		t.Lease = "x"
		k.unwritten("wrong token", h, t, courier.ErrLeaseLost)
		t = full
		t.Seq++
		k.unwritten("wrong number", h, t, courier.ErrLeaseLost)
		t = full
		t.Seq = 3
		k.unwritten("repeated", h, t, nil)
		t = full
		t.To = courier.Created
		k.unwritten("illegal", h, t, courier.ErrConflict)
		h.must(h.finish(1))
	}},
}

// unwritten applies t, which must have the wanted error and change nothing.
func (k *kit) unwritten(what string, h *holder, t store.Transition, want error) {
	k.Helper()
	k.unchanged(what, h.id(), func() {
		k.is(what, k.Apply(k.ctx(), t), want)
	})
}

// answers checks which transitions a pending request lets pass: progress that
// starts nothing, and those to the given states.
func (k *kit) answers(kind courier.RequestKind, pass map[courier.State]bool) {
	k.Helper()
	for _, to := range []courier.State{courier.Completed, courier.Failed, courier.Cancelled, courier.Paused, courier.Queued} {
		h := k.start()
		h.must(h.begin(0))
		k.ask(h.id(), kind)
		for _, t := range []store.Transition{h.next(0, 1), h.begin(1)} {
			k.requestedIs(kind, h, t)
		}
		h.must(h.finish(0))
		if t := h.to(to); pass[to] {
			h.must(t)
			k.same("request afterwards", k.get(h.id()).Request, "")
		} else {
			k.requestedIs(kind, h, t)
		}
	}
}

// requestedIs applies t, which must be refused because of a request by ann.
func (k *kit) requestedIs(kind courier.RequestKind, h *holder, t store.Transition) {
	k.Helper()
	k.unchanged("a refused transition", h.id(), func() {
		err := h.try(t)
		k.is("refused", err, courier.ErrConflict)
		var r *store.RequestedError
		if !errors.As(err, &r) || r.Kind != kind || r.By != "ann" {
			k.Errorf("error %v, want a RequestedError of a %s by ann", err, kind)
		}
	})
}
