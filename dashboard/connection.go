package dashboard

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/life"
	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

// A connectionPage is the page of a connection, with its last transfers.
type connectionPage struct {
	connectionRow
	standing
	Runs     life.Runs // its transfers
	List     string    // reference of the list of connections
	Tests    bool
	Cut      bool
	Unlisted bool // the store does not list transfers
	Partial  bool // transfers outside the limits below may be missing
	// The limits of the search for transfers.
	LookedAt, AttemptsOf, Earlier int
}

// A standing is the state of a connection.
type standing struct {
	State     string // works, down or unknown
	Success   time.Time
	DownSince time.Time
	Why       string // the newest failure
	WhyHref   string
}

const (
	maxJobsOf     = 200 // jobs whose executions are read
	maxUsedFor    = 100 // executions that are read
	maxAttemptsOf = 10  // attempts of each execution
	maxEarlier    = 20  // earlier versions of jobs that are read to see whether they name it
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
	p := &connectionPage{connectionRow: c.connectionRow(all[i]), List: c.link("connections"), Tests: l.Tests, LookedAt: maxUsedFor, AttemptsOf: maxAttemptsOf, Earlier: maxEarlier}
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

// used reads the last transfers with the connection. These are the attempts of the steps that name
// the connection, in the newest executions of the jobs that use it. If an execution was resumed
// with another version, the steps that name the connection in the present version count.
func (c *call) used(p *connectionPage) error {
	if p.State = "unknown"; len(p.jobs) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(p.jobs))
	if len(names) > maxJobsOf {
		names, p.Cut = names[:maxJobsOf], true
	}
	list, err := c.h.e.Executions().List(c.ctx(), store.Filter{Jobs: names, Limit: maxUsedFor})
	if err != nil {
		return err
	}
	p.Partial = len(list) == maxUsedFor
	n := namedSteps{p: p, earlier: make(map[jobVersion][]int)}
	executions := make(map[courier.ExecutionID]*courier.Execution, len(list))
	var asked []store.TransferStep
	for i := range list {
		x := &list[i]
		executions[x.ID] = x
		steps, err := n.of(c, x.Job, x.Version)
		if err != nil {
			return err
		}
		first := max(1, x.Attempt-maxAttemptsOf+1)
		p.Partial = p.Partial || first > 1
		for attempt := x.Attempt; attempt >= first; attempt-- {
			for _, step := range steps {
				asked = append(asked, store.TransferStep{Execution: x.ID, Attempt: attempt, Step: step})
			}
		}
	}
	if len(asked) == 0 {
		return nil
	}
	p.Partial = p.Partial || len(asked) > store.MaxTransferSteps
	transfers, err := c.h.e.Executions().Transfers(c.ctx(), store.TransferFilter{Steps: asked, Limit: life.MaxRuns})
	if p.Unlisted = errors.Is(err, errors.ErrUnsupported); p.Unlisted {
		p.Partial = false
		return nil
	}
	if err != nil {
		return err
	}
	transfers = slices.DeleteFunc(transfers, func(t store.Transfer) bool {
		x, s := executions[t.Attempt.Execution], &t.Attempt
		if s.Version == 0 || s.Version == x.Version {
			return false
		}
		steps, wrong := n.of(c, x.Job, s.Version) // the execution has been resumed with another version since
		if wrong != nil {
			err = wrong
		}
		return !slices.Contains(steps, s.Step)
	})
	if err != nil {
		return err
	}
	p.Partial = p.Partial && len(transfers) < life.MaxRuns || n.unread
	p.standing = standingOf(transfers)
	values := c.SeesValues(c.ctx(), "")
	if !values {
		p.Why = desk.HiddenIf(p.Why)
	}
	p.Runs = life.TransfersOf(transfers, func(t *store.Transfer) life.Shown {
		s := &t.Attempt
		shown := life.Shown{Href: c.attemptHref(s), Job: executions[s.Execution].Job, Message: s.Error}
		if !values {
			shown.Message = desk.HiddenIf(s.Error)
		}
		return shown
	})
	if i := slices.IndexFunc(transfers, func(t store.Transfer) bool { return blamed(&t.Attempt) }); p.State == "down" && i >= 0 {
		p.WhyHref = c.attemptHref(&transfers[i].Attempt)
	}
	return nil
}

// attemptHref is the reference of an attempt of a step on the page of its execution. The attempt of
// an item of a loop begins the page, because many others come before it.
func (c *call) attemptHref(s *courier.StepExecution) string {
	q := url.Values{"tab": {"attempts"}, "step": {strconv.Itoa(s.Step)}}
	if len(s.Iteration) > 0 {
		q.Set("after", strconv.FormatInt(s.Seq-1, 10))
	}
	return c.link("executions", string(s.Execution)) + "?" + q.Encode()
}

// namedSteps finds the steps of versions of jobs that name the connection of a page.
type namedSteps struct {
	p       *connectionPage
	earlier map[jobVersion][]int
	unread  bool // there are more earlier versions than were read
}

type jobVersion struct {
	job     string
	version int
}

// of returns the indexes of the steps that name the connection. There are none if the version can't
// be read.
func (n *namedSteps) of(c *call, job string, version int) ([]int, error) {
	if u := n.p.jobs[job]; u.version == version {
		return u.steps, nil
	}
	v := jobVersion{job, version}
	if steps, known := n.earlier[v]; known {
		return steps, nil
	}
	if len(n.earlier) == maxEarlier {
		n.unread = true
		return nil, nil
	}
	was, err := c.h.e.Jobs().Get(c.ctx(), job, version)
	if err != nil && !errors.Is(err, courier.ErrNotFound) {
		return nil, err
	}
	n.earlier[v] = stepsNaming(&was, n.p.ID)
	return n.earlier[v], nil
}

// stepsNaming returns the indexes of the steps of a job that name a connection.
func stepsNaming(job *courier.Job, id string) (steps []int) {
	for i := range job.Steps {
		if connectionOf(&job.Steps[i]) == id {
			steps = append(steps, i)
		}
	}
	return steps
}

// blamed reports whether an attempt failed because of the partner.
func blamed(s *courier.StepExecution) bool {
	return s.State != courier.StepCompleted && attention.BlamesPartner(s.Reason)
}

// standingOf derives the state of a connection from its last transfers, the newest first. The
// newest transfer counts that has completed or has failed because of the partner. Any other
// failure, such as a missing file, says nothing about the connection.
func standingOf(transfers []store.Transfer) standing {
	s := standing{State: "unknown"}
	for i := range transfers {
		switch t := &transfers[i].Attempt; {
		case t.State == courier.StepCompleted:
			if s.State == "unknown" {
				s.State = "works"
			}
			s.Success = t.EndedAt
			return s
		case blamed(t):
			if s.State == "unknown" {
				s.State, s.Why = "down", t.Error
			}
			s.DownSince = t.EndedAt
		}
	}
	return s
}
