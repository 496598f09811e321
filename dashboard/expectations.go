package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/dashboard/internal/form"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
)

var expectationPages = slices.Concat([]page{{
	path: "expectations", about: "expectation", op: "listExpectations", on: onAll, title: "Today", nav: "Today", group: "Work", key: "t", file: "expectations",
	query: []string{"cursor", "date", "state"}, data: (*call).today, live: []string{"list"}, watch: watchEvery(15 * time.Second),
}}, expectations.pages())

var expectations = &kept[expectation.Expectation, *expectation.Expectation]{
	Kept: desk.Expectations, list: "expectations", first: `{"window": {"from": "06:00", "until": "08:00"}}`, query: []string{"date"},
	plain: expectation.Expectation.Definition,
	data:  (*call).expectation,
	more: []action{{verb: "excuse", op: "excuseExpectation", do: func(ctx context.Context, c *call) (string, error) {
		name := c.r.PathValue("name")
		_, err := c.h.e.Expectations().Excuse(ctx, name, strings.TrimSpace(c.form.Get("date")), c.by())
		return c.link("expectations", name), err
	}}},
	fields: []form.Field{
		{Name: "name", Label: "Name", Kind: form.Text, Once: true, Hint: "1 to 200 characters. It can't be changed later.", Group: "Which files are expected"},
		{Name: "description", Label: "Description", Kind: form.Text},
		{Name: "from.monitor", Label: "Monitor", Kind: form.Text, Hint: "The name of the monitor that sees the files."},
		{Name: "from.job", Label: "or job", Kind: form.Text, Jobs: true, Hint: "The job whose steps receive the files."},
		{Name: "from.path", Label: "or directory", Kind: form.Text, Hint: "The expectation checks this directory itself. Subdirectories are not searched."},
		{Name: "from.connection_id", Label: "Connection of the directory", Kind: form.Text, Hint: "The connection of the server. Empty means a directory on this machine."},
		{Name: "from.lister", Label: "Lister of the directory", Kind: form.Text, Hint: "Empty means the lister of the connection."},
		{Name: "from.every", Label: "Interval between checks of the directory", Kind: form.Text, Hint: "At most 10m, such as 2m. Empty means 1m."},
		{Name: "pattern", Label: "File names", Kind: form.Text, Hint: "With *, ? and {date:20060102} for the day, such as PAY_{date:20060102}_*.csv."},
		{Name: "count.least", Label: "Files a day, at least", Kind: form.Number, Hint: "Empty means 1."},
		{Name: "count.most", Label: "Files a day, at most", Kind: form.Number, Hint: "Empty means any number."},
		{Name: "bytes.least", Label: "Bytes of a file, at least", Kind: form.Number, Hint: "Empty means 1: an empty file is wrong."},
		{Name: "bytes.most", Label: "Bytes of a file, at most", Kind: form.Number, Hint: "Empty means any size."},
		{Name: "window.from", Label: "Expected from", Kind: form.Text, Hint: "A time in the time zone of the calendar, or without a calendar in the one below, such as 06:00.", Group: "When"},
		{Name: "window.until", Label: "until", Kind: form.Text, Hint: "Such as 07:50. A time that is not after the first one is on the next day."},
		{Name: "window.grace", Label: "Grace", Kind: form.Text, Hint: "How long after that time files are still on time, such as 20m."},
		{Name: "calendar", Label: "Calendar", Kind: form.Text, Hint: "The name of a calendar: nothing is expected on the days that it closes."},
		{Name: "cron", Label: "Days", Kind: form.Text, Hint: "If files do not come every day: the days on which this expression has a tick, such as 0 0 0 ? * MON."},
		{Name: "time_zone", Label: "Time zone", Kind: form.Text, Hint: "Without a calendar, such as Europe/Berlin. Empty means UTC."},
		{Name: "due_soon", Label: "Due soon", Kind: form.Text, Hint: "How long before the end of the window, such as 30m."},
		{Name: "early", Label: "Early", Kind: form.Text, Hint: "How long before the window a file counts for the day even if an earlier day is missing, such as 2h."},
		{Name: "label", Label: "Label", Kind: form.JSON, Hint: `A JSON object, such as {"partner": "globex"}.`, Group: "Other"},
		{Name: "disabled", Label: "Nothing is expected now", Kind: form.Check},
	},
}

// A todayPage has a row for each expectation on one day.
type todayPage struct {
	Date, Words           string
	Zone                  string // in which the day is today; empty for another day
	Earlier, Later, Today string // references; Today is empty if the day is today
	Counts                []todayCount
	State                 string // the only state that is shown; empty for all
	Rows                  []todayRow
	Any, New              bool
	First, Next           string
}

// A todayCount says how many expectations are in a state.
type todayCount struct {
	State, Href string
	Count       int
}

// A todayRow is an expectation on one day.
type todayRow struct {
	Name, Description, Href string
	Label                   []string
	State                   string // empty if there is no record of the day
	Words                   string
	Failed                  bool
	Window                  string
	Axis                    axis
	Strip                   []stripDay
	Days                    string // the strip in words
	Summary                 expectation.Summary
	Median, P95             string
}

// An axis is a day as a row of marks, 1440 wide and 12 high.
type axis struct {
	Label string
	Marks []mark
}

type mark struct {
	Class               string
	X, Y, Width, Height int
}

// A stripDay is a day of a strip, 8 wide and 12 high.
type stripDay struct {
	Class string
	X     int
}

// stripDays is the number of days in a strip.
const stripDays = 30

// todayRows is the number of expectations on a page.
const todayRows = 50

func (c *call) today() (any, error) {
	date, err := c.date()
	if err != nil {
		return nil, err
	}
	today := c.day()
	p := &todayPage{Date: date.String(), Words: date.Words(), State: c.query.Get("state"), New: c.Can(c.ctx(), "", access.RightEdit)}
	p.Earlier, p.Later = c.with("date", (date-1).String(), "cursor", ""), c.with("date", (date+1).String(), "cursor", "")
	if p.Zone = "UTC"; date != today {
		p.Zone, p.Today = "", c.with("date", "", "cursor", "")
	}
	e := c.h.e.Expectations()
	counts, err := e.Count(c.ctx(), p.Date, p.Date)
	if err != nil {
		return nil, err
	}
	for _, s := range expectation.States {
		if n := counts[s]; n > 0 {
			p.Counts = append(p.Counts, todayCount{string(s), c.with("state", string(s), "cursor", ""), n})
		}
	}
	var next string
	if p.State != "" {
		next, err = c.todayOfState(p, date)
	} else {
		next, err = c.todayOfAll(p, date)
	}
	p.First, p.Next = c.pages(next)
	return p, err
}

// date returns the day in the address. Without one it is today by the clock of the visitor.
func (c *call) date() (calendar.Date, error) {
	text := c.query.Get("date")
	if text == "" {
		return c.day(), nil
	}
	date, err := calendar.ParseDate(text)
	if year := c.day() - date; err != nil || year > 100*366 || year < -100*366 {
		return 0, problem.Invalid("The day must be one such as 2026-11-29.")
	}
	return date, nil
}

// todayOfAll adds a page of all expectations, by name.
func (c *call) todayOfAll(p *todayPage, date calendar.Date) (next string, err error) {
	list, next, err := c.Expectations(c.ctx(), c.query.Get("cursor"), todayRows)
	if err != nil {
		return "", err
	}
	p.Any = len(list) > 0 || c.query.Get("cursor") != ""
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	days, err := c.lastDays(names, date)
	for i := range list {
		p.Rows = append(p.Rows, c.todayRow(expectations.seen(c, list[i]), days[list[i].Name], date))
	}
	return next, err
}

// todayOfState adds a page of expectations in a state.
func (c *call) todayOfState(p *todayPage, date calendar.Date) (next string, err error) {
	p.Any = true
	f := expectation.ArrivalFilter{From: p.Date, To: p.Date, States: []expectation.State{expectation.State(p.State)}, Limit: todayRows + 1}
	if after := c.query.Get("cursor"); after != "" {
		f.After = &expectation.Kept{Date: p.Date, Expectation: after}
	}
	list, err := c.h.e.Expectations().Arrivals(c.ctx(), f)
	if err != nil {
		return "", err
	}
	if len(list) > todayRows {
		list = list[:todayRows]
		next = list[todayRows-1].Expectation
	}
	var names []string
	for i := range list {
		names = append(names, list[i].Expectation)
	}
	days, err := c.lastDays(names, date)
	if err != nil || len(names) == 0 {
		return next, err
	}
	these, err := c.h.e.Expectations().List(c.ctx(), expectation.Filter{Names: names})
	for i := range these {
		p.Rows = append(p.Rows, c.todayRow(expectations.seen(c, these[i]), days[these[i].Name], date))
	}
	return next, err
}

// lastDays returns the records of expectations up to a date, the latest first, by name.
func (c *call) lastDays(names []string, date calendar.Date) (map[string][]expectation.Arrival, error) {
	if len(names) == 0 {
		return nil, nil
	}
	list, err := c.h.e.Expectations().Arrivals(c.ctx(), expectation.ArrivalFilter{
		Expectations: names, From: (date - stripDays + 1).String(), To: date.String(), Limit: len(names) * stripDays,
	})
	days := make(map[string][]expectation.Arrival)
	for i := range list {
		a := &list[i]
		if !c.Has(c.ctx(), []string{""}, access.RightSee|access.RightValues) {
			desk.HideArrival(a)
		}
		days[a.Expectation] = append(days[a.Expectation], *a)
	}
	return days, err
}

func (c *call) todayRow(x expectation.Expectation, days []expectation.Arrival, date calendar.Date) todayRow {
	r := todayRow{Name: x.Name, Description: x.Description, Href: c.link("expectations", x.Name)}
	for _, name := range slices.Sorted(maps.Keys(x.Label)) {
		r.Label = append(r.Label, name+"="+x.Label[name])
	}
	r.Summary = expectation.Summarize(days)
	if r.Summary.OnTime+r.Summary.Late > 0 {
		r.Median, r.P95 = fromUntil(r.Summary.MedianLate), fromUntil(r.Summary.P95Late)
	}
	words := make(map[expectation.State]int)
	for i := range days {
		a := &days[i]
		r.Strip = append(r.Strip, stripDay{format.LookOf(string(a.State)).Class, int(a.Day()-date+stripDays-1) * 8})
		words[a.State]++
		if a.Day() == date {
			r.State, r.Words, r.Axis = string(a.State), a.Words(), axisOf(a)
			r.Failed = a.State == expectation.Missing || a.State == expectation.Incomplete
			r.Window = windowOf(a)
		}
	}
	var list []string
	for _, s := range expectation.States {
		if words[s] > 0 {
			list = append(list, fmt.Sprintf("%d %s", words[s], format.Words(s)))
		}
	}
	r.Days = strings.Join(list, ", ")
	switch {
	case r.State != "":
	case x.Disabled:
		r.Words = "nothing is expected: it is disabled"
	case date > c.day():
		r.Words = "its record is created when the day begins"
	default:
		r.Words = "nothing is expected on this day"
	}
	return r
}

// fromUntil says in words how many seconds before or after the end of its window a file came.
func fromUntil(seconds int) string {
	d := time.Duration(seconds) * time.Second
	if d < 0 {
		return strings.TrimSuffix(format.Took(-d), " 0 s") + " before"
	}
	return strings.TrimSuffix(format.Took(d), " 0 s") + " after"
}

// windowOf returns the window by the clock of the record's time zone.
func windowOf(a *expectation.Arrival) string {
	zone := a.Location()
	return a.Opens.In(zone).Format("15:04") + " to " + a.Until.In(zone).Format("15:04") + " " + zone.String()
}

// axisOf returns the axis of the day of a record: its window, its grace, a mark for each file, and
// the present time. The axis is longer if the window ends on the next day.
func axisOf(a *expectation.Arrival) axis {
	begin := a.Day().Begin(a.Location())
	end := (a.Day() + 1).Begin(a.Location())
	if a.Ends.After(end) {
		end = a.Ends
	}
	at := func(t time.Time) int {
		return int(1440 * float64(min(max(t.Sub(begin), 0), end.Sub(begin))) / float64(end.Sub(begin)))
	}
	between := func(class string, from, to time.Time, y, height int) mark {
		return mark{class, at(from), y, max(at(to)-at(from), 2), height}
	}
	x := axis{Label: "window " + windowOf(a)}
	x.Marks = append(x.Marks, between("loop", a.Opens, a.Until, 3, 6))
	if a.Ends.After(a.Until) {
		x.Marks = append(x.Marks, between("wait", a.Until, a.Ends, 5, 2))
	}
	for i := range a.Files {
		f := &a.Files[i]
		class := "good"
		if f.Wrong != "" || f.At.After(a.Ends) {
			class = "bad"
		}
		x.Marks = append(x.Marks, mark{class, at(f.At), 0, 8, 12})
	}
	if n := len(a.Files) + a.More; n > 0 {
		x.Label += "; " + format.Plural(n, "file")
	}
	if t := now(); t.After(begin) && t.Before(end) {
		x.Marks = append(x.Marks, mark{"run", at(t), 0, 2, 12})
	}
	return x
}

// An expectationView is the first tab of the page of an expectation.
type expectationView struct {
	expectation.Expectation
	CalendarHref string
	From         target
	Row          todayRow
	Days         []dayRow
	Told         []target
	LastPoll     time.Time
	MonitorState string
	Excuse       string // the initial date in the form
	DayZone      string // the time zone of the dates
}

// A dayRow is a day of an expectation.
type dayRow struct {
	expectation.Arrival
	Words, Window string
	FileRows      []cameRow
}

type cameRow struct {
	expectation.File
	Seen string // by the clock of the day's time zone
	Href string
}

func (c *call) expectation(x *expectation.Expectation) (any, error) {
	date, err := c.date()
	if err != nil {
		return nil, err
	}
	v := &expectationView{Expectation: *x, CalendarHref: c.calendarHref(x.Calendar), Excuse: c.query.Get("date"), DayZone: cmp.Or(x.Zone, "UTC")}
	days, err := c.lastDays([]string{x.Name}, date+1)
	if err != nil {
		return nil, err
	}
	list := days[x.Name]
	if len(list) > 0 {
		v.DayZone = list[0].Location().String()
	}
	shown := slices.DeleteFunc(slices.Clone(list), func(a expectation.Arrival) bool { return a.Day() > date })
	v.Row = c.todayRow(*x, shown, date)
	for i := range list {
		d := dayRow{Arrival: list[i], Words: list[i].Words(), Window: windowOf(&list[i])}
		if strings.Contains(d.Words, d.Note) {
			d.Note = ""
		}
		for _, f := range list[i].Files[:min(len(list[i].Files), 20)] {
			r := cameRow{File: f, Seen: d.Clock(f.SeenAt)}
			if f.Execution != "" {
				r.Href = c.link("executions", string(f.Execution))
			}
			d.FileRows = append(d.FileRows, r)
		}
		v.Days = append(v.Days, d)
		if v.Excuse == "" && list[i].State.Open() {
			v.Excuse = list[i].Date
		}
	}
	if v.Excuse == "" {
		v.Excuse = (date + 1).String()
	}
	seen := x.From.Monitor
	if x.From.Path != "" {
		seen = monitor.LookName(x.Name)
	}
	v.From = target{"monitor", seen, c.link("monitors", seen)}
	if x.From.Job != "" {
		v.From = target{"job", x.From.Job, c.link("jobs", x.From.Job)}
	} else if m, err := c.h.e.Monitors().Get(c.ctx(), seen); err == nil {
		v.LastPoll, v.MonitorState = m.Health.LastPoll, string(m.State)
	}
	v.Told, err = c.told(x.Name)
	return v, err
}

// told returns the subscriptions that notify about a missing file of an expectation.
func (c *call) told(name string) (list []target, err error) {
	const most = 20
	f := notify.Filter{Limit: 1000}
	for len(list) < most {
		subscriptions, err := c.h.e.Subscriptions().List(c.ctx(), f)
		if err != nil {
			return nil, err
		}
		for i := range subscriptions {
			s := &subscriptions[i]
			f.After = s.Name
			r := notify.Record{Events: s.Events, Expectations: s.Expectations, Disabled: s.Disabled}
			if r.WantsExpectation(courier.EventFileMissing, name) && len(list) < most {
				list = append(list, target{"subscription", s.Name, c.link("notifications", s.Name)})
			}
		}
		if len(subscriptions) < f.Limit {
			break
		}
	}
	return list, nil
}
