package httpapi

import (
	"errors"
	"net/http"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/desk"
)

// A CheckResult is what is wrong with a definition, and what looks doubtful.
type CheckResult struct {
	OK       bool   `json:"ok"`
	Problems []item `json:"problems"`
	Warnings []item `json:"warnings"`
}

var checkRoutes = []route{
	checkRoute("job", courier.Job{}, func() courier.Definition { return new(courier.Job) }),
	checkRoute("chain", courier.Chain{}, func() courier.Definition { return new(courier.Chain) }),
	checkRoute("schedule", courier.Schedule{}, func() courier.Definition { return new(courier.Schedule) }),
	checkRoute("monitor", courier.Monitor{}, func() courier.Definition { return new(courier.Monitor) }),
	checkRoute("subscription", courier.Subscription{}, func() courier.Definition { return new(courier.Subscription) }),
}

func checkRoute(kind string, body any, none func() courier.Definition) route {
	return route{
		method: "POST", path: "v1/check/" + kind, id: "check" + kind, group: "check", role: desk.Editor, on: onBody,
		does: "Checks the definition of a " + kind + ", and saves nothing. What is wrong, also with the form of the text, is in the answer. It needs the role " +
			"for the jobs that the definition is about, or for all.",
		query: []param{{name: "job", kind: "string", does: "The job that the text is about, if that can't be read in it yet: then only its form is checked."}},
		body:  body, answers: map[int]any{http.StatusOK: CheckResult{}}, do: func(c *call) error { return c.check(kind, none()) },
	}
}

func (c *call) check(kind string, d courier.Definition) error {
	raw, err := c.rawBody()
	if err != nil {
		return err
	}
	src := &courier.Source{Text: raw}
	form := src.Read(d)
	found := desk.Checked{Problems: form}
	if err := c.mayChange(kind, d); err != nil {
		if len(form) == 0 || c.Need(c.ctx(), c.query.Get("job"), desk.Editor) != nil {
			return err
		}
	} else if found, err = c.CheckText(c.ctx(), kind, src); err != nil {
		return err
	} else if !found.One && len(form) > 0 {
		found.Problems = form // they say what a definition of the kind has
	}
	hidden, err := c.HiddenJobs(c.ctx(), d)
	if err != nil {
		return err
	}
	src.Locate(hidden)
	for _, h := range hidden {
		found.Problems = slices.DeleteFunc(found.Problems, func(p courier.Problem) bool { return p.Field == h.Field })
	}
	found.Problems = append(hidden, found.Problems...)
	return c.answer(http.StatusOK, CheckResult{
		OK: len(found.Problems) == 0, Problems: append([]item{}, itemsOf(found.Problems)...), Warnings: append([]item{}, itemsOf(found.Warnings)...),
	})
}

// mayChange returns the error if the visitor may not save a definition: it needs the role
// editor for all jobs that the definition is about. A job that is not there, and that the
// definition would start or tell of, is not told apart from one that the visitor must not
// know: the engine would suggest names of others.
func (c *call) mayChange(kind string, d courier.Definition) error {
	if c.Role(c.ctx(), "") >= desk.Editor {
		return nil
	}
	starts := kind != "job" && kind != "chain"
	for _, job := range desk.JobsOf(d) {
		if job == "" && starts {
			return &desk.AccessError{Text: "a " + kind + " that names no job, or a chain, needs the role editor for all jobs"}
		}
		if err := c.Need(c.ctx(), job, desk.Editor); err != nil {
			return err
		}
		if !starts {
			continue
		}
		if _, err := c.h.e.Jobs().Get(c.ctx(), job, 0); errors.Is(err, courier.ErrNotFound) {
			return desk.Unknown()
		} else if err != nil {
			return err
		}
	}
	return nil
}
