// Package expectation detects files that do not arrive.
//
// An [Expectation] is the definition: which files are expected from where, how many and how
// large, and in which window of which days. [New] returns its [Timetable], with the days that
// count and their windows. For each day that counts a store keeps one [Arrival]: its state, and
// the files that arrived. A [Service] checks and saves expectations. It reads the files that
// monitors have seen and steps have received, and decides for which day each file counts. It
// writes each state and event once, on any number of engines. An expectation of files in a path
// has its own monitor. The monitor is polled like any other, and is put and removed in the same
// transaction as the expectation.
//
// A file counts for the first of these days:
//
//   - the day in its name, if the pattern has {date:LAYOUT};
//   - the day in whose window, with grace, it was seen;
//   - the day of the next window, if it was seen within Early of it;
//   - the last day that is missing or incomplete;
//   - no day: then there is an event FileUnexpected, and no record has the file.
//
// The time at which a file was seen decides whether it is late. If the directory could not be read
// at that time, the modification time of the file decides, and the record says so.
//
// Programs get the service from their engine:
//
//	_, err := e.Expectations().Set(ctx, expectation.Expectation{
//		Name: "payroll", From: expectation.From{Monitor: "globex-in"}, Pattern: "PAY_{date:20060102}_*.csv",
//		Window: expectation.Window{From: "06:00", Until: "07:50", Grace: "20m"}, Calendar: "target2",
//	}, courier.By{})
package expectation

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/internal/cron"
	"github.com/courierhq/courier/internal/errtext"
	"github.com/courierhq/courier/internal/strictjson"
	"github.com/courierhq/courier/monitor"
)

// An Expectation says which files are expected, on which days and when.
type Expectation struct {
	Name        string `json:"name"` // 1 to 200 characters, no control characters
	Description string `json:"description,omitempty"`
	From        From   `json:"from"`
	// Pattern selects files by name: * matches any text, ? matches one character, and
	// {date:LAYOUT} matches the date of the file, such as {date:20060102} or {date:2006-01-02}.
	// The layout is a layout of Go's package time, with year, month and day.
	Pattern string `json:"pattern"`
	// Count is how many files of the right size are required on a day. Zero means one or more.
	Count Count `json:"count,omitzero"`
	// Bytes is the permitted size of a file. Zero means that a file must not be empty.
	Bytes  Bytes  `json:"bytes,omitzero"`
	Window Window `json:"window"`
	// Calendar is the name of the calendar that the expectation uses: nothing is expected on its
	// closed days. The window is in its time zone.
	Calendar string `json:"calendar,omitempty"`
	// Cron selects the days on which files are expected; empty means every day. It is a cron
	// expression as in schedules. Files are expected on each day on which it has a tick; the time
	// of the tick is ignored. For example, "0 0 0 ? * MON" selects each Monday. With a Calendar
	// the day must be open as well.
	Cron string `json:"cron,omitempty"`
	// Zone is the time zone of the window if there is no Calendar, such as Europe/Berlin. Empty
	// means UTC.
	Zone string `json:"time_zone,omitempty"`
	// DueSoon is how long before Window.Until a day becomes due soon if its files are not there,
	// such as 30m. Empty means never.
	DueSoon string `json:"due_soon,omitempty"`
	// Early is how long before the window a file counts for that window's day even if an earlier
	// day is missing, such as 2h. Empty means that it does not.
	Early string `json:"early,omitempty"`
	// Label has labels by which people find the expectation, such as {"partner": "globex"}.
	Label map[string]string `json:"label,omitempty"`
	// Disabled says that nothing is expected now. Days that pass in the meantime get no record.
	Disabled bool `json:"disabled,omitempty"`

	// The following fields report the state. Set ignores them.

	Health  Health    `json:"health,omitzero"`
	SavedAt time.Time `json:"saved_at,omitzero"`
}

// A From says where files come from. Exactly one of Monitor, Job and Path is given.
type From struct {
	Monitor string `json:"monitor,omitempty"` // the name of a monitor: the files that it has seen
	// Job is the name of a job: the files that its steps have received from servers. The pattern
	// must begin with at least three characters that are not wildcards.
	Job string `json:"job,omitempty"`
	// Path is a directory that the expectation polls itself: it has its own monitor, which starts
	// nothing, with the name that [monitor.LookName] returns. A file that the first poll finds
	// counts as arrived at its modification time.
	Path       string `json:"path,omitempty"`
	Connection string `json:"connection_id,omitempty"` // of Path; empty for a directory of the machine
	// Lister is the name of the lister of Path in engine.Options.Listers. Empty means the only
	// lister that knows the Connection, or "file" if there is no Connection.
	Lister string `json:"lister,omitempty"`
	// Every is the time between two polls of Path, at most 10m, such as 2m. Empty means a minute.
	Every string `json:"every,omitempty"`
}

// source returns the source of the files, without the interval of its polls.
func (f From) source() From {
	f.Every = ""
	return f
}

// looks reports whether the expectation polls a directory itself.
func (f *From) looks() bool { return f.Path != "" }

// monitor returns the name of the monitor that sees the files of an expectation; empty if there
// is none.
func (e *Expectation) monitor() string {
	if e.From.looks() {
		return monitor.LookName(e.Name)
	}
	return e.From.Monitor
}

// A Count is how many files are required on a day.
type Count struct {
	Least int `json:"least,omitempty"` // 0 means 1
	Most  int `json:"most,omitempty"`  // 0 means any number
}

// Bytes is the permitted size of a file.
type Bytes struct {
	Least *int64 `json:"least,omitempty"` // nil means 1; 0 permits empty files
	Most  int64  `json:"most,omitempty"`  // 0 means any size
}

// A Window is the time of a day in which files are expected, in the time zone of the expectation.
// It belongs to the day on which it opens.
type Window struct {
	From string `json:"from"` // such as 06:00
	// Until is when the files must be there, such as 07:50. A time that is not after From is on
	// the next day.
	Until string `json:"until"`
	// Grace is how long after Until files are still on time, such as 20m. Empty means none.
	Grace string `json:"grace,omitempty"`
}

// Health says when the engines last looked for files of an expectation, and what prevents it.
type Health struct {
	// LookedAt is the time of the last successful look for files: the last poll of the monitor,
	// or the last check of the files that steps have received.
	LookedAt time.Time `json:"looked_at,omitzero"`
	// MatchedAt is when a file that matches the pattern was last seen.
	MatchedAt time.Time `json:"matched_at,omitzero"`
	// Problem says why arrivals can't be detected now; empty if they can.
	Problem string `json:"problem,omitempty"`
	// Hint is a warning, such as that the pattern has matched nothing in 30 days.
	Hint string `json:"hint,omitempty"`
}

// Definition returns the expectation without the fields that only report its state. Two
// expectations are the same if their definitions are equal.
func (e Expectation) Definition() Expectation {
	e.Health, e.SavedAt = Health{}, time.Time{}
	return e
}

// Limits of an expectation.
const (
	maxPattern = 255 // bytes
	maxCount   = 1000
	maxLabels  = 20
	maxLabel   = 200 // bytes
	maxTime    = 24 * time.Hour
)

// Check returns the problems of the expectation itself. [Service.Check] also checks that the
// monitor, the job and the calendar exist.
func (e *Expectation) Check() []courier.Problem {
	_, found := e.read(nil)
	return found
}

// read returns the timetable of the expectation with the days of its calendar, which may be nil,
// and the problems of the expectation.
func (e *Expectation) read(days *calendar.Days) (*Timetable, []courier.Problem) {
	var found []courier.Problem
	add := func(field, format string, args ...any) {
		found = append(found, courier.Problem{Step: -1, Field: field, Message: fmt.Sprintf(format, args...)})
	}
	t := &Timetable{def: *e, days: days, zone: time.UTC}
	if problem := errtext.Name(e.Name); problem != "" {
		add("name", "%s", problem)
	}
	t.readFrom(add)
	var err error
	if t.pattern, err = readPattern(e.Pattern); err != nil {
		add("pattern", "%v", err)
	} else if e.From.Job != "" && len(t.pattern.prefix) < minPrefix {
		add("pattern", "%q begins with a wildcard or a date; what steps of a job have received is found by the beginning of names: let it begin with %d characters or more that stand for themselves", e.Pattern, minPrefix)
	}
	e.checkCounts(add)
	t.readTimes(add)
	t.readDays(add)
	if len(e.Label) > maxLabels {
		add("label", "there are %d, more than %d", len(e.Label), maxLabels)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Label)) {
		if problem := errtext.Name(name); problem != "" || len(e.Label[name]) > maxLabel {
			add("label", "%q or its value is empty, longer than %d bytes, or has control characters", errtext.Shorten(name, 60), maxLabel)
		}
	}
	return t, found
}

// readFrom reads the source of the files.
func (t *Timetable) readFrom(add func(field, format string, args ...any)) {
	f := &t.def.From
	switch {
	case *f == From{}:
		add("from", `it is missing; name a monitor or a job, as in {"monitor": "incoming"}, or a path`)
	case f.Monitor != "" && f.Job != "":
		add("from.job", "there is a monitor too; files are expected from one or the other")
	case f.looks() && (f.Monitor != "" || f.Job != ""):
		add("from.path", "there is a monitor or a job too; files are expected from one or the other")
	case f.Monitor == "" && f.Job == "" && !f.looks():
		add("from.path", "it is missing; name a directory")
	case !f.looks() && (f.Connection != "" || f.Lister != "" || f.Every != ""):
		add("from.path", "it is missing: connection_id, lister and every are those of a path; leave them out, or name a directory instead")
	case f.Every != "":
		var err error
		if t.every, err = time.ParseDuration(f.Every); err != nil {
			add("from.every", "%q is not a duration such as 2m", errtext.Shorten(f.Every, 60))
		} else if t.every < time.Second || t.every > unseenFor {
			add("from.every", "%s is not between 1s and %s: after that a file may have come while nobody could look", errtext.Shorten(f.Every, 60), short(unseenFor))
		}
	}
}

// minPrefix is the minimum number of characters before the first wildcard in the pattern of an
// expectation from a job.
const minPrefix = 3

// checkCounts checks numbers and sizes.
func (e *Expectation) checkCounts(add func(field, format string, args ...any)) {
	for _, n := range []struct {
		field string
		n     int
	}{{"count.least", e.Count.Least}, {"count.most", e.Count.Most}} {
		if n.n < 0 || n.n > maxCount {
			add(n.field, "%d is not between 0 and %d", n.n, maxCount)
		}
	}
	if most := e.Count.Most; most > 0 && e.leastCount() > most {
		add("count.most", "%d is less than the least, %d", most, e.leastCount())
	}
	if e.Bytes.Least != nil && *e.Bytes.Least < 0 {
		add("bytes.least", "%d is negative", *e.Bytes.Least)
	}
	if e.Bytes.Most < 0 {
		add("bytes.most", "%d is negative; 0 means any size", e.Bytes.Most)
	} else if e.Bytes.Most > 0 && e.leastBytes() > e.Bytes.Most {
		add("bytes.most", "%d is less than the least, %d", e.Bytes.Most, e.leastBytes())
	}
}

func (e *Expectation) leastCount() int { return max(1, e.Count.Least) }

func (e *Expectation) leastBytes() int64 {
	if e.Bytes.Least == nil {
		return 1
	}
	return *e.Bytes.Least
}

// readTimes reads the window and the durations.
func (t *Timetable) readTimes(add func(field, format string, args ...any)) {
	e := &t.def
	sound := true
	clock := func(field, text string) int {
		at, err := time.Parse("15:04", text)
		switch {
		case text == "":
			add(field, "it is missing; give a time of day such as 06:00")
		case err != nil:
			add(field, "%q is not a time of day such as 06:00", errtext.Shorten(text, 60))
		default:
			return at.Hour()*60 + at.Minute()
		}
		sound = false
		return 0
	}
	length := func(field, text string) time.Duration {
		if text == "" {
			return 0
		}
		d, err := time.ParseDuration(text)
		switch {
		case err != nil:
			add(field, "%q is not a duration such as 20m or 1h30m", errtext.Shorten(text, 60))
		case d < 0 || d > maxTime:
			add(field, "%s is not between 0 and %v", errtext.Shorten(text, 60), maxTime)
		default:
			return d
		}
		sound = false
		return 0
	}
	t.from, t.until = clock("window.from", e.Window.From), clock("window.until", e.Window.Until)
	t.grace, t.dueSoon, t.early = length("window.grace", e.Window.Grace), length("due_soon", e.DueSoon), length("early", e.Early)
	if !sound {
		return
	}
	t.timed = true
	if t.from == t.until {
		add("window.until", "%q is from too; a window is shorter than a day", e.Window.Until)
		return
	}
	length24 := time.Duration((t.until-t.from+24*60)%(24*60)) * time.Minute
	if t.dueSoon > length24 {
		add("due_soon", "%s is longer than the window, which has %s", e.DueSoon, short(length24))
	}
	if length24+t.grace+t.early > 24*time.Hour && e.Cron == "" && e.Calendar == "" {
		add("window", "the window of one day, from %s to %s with grace until %s, overlaps that of the next day, which begins at %s%s", e.Window.From, e.Window.Until,
			clockText(t.until+int(t.grace/time.Minute)), clockText(t.from+24*60-int(t.early/time.Minute)), earlyText(t.early))
	}
}

func earlyText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return " with early"
}

// clockText returns the text of a time of day in minutes, as in 07:50.
func clockText(minutes int) string { return fmt.Sprintf("%02d:%02d", minutes/60%24, minutes%60) }

// readDays reads the fields that select days.
func (t *Timetable) readDays(add func(field, format string, args ...any)) {
	e := &t.def
	if e.Calendar != "" && e.Zone != "" {
		add("time_zone", "there is a calendar too, whose time zone counts; leave one of them out")
	}
	zone, err := cron.LoadZone(e.Zone)
	if err != nil {
		add("time_zone", "%v", err)
		zone, _ = cron.LoadZone("")
	}
	if t.days != nil {
		zone, _ = cron.LoadZone(t.days.Zone().String()) // the zone as the calendar has it
	}
	t.zone, t.cronZone = zone.Location(), zone
	if e.Cron != "" {
		if t.cron, err = cron.Parse(e.Cron); err != nil {
			add("cron", "%v", err)
		}
	}
}

// UnmarshalJSON reads an expectation strictly, with [courier.ReadDefinition]. It accepts and
// keeps the fields that only report the state.
func (e *Expectation) UnmarshalJSON(data []byte) error {
	return courier.ReadDefinition("expectation", data, e, (*Expectation).fields)
}

func (e *Expectation) fields() map[string]func(*json.Decoder) error {
	return strictjson.Fields{
		"name": strictjson.Into(&e.Name), "description": strictjson.Into(&e.Description), "from": strictjson.Into(&e.From), "pattern": strictjson.Into(&e.Pattern),
		"count": strictjson.Into(&e.Count), "bytes": strictjson.Into(&e.Bytes), "window": strictjson.Into(&e.Window), "calendar": strictjson.Into(&e.Calendar),
		"cron": strictjson.Into(&e.Cron), "time_zone": strictjson.Into(&e.Zone), "due_soon": strictjson.Into(&e.DueSoon), "early": strictjson.Into(&e.Early),
		"label": strictjson.Into(&e.Label), "disabled": strictjson.Into(&e.Disabled), "health": strictjson.Into(&e.Health), "saved_at": strictjson.IntoTime(&e.SavedAt),
	}
}

// UnmarshalJSON reads a From strictly.
func (f *From) UnmarshalJSON(data []byte) error {
	return strictjson.Read(f, data, func(f *From, dec *json.Decoder) error {
		return strictjson.ReadObject(dec, strictjson.Fields{
			"monitor": strictjson.Into(&f.Monitor), "job": strictjson.Into(&f.Job), "path": strictjson.Into(&f.Path),
			"connection_id": strictjson.Into(&f.Connection), "lister": strictjson.Into(&f.Lister), "every": strictjson.Into(&f.Every),
		})
	})
}

// UnmarshalJSON reads a Count strictly.
func (c *Count) UnmarshalJSON(data []byte) error {
	return strictjson.Read(c, data, func(c *Count, dec *json.Decoder) error {
		return strictjson.ReadObject(dec, strictjson.Fields{"least": strictjson.Into(&c.Least), "most": strictjson.Into(&c.Most)})
	})
}

// UnmarshalJSON reads Bytes strictly.
func (b *Bytes) UnmarshalJSON(data []byte) error {
	return strictjson.Read(b, data, func(b *Bytes, dec *json.Decoder) error {
		return strictjson.ReadObject(dec, strictjson.Fields{"least": strictjson.Into(&b.Least), "most": strictjson.Into(&b.Most)})
	})
}

// UnmarshalJSON reads a Window strictly.
func (w *Window) UnmarshalJSON(data []byte) error {
	return strictjson.Read(w, data, func(w *Window, dec *json.Decoder) error {
		return strictjson.ReadObject(dec, strictjson.Fields{"from": strictjson.Into(&w.From), "until": strictjson.Into(&w.Until), "grace": strictjson.Into(&w.Grace)})
	})
}

// An Error lists everything that is wrong with an expectation. It matches
// [courier.ErrInvalid].
type Error struct {
	Expectation string // its name
	Problems    []courier.Problem
}

// Error lists the problems, one per line. After the first 20 it counts the rest.
func (e *Error) Error() string {
	return errtext.Refused("set expectation", e.Expectation, errtext.NothingSaved, e.Problems)
}

// Is reports whether target is [courier.ErrInvalid].
func (e *Error) Is(target error) bool { return target == courier.ErrInvalid }

// short returns the text of a duration without zero units, as in 1h30m.
func short(d time.Duration) string {
	d = d.Round(time.Second)
	text := d.String()
	if d >= time.Minute && d%time.Minute == 0 {
		text = strings.TrimSuffix(text, "0s")
	}
	if d >= time.Hour && d%time.Hour == 0 {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
