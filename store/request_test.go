package store_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

func TestDecideChange(t *testing.T) {
	skip := func(state courier.StepState) *courier.StepExecution {
		return &courier.StepExecution{Step: 1, State: state}
	}
	for _, c := range []struct {
		what    string
		state   courier.State
		request courier.RequestKind // pending
		kind    courier.RequestKind
		change  store.Change
		want    error // nil: it becomes queued
	}{
		{"paused", courier.Paused, "", courier.RequestResume, store.Change{Seq: 5}, nil},
		{"failed, with a skipped step", courier.Failed, "", courier.RequestResume, store.Change{Seq: 5, Skipped: skip(courier.StepSkipped)}, nil},
		{"an earlier number", courier.Failed, "", courier.RequestResume, store.Change{Seq: 4}, courier.ErrConflict},
		{"a later number", courier.Failed, "", courier.RequestResume, store.Change{Seq: 6}, courier.ErrConflict},
		{"no number", courier.Failed, "", courier.RequestResume, store.Change{}, courier.ErrConflict},
		{"queued", courier.Queued, "", courier.RequestResume, store.Change{Seq: 5}, &courier.TransitionError{}},
		{"running", courier.Running, "", courier.RequestResume, store.Change{Seq: 5}, &courier.TransitionError{}},
		{"pausing", courier.Running, courier.RequestPause, courier.RequestResume, store.Change{Seq: 5}, &courier.TransitionError{}},
		{"completed", courier.Completed, "", courier.RequestResume, store.Change{Seq: 5}, &courier.TransitionError{}},
		{"a pause", courier.Queued, "", courier.RequestPause, store.Change{Seq: 5}, courier.ErrInvalid},
		{"a restart", courier.Failed, "", courier.RequestRestart, store.Change{Seq: 5}, courier.ErrInvalid},
		{"a completed step", courier.Failed, "", courier.RequestResume, store.Change{Seq: 5, Skipped: skip(courier.StepCompleted)}, courier.ErrInvalid},
		{"fewer items than none", courier.Failed, "", courier.RequestResume, store.Change{Seq: 5, Items: &store.ItemCount{Failed: -1}}, courier.ErrInvalid},
	} {
		x := &courier.Execution{ID: "x", State: c.state, Request: c.request, Workspace: "there", Seq: 5}
		r := store.Request{Execution: "x", Kind: c.kind, By: "ann", Change: &c.change}
		d, err := r.Decide(x, false)
		move, moved := errors.AsType[*courier.TransitionError](err)
		_, want := c.want.(*courier.TransitionError)
		switch {
		case c.want == nil && (err != nil || d.To != courier.Queued):
			t.Errorf("%s: %v, %v", c.what, d, err)
		case want && (!moved || move.From != c.state || move.To != courier.Queued):
			t.Errorf("%s: error %v, want a TransitionError", c.what, err)
		case c.want != nil && !want && (moved || !errors.Is(err, c.want)):
			t.Errorf("%s: error %v, want %v", c.what, err, c.want)
		case c.want != nil && d != (store.Decision{}):
			t.Errorf("%s: %v besides the error", c.what, d)
		}
	}
}

func TestRequestWithAChange(t *testing.T) {
	x := &courier.Execution{ID: "x", State: courier.Failed}
	r := store.Request{Execution: "x", Kind: courier.RequestResume, By: "ann", Reason: "why", Change: &store.Change{
		Skipped: &courier.StepExecution{Step: 2, ID: "get", Type: "a", Iteration: []int{1}, Attempt: 3, State: courier.StepSkipped, Bytes: 7, Reason: courier.ReasonError, Error: "odd"},
		Note:    "without it", Elsewhere: true,
	}}
	two := 2
	same(t, store.RequestEntries(x, courier.Queued, r), []courier.AuditEntry{
		{Execution: "x", Step: &two, ID: "get", Type: "a", Iteration: []int{1}, Attempt: 3, From: "pending", To: "skipped", Bytes: 7, Reason: courier.ReasonError, Error: "odd"},
		{Execution: "x", From: "failed", To: "queued", By: "ann", Reason: courier.ReasonWithoutFiles, Error: "why (without it)"},
	})
	old := store.Counters{Attempts: 2, Interrupted: true, Failures: 3, Base: 4, JobFailures: 5, AcceptedItems: 6, Target: 7, Reclaims: 8}
	for _, c := range []struct {
		change *store.Change
		want   store.Counters
	}{
		{nil, store.Counters{Attempts: 2, Interrupted: true, Base: 4, AcceptedItems: 6, Target: 7, Resumed: courier.Failed}},
		{&store.Change{Move: &store.Move{Attempts: 1, Base: 9}}, store.Counters{Attempts: 1, Base: 9, AcceptedItems: 6, Target: 7, Resumed: courier.Failed}},
		{&store.Change{Items: &store.ItemCount{Failed: 3, Accepted: 1, Target: 2}}, store.Counters{Attempts: 2, Interrupted: true, Base: 4, AcceptedItems: 1, Target: 2, Resumed: courier.Failed}},
	} {
		if got := c.change.Counters(old, courier.Failed); !reflect.DeepEqual(got, c.want) {
			t.Errorf("counters after %+v: %+v, want %+v", c.change, got, c.want)
		}
	}
	if got, want := old.NextAttempt(), (store.Counters{Attempts: 2, Interrupted: true, Failures: 3, Base: 4, JobFailures: 5, Reclaims: 8}); !reflect.DeepEqual(got, want) {
		t.Errorf("counters of the next attempt: %+v, want %+v", got, want)
	}
}

func TestNextRepairs(t *testing.T) {
	versions, passes := []courier.VersionChange{{Seq: 1, From: 1, To: 2}}, []courier.RepairPass{{Seq: 2}}
	r := &courier.Repairs{Versions: versions, Passes: passes}
	if got := store.NextRepairs(r); !reflect.DeepEqual(got, &courier.Repairs{Versions: versions}) || len(r.Passes) != 1 {
		t.Errorf("%+v leaves %+v", r, got)
	}
	for _, r := range []*courier.Repairs{nil, {}, {Passes: passes}} {
		if got := store.NextRepairs(r); got != nil {
			t.Errorf("%+v leaves %+v", r, got)
		}
	}
	if got := store.RepairsOrNil(&courier.Repairs{Passes: passes}); got == nil {
		t.Error("passes alone are something")
	}
}
