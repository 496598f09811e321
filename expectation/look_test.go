package expectation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
)

// A rig looks at one expectation as an engine does, at instants that a test chooses.
type rig struct {
	t       *testing.T
	table   *Timetable
	memory  memory
	records map[calendar.Date]*Arrival
	files   []Sighting
	gone    bool          // nobody can look
	step    time.Duration // the least between two looks; 0 means a minute
	looked  time.Time
	ids     int
	events  []string
}

// at reads an instant of a test.
func at(t *testing.T, text string) time.Time {
	t.Helper()
	when, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

func newRig(t *testing.T, e Expectation, days *calendar.Days, since string) *rig {
	t.Helper()
	table, err := New(e, days)
	if err != nil {
		t.Fatal(err)
	}
	p, err := table.put(nil, nil, nil, at(t, since))
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, table: table, memory: readMemory(p.Memory), records: make(map[calendar.Date]*Arrival)}
}

// see has a file seen at an instant, with the same time of its own.
func (r *rig) see(when, name string, size int64) {
	r.files = append(r.files, Sighting{Name: name, Size: size, Modified: at(r.t, when), Seen: at(r.t, when), Appeared: len(r.files) + 1})
}

// look looks at an instant, and returns what has happened.
func (r *rig) look(when string) outcome {
	now := at(r.t, when)
	if !r.gone {
		r.looked = now
	}
	in := seen{now: now, records: make(map[calendar.Date]*Arrival), looked: r.looked, newID: func() string { r.ids++; return fmt.Sprint("id", r.ids) }}
	for day, a := range r.records {
		if day >= r.memory.through()-remembered {
			c := *a
			in.records[day] = &c
		}
	}
	for _, s := range r.files {
		if !s.Seen.After(now) && !s.Seen.Before(r.memory.SeenUntil.Add(-overlap)) {
			in.sightings = append(in.sightings, s)
		}
	}
	out := r.table.look(r.memory, in)
	r.memory = readMemory(out.memory.progress().Memory)
	for _, a := range out.changed {
		r.records[a.Day()] = a
	}
	for _, e := range out.events {
		r.events = append(r.events, fmt.Sprintf("%s %s", strings.TrimPrefix(string(e.Type), "File"), now.Format("02 15:04")))
	}
	return out
}

// until looks whenever a look is due, up to an instant.
func (r *rig) until(when string) {
	end := at(r.t, when)
	now := end
	if len(r.records) == 0 {
		now = r.memory.Since
	} else {
		now = r.memory.LookedAt
	}
	for n := 0; !now.After(end); n++ {
		if n > 100_000 {
			r.t.Fatal("it looks all the time")
		}
		out := r.look(now.Format("2006-01-02 15:04"))
		step := max(out.after, r.step, time.Minute)
		now = now.Add(step).Truncate(time.Minute)
	}
	r.look(when)
}

// states are the days with their states.
func (r *rig) states() string {
	var list []string
	for _, day := range sortedDays(r.records) {
		list = append(list, day.String()[5:]+" "+string(r.records[day].State))
	}
	return strings.Join(list, ", ")
}

func (r *rig) want(states string, events ...string) {
	r.t.Helper()
	if got := r.states(); got != states {
		r.t.Errorf("states %s, want %s", got, states)
	}
	if !slices.Equal(r.events, events) {
		r.t.Errorf("events %q, want %q", r.events, events)
	}
}

// undated is an expectation of one file a day whose name has no day.
func undated() Expectation {
	return Expectation{
		Name: "rates", From: From{Monitor: "m"}, Pattern: "rates*.csv", Window: Window{"06:00", "08:00", "15m"}, DueSoon: "30m", Early: "1h", Zone: "UTC",
	}
}

// TestDayOfAFile: each file is of one day, and the day has the state that follows. Days are those of
// November 2026; the expectation is set on the first at midnight.
func TestDayOfAFile(t *testing.T) {
	type file struct {
		when, name string
		size       int64
	}
	dated := undated()
	dated.Pattern = "rates_{date:20060102}*.csv"
	two := undated()
	two.Count = Count{2, 3}
	sized := undated()
	sized.Bytes = Bytes{new(int64(100)), 200}
	for _, c := range []struct {
		what   string
		e      Expectation
		files  []file
		until  string
		states string
		events []string
	}{
		{"in time", undated(), []file{{"01 07:00", "rates.csv", 1}}, "01 09:00", "11-01 arrived", []string{"Arrived 01 07:00"}},
		{"in the grace", undated(), []file{{"01 08:14", "rates.csv", 1}}, "01 09:00", "11-01 arrived", []string{"DueSoon 01 07:30", "Arrived 01 08:14"}},
		{"at the end of the grace", undated(), []file{{"01 08:15", "rates.csv", 1}}, "01 09:00", "11-01 arrived", []string{"DueSoon 01 07:30", "Arrived 01 08:15"}},
		{"missing", undated(), nil, "01 09:00", "11-01 missing", []string{"DueSoon 01 07:30", "Missing 01 08:15"}},
		{"missing then late", undated(), []file{{"01 09:40", "rates.csv", 1}}, "01 10:00", "11-01 late", []string{"DueSoon 01 07:30", "Missing 01 08:15", "Late 01 09:40"}},
		{"late at night", undated(), []file{{"02 04:59", "rates.csv", 1}}, "02 05:30", "11-01 late, 11-02 upcoming", []string{"DueSoon 01 07:30", "Missing 01 08:15", "Late 02 04:59"}},
		{"early", undated(), []file{{"02 05:00", "rates.csv", 1}}, "02 05:30", "11-01 missing, 11-02 arrived", []string{"DueSoon 01 07:30", "Missing 01 08:15", "Arrived 02 05:00"}},
		{"the next window", undated(), []file{{"02 06:00", "rates.csv", 1}}, "02 09:00", "11-01 missing, 11-02 arrived", []string{"DueSoon 01 07:30", "Missing 01 08:15", "Arrived 02 06:00"}},
		{"two for two days", undated(), []file{{"01 07:00", "rates.csv", 1}, {"02 07:00", "rates.csv", 1}}, "02 09:00", "11-01 arrived, 11-02 arrived", []string{"Arrived 01 07:00", "Arrived 02 07:00"}},
		{"one stays", undated(), []file{{"01 07:00", "rates.csv", 1}}, "02 09:00", "11-01 arrived, 11-02 missing", []string{"Arrived 01 07:00", "DueSoon 02 07:30", "Missing 02 08:15"}},
		{"two late ones", undated(), []file{{"02 09:00", "rates1.csv", 1}, {"02 10:00", "rates2.csv", 1}}, "02 11:00", "11-01 late, 11-02 late",
			[]string{"DueSoon 01 07:30", "Missing 01 08:15", "DueSoon 02 07:30", "Missing 02 08:15", "Late 02 09:00", "Late 02 10:00"}},
		{"unexpected", undated(), []file{{"01 07:00", "rates1.csv", 1}, {"01 12:00", "rates2.csv", 1}}, "01 13:00", "11-01 arrived", []string{"Arrived 01 07:00", "Unexpected 01 12:00"}},
		{"of no interest", undated(), []file{{"01 07:00", "other.csv", 1}}, "01 07:10", "11-01 upcoming", nil},
		{"the day in its name", dated, []file{{"02 07:00", "rates_20261101.csv", 1}}, "02 09:00", "11-01 late, 11-02 missing",
			[]string{"DueSoon 01 07:30", "Missing 01 08:15", "Late 02 07:00", "DueSoon 02 07:30", "Missing 02 08:15"}},
		{"a day ahead in its name", dated, []file{{"01 07:00", "rates_20261101.csv", 1}, {"01 07:05", "rates_20261103.csv", 1}}, "03 09:00", "11-01 arrived, 11-02 missing, 11-03 arrived",
			[]string{"Arrived 01 07:00", "Arrived 01 07:05", "DueSoon 02 07:30", "Missing 02 08:15"}},
		{"a day that there is not", dated, []file{{"01 07:00", "rates_20261131.csv", 1}, {"01 07:01", "rates_20261001.csv", 1}, {"01 07:02", "rates_20270101.csv", 1}}, "01 07:10", "11-01 upcoming",
			[]string{"Unexpected 01 07:00", "Unexpected 01 07:01", "Unexpected 01 07:02"}},
		{"too small", sized, []file{{"01 07:00", "rates.csv", 99}}, "01 09:00", "11-01 incomplete", []string{"DueSoon 01 07:30", "Incomplete 01 08:15"}},
		{"too large", sized, []file{{"01 07:00", "rates.csv", 201}}, "01 09:00", "11-01 incomplete", []string{"DueSoon 01 07:30", "Incomplete 01 08:15"}},
		{"empty", undated(), []file{{"01 07:00", "rates.csv", 0}}, "01 09:00", "11-01 incomplete", []string{"DueSoon 01 07:30", "Incomplete 01 08:15"}},
		{"mended in time", sized, []file{{"01 07:00", "rates.csv", 99}, {"01 07:10", "rates.csv", 100}}, "01 09:00", "11-01 arrived", []string{"Arrived 01 07:10"}},
		{"mended too late", sized, []file{{"01 07:00", "rates.csv", 99}, {"01 09:10", "rates.csv", 100}}, "01 10:00", "11-01 late", []string{"DueSoon 01 07:30", "Incomplete 01 08:15", "Late 01 09:10"}},
		{"too small, and late", sized, []file{{"01 09:00", "rates.csv", 99}, {"01 10:00", "rates.csv", 100}}, "01 11:00", "11-01 late",
			[]string{"DueSoon 01 07:30", "Missing 01 08:15", "Incomplete 01 09:00", "Late 01 10:00"}},
		{"too few", two, []file{{"01 07:00", "rates1.csv", 1}}, "01 09:00", "11-01 incomplete", []string{"DueSoon 01 07:30", "Incomplete 01 08:15"}},
		{"enough", two, []file{{"01 07:00", "rates1.csv", 1}, {"01 07:20", "rates2.csv", 1}}, "01 09:00", "11-01 arrived", []string{"Arrived 01 07:20"}},
		{"too many", two, []file{{"01 07:00", "rates1.csv", 1}, {"01 07:01", "rates2.csv", 1}, {"01 07:02", "rates3.csv", 1}, {"01 07:03", "rates4.csv", 1}}, "01 09:00", "11-01 incomplete",
			[]string{"Arrived 01 07:01", "DueSoon 01 07:30", "Incomplete 01 08:15"}},
	} {
		r := newRig(t, c.e, nil, "2026-11-01 00:00")
		for _, f := range c.files {
			r.see("2026-11-"+f.when, f.name, f.size)
		}
		t.Run(c.what, func(t *testing.T) {
			r.t = t
			r.until("2026-11-" + c.until)
			r.want(c.states, c.events...)
			r.once()
		})
	}
}

// once reports a file that is of two days, and an event that a record has twice.
func (r *rig) once() {
	r.t.Helper()
	days := make(map[string]string)
	for _, day := range sortedDays(r.records) {
		a := r.records[day]
		for _, f := range a.Files {
			key := fmt.Sprint(f.Name, f.Appeared, f.SeenAt)
			if days[key] != "" {
				r.t.Errorf("%s counts for %s and %s", f.Name, days[key], a.Date)
			}
			days[key] = a.Date
		}
		for i, e := range a.Events {
			if slices.Contains(a.Events[:i], e) {
				r.t.Errorf("%s has %s twice", a.Date, e)
			}
		}
	}
}

// TestNight: a window that crosses midnight is of the day on which it opens.
func TestNight(t *testing.T) {
	e := undated()
	e.Window, e.Zone, e.DueSoon, e.Early = Window{"22:00", "02:00", "30m"}, "Europe/Berlin", "", ""
	r := newRig(t, e, nil, "2026-11-01 12:00")
	r.see("2026-11-02 00:30", "rates.csv", 1) // 01:30 in Berlin
	r.until("2026-11-02 12:00")
	r.want("11-01 arrived, 11-02 upcoming", "Arrived 02 00:30")
	r.until("2026-11-03 12:00")
	r.want("11-01 arrived, 11-02 missing, 11-03 upcoming", "Arrived 02 00:30", "Missing 03 01:30")
	if words := r.records[calendar.NewDate(2026, 11, 2)].Words(); words != "missing since 02:30 on 3 November" {
		t.Error(words)
	}
}

// TestClosedDays: closed days have no record, and one that is closed meanwhile is excused.
func TestClosedDays(t *testing.T) {
	e := undated()
	e.Zone, e.Calendar, e.DueSoon = "", "week", ""
	r := newRig(t, e, week(t, "UTC"), "2026-11-05 12:00") // a Thursday
	r.until("2026-11-10 05:00")
	r.want("11-06 missing, 11-09 missing, 11-10 upcoming", "Missing 06 08:15", "Missing 09 08:15")
	r.table, _ = New(e, week(t, "UTC", "2026-11-10"))
	r.until("2026-11-10 20:00")
	r.want("11-06 missing, 11-09 missing, 11-10 excused", "Missing 06 08:15", "Missing 09 08:15")
	if words := r.records[calendar.NewDate(2026, 11, 10)].Words(); words != "excused: 10 November: closed in week (Holiday)" {
		t.Error(words)
	}
}

// TestChangeOfClocks: the days on which clocks change have a record each, in all zones.
func TestChangeOfClocks(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/Santiago", "Australia/Lord_Howe"} {
		for _, w := range []Window{{"02:10", "02:50", "10m"}, {"00:00", "00:30", ""}, {"23:30", "03:00", ""}} {
			e := undated()
			e.Zone, e.Window, e.DueSoon, e.Early = zone, w, "", ""
			for _, since := range []string{"2026-03-25 12:00", "2026-09-01 12:00", "2026-10-01 12:00", "2026-10-20 12:00"} {
				r := newRig(t, e, nil, since)
				r.step = 30 * time.Minute
				end := at(t, since).AddDate(0, 0, 12)
				r.until(end.Format("2006-01-02 15:04"))
				days := sortedDays(r.records)
				for i := range days[1:] {
					if days[i+1] != days[i]+1 {
						t.Errorf("%s %v: no record between %s and %s", zone, w, days[i], days[i+1])
					}
				}
				missing := slices.DeleteFunc(slices.Clone(r.events), func(e string) bool { return !strings.HasPrefix(e, "Missing") })
				if n := len(days); n < 12 || len(missing) < n-2 {
					t.Errorf("%s %v from %s: %d days, %d missing", zone, w, since, n, len(missing))
				}
			}
		}
	}
}

// TestNobodyCouldLook: a file that came while nobody could look is of the time that it has itself.
func TestNobodyCouldLook(t *testing.T) {
	r := newRig(t, undated(), nil, "2026-11-01 00:00")
	r.until("2026-11-01 06:30")
	r.gone = true
	r.look("2026-11-01 08:20")
	r.want("11-01 missing", "Missing 01 08:20")
	if words := r.records[calendar.NewDate(2026, 11, 1)].Words(); words != "missing since 08:15; nobody could look since 06:30" {
		t.Error(words)
	}
	r.gone = false
	r.files = append(r.files, Sighting{Name: "rates.csv", Size: 1, Modified: at(t, "2026-11-01 07:10"), Seen: at(t, "2026-11-01 09:00"), Appeared: 1})
	r.look("2026-11-01 09:00")
	r.want("11-01 arrived", "Missing 01 08:20", "Arrived 01 09:00")
	a := r.records[calendar.NewDate(2026, 11, 1)]
	if !a.ArrivedAt.Equal(at(t, "2026-11-01 07:10")) || a.Note != "nobody could look between 06:30 and 09:00, so the time of the file itself counts" {
		t.Errorf("%+v", a)
	}
	// One whose own time is before the last look came after it.
	r = newRig(t, undated(), nil, "2026-11-01 00:00")
	r.until("2026-11-01 07:00")
	r.gone = true
	r.look("2026-11-01 08:20")
	r.gone = false
	r.files = append(r.files, Sighting{Name: "rates.csv", Size: 1, Modified: at(t, "2026-10-01 07:10"), Seen: at(t, "2026-11-01 09:00"), Appeared: 1})
	r.look("2026-11-01 09:00")
	if a := r.records[calendar.NewDate(2026, 11, 1)]; a.State != Arrived || !a.ArrivedAt.Equal(at(t, "2026-11-01 07:00")) {
		t.Errorf("%+v", a)
	}
	// While somebody looks, the time of the file does not count.
	r = newRig(t, undated(), nil, "2026-11-01 00:00")
	r.files = append(r.files, Sighting{Name: "rates.csv", Size: 1, Modified: at(t, "2026-11-01 07:10"), Seen: at(t, "2026-11-01 09:00"), Appeared: 1})
	r.until("2026-11-01 09:10")
	r.want("11-01 late", "DueSoon 01 07:30", "Missing 01 08:15", "Late 01 09:00")
}

// TestThereAtFirst: what the first poll of a look of its own finds has come at the time that the file
// has itself; files of earlier days are no event.
func TestThereAtFirst(t *testing.T) {
	plain, dated := undated(), undated()
	plain.From, dated.From = From{Path: "/out"}, From{Path: "/out"}
	dated.Pattern = "rates_{date:20060102}*.csv"
	for _, c := range []struct {
		what     string
		e        Expectation
		modified string // of a file that is seen by the first poll, at 09:30
		name     string
		states   string
		events   []string
	}{
		{"in the window", plain, "01 07:00", "rates.csv", "11-01 arrived", []string{"Arrived 01 09:31"}},
		{"after it", plain, "01 09:00", "rates.csv", "11-01 late", []string{"Missing 01 09:31", "Late 01 09:31"}},
		{"an old one", plain, "01-05 07:00", "rates.csv", "11-01 missing", []string{"Missing 01 09:31"}},
		{"of yesterday", plain, "10-31 07:00", "rates.csv", "11-01 missing", []string{"Missing 01 09:31"}},
		{"the day in its name", dated, "01 07:00", "rates_20261101.csv", "11-01 arrived", []string{"Arrived 01 09:31"}},
		{"made long before", dated, "10-05 07:00", "rates_20261101.csv", "11-01 arrived", []string{"Arrived 01 09:31"}},
		{"of another day", dated, "10-05 07:00", "rates_20261005.csv", "11-01 missing", []string{"Missing 01 09:31"}},
		{"without a time", plain, "", "rates.csv", "11-01 arrived", []string{"Arrived 01 09:31"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			r := newRig(t, c.e, nil, "2026-11-01 07:30")
			f := Sighting{Name: c.name, Size: 1, Seen: at(t, "2026-11-01 09:30"), Appeared: 1}
			if c.modified != "" {
				if !strings.Contains(c.modified[:5], "-") {
					c.modified = "11-" + c.modified
				}
				f.Modified = at(t, "2026-"+c.modified)
			}
			r.files = append(r.files, f)
			r.look("2026-11-01 09:31")
			r.look("2026-11-01 09:40")
			r.want(c.states, c.events...)
			for _, f := range r.records[calendar.NewDate(2026, 11, 1)].Files {
				if !f.SeenAt.Equal(at(t, "2026-11-01 09:30")) {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

// TestFirstPollBeforeFailures: the first poll found files, and those after it failed before anybody could
// look at what it had found. Nothing is lost by it, and what comes later is seen as it comes.
func TestFirstPollBeforeFailures(t *testing.T) {
	e := undated()
	e.From = From{Path: "/out"}
	r := newRig(t, e, nil, "2026-11-01 05:30")
	r.gone = true
	r.files = append(r.files, Sighting{Name: "rates0.csv", Size: 1, Modified: at(t, "2026-11-01 05:10"), Seen: at(t, "2026-11-01 05:31"), Appeared: 1})
	r.look("2026-11-01 06:30")
	r.gone = false
	r.files = append(r.files, Sighting{Name: "rates1.csv", Size: 1, Modified: at(t, "2026-10-31 09:00"), Seen: at(t, "2026-11-01 07:00"), Appeared: 1})
	r.look("2026-11-01 07:01")
	r.want("11-01 arrived", "Arrived 01 06:30")
	if f := r.records[calendar.NewDate(2026, 11, 1)].Files; len(f) != 2 || !f[0].At.Equal(at(t, "2026-11-01 05:10")) || !f[1].At.Equal(at(t, "2026-11-01 07:00")) {
		t.Errorf("%+v", f)
	}
}

// TestOldFileIsNotCompleteAtFirst: a file whose own time is days ago, and which is not complete when the
// first poll finds it, is waited for from then on, whatever comes meanwhile.
func TestOldFileIsNotCompleteAtFirst(t *testing.T) {
	e := undated()
	e.From, e.Pattern = From{Path: "/out"}, "rates_{date:20060102}*.csv"
	r := newRig(t, e, nil, "2026-11-01 05:00")
	r.files = append(r.files,
		Sighting{Name: "rates_20261101.csv", Size: 1, Modified: at(t, "2026-10-28 09:00"), Seen: at(t, "2026-11-01 06:00"), Appeared: 1, Waiting: true},
		Sighting{Name: "rates_20261103.csv", Size: 1, Modified: at(t, "2026-11-01 05:50"), Seen: at(t, "2026-11-01 06:00"), Appeared: 1})
	r.look("2026-11-01 06:01")
	r.files[0].Waiting = false
	r.look("2026-11-01 06:20")
	r.want("11-01 arrived, 11-03 arrived", "Arrived 01 06:01", "Arrived 01 06:20")
}

// TestPartnerAway: while nobody can look, the record says since when, and why.
func TestPartnerAway(t *testing.T) {
	r := newRig(t, undated(), nil, "2026-11-01 00:00")
	r.until("2026-11-01 06:30")
	r.gone, r.memory.Problem = true, "connection refused"
	words := func(want string) {
		t.Helper()
		if got := r.records[calendar.NewDate(2026, 11, 1)].Words(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	r.look("2026-11-01 06:40")
	words("expected from 06:00 to 08:00")
	r.look("2026-11-01 06:41")
	words("expected from 06:00 to 08:00; nobody could look since 06:30: connection refused")
	r.look("2026-11-01 07:31")
	words("due by 08:00, with grace until 08:15; nobody could look since 06:30: connection refused")
	r.gone = false
	r.look("2026-11-01 07:40")
	words("due by 08:00, with grace until 08:15")
	r.gone = true
	r.look("2026-11-01 08:16")
	words("missing since 08:15; nobody could look since 07:40: connection refused")
	r.memory.Problem = ""
	r.look("2026-11-01 08:30")
	words("missing since 08:15; nobody could look since 07:40: connection refused")
}

// TestLongPause: after days without a look each day has its record, in its order.
func TestLongPause(t *testing.T) {
	r := newRig(t, undated(), nil, "2026-11-01 00:00")
	r.until("2026-11-01 07:00")
	r.see("2026-11-03 07:00", "rates.csv", 1)
	r.look("2026-11-05 09:00")
	r.want("11-01 missing, 11-02 missing, 11-03 arrived, 11-04 missing, 11-05 missing",
		"Missing 05 09:00", "Missing 05 09:00", "Arrived 05 09:00", "Missing 05 09:00", "Missing 05 09:00")
	r = newRig(t, undated(), nil, "2026-01-01 00:00")
	r.look("2026-01-01 07:00")
	if out := r.look("2026-06-01 09:00"); out.after != 0 || len(r.records) != 101 {
		t.Errorf("%d records, next look after %v", len(r.records), out.after)
	}
	r.look("2026-06-01 09:00")
	if days := sortedDays(r.records); len(days) != 152 || days[151] != calendar.NewDate(2026, 6, 1) {
		t.Errorf("%d records", len(days))
	}
}

// TestWaiting: a file that is not complete counts when it is.
func TestWaiting(t *testing.T) {
	r := newRig(t, undated(), nil, "2026-11-01 00:00")
	r.until("2026-11-01 06:59")
	r.see("2026-11-01 07:00", "rates.csv", 1)
	r.see("2026-11-01 07:01", "rates2.csv", 1)
	r.files[0].Waiting = true
	if out := r.look("2026-11-01 07:02"); out.after != waitEvery || len(r.records[calendar.NewDate(2026, 11, 1)].Files) != 1 {
		t.Errorf("%+v", out)
	}
	r.look("2026-11-01 07:20")
	r.files[0].Waiting = false
	r.look("2026-11-01 07:21")
	if a := r.records[calendar.NewDate(2026, 11, 1)]; len(a.Files) != 2 || a.Files[0].Name != "rates.csv" {
		t.Errorf("%+v", a.Files)
	}
}

// TestExcuse: a day whose files are not there can be excused, and then nothing happens any more.
func TestExcuse(t *testing.T) {
	r := newRig(t, undated(), nil, "2026-11-01 00:00")
	r.until("2026-11-01 06:30")
	a := r.records[calendar.NewDate(2026, 11, 1)]
	if err := a.excuse("ann", "closed today", at(t, "2026-11-01 06:31")); err != nil {
		t.Fatal(err)
	}
	r.see("2026-11-01 09:00", "rates.csv", 1)
	r.until("2026-11-01 10:00")
	r.want("11-01 excused", "Unexpected 01 09:00")
	if words := a.Words(); words != "excused by ann: closed today" {
		t.Error(words)
	}
	if err := a.excuse("ann", "again", time.Now()); err == nil || !strings.Contains(err.Error(), "on 1 November 2026 is excused") {
		t.Errorf("%v", err)
	}
}

// TestSummarize: the median and the 95th percentile are those of arrivals alone.
func TestSummarize(t *testing.T) {
	until := at(t, "2026-11-01 08:00")
	var list []Arrival
	for i := range 20 {
		list = append(list, Arrival{State: Arrived, Until: until, ArrivedAt: until.Add(time.Duration(i-15) * time.Minute)})
	}
	list[19].State = Late
	list = append(list, Arrival{State: Missing}, Arrival{State: Incomplete}, Arrival{State: Excused}, Arrival{State: Upcoming})
	if s := Summarize(list); s != (Summary{OnTime: 19, Late: 1, Missing: 2, Excused: 1, MedianLate: -360, P95Late: 180}) {
		t.Errorf("%+v", s)
	}
	if s := Summarize(nil); s != (Summary{}) {
		t.Errorf("%+v", s)
	}
}

// TestKeysOfEvents: an event has the number of its place in the record, so that no two have one id.
func TestKeysOfEvents(t *testing.T) {
	r := newRig(t, undated(), nil, "2026-11-01 00:00")
	seenIDs := make(map[string]courier.EventType)
	r.see("2026-11-01 09:00", "rates.csv", 1)
	r.see("2026-11-01 12:00", "rates2.csv", 1)
	for _, when := range []string{"07:00", "07:40", "08:20", "09:00", "12:00"} {
		for _, e := range r.look("2026-11-01 " + when).events {
			id := fmt.Sprint(e.ID, e.Seq)
			if seenIDs[id] != "" || e.Text == "" || len(e.Payload) == 0 {
				t.Errorf("%+v", e)
			}
			seenIDs[id] = e.Type
		}
	}
	if len(seenIDs) != 4 {
		t.Errorf("%v", seenIDs)
	}
}
