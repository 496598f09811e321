package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/store"
)

var healthPages = []page{{
	path: "health", op: "getHealth", on: onAll, title: "Health", nav: "Health", group: "Administration", key: "h", file: "health", data: (*call).health,
}}

// A healthPage is the page with the state of the engine that serves it, and of its store.
type healthPage struct {
	Status   string // a badge
	Headline string
	Checks   []healthCheck
	Refused  []engine.RefusedWrite
	Stranded []strandedRow
	Failing  []courier.FailedMaintenance
	LowSpace *engine.LowSpace
	Dropped  int64
	Workers  int // present workers; -1 if the store does not record them
	Store    []storeFact
	StoreCut int            // facts that are left out
	HasStore bool           // Options.Health is given
	Problem  *problem.Error // of the store
}

// A strandedRow is a group of executions that no worker can claim.
type strandedRow struct {
	store.Stranded
	Text, Do string
	Href     string // of the oldest
}

// A storeFact is a value in the result of Options.Health.
type storeFact struct{ Name, Text string }

// maxFacts is the number of facts that are shown.
const maxFacts = 200

func (c *call) health() (any, error) {
	h := c.h.e.Health()
	p := &healthPage{Refused: slices.Clone(h.Refused), Failing: h.Maintenance, LowSpace: h.LowSpace, Dropped: c.h.e.Metrics().Dropped(), Workers: -1, HasStore: c.h.opt.Health != nil}
	for i := range p.Refused {
		if r := &p.Refused[i]; !c.SeesValues(c.ctx(), r.Job) {
			desk.HideRefused(r)
		}
	}
	for i := range h.Maintenance {
		if !c.SeesValues(c.ctx(), "") {
			desk.HideMaintenance(&h.Maintenance[i])
		}
	}
	for _, g := range h.Stranded {
		p.Stranded = append(p.Stranded, c.strandedRow(g))
	}
	if list, err := c.h.e.Workers(c.ctx()); err == nil {
		p.Workers = len(list)
	} else {
		p.noStore(c, err)
	}
	if p.HasStore {
		v, err := c.h.opt.Health(c.ctx())
		if err == nil {
			p.Store, p.StoreCut, err = storeFacts(v)
		}
		p.noStore(c, err)
	}
	p.judge(c)
	return p, nil
}

// noStore records that the store has not answered. The page is still shown, because that is when it
// is needed most.
func (p *healthPage) noStore(c *call, err error) {
	if err == nil || p.Problem != nil {
		return
	}
	if q := problem.Of(err); q.Incident != "" {
		p.Problem = q
		c.h.log.Error("the health of the store can't be read", "incident", q.Incident, "error", err)
	}
}

// A healthCheck is the result of one check, with what to do if it is not good.
type healthCheck struct {
	Name     string
	Status   string // "ok", "warning", "error", or "unknown"
	Text, Do string
	Href     string // of the page with details; empty for none
}

// judge sets the result of each check, and a sentence about all of them. The sentence is about the
// worst result, or the first of several that are equally bad.
func (p *healthPage) judge(c *call) {
	waiting := 0
	for i := range p.Stranded {
		waiting += p.Stranded[i].Count
	}
	present, limits := format.Plural(max(p.Workers, 0), "worker")+" active.", ""
	if p.Workers < 0 {
		present = "The store does not record workers."
	}
	if c.hasPage("limits") {
		limits = c.link("limits")
	}
	p.Status, p.Headline = "ok", "All is well. The engine that serves this page has nothing to report."
	for _, k := range []struct {
		name, well       string
		unknown, ill     bool // unknown: the result is unknown, and well says why
		status, text, do string
		href             string
	}{
		{name: "Store", well: "It answers.", ill: p.Problem != nil, status: "error", text: "The store does not answer.",
			do: "Check that the database is running and reachable. The log of this service has the reason under the incident above."},
		{name: "Progress of executions", well: "The store accepts the progress of this engine's executions.", ill: len(p.Refused) > 0, status: "error",
			text: "The store refuses the progress of " + format.Plural(len(p.Refused), "execution") + ".", do: "The engine keeps trying. Fix the cause that the message below names."},
		{name: "Waiting executions", well: "A worker can take every execution that is due.", ill: waiting > 0, status: "warning",
			text: "No worker can take " + format.Plural(waiting, "waiting execution") + ".", do: "The groups below say what is missing and what to do.", href: limits},
		{name: "Maintenance", well: "It works.", ill: len(p.Failing) > 0, status: "warning", text: "The maintenance of " + format.Plural(len(p.Failing), "step type") + " fails.",
			do: "Engines retry it in every period. Fix the cause that the message below names."},
		{name: "Disk of the workspaces", well: "It has enough space.", ill: p.LowSpace != nil, status: "warning", text: "The disk of the workspaces has little space left.",
			do: "Make room, or steps that write files will fail. Executions that have ended may keep files that nobody needs."},
		{name: "Workers", well: present, unknown: p.Workers < 0, ill: p.Workers == 0, status: "warning", text: "No worker is active: nothing runs until an engine is started on the store.",
			do: "Start an engine on the store.", href: limits},
		{name: "Observers of events", well: "They have kept up.", ill: p.Dropped > 0, status: "warning", text: "Observers of this engine are too slow and have missed " + format.Plural(p.Dropped, "event") + ".",
			do: "Move slow work out of the observers. The journal, the audit and notifications have all events."},
	} {
		row := healthCheck{Name: k.name, Status: "ok", Text: k.well, Href: k.href}
		switch {
		case k.unknown:
			row.Status = "unknown"
		case k.ill:
			row.Status, row.Text, row.Do = k.status, k.text, k.do
			if p.Status == "ok" || p.Status == "warning" && k.status == "error" {
				p.Status, p.Headline = k.status, k.text
			}
		}
		p.Checks = append(p.Checks, row)
	}
}

func (c *call) strandedRow(g store.Stranded) strandedRow {
	return strandedRow{Stranded: g, Href: c.link("executions", string(g.Oldest)), Text: advice.StrandedReason(&g), Do: advice.Stranded(&g).Do}
}

// storeFacts returns the values in the result of Options.Health, with the names that lead to each,
// and the number of values that are left out.
func storeFacts(v any) (facts []storeFact, cut int, err error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, 0, fmt.Errorf("the health of the store is not JSON: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, 0, err
	}
	var add func(name string, v any)
	add = func(name string, v any) {
		under := func(part string, v any) {
			if name != "" {
				part = name + " · " + part
			}
			add(part, v)
		}
		switch v := v.(type) {
		case map[string]any:
			for _, part := range slices.Sorted(maps.Keys(v)) {
				under(part, v[part])
			}
		case []any:
			for i, item := range v {
				under(strconv.Itoa(i+1), item)
			}
		case nil:
		default:
			if len(facts) == maxFacts {
				cut++
				return
			}
			facts = append(facts, storeFact{name, jsontext.Text(v)})
		}
	}
	add("", value)
	return facts, cut, nil
}
