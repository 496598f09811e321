package advice_test

import (
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/advice"
)

// TestStatus checks that the status of an execution that does not go on names what it waits
// for, and that every other one is the status alone.
func TestStatus(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	lost := courier.Execution{State: courier.Running, Queue: "night", Worker: "w", LeaseExpiresAt: now.Add(-time.Minute)}
	queued := courier.Execution{State: courier.Queued, Queue: "night"}
	with := func(x courier.Execution, workspace string) courier.Execution {
		x.Workspace = workspace
		return x
	}
	for _, test := range []struct {
		x    courier.Execution
		want []string // the beginning, and parts
	}{
		{lost, []string{`lost: the lease of worker "w" ended at 2026-11-24T11:59:00Z`, `the queue "night"`}},
		{with(lost, "tree"), []string{"lost: ", `the workspace "tree"`, "Resume it with Elsewhere"}},
		{queued, []string{"queued: it waits for an engine", `serves the queue "night"`, "room under a limit"}},
		{with(queued, "tree"), []string{"queued: ", `the workspace "tree"`, "Pause it, and Resume it with Elsewhere"}},
		{courier.Execution{State: courier.Queued, DueAt: now.Add(time.Hour)}, []string{"scheduled"}},
		{courier.Execution{State: courier.Running, LeaseExpiresAt: now.Add(time.Second), Request: courier.RequestPause}, []string{"pausing"}},
		{courier.Execution{State: courier.Completed}, []string{"completed"}},
	} {
		got := advice.Status(&test.x, now)
		if !strings.HasPrefix(got, test.want[0]) || len(test.want) == 1 && got != test.want[0] {
			t.Errorf("%q does not begin with %q", got, test.want[0])
		}
		for _, part := range test.want[1:] {
			if !strings.Contains(got, part) {
				t.Errorf("%q does not say %q", got, part)
			}
		}
	}
}

// TestShort checks that a cause keeps nothing that belongs to others.
func TestShort(t *testing.T) {
	for _, kind := range []advice.Kind{
		advice.Held, advice.Paused, advice.Chain, advice.Failed, advice.Dependency, advice.Due, advice.Backoff, advice.Request, advice.Lost,
		advice.NoWorker, advice.Workspace, advice.Limit, advice.QueueBehind,
	} {
		c := advice.Cause{Kind: kind, Text: "private", Scope: "private", Job: "private", Execution: "private", Chain: "private", By: "private", Reason: "private", Do: "private", Call: "private"}
		short := advice.Short(&c)
		if short.Text == "" || short.Do == "" {
			t.Errorf("%s: the short cause says nothing: %+v", kind, short)
		}
		if want := (advice.Cause{Kind: short.Kind, Text: short.Text, Do: short.Do}); short != want {
			t.Errorf("%s: the short cause has %+v", kind, short)
		}
	}
}
