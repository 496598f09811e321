package advice_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/store"
)

// TestExplain has a row for every cause, and for causes that hold together.
func TestExplain(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	able := []store.Worker{{Name: "w", Workspace: "here", Queues: []string{"default", "night"}, StepTypes: []string{"a", "b"}}}
	queued := func(change func(*store.Circumstances)) *store.Circumstances {
		c := &store.Circumstances{
			At: now, Workers: able, StepTypes: []string{"a"},
			Execution: courier.Execution{ID: "x", Job: "job", State: courier.Queued, Queue: "default", DueAt: now.Add(-time.Minute), CreatedAt: now.Add(-time.Hour), Seq: 7},
		}
		change(c)
		return c
	}
	failure := &courier.Failure{Step: 3, Reason: courier.ReasonConnection, Message: "connection reset"}
	tests := []struct {
		name   string
		c      *store.Circumstances
		status string
		want   []string // kind and text of each cause
	}{
		{"next", queued(func(c *store.Circumstances) {}), "queued", nil},
		{"held", queued(func(c *store.Circumstances) { c.Execution.State, c.Ahead = courier.Created, 3 }), "created", []string{"held: It is held until somebody releases it."}},
		{"due", queued(func(c *store.Circumstances) { c.Execution.DueAt = now.Add(time.Minute) }), "scheduled", []string{"due: It is due at 2026-11-24T12:01:00Z."}},
		{"backoff", queued(func(c *store.Circumstances) { c.Execution.DueAt, c.Execution.Failure = now.Add(time.Minute), failure }), "scheduled",
			[]string{"backoff: An attempt has failed, and the next one starts at 2026-11-24T12:01:00Z: connection reset"}},
		{"dependency", queued(func(c *store.Circumstances) {
			c.Execution.Waits = []courier.UnmetDependency{
				courier.JobDependency{Job: "a"}.Unmet("", ""), courier.JobDependency{Job: "b"}.Unmet("y", courier.Failed),
			}
		}), "waiting", []string{
			`dependency: It waits for the job "a": job "a" has no execution yet.`,
			`dependency: It waits for the job "b": execution y of job "b" failed, and has to complete.`,
		}},
		{"nobody", queued(func(c *store.Circumstances) { c.Workers = nil }), "queued", []string{"no_worker: No worker is active."}},
		{"workers unknown", queued(func(c *store.Circumstances) { c.Workers, c.WorkersUnknown = nil, true }), "queued", nil},
		{"misspelt queue", queued(func(c *store.Circumstances) { c.Execution.Queue = "nigth" }), "queued",
			[]string{`no_worker: No worker serves the queue "nigth". Did you mean "night"?`}},
		{"other queue", queued(func(c *store.Circumstances) { c.Execution.Queue = "reports" }), "queued",
			[]string{`no_worker: No worker serves the queue "reports". Known are default, night.`}},
		{"step type", queued(func(c *store.Circumstances) { c.StepTypes = []string{"a", "x", "y"} }), "queued",
			[]string{`no_worker: No worker that serves the queue "default" has the step types x, y.`}},
		{"workspace", queued(func(c *store.Circumstances) { c.Execution.Workspace = "gone" }), "queued",
			[]string{`workspace: Its files are in the workspace "gone", which no worker of the queue "default" has.`}},
		{"limits", queued(func(c *store.Circumstances) {
			c.Limits = []store.LimitUse{{Limit: 5, Running: 5, Job: "other", Holder: "y"}, {Scope: "job:job", Limit: 3, Running: 2}, {Scope: "key:acme", Limit: 2, Running: 3}}
			c.Ahead = 9
		}), "queued", []string{"limit: The limit of all executions is full: 5 of 5 are running.", `limit: The limit of "key:acme" is full: 3 of 2 are running.`}},
		{"queue behind one", queued(func(c *store.Circumstances) { c.Ahead = 1 }), "queued", []string{`queue_behind: In the queue "default", 1 execution comes before it.`}},
		{"queue behind", queued(func(c *store.Circumstances) { c.Ahead = 12 }), "queued", []string{`queue_behind: In the queue "default", 12 executions come before it.`}},
		{"queue far behind", queued(func(c *store.Circumstances) { c.Ahead = store.DefaultCountLimit }), "queued",
			[]string{`queue_behind: In the queue "default", 1000 or more executions come before it.`}},
		{"together", queued(func(c *store.Circumstances) {
			c.Execution.DueAt, c.Execution.Queue = now.Add(time.Minute), "x"
			c.Limits = []store.LimitUse{{Limit: 1, Running: 1}}
		}), "scheduled", []string{"due: It is due at 2026-11-24T12:01:00Z.", `no_worker: No worker serves the queue "x". Known are default, night.`, "limit: The limit of all executions is full: 1 of 1 are running."}},
		{"draining", queued(func(c *store.Circumstances) {
			c.Workers = []store.Worker{{Name: "w", Workspace: "here", Queues: []string{"default"}, StepTypes: []string{"a"}, Draining: true}}
		}), "queued", []string{"no_worker: No worker is active."}},
		{"paused", queued(func(c *store.Circumstances) {
			c.Execution.State = courier.Paused
			c.Entry = courier.AuditEntry{To: "paused", At: now.Add(-time.Hour), By: "ann", Error: "disk"}
		}), "paused", []string{"paused: It is paused."}},
		{"paused by the chain", queued(func(c *store.Circumstances) {
			c.Execution.State, c.Execution.Chain, c.ChainPaused = courier.Paused, "chain", true
		}), "paused", []string{"chain: Its chain execution is paused."}},
		{"failed", queued(func(c *store.Circumstances) { c.Execution.State, c.Execution.Failure = courier.Failed, failure }), "failed",
			[]string{"failed: It has failed at step 3: connection reset"}},
		{"running", queued(func(c *store.Circumstances) {
			c.Execution.State, c.Execution.LeaseExpiresAt = courier.Running, now.Add(time.Second)
		}), "running", nil},
		{"pausing", queued(func(c *store.Circumstances) {
			x := &c.Execution
			x.State, x.LeaseExpiresAt, x.Request, x.Worker = courier.Running, now.Add(time.Second), courier.RequestPause, "w"
		}), "pausing", []string{`request: A pause was requested. Its worker "w" stops before the next step.`}},
		{"cancelling and lost", queued(func(c *store.Circumstances) {
			x := &c.Execution
			x.State, x.LeaseExpiresAt, x.Request, x.Worker, x.Workspace = courier.Running, now.Add(-time.Second), courier.RequestCancel, "w", "gone"
		}), "lost", []string{
			`request: A cancel was requested. Its worker "w" interrupts the step and rolls it back.`,
			`lost: The lease of its worker "w" has ended. Another worker takes it over.`,
			`workspace: Its files are in the workspace "gone", which no worker of the queue "default" has.`,
		}},
		{"completed", queued(func(c *store.Circumstances) { c.Execution.State, c.Ahead = courier.Completed, 4 }), "completed", nil},
		{"cancelled", queued(func(c *store.Circumstances) { c.Execution.State = courier.Cancelled }), "cancelled", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := advice.Explain(test.c)
			var got []string
			for _, b := range e.Because {
				got = append(got, fmt.Sprintf("%s: %s", b.Kind, b.Text))
				if b.Do == "" || !strings.HasSuffix(b.Do, ".") {
					t.Errorf("%s: what to do is %q", b.Kind, b.Do)
				}
			}
			if g, w := strings.Join(got, "\n"), strings.Join(test.want, "\n"); g != w {
				t.Errorf("because\n%s\nwant\n%s", g, w)
			}
			if e.Status != test.status || e.Seq != 7 || e.At != now || e.Execution != "x" {
				t.Errorf("explained %+v, want the status %s", e, test.status)
			}
		})
	}
}
