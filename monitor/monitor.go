// Package monitor starts executions of jobs and chains for files that arrive in
// directories.
//
// A [Monitor] is the definition: which directory is watched, and which job or chain is
// started for which files. A [Service] checks monitors, saves them in a store that has
// the role [Store], polls the directories of those that are due, and hands over the files
// that are ready. Each appearance of a file is handed over once, however many engines use
// the store. A [courier.Lister] lists the directories.
//
// Programs get the service from their engine, which polls while it is started:
//
//	_, err := e.Monitors().Set(ctx, monitor.Monitor{
//		Name: "invoices", Path: "/srv/in", Patterns: []string{"*.csv"}, Job: "import",
//	}, courier.By{})
//
// # Polls
//
// A file counts as unchanged from the end of one listing to the beginning of the next. The
// instants are the store's time plus the time that has passed on the engine's monotonic clock, so
// engines whose clocks differ agree on what is stable. Engines keep the seen files of a revision
// in memory: a poll without changes reads no rows and writes one. A poll hands over at most 1,000
// files, and starts at most 100 executions of a chain; the rest follows at once. The idempotency
// key of an execution is derived from the directory, and from the name, size, time, event and
// appearance of each file. A refused login stops a monitor at once. All other errors are counted.
package monitor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/errtext"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/strictjson"
	"github.com/courierhq/courier/internal/target"
)

// A Monitor watches a directory, on the machine or on a server, and starts executions of a job or
// chain for the files in it. Engines poll the directory at regular intervals. A file that is
// ready is handed over once, however many engines poll and however often they restart.
type Monitor struct {
	// Name has 1 to 200 characters, without control characters. It is part of the idempotency
	// keys of the executions that the monitor starts.
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Lister is the name of the lister of the directory in engine.Options.Listers.
	// Empty means "file".
	Lister     string `json:"lister,omitempty"`
	Connection string `json:"connection_id,omitempty"` // empty for a directory of the machine
	Path       string `json:"path"`                    // of the directory; its subdirectories are not searched

	// Patterns select files by name: * matches any text, ? matches one character, and every other
	// character matches itself. A file needs to match only one pattern. Without patterns all
	// files are selected.
	Patterns []string `json:"patterns,omitempty"`
	// Events are the changes of a file that start executions. Empty means created.
	Events []Event `json:"events,omitempty"`
	// Every is the time between two polls. 0 means a minute. The minimum is a second for a
	// directory of the machine, and 30 seconds for a directory of a server. In JSON the field is
	// every_seconds.
	Every time.Duration `json:"-"`
	// Calendar is the name of the monitor's calendar. The directory is not polled on closed days;
	// files that arrive then are handed over on the next open day. Empty means that all days are
	// open.
	Calendar string `json:"calendar,omitempty"`
	// Between limits polling to a part of each open day. It requires a Calendar, and its times
	// are in the calendar's time zone. Zero means the whole day.
	Between Hours `json:"between,omitzero"`
	// Stable is the time for which the size and time of a file must not change before it is
	// ready, seen by at least two polls. 0 means 5 seconds. In JSON the field is stable_seconds.
	Stable time.Duration `json:"-"`
	// DoneFile, if not empty, is a suffix such as ".done". A second file, whose name is the
	// file's name with this suffix, says that the file is complete. The file is ready when two
	// polls in a row find the second file, and find the file itself unchanged; Stable is not
	// used. Files with the suffix are not handed over themselves.
	DoneFile string `json:"done_file,omitempty"`

	// Batch says that one execution gets all files that are ready, at most 1,000. Otherwise each
	// file has its own execution; a poll starts at most 100 executions of a chain.
	Batch bool   `json:"batch,omitempty"`
	Job   string `json:"job,omitempty"`   // the name of a job; either Job or Chain is set
	Chain string `json:"chain,omitempty"` // the name of a chain; the latest version of either is started
	// Expectation is the name of the expectation that polls with this monitor; see [LookName].
	// Such a monitor starts nothing. It is set and removed with the expectation.
	Expectation string `json:"expectation,omitempty"`
	// Params are the parameters of the executions, in addition to "files" and "monitor".
	Params   map[string]any `json:"params,omitempty"`
	Priority int16          `json:"priority,omitempty"` // of executions of a job; higher is claimed first
	// MaxFailures is the number of consecutive failed polls after which the monitor is in the
	// state error. 0 means 5.
	MaxFailures int `json:"max_failures,omitempty"`
	// Disabled says that the monitor does not poll. Setting an existing monitor does not enable
	// it again.
	Disabled bool `json:"disabled,omitempty"`

	// The following fields report the state. Set ignores them.

	State State `json:"state,omitempty"`
	// Reason says why the monitor is in that state, and who caused it.
	Reason   string    `json:"reason,omitempty"`
	Health   Health    `json:"health,omitzero"`
	NextPoll time.Time `json:"next_poll,omitzero"` // zero if there is no next poll
	SavedAt  time.Time `json:"saved_at,omitzero"`  // when it was last set
}

// A State is the state of a monitor.
type State string

// The states of monitors.
const (
	Active   State = "active"
	Degraded State = "degraded" // it polls, but the last poll failed or could not take all files
	Paused   State = "paused"   // by an operator, for a while
	Disabled State = "disabled" // by its definition or an operator
	Failed   State = "error"    // it failed too often; an operator has to acknowledge that
)

// Polls reports whether the directory of a monitor in that state is polled.
func (s State) Polls() bool { return s == Active || s == Degraded }

// An Event is a change of a file, or its presence, that starts an execution.
type Event string

// The events of monitors.
const (
	Created  Event = "created"  // it did not exist before, or not at the last poll
	Modified Event = "modified" // its size or time has changed since it was last handed over
	Exists   Event = "exists"   // it exists; at every poll
)

// events lists the events in the order in which error messages name them.
var events = []Event{Created, Modified, Exists}

// Health is the result of a monitor's polls.
type Health struct {
	LastPoll    time.Time `json:"last_poll,omitzero"`
	PollSeconds float64   `json:"poll_seconds,omitempty"` // duration of the last poll
	Files       int       `json:"files,omitempty"`        // matching files at the last successful poll
	Waiting     int       `json:"waiting,omitempty"`      // files of these that are not ready
	Refused     int       `json:"refused,omitempty"`      // entries whose names can't be used
	Failures    int       `json:"failures,omitempty"`     // consecutive failed polls
	// Problem says what was wrong with the last poll; empty if nothing was wrong.
	Problem       string              `json:"problem,omitempty"`
	Triggered     int64               `json:"triggered,omitempty"`        // total number of files handed over
	LastTriggered time.Time           `json:"last_triggered_at,omitzero"` // when the last file was handed over
	LastExecution courier.ExecutionID `json:"last_execution,omitempty"`   // or the id of a chain execution
}

// The defaults of a monitor.
const (
	defaultLister      = "file"
	defaultEvery       = time.Minute
	defaultStable      = 5 * time.Second
	defaultMaxFailures = 5
)

// WithDefaults returns the monitor with a value in every field that has a
// default.
func (m Monitor) WithDefaults() Monitor {
	if m.Lister == "" {
		m.Lister = defaultLister
	}
	if len(m.Events) == 0 && m.Expectation == "" {
		m.Events = []Event{Created}
	}
	if m.Every == 0 {
		m.Every = defaultEvery
	}
	if m.Stable == 0 {
		m.Stable = defaultStable
	}
	if m.MaxFailures == 0 {
		m.MaxFailures = defaultMaxFailures
	}
	return m
}

// Definition returns the monitor without the fields that only report its state, and
// without Disabled. Two monitors are the same if their definitions are equal.
func (m Monitor) Definition() Monitor {
	m.Disabled, m.State, m.Reason, m.Health = false, "", "", Health{}
	m.NextPoll, m.SavedAt = time.Time{}, time.Time{}
	return m
}

// Directory returns the directory that is watched.
func (m *Monitor) Directory() courier.Directory {
	return courier.Directory{Connection: m.Connection, Path: m.Path}
}

// Selects reports whether the monitor's patterns select files of that name.
func (m *Monitor) Selects(name string) bool {
	if m.DoneFile != "" && strings.HasSuffix(name, m.DoneFile) {
		return false
	}
	return len(m.Patterns) == 0 || slices.ContainsFunc(m.Patterns, func(p string) bool { return matchName(p, name) })
}

// matchName reports whether a pattern of * and ? matches a name. Its time is at most proportional
// to the product of their lengths.
func matchName(pattern, name string) bool {
	return glob.MatchCharacters([]rune(pattern), []rune(name))
}

// The maximum values of a monitor's fields.
const (
	maxPatterns = 100
	maxPattern  = 255 // bytes, also of the suffix of a done file
	maxPollTime = 24 * time.Hour
)

// Check returns the problems of the monitor itself. [Service.Check] also checks the lister, the
// directory, the calendar, the job and the parameters.
func (m *Monitor) Check() []courier.Problem {
	var found []courier.Problem
	add := func(field, format string, args ...any) {
		found = append(found, courier.Problem{Step: -1, Field: field, Message: fmt.Sprintf(format, args...)})
	}
	if problem := errtext.Name(m.Name); problem != "" {
		add("name", "%s", problem)
	}
	if m.Expectation != "" || strings.HasPrefix(m.Name, lookPrefix) {
		add("name", "names that begin with %s are those of the looks of expectations; change the expectation instead, or choose another name", lookPrefix)
	}
	if field, problem := target.Check("monitor", m.Job, m.Chain); problem != "" {
		add(field, "%s", problem)
	} else if m.Chain != "" && m.Priority != 0 {
		add("priority", "%d is given, but the members of a chain have priorities of their own; leave it out", m.Priority)
	}
	if m.Path == "" {
		add("path", "it is missing; name a directory")
	}
	m.checkFiles(add)
	m.checkHours(add)
	for _, t := range []struct {
		field string
		d     time.Duration
	}{{"every_seconds", m.Every}, {"stable_seconds", m.Stable}} {
		if t.d < 0 || t.d > maxPollTime {
			add(t.field, "%v is not between 0 and %v", t.d, maxPollTime)
		}
	}
	if m.MaxFailures < 0 {
		add("max_failures", "%d is negative; 0 means %d", m.MaxFailures, defaultMaxFailures)
	}
	for _, name := range []string{"files", "monitor"} {
		if _, ok := m.Params[name]; ok {
			add("params", "%q is given by the monitor itself; choose another name", name)
		}
	}
	return found
}

// checkFiles checks which files the monitor selects.
func (m *Monitor) checkFiles(add func(field, format string, args ...any)) {
	if len(m.Patterns) > maxPatterns {
		add("patterns", "there are %d, more than %d", len(m.Patterns), maxPatterns)
	}
	for i, p := range m.Patterns[:min(len(m.Patterns), maxPatterns)] {
		field := fmt.Sprintf("patterns[%d]", i)
		switch {
		case p == "":
			add(field, "it is empty; leave patterns out to select all files")
		case strings.ContainsAny(p, "/\\"):
			add(field, "%q has a path separator, but is compared with names; put the directory into path", errtext.Shorten(p, maxPattern))
		case len(p) > maxPattern || !utf8.ValidString(p):
			add(field, "%q is longer than %d bytes, or is not valid UTF-8", errtext.Shorten(p, 60), maxPattern)
		}
	}
	for i, e := range m.Events {
		field := fmt.Sprintf("events[%d]", i)
		if !slices.Contains(events, e) {
			add(field, "unknown event %q; %s", errtext.Shorten(string(e), 60), nearest.DidYouMean(string(e), events))
		} else if slices.Contains(m.Events[:i], e) {
			add(field, "%q is there twice", e)
		}
	}
	if d := m.DoneFile; strings.ContainsAny(d, "/\\*?") || len(d) > maxPattern || !utf8.ValidString(d) {
		add("done_file", "%q is not the ending of a name; give one such as \".done\"", errtext.Shorten(d, 60))
	}
}

// MarshalJSON writes durations in seconds.
func (m Monitor) MarshalJSON() ([]byte, error) {
	type plain Monitor // without methods
	return jsontext.AppendAny(nil, struct {
		plain
		Every  strictjson.Seconds `json:"every_seconds,omitempty"`
		Stable strictjson.Seconds `json:"stable_seconds,omitempty"`
	}{plain(m), strictjson.Seconds(m.Every), strictjson.Seconds(m.Stable)})
}

// UnmarshalJSON reads a monitor strictly, with [courier.ReadDefinition]. It accepts and
// keeps the fields that report the state.
func (m *Monitor) UnmarshalJSON(data []byte) error {
	return courier.ReadDefinition("monitor", data, m, (*Monitor).fields)
}

func (m *Monitor) fields() map[string]func(*json.Decoder) error {
	return strictjson.Fields{
		"name": strictjson.Into(&m.Name), "description": strictjson.Into(&m.Description), "lister": strictjson.Into(&m.Lister), "connection_id": strictjson.Into(&m.Connection),
		"path": strictjson.Into(&m.Path), "patterns": strictjson.Into(&m.Patterns), "events": strictjson.Into(&m.Events), "every_seconds": strictjson.IntoDuration(&m.Every),
		"stable_seconds": strictjson.IntoDuration(&m.Stable), "done_file": strictjson.Into(&m.DoneFile), "batch": strictjson.Into(&m.Batch), "job": strictjson.Into(&m.Job),
		"chain": strictjson.Into(&m.Chain), "expectation": strictjson.Into(&m.Expectation), "params": strictjson.Into(&m.Params), "priority": strictjson.Into(&m.Priority), "max_failures": strictjson.Into(&m.MaxFailures),
		"calendar": strictjson.Into(&m.Calendar), "between": strictjson.Into(&m.Between), "disabled": strictjson.Into(&m.Disabled), "state": strictjson.Into(&m.State), "reason": strictjson.Into(&m.Reason), "health": strictjson.Into(&m.Health),
		"next_poll": strictjson.IntoTime(&m.NextPoll), "saved_at": strictjson.IntoTime(&m.SavedAt),
	}
}

// An Error lists everything that is wrong with a monitor. It matches
// [courier.ErrInvalid].
type Error struct {
	Monitor  string // its name
	Problems []courier.Problem
}

// Error lists the problems, one per line. After the first 20 it counts the rest.
func (e *Error) Error() string {
	return errtext.Refused("set monitor", e.Monitor, errtext.NothingSaved, e.Problems)
}

// Is reports whether target is [courier.ErrInvalid].
func (e *Error) Is(target error) bool { return target == courier.ErrInvalid }
