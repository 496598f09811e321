package expectation

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
)

// payroll is an expectation in which nothing is wrong.
func payroll() Expectation {
	return Expectation{
		Name: "payroll", From: From{Monitor: "globex-in"}, Pattern: "PAY_{date:20060102}_*.csv",
		Window: Window{From: "06:00", Until: "07:50", Grace: "20m"}, Zone: "Europe/Berlin",
	}
}

// week has the days of a calendar of which weekends and further days are closed.
func week(t *testing.T, zone string, closed ...string) *calendar.Days {
	t.Helper()
	c := calendar.Calendar{Name: "week", Zone: zone, Weekend: []string{"saturday", "sunday"}}
	for _, day := range closed {
		c.Closed = append(c.Closed, calendar.Closing{Date: day, Title: "Holiday"})
	}
	days, err := calendar.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return days
}

// TestCheck: all that is wrong is told at once, each with its place.
func TestCheck(t *testing.T) {
	good := payroll()
	if found := good.Check(); len(found) > 0 {
		t.Fatalf("%v", found)
	}
	for want, change := range map[string]func(*Expectation){
		"name: it is missing":                              func(e *Expectation) { e.Name = "" },
		"from: it is missing; name a monitor or a job":     func(e *Expectation) { e.From = From{} },
		"from.job: there is a monitor too":                 func(e *Expectation) { e.From.Job = "j" },
		"pattern: it is missing":                           func(e *Expectation) { e.Pattern = "" },
		`pattern: "a/b" has a path separator`:              func(e *Expectation) { e.Pattern = "a/b" },
		`pattern: "a{day}" has "{day", which is not a day`: func(e *Expectation) { e.Pattern = "a{day}" },
		"has two days":                                     func(e *Expectation) { e.Pattern = "{date:060102}{date:060102}" },
		"does not say year, month and day":                 func(e *Expectation) { e.Pattern = "{date:2006}" },
		`{date:YYYYMMDD} has "YYYYMMDD"`:                   func(e *Expectation) { e.Pattern = "{date:YYYYMMDD}" },
		`has a "}" without a "{"`:                          func(e *Expectation) { e.Pattern = "a}" },
		"begins with a wildcard or a date":                 func(e *Expectation) { e.From, e.Pattern = From{Job: "j"}, "a*" },
		"count.least: -1 is not between":                   func(e *Expectation) { e.Count.Least = -1 },
		"count.most: 1 is less than the least, 2":          func(e *Expectation) { e.Count = Count{2, 1} },
		"bytes.least: -1 is negative":                      func(e *Expectation) { e.Bytes.Least = new(int64(-1)) },
		"bytes.most: 5 is less than the least, 7":          func(e *Expectation) { e.Bytes = Bytes{new(int64(7)), 5} },
		`window.from: "6" is not a time of day`:            func(e *Expectation) { e.Window.From = "6" },
		"window.until: it is missing":                      func(e *Expectation) { e.Window.Until = "" },
		`window.until: "06:00" is from too`:                func(e *Expectation) { e.Window.Until = "06:00" },
		`window.grace: "20" is not a duration`:             func(e *Expectation) { e.Window.Grace = "20" },
		"due_soon: 2h is longer than the window":           func(e *Expectation) { e.DueSoon = "2h" },
		"early: 25h is not between 0 and 24h0m0s":          func(e *Expectation) { e.Early = "25h" },
		"window: the window of one day, from 06:00 to 05:50 with grace until 06:10, overlaps that of the next day, which begins at 06:00": func(e *Expectation) { e.Window.Until = "05:50" },
		`time_zone: there is a calendar too`:                             func(e *Expectation) { e.Calendar = "week" },
		`time_zone: there is no time zone "Europe/Berlyn"; did you mean`: func(e *Expectation) { e.Zone = "Europe/Berlyn" },
		`cron: `:  func(e *Expectation) { e.Cron = "each day" },
		`label: `: func(e *Expectation) { e.Label = map[string]string{"": "x"} },
	} {
		e := payroll()
		change(&e)
		var list []string
		for _, p := range e.Check() {
			list = append(list, p.String())
		}
		if len(list) != 1 || !strings.Contains(list[0], want) {
			t.Errorf("%q, want %q", list, want)
		}
	}
	bad := Expectation{Name: "x", Pattern: "a/b", Window: Window{From: "1", Until: "2"}}
	_, err := New(bad, nil)
	e, ok := errors.AsType[*Error](err)
	if !ok || len(e.Problems) != 4 || !errors.Is(err, courier.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

// TestJSON writes an expectation and reads it back.
func TestJSON(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	e := Expectation{
		Name: "n", Description: "d", From: From{"m", "j"}, Pattern: "*", Count: Count{1, 2}, Bytes: Bytes{new(int64(0)), 9},
		Window: Window{"06:00", "07:00", "1m"}, Calendar: "c", Cron: "x", Zone: "z", DueSoon: "1m", Early: "1h", Label: map[string]string{"a": "b"},
		Disabled: true, Health: Health{at, at, "p", "h"}, SavedAt: at,
	}
	for _, v := range []reflect.Value{reflect.ValueOf(e), reflect.ValueOf(e.Health), reflect.ValueOf(e.From), reflect.ValueOf(e.Window)} {
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Errorf("%s is not tried", v.Type().Field(i).Name)
			}
		}
	}
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var back Expectation
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, e) {
		t.Errorf("%s\nread as %+v, %v", text, back, err)
	}
	if d := e.Definition(); d.Health != (Health{}) || !d.SavedAt.IsZero() || !d.Disabled {
		t.Errorf("definition %+v", d)
	}
	for text, want := range map[string]string{
		`{"name": "n", "patern": "*"}`:              `unknown field "patern"; did you mean "pattern"?`,
		`{"window": {"to": "06:00"}}`:               `unknown field "to"`,
		`{"from": {"monitr": "m"}}`:                 `did you mean "monitor"?`,
		`{"count": {"min": 1}, "bytes": {"max":1}}`: `unknown field "min"`,
	} {
		if err := json.Unmarshal([]byte(text), &back); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestPattern: names are selected as a whole, and have the day that the layout says.
func TestPattern(t *testing.T) {
	for _, c := range []struct{ pattern, name, want string }{
		{"*.csv", "a.csv", "any"}, {"*.csv", "a.csvx", "no"}, {"a?c", "abc", "any"}, {"a.c", "abc", "no"}, {"[a]", "[a]", "any"}, {"A", "a", "no"},
		{"PAY_{date:20060102}_*.csv", "PAY_20261129_1.csv", "2026-11-29"},
		{"PAY_{date:20060102}_*.csv", "PAY_20261329_1.csv", "none"},
		{"PAY_{date:20060102}_*.csv", "PAY_2026112_1.csv", "no"},
		{"{date:2006-01-02}", "2026-02-29", "none"},
		{"{date:2006-01-02}", "2028-02-29", "2028-02-29"},
		{"x{date:020106}", "x290228", "2028-02-29"},
		{"x{date:2006002}", "x2026365", "2026-12-31"},
		{"x {date:02Jan2006}.txt", "x 05Mar2027.txt", "2027-03-05"},
		{"*{date:20060102}*", "a20270101b", "2027-01-01"},
	} {
		p, err := readPattern(c.pattern)
		if err != nil {
			t.Fatalf("%s: %v", c.pattern, err)
		}
		day, dated, known, ok := p.match(c.name)
		got := "no"
		switch {
		case ok && dated && known:
			got = day.String()
		case ok && dated:
			got = "none"
		case ok:
			got = "any"
		}
		if got != c.want {
			t.Errorf("%s on %s: %s, want %s", c.pattern, c.name, got, c.want)
		}
		if _, _, _, ok := p.match(p.example()); !ok {
			t.Errorf("%s does not select its example %s", c.pattern, p.example())
		}
	}
}

// TestDays: days count by calendar and cron, and each has its window by the clocks of the day.
func TestDays(t *testing.T) {
	window := func(from, until, grace string) Window { return Window{from, until, grace} }
	for _, c := range []struct {
		what         string
		e            Expectation
		zone         string // of a calendar; empty for none
		closed       []string
		after, want  string // the next day that counts
		opens, until string
		ends         string
	}{
		{"each day", Expectation{Window: window("06:00", "07:50", "20m"), Zone: "Europe/Berlin"}, "", nil, "2026-11-28", "2026-11-29", "2026-11-29T05:00", "2026-11-29T06:50", "2026-11-29T07:10"},
		{"weekend", Expectation{Window: window("06:00", "07:50", "")}, "Europe/Berlin", nil, "2026-11-27", "2026-11-30", "2026-11-30T05:00", "2026-11-30T06:50", "2026-11-30T06:50"},
		{"closed", Expectation{Window: window("06:00", "07:50", "")}, "Europe/Berlin", []string{"2026-11-30"}, "2026-11-27", "2026-12-01", "2026-12-01T05:00", "2026-12-01T06:50", "2026-12-01T06:50"},
		{"midnight", Expectation{Window: window("22:00", "02:00", "1h"), Zone: "Europe/Berlin"}, "", nil, "2026-11-28", "2026-11-29", "2026-11-29T21:00", "2026-11-30T01:00", "2026-11-30T02:00"},
		{"mondays", Expectation{Window: window("06:00", "07:00", ""), Cron: "0 0 0 ? * MON", Zone: "Europe/Berlin"}, "", nil, "2026-11-30", "2026-12-07", "2026-12-07T05:00", "2026-12-07T06:00", "2026-12-07T06:00"},
		{"open mondays", Expectation{Window: window("06:00", "07:00", ""), Cron: "0 30 23 ? * MON"}, "Europe/Berlin", []string{"2026-12-07"}, "2026-11-30", "2026-12-14", "2026-12-14T05:00", "2026-12-14T06:00", "2026-12-14T06:00"},
		{"clocks go forward", Expectation{Window: window("02:30", "03:30", ""), Zone: "Europe/Berlin"}, "", nil, "2027-03-27", "2027-03-28", "2027-03-28T01:00", "2027-03-28T01:30", "2027-03-28T01:30"},
		{"window is skipped", Expectation{Window: window("02:10", "02:50", "10m"), Zone: "Europe/Berlin"}, "", nil, "2027-03-27", "2027-03-28", "2027-03-28T01:00", "2027-03-28T01:00", "2027-03-28T01:10"},
		{"clocks go back", Expectation{Window: window("01:30", "02:30", ""), Zone: "Europe/Berlin"}, "", nil, "2027-10-30", "2027-10-31", "2027-10-30T23:30", "2027-10-31T00:30", "2027-10-31T00:30"},
		{"across the change", Expectation{Window: window("23:00", "05:00", ""), Zone: "Europe/Berlin"}, "", nil, "2027-03-26", "2027-03-27", "2027-03-27T22:00", "2027-03-28T03:00", "2027-03-28T03:00"},
		{"midnight is skipped", Expectation{Window: window("00:00", "01:30", ""), Zone: "America/Santiago"}, "", nil, "2026-09-05", "2026-09-06", "2026-09-06T04:00", "2026-09-06T04:30", "2026-09-06T04:30"},
		{"29 February", Expectation{Window: window("06:00", "07:00", ""), Cron: "0 0 0 29 2 ?"}, "", nil, "2026-11-28", "2028-02-29", "2028-02-29T06:00", "2028-02-29T07:00", "2028-02-29T07:00"},
	} {
		c.e.Name, c.e.From, c.e.Pattern = "e", From{Monitor: "m"}, "*"
		var days *calendar.Days
		if c.zone != "" {
			c.e.Calendar, days = "week", week(t, c.zone, c.closed...)
		}
		table, err := New(c.e, days)
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		after, err := calendar.ParseDate(c.after)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := table.Next(after)
		at := table.At(got)
		list := []string{got.String(), short16(at.Open), short16(at.Until), short16(at.End)}
		if want := []string{c.want, c.opens, c.until, c.ends}; !ok || !slices.Equal(list, want) {
			t.Errorf("%s: %q, want %q", c.what, list, want)
		}
		if table.Why(got) != "" || !table.Counts(got) {
			t.Errorf("%s: %s", c.what, table.Why(got))
		}
	}
}

func short16(t time.Time) string { return t.UTC().Format("2006-01-02T15:04") }

// TestEachDayHasOneWindow: over three years in zones whose clocks change, each day that counts has
// a window that begins on it, and no two overlap.
func TestEachDayHasOneWindow(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "America/New_York", "Asia/Kolkata", "Africa/Cairo"} {
		for _, w := range []Window{{"06:00", "07:50", "20m"}, {"22:00", "02:30", "1h"}, {"00:00", "23:00", ""}, {"02:00", "02:30", "10m"}, {"00:15", "00:30", ""}} {
			table, err := New(Expectation{Name: "e", From: From{Monitor: "m"}, Pattern: "*", Window: w, Zone: zone}, nil)
			if err != nil {
				t.Fatal(err)
			}
			day := calendar.NewDate(2026, time.January, 1)
			last := table.At(day)
			for day < calendar.NewDate(2029, time.January, 1) {
				next, ok := table.Next(day)
				at := table.At(next)
				if !ok || next != day+1 || calendar.DateOf(at.Open.In(table.Zone())) != next || at.Open.Before(last.End) || at.Until.Before(at.Open) {
					t.Fatalf("%s %v: %s after %s, from %v to %v", zone, w, next, day, at.Open, at.Until)
				}
				day, last = next, at
			}
		}
	}
}

// TestCheckDays: what is wrong with the days of a year, and which times the clocks skip, is said
// beforehand.
func TestCheckDays(t *testing.T) {
	from := calendar.NewDate(2026, time.November, 29)
	tell := func(e Expectation, days *calendar.Days) (problems, warnings []courier.Problem) {
		e.Name, e.From, e.Pattern = "e", From{Monitor: "m"}, "*"
		table, err := New(e, days)
		if err != nil {
			t.Fatal(err)
		}
		return table.checkDays(from)
	}
	problems, warnings := tell(Expectation{Window: Window{"02:30", "03:30", ""}, Zone: "Europe/Berlin"}, nil)
	if len(problems) != 0 || len(warnings) != 1 || warnings[0].String() != "window.from: 02:30 does not exist on 28 March 2027, when the clocks in Europe/Berlin change; it is 03:00 then" {
		t.Errorf("%v, %v", problems, warnings)
	}
	problems, _ = tell(Expectation{Window: Window{"06:00", "05:00", "2h"}, Calendar: "week"}, week(t, "Europe/Berlin"))
	if len(problems) != 1 || problems[0].String() != "window: the window of 30 November 2026, which ends at 07:00, overlaps that of 1 December 2026, which begins at 06:00" {
		t.Errorf("%v", problems)
	}
	if problems, warnings = tell(Expectation{Window: Window{"06:00", "05:00", "2h"}, Cron: "0 0 0 ? * MON", Zone: "UTC"}, nil); len(problems)+len(warnings) != 0 {
		t.Errorf("%v, %v", problems, warnings)
	}
	problems, _ = tell(Expectation{Window: Window{"06:00", "07:00", ""}, Cron: "0 0 0 ? * SUN", Calendar: "week"}, week(t, "UTC"))
	if len(problems) != 1 || problems[0].String() != `cron: no day of a year counts: calendar "week" closes all days of the expression` {
		t.Errorf("%v", problems)
	}
}
