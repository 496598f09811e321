// Package attention finds what an operator has to look at: executions that are lost, failed or
// overdue, queues that nobody serves, schedules that can't fire, files that may exist nowhere
// else, what people have switched off, and more. Each [Entry] says in words what it is, since
// when, and what can be done about it. [Read] computes the list from what an engine and its store
// have, for a reader who may see all jobs or some; nothing is kept but what people have
// acknowledged (acknowledged.go).
//
// A failed execution is superseded when a younger one of its job has completed with the same
// params, or the same label "key". The list takes 10 calls of the store; only the queue that
// waits longest is explained, and the other entries name the call that explains them.
package attention

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// A List is what an operator has to look at, the most urgent first.
type List struct {
	At      time.Time `json:"at"`
	Entries []Entry   `json:"entries"`
	// Missing are the roles that the store lacks, such as "store.Overview": what depends on
	// them is left out.
	Missing []string `json:"missing,omitempty"`
	// Cut are the parts of which there is more than was read, each as a sentence.
	Cut []string `json:"cut,omitempty"`
	// Next is the schedule that fires next, of those that were read; nil if none fires.
	Next *schedule.Schedule `json:"-"`
	// Ticks are the next ones of schedules, and Windows those of expectations, at most 5 of each, in
	// their order. Census has the counts; nil if they were not read.
	Ticks   []Tick        `json:"-"`
	Windows []Window      `json:"-"`
	Census  *store.Census `json:"-"`
	// Acknowledges says that the store keeps acknowledgements.
	Acknowledges bool `json:"-"`
}

// A Tick is the next one of a schedule.
type Tick struct {
	Schedule string
	At       time.Time
}

// maxTicks is how many ticks a list has.
const maxTicks = 5

// An Entry is one thing that an operator has to look at. Fields that have no meaning for its
// kind are zero.
type Entry struct {
	Kind Kind `json:"kind"`
	// Key names the trouble for an acknowledgement. It stays the same while the trouble lasts, and is
	// that of the same trouble later. What is put away has none.
	Key   string    `json:"key,omitempty"`
	Title string    `json:"title"` // a sentence
	Since time.Time `json:"since,omitzero"`
	// Count is how many there are, and that many or more with More.
	Count int  `json:"count"`
	More  bool `json:"more,omitempty"`
	// Job, Step, StepID, StepType and Reason are what the failures of a group have in common;
	// Step is nil where no step is to blame.
	Job      string         `json:"job,omitempty"`
	Step     *int           `json:"step,omitempty"`
	StepID   string         `json:"step_id,omitempty"`
	StepType string         `json:"step_type,omitempty"`
	Reason   courier.Reason `json:"reason,omitempty"`
	// Jobs are those of failures that several jobs have in common, whose Job is empty then.
	// Connection is the one at which all failures of the group were met.
	Jobs       []string      `json:"jobs,omitempty"`
	Connection string        `json:"connection,omitempty"`
	Queue      string        `json:"queue,omitempty"`
	Oldest     string        `json:"oldest_job,omitempty"` // of a queue: the job of the execution that is due for longest
	Name       string        `json:"name,omitempty"`       // of a schedule, calendar, expectation, monitor, subscription or worker
	Date       string        `json:"date,omitempty"`       // of a day of an expectation, as in 2026-11-29
	Thing      string        `json:"thing,omitempty"`      // that is put away: "schedule", "monitor" or "subscription"
	State      courier.State `json:"state,omitempty"`      // of executions that are put away
	By         string        `json:"by,omitempty"`         // who has put it away; of several the one that is longest so
	Message    string        `json:"message,omitempty"`    // the newest error or problem
	// Executions are up to 5 of them: the newest of failures, those for which it has lasted
	// longest of all else. Of superseded ones there are all that were read.
	Executions []courier.ExecutionID `json:"execution_ids,omitempty"`
	// All are the executions of a group of failures, the newest first.
	All []courier.ExecutionID `json:"-"`
	// Version is a version of Job that is newer than those of all failures of the group; 0
	// if there is none.
	Version int `json:"version,omitempty"`
	// Because says why the first of Executions does not go on, if that was asked for.
	Because []advice.Cause `json:"because,omitempty"`
	// Acknowledged says who knows of it, if it is out of sight for that. Returned is an
	// acknowledgement that holds no more: its time has passed, or something of the trouble is younger.
	Acknowledged *store.Acknowledgement `json:"acknowledged,omitempty"`
	Returned     *store.Acknowledgement `json:"returned,omitempty"`
	// Do is what an operator can do, and Call the engine's call for it, as in [advice.Cause].
	Do   string `json:"do"`
	Call string `json:"call,omitempty"`
	// Youngest is when the last of what it counts came to be; zero for Since. About tells it apart from
	// others of its kind and queue.
	Youngest time.Time `json:"-"`
	About    string    `json:"-"`
}

// Of reports whether something holds for each job that the entry is about.
func (e *Entry) Of(holds func(job string) bool) bool {
	if len(e.Jobs) == 0 {
		return holds(e.Job)
	}
	return !slices.ContainsFunc(e.Jobs, func(job string) bool { return !holds(job) })
}

// A Kind is a kind of [Entry].
type Kind string

// The kinds, the most urgent first.
const (
	Lost         Kind = "lost"         // executions whose lease ended over a minute ago
	Stopping     Kind = "stopping"     // executions that a pause or cancel has not stopped for 5 minutes
	Failed       Kind = "failed"       // failed executions, by connection and reason where a partner is to blame, by reason where a disk is full, others by job, step and reason
	Due          Kind = "due"          // a queue with executions that are due for 5 minutes
	Overdue      Kind = "overdue"      // executions that have passed max_duration or expected_by
	Schedule     Kind = "schedule"     // one that is paused, late or has a problem, or that a change of the clocks meets within 14 days
	Calendar     Kind = "calendar"     // one that names no dates after the next 30 days
	MissingFile  Kind = "missing_file" // a day of an expectation whose files are missing or incomplete
	DueFile      Kind = "due_file"     // one whose files are due soon
	Expectation  Kind = "expectation"  // expectations that match no file, or of which nobody is told
	Monitor      Kind = "monitor"      // one that is degraded or in error, or that nobody polls
	Delivery     Kind = "delivery"     // deliveries that have failed
	Subscription Kind = "subscription" // one that was switched off
	Stranded     Kind = "stranded"     // executions that no worker can claim
	Refusal      Kind = "refusal"      // progress that the store does not take from this engine
	Kept         Kind = "kept"         // files of executions that have ended for good, which may exist nowhere else
	Superseded   Kind = "superseded"   // failed executions without only copies, for which a younger one has completed
	PutAway      Kind = "put_away"     // what people have switched off, held or paused
)

// How long something lasts before it is an entry.
const (
	lostFor     = time.Minute
	stoppingFor = 5 * time.Minute
	dueFor      = 5 * time.Minute
	lateFor     = time.Minute         // a schedule
	unpolledFor = 5 * time.Minute     // a monitor
	stuckFor    = 5 * time.Minute     // a step of an overdue execution, which reports no progress
	noticed     = 14 * 24 * time.Hour // how long before it a change of the clocks is an entry
	endsWithin  = 30                  // days before the last date that a calendar names
)

const (
	most    = store.DefaultCountLimit // of each part that is read
	samples = 5
)

// A Source is what a list is read from. [Of] returns that of an engine. Where an error matches
// [errors.ErrUnsupported], the store lacks a role: [List.Missing] names it.
type Source struct {
	Executions interface {
		Incidents(ctx context.Context, most int) (store.Incidents, error)
		Census(ctx context.Context, most int) (store.Census, error)
		Stranded(ctx context.Context) ([]store.Stranded, error)
		Explain(ctx context.Context, id courier.ExecutionID) (advice.Explanation, error)
		List(ctx context.Context, f store.Filter) ([]courier.Execution, error)
		AuditPage(ctx context.Context, f store.AuditFilter) ([]courier.AuditEntry, error)
		Acknowledgements(ctx context.Context) ([]store.Acknowledgement, error)
	}
	Schedules interface {
		List(ctx context.Context, f schedule.Filter) ([]schedule.Schedule, error)
		Timetables(ctx context.Context) func(*schedule.Schedule) (*schedule.Timetable, error)
	}
	Calendars interface {
		List(ctx context.Context, f store.DefinitionFilter) ([]calendar.Calendar, error)
	}
	Expectations interface {
		Arrivals(ctx context.Context, f expectation.ArrivalFilter) ([]expectation.Arrival, error)
		List(ctx context.Context, f expectation.Filter) ([]expectation.Expectation, error)
		Told(ctx context.Context) (func(name string) bool, error)
	}
	Monitors interface {
		List(ctx context.Context, f monitor.Filter) ([]monitor.Monitor, error)
	}
	Subscriptions interface {
		List(ctx context.Context, f notify.Filter) ([]notify.Subscription, error)
		Deliveries(ctx context.Context, f notify.DeliveryFilter) ([]notify.Delivery, error)
	}
	Journal func(ctx context.Context, f store.ActionFilter) ([]store.Action, error)
	// Refused returns the progress that the store does not take from this engine.
	Refused func() []engine.RefusedWrite
}

// Of returns an engine as a source.
func Of(e *engine.Engine) Source {
	return Source{
		Executions: e.Executions(), Schedules: e.Schedules(), Calendars: e.Calendars(), Monitors: e.Monitors(), Subscriptions: e.Subscriptions(),
		Expectations: e.Expectations(),
		Journal:      e.Journal, Refused: func() []engine.RefusedWrite { return e.Health().Refused },
	}
}

// A Reader says what a list may tell.
type Reader struct {
	// Sees reports whether the reader may see a job. The job "" stands for all jobs, and for what
	// belongs to none or to several.
	Sees func(job string) bool
	// Jobs returns the names of the jobs that the reader may see. It is called only if Sees("")
	// is false.
	Jobs func() ([]string, error)
}

// Read returns what an operator has to look at, of what the reader may see. It reads at most 15
// statements of the store, and one for each of up to 40 things that people have put away. None
// depends on the length of the history. An error is one of the source or of r.Jobs.
func Read(ctx context.Context, s Source, r Reader) (List, error) {
	l := reading{Source: s, Reader: r, ctx: ctx, List: List{At: time.Now().UTC(), Entries: []Entry{}}}
	var last []Entry
	parts := []func() error{func() (err error) { last, err = l.incidents(); return err }, l.schedules, l.monitors, l.kept}
	if r.Sees("") {
		parts = append(parts, l.stranded, l.queues, l.deliveries, l.calendars, l.expectations)
	}
	for _, part := range append(parts, l.putAway) {
		if err := part(); err != nil {
			return List{}, fmt.Errorf("attention: %w", err)
		}
	}
	l.refusals()
	l.Entries = append(l.Entries, last...)
	order := []Kind{Lost, Stopping, Failed, Due, Overdue, MissingFile, DueFile, Schedule, Calendar, Expectation, Monitor, Delivery, Subscription, Stranded, Refusal, Kept, Superseded, PutAway}
	if err := l.acknowledged(); err != nil {
		return List{}, fmt.Errorf("attention: %w", err)
	}
	slices.SortStableFunc(l.Entries, func(x, y Entry) int { return slices.Index(order, x.Kind) - slices.Index(order, y.Kind) })
	return l.List, nil
}

// A reading is a list in the making.
type reading struct {
	Source
	Reader
	List
	ctx      context.Context
	unserved map[string]advice.Cause // by queue: why no worker takes what is in it
	days     map[string]*calendar.Days
	away     []Entry         // what people have switched off
	starts   map[string]bool // jobs that a schedule starts which nobody has disabled
}

// has reports whether a part was read. One whose role the store lacks is left out.
func (l *reading) has(role string, err error) (bool, error) {
	if errors.Is(err, errors.ErrUnsupported) {
		if !slices.Contains(l.Missing, role) {
			l.Missing = append(l.Missing, role)
		}
		return false, nil
	}
	return err == nil, err
}

func (l *reading) add(e Entry) { l.Entries = append(l.Entries, e) }

// cut says that there is more of a part if n were read, and reports whether it does.
func (l *reading) cut(n int, what string) bool {
	if n >= most {
		l.Cut = append(l.Cut, fmt.Sprintf("There are at least %d %s, and only these were checked.", most, what))
	}
	return n >= most
}

// count says how many there are of something.
func count(n int, more bool, noun string) string {
	switch {
	case more:
		return fmt.Sprintf("%d %ss or more", n, noun)
	case n == 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
