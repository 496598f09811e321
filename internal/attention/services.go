package attention

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/ticks"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// queues adds the queues whose oldest execution has been due for long. Queues without workers are
// explained without a call. Of the others only the queue that waits longest is explained: an
// explanation takes one or two statements, and with it [Read] takes ten.
func (l *reading) queues() error {
	c, err := l.Executions.Census(l.ctx, most)
	if ok, err := l.has("store.Overview", err); !ok {
		return err
	}
	l.At, l.Census = c.At, &c
	list := slices.DeleteFunc(slices.Clone(c.Queues), func(q store.QueueCensus) bool { return q.Oldest == "" || c.At.Sub(q.DueAt) < dueFor })
	slices.SortStableFunc(list, func(x, y store.QueueCensus) int { return x.DueAt.Compare(y.DueAt) })
	if len(c.Queues) >= store.MaxQueues {
		l.Cut = append(l.Cut, fmt.Sprintf("There are at least %d queues, and only these were checked.", store.MaxQueues))
	}
	asked := false
	for _, q := range list {
		e := Entry{Kind: Due, Queue: q.Queue, Since: q.DueAt, Count: q.Queued, More: q.Queued >= c.QueueCountLimit, Oldest: q.Job, Executions: []courier.ExecutionID{q.Oldest}}
		e.Title = fmt.Sprintf("Queue %q: the oldest of %s, of the job %q, is due but does not start.", q.Queue, count(e.Count, e.More, "execution"), q.Job)
		e.Do, e.Call = "Open the oldest: its page says why it waits.", "Executions.Explain"
		if c, ok := l.unserved[q.Queue]; ok {
			e.Because, e.Do, e.Call = []advice.Cause{c}, c.Do, c.Call
		} else if !asked {
			asked = true
			why, err := l.Executions.Explain(l.ctx, q.Oldest)
			if err == nil && len(why.Because) > 0 {
				e.Because, e.Do, e.Call = why.Because, why.Because[0].Do, why.Because[0].Call
			}
			if err := l.ctx.Err(); err != nil {
				return err
			}
		}
		l.add(e)
	}
	return nil
}

func (l *reading) schedules() error {
	clocks := ticks.NewClocks(l.Schedules.Timetables(l.ctx), l.At, l.At.Add(noticed))
	list, err := l.Schedules.List(l.ctx, schedule.Filter{Limit: most})
	if ok, err := l.has("schedule.Store", err); !ok {
		return err
	}
	l.cut(len(list), "schedules")
	l.starts = make(map[string]bool)
	for i := range list {
		s := &list[i]
		if s.Disabled && (s.At.IsZero() || s.At.After(l.At)) { // but not one with an At that is over
			l.setAside("schedule", s.Name, s.Job, "disabled", s.Reason)
		}
		if s.Disabled || !l.Sees(s.Job) {
			continue
		}
		l.starts[s.Job] = true
		if !s.Paused && !s.NextFire.IsZero() {
			l.Ticks = append(l.Ticks, Tick{s.Name, s.FiresAt()})
		}
		if !s.Paused && !s.NextFire.IsZero() && (l.Next == nil || s.FiresAt().Before(l.Next.FiresAt())) {
			l.Next = s
		}
		e := Entry{Kind: Schedule, Name: s.Name, Job: s.Job, Count: 1, Since: s.NextFire}
		switch {
		case s.Paused:
			e.Title, e.Message = fmt.Sprintf("The schedule %q is paused because executions have failed.", s.Name), s.Reason
			e.Do, e.Call = "Fix the cause of the failures, then enable the schedule.", "Schedules.Enable"
			e.Since, e.Count = s.LastFire, max(1, s.Failures)
		case s.Problem != "":
			e.Title, e.Message = fmt.Sprintf("The schedule %q can't fire.", s.Name), s.Problem
			e.Do = "Correct the schedule or what it starts. Engines try again every minute."
			e.Call = "Schedules.Set"
		case IsLate(s, l.At):
			e.Title = fmt.Sprintf("The schedule %q is late: it was due but has not fired.", s.Name)
			e.Do, e.Call = "Check that an engine is running on the store.", "Engine.Start"
		default:
			note, found := clocks.First(s)
			if !found {
				continue
			}
			e.Title, e.Message = fmt.Sprintf("The schedule %q is affected by a clock change.", s.Name), note.Day+": "+note.Text
			e.Do, e.Call = "Check that this is intended. Otherwise give it a time that occurs once every day.", "Schedules.Set"
		}
		l.add(e)
	}
	slices.SortStableFunc(l.Ticks, func(x, y Tick) int { return x.At.Compare(y.At) })
	l.Ticks = slices.Clip(l.Ticks[:min(len(l.Ticks), maxTicks)])
	return nil
}

// calendars adds the calendars that name dates, but none after the next 30 days.
func (l *reading) calendars() error {
	list, err := l.Calendars.List(l.ctx, store.DefinitionFilter{Limit: most})
	if err != nil {
		return err
	}
	l.cut(len(list), "calendars")
	l.days = make(map[string]*calendar.Days, len(list))
	for i := range list {
		days, err := calendar.New(list[i])
		if err != nil {
			continue // a newer version of the library has saved it
		}
		l.days[list[i].Name] = days
		last, ok := days.Ends()
		if !ok || last > days.On(l.At)+endsWithin {
			continue
		}
		l.add(Entry{
			Kind: Calendar, Name: list[i].Name, Count: 1, Title: fmt.Sprintf("The calendar %q lists no date after %s.", list[i].Name, last.Words()),
			Message: "After that, only weekends and yearly closed days are closed.",
			Do:      "Add the following days, and save the calendar.", Call: "Calendars.Set",
		})
	}
	return nil
}

// IsLate reports whether a schedule has been due for long: no engine fires it.
func IsLate(s *schedule.Schedule, at time.Time) bool {
	return !s.NextFire.IsZero() && !s.Waiting && at.Sub(s.NextFire) > s.Jitter+lateFor
}

// IsUnpolled reports whether the poll of a monitor has been due for long: no started engine has
// its lister.
func IsUnpolled(m *monitor.Monitor, at time.Time) bool {
	return m.State.Polls() && !m.NextPoll.IsZero() && at.Sub(m.NextPoll) > unpolledFor
}

func (l *reading) monitors() error {
	list, err := l.Monitors.List(l.ctx, monitor.Filter{Limit: most})
	if ok, err := l.has("monitor.Store", err); !ok {
		return err
	}
	l.cut(len(list), "monitors")
	for i := range list {
		m := &list[i]
		e := Entry{Kind: Monitor, Name: m.Name, Job: m.Job, Count: max(1, m.Health.Failures), Since: m.Health.LastPoll, Message: m.Health.Problem}
		switch {
		case m.State == monitor.Paused, m.State == monitor.Disabled:
			l.setAside("monitor", m.Name, m.Job, string(m.State), m.Reason)
			continue
		case !l.Sees(m.Job):
			continue
		case m.State == monitor.Failed:
			e.Title = fmt.Sprintf("The monitor %q has stopped: its polls have failed too often.", m.Name)
			e.Do, e.Call = "Fix the cause, then choose “Acknowledge, and poll again”.", "Monitors.Acknowledge"
			if e.Message == "" {
				e.Message = m.Reason
			}
		case m.State == monitor.Degraded:
			e.Title = fmt.Sprintf("The monitor %q is degraded: its last poll failed or could not take all files.", m.Name)
			e.Do = "Fix the cause. It keeps polling."
		case m.State == monitor.Active && IsUnpolled(m, l.At):
			e.Title, e.Since = fmt.Sprintf("The monitor %q is not polled, although its next poll is due.", m.Name), m.NextPoll
			e.Do = fmt.Sprintf("Start an engine that has the lister %q in Options.Listers.", m.Lister)
		default:
			continue
		}
		l.add(e)
	}
	return nil
}

// deliveries adds the subscriptions with failed deliveries, and those that were switched
// off.
func (l *reading) deliveries() error {
	list, err := l.Subscriptions.Deliveries(l.ctx, notify.DeliveryFilter{State: notify.Failed, Limit: most})
	if ok, err := l.has("notify.Store", err); !ok {
		return err
	}
	more := l.cut(len(list), "failed deliveries")
	var entries []Entry
	for i := range list {
		n := &list[i]
		at := slices.IndexFunc(entries, func(e Entry) bool { return e.Name == n.Subscription })
		if at < 0 {
			at = len(entries)
			entries = append(entries, Entry{Kind: Delivery, Name: n.Subscription, More: more, Since: n.DueAt})
		}
		e := &entries[at]
		if e.Count++; n.DueAt.Before(e.Since) {
			e.Since = n.DueAt
		}
		if n.DueAt.After(e.Youngest) {
			e.Youngest = n.DueAt
		}
		e.Message = n.LastErr
	}
	for _, e := range entries {
		e.Title = fmt.Sprintf("Subscription %q: %s failed for good.", e.Name, count(e.Count, e.More, "notification"))
		e.Do, e.Call = "Fix the cause, then deliver them again. They are kept for 30 days.", "Subscriptions.Replay"
		l.add(e)
	}
	subscriptions, err := l.Subscriptions.List(l.ctx, notify.Filter{Limit: most})
	if err != nil {
		return err
	}
	l.cut(len(subscriptions), "subscriptions")
	for i := range subscriptions {
		s := &subscriptions[i]
		switch {
		case s.Disabled && s.Reason == "":
			l.setAside("subscription", s.Name, "", "disabled", "")
			if n := len(l.away); n > 0 && l.away[n-1].Name == s.Name {
				l.away[n-1].Since = s.DisabledAt // the journal says who did it
			}
		case s.Disabled: // no person did it
			l.add(Entry{
				Kind: Subscription, Name: s.Name, Count: 1, Since: s.DisabledAt, Message: s.Reason, Title: fmt.Sprintf("The subscription %q was disabled.", s.Name),
				Do: "Correct the receiver, and choose “Save and enable”. Then deliver the failed notifications again.", Call: "Subscriptions.Set",
			})
		}
	}
	return nil
}

// stranded adds the groups of executions that no worker can claim. Lost executions have entries
// already; stranded adds to them what an operator can do.
func (l *reading) stranded() error {
	list, err := l.Executions.Stranded(l.ctx)
	if ok, err := l.has("store.Workers", err); !ok {
		return err
	}
	l.unserved = make(map[string]advice.Cause)
	for _, g := range list {
		c := advice.Stranded(&g)
		e := Entry{Kind: Stranded, Queue: g.Queue, Count: g.Count, More: g.Count >= store.MaxSampled, Since: g.Since, Executions: []courier.ExecutionID{g.Oldest}, Do: c.Do, Call: c.Call}
		switch g.Reason {
		case store.StrandedQueue:
			_, e.Message, _ = strings.Cut(c.Text, ". ")
			l.unserved[g.Queue] = c
		case store.StrandedWorkspace:
			e.Name = g.Workspace
			l.elsewhere(&e)
		}
		e.About = advice.StrandedReason(&g)
		e.Title = fmt.Sprintf("No worker can take %s: %s.", count(e.Count, e.More, "execution"), e.About)
		l.add(e)
	}
	return nil
}

// elsewhere sets what an operator can do about the lost executions of a group without workspace.
func (l *reading) elsewhere(stranded *Entry) {
	for i := range l.Entries {
		if e := &l.Entries[i]; e.Kind == Lost && slices.Contains(e.Executions, stranded.Executions[0]) {
			e.Do, e.Call = fmt.Sprintf("No other worker has the workspace %q with their files. %s", stranded.Name, stranded.Do), stranded.Call
		}
	}
}

// refusals adds the progress that the store refuses from this engine.
func (l *reading) refusals() {
	list := slices.DeleteFunc(slices.Clone(l.Refused()), func(r engine.RefusedWrite) bool { return !l.Sees(r.Job) })
	if len(list) == 0 {
		return
	}
	e := Entry{Kind: Refusal, Count: len(list), Since: list[0].Since, Job: list[0].Job, Message: list[0].Error}
	for _, r := range list[:min(len(list), samples)] {
		e.Executions = append(e.Executions, r.Execution)
	}
	e.Title = fmt.Sprintf("The store refuses the progress of %s of this engine.", count(len(list), false, "execution"))
	e.Do = "Fix the cause that the message names. The engine repeats the writes."
	l.add(e)
}
