package dashboard

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/definition"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

// A jobPage is the page of a version of a job.
type jobPage struct {
	Job     courier.Job
	SavedBy string
	SavedAt time.Time
	Latest  int    // the number of the latest version
	Diff    string // reference of what the version has changed; empty for the first one
	State   jobRow // its newest executions and its next tick
	// Warnings are what looked doubtful when the visitor has just saved it.
	Warnings []courier.Problem

	Run, Edit, Executions string // references; empty if the visitor may not
	Tabs                  []navItem
	Tab                   string

	Facts     []definition.Fact
	DependsOn []dependsOn
	Params    []definition.Param
	AnyParams bool // it takes parameters of any names
	Flow      definition.Flow
	Text      string // of the tab "text"
	Versions  *versionList
	Schedules []scheduleFact
}

// A dependsOn is a job that another one waits for.
type dependsOn struct{ Job, Href, Text string }

// A scheduleFact is a schedule that starts the job.
type scheduleFact struct {
	Name, Href, Status string
	Next               time.Time
}

// A versionList is a page of the versions of a job.
type versionList struct {
	Rows  []versionRow
	First string
	Next  string
	Diff  string // reference of the page that compares two
}

type versionRow struct {
	Version    int
	Href, Diff string
	SavedBy    string
	SavedAt    time.Time
	Steps      int
	From, To   bool // what the form compares unless somebody chooses
}

const versionsPage = 50

// jobTabs are the parts of the page of a job, the first without a parameter.
var jobTabs = []struct{ name, label string }{{"", "Flow"}, {"text", "Text"}, {"versions", "Versions"}, {"schedules", "Schedules"}}

// jobVersion returns a version of a job, the latest for version 0. If it is not there, the
// error suggests the nearest name to who may know all.
func (c *call) jobVersion(name string, version int) (courier.Job, error) {
	job, err := c.h.e.Jobs().Get(c.ctx(), name, version)
	if errors.Is(err, courier.ErrNotFound) && c.Role(c.ctx(), "") < desk.Viewer {
		err = desk.Unknown()
	}
	return job, err
}

// savedJob returns a version of a job with who has saved it, the latest for version 0.
func (c *call) savedJob(name string, version int) (engine.DefinedJob, error) {
	job, err := c.jobVersion(name, version)
	if err != nil {
		return engine.DefinedJob{}, err
	}
	list, err := c.h.e.Jobs().Versions(c.ctx(), name, engine.VersionFilter{Before: job.Version + 1, Limit: 1})
	if err == nil && len(list) > 0 && list[0].Job.Version == job.Version {
		return list[0], nil
	}
	return engine.DefinedJob{Job: job}, err
}

func (c *call) job() (any, error) {
	name := c.r.PathValue("name")
	version, err := c.number("version", 0, 1, 1<<30)
	if err != nil {
		return nil, err
	}
	d, err := c.savedJob(name, version)
	if err != nil {
		return nil, err
	}
	c.title = format.Clip(80, name)
	state := []jobRow{{Name: name}}
	if err := c.addOutcomes(state); err != nil {
		return nil, err
	}
	if err := c.addTicks(state); err != nil {
		return nil, err
	}
	p := &jobPage{State: state[0], Job: d.Job, SavedBy: d.SavedBy, SavedAt: d.SavedAt, Latest: d.Job.Version, Executions: c.executionsOf(name), Run: c.link("jobs", name, "run"), Tab: c.query.Get("tab")}
	p.Warnings, _ = c.h.done.Kept(c.query.Get("saved"), c.ID).([]courier.Problem)
	if version != 0 {
		latest, err := c.jobVersion(name, 0)
		if err != nil {
			return nil, err
		}
		p.Latest = latest.Version
	}
	if c.may(desk.Editor) {
		p.Edit = c.link("jobs", name, "edit")
	}
	if d.Job.Version > 1 {
		p.Diff = c.diffLink(name, d.Job.Version-1, d.Job.Version)
	}
	if !slices.ContainsFunc(jobTabs, func(t struct{ name, label string }) bool { return t.name == p.Tab }) {
		p.Tab = ""
	}
	for _, t := range jobTabs {
		p.Tabs = append(p.Tabs, navItem{Label: t.label, Href: c.with("tab", t.name, "before", ""), Current: t.name == p.Tab})
	}
	switch p.Tab {
	case "text":
		p.Text, err = definition.Text(d.Job)
	case "versions":
		p.Versions, err = c.versions(name)
	case "schedules":
		p.Schedules, err = c.schedulesOf(name)
	default:
		p.Facts, p.Flow = definition.Facts(&d.Job), definition.FlowOf(&d.Job, c.h.e.Registry())
		p.Params, p.AnyParams = definition.Params(&d.Job), d.Job.Params == nil
		p.DependsOn = c.dependencies(&d.Job)
	}
	return p, err
}

// diffLink returns the reference to the comparison of two versions.
func (c *call) diffLink(name string, from, to int) string {
	return c.link("jobs", name, "diff") + "?" + url.Values{"from": {strconv.Itoa(from)}, "to": {strconv.Itoa(to)}}.Encode()
}

func (c *call) versions(name string) (*versionList, error) {
	before, err := c.number("before", 0, 2, 1<<30)
	if err != nil {
		return nil, err
	}
	list, err := c.h.e.Jobs().Versions(c.ctx(), name, engine.VersionFilter{Before: before, Limit: versionsPage})
	if err != nil {
		return nil, err
	}
	v := &versionList{Diff: c.link("jobs", name, "diff")}
	for i, d := range list {
		r := versionRow{Version: d.Job.Version, Href: c.with("tab", "", "before", "", "version", strconv.Itoa(d.Job.Version)), SavedBy: d.SavedBy, SavedAt: d.SavedAt, Steps: len(d.Job.Steps), From: i == min(1, len(list)-1), To: i == 0}
		if r.Version > 1 {
			r.Diff = c.diffLink(name, r.Version-1, r.Version)
		}
		v.Rows = append(v.Rows, r)
	}
	if before != 0 {
		v.First = c.with("before", "")
	}
	if n := len(list); n == versionsPage && list[n-1].Job.Version > 1 {
		v.Next = c.with("before", strconv.Itoa(list[n-1].Job.Version))
	}
	return v, nil
}

// schedulesOf returns the schedules that start a job, a hundred at most.
func (c *call) schedulesOf(name string) (facts []scheduleFact, err error) {
	list, err := c.h.e.Schedules().List(c.ctx(), store.ScheduleFilter{Kind: store.Job, Target: name, Limit: 100})
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	for i := range list {
		s := &list[i]
		f := scheduleFact{Name: s.Name, Href: c.link("schedules", s.Name), Status: "enabled", Next: s.NextFire}
		if s.Paused {
			f.Status = "paused"
		}
		if s.Disabled {
			f.Status = "disabled"
		}
		facts = append(facts, f)
	}
	return facts, err
}

// dependencies returns what a job waits for. Jobs that the visitor must not know are text,
// as the definition has them.
func (c *call) dependencies(job *courier.Job) (list []dependsOn) {
	for _, d := range job.DependsOn {
		on := dependsOn{Job: d.Job, Text: "must have completed"}
		switch {
		case d.RequiredStatus == courier.RequireAny:
			on.Text = "must have ended"
		case d.RunOnFailure:
			on.Text = "must have completed or failed"
		}
		if d.OnUnmet == courier.RefuseUnmet {
			on.Text += ", or nothing is started"
		}
		if c.Role(c.ctx(), d.Job) >= desk.Viewer {
			on.Href = c.link("jobs", d.Job)
		}
		list = append(list, on)
	}
	return list
}
