package dashboard

import (
	"errors"
	"strconv"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/outline"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

// An outlineTab is the outline of an execution.
type outlineTab struct {
	*outline.View
	Axis []navItem // by clock or by work
}

// outline reads the outline and draws the timeline, either by clock or by work. By work leaves out
// the time in which no step was executed.
func (c *call) outline(p *executionPage) error {
	o, err := c.h.e.Executions().Outline(c.ctx(), p.X.ID)
	if err != nil {
		return err
	}
	g, err := c.parsed(&o.Execution)
	if err != nil {
		return err
	}
	r := outlineRecords{c, &o.Execution, c.SeesValues(c.ctx(), o.Execution.Job)}
	for i := range o.Steps {
		if rec := o.Steps[i].Record; rec != nil && !r.sees {
			desk.HideStep(rec)
		}
	}
	loop, err := c.number("loop", -1, 0, 1<<20)
	if err != nil {
		return err
	}
	work := c.query.Get("axis") == "work"
	v, err := outline.New(&outline.Input{
		Execution: &o.Execution, Tree: g.Tree, Steps: o.Steps, Loop: loop, Item: c.query.Get("item"), ByWork: work, Now: p.now,
		Links: outline.Links{
			Attempts: func(step, loop int, item string) string {
				if item == "" {
					return c.with("tab", "attempts", "step", strconv.Itoa(step), "loop", "", "item", "", "axis", "")
				}
				return c.with("tab", "attempts", "step", strconv.Itoa(step), "loop", strconv.Itoa(loop), "item", item, "axis", "")
			},
			Item: func(loop int, item string) string {
				axis := ""
				if work {
					axis = "axis=work&"
				}
				return "?" + axis + "loop=" + strconv.Itoa(loop) + "&item=" + item
			},
			Present: c.with("loop", "", "item", ""),
		},
	}, r)
	if err != nil {
		return err
	}
	p.Outline = &outlineTab{v, []navItem{
		{Label: "By clock", Href: c.with("axis", ""), Current: !work},
		{Label: "By work", Href: c.with("axis", "work"), Current: work},
	}}
	return nil
}

// outlineRecords reads the records for the outline of an execution, in the form for the visitor.
type outlineRecords struct {
	c    *call
	x    *courier.Execution
	sees bool // values
}

func (r outlineRecords) Records(f store.StepFilter) ([]courier.StepExecution, error) {
	return r.c.records(f)
}

func (r outlineRecords) FailedItems() ([]courier.FailedItem, error) {
	list, err := r.c.h.e.Executions().FailedItems(r.c.ctx(), r.x.ID)
	for i := range list {
		if !r.sees {
			desk.HideItem(&list[i])
		}
	}
	return list, err
}

func (r outlineRecords) Values() (courier.Values, error) {
	if !r.sees {
		return nil, nil
	}
	values, err := r.c.h.e.Executions().Values(r.c.ctx(), r.x.ID)
	if errors.Is(err, courier.ErrInvalid) {
		return nil, nil
	}
	return values, err
}
