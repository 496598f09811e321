package storekit

import (
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A Holder is a worker's lease of one execution, with the result of the claim.
type Holder struct {
	k *Kit
	store.Claimed
	Seq int64 // the last audit entry that the worker knows
}

// Holder returns the holder of an execution that was just claimed.
func (k *Kit) Holder(c store.Claimed) *Holder { return &Holder{k, c, c.Seq} }

// Hold claims one execution for as long as a lease lasts.
func (k *Kit) Hold(id courier.ExecutionID, lease time.Duration) *Holder {
	k.Helper()
	return k.HoldBy(k.ClaimRequest(1).Worker, id, lease)
}

// HoldBy is Hold for a worker.
func (k *Kit) HoldBy(worker string, id courier.ExecutionID, lease time.Duration) *Holder {
	k.Helper()
	r := k.ClaimRequest(1)
	r.Worker, r.Only, r.Lease = worker, []courier.ExecutionID{id}, lease
	list := k.MustClaim(r)
	if len(list) != 1 {
		k.Fatalf("execution %s could not be claimed: %s", id, Text(k.Get(id)))
	}
	return k.Holder(list[0])
}

// Start creates an execution and claims it.
func (k *Kit) Start() *Holder {
	k.Helper()
	return k.Hold(k.Add(k.New())[0].ID, Long)
}

// Lose creates an execution and claims it with a lease that has expired when
// Lose returns. If steps are given, the worker starts and ends them in turn,
// all but the last, which it is executing when it is lost.
func (k *Kit) Lose(steps ...int) *Holder {
	k.Helper()
	h := k.Hold(k.Add(k.New())[0].ID, k.Unit)
	for i, s := range steps {
		if i > 0 {
			h.Must(h.Next(steps[i-1], s))
		} else {
			h.Must(h.Begin(s))
		}
	}
	k.Pass(2 * k.Unit)
	return h
}

// Again claims an execution whose lease has expired, by another worker.
func (k *Kit) Again(id courier.ExecutionID) *Holder {
	k.Helper()
	return k.HoldBy("another worker", id, Long)
}

// ID is the execution that is held.
func (h *Holder) ID() courier.ExecutionID { return h.Execution.ID }

// To is a transition to a state that does nothing else.
func (h *Holder) To(s courier.State) store.Transition {
	return store.Transition{Execution: h.ID(), Lease: h.Token, Seq: h.Seq + 1, To: s}
}

// Step is an attempt of a step.
func Step(i int) courier.StepExecution {
	return courier.StepExecution{Step: i, Type: "a", Attempt: 1}
}

// Ended is an attempt that was completed.
func Ended(i int) courier.StepExecution {
	s := Step(i)
	s.State = courier.StepCompleted
	return s
}

// Begin is the transition that starts a step.
func (h *Holder) Begin(i int) store.Transition {
	t := h.To(courier.Running)
	s := Step(i)
	t.Start, t.Position.Step = &s, i
	return t
}

// Finish is the transition that ends the present step.
func (h *Holder) Finish(i int) store.Transition {
	t := h.To(courier.Running)
	t.Ended, t.Position.Step = []courier.StepExecution{Ended(i)}, i+1
	return t
}

// Next is the transition that ends the present step and starts another.
func (h *Holder) Next(i, j int) store.Transition {
	t := h.Begin(j)
	t.Ended = []courier.StepExecution{Ended(i)}
	return t
}

// Try applies t and counts its entries if it was written.
func (h *Holder) Try(t store.Transition) error {
	h.k.Helper()
	before := h.k.Get(h.ID())
	err := h.k.Apply(h.k.Ctx(), t)
	if err == nil && t.Seq == h.Seq+1 {
		h.Seq += int64(len(t.Entries(before.Current, "")))
	}
	return err
}

// Must applies t, which must be possible.
func (h *Holder) Must(t store.Transition) {
	h.k.Helper()
	h.k.OK(h.Try(t))
}

// End ends the execution that is held, as a member of its chain.
func (h *Holder) End(to courier.State) {
	h.k.Helper()
	t := h.To(to)
	t.Chain = h.Execution.Chain
	if to == courier.Failed {
		t.Failure = &courier.Failure{Step: 0, Reason: courier.ReasonError, Message: "boom"}
	}
	h.Must(t)
}

// EndNow ends an execution, from any goroutine.
func (h *Holder) EndNow(to courier.State) error {
	t := h.To(to)
	if to == courier.Failed {
		t.Failure = &courier.Failure{Message: "boom"}
	}
	if err := h.k.Apply(h.k.Ctx(), t); err != nil {
		return fmt.Errorf("end %s: %w", h.ID(), err)
	}
	return nil
}
