// Package schedule starts executions of jobs and chains at given times.
//
// A [Schedule] is the definition: which job or chain is started, and when. The instants at
// which it fires are its ticks. They follow from the definition alone. A [Service] checks
// schedules, saves them in a store that has the role [Store], and fires those that are due.
// [PlanTicks] decides which ticks fire. Each tick starts at most one execution, however
// many engines use the store.
//
// Programs get the service from their engine, which fires schedules while it is started:
//
//	_, err := e.Schedules().Set(ctx, schedule.Schedule{
//		Name: "invoices-daily", Job: "invoices", Cron: "0 30 5 ? * MON-FRI", Zone: "Europe/Berlin",
//	}, courier.By{})
//
// # How ticks fire
//
// A store finds due schedules by the instant at which each must be examined next: its next tick,
// the end of a lease, or a minute after a problem. Engines look for due schedules when the next
// one is due, when one was saved, and every 30 s. A batch of firings is one transaction, which
// locks the rows in the order of their names. If a firing cannot be carried out, the batch is
// repeated without it. A schedule keeps the ids of up to a hundred executions that it has started
// and that had not ended when it last fired. With the policy queue_one it keeps the tick until
// the execution has ended, and checks every 5 s.
//
// A [Timetable] applies the calendar: it has the ticks of open days, and the ticks of closed days
// that are moved to open days. A change of a calendar also updates the schedules that use it, so
// the store refuses a firing by the old calendar. A tick is checked against the calendar again
// before it fires.
package schedule

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/errtext"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/strictjson"
	"github.com/courierhq/courier/internal/target"
)

// A Schedule says when executions of a job or chain are started. The instants at which it fires
// are its ticks. They follow only from Cron and Zone, Every, or At, and from the calendar, so all
// engines compute the same ticks. A tick starts at most one execution, however many engines there
// are.
type Schedule struct {
	// Name has 1 to 200 characters, without control characters. It is part of the idempotency key
	// of each execution that the schedule starts.
	Name  string `json:"name"`
	Job   string `json:"job,omitempty"`   // the name of a job; either Job or Chain is set
	Chain string `json:"chain,omitempty"` // the name of a chain; its latest version is started

	// Cron is an expression in Quartz format, with six or seven fields, seconds first, such as "0
	// 0 3 ? * TUE". The word crontab and the five fields of crontab are also accepted, such as
	// "crontab 0 3 * * 2". Its times are local times in Zone.
	Cron string `json:"cron,omitempty"`
	// Zone is the time zone of Cron, by its name in the tz database, such as
	// Europe/Berlin. Empty means UTC.
	Zone string `json:"time_zone,omitempty"`
	// Every is the time between two ticks, at least a second, in whole milliseconds. Ticks are
	// counted from Starts. If Starts is zero, they are counted from 1970-01-01 00:00 UTC, so a
	// schedule of every hour fires on the hour. In JSON the field is every_seconds.
	Every time.Duration `json:"-"`
	// At is the only tick of a schedule that fires once. The schedule is disabled afterwards.
	At time.Time `json:"at,omitzero"`

	// Calendar is the name of the calendar that the schedule uses; empty means that all days are
	// open. The day of a tick is its date in the time zone of the calendar. A schedule with At
	// has no calendar.
	Calendar string `json:"calendar,omitempty"`
	// OnClosed says what happens to the ticks of closed days. Empty means skip. It requires a
	// calendar.
	OnClosed OnClosed `json:"on_closed,omitempty"`

	// Starts and Ends limit the ticks: none is before Starts or after Ends. Zero means no limit.
	Starts time.Time `json:"starts_at,omitzero"`
	Ends   time.Time `json:"ends_at,omitzero"`
	// Params are the parameters of the executions, as in [courier.EnqueueOptions].
	Params map[string]any `json:"params,omitempty"`
	// Priority is the priority of the executions; higher is claimed first.
	Priority int16 `json:"priority,omitempty"`
	// Overlap says what happens to a tick while an earlier execution of the schedule has not
	// ended. Empty means allow.
	Overlap Overlap `json:"overlap,omitempty"`
	// Misfire says what happens to ticks that came while no engine was started, and to ticks that
	// an engine found more than [MisfireAfter] late. Empty means fire_once.
	Misfire Misfire `json:"misfire,omitempty"`
	// Window is the maximum age of a tick for fire_all. 0 means a day. In JSON the field is
	// window_seconds.
	Window time.Duration `json:"-"`
	// Jitter spreads schedules with the same ticks: each tick fires late by a duration from 0 to
	// Jitter, which is derived from the schedule's name and the tick. In JSON the field is
	// jitter_seconds.
	Jitter time.Duration `json:"-"`
	// PauseAfter is the number of consecutive failed executions after which the schedule is
	// paused. 0 means never.
	PauseAfter int `json:"pause_after,omitempty"`
	// Disabled says that the schedule does not fire. Setting an existing schedule does not enable
	// it: a schedule that an operator disabled stays disabled when the program starts again. A
	// schedule whose At has fired is enabled when another At is set.
	Disabled bool `json:"disabled,omitempty"`

	// The following fields report the state. Set ignores them.

	// Paused says that PauseAfter consecutive executions have failed. It is cleared when the
	// schedule is enabled.
	Paused bool `json:"paused,omitempty"`
	// Reason says why the schedule is disabled or paused, and who did it.
	Reason string `json:"reason,omitempty"`
	// NextFire is the next tick. It is zero if there is none, or if the schedule is disabled or
	// paused.
	NextFire time.Time `json:"next_fire,omitzero"`
	// Waiting says that the tick NextFire is due and waits for an execution to end, because the
	// policy is queue_one.
	Waiting bool `json:"waiting,omitempty"`
	// LastFire is the last tick that started an execution, and LastExecution is that execution.
	LastFire      time.Time           `json:"last_fire,omitzero"`
	LastExecution courier.ExecutionID `json:"last_execution,omitempty"`
	// Failures is the number of consecutive failed executions, as of the last tick.
	Failures int `json:"failures,omitempty"`
	// Problem says why the schedule could not fire at the last attempt. Engines try again after a
	// minute.
	Problem string    `json:"problem,omitempty"`
	SavedAt time.Time `json:"saved_at,omitzero"` // when it was last set
	// MovesFrom is the last instant at which ticks of closed days could be moved only to a time
	// that had passed, so they were moved to the next open day. It is zero if that never
	// happened.
	MovesFrom time.Time `json:"moves_from,omitzero"`
}

// An OnClosed says what happens to the ticks of a schedule on closed days of its calendar.
type OnClosed string

// The policies for ticks of closed days. A tick that is moved keeps its local time in the time
// zone of the calendar. Ticks at the same instant fire once.
const (
	ClosedSkip OnClosed = "skip" // they do not fire
	ClosedNext OnClosed = "next" // they are moved to the next open day
	// They are moved to the open day before. If their time on that day has passed when the
	// schedule or the calendar is changed, they are moved to the next open day.
	ClosedPrevious OnClosed = "previous"
)

var onClosed = []OnClosed{ClosedSkip, ClosedNext, ClosedPrevious}

// onClosed returns OnClosed or its default.
func (s *Schedule) onClosed() OnClosed { return cmp.Or(s.OnClosed, ClosedSkip) }

// An Overlap says what happens to a tick of a schedule while an execution of
// the same schedule has not ended.
type Overlap string

// The policies for a tick while an execution has not ended.
const (
	OverlapAllow  Overlap = "allow"          // it starts another one
	OverlapSkip   Overlap = "skip"           // the tick does not fire
	OverlapQueue  Overlap = "queue_one"      // the tick waits for the end; ticks that come in the meantime do not fire
	OverlapCancel Overlap = "cancel_running" // the execution is cancelled, and another is started
)

// overlaps and misfires list the policies in the order in which error messages name them.
var overlaps = []Overlap{OverlapAllow, OverlapSkip, OverlapQueue, OverlapCancel}

// A Misfire says what happens to ticks of a schedule that were missed.
type Misfire string

// The policies for missed ticks.
const (
	MisfireOnce Misfire = "fire_once" // the last of them fires
	MisfireAll  Misfire = "fire_all"  // all that are not older than the window fire, one after the other
	MisfireSkip Misfire = "skip"      // none fires
)

var misfires = []Misfire{MisfireOnce, MisfireAll, MisfireSkip}

// DefaultWindow is the window of fire_all if none is given.
const DefaultWindow = 24 * time.Hour

// WithDefaults returns the schedule with a value in every field that has a
// default.
func (s Schedule) WithDefaults() Schedule {
	if s.Cron != "" {
		s.Zone = cmp.Or(s.Zone, "UTC")
	}
	if s.Calendar != "" {
		s.OnClosed = s.onClosed()
	}
	s.Overlap, s.Misfire = cmp.Or(s.Overlap, OverlapAllow), cmp.Or(s.Misfire, MisfireOnce)
	if s.Misfire == MisfireAll {
		s.Window = cmp.Or(s.Window, DefaultWindow)
	}
	return s
}

// Definition returns the schedule without the fields that only report its state, and
// without Disabled. Two schedules are the same if their definitions are equal.
func (s Schedule) Definition() Schedule {
	s.Disabled, s.Paused, s.Waiting = false, false, false
	s.Reason, s.Problem, s.LastExecution, s.Failures = "", "", "", 0
	s.NextFire, s.LastFire, s.SavedAt, s.MovesFrom = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return s
}

// SameTicks reports whether s and t fire at the same instants, as long as their calendar is the
// same.
func (s *Schedule) SameTicks(t *Schedule) bool {
	return s.Name == t.Name && s.Cron == t.Cron && s.Zone == t.Zone && s.Every == t.Every && s.Jitter == t.Jitter &&
		s.At.Equal(t.At) && s.Starts.Equal(t.Starts) && s.Ends.Equal(t.Ends) && s.Calendar == t.Calendar && s.onClosed() == t.onClosed()
}

// Check returns the problems of the schedule itself. [Service.Check] also checks the cron
// expression, the zone, the calendar, the job and the parameters.
func (s *Schedule) Check() []courier.Problem {
	var found []courier.Problem
	add := func(field, format string, args ...any) {
		found = append(found, courier.Problem{Step: -1, Field: field, Message: fmt.Sprintf(format, args...)})
	}
	if problem := errtext.Name(s.Name); problem != "" {
		add("name", "%s", problem)
	}
	if field, problem := target.Check("schedule", s.Job, s.Chain); problem != "" {
		add(field, "%s", problem)
	}
	s.checkTicks(add)
	switch {
	case s.OnClosed != "" && !slices.Contains(onClosed, s.OnClosed):
		add("on_closed", "unknown policy %q; %s", errtext.Shorten(string(s.OnClosed), 60), nearest.DidYouMean(string(s.OnClosed), onClosed))
	case s.OnClosed != "" && s.Calendar == "":
		add("on_closed", "it is for schedules with a calendar only; name one in calendar")
	}
	if s.Calendar != "" && !s.At.IsZero() {
		add("calendar", "it is for cron and every_seconds only; a single instant is not moved")
	}
	if s.Overlap != "" && !slices.Contains(overlaps, s.Overlap) {
		add("overlap", "unknown policy %q; %s", errtext.Shorten(string(s.Overlap), 60), nearest.DidYouMean(string(s.Overlap), overlaps))
	}
	if s.Misfire != "" && !slices.Contains(misfires, s.Misfire) {
		add("misfire", "unknown policy %q; %s", errtext.Shorten(string(s.Misfire), 60), nearest.DidYouMean(string(s.Misfire), misfires))
	}
	switch {
	case s.Window < 0:
		add("window_seconds", "%v is negative", s.Window)
	case s.Window > 0 && s.Misfire != MisfireAll:
		add("window_seconds", "it is for misfire %q only, and this is %q", MisfireAll, cmp.Or(s.Misfire, MisfireOnce))
	}
	if s.PauseAfter < 0 {
		add("pause_after", "%d is negative; 0 means never", s.PauseAfter)
	}
	return found
}

// The minimum time between two ticks, and the maximum jitter.
const (
	minEvery  = time.Second
	maxJitter = 24 * time.Hour
)

// checkTicks checks the fields that determine the ticks.
func (s *Schedule) checkTicks(add func(field, format string, args ...any)) {
	kinds := 0
	for _, given := range []bool{s.Cron != "", s.Every != 0, !s.At.IsZero()} {
		if given {
			kinds++
		}
	}
	if kinds != 1 {
		what := "there is none of cron, every_seconds and at"
		if kinds > 1 {
			what = "there is more than one of cron, every_seconds and at"
		}
		add("cron", "%s; give exactly one", what)
	}
	if s.Zone != "" && s.Cron == "" && kinds > 0 {
		add("time_zone", "it is for cron only; instants and intervals have no time zone")
	}
	if s.Every != 0 && (s.Every < minEvery || s.Every%time.Millisecond != 0) {
		add("every_seconds", "%v is not at least %v and in whole milliseconds", s.Every, minEvery)
	}
	if !s.At.IsZero() && (!s.Starts.IsZero() || !s.Ends.IsZero()) {
		add("at", "starts_at and ends_at bound nothing, since it fires once; leave them out")
	}
	if !s.Starts.IsZero() && !s.Ends.IsZero() && s.Ends.Before(s.Starts) {
		add("ends_at", "%s is before starts_at, %s", s.Ends.Format(time.RFC3339), s.Starts.Format(time.RFC3339))
	}
	for _, b := range []struct {
		field string
		at    time.Time
	}{{"at", s.At}, {"starts_at", s.Starts}, {"ends_at", s.Ends}} {
		if !b.at.IsZero() && (b.at.Year() < 1970 || b.at.Year() > 2200) {
			add(b.field, "%s is not between the years 1970 and 2200", b.at.Format(time.RFC3339))
		}
	}
	switch {
	case s.Jitter < 0 || s.Jitter > maxJitter:
		add("jitter_seconds", "%v is not between 0 and %v", s.Jitter, maxJitter)
	case s.Every > 0 && s.Jitter >= s.Every:
		add("jitter_seconds", "%v is not less than every_seconds, %v", s.Jitter, s.Every)
	}
}

// MarshalJSON writes durations in seconds.
func (s Schedule) MarshalJSON() ([]byte, error) {
	type plain Schedule // without methods
	return jsontext.AppendAny(nil, struct {
		plain
		Every  strictjson.Seconds `json:"every_seconds,omitempty"`
		Window strictjson.Seconds `json:"window_seconds,omitempty"`
		Jitter strictjson.Seconds `json:"jitter_seconds,omitempty"`
	}{plain(s), strictjson.Seconds(s.Every), strictjson.Seconds(s.Window), strictjson.Seconds(s.Jitter)})
}

// UnmarshalJSON reads a schedule strictly, with [courier.ReadDefinition].
func (s *Schedule) UnmarshalJSON(data []byte) error {
	return courier.ReadDefinition("schedule", data, s, (*Schedule).fields)
}

func (s *Schedule) fields() map[string]func(*json.Decoder) error {
	return strictjson.Fields{
		"name": strictjson.Into(&s.Name), "job": strictjson.Into(&s.Job), "chain": strictjson.Into(&s.Chain),
		"cron": strictjson.Into(&s.Cron), "time_zone": strictjson.Into(&s.Zone), "every_seconds": strictjson.IntoDuration(&s.Every), "at": strictjson.IntoTime(&s.At),
		"calendar": strictjson.Into(&s.Calendar), "on_closed": strictjson.Into(&s.OnClosed), "starts_at": strictjson.IntoTime(&s.Starts), "ends_at": strictjson.IntoTime(&s.Ends), "params": strictjson.Into(&s.Params), "priority": strictjson.Into(&s.Priority),
		"overlap": strictjson.Into(&s.Overlap), "misfire": strictjson.Into(&s.Misfire), "window_seconds": strictjson.IntoDuration(&s.Window),
		"jitter_seconds": strictjson.IntoDuration(&s.Jitter), "pause_after": strictjson.Into(&s.PauseAfter), "disabled": strictjson.Into(&s.Disabled),
		"paused": strictjson.Into(&s.Paused), "reason": strictjson.Into(&s.Reason), "next_fire": strictjson.IntoTime(&s.NextFire), "waiting": strictjson.Into(&s.Waiting),
		"last_fire": strictjson.IntoTime(&s.LastFire), "last_execution": strictjson.Into(&s.LastExecution), "failures": strictjson.Into(&s.Failures),
		"problem": strictjson.Into(&s.Problem), "saved_at": strictjson.IntoTime(&s.SavedAt), "moves_from": strictjson.IntoTime(&s.MovesFrom),
	}
}

// An Error lists everything that is wrong with a schedule. It matches
// [courier.ErrInvalid].
type Error struct {
	Schedule string // its name
	Problems []courier.Problem
}

// Error lists the problems, one per line. After the first 20 it counts the rest.
func (e *Error) Error() string {
	return errtext.Refused("set schedule", e.Schedule, errtext.NothingSaved, e.Problems)
}

// Is reports whether target is [courier.ErrInvalid].
func (e *Error) Is(target error) bool { return target == courier.ErrInvalid }
