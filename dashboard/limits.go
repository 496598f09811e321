package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/store"
)

var limitPages = []page{{
	path: "limits", op: "listLimits", on: onVisible, title: "Limits, queues and workers", nav: "Limits", group: "Administration", key: "l", file: "limits",
	query: []string{"cursor", "scope", "remove"}, data: (*call).limits, live: []string{"load"}, watch: watchEvery(15 * time.Second),
	actions: []action{
		{verb: "set", op: "setLimit", check: (*call).mayLimit, noted: notedLimit, do: func(ctx context.Context, c *call) (string, error) {
			return c.link("limits"), c.SetLimit(ctx, c.scope(), c.running(), c.by())
		}},
		{verb: "remove", op: "removeLimit", check: (*call).needAdmin, noted: notedLimit, do: func(ctx context.Context, c *call) (string, error) {
			return c.link("limits"), c.h.e.Limits().Remove(ctx, c.scope(), c.by())
		}},
	},
}}

// A limitPage is the page of limits, queues and workers.
type limitPage struct {
	Limits  []limitRow
	First   string
	Next    string
	Admin   bool
	Form    limitForm
	Removes string // the scope of the limit to be removed
	All     bool   // the visitor may see subjects without a job
	Census  store.Census
	Queues  []queueRow
	Strand  []strandedRow
	Workers []store.Worker
	Missing []string // roles that the store lacks
	Sampled int      // the number of running executions that were searched for holders; 0 if these are all
}

// A limitForm sets a limit.
type limitForm struct {
	Scope, Running               string
	ScopeProblem, RunningProblem string
}

// A limitRow is a limit with its holders.
type limitRow struct {
	Scope   string
	Limit   int
	Default bool // nobody has set it
	Running string
	Full    bool
	Holders []holder

	MoreHold int // further holders
	MoreHref string
	Change   string // reference of the form
	Remove   string
}

// A holder is an execution that runs under a limit.
type holder struct {
	Job, Href string
	Since     time.Time
}

// A queueRow is a queue with the reason why its oldest execution does not go on.
type queueRow struct {
	store.QueueCensus
	Href    string // of its executions
	Oldest  string
	More    bool
	Because []advice.Cause
	Asked   bool
}

const (
	maxHolders   = 3   // holders that are shown for a limit
	maxSampled   = 200 // running executions that are read to find them
	maxExplained = 10  // queues whose oldest execution is explained
	defaultLimit = 5   // the number for all, until somebody sets a limit
	global       = "global"
)

func (c *call) limits() (any, error) {
	p := &limitPage{All: c.Can(c.ctx(), "", access.RightSee), Admin: c.may(access.RightAdmin), Removes: c.query.Get("remove")}
	list, next, err := c.Limits(c.ctx(), c.query.Get("cursor"), listPage)
	if err != nil {
		return nil, err
	}
	p.First, p.Next = c.pages(next)
	if p.Census, err = c.h.e.Executions().Census(c.ctx(), 0); p.lacks("store.Overview", &err) && err != nil {
		return nil, err
	}
	for _, l := range list {
		p.Limits = append(p.Limits, limitRow{Scope: l.Scope, Limit: l.Limit})
	}
	if p.All && p.First == "" && !slices.ContainsFunc(list, func(l engine.Limit) bool { return l.Scope == global }) {
		p.Limits = slices.Insert(p.Limits, 0, limitRow{Scope: global, Limit: defaultLimit, Default: true})
	}
	if err = c.held(p); err == nil && p.All {
		err = c.load(p)
	}
	p.Form = c.limitForm(list)
	return p, err
}

// lacks records that the store lacks a role, if err says so, and then clears err. It reports
// whether an error is left.
func (p *limitPage) lacks(role string, err *error) bool {
	if errors.Is(*err, errors.ErrUnsupported) {
		p.Missing, *err = append(p.Missing, role), nil
	}
	return *err != nil
}

// held adds the number of executions that run under each limit, and some of these executions.
func (c *call) held(p *limitPage) error {
	if len(p.Limits) == 0 {
		return nil
	}
	running, err := c.Executions(c.ctx(), filter.Filter{States: []string{"running"}}, "", maxSampled)
	if err != nil {
		return err
	}
	if running.Next != "" {
		p.Sampled = len(running.Items)
	}
	for i := range p.Limits {
		l := &p.Limits[i]
		n := 0
		switch kind, name, _ := strings.Cut(l.Scope, ":"); kind {
		case global:
			n = p.Census.Running
		case "job":
			n = countOf(p.Census.Jobs, name)
		default:
			n = countOf(p.Census.Keys, name)
		}
		if l.Running = format.Count(n); n >= p.Census.CountLimit && n > 0 {
			l.Running += " or more"
		}
		l.Full = l.Limit > 0 && n >= l.Limit
		for j := range running.Items {
			x := &running.Items[j]
			switch held := holds(x, l.Scope); {
			case held && len(l.Holders) == maxHolders:
				l.MoreHold++
			case held:
				l.Holders = append(l.Holders, holder{x.Job, c.link("executions", string(x.ID)), x.StartedAt})
			}
		}
		where := filter.Filter{States: []string{"running"}}
		if job, ok := strings.CutPrefix(l.Scope, "job:"); ok {
			where.Jobs = []string{job}
		}
		l.MoreHref = c.link("executions") + "?" + query("where", where.String())
		l.Change, l.Remove = c.with("scope", l.Scope, "remove", "")+"#set", c.with("remove", l.Scope, "scope", "")+"#remove"
	}
	return nil
}

// countOf returns the number of executions for a name. For a name that ends with "*" it returns the
// largest number for a name with that beginning.
func countOf(list []store.NamedCount, name string) (n int) {
	prefix, many := strings.CutSuffix(name, "*")
	for _, c := range list {
		if c.Name == name || many && strings.HasPrefix(c.Name, prefix) {
			n = max(n, c.Count)
		}
	}
	return n
}

// holds reports whether a running execution counts for a limit.
func holds(x *courier.Execution, scope string) bool {
	if x.State != courier.Running {
		return false
	}
	kind, name, _ := strings.Cut(scope, ":")
	switch kind {
	case global:
		return true
	case "job":
		return x.Job == name
	}
	prefix, many := strings.CutSuffix(name, "*")
	return slices.ContainsFunc(x.LimitKeys, func(key string) bool { return key == name || many && strings.HasPrefix(key, prefix) })
}

// load adds queues and workers.
func (c *call) load(p *limitPage) error {
	slices.SortStableFunc(p.Census.Queues, func(x, y store.QueueCensus) int {
		if x.DueAt.IsZero() != y.DueAt.IsZero() {
			return map[bool]int{true: 1, false: -1}[x.DueAt.IsZero()]
		}
		return cmp.Or(x.DueAt.Compare(y.DueAt), strings.Compare(x.Queue, y.Queue))
	})
	for i, q := range p.Census.Queues {
		r := queueRow{QueueCensus: q, Href: c.link("executions") + "?" + query("where", filter.Filter{States: []string{"queued"}, Queue: q.Queue}.String()), More: q.Queued >= p.Census.QueueCountLimit}
		if q.Oldest != "" {
			r.Oldest = c.link("executions", string(q.Oldest))
		}
		if r.Asked = q.Oldest != "" && i < maxExplained; r.Asked {
			why, err := c.h.e.Executions().Explain(c.ctx(), q.Oldest)
			if err != nil && !errors.Is(err, courier.ErrNotFound) {
				return err
			}
			r.Because = why.Because
			for j := range r.Because {
				if !c.SeesValues(c.ctx(), "") {
					desk.HideCause(&r.Because[j])
				}
			}
		}
		p.Queues = append(p.Queues, r)
	}
	stranded, err := c.h.e.Executions().Stranded(c.ctx())
	if p.lacks("store.Workers", &err) {
		return err
	}
	for _, g := range stranded {
		p.Strand = append(p.Strand, c.strandedRow(g))
	}
	p.Workers, err = c.h.e.Workers(c.ctx())
	if errors.Is(err, errors.ErrUnsupported) {
		return nil // the same role
	}
	return err
}

// limitForm returns the form that was sent, or the form for the scope in the address.
func (c *call) limitForm(list []engine.Limit) limitForm {
	f := limitForm{Scope: c.query.Get("scope")}
	for _, l := range list {
		if l.Scope == f.Scope {
			f.Running = strconv.Itoa(l.Limit)
		}
	}
	if c.form.Get("do") != "set" || c.failed == nil {
		return f
	}
	f.Scope, f.Running = c.form.Get("scope"), c.form.Get("running")
	if bad, ok := errors.AsType[*runningError](c.failed); ok {
		f.RunningProblem = format.Sentence(bad.Error())
	} else if errors.Is(c.failed, courier.ErrInvalid) {
		f.ScopeProblem = format.Sentence(c.failed.Error())
	}
	return f
}

// A runningError says that a text is not a valid number of executions.
type runningError struct{ text string }

func (e *runningError) Error() string {
	return fmt.Sprintf("%q is not a number of executions; write one such as 5, or 0 for any number", format.Clip(40, e.text))
}

// Is reports whether target is [courier.ErrInvalid].
func (e *runningError) Is(target error) bool { return target == courier.ErrInvalid }

// scope and running are the fields of the form of a limit.
func (c *call) scope() string { return strings.TrimSpace(c.form.Get("scope")) }

func (c *call) running() int {
	n, err := strconv.Atoi(strings.TrimSpace(c.form.Get("running")))
	if err != nil {
		return -1
	}
	return n
}

// needAdmin returns an error unless the visitor is an admin for all jobs.
func (c *call) needAdmin() error { return c.Need(c.ctx(), "", access.RightAdmin) }

func (c *call) mayLimit() error {
	if err := c.needAdmin(); err != nil {
		return err
	}
	if c.running() < 0 {
		return &runningError{c.form.Get("running")}
	}
	return nil
}

// notedLimit completes the entry in the journal.
func notedLimit(c *call, a *store.Action) {
	if a.Name = c.scope(); a.Verb == "set" {
		a.Now = json.RawMessage(strconv.Itoa(c.running()))
	}
}
