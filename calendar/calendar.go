// Package calendar says on which days business is done.
//
// A [Calendar] is the definition: a time zone, the weekend, and the days that are closed or open.
// [New] returns its [Days], which answer whether a date is open, which open date is next or
// previous, and how many there are between two dates. They have no clock and do no I/O. A
// [Service] checks calendars and saves each as a version of its name in the catalog of a store.
// Schedules, monitors and expectations name the calendar that they use.
//
// Programs get the service from their engine:
//
//	_, err := e.Calendars().Set(ctx, calendar.Calendar{
//		Name: "target2", Zone: "Europe/Berlin", Weekend: []string{"saturday", "sunday"},
//		Closed: []calendar.Closing{{Yearly: "12-25", Title: "Christmas Day"}, {Date: "2027-03-26", Title: "Good Friday"}},
//	}, courier.By{})
package calendar

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/cron"
	"github.com/courierhq/courier/internal/errtext"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/strictjson"
)

// A Calendar says which days are open. A day is open unless it is on the weekend or closed. A day
// in OpenDays is always open.
type Calendar struct {
	Name        string `json:"name"` // 1 to 200 characters, no control characters
	Description string `json:"description,omitempty"`
	// Zone is the time zone in which days begin and end, by its name in the tz database,
	// such as Europe/Berlin. Empty means UTC.
	Zone string `json:"time_zone,omitempty"`
	// Weekend lists the closed days of the week, by their English names in lowercase. An empty
	// list means that there is no weekend.
	Weekend []string `json:"weekend,omitempty"`
	// Closed lists further closed days.
	Closed []Closing `json:"closed,omitempty"`
	// OpenDays are dates that are open although they are on the weekend or closed every year,
	// such as 2026-11-28. In JSON the field is open.
	OpenDays []string `json:"open,omitempty"`

	// The following fields report the state. Set ignores them.

	Version int       `json:"version,omitempty"` // counts from 1
	SavedBy string    `json:"saved_by,omitempty"`
	SavedAt time.Time `json:"saved_at,omitzero"`
}

// A Closing is a closed day. Either Date or Yearly is given. In JSON, a Closing with only a date
// can be just that date.
type Closing struct {
	Date   string `json:"date,omitempty"`   // such as 2026-12-25
	Yearly string `json:"yearly,omitempty"` // month and day of every year, such as 05-01
	Title  string `json:"title,omitempty"`  // such as Labour Day; at most 200 characters
}

// Definition returns the calendar without the fields that only report its state. Two calendars
// are the same if their definitions are equal.
func (c Calendar) Definition() Calendar {
	c.Version, c.SavedBy, c.SavedAt = 0, "", time.Time{}
	return c
}

// Limits of a calendar.
const (
	maxDates = 5000 // in each of the lists
	maxTitle = 200  // characters
	minYear  = 1970
	maxYear  = 2199
)

// weekdays are the names of the days of the week, from Sunday on.
var weekdays = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}

// Check returns all problems of the calendar.
func (c *Calendar) Check() []courier.Problem {
	_, found := c.read()
	return found
}

// read returns the days of the calendar, and its problems.
func (c *Calendar) read() (*Days, []courier.Problem) {
	var found []courier.Problem
	add := func(field, format string, args ...any) {
		found = append(found, courier.Problem{Step: -1, Field: field, Message: fmt.Sprintf(format, args...)})
	}
	d := &Days{name: c.Name, zone: time.UTC, closed: make(map[Date]string), yearly: make(map[[2]int]string), open: make(map[Date]bool)}
	if problem := errtext.Name(c.Name); problem != "" {
		add("name", "%s", problem)
	}
	if zone, err := cron.LoadZone(c.Zone); err != nil {
		add("time_zone", "%v", err)
	} else {
		d.zone = zone.Location()
	}
	for i, name := range c.Weekend {
		field := fmt.Sprintf("weekend[%d]", i)
		day := slices.Index(weekdays, name)
		switch {
		case day < 0:
			add(field, "unknown day of the week %q; %s", errtext.Shorten(name, 60), nearest.DidYouMean(name, weekdays))
		case d.weekend[day]:
			add(field, "%q is there twice", name)
		default:
			d.weekend[day] = true
		}
	}
	for _, l := range []struct {
		field string
		n     int
	}{{"closed", len(c.Closed)}, {"open", len(c.OpenDays)}} {
		if l.n > maxDates {
			add(l.field, "there are %d, more than %d", l.n, maxDates)
		}
	}
	for i, x := range c.Closed[:min(len(c.Closed), maxDates)] {
		d.close(&x, func(message string) { add(fmt.Sprintf("closed[%d]", i), "%s", message) })
	}
	for i, text := range c.OpenDays[:min(len(c.OpenDays), maxDates)] {
		field := fmt.Sprintf("open[%d]", i)
		date, err := readDate(text)
		_, closed := d.closed[date]
		switch {
		case err != nil:
			add(field, "%v", err)
		case closed:
			add(field, "%s is in closed too; leave it out of one of them", text)
		case d.open[date]:
			add(field, "%s is there twice", text)
		default:
			d.open[date] = true
			d.last = max(d.last, date)
		}
	}
	if len(found) == 0 {
		for _, year := range d.years() {
			if d.BusinessDays(NewDate(year, time.January, 1), NewDate(year+1, time.January, 1)) == 0 {
				add("closed", "no day of %d is open; leave out days of weekend or closed, or name open ones", year)
				break
			}
		}
	}
	return d, found
}

// close adds a closed day, or reports what is wrong with it.
func (d *Days) close(x *Closing, wrong func(message string)) {
	if utf8.RuneCountInString(x.Title) > maxTitle || !utf8.ValidString(x.Title) || strings.ContainsFunc(x.Title, unicode.IsControl) {
		wrong(fmt.Sprintf("its title has more than %d characters, has control characters, or is not valid UTF-8", maxTitle))
		return
	}
	if (x.Date == "") == (x.Yearly == "") {
		wrong(`give a date such as "2026-12-25", or {"yearly": "12-25"}`)
		return
	}
	if x.Yearly != "" {
		t, err := time.Parse("2006-01-02", "2000-"+x.Yearly) // a leap year
		key := [2]int{int(t.Month()), t.Day()}
		_, twice := d.yearly[key]
		switch {
		case err != nil:
			wrong(fmt.Sprintf("%q is not a month and day such as 05-01", errtext.Shorten(x.Yearly, 60)))
		case twice:
			wrong(x.Yearly + " of every year is there twice")
		default:
			d.yearly[key] = x.Title
		}
		return
	}
	date, err := readDate(x.Date)
	_, twice := d.closed[date]
	switch {
	case err != nil:
		wrong(err.Error())
	case twice:
		wrong(x.Date + " is there twice")
	default:
		d.closed[date] = x.Title
		d.last = max(d.last, date)
	}
}

// readDate reads a date of a calendar.
func readDate(text string) (Date, error) {
	date, err := ParseDate(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a date such as 2026-12-25", errtext.Shorten(text, 60))
	}
	if year := date.utc().Year(); year < minYear || year > maxYear {
		return 0, fmt.Errorf("%s is not in the years %d to %d", text, minYear, maxYear)
	}
	return date, nil
}

// years returns the years that the calendar names, and one of each other kind of year: a year has
// 365 or 366 days, and begins on one of seven days of the week.
func (d *Days) years() []int {
	named := make(map[int]bool)
	for date := range d.closed {
		named[date.utc().Year()] = true
	}
	for date := range d.open {
		named[date.utc().Year()] = true
	}
	var years []int
	for year := range named {
		years = append(years, year)
	}
	slices.Sort(years)
	kinds := make(map[[2]int]bool)
	for year := minYear; year <= maxYear; year++ {
		first := NewDate(year, time.January, 1)
		kind := [2]int{int(NewDate(year+1, time.January, 1) - first), int(first.Weekday())}
		if !named[year] && !kinds[kind] {
			kinds[kind] = true
			years = append(years, year)
		}
	}
	return years
}

// MarshalJSON writes a closing that has only a date as that date.
func (x Closing) MarshalJSON() ([]byte, error) {
	if x.Title == "" && x.Yearly == "" {
		return jsontext.AppendAny(nil, x.Date)
	}
	type plain Closing // without methods
	return jsontext.AppendAny(nil, plain(x))
}

// UnmarshalJSON reads a date, or an object, strictly.
func (x *Closing) UnmarshalJSON(data []byte) error {
	return strictjson.Read(x, data, (*Closing).read)
}

func (x *Closing) read(dec *json.Decoder) error {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return err
	}
	if raw[0] != '{' {
		return strictjson.Into(&x.Date)(strictjson.NewDecoder(raw))
	}
	return strictjson.ReadObject(strictjson.NewDecoder(raw), strictjson.Fields{
		"date": strictjson.Into(&x.Date), "yearly": strictjson.Into(&x.Yearly), "title": strictjson.Into(&x.Title),
	})
}

// UnmarshalJSON reads a calendar strictly, with [courier.ReadDefinition].
func (c *Calendar) UnmarshalJSON(data []byte) error {
	return courier.ReadDefinition("calendar", data, c, (*Calendar).fields)
}

func (c *Calendar) fields() map[string]func(*json.Decoder) error {
	return strictjson.Fields{
		"name": strictjson.Into(&c.Name), "description": strictjson.Into(&c.Description), "time_zone": strictjson.Into(&c.Zone), "weekend": strictjson.Into(&c.Weekend),
		"closed": strictjson.IntoList("closed day", &c.Closed, (*Closing).read), "open": strictjson.Into(&c.OpenDays),
		"version": strictjson.Into(&c.Version), "saved_by": strictjson.Into(&c.SavedBy), "saved_at": strictjson.IntoTime(&c.SavedAt),
	}
}

// An Error lists all problems of a calendar. It matches [courier.ErrInvalid].
type Error struct {
	Calendar string // its name
	Problems []courier.Problem
}

// Error lists the problems, one per line. After the first 20 it counts the rest.
func (e *Error) Error() string {
	return errtext.Refused("set calendar", e.Calendar, errtext.NothingSaved, e.Problems)
}

// Is reports whether target is [courier.ErrInvalid].
func (e *Error) Is(target error) bool { return target == courier.ErrInvalid }
