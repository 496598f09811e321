package dashboard

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard/internal/life"
	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/store"
)

// A glance has the data of the first page.
type glance struct {
	attention.List
	hours   []store.HourFigures // nil if the store keeps none
	workers []store.Worker      // nil if the store does not record them
	known   bool                // the visitor may see all jobs
}

// glance reads the data of the first page. Visitors who may see all jobs also get the figures and
// the workers, in two statements besides those of the entries that need attention, which have
// counted the running and waiting executions.
func (c *call) glance(ctx context.Context) (g glance, err error) {
	if g.List, err = c.Attention(ctx); err != nil || !c.Can(ctx, "", access.RightSee) {
		return g, err
	}
	g.known = true
	if g.hours, err = c.h.e.Executions().Figures(ctx, life.Hours); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return g, err
	}
	g.workers, err = c.h.e.Workers(ctx)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		err = nil
	case g.workers == nil:
		g.workers = []store.Worker{}
	}
	return g, err
}

// A lifeStrip shows the present activity, above the entries that need attention.
type lifeStrip struct {
	life.Strip
	Census   *store.Census  // nil if the store does not count
	Queued   int            // of all queues
	More     bool           // that many or more
	Next     []lifeNext     // the next ticks and windows
	Workers  []store.Worker // the first ones
	Others   int            // workers that are left out
	Slots    int            // of all workers
	AllHref  string         // the page of workers; empty if the visitor may not see it
	Recorded bool           // the store records workers
}

// A lifeNext is the next tick of a schedule, or the next window of an expectation.
type lifeNext struct {
	target
	What string // what happens then
	At   time.Time
}

// lifeWorkers is the number of workers that are named.
const lifeWorkers = 5

// lifeStrip returns the strip of a glance. It is nil for visitors who may not see all jobs.
func (c *call) lifeStrip(g *glance) *lifeStrip {
	if !g.known {
		return nil
	}
	l := &lifeStrip{Strip: life.StripOf(g.At, g.hours), Census: g.Census, Recorded: g.workers != nil}
	if g.Census != nil {
		for _, q := range g.Census.Queues {
			l.Queued += q.Queued
			l.More = l.More || q.Queued >= g.Census.QueueCountLimit
		}
	}
	next := func(kind, name, what string, at time.Time) {
		t := target{Kind: kind, Name: name}
		if c.hasPage(kind + "s/{name}") {
			t.Href = c.link(kind+"s", name)
		}
		l.Next = append(l.Next, lifeNext{t, what, at})
	}
	for _, t := range g.Ticks {
		next("schedule", t.Schedule, "fires", t.At)
	}
	for _, w := range g.Windows {
		what := "opens"
		if w.Due {
			what = "is due"
		}
		next("expectation", w.Expectation, what, w.At)
	}
	slices.SortStableFunc(l.Next, func(x, y lifeNext) int { return x.At.Compare(y.At) })
	for i := range g.workers {
		l.Slots += g.workers[i].Slots
	}
	l.Workers = g.workers[:min(len(g.workers), lifeWorkers)]
	l.Others = len(g.workers) - len(l.Workers)
	if c.hasPage("limits") {
		l.AllHref = c.link("limits")
	}
	return l
}

// runs returns the last executions of a job.
func (c *call) runs(job string) (life.Runs, error) {
	list, err := c.h.e.Executions().List(c.ctx(), store.Filter{Job: job, Limit: life.MaxRuns})
	if err != nil {
		return life.Runs{}, err
	}
	return life.RunsOf(list, now(), c.runHref), nil
}

// runHref is the reference of an execution.
func (c *call) runHref(id courier.ExecutionID) string { return c.link("executions", string(id)) }
