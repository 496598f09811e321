package expectation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
)

// A State is the state of an arrival.
type State string

// The states of arrivals.
const (
	Upcoming   State = "upcoming"   // its files are not there, and are not due yet
	DueSoon    State = "due_soon"   // its files are not there, and the window ends soon
	Arrived    State = "arrived"    // its files came in time
	Incomplete State = "incomplete" // the window and the grace have ended, and not all files are right
	Missing    State = "missing"    // the window and the grace have ended without a file
	Late       State = "late"       // its files came, too late
	Excused    State = "excused"    // an operator has excused the day, or the day no longer counts
)

// States lists the states in the order in which a day passes through them.
var States = []State{Upcoming, DueSoon, Arrived, Incomplete, Missing, Late, Excused}

// Open reports whether files are still expected.
func (s State) Open() bool {
	return s == Upcoming || s == DueSoon || s == Missing || s == Incomplete
}

// An Arrival is the record of one day of an expectation.
type Arrival struct {
	ID          string `json:"id"` // a UUID, which events refer to
	Expectation string `json:"expectation"`
	Date        string `json:"date"` // the day on which the window opens, as in 2026-11-29
	State       State  `json:"state"`
	// Opens and Until are the window, and Ends is the end of the grace. They follow changes of
	// the definition until they have passed.
	Opens time.Time `json:"opens_at"`
	Until time.Time `json:"until"`
	Ends  time.Time `json:"ends_at"`
	Zone  string    `json:"time_zone"`
	// ArrivedAt is when the last required file arrived, for Arrived and Late.
	ArrivedAt time.Time `json:"arrived_at,omitzero"`
	// LateSeconds is the time from Until to ArrivedAt, for Late.
	LateSeconds int64 `json:"late_seconds,omitempty"`
	// Files are the files of the day, in the order in which they arrived, at most 1,000. More
	// is the number of further files.
	Files []File `json:"files,omitempty"`
	More  int    `json:"more,omitempty"`
	// Reasons say what is wrong with the files, for Incomplete and before it.
	Reasons []string `json:"reasons,omitempty"`
	// Note says why the directory could not be read, or why the time that counts is not the time
	// at which a file was seen.
	Note string `json:"note,omitempty"`
	// Problem says why the directory can't be read, or could not be read when the window ended.
	Problem   string    `json:"problem,omitempty"`
	DecidedAt time.Time `json:"decided_at,omitzero"` // when a look found that the window had ended; zero before
	ExcusedBy string    `json:"excused_by,omitempty"`
	ExcusedAt time.Time `json:"excused_at,omitzero"`
	Excuse    string    `json:"excuse,omitempty"` // why nothing is expected
	// Events are the events of the day so far, in their order, each once.
	Events []courier.EventType `json:"events,omitempty"`
}

// A File is a file that arrived.
type File struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	// SeenAt is when the file was first seen with this size and modification time: by a poll of
	// the monitor, or at the end of the step that received it.
	SeenAt     time.Time `json:"seen_at"`
	ModifiedAt time.Time `json:"modified_at,omitzero"` // the modification time; zero if unknown
	// At is the time that counts: SeenAt, or ModifiedAt if the directory could not be read then.
	At        time.Time           `json:"at"`
	Appeared  int                 `json:"appeared,omitempty"`     // which appearance of the name it is, for a monitor
	Execution courier.ExecutionID `json:"execution_id,omitempty"` // the execution that received it, or got it from the monitor
	Wrong     string              `json:"wrong,omitempty"`        // what is wrong with its size
}

const maxFiles = 1000

// Day returns the day of the record.
func (a *Arrival) Day() calendar.Date {
	date, _ := calendar.ParseDate(a.Date)
	return date
}

// Location returns the location of the record's time zone; UTC if this machine does not have the
// zone.
func (a *Arrival) Location() *time.Location {
	if zone, ok := zones.Load(a.Zone); ok {
		return zone.(*time.Location)
	}
	zone, err := time.LoadLocation(a.Zone)
	if err != nil {
		zone = time.UTC
	}
	zones.Store(a.Zone, zone)
	return zone
}

// zones keeps locations by name, because loading one takes as long as everything else that is
// shown of a record. There are few names.
var zones sync.Map

// newArrival returns the record of a day.
func (t *Timetable) newArrival(id string, date calendar.Date) *Arrival {
	a := &Arrival{ID: id, Expectation: t.def.Name, Date: date.String(), State: Upcoming}
	a.follow(t)
	return a
}

// follow sets the window by the current definition.
func (a *Arrival) follow(t *Timetable) {
	at := t.At(a.Day())
	a.Opens, a.Until, a.Ends, a.Zone = at.Open.UTC(), at.Until.UTC(), at.End.UTC(), t.zone.String()
}

// put adds a file, in place of an earlier one with its name.
func (a *Arrival) put(f File) {
	if i := slices.IndexFunc(a.Files, func(have File) bool { return have.Name == f.Name }); i >= 0 {
		a.Files = slices.Delete(slices.Clone(a.Files), i, i+1)
	}
	if len(a.Files) >= maxFiles {
		a.More++
		return
	}
	a.Files = append(slices.Clip(a.Files), f)
	slices.SortStableFunc(a.Files, func(x, y File) int { return cmp.Or(x.At.Compare(y.At), strings.Compare(x.Name, y.Name)) })
}

// weigh reports whether the files of a record are complete and since when, and what is wrong with
// them.
func (t *Timetable) weigh(a *Arrival) (complete bool, since time.Time, wrong []string) {
	e := &t.def
	right, bad := 0, 0
	for i := range a.Files {
		f := &a.Files[i]
		f.Wrong = ""
		switch {
		case f.Size == 0 && e.leastBytes() > 0:
			f.Wrong = "it is empty"
		case f.Size < e.leastBytes():
			f.Wrong = fmt.Sprintf("it has %d bytes, less than %d", f.Size, e.leastBytes())
		case e.Bytes.Most > 0 && f.Size > e.Bytes.Most:
			f.Wrong = fmt.Sprintf("it has %d bytes, more than %d", f.Size, e.Bytes.Most)
		}
		if f.Wrong != "" {
			const few = 3
			if bad++; bad <= few {
				wrong = append(wrong, fmt.Sprintf("%s: %s", f.Name, f.Wrong))
			}
			continue
		}
		if right++; right == e.leastCount() {
			since = f.At
		}
	}
	right += a.More
	switch most := e.Count.Most; {
	case right < e.leastCount() && len(a.Files) > 0 && (e.leastCount() > 1 || right > 0):
		wrong = append(wrong, fmt.Sprintf("%s of %d", files(right), e.leastCount()))
	case most > 0 && right > most:
		wrong = append(wrong, fmt.Sprintf("%s, more than %d", files(right), most))
		return false, time.Time{}, wrong
	}
	if right < e.leastCount() {
		return false, time.Time{}, wrong
	}
	return true, since, nil
}

func files(n int) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
}

// settle updates the state of a record, and returns the events that follow. A record has each
// event only once.
func (t *Timetable) settle(a *Arrival, m *memory, now time.Time) (events []courier.EventType) {
	say := func(e courier.EventType) {
		if !slices.Contains(a.Events, e) {
			a.Events = append(slices.Clip(a.Events), e)
			events = append(events, e)
		}
	}
	complete, since, wrong := t.weigh(a)
	if a.State == Excused {
		return nil
	}
	decided := !a.DecidedAt.IsZero()
	if !decided {
		a.follow(t)
	}
	arrived := func() {
		a.ArrivedAt, a.Reasons = since, nil
		if since.After(a.Ends) {
			a.State, a.LateSeconds = Late, int64(since.Sub(a.Until)/time.Second)
			say(courier.EventFileLate)
		} else {
			a.State = Arrived
			say(courier.EventFileArrived)
		}
	}
	switch {
	case decided && (a.State == Arrived || a.State == Late):
		return nil
	case complete:
		arrived()
		if !decided {
			a.sighted()
		}
		if !decided && !now.Before(a.Ends) {
			a.DecidedAt = now
		}
		return events
	}
	a.Reasons, a.ArrivedAt = wrong, time.Time{}
	if !decided {
		m.blind(a, now)
	}
	if now.Before(a.Ends) && !decided {
		a.State = Upcoming
		if t.dueSoon > 0 && !now.Before(a.Until.Add(-t.dueSoon)) {
			a.State = DueSoon
			say(courier.EventFileDueSoon)
		}
		return events
	}
	if !decided {
		a.DecidedAt = now
	}
	if len(a.Files)+a.More > 0 {
		a.State = Incomplete
		say(courier.EventFileIncomplete)
	} else {
		a.State = Missing
		say(courier.EventFileMissing)
	}
	return events
}

// unable begins the note that the directory could not be read.
const unable = "nobody could look since "

// blind notes that the directory can't be read in a record whose files are not there. While the
// window is open it does so only if the reason is known; after the window has ended it always
// does.
func (m *memory) blind(a *Arrival, now time.Time) {
	a.sighted()
	switch {
	case !m.LookedAt.Before(a.Ends) || now.Sub(m.LookedAt) <= unseenFor:
	case now.Before(a.Ends) && (m.Problem == "" || now.Before(a.Opens) || now.Sub(m.FilesSince) <= unseenFor):
	default:
		a.Note, a.Problem = unable+a.Clock(m.LookedAt), m.Problem
	}
}

// sighted removes the note that blind has made.
func (a *Arrival) sighted() {
	if strings.HasPrefix(a.Note, unable) {
		a.Note, a.Problem = "", ""
	}
}

// unseenFor is the minimum time without a look for which the modification time of a file counts.
const unseenFor = 10 * time.Minute

// excuse excuses a record: its files are no longer expected.
func (a *Arrival) excuse(by, reason string, now time.Time) error {
	if !a.State.Open() {
		return courier.Errorf(courier.ErrConflict, "expectation %q on %s is %s; only a day whose files have not arrived can be excused", a.Expectation, a.Day().Words(), a.State)
	}
	a.State, a.ExcusedBy, a.Excuse, a.ExcusedAt = Excused, by, reason, now
	if a.DecidedAt.IsZero() {
		a.DecidedAt = now
	}
	return nil
}

// Clock returns an instant in the time zone of the record: the time, such as 08:10, and the day
// if it is another day.
func (a *Arrival) Clock(at time.Time) string {
	local := at.In(a.Location())
	if at.IsZero() {
		return "the beginning"
	}
	if calendar.DateOf(local) == a.Day() {
		return local.Format("15:04")
	}
	return local.Format("15:04 on 2 January")
}

// Words returns the state of the record as a phrase, in its time zone, such as "missing
// since 08:10".
func (a *Arrival) Words() string {
	switch a.State {
	case Upcoming, DueSoon:
		text := "expected from " + a.Clock(a.Opens) + " to " + a.Clock(a.Until)
		if a.State == DueSoon {
			text = "due by " + a.Clock(a.Until)
			if a.Ends.After(a.Until) {
				text += ", with grace until " + a.Clock(a.Ends)
			}
		}
		return text + because(a.Reasons) + a.blindness()
	case Arrived:
		return "arrived at " + a.Clock(a.ArrivedAt)
	case Late:
		return fmt.Sprintf("late by %s: due by %s, arrived at %s", short(time.Duration(a.LateSeconds)*time.Second), a.Clock(a.Until), a.Clock(a.ArrivedAt))
	case Missing:
		return "missing since " + a.Clock(a.Ends) + a.blindness()
	case Incomplete:
		return "incomplete since " + a.Clock(a.Ends) + because(a.Reasons)
	case Excused:
		text := "excused"
		if a.ExcusedBy != "" {
			text += " by " + a.ExcusedBy
		}
		if a.Excuse != "" {
			text += ": " + a.Excuse
		}
		return text
	}
	return string(a.State)
}

// blindness says that the directory could not be read, and why.
func (a *Arrival) blindness() string {
	if a.Note == "" {
		return ""
	}
	text := "; " + a.Note
	if a.Problem != "" {
		text += ": " + a.Problem
	}
	return text
}

func because(reasons []string) string {
	if len(reasons) == 0 {
		return ""
	}
	return ": " + strings.Join(reasons, "; ")
}
