package dashboard

import (
	"context"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard/internal/form"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

var schedulePages = slices.Concat([]page{{
	path: "schedules", about: "schedule", op: "listSchedules", on: onVisible, title: "Schedules", nav: "Schedules", group: "Rules", key: "s", file: "schedules",
	query: []string{"tab", "from", "days", "zone", "cursor"}, data: (*call).schedules, live: []string{"week", "list"}, watch: watchEvery(30 * time.Second),
}}, schedules.pages())

var schedules = &kept[schedule.Schedule, *schedule.Schedule]{
	Kept: desk.Schedules, list: "schedules", first: `{"time_zone": "UTC"}`,
	plain: schedule.Schedule.Definition,
	data:  (*call).schedule, tried: (*call).ticks, try: "Show when it would fire",
	turns: []turn[schedule.Schedule]{
		{"enable", func(ctx context.Context, c *call, name string, by courier.By) (schedule.Schedule, error) {
			return c.h.e.Schedules().Enable(ctx, name, by)
		}},
		{"disable", func(ctx context.Context, c *call, name string, by courier.By) (schedule.Schedule, error) {
			return c.h.e.Schedules().Disable(ctx, name, by)
		}},
	},
	fields: []form.Field{
		{Name: "name", Label: "Name", Kind: form.Text, Once: true, Hint: "1 to 200 characters. It can't be changed later.", Group: "What it starts"},
		{Name: "job", Label: "Job", Kind: form.Text, Jobs: true, Hint: "Its latest version starts."},
		{Name: "chain", Label: "or chain", Kind: form.Text},
		{Name: "params", Label: "Parameters", Kind: form.JSON, Hint: `A JSON object, such as {"day": "today"}.`},
		{Name: "priority", Label: "Priority", Kind: form.Number, Hint: "Higher ones start first. Empty means 0."},
		{Name: "cron", Label: "Cron", Kind: form.Text, Group: "When: fill in one of cron, interval and instant", Hint: "Quartz format, seconds first: 0 30 6 ? * MON-FRI is half past six on weekdays."},
		{Name: "time_zone", Label: "Time zone of cron", Kind: form.Text, Hint: "Such as Europe/Berlin. Empty means UTC."},
		{Name: "every_seconds", Label: "Interval in seconds", Kind: form.Number, Hint: "300 is every five minutes, on the minute."},
		{Name: "at", Label: "Instant", Kind: form.Text, Hint: "It fires once. 2030-01-31T08:00:00Z is in UTC; 2030-01-31T09:00:00+01:00 is one hour ahead of UTC."},
		{Name: "starts_at", Label: "Not before", Kind: form.Text, Hint: "An instant in UTC, such as 2030-01-31T08:00:00Z, or with an offset. Empty means no bound."},
		{Name: "ends_at", Label: "Not after", Kind: form.Text, Hint: "An instant in the same form. Empty means no bound."},
		{Name: "calendar", Label: "Calendar", Kind: form.Text, Hint: "The name of a calendar. Empty means that all days are open."},
		{Name: "on_closed", Label: "Ticks on closed days", Kind: form.Choice, Options: []string{"skip", "next", "previous"}, Hint: "skip omits them; next and previous move them to an open day. Empty means skip."},
		{Name: "jitter_seconds", Label: "Jitter in seconds", Kind: form.Number, Hint: "Each tick is delayed by a random time up to this, so that many schedules do not fire at once."},
		{Name: "overlap", Label: "If the previous execution has not ended", Kind: form.Choice, Options: []string{"allow", "skip", "queue_one", "cancel_running"}, Group: "Overlaps and missed ticks"},
		{Name: "misfire", Label: "Missed ticks", Kind: form.Choice, Options: []string{"fire_once", "fire_all", "skip"}, Hint: "Ticks while no engine was running."},
		{Name: "window_seconds", Label: "Maximum age of missed ticks, in seconds", Kind: form.Number, Hint: "For fire_all only. Empty means a day."},
		{Name: "pause_after", Label: "Pause after this many failures in a row", Kind: form.Number, Hint: "Empty means never."},
	},
}

// A scheduleList is the page of schedules.
type scheduleList struct {
	Tabs  []navItem
	Tab   string
	New   bool // the visitor may create one
	Week  *weekPage
	Rows  []scheduleRow
	First string
	Next  string
	Any   bool
}

// A scheduleRow is a schedule in the form for the visitor.
type scheduleRow struct {
	schedule.Schedule
	Href, Status string
	Target       target
	When         string    // in words
	Local        string    // when it fires next, in the zone of the schedule
	Outcome      string    // the status of the last execution; empty if it is not known
	Last         string    // reference of that execution
	Now          time.Time // of the page
}

// A target is what a schedule or a monitor starts, with its page.
type target struct{ Kind, Name, Href string }

func (c *call) target(job, chain string) target {
	if chain != "" {
		return target{"chain", chain, c.link("chains", chain)}
	}
	return target{"job", job, c.link("jobs", job)}
}

func (c *call) schedules() (any, error) {
	l := &scheduleList{Tab: c.query.Get("tab")}
	for _, tab := range []struct{ key, label string }{{"", "Week"}, {"list", "List"}} {
		l.Tabs = append(l.Tabs, navItem{Label: tab.label, Href: "?" + query("tab", tab.key), Current: tab.key == l.Tab})
	}
	list, next, err := c.Schedules(c.ctx(), c.query.Get("cursor"), listPage)
	if err != nil {
		return nil, err
	}
	l.Any = len(list) > 0
	if l.New, err = c.mayCreateAny(); err != nil {
		return nil, err
	}
	switch {
	case l.Tab != "" && l.Tab != "list":
		return nil, problem.ErrNoPage
	case !l.Any:
	case l.Tab == "list":
		l.Rows, err = c.scheduleRows(list)
		l.First, l.Next = c.pages(next)
	default:
		l.Week, err = c.week()
	}
	return l, err
}

// pages returns the references of the first page of a list and of the next page, which begins after
// the given element.
func (c *call) pages(after string) (first, next string) {
	if c.query.Get("cursor") != "" {
		first = c.with("cursor", "")
	}
	if after != "" {
		next = c.with("cursor", after)
	}
	return first, next
}

// mayCreateAny reports whether the visitor may create a schedule, a monitor or the like.
func (c *call) mayCreateAny() (bool, error) {
	if c.Can(c.ctx(), "", access.RightEdit) {
		return true, nil
	}
	jobs, err := c.jobsWith(access.RightEdit)
	return len(jobs) > 0, err
}

// scheduleRows returns the rows of schedules.
func (c *call) scheduleRows(list []schedule.Schedule) ([]scheduleRow, error) {
	var ids []courier.ExecutionID
	for i := range list {
		if s := &list[i]; s.Job != "" && s.LastExecution != "" {
			ids = append(ids, s.LastExecution)
		}
	}
	outcomes, err := c.statuses(ids)
	if err != nil {
		return nil, err
	}
	rows := make([]scheduleRow, len(list))
	for i := range list {
		rows[i] = c.scheduleRow(schedules.seen(c, list[i]))
		rows[i].Outcome = outcomes[list[i].LastExecution]
	}
	return rows, nil
}

// statuses returns the statuses of the executions that still exist.
func (c *call) statuses(ids []courier.ExecutionID) (map[courier.ExecutionID]string, error) {
	found := make(map[courier.ExecutionID]string)
	if len(ids) == 0 {
		return found, nil
	}
	list, err := c.h.e.Executions().List(c.ctx(), store.Filter{IDs: ids, Limit: len(ids)})
	for i := range list {
		found[list[i].ID] = list[i].Status(now())
	}
	return found, err
}

func (c *call) scheduleRow(s schedule.Schedule) scheduleRow {
	r := scheduleRow{Schedule: s, Href: c.link("schedules", s.Name), Target: c.target(s.Job, s.Chain), Status: scheduleStatus(&s, now()), When: whenOf(&s)}
	if !s.NextFire.IsZero() && s.Zone != "" && s.Zone != "UTC" && s.Zone != c.zone() {
		r.Local = inZone(s.FiresAt(), s.Zone)
	}
	switch {
	case s.LastExecution != "" && s.Chain != "":
		r.Last = c.link("chain-executions", string(s.LastExecution))
	case s.LastExecution != "":
		r.Last = c.link("executions", string(s.LastExecution))
	}
	return r
}

// scheduleStatus returns the state of a schedule in a word.
func scheduleStatus(s *schedule.Schedule, at time.Time) string {
	switch {
	case s.Disabled:
		return "disabled"
	case s.Paused:
		return "paused"
	case s.Problem != "":
		return "error"
	case attention.IsLate(s, at):
		return "late"
	case s.Waiting:
		return "waiting"
	}
	return "active"
}

// whenOf says in words when a schedule fires.
func whenOf(s *schedule.Schedule) string {
	switch {
	case s.Every > 0:
		return "Every " + format.Span(s.Every)
	case !s.At.IsZero():
		return "Once, at " + s.At.UTC().Format("2006-01-02 15:04:05") + " UTC"
	}
	x, err := schedule.ExplainCron(s.Cron, s.Zone, time.Time{}, 1)
	if err != nil {
		return s.Cron
	}
	return x.Words
}

// inZone returns an instant in a zone, such as "Tue 2026-12-01 03:00:00 CET".
func inZone(t time.Time, zone string) string {
	l, err := time.LoadLocation(zone)
	if err != nil {
		return ""
	}
	return t.In(l).Format("Mon 2006-01-02 15:04:05 MST")
}

// A scheduleView is the first tab of the page of a schedule.
type scheduleView struct {
	scheduleRow
	Ticks        any // a *ticks
	Params       string
	CalendarHref string
}

// A ticks says when a schedule fires, according to its definition.
type ticks struct {
	Zone     string // in which the page shows instants
	ZoneName string // of the schedule; empty if it is the same zone, or UTC
	Next     []fire
	Of       int      // the number of ticks without a filter
	Notes    []string // about clock changes and closed days
	Why      string   // why it has no next tick
	Idle     bool     // it does not fire until it is enabled
	Moved    bool     // some of the ticks were moved
}

// A fire is a tick, also in the zone of the schedule.
type fire struct {
	Local string
	At    time.Time
	Moved string // the closed day from which it was moved
}

const nextTicks = 10

func (c *call) schedule(s *schedule.Schedule) (any, error) {
	outcomes, err := c.statuses(idsOf(s.LastExecution, s.Job))
	if err != nil {
		return nil, err
	}
	v := &scheduleView{scheduleRow: c.scheduleRow(*s), Ticks: c.ticks(s), CalendarHref: c.calendarHref(s.Calendar)}
	v.Outcome = outcomes[s.LastExecution]
	if len(s.Params) > 0 {
		v.Params = format.JSON(s.Params)
	}
	return v, nil
}

// ticks returns when a schedule fires. The schedule need not be saved.
func (c *call) ticks(s *schedule.Schedule) any {
	v := &ticks{Idle: s.Disabled || s.Paused, Zone: c.zone()}
	if s.Zone != "" && s.Zone != "UTC" && s.Zone != v.Zone {
		v.ZoneName = s.Zone
	}
	table, err := c.h.e.Schedules().Timetables(c.ctx())(s)
	if err != nil {
		v.Why = format.Sentence(err.Error())
	} else {
		after := now()
		for at := table.Next(after); !at.IsZero() && len(v.Next) < nextTicks; at = table.Next(at) {
			v.Next, after = append(v.Next, fire{inZone(at, v.ZoneName), at, table.Moved(at)}), at
			v.Moved = v.Moved || v.Next[len(v.Next)-1].Moved != ""
		}
		for _, day := range table.Closed(now(), after, nextTicks) {
			v.Notes = append(v.Notes, day.Text+".")
		}
	}
	if s.Cron != "" && table != nil {
		if x, err := schedule.ExplainCron(s.Cron, s.Zone, time.Time{}, 1); err == nil {
			v.Notes = append(v.Notes, table.OnOpenDays(x.Notes)...)
		}
	}
	if v.Of = len(v.Next); v.Of == 0 && v.Why == "" {
		v.Why = "It has no more ticks."
	}
	return v
}

// idsOf returns the id of the execution that a schedule or monitor has started. It is empty for a
// chain execution.
func idsOf(id courier.ExecutionID, job string) []courier.ExecutionID {
	if id == "" || job == "" {
		return nil
	}
	return []courier.ExecutionID{id}
}
