package calendar_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
)

func days(t *testing.T, c calendar.Calendar) *calendar.Days {
	t.Helper()
	d, err := calendar.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func date(t *testing.T, text string) calendar.Date {
	t.Helper()
	d, err := calendar.ParseDate(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// published are calendars of three years, from the dates that were published. What falls on a
// weekend is not listed, since the rules of who published it differ there.
var published = []struct {
	calendar calendar.Calendar
	closed   []string    // on days that are not of the weekend
	business map[int]int // by year
	next     [][2]string // the open day after a date
	before   [][2]string // the open day before a date
}{
	{
		// The closing days of TARGET: 1 January, Good Friday, Easter Monday, 1 May, 25 and
		// 26 December.
		calendar: calendar.Calendar{
			Name: "target2", Zone: "Europe/Berlin", Weekend: []string{"saturday", "sunday"},
			Closed: []calendar.Closing{
				{Yearly: "01-01", Title: "New Year's Day"}, {Yearly: "05-01", Title: "Labour Day"}, {Yearly: "12-25", Title: "Christmas Day"}, {Yearly: "12-26", Title: "26 December"},
				{Date: "2025-04-18", Title: "Good Friday"}, {Date: "2025-04-21", Title: "Easter Monday"},
				{Date: "2026-04-03", Title: "Good Friday"}, {Date: "2026-04-06", Title: "Easter Monday"},
				{Date: "2027-03-26", Title: "Good Friday"}, {Date: "2027-03-29", Title: "Easter Monday"},
			},
		},
		closed: []string{
			"2025-01-01", "2025-04-18", "2025-04-21", "2025-05-01", "2025-12-25", "2025-12-26",
			"2026-01-01", "2026-04-03", "2026-04-06", "2026-05-01", "2026-12-25",
			"2027-01-01", "2027-03-26", "2027-03-29",
		},
		business: map[int]int{2025: 255, 2026: 256, 2027: 258},
		next:     [][2]string{{"2026-04-02", "2026-04-07"}, {"2026-12-24", "2026-12-28"}, {"2027-03-25", "2027-03-30"}},
		before:   [][2]string{{"2026-04-07", "2026-04-02"}, {"2025-12-29", "2025-12-24"}, {"2027-05-03", "2027-04-30"}},
	},
	{
		// The holidays of the Federal Reserve Banks. One that falls on a Saturday closes no
		// other day; one that falls on a Sunday closes the Monday.
		calendar: calendar.Calendar{
			Name: "fed", Zone: "America/New_York", Weekend: []string{"saturday", "sunday"},
			Closed: []calendar.Closing{
				{Yearly: "01-01"}, {Yearly: "06-19", Title: "Juneteenth"}, {Yearly: "07-04"}, {Yearly: "11-11", Title: "Veterans Day"}, {Yearly: "12-25"},
				{Date: "2025-01-20"}, {Date: "2025-02-17"}, {Date: "2025-05-26"}, {Date: "2025-09-01"}, {Date: "2025-10-13"}, {Date: "2025-11-27"},
				{Date: "2026-01-19"}, {Date: "2026-02-16"}, {Date: "2026-05-25"}, {Date: "2026-09-07"}, {Date: "2026-10-12"}, {Date: "2026-11-26"},
				{Date: "2027-01-18"}, {Date: "2027-02-15"}, {Date: "2027-05-31"}, {Date: "2027-07-05"}, {Date: "2027-09-06"}, {Date: "2027-10-11"}, {Date: "2027-11-25"},
			},
		},
		closed: []string{
			"2025-01-01", "2025-01-20", "2025-02-17", "2025-05-26", "2025-06-19", "2025-07-04", "2025-09-01", "2025-10-13", "2025-11-11", "2025-11-27", "2025-12-25",
			"2026-01-01", "2026-01-19", "2026-02-16", "2026-05-25", "2026-06-19", "2026-09-07", "2026-10-12", "2026-11-11", "2026-11-26", "2026-12-25",
			"2027-01-01", "2027-01-18", "2027-02-15", "2027-05-31", "2027-07-05", "2027-09-06", "2027-10-11", "2027-11-11", "2027-11-25",
		},
		business: map[int]int{2025: 250, 2026: 251, 2027: 252},
		next:     [][2]string{{"2026-07-02", "2026-07-03"}, {"2026-07-03", "2026-07-06"}, {"2027-07-02", "2027-07-06"}},
		before:   [][2]string{{"2026-11-27", "2026-11-25"}, {"2027-01-19", "2027-01-15"}},
	},
	{
		// The bank holidays of England and Wales, with their substitute days.
		calendar: calendar.Calendar{
			Name: "uk", Zone: "Europe/London", Weekend: []string{"saturday", "sunday"},
			Closed: []calendar.Closing{
				{Yearly: "01-01"}, {Yearly: "12-25"}, {Yearly: "12-26"},
				{Date: "2025-04-18"}, {Date: "2025-04-21"}, {Date: "2025-05-05"}, {Date: "2025-05-26"}, {Date: "2025-08-25"},
				{Date: "2026-04-03"}, {Date: "2026-04-06"}, {Date: "2026-05-04"}, {Date: "2026-05-25"}, {Date: "2026-08-31"}, {Date: "2026-12-28", Title: "Boxing Day (substitute day)"},
				{Date: "2027-03-26"}, {Date: "2027-03-29"}, {Date: "2027-05-03"}, {Date: "2027-05-31"}, {Date: "2027-08-30"},
				{Date: "2027-12-27", Title: "Christmas Day (substitute day)"}, {Date: "2027-12-28", Title: "Boxing Day (substitute day)"},
			},
		},
		closed: []string{
			"2025-01-01", "2025-04-18", "2025-04-21", "2025-05-05", "2025-05-26", "2025-08-25", "2025-12-25", "2025-12-26",
			"2026-01-01", "2026-04-03", "2026-04-06", "2026-05-04", "2026-05-25", "2026-08-31", "2026-12-25", "2026-12-28",
			"2027-01-01", "2027-03-26", "2027-03-29", "2027-05-03", "2027-05-31", "2027-08-30", "2027-12-27", "2027-12-28",
		},
		business: map[int]int{2025: 253, 2026: 253, 2027: 253},
		next:     [][2]string{{"2026-12-24", "2026-12-29"}, {"2027-12-24", "2027-12-29"}},
		before:   [][2]string{{"2026-12-29", "2026-12-24"}, {"2027-01-04", "2026-12-31"}},
	},
}

// The days of three calendars are those that were published for three years.
func TestPublished(t *testing.T) {
	for _, c := range published {
		d := days(t, c.calendar)
		var closed []string
		for at := date(t, "2025-01-01"); at < date(t, "2028-01-01"); at++ {
			weekend := at.Weekday() == time.Saturday || at.Weekday() == time.Sunday
			if weekend && d.Open(at) {
				t.Errorf("%s: %s, a %s, is open", d.Name(), at, at.Weekday())
			}
			if !weekend && !d.Open(at) {
				closed = append(closed, at.String())
			}
		}
		if !slices.Equal(closed, c.closed) {
			t.Errorf("%s: closed are\n%q, and not\n%q", d.Name(), closed, c.closed)
		}
		for year, want := range c.business {
			if got := d.BusinessDays(calendar.NewDate(year, time.January, 1), calendar.NewDate(year+1, time.January, 1)); got != want {
				t.Errorf("%s: %d business days in %d, want %d", d.Name(), got, year, want)
			}
		}
		for _, x := range c.next {
			if got := d.Next(date(t, x[0])); got.String() != x[1] {
				t.Errorf("%s: after %s comes %s, want %s", d.Name(), x[0], got, x[1])
			}
		}
		for _, x := range c.before {
			if got := d.Previous(date(t, x[0])); got.String() != x[1] {
				t.Errorf("%s: before %s comes %s, want %s", d.Name(), x[0], got, x[1])
			}
		}
	}
}

// Next and Previous are what a search day by day finds, and BusinessDays counts as they step.
func TestSteps(t *testing.T) {
	for _, c := range published {
		d := days(t, c.calendar)
		from, to := date(t, "2025-12-20"), date(t, "2026-01-10")
		steps := 0
		for at := d.Next(from - 1); at < to; at = d.Next(at) {
			if steps++; !d.Open(at) || d.Previous(d.Next(at)) != at {
				t.Errorf("%s: %s is open: %t; back from the next is %s", d.Name(), at, d.Open(at), d.Previous(d.Next(at)))
			}
		}
		if got := d.BusinessDays(from, to); got != steps {
			t.Errorf("%s: %d business days, %d steps", d.Name(), got, steps)
		}
		if d.BusinessDays(to, from) != 0 || d.BusinessDays(from, from) != 0 {
			t.Errorf("%s: business days of no days", d.Name())
		}
	}
}

// What is closed says why, and a date that is open by name is open on a weekend and in a
// closed day of every year. 29 February is a day of leap years only.
func TestReasons(t *testing.T) {
	d := days(t, calendar.Calendar{
		Name: "target2", Weekend: []string{"saturday", "sunday"}, OpenDays: []string{"2026-11-28", "2027-05-01"},
		Closed: []calendar.Closing{{Date: "2026-12-24"}, {Yearly: "12-25", Title: "Christmas Day"}, {Yearly: "05-01"}, {Yearly: "02-29"}},
	})
	for day, want := range map[string]string{
		"2026-12-25": "25 December: closed in target2 (Christmas Day)",
		"2026-12-24": "24 December: closed in target2",
		"2026-12-27": "27 December: closed in target2 (Sunday)",
		"2026-11-28": "", "2027-05-01": "", "2026-12-23": "",
		"2028-05-01": "1 May: closed in target2", "2028-02-29": "29 February: closed in target2", "2027-03-01": "",
	} {
		if got := d.Why(date(t, day)); got != want {
			t.Errorf("%s: %q, want %q", day, got, want)
		}
	}
	if last, ok := d.Ends(); !ok || last.String() != "2027-05-01" {
		t.Errorf("it ends on %s, %t", last, ok)
	}
	if _, ok := days(t, calendar.Calendar{Name: "c", Closed: []calendar.Closing{{Yearly: "01-01"}}}).Ends(); ok {
		t.Error("a calendar without dates of its own ends")
	}
}

// A day is that of the calendar's zone, and begins where the clocks skip midnight at the first
// instant that there is.
func TestZones(t *testing.T) {
	d := days(t, calendar.Calendar{Name: "c", Zone: "Asia/Tokyo"})
	if got := d.On(time.Date(2026, 12, 24, 15, 0, 0, 0, time.UTC)); got.String() != "2026-12-25" {
		t.Errorf("it is %s in Tokyo", got)
	}
	for name, day := range map[string]string{
		"America/Sao_Paulo": "2018-11-04 01:00", "Africa/Cairo": "2024-04-26 01:00", "Europe/Berlin": "2027-03-28 00:00", "America/Havana": "2024-03-10 01:00",
		"UTC": "2027-01-01 00:00", "Asia/Beirut": "2024-03-31 01:00",
	} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		begin := date(t, day[:10]).Begin(zone)
		if got := begin.Format("2006-01-02 15:04"); got != day {
			t.Errorf("%s: the day begins at %s, want %s", name, got, day)
		}
		if before := calendar.DateOf(begin.Add(-1)); before != date(t, day[:10])-1 {
			t.Errorf("%s: right before %s it is %s", name, day, before)
		}
	}
}

// All that is wrong with a calendar is told at once.
func TestCheck(t *testing.T) {
	always := make([]calendar.Closing, 0, 366)
	for at := calendar.NewDate(2024, time.January, 1); at < calendar.NewDate(2025, time.January, 1); at++ {
		always = append(always, calendar.Closing{Yearly: at.String()[5:]})
	}
	var year []calendar.Closing
	for at := calendar.NewDate(2027, time.January, 1); at < calendar.NewDate(2028, time.January, 1); at++ {
		year = append(year, calendar.Closing{Date: at.String()})
	}
	week := []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}
	for name, c := range map[string]struct {
		calendar calendar.Calendar
		want     []string
	}{
		"sound": {calendar.Calendar{Name: "c"}, nil},
		"all at once": {calendar.Calendar{
			Zone: "Europe/Berln", Weekend: []string{"saterday", "sunday", "sunday"}, OpenDays: []string{"2026-02-30", "2026-01-01", "2026-03-01", "2026-03-01"},
			Closed: []calendar.Closing{{}, {Date: "2026-01-01"}, {Date: "2026-01-01"}, {Date: "x"}, {Yearly: "13-01"}, {Yearly: "02-29"}, {Yearly: "02-29"}, {Date: "2026-02-01", Yearly: "02-01"}, {Date: "1812-01-01"}, {Date: "2026-03-03", Title: "a\nb"}},
		}, []string{
			"name: it is missing", `time_zone: there is no time zone "Europe/Berln"; did you mean "Europe/Berlin"?`,
			`weekend[0]: unknown day of the week "saterday"; did you mean "saturday"?`, `weekend[2]: "sunday" is there twice`,
			`closed[0]: give a date such as "2026-12-25", or {"yearly": "12-25"}`, "closed[2]: 2026-01-01 is there twice", `closed[3]: "x" is not a date such as 2026-12-25`,
			`closed[4]: "13-01" is not a month and day such as 05-01`, "closed[6]: 02-29 of every year is there twice", `closed[7]: give a date such as "2026-12-25", or {"yearly": "12-25"}`,
			"closed[8]: 1812-01-01 is not in the years 1970 to 2199", "closed[9]: its title has more than 200 characters, has control characters, or is not valid UTF-8",
			`open[0]: "2026-02-30" is not a date such as 2026-12-25`, "open[1]: 2026-01-01 is in closed too; leave it out of one of them", "open[3]: 2026-03-01 is there twice",
		}},
		"no day of the week":    {calendar.Calendar{Name: "c", Weekend: week}, []string{"closed: no day of 1970 is open; leave out days of weekend or closed, or name open ones"}},
		"open in one year only": {calendar.Calendar{Name: "c", Weekend: week, OpenDays: []string{"2026-11-30"}}, []string{"closed: no day of 1970 is open; leave out days of weekend or closed, or name open ones"}},
		"no day of any year":    {calendar.Calendar{Name: "c", Closed: always}, []string{"closed: no day of 1970 is open; leave out days of weekend or closed, or name open ones"}},
		"no day of a year":      {calendar.Calendar{Name: "c", Closed: year}, []string{"closed: no day of 2027 is open; leave out days of weekend or closed, or name open ones"}},
		"one day of that year":  {calendar.Calendar{Name: "c", Closed: year[1:]}, nil},
		"too many":              {calendar.Calendar{Name: "c", OpenDays: make([]string, 5001)}, nil}, // see below
	} {
		var got []string
		for _, p := range c.calendar.Check() {
			got = append(got, p.Field+": "+p.Message)
		}
		if name == "too many" {
			if !slices.Contains(got, "open: there are 5001, more than 5000") {
				t.Errorf("%s: %q", name, got[:1])
			}
			continue
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %s", name, strings.Join(got, "\n"))
		}
		if _, err := calendar.New(c.calendar); (err == nil) != (c.want == nil) || err != nil && !errors.Is(err, courier.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A calendar is read and written as JSON: a closed day with nothing but a date is that date.
func TestJSON(t *testing.T) {
	const text = `{"name":"target2","time_zone":"Europe/Berlin","weekend":["saturday","sunday"],"closed":["2026-12-25",{"yearly":"05-01","title":"Labour Day"}],"open":["2026-11-28"]}`
	var c calendar.Calendar
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	if c.Closed[0].Date != "2026-12-25" || c.Closed[1].Yearly != "05-01" || c.OpenDays[0] != "2026-11-28" || len(c.Check()) > 0 {
		t.Errorf("%+v", c)
	}
	back, err := json.Marshal(c)
	if err != nil || string(back) != text {
		t.Errorf("%s, %v", back, err)
	}
	for wrong, want := range map[string]string{
		`{"name": "c", "closd": []}`:                       `unknown field "closd"; did you mean "closed"?`,
		`{"name": "c", "closed": [{"datum": "2026-1-1"}]}`: `unknown field "datum"; known are date, title, yearly`,
		`{"name": "c", "closed": [5]}`:                     "must be",
	} {
		if err := json.Unmarshal([]byte(wrong), &c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func ExampleDays() {
	days, err := calendar.New(calendar.Calendar{
		Name: "target2", Zone: "Europe/Berlin", Weekend: []string{"saturday", "sunday"},
		Closed: []calendar.Closing{{Yearly: "12-25", Title: "Christmas Day"}, {Yearly: "12-26"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	christmas := calendar.NewDate(2026, time.December, 25)
	fmt.Println(days.Why(christmas))
	fmt.Println(days.Previous(christmas), days.Next(christmas))
	fmt.Println(days.BusinessDays(calendar.NewDate(2026, time.December, 1), calendar.NewDate(2027, time.January, 1)))
	// Output:
	// 25 December: closed in target2 (Christmas Day)
	// 2026-12-24 2026-12-28
	// 22
}
