package dashboard

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard/internal/form"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/monitor"
)

var monitorPages = slices.Concat([]page{{
	path: "monitors", about: "monitor", op: "listMonitors", on: onVisible, title: "Monitors", nav: "Monitors", group: "Partners", key: "m", file: "monitors",
	query: []string{"cursor"}, data: (*call).monitors, live: []string{"list"}, watch: watchEvery(10 * time.Second),
}}, monitors.pages())

var monitors = &kept[monitor.Monitor, *monitor.Monitor]{
	Kept: desk.Monitors, list: "monitors", first: `{"lister": "file"}`, query: []string{"cursor"},
	plain: monitor.Monitor.Definition,
	data:  (*call).monitor,
	turns: []turn[monitor.Monitor]{
		{"enable", turnMonitor((*monitor.Service).Enable)},
		{"disable", turnMonitor((*monitor.Service).Disable)},
		{"pause", turnMonitor((*monitor.Service).Pause)},
		{"acknowledge", turnMonitor((*monitor.Service).Acknowledge)},
	},
	fields: []form.Field{
		{Name: "name", Label: "Name", Kind: form.Text, Once: true, Hint: "1 to 200 characters. It can't be changed later.", Group: "What it watches"},
		{Name: "description", Label: "Description", Kind: form.Text},
		{Name: "lister", Label: "Lister", Kind: form.Text, Hint: `The name of the lister in the engines: "file" lists a directory on the machine.`},
		{Name: "connection_id", Label: "Connection", Kind: form.Text, Hint: "The connection of the server. Empty means a directory on this machine."},
		{Name: "path", Label: "Directory", Kind: form.Text, Hint: "Subdirectories are not searched."},
		{Name: "patterns", Label: "File names", Kind: form.List, Hint: "One pattern per line, such as *.csv. Empty means all files."},
		{Name: "events", Label: "Events", Kind: form.List, Hint: "created, modified or exists. One per line. Empty means created."},
		{Name: "done_file", Label: "Suffix of the done file", Kind: form.Text, Hint: "Such as .done: a file is complete when its done file exists. Empty means that a file is ready when it no longer changes."},
		{Name: "stable_seconds", Label: "Unchanged for, in seconds", Kind: form.Number, Hint: "A file is ready when it has not changed for this time. Empty means 5."},
		{Name: "every_seconds", Label: "Interval between polls, in seconds", Kind: form.Number, Hint: "Empty means 60."},
		{Name: "calendar", Label: "Calendar", Kind: form.Text, Hint: "The name of a calendar: the monitor polls on open days only. Empty means that all days are open."},
		{Name: "between.from", Label: "Polls from", Kind: form.Text, Hint: "A time in the time zone of the calendar, such as 06:00. Empty means the start of the day."},
		{Name: "between.until", Label: "Polls until", Kind: form.Text, Hint: "A time such as 19:30. Empty means the end of the day."},
		{Name: "max_failures", Label: "Stop after this many failed polls in a row", Kind: form.Number, Hint: "Empty means 5."},
		{Name: "job", Label: "Job", Kind: form.Text, Jobs: true, Hint: `Its latest version starts, with the parameters "files" and "monitor".`, Group: "What it starts"},
		{Name: "chain", Label: "or chain", Kind: form.Text},
		{Name: "batch", Label: "One execution for all files that are ready", Kind: form.Check},
		{Name: "params", Label: "Other parameters", Kind: form.JSON, Hint: `A JSON object, such as {"day": "today"}.`},
		{Name: "priority", Label: "Priority", Kind: form.Number, Hint: "The priority of the executions of a job. Higher ones start first."},
	},
}

// turnMonitor returns a turn that calls a method of the service of monitors.
func turnMonitor(f func(*monitor.Service, context.Context, string, courier.By) (monitor.Monitor, error)) func(context.Context, *call, string, courier.By) (monitor.Monitor, error) {
	return func(ctx context.Context, c *call, name string, by courier.By) (monitor.Monitor, error) {
		m, err := f(c.h.e.Monitors(), ctx, name, by)
		return m, c.MonitorRefusal(ctx, name, err)
	}
}

// A keptList is the page of monitors, or of subscriptions.
type keptList[T any] struct {
	Rows  []T
	New   bool // the visitor may create one
	First string
	Next  string
}

// A monitorRow is a monitor as the visitor may see it.
type monitorRow struct {
	monitor.Monitor
	Href, Status string
	Target       target
	Server       target // its connection
	Last         string // reference of the execution that it started last
}

func (c *call) monitors() (any, error) {
	list, next, err := c.Monitors(c.ctx(), c.query.Get("cursor"), listPage)
	if err != nil {
		return nil, err
	}
	l := &keptList[monitorRow]{}
	for i := range list {
		l.Rows = append(l.Rows, c.monitorRow(monitors.seen(c, list[i])))
	}
	l.First, l.Next = c.pages(next)
	l.New, err = c.mayCreateAny()
	return l, err
}

func (c *call) monitorRow(m monitor.Monitor) monitorRow {
	r := monitorRow{Monitor: m, Href: c.link("monitors", m.Name), Status: string(m.State), Target: c.target(m.Job, m.Chain), Server: c.connectionTarget(m.Connection)}
	if m.Expectation != "" {
		r.Target = target{"expectation", m.Expectation, c.link("expectations", m.Expectation)}
	}
	if attention.IsUnpolled(&m, now()) {
		r.Status = "late"
	}
	if id := m.Health.LastExecution; id != "" {
		r.Last = c.started(id, m.Chain)
	}
	return r
}

// started returns the reference of the execution that a schedule, a monitor or the like has
// started. If a chain is given, it is a chain execution.
func (c *call) started(id courier.ExecutionID, chain string) string {
	if chain != "" {
		return c.link("chain-executions", string(id))
	}
	return c.link("executions", string(id))
}

// A monitorView is the first tab of the page of a monitor.
type monitorView struct {
	monitorRow
	Turns        []turnButton
	PollTook     time.Duration
	Outcome      string
	Params       string
	SeesFiles    bool
	CalendarHref string
	Files        []seenRow
	First        string
	Next         string
}

// A seenRow is a file that a monitor has seen.
type seenRow struct {
	monitor.SeenFile
	Status string
	Href   string // of the execution that was started for the file
}

func (c *call) monitor(m *monitor.Monitor) (any, error) {
	v := &monitorView{monitorRow: c.monitorRow(*m), PollTook: time.Duration(m.Health.PollSeconds * float64(time.Second)), CalendarHref: c.calendarHref(m.Calendar)}
	outcomes, err := c.statuses(idsOf(m.Health.LastExecution, m.Job))
	if err != nil {
		return nil, err
	}
	v.Outcome = outcomes[m.Health.LastExecution]
	switch m.State {
	case monitor.Failed:
		v.Turns = turnsOf("acknowledge", "Acknowledge, and poll again", "disable", "Disable")
	case monitor.Disabled, monitor.Paused:
		v.Turns = turnsOf("enable", "Enable")
	default:
		v.Turns = turnsOf("pause", "Pause", "disable", "Disable")
	}
	if len(m.Params) > 0 {
		v.Params = format.JSON(m.Params)
	}
	if v.SeesFiles = c.Has(c.ctx(), c.about, access.RightSee|access.RightValues); v.SeesFiles {
		err = c.seenFiles(v)
	}
	return v, err
}

// seenFiles reads a page of the files that a monitor has seen.
func (c *call) seenFiles(v *monitorView) error {
	list, err := c.h.e.Monitors().Files(c.ctx(), monitor.SeenFilter{Monitor: v.Name, After: c.query.Get("cursor"), Limit: listPage + 1})
	if err != nil {
		return err
	}
	next := ""
	if len(list) > listPage {
		list = list[:listPage]
		next = list[listPage-1].Name
	}
	for _, f := range list {
		r := seenRow{SeenFile: f, Status: "waiting"}
		switch {
		case f.Handed > 0 && f.Execution != "":
			r.Status, r.Href = "triggered", c.started(f.Execution, v.Chain)
		case f.Handed > 0:
			r.Status = "recorded"
		}
		if !f.MissingSince.IsZero() {
			r.Status += ", gone"
		}
		v.Files = append(v.Files, r)
	}
	v.First, v.Next = c.pages(next)
	return nil
}

// Where returns the directory that a monitor watches.
func (r monitorRow) Where() string {
	var parts []string
	for _, p := range []string{r.Lister, r.Connection, r.Path} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, " ")
}
