package expectation

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/internal/jsontext"
)

// Intervals and limits of looks.
const (
	lookEvery = time.Minute        // while files are expected
	idleEvery = 5 * time.Minute    // otherwise
	waitEvery = 15 * time.Second   // while a file is not complete
	afterEnd  = time.Second        // for polls that have seen a file in time and are writing it
	overlap   = 10 * time.Minute   // how much later than another one a sighting may be written
	holdFor   = 24 * time.Hour     // how long looks wait for a file that is not complete
	awaited   = 7 * 24 * time.Hour // how long looks for a missing day are as frequent as for a current day
	maxNew    = 100                // records made by one look
	maxGaps   = 10
	quietFor  = 30 * 24 * time.Hour // time without a matching file after which there is a hint
)

// A memory is the data that is kept of an expectation from look to look.
type memory struct {
	Since      time.Time `json:"since"`             // days whose window ended before this have no record
	FilesSince time.Time `json:"files_since"`       // files that were seen before this and match no day have no event
	Through    string    `json:"through,omitempty"` // all counting days up to this one have a record
	// SeenUntil is when the last file that was taken into account was seen. Taken has the keys of
	// the files that were seen within overlap before it, or later.
	SeenUntil time.Time `json:"seen_until"`
	Taken     []taken   `json:"taken,omitempty"`
	LookedAt  time.Time `json:"looked_at,omitzero"`
	MatchedAt time.Time `json:"matched_at,omitzero"`
	Gaps      []gap     `json:"gaps,omitempty"` // times at which the directory could not be read
	Problem   string    `json:"problem,omitempty"`
	// FirstLook is when the first successful poll ended; zero before. A file that this poll of
	// the expectation's own monitor found counts as arrived at its modification time.
	FirstLook time.Time `json:"first_look,omitzero"`
}

// A taken is the key of a sighting that was taken into account.
type taken struct {
	Key  string    `json:"key"`
	Seen time.Time `json:"seen"`
}

// readMemory decodes the memory of an expectation.
func readMemory(raw json.RawMessage) (m memory) {
	if json.Unmarshal(raw, &m) != nil {
		return memory{}
	}
	return m
}

// through returns the day up to which all counting days have a record.
func (m *memory) through() calendar.Date {
	date, _ := calendar.ParseDate(m.Through)
	return date
}

// A seen is the input of a look.
type seen struct {
	now       time.Time // by the clock of the store
	records   map[calendar.Date]*Arrival
	sightings []Sighting
	// looked is when the last successful look for files ended, and took is its duration. It is
	// zero if that is not known.
	looked time.Time
	took   time.Duration
	newID  func() string
}

// An outcome is the result of a look.
type outcome struct {
	memory  memory
	changed []*Arrival // by day
	events  []Event
	after   time.Duration // until the next look
}

// look evaluates the files that were seen: the day of each file, the state of each day, and the
// events. It changes the given records.
func (t *Timetable) look(m memory, in seen) outcome {
	m.Gaps = slices.Clone(m.Gaps)
	if m.FirstLook.IsZero() {
		m.FirstLook = in.first()
	}
	m.note(in.looked, in.took)
	if t.def.From.looks() {
		in.sightings = t.there(&m, in.sightings)
	}
	was := make(map[calendar.Date]string, len(in.records)) // the records that may change
	for day, a := range in.records {
		if a.State.Open() || a.DecidedAt.IsZero() {
			was[day] = body(a)
		}
	}
	put := func(a *Arrival, f File) {
		if _, ok := was[a.Day()]; !ok {
			was[a.Day()] = "" // the record changes
		}
		a.put(f)
	}
	made := func(day calendar.Date) *Arrival {
		a := t.newArrival(in.newID(), day)
		in.records[day], was[day] = a, ""
		return a
	}
	again := t.open(&m, in, made)
	t.drop(in)
	var out outcome
	settle := func(a *Arrival) {
		for _, e := range t.settle(a, &m, in.now) {
			out.events = append(out.events, t.event(a, e, in.now))
		}
	}
	settleAll := func() {
		for _, day := range sortedDays(in.records) {
			settle(in.records[day])
		}
	}
	fresh, waiting := t.fresh(&m, in)
	rest := fresh[:0:0]
	for i := range fresh {
		s := &fresh[i]
		a, f, why := t.place(s, m.Gaps, in.records, made, in.now, false)
		switch {
		case a != nil:
			put(a, f)
		case why == "":
			rest = append(rest, *s)
		default:
			out.unexpected(t, &m, s, why, in)
		}
	}
	settleAll()
	for i := range rest {
		s := &rest[i]
		if a, f, why := t.place(s, m.Gaps, in.records, made, in.now, true); a != nil {
			put(a, f)
			settle(a)
		} else {
			out.unexpected(t, &m, s, why, in)
		}
	}
	for _, day := range sortedDays(in.records) {
		a := in.records[day]
		if before, ok := was[day]; ok && body(a) != before {
			out.changed = append(out.changed, a)
		}
	}
	out.memory, out.after = m, t.after(&m, in, waiting)
	if again {
		out.after = 0
	}
	return out
}

// body returns the stored form of a record.
func body(a *Arrival) string {
	raw, _ := jsontext.Append(nil, a)
	return string(raw)
}

func sortedDays(records map[calendar.Date]*Arrival) (days []calendar.Date) {
	for day := range records {
		days = append(days, day)
	}
	slices.Sort(days)
	return days
}

// note records when the last look was, and a gap if no look was possible for a long time before.
func (m *memory) note(looked time.Time, took time.Duration) {
	if !looked.After(m.LookedAt) {
		return
	}
	if !m.LookedAt.IsZero() && looked.Sub(m.LookedAt) > unseenFor {
		m.Gaps = append(m.Gaps, gap{m.LookedAt, looked.Add(took)})
		m.Gaps = m.Gaps[max(0, len(m.Gaps)-maxGaps):]
	}
	m.LookedAt = looked
}

// first returns when the first successful poll of a monitor ended; zero if there was none. The
// latest poll may have failed.
func (in *seen) first() (at time.Time) {
	for i := range in.sightings {
		if s := in.sightings[i].Seen; at.IsZero() || s.Before(at) {
			at = s
		}
	}
	if ended := in.looked.Add(in.took + time.Millisecond); !in.looked.IsZero() && ended.After(at) { // the duration is rounded
		at = ended
	}
	return at
}

// there changes the times of files that the first poll of an expectation's own monitor has found
// to their modification times, or, if they have none, to the time at which the expectation was
// set, because their arrival was not seen.
func (t *Timetable) there(m *memory, list []Sighting) []Sighting {
	list = slices.Clone(list)
	for i := range list {
		s := &list[i]
		came := s.Modified
		if came.IsZero() {
			came = m.FilesSince
		}
		if s.Seen.After(m.FirstLook) || !came.Before(s.Seen) {
			continue
		}
		s.Found, s.Seen = s.Seen, came
	}
	return list
}

// open makes the records of the days that have begun. It reports whether there are more than it
// makes at once.
func (t *Timetable) open(m *memory, in seen, made func(calendar.Date) *Arrival) (more bool) {
	for n := 0; ; n++ {
		day, ok := t.Next(m.through())
		if !ok || t.begin(day).After(in.now) {
			return false
		}
		if n == maxNew {
			return true
		}
		if in.records[day] == nil && t.At(day).End.After(m.Since) {
			made(day)
		}
		m.Through = day.String()
	}
}

// drop excuses future days that no longer count, because the calendar or the definition has
// changed.
func (t *Timetable) drop(in seen) {
	for day, a := range in.records {
		if a.DecidedAt.IsZero() && len(a.Files) == 0 && a.State.Open() {
			if why := t.Why(day); why != "" {
				a.State, a.Excuse, a.ExcusedAt, a.DecidedAt = Excused, why, in.now, in.now
			}
		}
	}
}

// fresh returns the sightings that were not taken into account yet, the earliest first, and
// records that they are now. Waiting reports whether one is not complete.
func (t *Timetable) fresh(m *memory, in seen) (list []Sighting, waiting bool) {
	known := make(map[string]bool, len(m.Taken))
	for _, k := range m.Taken {
		known[k.Key] = true
	}
	m.Taken = slices.Clone(m.Taken)
	until, hold := m.SeenUntil, time.Time{}
	sorted := slices.Clone(in.sightings)
	slices.SortStableFunc(sorted, func(a, b Sighting) int { return a.Seen.Compare(b.Seen) })
	for _, s := range sorted {
		_, dated, _, ok := t.pattern.match(s.Name)
		if !ok {
			continue
		}
		found := s.found()
		if s.Waiting {
			if in.now.Sub(found) < holdFor && (hold.IsZero() || found.Before(hold)) {
				hold = found
			}
			waiting = true
			continue
		}
		if found.After(until) {
			until = found
		}
		key := s.key()
		if known[key] || found.Before(m.SeenUntil.Add(-overlap)) {
			continue
		}
		known[key] = true
		m.Taken = append(m.Taken, taken{key, found})
		if found.After(m.MatchedAt) {
			m.MatchedAt = found
		}
		if !dated && s.Seen.Before(m.FilesSince.Add(-24*time.Hour)) {
			continue // it existed long before
		}
		list = append(list, s)
	}
	if !hold.IsZero() && hold.Before(until) {
		until = hold
	}
	m.SeenUntil = until
	m.Taken = slices.DeleteFunc(m.Taken, func(k taken) bool { return k.Seen.Before(until.Add(-overlap)) })
	if len(m.Taken) == 0 {
		m.Taken = nil
	}
	return list, waiting
}

// after returns the time until the next look.
func (t *Timetable) after(m *memory, in seen, waiting bool) time.Duration {
	next := in.now.Add(idleEvery)
	sooner := func(at time.Time) {
		if at.Before(next) {
			next = at
		}
	}
	if day, ok := t.Next(m.through()); ok {
		sooner(t.begin(day))
	}
	for _, a := range in.records {
		if !a.State.Open() && !(a.State == Arrived && a.DecidedAt.IsZero()) {
			continue
		}
		if a.DecidedAt.IsZero() {
			sooner(a.Ends.Add(afterEnd))
			if soon := a.Until.Add(-t.dueSoon); soon.After(in.now) && t.dueSoon > 0 {
				sooner(soon)
			}
			if opens := a.Opens.Add(-t.early); opens.After(in.now) {
				sooner(opens)
				continue
			}
		}
		if in.now.Sub(a.Ends) < awaited {
			sooner(in.now.Add(lookEvery))
		}
	}
	if waiting {
		sooner(in.now.Add(waitEvery))
	}
	return max(next.Sub(in.now), time.Second)
}

// An Event is an event of an expectation, in the form in which a store keeps it for
// subscriptions.
type Event struct {
	Expectation string
	// ID and Seq identify the event: the ID of the record and the number of the event in it, or a
	// UUID of its own and 1.
	ID   string
	Seq  int64
	Type courier.EventType
	At   time.Time
	Text string // describes the event in a sentence
	// Payload is the [Arrival], or the [File] if the event is an unexpected file, as JSON.
	Payload json.RawMessage
}

// event returns an event of a record.
func (t *Timetable) event(a *Arrival, e courier.EventType, at time.Time) Event {
	const few = 20 // files; the record has all
	told := *a
	told.Files = a.Files[:min(len(a.Files), few)]
	told.More += len(a.Files) - len(told.Files)
	payload, _ := jsontext.Append(nil, &told)
	return Event{
		Expectation: a.Expectation, ID: a.ID, Seq: int64(slices.Index(a.Events, e) + 1), Type: e, At: at,
		Text: fmt.Sprintf("expectation %q on %s: %s (%s)", a.Expectation, a.Day().Words(), a.Words(), a.Zone), Payload: payload,
	}
}

// unexpected adds the event of a file that counts for no day.
func (o *outcome) unexpected(t *Timetable, m *memory, s *Sighting, why string, in seen) {
	if !s.Seen.After(m.FilesSince) {
		return // it existed before
	}
	payload, _ := jsontext.Append(nil, s.file())
	o.events = append(o.events, Event{
		Expectation: t.def.Name, ID: in.newID(), Seq: 1, Type: courier.EventFileUnexpected, At: in.now,
		Text: fmt.Sprintf("expectation %q: %s is of no day: %s", t.def.Name, s.Name, why), Payload: payload,
	})
}
