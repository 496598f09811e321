package desk

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

// A Where is a filter of executions. Zero fields select all.
type Where struct {
	// States are the states that people see: those of courier.State, which select all
	// executions in it, and those of [courier.Execution.Status], such as "lost".
	States []string
	// Jobs are names, and JobPrefixes beginnings of names: of one of any of them.
	Jobs, JobPrefixes []string
	Queue             string
	Labels            map[string]string // all of them
	By                string            // who has enqueued it
	Chain             string            // the name of the chain that it is a member of
	// Reasons are those of the failure.
	Reasons []courier.Reason
	// Since and Until are about the creation, by the clock of the process that made the
	// id: not before Since, and before Until.
	Since, Until time.Time
	// Ended is the earliest end. It goes with failed and cancelled executions only.
	Ended time.Time
}

// Grammar describes the text of a filter.
const Grammar = `A filter has conditions NAME:VALUE with spaces between them; all of them must hold. ` +
	`state:failed,paused (created, queued, scheduled, waiting, running, lost, pausing, cancelling, paused, completed, failed, cancelled); ` +
	`job:NAME or job:BEGINNING*; queue:NAME; label:NAME=VALUE; by:WHO; chain:NAME; reason:timeout,connection; ` +
	`since:24h, since:7d, since:2026-11-20 or since:2026-11-20T08:00:00Z, and until: alike, by the creation; ended:24h by the end, of failed and cancelled executions. ` +
	`A value with spaces stands in quotes: job:"two words". Quoted characters stand for themselves: job:"ab*" is the job of that name.`

// A FilterError has all that is wrong with a filter. It matches [courier.ErrInvalid].
type FilterError struct{ Problems []string }

// Error lists the problems, and ends with the grammar.
func (e *FilterError) Error() string {
	return "filter: " + strings.Join(e.Problems, "; ") + ". " + Grammar
}

// Is reports whether target is [courier.ErrInvalid].
func (e *FilterError) Is(target error) bool { return target == courier.ErrInvalid }

// conditions are the names of conditions.
var conditions = []string{"state", "job", "queue", "label", "by", "chain", "reason", "since", "until", "ended"}

// shown are the states that people see, each with the state of which it is a part.
var shown = map[string]courier.State{
	"created": courier.Created, "queued": courier.Queued, "running": courier.Running, "paused": courier.Paused,
	"completed": courier.Completed, "failed": courier.Failed, "cancelled": courier.Cancelled,
	"scheduled": courier.Queued, "waiting": courier.Queued,
	"lost": courier.Running, "pausing": courier.Running, "cancelling": courier.Running,
}

var reasons = []courier.Reason{
	courier.ReasonError, courier.ReasonTimeout, courier.ReasonStalled, courier.ReasonPanic, courier.ReasonCrashed, courier.ReasonConfig, courier.ReasonExecution,
	courier.ReasonWorkerLost, courier.ReasonFiles, courier.ReasonDefinition, courier.ReasonCancelled, courier.ReasonOperator, courier.ReasonElsewhere,
	courier.ReasonItems, courier.ReasonStore, courier.ReasonConnection, courier.ReasonLogin, courier.ReasonNotFound, courier.ReasonExists,
	courier.ReasonPermission, courier.ReasonQuota, courier.ReasonSpace, courier.ReasonIntegrity, courier.ReasonInvalid, courier.ReasonSecret,
}

// maxConditions is how many values a filter has at most, and maxWrong how many mistakes its
// error lists: each takes time to look for what was meant.
const (
	maxConditions = 200
	maxWrong      = 20
)

// ParseWhere reads a filter from its text; see [Grammar]. Durations are counted back from
// now. The error is a *[FilterError].
func ParseWhere(text string, now time.Time) (Where, error) {
	p := parser{now: now}
	for term := range p.split(text, unicode.IsSpace) {
		name, value, ok := term.cut(':')
		if p.full() {
			break
		}
		if !ok {
			p.problem("%s is no condition; for a job write job:%s", term, term)
			continue
		}
		p.condition(name.text, value)
	}
	return p.done()
}

// ParseQuery reads a filter from the parameters of a URL, each of which is a condition:
// "state=failed&job=daily-*". A value that begins with a quote is read as in a text, in
// which spaces need none. The caller removes what is no condition.
func ParseQuery(q url.Values, now time.Time) (Where, error) {
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
					continue // a quote is not closed
				}
				w = words[0]
			}
			p.condition(name, w)
		}
	}
	return p.done()
}

type parser struct {
	w        Where
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

// once reports a condition that is given again and can have one value.
func (p *parser) once(name string) {
	if p.given[name] {
		p.problem("%s is given twice, and an execution has only one", name)
	}
	if p.given == nil {
		p.given = make(map[string]bool)
	}
	p.given[name] = true
}

// full reports whether nothing more of the filter is read: it has too many conditions, or
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
		p.problem("%s: there is no such condition; %s", quote(name), nearest.DidYouMean(name, conditions))
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
				p.problem("state: there is no state %s; %s", quote(s), nearest.DidYouMean(s, slices.Sorted(maps.Keys(shown))))
			}
			p.w.States = append(p.w.States, s)
		}
	case "reason":
		for _, s := range w.list() {
			if !slices.Contains(reasons, courier.Reason(s)) {
				if len(p.problems) == maxWrong {
					break
				}
				p.problem("reason: there is no reason %s; %s", quote(s), nearest.DidYouMean(s, asText(reasons)))
			}
			p.w.Reasons = append(p.w.Reasons, courier.Reason(s))
		}
	case "job":
		switch prefix, rest, ok := w.cut('*'); {
		case !ok:
			p.w.Jobs = append(p.w.Jobs, value)
		case rest.text != "":
			p.problem("job: %s: an asterisk can stand at the end only; for the job of that name write job:%s", quote(value), inQuotes(value))
		default:
			p.w.JobPrefixes = append(p.w.JobPrefixes, prefix.text)
		}
	case "label":
		p.label(w)
	case "queue":
		p.once(name)
		p.w.Queue = value
	case "by":
		p.once(name)
		p.w.By = value
	case "chain":
		p.once(name)
		p.w.Chain = value
	case "since":
		p.once(name)
		p.w.Since = p.instant(name, value)
	case "until":
		p.once(name)
		p.w.Until = p.instant(name, value)
	case "ended":
		p.once(name)
		p.w.Ended = p.instant(name, value)
	}
}

func (p *parser) label(w word) {
	before, after, ok := w.cut('=')
	name, v := before.text, after.text
	if !ok || name == "" || v == "" {
		p.problem("label: %s: write label:NAME=VALUE", w)
		return
	}
	if was, given := p.w.Labels[name]; given && was != v {
		p.problem("label: %s can't be %s and %s at once", quote(name), quote(was), quote(v))
	}
	if p.w.Labels == nil {
		p.w.Labels = make(map[string]string)
	}
	p.w.Labels[name] = v
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
		p.problem("%s: %s is neither a duration such as 90m, 24h or 7d, nor a day, nor an instant such as 2026-11-20T08:00:00Z", name, quote(value))
	case d < 0 || at.After(p.now):
		p.problem("%s: %s lies in the future", name, quote(value))
	case at.Year() < 1970:
		p.problem("%s: %s lies before 1970", name, quote(value))
	}
	return at.UTC()
}

// done returns the filter, or all that is wrong.
func (p *parser) done() (Where, error) {
	w := &p.w
	for _, list := range []*[]string{&w.States, &w.Jobs, &w.JobPrefixes} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	slices.Sort(w.Reasons)
	w.Reasons = slices.Compact(w.Reasons)
	if p.problems = append(p.problems, w.problems()...); len(p.problems) > 0 {
		return Where{}, &FilterError{p.problems}
	}
	return *w, nil
}

// problems are the conditions that no execution can meet together.
func (w *Where) problems() (list []string) {
	if !w.Since.IsZero() && !w.Until.IsZero() && !w.Since.Before(w.Until) {
		list = append(list, "since is not before until")
	}
	for _, s := range w.States {
		if !w.Ended.IsZero() && s != "failed" && s != "cancelled" {
			list = append(list, fmt.Sprintf("ended goes with failed and cancelled executions, and not with state:%s", s))
		}
	}
	return list
}

// String returns the text of the filter, which [ParseWhere] reads.
func (w Where) String() string {
	var terms []string
	add := func(name, value string) { terms = append(terms, name+":"+quote(value)) }
	for _, s := range w.States {
		add("state", s)
	}
	for _, j := range w.Jobs {
		add("job", j)
	}
	for _, j := range w.JobPrefixes {
		terms = append(terms, "job:"+quote(j)+"*")
	}
	for _, n := range slices.Sorted(maps.Keys(w.Labels)) {
		add("label", n)
		terms[len(terms)-1] += "=" + quote(w.Labels[n])
	}
	for _, r := range w.Reasons {
		add("reason", string(r))
	}
	for _, c := range []struct{ name, value string }{{"queue", w.Queue}, {"by", w.By}, {"chain", w.Chain}} {
		if c.value != "" {
			add(c.name, c.value)
		}
	}
	for _, c := range []struct {
		name string
		at   time.Time
	}{{"since", w.Since}, {"until", w.Until}, {"ended", w.Ended}} {
		if !c.at.IsZero() {
			add(c.name, c.at.UTC().Format(time.RFC3339Nano))
		}
	}
	return strings.Join(terms, " ")
}

// empty reports whether the filter selects all executions.
func (w *Where) empty() bool { return w.String() == "" }

// namesJobs reports whether the filter selects by jobs.
func (w *Where) namesJobs() bool { return len(w.Jobs) > 0 || len(w.JobPrefixes) > 0 }

// first is the lowest id that the filter can select.
func (w *Where) first() courier.ExecutionID {
	if w.Since.IsZero() {
		return ""
	}
	return courier.ExecutionID(uuid7.First(w.Since))
}

// states are the stored states that the filter can select.
func (w *Where) states() (list []courier.State) {
	for _, s := range w.States {
		list = append(list, shown[s])
	}
	if len(list) == 0 && !w.Ended.IsZero() {
		list = []courier.State{courier.Failed, courier.Cancelled}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// filter is the part of the filter that stores understand.
func (w *Where) filter(before courier.ExecutionID) store.Filter {
	f := store.Filter{
		States: w.states(), Queue: w.Queue, Labels: w.Labels, Reasons: w.Reasons, Before: before,
		Waiting: len(w.States) == 1 && w.States[0] == "waiting",
	}
	if len(w.JobPrefixes) == 0 {
		f.Jobs = w.Jobs
	}
	if !w.Until.IsZero() {
		if last := courier.ExecutionID(uuid7.First(w.Until)); before == "" || last < before {
			f.Before = last
		}
	}
	return f
}

// selects reports whether the filter selects an execution, but for the chain.
func (w *Where) selects(x *courier.Execution, now time.Time) bool {
	status := x.Status(now)
	state := func(s string) bool { return s == status || s == string(x.State) }
	begins := func(prefix string) bool { return strings.HasPrefix(x.Job, prefix) }
	return (len(w.States) == 0 || slices.ContainsFunc(w.States, state)) &&
		(!w.namesJobs() || slices.Contains(w.Jobs, x.Job) || slices.ContainsFunc(w.JobPrefixes, begins)) &&
		(w.By == "" || x.By == w.By) &&
		(w.Ended.IsZero() || !x.EndedAt.Before(w.Ended))
}

func asText[T ~string](list []T) []string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = string(v)
	}
	return texts
}
