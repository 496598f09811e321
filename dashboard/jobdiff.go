package dashboard

import (
	"strconv"

	"github.com/courierhq/courier/dashboard/internal/diff"
	"github.com/courierhq/courier/dashboard/internal/format"
)

// A jobDiffPage compares two versions of a job.
type jobDiffPage struct {
	Back, Versions string
	Diff           *diff.View
	First          bool // the job has one version, and nothing to compare it with
}

func (c *call) jobDiff() (any, error) {
	name := c.r.PathValue("name")
	from, err := c.number("from", 0, 1, 1<<30)
	if err != nil {
		return nil, err
	}
	to, err := c.number("to", 0, 1, 1<<30)
	if err != nil {
		return nil, err
	}
	b, err := c.jobVersion(name, to)
	if err != nil {
		return nil, err
	}
	c.title = "Changes of " + format.Clip(80, name)
	p := &jobDiffPage{Back: c.link("jobs", name), Versions: c.link("jobs", name) + "?tab=versions"}
	if from == 0 {
		from = b.Version - 1
	}
	if p.First = from == 0; p.First {
		return p, nil
	}
	a, err := c.jobVersion(name, from)
	if err != nil {
		return nil, err
	}
	p.Diff, err = diff.Of(&a, &b, "version "+strconv.Itoa(a.Version), "version "+strconv.Itoa(b.Version))
	return p, err
}
