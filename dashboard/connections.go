package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/store"
)

var connectionPages = []page{{
	path: "connections", op: "listConnections", on: onAll, title: "Connections", nav: "Connections", group: "Partners", key: "o", file: "connections",
	needs: func(opt *Options) bool { return opt.Connections != nil },
	query: []string{"cursor"}, data: (*call).connections, live: []string{"list"}, watch: watchEvery(connectionsEvery),
	actions: []action{{verb: "test", op: "testConnection", dry: true, do: testConnection}},
}, {
	path: "connections/{name}", op: "listConnections", on: onAll, title: "Connection", file: "connection",
	needs: func(opt *Options) bool { return opt.Connections != nil },
	data:  (*call).connection, live: []string{"connection"}, watch: watchEvery(connectionsEvery),
	actions: []action{{verb: "test", op: "testConnection", dry: true, do: testConnection}},
}}

// connectionsEvery is how often an open page of connections is read again.
const connectionsEvery = 30 * time.Second

// A connectionList is the page of connections.
type connectionList struct {
	Rows  []connectionRow
	First string
	Next  string
	Cut   bool // there are more jobs than were searched
	Tests bool // the visitor may test them
}

// A connectionRow is a connection, with the jobs that use it and the executions that failed at it.
type connectionRow struct {
	Connection
	Anchor   string // the id of the row
	Uses     []connectionUse
	Failures []connectionFailure
	More     int    // uses that are not shown
	Type     string // the step type that tests it
	NoTest   string // why it can't be tested
	Test     *connectionTest
	Href     string               // of its page
	jobs     map[string]usedSteps // the jobs that name it, by their names
}

// usedSteps are the steps of the latest version of a job that name a connection.
type usedSteps struct {
	version int
	steps   []int
}

// A connectionUse is a job with the steps that name a connection, or a monitor.
type connectionUse struct {
	target
	Steps string
}

// A connectionFailure is an execution that has failed at a step that names a connection.
type connectionFailure struct {
	Href, Job, Text string
	At              time.Time
}

// A connectionTest is the result of a dry run of a list step.
type connectionTest struct {
	ID      string
	OK      bool
	Message string
	Notes   []string
	Took    time.Duration
}

const (
	maxUses       = 5    // that are shown for a connection
	maxLooked     = 2000 // jobs that are searched
	maxFailedRead = 200  // failed executions that are read
	testTimeout   = time.Minute
)

func (c *call) connections() (any, error) {
	all, err := c.h.opt.Connections(c.ctx())
	if err != nil {
		return nil, err
	}
	all = slices.SortedStableFunc(slices.Values(all), func(x, y Connection) int { return strings.Compare(x.ID, y.ID) })
	after := c.query.Get("cursor")
	first := 0
	if after != "" {
		first, _ = slices.BinarySearchFunc(all, after, func(x Connection, id string) int { return cmp.Or(strings.Compare(x.ID, id), -1) })
	}
	l := &connectionList{Tests: c.mayTest()}
	c.still = c.kept != nil
	list := all[first:min(first+listPage, len(all))]
	next := ""
	if first+len(list) < len(all) {
		next = list[len(list)-1].ID
	}
	l.First, l.Next = c.pages(next)
	rows := make(map[string]*connectionRow)
	l.Rows = make([]connectionRow, len(list))
	for i, k := range list {
		r := &l.Rows[i]
		*r = c.connectionRow(k)
		r.Anchor = fmt.Sprintf("c-%d", first+i)
		rows[k.ID] = r
	}
	if len(rows) == 0 {
		return l, nil
	}
	if err := c.uses(l, rows); err != nil {
		return nil, err
	}
	return l, c.failures(rows)
}

// connectionRow returns a connection without its uses and failures.
func (c *call) connectionRow(k Connection) connectionRow {
	r := connectionRow{Connection: k, Type: k.Type + ".list", Href: c.link("connections", k.ID)}
	if _, ok := c.h.e.Registry().Lookup(r.Type); !ok {
		r.NoTest = "This process has no step type " + r.Type + ", which would test it."
	}
	if t, ok := c.kept.(*connectionTest); ok && t.ID == k.ID {
		r.Test = t
	}
	return r
}

// mayTest reports whether the visitor may test connections.
func (c *call) mayTest() bool { return c.may(access.RightOperate) && c.SeesValues(c.ctx(), "") }

// connectionOf returns the connection that a step names. It is empty if the step names none, or one
// that is only known when the step runs.
func connectionOf(s *courier.StepSpec) string {
	id, _ := s.Config["connection_id"].(string)
	if strings.HasPrefix(id, "context:") {
		return ""
	}
	return id
}

// uses adds the jobs and monitors that name a connection.
func (c *call) uses(l *connectionList, rows map[string]*connectionRow) error {
	looked := 0
	add := func(id string, u connectionUse) {
		if r := rows[id]; r != nil && len(r.Uses) < maxUses {
			r.Uses = append(r.Uses, u)
		} else if r != nil {
			r.More++
		}
	}
	for after := ""; ; {
		page, err := c.h.e.Jobs().List(c.ctx(), store.DefinitionFilter{After: after, Limit: 500})
		if err != nil {
			return err
		}
		looked += len(page)
		for i := range page {
			job := &page[i].Job
			after = job.Name
			steps := make(map[string][]string)
			for n := range job.Steps {
				s := &job.Steps[n]
				if id := connectionOf(s); rows[id] != nil {
					steps[id] = append(steps[id], cmp.Or(s.ID, s.Type))
				}
			}
			for id, names := range steps {
				if rows[id].jobs == nil {
					rows[id].jobs = make(map[string]usedSteps)
				}
				rows[id].jobs[job.Name] = usedSteps{job.Version, stepsNaming(job, id)}
				add(id, connectionUse{c.target(job.Name, ""), strings.Join(names[:min(len(names), 5)], ", ")})
			}
		}
		if len(page) < 500 {
			break
		}
		if l.Cut = looked >= maxLooked; l.Cut {
			break
		}
	}
	monitors, _, err := c.Monitors(c.ctx(), "", 1000)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	for i := range monitors {
		m := &monitors[i]
		add(m.Connection, connectionUse{target{"monitor", m.Name, c.link("monitors", m.Name)}, ""})
	}
	return err
}

// failures adds the executions that failed at a connection, the newest first, as many as are shown.
func (c *call) failures(rows map[string]*connectionRow) error {
	failed, err := c.Executions(c.ctx(), filter.Filter{States: []string{string(courier.Failed)}}, "", maxFailedRead)
	if err != nil {
		return err
	}
	for i := range failed.Items {
		x := &failed.Items[i]
		if x.Failure == nil {
			continue
		}
		r := rows[x.Failure.Connection]
		if r == nil || len(r.Failures) == maxUses {
			continue
		}
		f := connectionFailure{c.link("executions", string(x.ID)), x.Job, x.Failure.Message, x.EndedAt}
		if !c.SeesValues(c.ctx(), x.Job) {
			f.Text = desk.HiddenIf(f.Text)
		}
		r.Failures = append(r.Failures, f)
	}
	return nil
}

// testConnection makes a dry run of a job with one step that lists the directory of the login. It
// tests the address, the certificate or host key, and the credentials, and writes nothing.
func testConnection(ctx context.Context, c *call) (string, error) {
	if !c.SeesValues(ctx, "") {
		return "", &access.Error{Text: "the answer of a partner may contain values, which you may not see: this needs the right values"}
	}
	all, err := c.h.opt.Connections(ctx)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(all, func(k Connection) bool { return k.ID == c.form.Get("connection") })
	if i < 0 {
		return "", desk.Unknown()
	}
	step := courier.StepSpec{Type: all[i].Type + ".list", Config: map[string]any{"connection_id": all[i].ID}}
	if _, ok := c.h.e.Registry().Lookup(step.Type); !ok {
		return "", problem.Invalid("This process has no step type %s, which would test the connection.", step.Type)
	}
	limited, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	report, err := c.h.e.Jobs().DryRun(limited, courier.Job{Name: "test of a connection", Steps: []courier.StepSpec{step}}, nil)
	if err != nil && limited.Err() == nil {
		return "", err
	}
	t := &connectionTest{ID: all[i].ID, OK: err == nil && report.OK(), Took: report.Duration}
	for _, p := range report.Problems {
		t.Message = format.Sentence(p.String())
	}
	for _, s := range report.Steps {
		t.Notes = append(t.Notes, s.Notes...)
		if s.Message != "" {
			t.Message = format.Sentence(s.Message)
		}
	}
	if err != nil {
		t.Message = fmt.Sprintf("The partner did not answer within %v.", testTimeout)
	}
	c.kept = t
	return "", nil
}
