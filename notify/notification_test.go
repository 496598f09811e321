package notify_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
)

const execution = courier.ExecutionID("0190a1b2-0000-7000-8000-000000000001")

// TestJSON: notifications and deliveries have iteration_index, and can be read again.
func TestJSON(t *testing.T) {
	step := 2
	for _, tt := range []struct {
		step      *int
		iteration []int
		want      any
	}{{&step, []int{4, 0}, 0.0}, {&step, []int{17}, 17.0}, {&step, nil, nil}, {nil, nil, "absent"}} {
		n := notify.Notification{ID: "id", Step: tt.step, Iteration: tt.iteration, Count: 2, Bytes: 5}
		d := notify.Delivery{Notification: n, State: notify.Failed, Attempts: 3, DueAt: time.Unix(9, 0).UTC(), LastErr: "why"}
		for _, v := range []any{n, &n, d} {
			raw, err := json.Marshal(v)
			fields := map[string]any{"iteration_index": "absent"}
			if err := errors.Join(err, json.Unmarshal(raw, &fields)); err != nil {
				t.Fatal(err)
			}
			if got := fields["iteration_index"]; got != tt.want {
				t.Errorf("%T, iteration %v: iteration_index is %v, want %v", v, tt.iteration, got, tt.want)
			}
		}
		var again notify.Delivery
		if raw, err := json.Marshal(d); err != nil || json.Unmarshal(raw, &again) != nil || !reflect.DeepEqual(again, d) {
			t.Errorf("read again: %+v of %s, %v", again, raw, err)
		}
	}
}

// TestEventIDs: the numbers of all events of an execution differ, and their ids can be
// parsed.
func TestEventIDs(t *testing.T) {
	x := &courier.Execution{ID: execution, Job: "a", Version: 3, Failure: &courier.Failure{Step: 4, ID: "up", Attempt: 2}}
	entry, ok := notify.OfEntry(x, &courier.AuditEntry{Execution: execution, Seq: 7, From: "running", To: "failed", Error: "it broke"}, false)
	if !ok || entry.Type != courier.EventJobFailed || *entry.Step != 4 || entry.StepID != "up" || entry.StepAttempt != 2 || entry.Error != "it broke" || entry.Version != 3 {
		t.Errorf("of the entry: %+v, %v", entry, ok)
	}
	if n, ok := notify.OfEntry(x, &courier.AuditEntry{Execution: execution, Seq: 8, To: "created"}, false); ok {
		t.Errorf("the creation is no event: %+v", n)
	}
	events := make([]courier.StepEvent, courier.MaxStepEvents)
	list := []notify.Notification{
		entry,
		notify.OfOverdue(&store.OverdueExecution{Execution: execution, Reason: courier.ReasonMaxDuration}, time.Now()),
		notify.OfOverdue(&store.OverdueExecution{Execution: execution, Reason: courier.ReasonExpectedBy}, time.Now()),
	}
	for seq := range int64(3) {
		emitted := notify.OfStepEvents(x, &courier.StepExecution{Seq: seq + 1, Events: events})
		for i := 1; i < len(emitted); i++ {
			if emitted[i].Seq <= emitted[i-1].Seq {
				t.Fatalf("event %d has the number %d, and the one before %d", i, emitted[i].Seq, emitted[i-1].Seq)
			}
		}
		list = append(list, emitted...)
	}
	seen := make(map[string]bool)
	for _, n := range list {
		if id, seq, err := notify.ParseEventID(n.ID); err != nil || id != execution || seq != n.Seq || seen[n.ID] {
			t.Errorf("%s: %s, %d, %v; seen %v", n.ID, id, seq, err, seen[n.ID])
		}
		seen[n.ID] = true
	}
	for _, id := range []string{"", "x.y", string(execution), string(execution) + "-0", string(execution) + "-x", "1-1"} {
		if _, _, err := notify.ParseEventID(id); !errors.Is(err, courier.ErrInvalid) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// TestOfChain checks that the notification of a chain's event names the chain execution, and
// nothing of a job.
func TestOfChain(t *testing.T) {
	e := courier.Event{Type: courier.EventChainFailed, ChainExecution: courier.ChainExecutionID(execution), Chain: "night", Version: 3, Error: "it broke"}
	n := notify.OfChain(e, 2, time.Now())
	if n.Type != e.Type || n.Chain != "night" || n.Version != 3 || n.Error != "it broke" || n.Seq != 2 || n.ChainExecution != execution || n.Job != "" || n.Execution != "" || n.Count != 1 {
		t.Errorf("%+v", n)
	}
	if id, seq, err := notify.ParseEventID(n.ID); err != nil || id != execution || seq != 2 {
		t.Errorf("its id %q is that of %s, %d", n.ID, id, seq)
	}
}

// TestCoalesce: a notification counts all others and names the first 50, with the beginning
// of their errors.
func TestCoalesce(t *testing.T) {
	n := notify.Notification{ID: "first", Count: 1}
	others := make([]notify.Notification, 60)
	for i := range others {
		others[i] = notify.Notification{ID: "other", Execution: execution, Count: 1, Error: strings.Repeat("ä", 300)}
	}
	n.Coalesce(others)
	if n.Count != 61 || len(n.Coalesced) != notify.MaxCoalesced || n.Coalesced[0].Error != strings.Repeat("ä", notify.MaxCoalescedError) || n.Coalesced[0].Execution != execution {
		t.Errorf("%d events, %d of them named: %+v", n.Count, len(n.Coalesced), n.Coalesced[:1])
	}
}

// TestWants: a subscription without names wants the events of all jobs and chains.
func TestWants(t *testing.T) {
	failed := []courier.EventType{courier.EventJobFailed}
	for _, tt := range []struct {
		r          notify.Record
		job, chain string
		want       bool
	}{
		{notify.Record{Events: failed}, "a", "", true},
		{notify.Record{Events: failed, Disabled: true}, "a", "", false},
		{notify.Record{Events: failed, Jobs: []string{"b"}}, "a", "", false},
		{notify.Record{Events: failed, Chains: []string{"night"}}, "a", "night", true},
		{notify.Record{Events: failed, Chains: []string{"night"}}, "a", "", false},
	} {
		if got := tt.r.Wants(courier.EventJobFailed, tt.job, tt.chain); got != tt.want {
			t.Errorf("%+v wants the failure of %q in %q: %v", tt.r, tt.job, tt.chain, got)
		}
		if tt.r.Wants(courier.EventJobPaused, tt.job, tt.chain) {
			t.Errorf("%+v wants a type that it does not name", tt.r)
		}
	}
}
