package desk_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// entry returns the only entry of a kind that is about something.
func (w *world) entry(kind desk.Kind, about string) desk.Entry {
	w.Helper()
	list := slices.DeleteFunc(w.attention().Entries, func(e desk.Entry) bool {
		return e.Kind != kind || !slices.Contains([]string{e.Job, e.Queue, e.Name}, about)
	})
	if len(list) != 1 {
		w.Fatalf("%d entries of the kind %s are about %q", len(list), kind, about)
	}
	return list[0]
}

// says reports an error unless a text has all words.
func (w *world) says(text string, words ...string) {
	w.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			w.Errorf("%q lacks %q", text, word)
		}
	}
}

// begin is the start of the first step of what was claimed.
func begin(c store.Claimed) store.Transition {
	s := courier.StepExecution{ID: "weigh", Type: "demo.a", Attempt: 1}
	return store.Transition{Execution: c.Execution.ID, Lease: c.Token, Seq: c.Seq + 1, To: courier.Running, Start: &s}
}

// A failed execution of a job that was edited since is led to the newer version, which a plain
// resume does not take.
func TestAttentionNewerVersion(t *testing.T) {
	in(t, func(w *world) {
		first := w.add("other", courier.EnqueueOptions{})
		w.end(courier.Failed, courier.ReasonSecret, first)
		if e := w.entry(desk.Failed, "other"); e.Version != 0 || strings.Contains(e.Do, "version") {
			t.Errorf("without a newer version: %+v", e)
		}
		w.define(courier.Job{Name: "other", Queue: "night", Steps: []courier.StepSpec{{Type: "demo.a"}}})
		e := w.entry(desk.Failed, "other")
		if e.Version != 2 {
			t.Errorf("the newer version is %d", e.Version)
		}
		w.says(e.Do, "has a version 2, and it has version 1", "resume it with that")
		time.Sleep(time.Second)
		w.end(courier.Failed, courier.ReasonSecret, w.add("other", courier.EnqueueOptions{}))
		if e := w.entry(desk.Failed, "other"); e.Version != 0 || e.Count != 2 {
			t.Errorf("where one has the newest version: %+v", e)
		}
	})
}

// An overdue execution whose step does not move says since when.
func TestAttentionStuckStep(t *testing.T) {
	in(t, func(w *world) {
		w.define(courier.Job{Name: "slow", MaxDuration: time.Minute, Steps: []courier.StepSpec{{ID: "weigh", Type: "demo.a"}}})
		x := w.add("slow", courier.EnqueueOptions{})
		w.ok(w.Store.Apply(w.Context(), begin(w.claim(time.Hour, x)[0])))
		begun := time.Now().UTC()
		time.Sleep(2 * time.Minute)
		_, err := w.Store.Overdue(w.Context(), 0)
		w.ok(err)
		e := w.entry(desk.Overdue, "slow")
		w.says(e.Message, `step 0 "weigh" (demo.a) reports no progress since `+begun.Format(time.RFC3339))
		if strings.Contains(e.Do, "hangs") {
			t.Errorf("after two minutes: %s", e.Do)
		}
		time.Sleep(5 * time.Minute)
		w.says(w.entry(desk.Overdue, "slow").Do, "If the step hangs, cancel")
	})
}

// A queue that nobody serves is said to be misspelt wherever it stands, also if another one
// waits longer; and what can be done about it.
func TestAttentionMisspelt(t *testing.T) {
	in(t, func(w *world) {
		w.define(courier.Job{Name: "odd", Queue: "nihgt", Steps: []courier.StepSpec{{Type: "demo.a"}}})
		w.add("other", courier.EnqueueOptions{})
		time.Sleep(time.Second)
		w.add("odd", courier.EnqueueOptions{})
		time.Sleep(10 * time.Minute)
		_, err := w.Store.Claim(w.Context(), store.ClaimRequest{Worker: "w", StepTypes: []string{"demo.b"}, Queues: []string{"night", "default"}, Max: 1, Lease: time.Hour})
		w.ok(err)
		due, stranded := w.entry(desk.Due, "nihgt"), w.entry(desk.Stranded, "nihgt")
		if len(due.Because) != 1 {
			t.Fatalf("due: %+v", due)
		}
		w.says(due.Because[0].Text, `No worker serves the queue "nihgt". Did you mean "night"?`)
		w.says(stranded.Message, `Did you mean "night"?`)
		for _, e := range []desk.Entry{due, stranded} {
			w.says(e.Do, `"nihgt" in Options.Queues`, "correct the queue of the job, cancel the execution, and start it again")
		}
		if e := w.entry(desk.Due, "default"); len(e.Because) == 0 {
			t.Errorf("of the other queue nobody has asked: %+v", e)
		}
	})
}

// A lost execution whose workspace is gone says at once how it goes on without it.
func TestAttentionElsewhere(t *testing.T) {
	in(t, func(w *world) {
		x := w.add("other", courier.EnqueueOptions{})
		c := w.claim(time.Second, x)[0]
		begun := begin(c)
		begun.Workspace, begun.DiskBytes = "disk of dead", 7
		w.ok(w.Store.Apply(w.Context(), begun))
		time.Sleep(10 * time.Minute)
		_, err := w.Store.Claim(w.Context(), store.ClaimRequest{Worker: "another", Workspace: "another", StepTypes: []string{"demo.a"}, Queues: []string{"default"}, Max: 1, Lease: time.Hour})
		w.ok(err)
		e := w.entry(desk.Lost, "w")
		w.says(e.Do, `workspace "disk of dead"`, "resume the execution with Elsewhere")
		if e.Call != "Engine.Resume" {
			t.Errorf("the call is %q", e.Call)
		}
	})
}

// A change of the clocks that meets a schedule is told 14 days before, and not before that.
func TestAttentionClocks(t *testing.T) {
	in(t, func(w *world) {
		change := time.Date(2000, 3, 26, 1, 0, 0, 0, time.UTC)
		time.Sleep(time.Until(change.AddDate(0, 0, -17)))
		for _, s := range []schedule.Schedule{
			{Name: "closing", Cron: "0 30 2 * * ?", Zone: "Europe/Berlin"},
			{Name: "early", Cron: "0 30 1 * * ?", Zone: "Europe/Berlin"},
			{Name: "utc", Cron: "0 30 2 * * ?"},
			{Name: "off", Cron: "0 30 2 * * ?", Zone: "Europe/Berlin", Disabled: true},
		} {
			s.Job = "other"
			_, err := w.Engine.Schedules().Set(w.Context(), s, courier.By{})
			w.ok(err)
		}
		clocks := func() (list []string) {
			for _, e := range w.attention().Entries {
				if strings.Contains(e.Title, "clocks") {
					w.says(e.Message, "2000-03-26: 02:30 doesn't exist in Europe/Berlin; fires at 03:30")
					list = append(list, e.Name)
				}
			}
			return list
		}
		w.ok(w.Engine.Start(w.Context())) // so that they fire
		time.Sleep(time.Until(change.AddDate(0, 0, -16)))
		if got := clocks(); len(got) != 0 {
			t.Errorf("16 days before: %v", got)
		}
		time.Sleep(time.Until(change.AddDate(0, 0, -13)))
		if got := clocks(); !slices.Equal(got, []string{"closing"}) {
			t.Errorf("13 days before: %v", got)
		}
		time.Sleep(time.Until(change.Add(24 * time.Hour)))
		if got := clocks(); len(got) != 0 {
			t.Errorf("the day after: %v", got)
		}
	})
}
