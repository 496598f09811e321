package coordination

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

var everyEvent = []courier.EventType{
	courier.EventJobStarted, courier.EventJobCompleted, courier.EventJobFailed, courier.EventJobPaused, courier.EventJobResumed, courier.EventJobCancelled,
	courier.EventJobTakenOver,
	courier.EventStepStarted, courier.EventStepCompleted, courier.EventStepFailed, courier.EventStepSkipped,
}

func hasOutbox(s store.Store) bool {
	_, ok := s.(notify.Store)
	return ok
}

func (k *kit) outbox() notify.Store { return k.Store.(notify.Store) }

// subscription is one that has the channel of k.takes.
func (k *kit) subscription(name string, events ...courier.EventType) notify.Record {
	return notify.Record{Name: name, Channel: "func:test", Events: events, Body: json.RawMessage(`{"name":  "` + name + `"}`)}
}

func (k *kit) subscribe(name string, events ...courier.EventType) {
	k.Helper()
	k.OK(k.outbox().PutSubscription(k.Ctx(), k.subscription(name, events...)))
}

// subscriptions reports others than the wanted ones.
func (k *kit) subscriptions(what string, want ...notify.Record) {
	k.Helper()
	got, err := k.outbox().Subscriptions(k.Ctx(), notify.Filter{})
	k.OK(err)
	for i := range got {
		if got[i].DisabledAt.IsZero() == got[i].Disabled {
			k.Errorf("%s: %s is disabled (%t) since %v", what, got[i].Name, got[i].Disabled, got[i].DisabledAt)
		}
		got[i].DisabledAt = time.Time{} // of the store
	}
	for _, list := range [][]notify.Record{got, want} {
		for i := range list {
			list[i].Expectations = append([]string{}, list[i].Expectations...)
			list[i].Jobs, list[i].Chains = append([]string{}, list[i].Jobs...), append([]string{}, list[i].Chains...)
		}
	}
	k.Same(what, got, want)
}

// takes is a request for all that there is.
func (k *kit) takes() notify.DueRequest {
	return notify.DueRequest{Channels: []string{"webhook", "func:test"}, Max: 1000, Each: 1000, Lease: long}
}

func (k *kit) take(r notify.DueRequest) notify.DueList {
	k.Helper()
	got, err := k.outbox().DueDeliveries(k.Ctx(), r)
	k.OK(err)
	return got
}

// taken takes all that there is, but for what change leaves out.
func (k *kit) taken(change func(*notify.DueRequest)) []notify.Due {
	k.Helper()
	r := k.takes()
	if change != nil {
		change(&r)
	}
	return k.take(r).List
}

func outcome(d notify.Due, v notify.Result) notify.Outcome {
	return notify.Outcome{Subscription: d.Notification.Subscription, Event: d.Notification.ID, Token: d.Token, Result: v}
}

func (k *kit) settle(d notify.Due, v notify.Result) {
	k.Helper()
	k.OK(k.outbox().RecordDeliveries(k.Ctx(), []notify.Outcome{outcome(d, v)}))
}

func (k *kit) deliveries(state notify.DeliveryState) []notify.Delivery {
	k.Helper()
	list, err := k.outbox().Deliveries(k.Ctx(), notify.DeliveryFilter{State: state})
	k.OK(err)
	return list
}

// complete runs an execution of job "job" without steps.
func (k *kit) complete() courier.ExecutionID {
	k.Helper()
	h := k.Start()
	h.Must(h.To(courier.Completed))
	return h.ID()
}

// endMany ends so many attempts in one transition.
func (k *kit) endMany(count int, state courier.StepState, err string) {
	k.Helper()
	h := k.Start()
	t := h.To(courier.Running)
	for i := range count {
		s := storekit.Step(i)
		s.State, s.Error = state, err
		t.Ended = append(t.Ended, s)
	}
	h.Must(t)
}

// events takes all there is and reports others than the wanted ones of an
// execution, in the order of the audit.
func (k *kit) events(what string, id courier.ExecutionID, want ...courier.EventType) {
	k.Helper()
	list := notifications(k.taken(nil))
	var got []courier.EventType
	for i := range list {
		if list[i].Execution == id {
			got = append(got, list[i].Type)
		}
	}
	k.Same(what, got, want)
}

// notifications are those of deliveries, in the order of the audit.
func notifications(list []notify.Due) []notify.Notification {
	var all []notify.Notification
	for i := range list {
		all = append(all, list[i].Notification)
	}
	slices.SortStableFunc(all, func(a, b notify.Notification) int {
		if a.Execution != b.Execution {
			return strings.Compare(string(a.Execution), string(b.Execution))
		}
		return int(a.Seq - b.Seq)
	})
	return all
}

// ids are the executions of deliveries.
func ids(list []notify.Due) []courier.ExecutionID {
	var all []courier.ExecutionID
	for i := range list {
		all = append(all, list[i].Notification.Execution)
	}
	return all
}
