// Package filter has the language in which people filter executions, such as "state:failed
// job:daily-* since:24h", in a URL, on a page or in a request. It also has the cursors of
// filtered lists.
package filter

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/uuid7"
	"github.com/courierhq/courier/store"
)

// A Filter is a filter of executions. Zero fields select all.
type Filter struct {
	// States are the states that people see: the states of courier.State, which select all
	// executions in that state, and those of [courier.Execution.Status], such as "lost".
	States []string
	// Jobs are names of jobs, and JobPrefixes are prefixes of names. An execution needs to match
	// only one.
	Jobs, JobPrefixes []string
	Queue             string
	Labels            map[string]string // an execution must have all of them
	By                string            // who has enqueued it
	Chain             string            // the name of the chain that it is a member of
	// Reasons are the reasons of the failure.
	Reasons []courier.Reason
	// Connection selects executions that have failed at a connection, by the connection's id.
	Connection string
	// FinallyFailed selects executions whose finally part has failed.
	FinallyFailed bool
	// Since and Until limit the time of creation, by the clock of the process that made the id:
	// not before Since, and before Until.
	Since, Until time.Time
	// Ended is the earliest end. It applies only to failed and cancelled executions.
	Ended time.Time
}

// Grammar describes the text of a filter.
const Grammar = `A filter has conditions NAME:VALUE with spaces between them; all of them must hold. ` +
	`state:failed,paused (created, queued, scheduled, waiting, running, lost, pausing, cancelling, finishing, paused, completed, failed, cancelled); ` +
	`job:NAME or job:PREFIX*; queue:NAME; label:NAME=VALUE; by:WHO; chain:NAME; reason:timeout,connection; connection:ID, where it failed; finally:failed, if its finally part failed; ` +
	`since:24h, since:7d, since:2026-11-20 or since:2026-11-20T08:00:00Z, and until: in the same forms, by the time of creation; ended:24h by the time of the end, for failed and cancelled executions. ` +
	`Put a value with spaces in quotes: job:"two words". Quoted characters are literal: job:"ab*" is the job of that name.`

// An Error has all problems of a filter. It matches [courier.ErrInvalid].
type Error struct{ Problems []string }

// Error lists the problems, and ends with the grammar.
func (e *Error) Error() string {
	return "filter: " + strings.Join(e.Problems, "; ") + ". " + Grammar
}

// Is reports whether target is [courier.ErrInvalid].
func (e *Error) Is(target error) bool { return target == courier.ErrInvalid }

// conditions are the names of conditions.
var conditions = []string{"state", "job", "queue", "label", "by", "chain", "reason", "connection", "finally", "since", "until", "ended"}

// shown are the states that people see, each with the stored states to which it belongs.
var shown = map[string][]courier.State{
	"created": {courier.Created}, "queued": {courier.Queued}, "running": {courier.Running}, "paused": {courier.Paused},
	"completed": {courier.Completed}, "failed": {courier.Failed}, "cancelled": {courier.Cancelled},
	"scheduled": {courier.Queued}, "waiting": {courier.Queued},
	"lost": {courier.Running}, "pausing": {courier.Running}, "cancelling": {courier.Running, courier.Queued}, "finishing": {courier.Running, courier.Queued},
}

// State returns the stored state to which a state that people see most often belongs; empty if
// there is no such state.
func State(name string) courier.State {
	if list := shown[name]; len(list) > 0 {
		return list[0]
	}
	return ""
}

var reasons = []courier.Reason{
	courier.ReasonError, courier.ReasonTimeout, courier.ReasonStalled, courier.ReasonPanic, courier.ReasonCrashed, courier.ReasonConfig, courier.ReasonExecution,
	courier.ReasonWorkerLost, courier.ReasonFiles, courier.ReasonDefinition, courier.ReasonCancelled, courier.ReasonOperator, courier.ReasonWithoutFiles,
	courier.ReasonItems, courier.ReasonRescued, courier.ReasonStore, courier.ReasonConnection, courier.ReasonLogin, courier.ReasonNotFound, courier.ReasonExists,
	courier.ReasonPermission, courier.ReasonQuota, courier.ReasonSpace, courier.ReasonIntegrity, courier.ReasonInvalid, courier.ReasonSecret,
}

// maxConditions is the maximum number of values of a filter. maxWrong is the maximum number of
// mistakes in its error, because each suggestion takes time.
const (
	maxConditions = 200
	maxWrong      = 20
)

// Parse reads a filter from its text; see [Grammar]. Durations are counted back from
// now. The error is a *[Error].
func Parse(text string, now time.Time) (Filter, error) {
	p := parser{now: now}
	for term := range p.split(text, unicode.IsSpace) {
		name, value, ok := term.cut(':')
		if p.full() {
			break
		}
		if !ok {
			p.problem("%s is not a condition; for a job write job:%s", term, term)
			continue
		}
		p.condition(name.text, value)
	}
	return p.done()
}

// ParseQuery reads a filter from the parameters of a URL, each of which is a condition:
// "state=failed&job=daily-*". A value that begins with a quote is read as in a text; spaces need
// no quotes. The caller must remove parameters that are not conditions.
func ParseQuery(q url.Values, now time.Time) (Filter, error) {
	p := parser{now: now}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		for _, value := range q[name] {
			if p.full() {
				return p.done()
			}
			w := word{text: value}
			if strings.HasPrefix(value, `"`) {
				words := slices.Collect(p.split(value, func(rune) bool { return false }))
				if len(words) == 0 {
					continue // an unclosed quote
				}
				w = words[0]
			}
			p.condition(name, w)
		}
	}
	return p.done()
}

type parser struct {
	filter   Filter
	now      time.Time
	given    map[string]bool
	problems []string
	n        int // conditions
}

func (p *parser) problem(format string, args ...any) {
	if len(p.problems) == maxWrong {
		return
	}
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
}

// once reports a repeated condition that can have only one value.
func (p *parser) once(name string) {
	if p.given[name] {
		p.problem("%s is given twice, and an execution has only one", name)
	}
	if p.given == nil {
		p.given = make(map[string]bool)
	}
	p.given[name] = true
}

// full reports whether the rest of the filter is not read, because it has too many conditions or
// mistakes.
func (p *parser) full() bool {
	if p.n++; p.n == maxConditions+1 {
		p.problems = p.problems[:min(len(p.problems), maxWrong-1)]
		p.problem("it has more than %d conditions: use the beginning of names, such as job:daily-*, or several filters", maxConditions)
	}
	return p.n > maxConditions || len(p.problems) == maxWrong
}

func (p *parser) condition(name string, w word) {
	value := w.text
	if !slices.Contains(conditions, name) {
		p.problem("%s: there is no such condition; %s", Quote(name), nearest.DidYouMean(name, conditions))
		return
	}
	if n := utf8.RuneCountInString(value); n == 0 || n > 300 || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		p.problem("%s: give a value of 1 to 300 characters, none of them control characters", name)
		return
	}
	switch name {
	case "state":
		for _, s := range w.list() {
			if _, ok := shown[s]; !ok {
				if len(p.problems) == maxWrong {
					break
				}
				p.problem("state: there is no state %s; %s", Quote(s), nearest.DidYouMean(s, slices.Sorted(maps.Keys(shown))))
			}
			p.filter.States = append(p.filter.States, s)
		}
	case "reason":
		for _, s := range w.list() {
			if !slices.Contains(reasons, courier.Reason(s)) {
				if len(p.problems) == maxWrong {
					break
				}
				p.problem("reason: there is no reason %s; %s", Quote(s), nearest.DidYouMean(s, reasons))
			}
			p.filter.Reasons = append(p.filter.Reasons, courier.Reason(s))
		}
	case "job":
		switch prefix, rest, ok := w.cut('*'); {
		case !ok:
			p.filter.Jobs = append(p.filter.Jobs, value)
		case rest.text != "":
			p.problem("job: %s: an asterisk can stand at the end only; for the job of that name write job:%s", Quote(value), inQuotes(value))
		default:
			p.filter.JobPrefixes = append(p.filter.JobPrefixes, prefix.text)
		}
	case "label":
		p.label(w)
	case "finally":
		if p.filter.FinallyFailed = value == "failed"; value != "failed" {
			p.problem("finally: %s: write finally:failed, for executions of which the finally part has failed", Quote(value))
		}
	case "queue":
		p.once(name)
		p.filter.Queue = value
	case "by":
		p.once(name)
		p.filter.By = value
	case "chain":
		p.once(name)
		p.filter.Chain = value
	case "connection":
		p.once(name)
		p.filter.Connection = value
	case "since":
		p.once(name)
		p.filter.Since = p.instant(name, value)
	case "until":
		p.once(name)
		p.filter.Until = p.instant(name, value)
	case "ended":
		p.once(name)
		p.filter.Ended = p.instant(name, value)
	}
}

func (p *parser) label(w word) {
	before, after, ok := w.cut('=')
	name, v := before.text, after.text
	if !ok || name == "" || v == "" {
		p.problem("label: %s: write label:NAME=VALUE", w)
		return
	}
	if was, given := p.filter.Labels[name]; given && was != v {
		p.problem("label: %s can't be %s and %s at once", Quote(name), Quote(was), Quote(v))
	}
	if p.filter.Labels == nil {
		p.filter.Labels = make(map[string]string)
	}
	p.filter.Labels[name] = v
}

// instant reads an instant, or a duration before now.
func (p *parser) instant(name, value string) time.Time {
	const day = 24 * time.Hour
	d, err := time.ParseDuration(value)
	if days, ok := strings.CutSuffix(value, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * day
	}
	at := p.now.Add(-d)
	if err != nil {
		if at, err = time.Parse(time.RFC3339Nano, value); err != nil {
			at, err = time.Parse(time.DateOnly, value)
		}
	}
	switch {
	case err != nil:
		p.problem("%s: %s is neither a duration such as 90m, 24h or 7d, nor a day, nor an instant such as 2026-11-20T08:00:00Z", name, Quote(value))
	case d < 0 || at.After(p.now):
		p.problem("%s: %s lies in the future", name, Quote(value))
	case at.Year() < 1970:
		p.problem("%s: %s lies before 1970", name, Quote(value))
	}
	return at.UTC()
}

// done returns the filter, or all problems.
func (p *parser) done() (Filter, error) {
	f := &p.filter
	for _, list := range []*[]string{&f.States, &f.Jobs, &f.JobPrefixes} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	slices.Sort(f.Reasons)
	f.Reasons = slices.Compact(f.Reasons)
	if p.problems = append(p.problems, f.Problems()...); len(p.problems) > 0 {
		return Filter{}, &Error{p.problems}
	}
	return *f, nil
}

// Problems returns the conditions that no execution can meet together.
func (f *Filter) Problems() (list []string) {
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		list = append(list, "since is not before until")
	}
	for _, s := range f.States {
		if !f.Ended.IsZero() && s != "failed" && s != "cancelled" {
			list = append(list, fmt.Sprintf("ended goes with failed and cancelled executions, and not with state:%s", s))
		}
	}
	return list
}

// String returns the text of the filter, in the form that [Parse] reads.
func (f Filter) String() string {
	var terms []string
	add := func(name, value string) { terms = append(terms, name+":"+Quote(value)) }
	for _, s := range f.States {
		add("state", s)
	}
	for _, j := range f.Jobs {
		add("job", j)
	}
	for _, j := range f.JobPrefixes {
		terms = append(terms, "job:"+Quote(j)+"*")
	}
	for _, n := range slices.Sorted(maps.Keys(f.Labels)) {
		add("label", n)
		terms[len(terms)-1] += "=" + Quote(f.Labels[n])
	}
	for _, r := range f.Reasons {
		add("reason", string(r))
	}
	if f.FinallyFailed {
		add("finally", "failed")
	}
	for _, c := range []struct{ name, value string }{{"queue", f.Queue}, {"by", f.By}, {"chain", f.Chain}, {"connection", f.Connection}} {
		if c.value != "" {
			add(c.name, c.value)
		}
	}
	for _, c := range []struct {
		name string
		at   time.Time
	}{{"since", f.Since}, {"until", f.Until}, {"ended", f.Ended}} {
		if !c.at.IsZero() {
			add(c.name, c.at.UTC().Format(time.RFC3339Nano))
		}
	}
	return strings.Join(terms, " ")
}

// Empty reports whether the filter selects all executions.
func (f *Filter) Empty() bool { return f.String() == "" }

// NamesJobs reports whether the filter selects by jobs.
func (f *Filter) NamesJobs() bool { return len(f.Jobs) > 0 || len(f.JobPrefixes) > 0 }

// First returns the lowest id that the filter can select.
func (f *Filter) First() courier.ExecutionID {
	if f.Since.IsZero() {
		return ""
	}
	return courier.ExecutionID(uuid7.First(f.Since))
}

// Stored returns the stored states that the filter can select.
func (f *Filter) Stored() (list []courier.State) {
	for _, s := range f.States {
		list = append(list, shown[s]...)
	}
	if len(list) == 0 && !f.Ended.IsZero() {
		list = []courier.State{courier.Failed, courier.Cancelled}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Store returns the part of the filter that stores support.
func (f *Filter) Store(before courier.ExecutionID) store.Filter {
	q := store.Filter{
		States: f.Stored(), Queue: f.Queue, Labels: f.Labels, Reasons: f.Reasons, FinallyError: f.FinallyFailed, Before: before,
		Waiting: len(f.States) == 1 && f.States[0] == "waiting",
	}
	if len(f.JobPrefixes) == 0 {
		q.Jobs = f.Jobs
	}
	if !f.Until.IsZero() {
		if last := courier.ExecutionID(uuid7.First(f.Until)); before == "" || last < before {
			q.Before = last
		}
	}
	return q
}

// Selects reports whether the filter selects an execution. It ignores the chain.
func (f *Filter) Selects(x *courier.Execution, now time.Time) bool {
	status := x.Status(now)
	state := func(s string) bool { return s == status || s == string(x.State) }
	begins := func(prefix string) bool { return strings.HasPrefix(x.Job, prefix) }
	return (len(f.States) == 0 || slices.ContainsFunc(f.States, state)) &&
		(!f.NamesJobs() || slices.Contains(f.Jobs, x.Job) || slices.ContainsFunc(f.JobPrefixes, begins)) &&
		(f.By == "" || x.By == f.By) && (f.Connection == "" || x.Failure != nil && x.Failure.Connection == f.Connection) && (!f.FinallyFailed || x.FinallyError != nil) &&
		(f.Ended.IsZero() || !x.EndedAt.Before(f.Ended))
}
