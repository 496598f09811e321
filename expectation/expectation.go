// Package expectation detects files that do not arrive.
//
// An [Expectation] is the definition: which files are expected from where, how many and how
// large, and in which window of which days. [New] makes a [Timetable] of it, with the days that
// count and their windows. For each day that counts a store keeps one [Arrival]: its state, and
// the files that came. A [Service] checks and saves expectations. It reads the files that monitors
// have seen and steps have received, decides for which day each counts, and writes the states and
// the events, each once, on any number of engines. An expectation of the files of a path has a
// monitor of its own, which is put and removed in the transaction that puts and removes it, and
// is polled as all monitors are.
//
// The day that a file counts for is, in this order:
//
//   - the day in its name, if the pattern has {date:LAYOUT};
//   - the day in whose window, with grace, it was seen;
//   - the day of the next window, if it was seen within Early of it;
//   - the last day that is missing or incomplete;
//   - no day: then there is an event FileUnexpected, and the file is in no record.
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

// An Expectation says which files are to come, on which days and when.
type Expectation struct {
	Name        string `json:"name"` // 1 to 200 characters, none of them control characters
	Description string `json:"description,omitempty"`
	From        From   `json:"from"`
	// Pattern selects files by their names: * stands for any text, ? for one character, and
	// {date:LAYOUT} for the day that the file is of, such as {date:20060102} or
	// {date:2006-01-02}. The layout is that of Go's package time, with year, month and day.
	Pattern string `json:"pattern"`
	// Count is how many files of the right size a day has to have. Zero means one or more.
	Count Count `json:"count,omitzero"`
	// Bytes is the size of a file that is right. Zero means that it is not empty.
	Bytes  Bytes  `json:"bytes,omitzero"`
	Window Window `json:"window"`
	// Calendar is the name of the calendar that it goes by: nothing is expected on days that
	// it closes. Its time zone is that of the window.
	Calendar string `json:"calendar,omitempty"`
	// Cron says on which days something is expected, if not on each, in the form of
	// schedules: the days on which the expression has a tick. The time of the tick does not
	// count, such as in "0 0 0 ? * MON" for each Monday. With a Calendar the day must be open
	// as well.
	Cron string `json:"cron,omitempty"`
	// Zone is the time zone of the window without a Calendar, such as Europe/Berlin. Empty
	// means UTC.
	Zone string `json:"time_zone,omitempty"`
	// DueSoon is how long before Window.Until a day is due soon, if its files are not there,
	// such as 30m. Empty means that it never is.
	DueSoon string `json:"due_soon,omitempty"`
	// Early is how long before the window a file counts for the day of the window, although an
	// earlier day is missing, such as 2h. Empty means that it does not.
	Early string `json:"early,omitempty"`
	// Label is what people find the expectation by, such as {"partner": "globex"}.
	Label map[string]string `json:"label,omitempty"`
	// Disabled says that nothing is expected now. Days that pass meanwhile get no record.
	Disabled bool `json:"disabled,omitempty"`

	// What follows is for reading, and ignored when an expectation is set.

	Health  Health    `json:"health,omitzero"`
	SavedAt time.Time `json:"saved_at,omitzero"`
}

// A From says where files come from. One of Monitor, Job and Path is given.
type From struct {
	Monitor string `json:"monitor,omitempty"` // the files that a monitor has seen
	// Job means the files that steps of a job have received from servers. The pattern must
	// begin with three characters or more that stand for themselves.
	Job string `json:"job,omitempty"`
	// Path is a directory into which the expectation looks itself: it has a monitor of its own,
	// which starts nothing, with the name that [monitor.LookName] returns. Files that its first poll
	// finds have come at the time that they have themselves.
	Path       string `json:"path,omitempty"`
	Connection string `json:"connection_id,omitempty"` // with Path; none for a directory of the machine
	// Lister is the name of the lister of the Path in engine.Options.Listers. Empty means the only
	// one that knows the Connection, or "file" without one.
	Lister string `json:"lister,omitempty"`
	// Every is the time between two polls of the Path, at most 10m, such as 2m. Empty means a minute.
	Every string `json:"every,omitempty"`
}

// source is where the files come from, without how often it is looked at.
func (f From) source() From {
	f.Every = ""
	return f
}

// looks reports whether the expectation looks into a directory itself.
func (f *From) looks() bool { return f.Path != "" }

// monitor is the name of the monitor that sees the files of an expectation; empty if there is none.
func (e *Expectation) monitor() string {
	if e.From.looks() {
		return monitor.LookName(e.Name)
	}
	return e.From.Monitor
}

// A Count is how many files a day has to have.
type Count struct {
	Least int `json:"least,omitempty"` // 0 means 1
	Most  int `json:"most,omitempty"`  // 0 means any number
}

// Bytes is the permitted size of a file.
type Bytes struct {
	Least *int64 `json:"least,omitempty"` // nil means 1; 0 permits empty files
	Most  int64  `json:"most,omitempty"`  // 0 means any size
}

// A Window is the time of a day in which files are to come, by the clock in the time zone of
// the expectation. It belongs to the day on which it opens.
type Window struct {
	From string `json:"from"` // such as 06:00
	// Until is when the files have to be there, such as 07:50. A time that is not after From is
	// one of the next day.
	Until string `json:"until"`
	// Grace is how long after Until files are still on time, such as 20m. Empty means none.
	Grace string `json:"grace,omitempty"`
}

// Health says when an expectation was last followed, and what keeps it from being followed.
type Health struct {
	// LookedAt is the time of the last successful look for files: the last poll of the monitor,
	// or the last look at what steps have received.
	LookedAt time.Time `json:"looked_at,omitzero"`
	// MatchedAt is when a file of the pattern was last seen.
	MatchedAt time.Time `json:"matched_at,omitzero"`
	// Problem says why arrivals can't be followed now; empty if they can.
	Problem string `json:"problem,omitempty"`
	// Hint is a doubt, such as that the pattern has matched nothing in 30 days.
	Hint string `json:"hint,omitempty"`
}

// Definition returns the expectation without the fields that are only for reading. Two
// expectations are the same if their definitions are equal.
func (e Expectation) Definition() Expectation {
	e.Health, e.SavedAt = Health{}, time.Time{}
	return e
}

// Bounds of an expectation.
const (
	maxPattern = 255 // bytes
	maxCount   = 1000
	maxLabels  = 20
	maxLabel   = 200 // bytes
	maxTime    = 24 * time.Hour
)

// Check returns everything that is wrong with the expectation itself. It does not check that
// there are a monitor, a job and a calendar of these names; [Service.Check] does.
func (e *Expectation) Check() []courier.Problem {
	_, found := e.read(nil)
	return found
}

// read returns the timetable of the expectation with the days of its calendar, which may be
// nil, and what is wrong with it.
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

// readFrom reads where the files come from.
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

// minPrefix is how many characters the pattern of an expectation from a job has before the
// first wildcard.
const minPrefix = 3

// checkCounts finds what is wrong with numbers and sizes.
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

// clockText is a time of the day in minutes, as in 07:50.
func clockText(minutes int) string { return fmt.Sprintf("%02d:%02d", minutes/60%24, minutes%60) }

// readDays reads what says which days count.
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
		zone, _ = cron.LoadZone(t.days.Zone().String()) // by which the calendar has it
	}
	t.zone, t.cronZone = zone.Location(), zone
	if e.Cron != "" {
		if t.cron, err = cron.Parse(e.Cron); err != nil {
			add("cron", "%v", err)
		}
	}
}

// UnmarshalJSON reads an expectation strictly, with [courier.ReadDefinition]. It accepts and
// keeps the fields that are only for reading.
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

// UnmarshalJSON reads it strictly.
func (f *From) UnmarshalJSON(data []byte) error {
	return strictjson.Read(f, data, func(f *From, dec *json.Decoder) error {
		return strictjson.ReadObject(dec, strictjson.Fields{
			"monitor": strictjson.Into(&f.Monitor), "job": strictjson.Into(&f.Job), "path": strictjson.Into(&f.Path),
			"connection_id": strictjson.Into(&f.Connection), "lister": strictjson.Into(&f.Lister), "every": strictjson.Into(&f.Every),
		})
	})
}

// UnmarshalJSON reads it strictly.
func (c *Count) UnmarshalJSON(data []byte) error {
	return strictjson.Read(c, data, func(c *Count, dec *json.Decoder) error {
		return strictjson.ReadObject(dec, strictjson.Fields{"least": strictjson.Into(&c.Least), "most": strictjson.Into(&c.Most)})
	})
}

// UnmarshalJSON reads it strictly.
func (b *Bytes) UnmarshalJSON(data []byte) error {
	return strictjson.Read(b, data, func(b *Bytes, dec *json.Decoder) error {
		return strictjson.ReadObject(dec, strictjson.Fields{"least": strictjson.Into(&b.Least), "most": strictjson.Into(&b.Most)})
	})
}

// UnmarshalJSON reads it strictly.
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

// short is a duration without the units that are zero, as in 1h30m.
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
