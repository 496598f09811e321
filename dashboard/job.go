package dashboard

import (
	"strconv"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard/internal/definition"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/life"
)

// A jobPage is the page of a version of a job.
type jobPage struct {
	*definitionPage
	State     jobRow    // its newest executions and its next tick
	Runs      life.Runs // of the first tab
	Facts     []definition.Fact
	DependsOn []dependsOn
	Flow      definition.Flow
	Behind    []behind
}

// A behind is one of the newest executions that is going to continue or begin with an older version
// than the latest.
type behind struct {
	jobOutcome
	Resume string // reference of the resume with the latest version; empty if it can't be resumed so
}

// A dependsOn is a job on which another job depends.
type dependsOn struct{ Job, Href, Text string }

func (c *call) job() (any, error) {
	name := c.r.PathValue("name")
	d, shared, err := c.definition("Flow", c.executionsOf(name))
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
	p := &jobPage{definitionPage: shared, State: state[0]}
	if !p.Removed && p.Version == p.Latest {
		p.Behind = c.behind(p)
	}
	if p.Tab == "" {
		job := d.Definition.(*courier.Job)
		p.Facts, p.Flow = definition.Facts(job), definition.FlowOf(job, c.h.e.Registry())
		p.DependsOn = c.dependencies(job)
		if p.Runs, err = c.runs(name); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// behind returns those of the newest executions of a job that failed or wait, and have an older
// version than the page.
func (c *call) behind(p *jobPage) (list []behind) {
	for _, o := range p.State.Outcomes {
		switch b := (behind{jobOutcome: o}); {
		case o.Version >= p.Version:
		case o.Status == "failed":
			if c.mayDo("resumeExecution") {
				b.Resume = o.Href + "/resume?version=" + strconv.Itoa(p.Version)
			}
			list = append(list, b)
		case o.Status == "queued", o.Status == "scheduled", o.Status == "created":
			list = append(list, b)
		}
	}
	return list
}

// dependencies returns the jobs on which a job depends. Jobs that the visitor may not see are text,
// as in the definition.
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
			on.Text += ", or nothing starts"
		}
		if c.Can(c.ctx(), d.Job, access.RightSee) {
			on.Href = c.link("jobs", d.Job)
		}
		list = append(list, on)
	}
	return list
}
