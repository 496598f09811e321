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
	path: "health", op: "getHealth", on: onAll, title: "Health", nav: "Health", key: "h", file: "health", data: (*call).health,
}}

// A healthPage is the page of how the engine that serves it stands, and its store.
type healthPage struct {
	Status   string // a badge
	Headline string
	Refused  []engine.RefusedWrite
	Stranded []strandedRow
	Failing  []courier.FailedMaintenance
	LowSpace *engine.LowSpace
	Dropped  int64
	Workers  int // that are present; -1 if the store does not keep them
	Store    []storeFact
	StoreCut int            // facts that are left out
	HasStore bool           // Options.Health is given
	Problem  *problem.Error // of the store
}

// A strandedRow is a group of executions that no worker can take.
type strandedRow struct {
	store.Stranded
	Text, Do string
	Href     string // of the oldest
}

// A storeFact is a value of what Options.Health has returned.
type storeFact struct{ Name, Text string }

// maxFacts is how many of them are shown.
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
	p.judge()
	return p, nil
}

// noStore notes that the store has not answered. A page of health is there in particular
// then.
func (p *healthPage) noStore(c *call, err error) {
	if err == nil || p.Problem != nil {
		return
	}
	if q := problem.Of(err); q.Incident != "" {
		p.Problem = q
		c.h.log.Error("the health of the store can't be read", "incident", q.Incident, "error", err)
	}
}

// judge says in a sentence how things stand.
func (p *healthPage) judge() {
	switch {
	case p.Problem != nil:
		p.Status, p.Headline = "error", "The store does not answer."
	case len(p.Refused) > 0:
		p.Status, p.Headline = "error", fmt.Sprintf("The store does not take the progress of %s.", format.Plural(len(p.Refused), "execution"))
	case len(p.Stranded) > 0:
		p.Status, p.Headline = "warning", "Executions wait that no worker can take."
	case len(p.Failing) > 0:
		p.Status, p.Headline = "warning", "The maintenance of "+format.Plural(len(p.Failing), "step type")+" fails."
	case p.LowSpace != nil:
		p.Status, p.Headline = "warning", "The disk of the workspaces has little space left: make room, or steps that write files will fail."
	case p.Workers == 0:
		p.Status, p.Headline = "warning", "No worker is present: nothing is executed until an engine is started on the store."
	default:
		p.Status, p.Headline = "ok", "The engine that serves this page has nothing to report."
	}
}

func (c *call) strandedRow(g store.Stranded) strandedRow {
	return strandedRow{Stranded: g, Href: c.link("executions", string(g.Oldest)), Text: advice.StrandedReason(&g), Do: advice.Stranded(&g).Do}
}

// storeFacts returns the values in what Options.Health has returned, each with the names
// that lead to it, and how many are left out.
func storeFacts(v any) (facts []storeFact, cut int, err error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, 0, fmt.Errorf("the health of the store is no JSON: %w", err)
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
