package dashboard

import (
	"time"

	"github.com/courierhq/courier/dashboard/internal/calendar"
	"github.com/courierhq/courier/dashboard/internal/problem"
)

// A weekPage is a calendar with references to other days.
type weekPage struct {
	*calendar.Calendar
	Previous string
	Next     string
	Today    string
	From     string // the first day, as in the address
	Length   int    // number of days
}

// week returns the calendar that the address names. By default it shows seven days from today, in
// the zone in which the page shows instants.
func (c *call) week() (*weekPage, error) {
	zone, _ := c.clocks()
	if name := c.query.Get("zone"); name != "" {
		var err error
		if zone, err = zoneOf(name); err != nil {
			return nil, err
		}
	}
	from := now()
	if text := c.query.Get("from"); text != "" {
		day, err := time.ParseInLocation(time.DateOnly, text, zone)
		if err != nil || day.Year() < 1970 || day.Year() > 2200 {
			return nil, problem.Invalid("The first day must be one such as 2026-11-20, in the years 1970 to 2200.")
		}
		from = day.Add(12 * time.Hour) // midnight may not exist on that day
	}
	days, err := c.number("days", 7, 1, 7)
	if err != nil {
		return nil, err
	}
	w, err := c.Week(c.ctx(), from, days, zone)
	if err != nil {
		return nil, err
	}
	p := &weekPage{From: c.query.Get("from"), Length: days, Today: c.with("from", "", "days", "")}
	p.Calendar = calendar.New(&w, now(), calendar.Links{
		Day:      func(date string) string { return c.with("from", date, "days", "1") },
		Schedule: func(name string) string { return c.link("schedules", name) },
	})
	noon := w.Days[0].Begin.Add(12 * time.Hour)
	p.Previous = c.with("from", noon.AddDate(0, 0, -days).In(zone).Format(time.DateOnly))
	p.Next = c.with("from", noon.AddDate(0, 0, days).In(zone).Format(time.DateOnly))
	return p, nil
}
