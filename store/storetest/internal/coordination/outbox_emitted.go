package coordination

import (
	"encoding/json"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

// emittedCases are about events that steps have emitted.
var emittedCases = []testCase{
	// Each event that a step has emitted leads to one delivery, numbered as OfStepEvents says.
	{"emitted_events_of_a_step", func(k *kit) {
		k.subscribe("sub", courier.EventStep, courier.EventStepCompleted)
		h := k.Start()
		t := h.Begin(0)
		t.Start.ID, t.Start.Iteration, t.Start.Total = "get", []int{2}, []int{3}
		h.Must(t)
		emitted := []courier.StepEvent{
			{Name: "row-read", Payload: json.RawMessage(`{"n":9007199254740993,"of":1.0,"name":"a\"b\\é"}`)},
			{Name: "row-read", Payload: json.RawMessage(`null`)}, {Name: "z", Payload: json.RawMessage(`["x",{"payload":[]}]`)},
		}
		var want []notify.Notification
		add := func(events []courier.StepEvent, s courier.StepExecution) {
			list := k.Records(h.ID())
			r := list[len(list)-1]
			r.Events = events
			x := k.Get(h.ID())
			k.Same("record", []any{r.Step, r.ID, r.Iteration}, []any{s.Step, s.ID, s.Iteration})
			want = append(want, notify.OfStepEvents(&x, &r)...)
		}
		// By itself, with the end of the execution, and with other attempts.
		next := h.To(courier.Running)
		next.Ended = []courier.StepExecution{{Step: 0, ID: "get", Type: "a", Iteration: []int{2}, Total: []int{3}, Attempt: 1, State: courier.StepCompleted, Events: emitted}}
		started := storekit.Step(1)
		next.Start = &started
		h.Must(next)
		add(emitted, next.Ended[0])
		next = h.To(courier.Completed)
		failed := storekit.Ended(5)
		failed.State = courier.StepFailed
		next.Ended = []courier.StepExecution{failed, storekit.Ended(1)}
		next.Ended[1].Events = emitted[1:]
		h.Must(next)
		add(emitted[1:], next.Ended[1])
		k.OK(k.Apply(k.Ctx(), next)) // repeated
		got := make(map[string]notify.Notification)
		completed := 0
		for _, d := range k.taken(nil) {
			if n := d.Notification; n.Type == courier.EventStep {
				n.Subscription = ""
				got[n.ID] = n
			} else {
				completed++
			}
		}
		k.Same("ends of steps", completed, 2)
		k.Same("events", len(got), len(want))
		for _, n := range want {
			k.Same("event "+n.ID, got[n.ID], n)
		}
		k.Same("deliveries", len(k.deliveries(notify.Pending)), len(want)+completed)
	}},
	{"emitted_events_of_another_job", func(k *kit) {
		s := k.subscription("sub", courier.EventStep)
		s.Jobs = []string{"other"}
		k.OK(k.outbox().PutSubscription(k.Ctx(), s))
		k.emit(1)
		k.Same("events", len(k.taken(nil)), 0)
	}},
	{"emitted_events_in_a_window", func(k *kit) {
		s := k.subscription("sub", courier.EventStep)
		s.Window = k.Unit
		k.OK(k.outbox().PutSubscription(k.Ctx(), s))
		k.emit(courier.MaxStepEvents)
		list := k.taken(nil)
		k.Same("deliveries", len(list), 1)
		n := list[0].Notification
		k.Same("that it stands for", n.Count, courier.MaxStepEvents)
		k.Same("payload", []string{n.Name, string(n.Payload)}, []string{"e", "0"})
	}},
}

// emit runs an execution of job "job" whose step emits so many events.
func (k *kit) emit(count int) {
	k.Helper()
	h := k.Start()
	h.Must(h.Begin(0))
	t := h.Finish(0)
	for i := range count {
		t.Ended[0].Events = append(t.Ended[0].Events, courier.StepEvent{Name: "e", Payload: json.RawMessage(fmt.Sprint(i))})
	}
	h.Must(t)
}
