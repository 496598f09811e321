package attention_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// A queue that nobody serves is said to be misspelt wherever it stands, also if another one
// waits longer; of those that are served, the one that waits longest is explained.
func TestQueues(t *testing.T) {
	in(t, func(s *service) {
		s.queues = []store.QueueCensus{
			{Queue: "nihgt", Queued: 1, Oldest: "n", DueAt: ago(10 * time.Minute)},
			{Queue: "default", Queued: 1000, Oldest: "d", DueAt: ago(30 * time.Minute)},
			{Queue: "third", Queued: 1, Oldest: "t", DueAt: ago(20 * time.Minute)},
			{Queue: "empty"},
		}
		s.stranded = []store.Stranded{{Reason: store.StrandedQueue, Queue: "nihgt", Served: []string{"night"}, Count: 1, Oldest: "n"}}
		s.why = advice.Explanation{Because: []advice.Cause{{Text: "All slots are busy."}}}
		got := s.list()
		if list := lines(got); !slices.Equal(list, []string{"due 1000 default", "due 1 third", "due 1 nihgt", "stranded 1 nihgt"}) {
			t.Fatalf("%q", list)
		}
		if e := got.Entries[0]; !e.More || e.Because[0].Text != "All slots are busy." {
			t.Errorf("the queue that waits longest: %+v", e)
		}
		if e := got.Entries[1]; len(e.Because) != 0 || e.Call != "Executions.Explain" {
			t.Errorf("the next one: %+v", e)
		}
		s.says(got.Entries[2].Because[0].Text, `No worker serves the queue "nihgt". Did you mean "night"?`)
		s.says(got.Entries[3].Message, `Did you mean "night"?`)
		for _, e := range got.Entries[2:] {
			s.says(e.Do, `"nihgt" in Options.Queues`, "correct the queue of the job, cancel the execution, and start it again")
		}
	})
}

// A lost execution whose workspace is gone says at once how it goes on without it.
func TestElsewhere(t *testing.T) {
	in(t, func(s *service) {
		s.incidents = []store.Incident{{Kind: store.IncidentLost, Execution: "x", Worker: "dead", Since: ago(time.Hour)}}
		s.stranded = []store.Stranded{{Reason: store.StrandedWorkspace, Queue: "default", Workspace: "disk of dead", Lost: true, Count: 1, Oldest: "x"}}
		e := s.list().Entries[0]
		if s.says(e.Do, `workspace "disk of dead"`, "resume the execution with Elsewhere"); e.Kind != attention.Lost || e.Call != "Engine.Resume" {
			t.Errorf("%+v", e)
		}
	})
}

// A schedule says why it does not fire, and the one that fires next is known.
func TestSchedules(t *testing.T) {
	in(t, func(s *service) {
		soon := time.Now().Add(time.Hour)
		s.schedules = []schedule.Schedule{
			{Name: "later", NextFire: soon.Add(time.Hour)}, {Name: "soon", NextFire: soon},
			{Name: "paused", Paused: true, Failures: 3, Reason: "three have failed", NextFire: time.Now()},
			{Name: "odd", Problem: "there is no job", NextFire: soon.Add(time.Hour)},
			{Name: "waits", Waiting: true, NextFire: ago(time.Hour)}, {Name: "over", At: ago(time.Hour), Disabled: true},
		}
		s.schedules[4].Disabled = true
		got := s.list()
		if list := lines(got); !slices.Equal(list, []string{"schedule 3 paused", "schedule 1 odd", "put_away 1 waits"}) {
			t.Errorf("%q", list)
		}
		if got.Next == nil || got.Next.Name != "soon" {
			t.Errorf("next fires %+v", got.Next)
		}
		if a, b := got.Entries[0], got.Entries[1]; a.Call != "Schedules.Enable" || a.Message != "three have failed" || b.Call != "Schedules.Set" || b.Message != "there is no job" {
			t.Errorf("%+v\n%+v", a, b)
		}
		if attention.IsLate(&schedule.Schedule{Waiting: true, NextFire: ago(time.Hour)}, time.Now()) {
			t.Error("one whose execution waits is late")
		}
	})
}

// With jitter, the next tick is when it fires, which also decides what is next.
func TestJitter(t *testing.T) {
	in(t, func(s *service) {
		late := schedule.Schedule{Name: "late", NextFire: time.Now(), Jitter: time.Hour}
		s.schedules = []schedule.Schedule{late, {Name: "sharp", NextFire: time.Now().Add(time.Second)}}
		got := s.list()
		if got.Next == nil || got.Next.Name != "sharp" {
			t.Errorf("next fires %+v", got.Next)
		}
		at := schedule.TickAt("late", late.NextFire, time.Hour)
		if len(got.Ticks) != 2 || got.Ticks[1].Schedule != "late" || !got.Ticks[1].At.Equal(at) || at.Sub(late.NextFire) < time.Minute {
			t.Errorf("the ticks are %+v, without %v", got.Ticks, at)
		}
	})
}

// A change of the clocks that meets a schedule is told 14 days before.
func TestClocks(t *testing.T) {
	in(t, func(s *service) {
		change := time.Date(2000, 3, 26, 1, 0, 0, 0, time.UTC)
		s.schedules = []schedule.Schedule{{Name: "closing", Cron: "0 30 2 * * ?", Zone: "Europe/Berlin"}, {Name: "utc", Cron: "0 30 2 * * ?"}}
		time.Sleep(time.Until(change.AddDate(0, 0, -16)))
		if got := s.list(); len(got.Entries) != 0 {
			t.Errorf("16 days before: %q", lines(got))
		}
		time.Sleep(time.Until(change.AddDate(0, 0, -13)))
		if e := s.only(); e.Name != "closing" || e.Call != "Schedules.Set" {
			t.Errorf("13 days before: %+v", e)
		} else {
			s.says(e.Message, "2000-03-26: 02:30 doesn't exist in Europe/Berlin; fires at 03:30")
		}
	})
}

// A monitor says why it does not poll.
func TestMonitors(t *testing.T) {
	in(t, func(s *service) {
		s.monitors = []monitor.Monitor{
			{Name: "failed", State: monitor.Failed, Reason: "too often"}, {Name: "unpolled", State: monitor.Active, Lister: "sftp", NextPoll: ago(time.Hour)},
			{Name: "fine", State: monitor.Active, NextPoll: time.Now()}, {Name: "paused", State: monitor.Paused, Reason: "holidays"},
		}
		got := s.list()
		if list := lines(got); !slices.Equal(list, []string{"monitor 1 failed", "monitor 1 unpolled", "put_away 1 paused"}) {
			t.Fatalf("%q", list)
		}
		if e := got.Entries[0]; e.Call != "Monitors.Acknowledge" || e.Message != "too often" {
			t.Errorf("%+v", e)
		}
		s.says(got.Entries[1].Do, `the lister "sftp" in Options.Listers`)
		if e := got.Entries[2]; e.Thing != "monitor" || e.Message != "holidays" || e.Title != `The monitor "paused" is paused.` {
			t.Errorf("%+v", e)
		}
	})
}

// Failed deliveries are counted by subscription, with the earliest instant and the last error.
func TestDeliveries(t *testing.T) {
	in(t, func(s *service) {
		of := func(subscription string, since time.Duration, err string) notify.Delivery {
			return notify.Delivery{Notification: notify.Notification{Subscription: subscription}, DueAt: ago(since), LastErr: err}
		}
		s.deliveries = []notify.Delivery{of("a", time.Minute, "x"), of("b", time.Minute, "y"), of("a", time.Hour, "z")}
		got := s.list()
		if list := lines(got); !slices.Equal(list, []string{"delivery 2 a", "delivery 1 b"}) {
			t.Fatalf("%q", list)
		}
		if e := got.Entries[0]; !e.Since.Equal(ago(time.Hour)) || e.Message != "z" || e.Title != `Subscription "a": 2 notifications failed for good.` || e.Call != "Subscriptions.Replay" {
			t.Errorf("%+v", e)
		}
	})
}

// A calendar is an entry when it lists no date after the next 30 days, of those that name any.
func TestCalendars(t *testing.T) {
	in(t, func(s *service) {
		day := func(n int) string { return time.Now().AddDate(0, 0, n).Format(time.DateOnly) }
		for last, want := range map[string]bool{day(-100): true, day(0): true, day(30): true, day(31): false, "": false} {
			c := calendar.Calendar{Name: "target2", Closed: []calendar.Closing{{Yearly: "12-25"}}}
			if last != "" {
				c.OpenDays = []string{last}
			}
			s.calendars = []calendar.Calendar{c}
			got := s.list().Entries
			if (len(got) == 1) != want || want && (got[0].Kind != attention.Calendar || got[0].Name != "target2" || got[0].Call != "Calendars.Set") {
				t.Errorf("with %q as the last date: %+v", last, got)
			}
		}
		s.calendars[0].OpenDays = []string{"2000-01-20"}
		if got := s.only().Title; got != `The calendar "target2" lists no date after 20 January 2000.` {
			t.Errorf("%s", got)
		}
		s.fails["calendars"] = errors.New("down")
		if _, err := s.read(); !errors.Is(err, s.fails["calendars"]) {
			t.Errorf("%v", err)
		}
		s.sees = []string{"job"}
		if got := s.list().Entries; len(got) != 0 {
			t.Errorf("who sees one job is told of %+v", got)
		}
	})
}
