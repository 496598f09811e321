package httpapi

import (
	"net/http"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
)

// A CheckResult has the mistakes and the warnings of a definition, and says what was not checked.
type CheckResult struct {
	OK         bool   `json:"ok"`
	Problems   []item `json:"problems"`
	Warnings   []item `json:"warnings"`
	NotChecked string `json:"not_checked,omitempty"` // a sentence
}

// notChecked says, by kind of definition, what the check leaves out.
var notChecked = map[string]string{
	"job":   "Connections and secrets are looked at by a dry run.",
	"chain": "Connections and secrets are looked at by a dry run.",
}

var checkRoutes = []route{
	checkRoute("job", courier.Job{}, func() courier.Definition { return new(courier.Job) }),
	checkRoute("chain", chain.Chain{}, func() courier.Definition { return new(chain.Chain) }),
	checkRoute("schedule", schedule.Schedule{}, func() courier.Definition { return new(schedule.Schedule) }),
	checkRoute("monitor", monitor.Monitor{}, func() courier.Definition { return new(monitor.Monitor) }),
	checkRoute("expectation", expectation.Expectation{}, func() courier.Definition { return new(expectation.Expectation) }),
	checkRoute("calendar", calendar.Calendar{}, func() courier.Definition { return new(calendar.Calendar) }),
	checkRoute("subscription", notify.Subscription{}, func() courier.Definition { return new(notify.Subscription) }),
}

func checkRoute(kind string, body any, none func() courier.Definition) route {
	return route{
		method: "POST", path: "v1/check/" + kind, id: "check" + kind, group: "check", on: onBody,
		does: "Checks a definition of kind " + kind + ", and saves nothing. What is wrong, also with the form of the text, is in the answer, and what was not checked. It needs the role " +
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
	if err := c.MayChange(c.ctx(), kind, d); err != nil {
		if len(form) == 0 || c.Need(c.ctx(), c.query.Get("job"), access.RightEdit) != nil {
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
		NotChecked: notChecked[kind],
	})
}
