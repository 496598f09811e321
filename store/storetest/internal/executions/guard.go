package executions

import (
	"errors"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

var guardCases = []testCase{
	// First, everything that Transition.Check refuses.
	{"check_comes_first", func(k *kit) {
		h := k.Start()
		bad := h.To(courier.Created)
		bad.Lease = "another"
		var move *courier.TransitionError
		if err := h.Try(bad); !errors.As(err, &move) {
			k.Errorf("illegal move: error %v, want a TransitionError", err)
		}
		bad = h.To(courier.Running)
		bad.Execution = "00000000-0000-7000-8000-000000000000"
		k.Is("nothing to write", k.Apply(k.Ctx(), bad), courier.ErrInvalid)
		bad = h.Begin(0)
		bad.To = courier.Completed
		k.Is("a start at the end", h.Try(bad), courier.ErrInvalid)
		bad = h.Finish(0)
		bad.Ended[0].State = courier.StepRunning
		k.Is("ended as running", h.Try(bad), courier.ErrInvalid)
		k.Same("audit", storekit.Moves(k.AuditOf(h.ID())), ">queued queued>running")
	}},
	{"unknown_execution", func(k *kit) {
		h := k.Start()
		t := h.Begin(0)
		t.Execution = "00000000-0000-7000-8000-000000000000"
		k.Is("unknown execution", k.Apply(k.Ctx(), t), courier.ErrNotFound)
	}},
	// Then another token than that of the present or last lease: ErrLeaseLost.
	{"wrong_token", func(k *kit) {
		h, other := k.Start(), k.Start()
		for _, token := range []store.Token{"", "0", "~", other.Token, h.Token + "x", h.Token[1:], h.Token[:len(h.Token)-1]} {
			t := h.Begin(0)
			t.Lease = token
			k.unwritten(fmt.Sprintf("token %q", token), h, t, courier.ErrLeaseLost)
		}
	}},
	{"never_claimed", func(k *kit) {
		id := k.Add(k.New())[0].ID
		for _, token := range []store.Token{"", "x"} {
			s := storekit.Step(0)
			err := k.Apply(k.Ctx(), store.Transition{Execution: id, Lease: token, Seq: 2, To: courier.Running, Start: &s})
			k.Is("a transition without a claim", err, courier.ErrLeaseLost)
		}
	}},
	// A number written under the lease is nil and changes nothing.
	{"repeated_is_written_once", func(k *kit) {
		h := k.Start()
		first, second := h.Begin(0), store.Transition{}
		h.Must(first)
		second = h.Next(0, 1)
		h.Must(second)
		k.unwritten("the last one again", h, second, nil)
		k.unwritten("the first one again", h, first, nil)
		h.Must(h.Next(1, 2))
	}},
	// After the transition ended the lease.
	{"repeated_after_the_end", func(k *kit) {
		for _, to := range []courier.State{courier.Completed, courier.Failed, courier.Cancelled, courier.Paused, courier.Queued} {
			h := k.Start()
			h.Must(h.Begin(0))
			t := h.To(to)
			t.Delay, t.Ended = long, []courier.StepExecution{storekit.Ended(0)}
			h.Must(t)
			k.unwritten("repeated when "+string(to), h, t, nil)
		}
	}},
	// After an operator resumed it; the operator's own number is ErrLeaseLost.
	{"repeated_after_an_operator_resumed", func(k *kit) {
		h := k.Start()
		t := h.To(courier.Failed)
		h.Must(t)
		k.Ask(h.ID(), courier.RequestResume)
		k.unwritten("repeated", h, t, nil)
		more := h.To(courier.Failed)
		more.Seq++ // the number of the operator's entry
		k.unwritten("the number of the resume", h, more, courier.ErrLeaseLost)
		more.Seq++
		k.unwritten("the number after it", h, more, courier.ErrLeaseLost)
	}},
	{"repeated_after_the_next_claim", func(k *kit) {
		h := k.Start()
		t := h.To(courier.Queued)
		h.Must(t)
		k.Again(h.ID())
		k.unwritten("repeated", h, t, courier.ErrLeaseLost)
	}},
	{"repeated_with_other_content", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		t := h.To(courier.Failed)
		t.Seq = 3
		k.unwritten("another transition of the same number", h, t, nil)
	}},
	{"repeated_within_several_entries", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		h.Must(h.Next(0, 1)) // entries 4 and 5
		for seq := int64(3); seq <= 5; seq++ {
			t := h.Finish(1)
			t.Seq = seq
			k.unwritten(fmt.Sprint("number ", seq), h, t, nil)
		}
	}},
	{"number_before_the_lease", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		for seq := int64(-1); seq <= 2; seq++ {
			t := h.Finish(0)
			t.Seq = seq
			k.unwritten(fmt.Sprint("number ", seq), h, t, courier.ErrLeaseLost)
		}
	}},
	// A number that skips some is ErrLeaseLost.
	{"number_too_high", func(k *kit) {
		h := k.Start()
		for _, more := range []int64{1, 2, 100} {
			t := h.Begin(0)
			t.Seq += more
			k.unwritten(fmt.Sprint(more, " too high"), h, t, courier.ErrLeaseLost)
		}
	}},
	// A write after the end of the lease is ErrLeaseLost.
	{"late_after_the_end", func(k *kit) {
		for _, to := range []courier.State{courier.Completed, courier.Failed, courier.Cancelled, courier.Paused, courier.Queued} {
			h := k.Start()
			h.Must(h.To(to))
			k.unwritten("a start when "+string(to), h, h.Begin(0), courier.ErrLeaseLost)
			k.unwritten("a completion when "+string(to), h, h.To(courier.Completed), courier.ErrLeaseLost)
		}
	}},
	// A write after a reclaim is ErrLeaseLost, whatever its number.
	{"late_after_a_reclaim", func(k *kit) {
		h := k.Lose(0)
		again := k.Again(h.ID())
		for seq := int64(1); seq <= again.Seq+1; seq++ {
			t := h.Next(0, 1)
			t.Seq = seq
			k.unwritten(fmt.Sprint("number ", seq), h, t, courier.ErrLeaseLost)
		}
		t := again.Begin(1)
		t.Interrupt = true
		again.Must(t)
	}},
	// A write after an operator moved an expired execution is ErrLeaseLost.
	{"late_after_an_operator_moved_it", func(k *kit) {
		for _, kind := range []courier.RequestKind{courier.RequestPause, courier.RequestCancel} {
			h := k.Lose(0)
			k.Ask(h.ID(), kind)
			for seq := h.Seq + 1; seq <= h.Seq+3; seq++ {
				t := h.Next(0, 1)
				t.Seq = seq
				k.unwritten(fmt.Sprint("number ", seq), h, t, courier.ErrLeaseLost)
			}
		}
	}},
	{"late_while_queued_again", func(k *kit) {
		h := k.Lose()
		k.Ask(h.ID(), courier.RequestPause)
		k.Ask(h.ID(), courier.RequestResume)
		for seq := h.Seq + 1; seq <= h.Seq+3; seq++ {
			t := h.Begin(0)
			t.Seq = seq
			k.unwritten(fmt.Sprint("number ", seq), h, t, courier.ErrLeaseLost)
		}
	}},
	// While a pause is pending, only its answer, an end, and progress that starts nothing are
	// written.
	{"pause_admits_only_its_answer", func(k *kit) {
		k.answers(courier.RequestPause, map[courier.State]bool{
			courier.Paused: true, courier.Completed: true, courier.Failed: true, courier.Cancelled: true,
		})
	}},
	// While a cancel is pending, only its answer, and progress that starts nothing are written.
	{"cancel_admits_only_its_answer", func(k *kit) {
		k.answers(courier.RequestCancel, map[courier.State]bool{courier.Cancelled: true})
	}},
	// A transition that carries out a request which is not pending any more is refused.
	{"answer_to_a_withdrawn_request_is_refused", func(k *kit) {
		h := k.Start()
		k.Ask(h.ID(), courier.RequestPause)
		k.Ask(h.ID(), courier.RequestResume) // withdraws it
		t := h.To(courier.Paused)
		t.Request = courier.RequestPause
		var refused *store.RequestedError
		if err := h.Try(t); !errors.As(err, &refused) || refused.Kind != "" || !errors.Is(err, courier.ErrConflict) {
			k.Errorf("a pause that was withdrawn: error %v, want a RequestedError without a kind", err)
		}
		k.Same("state", k.Get(h.ID()).State, courier.Running)
		k.Ask(h.ID(), courier.RequestPause)
		h.Must(t)
	}},
	{"withdrawn_request_admits_everything", func(k *kit) {
		h := k.Start()
		k.Ask(h.ID(), courier.RequestPause)
		k.Is("a start", h.Try(h.Begin(0)), courier.ErrConflict)
		k.Ask(h.ID(), courier.RequestResume)
		h.Must(h.Begin(0))
	}},
	{"number_before_request", func(k *kit) {
		h := k.Start()
		first := h.Begin(0)
		h.Must(first)
		k.Ask(h.ID(), courier.RequestCancel)
		k.unwritten("repeated", h, first, nil)
		t := h.Next(0, 1)
		t.Seq += 5
		k.unwritten("a wrong number", h, t, courier.ErrLeaseLost)
		t = h.Next(0, 1)
		t.Lease = "x"
		k.unwritten("a wrong token", h, t, courier.ErrLeaseLost)
	}},
	{"refused_changes_nothing", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		h.Must(h.Next(0, 1))
		k.Ask(h.ID(), courier.RequestCancel)
		full := h.To(courier.Queued)
		full.Ended, full.Interrupt, full.RetryJob = []courier.StepExecution{storekit.Ended(1), storekit.Ended(2)}, true, true
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
		h.Must(h.Finish(1))
	}},
}

// unwritten applies t, which must have the wanted error and change nothing.
func (k *kit) unwritten(what string, h *holder, t store.Transition, want error) {
	k.Helper()
	k.Unchanged(what, h.ID(), func() {
		k.Is(what, k.Apply(k.Ctx(), t), want)
	})
}

// answers checks which transitions a pending request lets pass: progress that
// starts nothing, and those to the given states.
func (k *kit) answers(kind courier.RequestKind, pass map[courier.State]bool) {
	k.Helper()
	for _, to := range []courier.State{courier.Completed, courier.Failed, courier.Cancelled, courier.Paused, courier.Queued} {
		h := k.Start()
		h.Must(h.Begin(0))
		k.Ask(h.ID(), kind)
		for _, t := range []store.Transition{h.Next(0, 1), h.Begin(1)} {
			k.requestedIs(kind, h, t)
		}
		h.Must(h.Finish(0))
		if t := h.To(to); pass[to] {
			h.Must(t)
			k.Same("request afterwards", k.Get(h.ID()).Request, "")
		} else {
			k.requestedIs(kind, h, t)
		}
	}
}

// requestedIs applies t, which must be refused because of a request by ann.
func (k *kit) requestedIs(kind courier.RequestKind, h *holder, t store.Transition) {
	k.Helper()
	k.Unchanged("a refused transition", h.ID(), func() {
		err := h.Try(t)
		k.Is("refused", err, courier.ErrConflict)
		var r *store.RequestedError
		if !errors.As(err, &r) || r.Kind != kind || r.By != "ann" {
			k.Errorf("error %v, want a RequestedError of a %s by ann", err, kind)
		}
	})
}
