package calendar

import (
	"strings"
	"time"
)

// Days are the days of a calendar. [New] makes them. They never change, and may be used by
// several goroutines at once. A calendar has an open day in every year, so Next and Previous
// always find one.
type Days struct {
	name    string
	zone    *time.Location
	weekend [7]bool
	closed  map[Date]string   // with their titles
	yearly  map[[2]int]string // by month and day
	open    map[Date]bool
	last    Date // the last date of closed and open; 0 if there is none
}

// New returns the days of a calendar. If the calendar is invalid, the error is an *[Error].
func New(c Calendar) (*Days, error) {
	d, problems := c.read()
	if len(problems) > 0 {
		return nil, &Error{Calendar: c.Name, Problems: problems}
	}
	return d, nil
}

// Name returns the name of the calendar.
func (d *Days) Name() string { return d.name }

// Zone returns the location in which days begin and end.
func (d *Days) Zone() *time.Location { return d.zone }

// On returns the date of an instant in the zone of the calendar.
func (d *Days) On(at time.Time) Date { return DateOf(at.In(d.zone)) }

// Open reports whether a date is open.
func (d *Days) Open(date Date) bool {
	closed, _ := d.look(date)
	return !closed
}

// look reports whether a date is closed, and returns its title.
func (d *Days) look(date Date) (closed bool, title string) {
	if title, closed := d.closed[date]; closed {
		return true, title
	}
	if d.open[date] {
		return false, ""
	}
	_, month, day := date.utc().Date()
	if title, closed := d.yearly[[2]int{int(month), day}]; closed {
		return true, title
	}
	return d.weekend[date.Weekday()], ""
}

// Why says why a date is closed, such as "25 December: closed in target2 (Christmas Day)";
// empty if it is open.
func (d *Days) Why(date Date) string {
	closed, title := d.look(date)
	if !closed {
		return ""
	}
	if title == "" && d.weekend[date.Weekday()] {
		title = date.Weekday().String()
	}
	text := date.utc().Format("2 January") + ": closed in " + d.name
	if title = strings.TrimSpace(title); title != "" {
		text += " (" + title + ")"
	}
	return text
}

// Title returns the title of a closed date, such as Christmas Day; empty if it has none.
func (d *Days) Title(date Date) string {
	_, title := d.look(date)
	return title
}

// Next returns the first open date after the given one.
func (d *Days) Next(date Date) Date {
	for date++; !d.Open(date); date++ {
	}
	return date
}

// Previous returns the last open date before the given one.
func (d *Days) Previous(date Date) Date {
	for date--; !d.Open(date); date-- {
	}
	return date
}

// BusinessDays returns the number of open dates from one date up to, but not including, another.
func (d *Days) BusinessDays(from, to Date) int {
	n := 0
	for ; from < to; from++ {
		if d.Open(from) {
			n++
		}
	}
	return n
}

// Ends returns the last single date that the calendar names, and whether there is one. After it,
// only the weekend and the yearly closed days decide which dates are open.
func (d *Days) Ends() (last Date, ok bool) {
	return d.last, len(d.closed)+len(d.open) > 0
}
