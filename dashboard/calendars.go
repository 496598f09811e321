package dashboard

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/dashboard/internal/form"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

var calendarPages = slices.Concat([]page{{
	path: "calendars", about: "calendar", op: "listCalendars", on: onAll, title: "Calendars", group: "Rules", file: "calendars",
	query: []string{"cursor"}, data: (*call).calendars, live: []string{"list"}, watch: watchEvery(30 * time.Second),
}}, calendars.pages())

var calendars = &kept[calendar.Calendar, *calendar.Calendar]{
	Kept: desk.Calendars, list: "calendars", first: `{"time_zone": "UTC", "weekend": ["saturday", "sunday"]}`,
	plain: calendar.Calendar.Definition,
	refused: func(name string, err error) error {
		return &calendar.Error{Calendar: name, Problems: []courier.Problem{{Step: -1, Field: "confirm", Message: err.Error()}}}
	},
	data: (*call).calendar, tried: (*call).closedDays, try: "Show closed days",
	fields: []form.Field{
		{Name: "name", Label: "Name", Kind: form.Text, Once: true, Hint: "1 to 200 characters. It can't be changed later.", Group: "Which days are open"},
		{Name: "description", Label: "Description", Kind: form.Text},
		{Name: "time_zone", Label: "Time zone", Kind: form.Text, Hint: "The time zone in which days begin and end, such as Europe/Berlin."},
		{Name: "weekend", Label: "Weekend", Kind: form.List, Hint: "The days of the week that are closed, such as saturday. One per line."},
		{Name: "closed", Label: "Closed days", Kind: form.JSON, Hint: `A JSON list, such as ["2030-04-19", {"yearly": "12-25", "title": "Christmas Day"}].`},
		{Name: "open", Label: "Open days", Kind: form.List, Hint: "Dates that are open although they are on a weekend or closed every year, such as 2030-11-30. One per line."},
	},
}

// A calendarRow is a calendar as it is listed.
type calendarRow struct {
	calendar.Calendar
	Href   string
	Today  string // open, or why it is closed
	Closed bool   // today is
	Ends   string // the last date that it names; empty for none
}

func (c *call) calendarRow(x *calendar.Calendar) calendarRow {
	r := calendarRow{Calendar: *x, Href: c.link("calendars", x.Name)}
	days, err := calendar.New(*x)
	if err != nil {
		r.Today = format.Sentence(err.Error())
		return r
	}
	r.Today = days.Why(days.On(now()))
	if r.Closed = r.Today != ""; !r.Closed {
		r.Today = "open"
	}
	if last, ok := days.Ends(); ok {
		r.Ends = last.String()
	}
	return r
}

func (c *call) calendars() (any, error) {
	list, next, err := c.Calendars(c.ctx(), c.query.Get("cursor"), listPage)
	if err != nil {
		return nil, err
	}
	l := &keptList[calendarRow]{New: c.Can(c.ctx(), "", access.RightEdit)}
	for i := range list {
		l.Rows = append(l.Rows, c.calendarRow(&list[i]))
	}
	l.First, l.Next = c.pages(next)
	return l, nil
}

// calendarHref returns the reference of a calendar. It is empty if the name is empty or the visitor
// may not see calendars.
func (c *call) calendarHref(name string) string {
	if name == "" || !c.Can(c.ctx(), "", access.RightSee) {
		return ""
	}
	return c.link("calendars", name)
}

// A calendarView is the first tab of the page of a calendar.
type calendarView struct {
	calendarRow
	Days     any // a *closedDays
	Users    []target
	Versions []calendar.Calendar
}

// closedDays are the days that a calendar closes, besides the weekend.
type closedDays struct {
	Days []closedDay
	Open []string // the days of the weekend that are open
	Year string   // the number of open days in the year from today
}

// A closedDay is a day that a calendar closes.
type closedDay struct{ Date, Weekday, Title string }

const (
	maxUsers         = 100
	calendarVersions = 20
)

func (c *call) calendar(x *calendar.Calendar) (any, error) {
	v := &calendarView{calendarRow: c.calendarRow(x), Days: c.closedDays(x)}
	users, err := c.h.e.Calendars().Users(c.ctx(), x.Name)
	if err != nil {
		return nil, err
	}
	for _, user := range users[:min(len(users), maxUsers)] {
		kind, quoted, _ := strings.Cut(user, " ")
		name, err := strconv.Unquote(quoted)
		if err != nil {
			name = quoted
		}
		v.Users = append(v.Users, target{kind, name, c.link(kind+"s", name)})
	}
	v.Versions, err = c.h.e.Calendars().Versions(c.ctx(), x.Name, store.VersionFilter{Limit: calendarVersions})
	return v, err
}

// closedDays returns the days that a calendar closes in the year from today. The calendar need not
// be saved.
func (c *call) closedDays(x *calendar.Calendar) any {
	v := &closedDays{}
	days, err := calendar.New(*x)
	if err != nil {
		return v
	}
	today := days.On(now())
	for date := today; date < today+365; date++ {
		weekend := slices.Contains(x.Weekend, strings.ToLower(date.Weekday().String()))
		switch {
		case weekend && days.Open(date):
			v.Open = append(v.Open, date.String())
		case !weekend && !days.Open(date):
			v.Days = append(v.Days, closedDay{date.String(), date.Weekday().String(), days.Title(date)})
		}
	}
	v.Year = format.Count(days.BusinessDays(today, today+365))
	return v
}
