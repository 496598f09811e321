// Package attention finds what needs an operator: lost, failed and overdue executions, queues
// without workers, schedules that can't fire, files that may have no other copy, things that
// people have switched off, and more. Each [Entry] describes one problem in words, with its start
// and with what to do. [Read] computes the list from an engine and its store, for a reader who
// may see all jobs or some. Only the acknowledgements of people are stored (acknowledged.go).
//
// A failed execution is superseded when a younger one of its job has completed with the same
// params, or the same label "key". The list takes 10 calls of the store. Only the queue that
// waits longest is explained; the other entries name the call that explains them.
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

// A List has the entries for an operator, the most urgent first.
type List struct {
	At      time.Time `json:"at"`
	Entries []Entry   `json:"entries"`
	// Missing are the roles that the store lacks, such as "store.Overview". Entries that depend
	// on them are left out.
	Missing []string `json:"missing,omitempty"`
	// Cut names, each in a sentence, the parts that have more than was read.
	Cut []string `json:"cut,omitempty"`
	// Next is the schedule that fires next, among the schedules that were read; nil if none
	// fires.
	Next *schedule.Schedule `json:"-"`
	// Ticks are the next ticks of schedules, and Windows the next windows of expectations, at
	// most 5 of each, in their order. Census has the counts; nil if they were not read.
	Ticks   []Tick        `json:"-"`
	Windows []Window      `json:"-"`
	Census  *store.Census `json:"-"`
	// Acknowledges says that the store keeps acknowledgements.
	Acknowledges bool `json:"-"`
}

// A Tick is the next tick of a schedule.
type Tick struct {
	Schedule string
	At       time.Time
}

// maxTicks is the maximum number of ticks in a list.
const maxTicks = 5

// An Entry is one problem for an operator. Fields that do not apply to its kind are zero.
type Entry struct {
	Kind Kind `json:"kind"`
	// Key identifies the trouble for an acknowledgement. It stays the same while the trouble
	// lasts, and when the same trouble occurs again. Entries of the kind PutAway have no key.
	Key   string    `json:"key,omitempty"`
	Title string    `json:"title"` // a sentence
	Since time.Time `json:"since,omitzero"`
	// Count is the number of items, or the minimum number if More is set.
	Count int  `json:"count"`
	More  bool `json:"more,omitempty"`
	// Job, Step, StepID, StepType and Reason are common to the failures of a group. Step is nil
	// if no step is to blame.
	Job      string         `json:"job,omitempty"`
	Step     *int           `json:"step,omitempty"`
	StepID   string         `json:"step_id,omitempty"`
	StepType string         `json:"step_type,omitempty"`
	Reason   courier.Reason `json:"reason,omitempty"`
	// Jobs are the jobs of the failures if there are several; Job is then empty. Connection is
	// the connection at which all failures of the group occurred.
	Jobs       []string      `json:"jobs,omitempty"`
	Connection string        `json:"connection,omitempty"`
	Queue      string        `json:"queue,omitempty"`
	Oldest     string        `json:"oldest_job,omitempty"` // of a queue: the job of the execution that has been due longest
	Name       string        `json:"name,omitempty"`       // of a schedule, calendar, expectation, monitor, subscription or worker
	Date       string        `json:"date,omitempty"`       // of a day of an expectation, as in 2026-11-29
	Thing      string        `json:"thing,omitempty"`      // that is put away: "schedule", "monitor" or "subscription"
	State      courier.State `json:"state,omitempty"`      // of executions that are held or paused
	By         string        `json:"by,omitempty"`         // who switched it off; of several, who did so first
	Message    string        `json:"message,omitempty"`    // the newest error or problem
	// Executions are up to 5 executions: the newest failures, or for other kinds the executions
	// with the longest-lasting trouble. If they are superseded, all that were read are listed.
	Executions []courier.ExecutionID `json:"execution_ids,omitempty"`
	// All are the executions of a group of failures, the newest first.
	All []courier.ExecutionID `json:"-"`
	// Version is a version of Job that is newer than the versions of all failures of the group; 0
	// if there is none.
	Version int `json:"version,omitempty"`
	// Because says why the first of Executions does not continue, if that was determined.
	Because []advice.Cause `json:"because,omitempty"`
	// Acknowledged is the acknowledgement that hides the entry. Returned is an acknowledgement
	// that no longer applies, because its time has passed or something in the trouble is newer.
	Acknowledged *store.Acknowledgement `json:"acknowledged,omitempty"`
	Returned     *store.Acknowledgement `json:"returned,omitempty"`
	// Do says what an operator can do, and Call is the engine's call for it, as in
	// [advice.Cause].
	Do   string `json:"do"`
	Call string `json:"call,omitempty"`
	// Youngest is when the newest of the counted items appeared; zero means Since. About
	// distinguishes the entry from others of its kind and queue.
	Youngest time.Time `json:"-"`
	About    string    `json:"-"`
}

// Of reports whether a condition holds for each job that the entry is about.
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
	Due          Kind = "due"          // a queue with executions that have been due for 5 minutes
	Overdue      Kind = "overdue"      // executions that have passed max_duration or expected_by
	Schedule     Kind = "schedule"     // one that is paused, late or has a problem, or that a change of the clocks affects within 14 days
	Calendar     Kind = "calendar"     // one that names no dates after the next 30 days
	MissingFile  Kind = "missing_file" // a day of an expectation whose files are missing or incomplete
	DueFile      Kind = "due_file"     // one whose files are due soon
	Expectation  Kind = "expectation"  // expectations that match no file, or about which nobody is notified
	Monitor      Kind = "monitor"      // one that is degraded or in error, or that nobody polls
	Delivery     Kind = "delivery"     // deliveries that have failed
	Subscription Kind = "subscription" // one that was switched off
	Stranded     Kind = "stranded"     // executions that no worker can claim
	Refusal      Kind = "refusal"      // progress that the store refuses from this engine
	Kept         Kind = "kept"         // files of executions that have ended for good, which may have no other copy
	Superseded   Kind = "superseded"   // failed executions without only copies, for which a younger one has completed
	PutAway      Kind = "put_away"     // things that people have switched off, held or paused
)

// The minimum time that something must last before it has an entry, and other limits.
const (
	lostFor     = time.Minute
	stoppingFor = 5 * time.Minute
	dueFor      = 5 * time.Minute
	lateFor     = time.Minute         // a schedule
	unpolledFor = 5 * time.Minute     // a monitor
	stuckFor    = 5 * time.Minute     // a step of an overdue execution that reports no progress
	noticed     = 14 * 24 * time.Hour // how long before a change of the clocks it has an entry
	endsWithin  = 30                  // days before the last date that a calendar names
)

const (
	most    = store.DefaultCountLimit // of each part that is read
	samples = 5
)

// A Source has the data of a list. [Of] returns the source of an engine. An error that matches
// [errors.ErrUnsupported] means that the store lacks a role: [List.Missing] names it.
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
	// Refused returns the progress that the store refuses from this engine.
	Refused func() []engine.RefusedWrite
}

// Of returns the source of an engine.
func Of(e *engine.Engine) Source {
	return Source{
		Executions: e.Executions(), Schedules: e.Schedules(), Calendars: e.Calendars(), Monitors: e.Monitors(), Subscriptions: e.Subscriptions(),
		Expectations: e.Expectations(),
		Journal:      e.Journal, Refused: func() []engine.RefusedWrite { return e.Health().Refused },
	}
}

// A Reader says what the reader of a list may see.
type Reader struct {
	// Sees reports whether the reader may see a job. The job "" stands for all jobs, and for
	// things that belong to no job or to several.
	Sees func(job string) bool
	// Jobs returns the names of the jobs that the reader may see. It is called only if Sees("")
	// is false.
	Jobs func() ([]string, error)
}

// Read returns the entries that the reader may see. It executes at most 15 statements, and one
// for each of up to 40 things that people have put away. Their cost does not depend on the length
// of the history. An error is from the source or from r.Jobs.
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

// A reading is a list that is being read.
type reading struct {
	Source
	Reader
	List
	ctx      context.Context
	unserved map[string]advice.Cause // by queue: why no worker takes its executions
	days     map[string]*calendar.Days
	away     []Entry         // things that people have switched off
	starts   map[string]bool // jobs that an enabled schedule starts
}

// has reports whether a part was read. A part whose role the store lacks is left out.
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

// cut reports whether a part has more than was read, given that n were read, and notes that in
// the list.
func (l *reading) cut(n int, what string) bool {
	if n >= most {
		l.Cut = append(l.Cut, fmt.Sprintf("There are at least %d %s, and only these were checked.", most, what))
	}
	return n >= most
}

// count returns the number of something as text.
func count(n int, more bool, noun string) string {
	switch {
	case more:
		return fmt.Sprintf("%d %ss or more", n, noun)
	case n == 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
