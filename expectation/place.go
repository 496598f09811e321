package expectation

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
)

// A Sighting is a file that was seen at its source. If its size or time changes, the changed file
// is another sighting.
type Sighting struct {
	Name     string
	Size     int64
	Modified time.Time // of the file; zero if unknown
	Seen     time.Time
	// Found is when it was really seen, if Seen is an earlier time that counts instead.
	Found     time.Time
	Appeared  int                 // which appearance of the name it is, or the record number of a step
	Execution courier.ExecutionID // the execution that received it, or got it from the monitor
	// Waiting says that it is not complete yet. It counts when it is.
	Waiting bool
}

// found returns when it was really seen.
func (s *Sighting) found() time.Time {
	if s.Found.IsZero() {
		return s.Seen
	}
	return s.Found
}

// key returns a text that identifies the sighting within the expectation.
func (s *Sighting) key() string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %d %d %d %s", s.Name, s.Appeared, s.Size, s.Modified.UnixMicro(), s.Execution)
	return fmt.Sprintf("%016x", h.Sum64())
}

// A gap is a time during which the directory could not be read.
type gap struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// counts returns the time of a sighting that counts. Unseen reports that this is not the time at
// which it was seen.
func (s *Sighting) counts(gaps []gap) (at time.Time, unseen bool) {
	for _, g := range gaps {
		if s.Seen.After(g.From) && !s.Seen.After(g.To) && !s.Modified.IsZero() && s.Modified.Before(s.Seen) {
			if s.Modified.After(g.From) {
				return s.Modified, true
			}
			return g.From, true // it arrived after the last look
		}
	}
	return s.Seen, false
}

// within is how many days before its window a file with the day in its name may arrive.
const within = 31

// file returns the file of a sighting.
func (s *Sighting) file() File {
	f := File{Name: s.Name, Size: s.Size, SeenAt: s.Seen, ModifiedAt: s.Modified, At: s.Seen, Appeared: s.Appeared, Execution: s.Execution}
	if !s.Found.IsZero() {
		if f.SeenAt = s.Found; !s.Modified.IsZero() {
			f.At = s.Modified
		}
	}
	return f
}

// place returns the record of the day for which a file counts, and the file. The record may be a
// new one, which make makes. Otherwise why says why the file counts for no day. Unless all is
// set, a file without a day in its name is placed only if it arrived in a window, or early: the
// states of all records must be settled before other files are placed.
func (t *Timetable) place(s *Sighting, gaps []gap, records map[calendar.Date]*Arrival, make func(calendar.Date) *Arrival, now time.Time, all bool) (a *Arrival, f File, why string) {
	f = s.file()
	day, dated, known, ok := t.pattern.match(s.Name)
	switch {
	case !ok:
		return nil, f, "the pattern does not select it"
	case dated && !known:
		return nil, f, "there is no day as in its name"
	}
	at, unseen := s.counts(gaps)
	if dated {
		if a, why = t.dated(day, records, make, now); a == nil {
			return nil, f, why
		}
		if unseen && s.Seen.After(a.Ends) {
			f.At = at
			a.unseen(s.Seen, gaps)
		}
		return a, f, ""
	}
	has := t.having(s, records)
	if t.def.From.Job != "" && has != nil {
		return has, f, "" // the execution has received it again
	}
	if a = t.during(s.Seen, records); a != nil {
		return a, f, ""
	}
	if unseen {
		if a = t.during(at, records); a != nil {
			f.At = at
			a.unseen(s.Seen, gaps)
			return a, f, ""
		}
	}
	// It arrived between two windows.
	today := calendar.DateOf(s.Seen.In(t.zone))
	if next, ok := t.Next(today - 2); ok {
		for !t.At(next).Open.After(s.Seen) {
			if next, ok = t.Next(next); !ok {
				break
			}
		}
		if ok && t.early > 0 && !s.Seen.Before(t.At(next).Open.Add(-t.early)) {
			if a = records[next]; a == nil {
				a = make(next)
			}
			return a, f, ""
		}
	}
	if !all {
		return nil, f, ""
	}
	for _, other := range records {
		late := (other.State == Missing || other.State == Incomplete || other.DecidedAt.IsZero() && other.State.Open()) && !other.Ends.After(s.Seen)
		if late && (a == nil || other.Date > a.Date) && (has == nil || other.Date >= has.Date) {
			a = other
		}
	}
	switch {
	case a != nil:
		return a, f, ""
	case has != nil:
		return has, f, "" // a later state of a file that has its day already
	}
	return nil, f, "it came outside of all windows, and no day was missing"
}

// having returns the last record that has an earlier state of the same file; nil if there is
// none.
func (t *Timetable) having(s *Sighting, records map[calendar.Date]*Arrival) (a *Arrival) {
	for _, other := range records {
		has := slices.ContainsFunc(other.Files, func(have File) bool {
			if t.def.From.Job != "" {
				return have.Name == s.Name && have.Execution == s.Execution
			}
			return have.Name == s.Name && have.Appeared == s.Appeared
		})
		if has && (a == nil || other.Date > a.Date) {
			a = other
		}
	}
	return a
}

// during returns the record whose window contains an instant; nil if there is none.
func (t *Timetable) during(at time.Time, records map[calendar.Date]*Arrival) *Arrival {
	for _, a := range records {
		if !at.Before(a.Opens) && !at.After(a.Ends) {
			return a
		}
	}
	return nil
}

// dated returns the record of the day in a file's name.
func (t *Timetable) dated(day calendar.Date, records map[calendar.Date]*Arrival, make func(calendar.Date) *Arrival, now time.Time) (*Arrival, string) {
	if a := records[day]; a != nil {
		return a, ""
	}
	if why := t.Why(day); why != "" {
		return nil, why
	}
	switch today := calendar.DateOf(now.In(t.zone)); {
	case day > today+within:
		return nil, fmt.Sprintf("%s is more than %d days ahead", day.Words(), within)
	case day < today:
		return nil, "there is no record of " + day.Words() + ": it is before the expectation was set, or more than " + fmt.Sprint(remembered) + " days ago"
	}
	return make(day), ""
}

// remembered is the number of days before the last one whose records can still change.
const remembered = 25

// unseen notes why the modification time of a file counts.
func (a *Arrival) unseen(seen time.Time, gaps []gap) {
	for _, g := range gaps {
		if seen.After(g.From) && !seen.After(g.To) {
			a.Note = fmt.Sprintf("nobody could look between %s and %s, so the time of the file itself counts", a.Clock(g.From), a.Clock(g.To))
		}
	}
}
