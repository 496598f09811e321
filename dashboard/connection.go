package dashboard

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/life"
	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

// A connectionPage is the page of a connection: what has come of it lately.
type connectionPage struct {
	connectionRow
	standing
	Runs  life.Runs // executions of the jobs that use it
	List  string    // reference of the list of connections
	Tests bool
	Cut   bool
}

// A standing says how it stands with a connection.
type standing struct {
	State     string // works, down or unknown
	Success   time.Time
	DownSince time.Time
	Why       string // the newest failure
	WhyHref   string
}

const (
	maxJobsOf  = 200 // jobs whose executions are looked at
	maxUsedFor = 100 // executions of them
	maxEarlier = 20  // earlier versions of jobs that are read to see whether they name it
)

func (c *call) connection() (any, error) {
	all, err := c.h.opt.Connections(c.ctx())
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(k Connection) bool { return k.ID == c.r.PathValue("name") })
	if i < 0 {
		return nil, desk.Unknown()
	}
	l := &connectionList{Tests: c.mayTest()}
	rows := make(map[string]*connectionRow)
	p := &connectionPage{connectionRow: c.connectionRow(all[i]), List: c.link("connections"), Tests: l.Tests}
	rows[p.ID] = &p.connectionRow
	if err := c.uses(l, rows); err != nil {
		return nil, err
	}
	if err := c.failures(rows); err != nil {
		return nil, err
	}
	c.title, c.still, p.Cut = "Connection "+p.ID, c.kept != nil, l.Cut
	return p, c.used(p)
}

// used reads the last executions of the jobs that use the connection. What has failed elsewhere says
// nothing of it.
func (c *call) used(p *connectionPage) error {
	if p.State = "unknown"; len(p.jobs) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(p.jobs))
	list, err := c.h.e.Executions().List(c.ctx(), store.Filter{Jobs: names[:min(len(names), maxJobsOf)], Limit: maxUsedFor})
	if err != nil {
		return err
	}
	type version struct {
		name   string
		number int
	}
	named := make(map[version]bool) // of earlier versions
	list = slices.DeleteFunc(list, func(x courier.Execution) bool {
		if x.State == courier.Cancelled || x.State == courier.Failed {
			return x.State == courier.Cancelled || x.Failure == nil || x.Failure.Connection != p.ID
		}
		if x.Version == p.jobs[x.Job] {
			return false
		}
		v := version{x.Job, x.Version}
		if is, known := named[v]; known || len(named) == maxEarlier {
			return !is
		}
		was, wrong := c.h.e.Jobs().Get(c.ctx(), x.Job, x.Version)
		if wrong != nil && !errors.Is(wrong, courier.ErrNotFound) {
			err = wrong
		}
		named[v] = slices.ContainsFunc(was.Steps, func(s courier.StepSpec) bool { return connectionOf(&s) == p.ID })
		return !named[v]
	})
	if err != nil {
		return err
	}
	list = list[:min(len(list), life.MaxRuns)]
	p.standing = standingOf(p.ID, list)
	if p.WhyHref != "" {
		p.WhyHref = c.link("executions", p.WhyHref)
	}
	if !c.SeesValues(c.ctx(), "") {
		p.Why = desk.HiddenIf(p.Why)
	}
	p.Runs = life.RunsOf(list, now(), c.runHref)
	p.Runs.Mixed = len(p.jobs) > 1
	return nil
}

// standingOf says how it stands by the last executions that have used a connection, the newest first:
// it is down if the partner is to blame for the newest one that says anything.
func standingOf(id string, list []courier.Execution) standing {
	s := standing{State: "unknown"}
	for i := range list {
		x := &list[i]
		at := x.EndedAt
		if at.IsZero() {
			at = x.UpdatedAt
		}
		switch f := x.Failure; {
		case x.State == courier.Completed:
			if s.State == "unknown" {
				s.State = "works"
			}
			s.Success = at
			return s
		case f != nil && f.Connection == id && attention.BlamesPartner(f.Reason):
			if s.State == "unknown" {
				s.State, s.Why, s.WhyHref = "down", f.Message, string(x.ID)
			}
			if s.State == "down" {
				s.DownSince = at
			}
		case f != nil && f.Connection == id && s.State == "unknown": // the partner has answered
			s.State = "works"
		}
	}
	return s
}
