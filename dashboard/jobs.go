package dashboard

import (
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

var jobPages = append([]page{
	{
		path: "jobs", op: "listJobs", on: onVisible, title: "Jobs", nav: "Jobs", group: "Rules", key: "j", file: "jobs",
		query: []string{"q", "after"}, data: (*call).jobs, live: []string{"list"}, watch: watchJobs,
	},
	{path: "jobs/{name}", op: "getJob", on: onJob, title: "Job", file: "job", query: versionQuery, data: (*call).job},
}, definitionPages("job", onJob, onVisible)...)

// watchJobs watches the executions that the visitor may see, because the list shows their outcomes.
func watchJobs(c *call) (*watching, error) { return c.watchExecutions(filter.Filter{}) }

// A jobList is the page of jobs.
type jobList struct {
	Q     string
	Rows  []jobRow
	First string // reference of the first page, on others
	Next  string
	Empty map[string]any
	New   bool // the visitor may create jobs of any name
}

// A jobRow is a job in the list. If the visitor may only start the job, only its name is set.
type jobRow struct {
	Name, Href, Run string
	Client          bool
	Version, Steps  int
	Queue           string
	SavedBy         string
	SavedAt         time.Time
	Outcomes        []jobOutcome // the newest first
	More            string       // reference of all executions
	Next            time.Time    // the next tick of its schedules
	Schedule        string       // the schedule with that tick
	Chain           string       // the chain that the schedule starts, which has the job; empty if it starts the job
	Standing        int          // how many of its schedules are disabled or paused
}

// A jobOutcome is the status of an execution of a job.
type jobOutcome struct {
	Href, Status string
	At           time.Time // of the end, or else of the creation
	Version      int
}

const (
	jobsPage    = 50
	jobOutcomes = 5 // executions of a job in the list
)

func (c *call) jobs() (any, error) {
	l := &jobList{Q: c.query.Get("q"), New: c.Can(c.ctx(), "", access.RightEdit)}
	after := c.query.Get("after")
	list, next, err := c.Jobs(c.ctx(), l.Q, after, jobsPage)
	if err != nil {
		return nil, err
	}
	for i := range list {
		l.Rows = append(l.Rows, c.jobRow(&list[i]))
	}
	if after != "" {
		l.First = c.with("after", "")
	}
	if next != "" {
		l.Next = c.with("after", next)
	}
	if len(l.Rows) == 0 {
		l.Empty = map[string]any{"Title": "There are no jobs yet.", "Text": "A program defines jobs when it starts, or an editor creates them here. Jobs that you may not see are not listed.", "Href": "", "Link": ""}
		if l.Q != "" {
			l.Empty = map[string]any{"Title": "No job matches.", "Text": "No job that you may see has a name that begins like this.", "Href": c.with("q", "", "after", ""), "Link": "Show all jobs"}
		}
	}
	if err := c.addOutcomes(l.Rows); err != nil {
		return nil, err
	}
	return l, c.addTicks(l.Rows)
}

func (c *call) jobRow(d *courier.DefinedJob) jobRow {
	name := d.Job.Name
	r := jobRow{Name: name, More: c.executionsOf(name)}
	if c.Can(c.ctx(), name, desk.NeedOf("startExecution").Rights) {
		r.Run = c.link("jobs", name, "run")
	}
	if !c.Can(c.ctx(), name, access.RightSee) {
		r.Client = true
		return r
	}
	r.Href, r.Version, r.Steps, r.Queue, r.SavedBy, r.SavedAt = c.link("jobs", name), d.Job.Version, len(d.Job.Steps), d.Job.Queue, d.SavedBy, d.SavedAt
	return r
}

// executionsOf returns the reference of the executions of a job.
func (c *call) executionsOf(job string) string {
	return c.link("executions") + "?" + url.Values{"where": {filter.Filter{Jobs: []string{job}}.String()}}.Encode()
}

// addOutcomes adds the newest executions of each job. It reads the newest executions of all these
// jobs, and then separately those of each job that has too few among them.
func (c *call) addOutcomes(rows []jobRow) error {
	byName := make(map[string]*jobRow)
	var names []string
	for i := range rows {
		if !rows[i].Client {
			byName[rows[i].Name] = &rows[i]
			names = append(names, rows[i].Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	at := now()
	read := func(f store.Filter) (int, error) {
		list, err := c.h.e.Executions().List(c.ctx(), f)
		for i := range list {
			x := &list[i]
			if r := byName[x.Job]; r != nil && len(r.Outcomes) < jobOutcomes {
				o := jobOutcome{Href: c.link("executions", string(x.ID)), Status: x.Status(at), At: x.EndedAt, Version: x.Version}
				if o.At.IsZero() {
					o.At = x.CreatedAt
				}
				r.Outcomes = append(r.Outcomes, o)
			}
		}
		return len(list), err
	}
	most := 2 * jobOutcomes * len(names)
	n, err := read(store.Filter{Jobs: names, Limit: most})
	for i := 0; i < len(names) && n == most && err == nil; i++ {
		if r := byName[names[i]]; len(r.Outcomes) < jobOutcomes {
			r.Outcomes = nil
			_, err = read(store.Filter{Job: names[i], Limit: jobOutcomes})
		}
	}
	return err
}

// addTicks adds the next tick of each job's schedules, if the store has schedules. It reads one
// page of the schedules that the visitor may see. If there are more, or there is only one job, it
// reads separately for each job. A schedule of a chain counts for the jobs in the chain.
func (c *call) addTicks(rows []jobRow) error {
	list, next, err := c.Schedules(c.ctx(), "", 1000)
	if err == nil {
		err = c.addChains(rows, list)
	}
	each := len(rows) == 1 || next != ""
	for i := 0; i < len(rows) && err == nil; i++ {
		if rows[i].Client {
			continue
		}
		if each {
			list, err = c.h.e.Schedules().List(c.ctx(), schedule.Filter{Kind: store.Job, Target: rows[i].Name, Limit: 100})
		}
		for j := range list {
			if list[j].Job == rows[i].Name {
				rows[i].add(&list[j], "")
			}
		}
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// maxTickChains is the number of chains that are read for the ticks of their jobs.
const maxTickChains = 100

// addChains adds the next ticks of chains to the jobs in them.
func (c *call) addChains(rows []jobRow, list []schedule.Schedule) error {
	return c.eachChain(list, func(s *schedule.Schedule, has func(job string) bool) {
		for j := range rows {
			if !rows[j].Client && has(rows[j].Name) {
				rows[j].add(s, s.Chain)
			}
		}
	})
}

// eachChain calls f with each schedule that starts a chain. Has reports whether the chain has a
// job.
func (c *call) eachChain(list []schedule.Schedule, f func(s *schedule.Schedule, has func(job string) bool)) error {
	read := 0
	for i := range list {
		s := &list[i]
		if s.Chain == "" || read == maxTickChains {
			continue
		}
		read++
		def, err := c.h.e.Chains().Get(c.ctx(), s.Chain, 0)
		if errors.Is(err, courier.ErrNotFound) {
			continue
		} else if err != nil {
			return err
		}
		f(s, func(job string) bool {
			return slices.ContainsFunc(def.Members, func(m chain.Member) bool { return m.Job == job })
		})
	}
	return nil
}

// add adds a schedule of the job, or of a chain that contains it.
func (r *jobRow) add(s *schedule.Schedule, chain string) {
	switch {
	case s.Disabled || s.Paused:
		r.Standing++
	case !s.NextFire.IsZero() && (r.Next.IsZero() || s.FiresAt().Before(r.Next)):
		r.Next, r.Schedule, r.Chain = s.FiresAt(), s.Name, chain
	}
}
