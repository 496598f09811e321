package dashboard

import (
	"fmt"
	"slices"
	"time"

	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/internal/desk"
)

// A weekPage is a calendar: a table with a column for each day, and a row for each hour in
// which something fires.
type weekPage struct {
	Zone     string
	Zones    []string // to choose from
	Caption  string
	Days     []dayHead
	Often    []cell // what fires often on a day; nil if nothing does
	Hours    []hour
	Notes    []desk.ClockNote
	Previous string
	Next     string
	Today    string
	From     string // as in the address
	Length   int    // days
	Cut      bool
}

type dayHead struct {
	Name, Date, Href string
	Today            bool
}

type hour struct {
	Name  string
	Cells []cell
}

// A cell has what fires on a day, or in an hour of it.
type cell struct {
	Marks []mark
	More  int // marks that are not shown
	Href  string
}

// A mark is a tick, or the ticks of a schedule on a day.
type mark struct {
	Name, Href string
	At         time.Time
	Clock      string // in the zone of the page
	Own        string // in the zone of the schedule, if that is another
	Past       bool
	Often      string // such as "every 5 min, 288"; empty for a tick
}

// weekPage returns the calendar that the address names: seven days from today on in UTC.
func (c *call) week() (*weekPage, error) {
	zone := time.UTC
	if name := c.query.Get("zone"); name != "" {
		l, err := time.LoadLocation(name)
		if err != nil || name == "Local" || len(name) > 100 {
			return nil, problem.Invalid("There is no time zone %q. Write one such as Europe/Berlin.", format.Clip(60, name))
		}
		zone = l
	}
	from, today := now(), now().In(zone).Format(time.DateOnly)
	if text := c.query.Get("from"); text != "" {
		day, err := time.ParseInLocation(time.DateOnly, text, zone)
		if err != nil || day.Year() < 1970 || day.Year() > 2200 {
			return nil, problem.Invalid("The first day must be one such as 2026-11-20, in the years 1970 to 2200.")
		}
		from = day.Add(12 * time.Hour) // midnight may not be there
	}
	days, err := c.number("days", 7, 1, 7)
	if err != nil {
		return nil, err
	}
	w, err := c.Week(c.ctx(), from, days, zone)
	if err != nil {
		return nil, err
	}
	p := &weekPage{Zone: zone.String(), Notes: w.Notes, Cut: w.Cut, From: c.query.Get("from"), Length: days, Today: c.with("from", "", "days", "")}
	p.Caption = fmt.Sprintf("What fires from %s on, by the clock of %s", w.Days[0].Begin.Format("Monday, 2 January 2006"), p.Zone)
	if days == 1 {
		p.Caption = fmt.Sprintf("What fires on %s, by the clock of %s", w.Days[0].Begin.Format("Monday, 2 January 2006"), p.Zone)
	}
	noon := w.Days[0].Begin.Add(12 * time.Hour)
	p.Previous = c.with("from", noon.AddDate(0, 0, -days).In(zone).Format(time.DateOnly))
	p.Next = c.with("from", noon.AddDate(0, 0, days).In(zone).Format(time.DateOnly))
	most := 5
	if days == 1 {
		most = 100
	}
	hours := make([]hour, 24)
	often := make([]cell, days)
	zones := map[string]bool{"UTC": true, p.Zone: true}
	for i := range w.Days {
		d := &w.Days[i]
		date := d.Begin.Format(time.DateOnly)
		head := dayHead{d.Begin.Format("Mon"), d.Begin.Format("2 Jan"), c.with("from", date, "days", "1"), date == today}
		p.Days = append(p.Days, head)
		often[i].Href = head.Href
		for _, t := range d.Ticks {
			zones[t.Zone.String()] = true
			c.place(p, &t, hours, &often[i], i, most, zone)
		}
	}
	for h := range hours {
		if hours[h].Cells == nil {
			continue
		}
		for i := range hours[h].Cells {
			hours[h].Cells[i].Href = p.Days[i].Href
			slices.SortStableFunc(hours[h].Cells[i].Marks, func(x, y mark) int { return x.At.Compare(y.At) })
		}
		hours[h].Name = fmt.Sprintf("%02d:00", h)
		p.Hours = append(p.Hours, hours[h])
	}
	if slices.ContainsFunc(often, func(c cell) bool { return len(c.Marks) > 0 }) {
		p.Often = often
	}
	for name := range zones {
		p.Zones = append(p.Zones, name)
	}
	slices.Sort(p.Zones)
	return p, nil
}

// place puts the ticks of a schedule on a day into the cells: many into one for the day.
func (c *call) place(p *weekPage, t *desk.DayTicks, hours []hour, often *cell, day, most int, zone *time.Location) {
	m := mark{Name: t.Schedule, Href: c.link("schedules", t.Schedule), At: t.First[0], Clock: t.First[0].In(zone).Format("15:04")}
	own := t.Zone.String() != zone.String()
	if t.Count > desk.MaxDayTicks {
		m.Often = oftenText(t, zone)
		often.add(m, most)
		return
	}
	for _, at := range t.First {
		if m.At, m.Clock, m.Past = at, clock(at, zone), at.Before(now()); own {
			m.Own = clock(at, t.Zone) + " " + t.Zone.String()
		}
		h := &hours[at.In(zone).Hour()]
		if h.Cells == nil {
			h.Cells = make([]cell, p.Length)
		}
		h.Cells[day].add(m, most)
	}
}

func (c *cell) add(m mark, most int) {
	if len(c.Marks) < most {
		c.Marks = append(c.Marks, m)
	} else {
		c.More++
	}
}

// clock returns what a clock in a zone shows, with seconds if there are any.
func clock(t time.Time, zone *time.Location) string {
	if t = t.In(zone); t.Second() != 0 {
		return t.Format("15:04:05")
	}
	return t.Format("15:04")
}

// oftenText says how often a schedule fires on a day, such as "every 5 min, 288".
func oftenText(t *desk.DayTicks, zone *time.Location) string {
	n := format.Count(t.Count)
	if t.More {
		n += " or more"
	}
	if t.Every == 0 {
		return n + " times, " + clock(t.First[0], zone) + " to " + clock(t.Last, zone)
	}
	text := "every " + format.Span(t.Every) + ", " + n
	if time.Duration(t.Count)*t.Every < 23*time.Hour && !t.More {
		text += ", " + clock(t.First[0], zone) + " to " + clock(t.Last, zone)
	}
	return text
}
