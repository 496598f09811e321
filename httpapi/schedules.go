package httpapi

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/ticks"
	"github.com/courierhq/courier/schedule"
)

// A CronRequest is the body of a request that explains a cron expression.
type CronRequest struct {
	Cron  string    `json:"cron"`
	Zone  string    `json:"zone,omitempty"`  // empty means UTC
	After time.Time `json:"after,omitzero"`  // from when on the times are; zero means now
	Count int       `json:"count,omitempty"` // how many times: 1 to 100, 5 if it is not given
	// Calendar is the name of the schedule's calendar, and OnClosed says what happens to the
	// ticks of closed days. Empty means that all days are open. A calendar needs the role
	// viewer.
	Calendar string            `json:"calendar,omitempty"`
	OnClosed schedule.OnClosed `json:"on_closed,omitempty"`
}

var schedules = &kept[schedule.Schedule, *schedule.Schedule]{
	Kept: desk.Schedules,
	list: func(c *call, after string, limit int) ([]schedule.Schedule, string, error) {
		return c.Schedules(c.ctx(), after, limit)
	},
}

var scheduleRoutes = slices.Concat(schedules.routes(), []route{
	schedules.turnRoute("enable", "Lets a disabled or paused schedule fire again, from the next tick on.",
		func(c *call, ctx context.Context, name string, by courier.By) (schedule.Schedule, error) {
			return c.h.e.Schedules().Enable(ctx, name, by)
		}),
	schedules.turnRoute("disable", "Keeps a schedule from firing until it is enabled.",
		func(c *call, ctx context.Context, name string, by courier.By) (schedule.Schedule, error) {
			return c.h.e.Schedules().Disable(ctx, name, by)
		}),
	{
		method: "GET", path: "v1/ticks", id: "listTicks", group: "schedules", on: onVisible,
		does: "Returns the instants at which enabled schedules fire. Their definitions of today count; there are at most 31 days and 5,000 instants.",
		query: []param{
			{name: "from", kind: "string", does: "The first instant, or day in UTC; now if it is not given."},
			{name: "to", kind: "string", does: "The instant, or day in UTC, before which the last one is; 7 days after from if it is not given."},
		},
		answers: map[int]any{http.StatusOK: ticks.TickList{}}, do: (*call).ticks,
	},
	{
		method: "POST", path: "v1/cron/explain", id: "explainCron", group: "schedules", on: onVisible,
		does: "Says what a cron expression means, and when it fires next.", body: CronRequest{},
		answers: map[int]any{http.StatusOK: schedule.CronExplanation{}}, do: (*call).explainCron,
	},
})

// maxTicksFor is for how long ticks are listed at most.
const maxTicksFor = 31 * 24 * time.Hour

func (c *call) ticks() error {
	from, err := c.instant("from", time.Now())
	if err != nil {
		return err
	}
	to, err := c.instant("to", from.Add(7*24*time.Hour))
	switch {
	case err != nil:
		return err
	case !to.After(from) || to.Sub(from) > maxTicksFor:
		return oneProblem(item{Parameter: "to", Message: "it must be after from, and at most 31 days after it"})
	}
	list, err := c.Ticks(c.ctx(), from, to)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, list)
}

// instant returns a parameter of the URL that is an instant or a day.
func (c *call) instant(name string, def time.Time) (time.Time, error) {
	if !c.query.Has(name) {
		return def.UTC(), nil
	}
	at, err := time.Parse(time.RFC3339, c.query.Get(name))
	if err != nil {
		at, err = time.Parse(time.DateOnly, c.query.Get(name))
	}
	if err != nil || at.Year() < 1970 || at.Year() > 2200 {
		return at, oneProblem(item{Parameter: name, Message: "it must be an instant such as 2026-11-20T08:00:00Z, or a day such as 2026-11-20, in the years 1970 to 2200; escape + as %2B"})
	}
	return at.UTC(), nil
}

func (c *call) explainCron() error {
	var b CronRequest
	if err := c.body(&b); err != nil {
		return err
	}
	var p problem
	if b.Cron == "" {
		p.add(item{Pointer: "/cron", Message: "it is missing"})
	}
	if b.Count < 0 || b.Count > 100 {
		p.add(item{Pointer: "/count", Message: "it must be from 1 to 100"})
	}
	if y := b.After.Year(); !b.After.IsZero() && (y < 1970 || y > 2200) {
		p.add(item{Pointer: "/after", Message: "it must be in the years 1970 to 2200"})
	}
	if err := p.invalid("the body"); err != nil {
		return err
	}
	explain := func() (schedule.CronExplanation, error) {
		return schedule.ExplainCron(b.Cron, b.Zone, b.After, b.Count)
	}
	if b.Calendar != "" || b.OnClosed != "" {
		if err := c.Need(c.ctx(), "", access.RightSee); err != nil {
			return err
		}
		explain = func() (schedule.CronExplanation, error) {
			return c.h.e.Schedules().ExplainOnOpenDays(c.ctx(), b.Cron, b.Zone, b.Calendar, b.OnClosed, b.After, b.Count)
		}
	}
	x, err := explain()
	if err != nil {
		return err
	}
	if x.Next == nil {
		x.Next = []time.Time{}
	}
	return c.answer(http.StatusOK, x)
}
