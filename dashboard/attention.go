package dashboard

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/desk"
)

var attentionPages = []page{{
	path: "", role: desk.Client, on: onVisible, title: "Attention", nav: "Attention", key: "a", file: "attention",
	data: (*call).attentionPage, live: []string{"entries"}, watch: watchEvery(attentionEvery),
}}

// attentionEvery is how often an open page is read again. It takes ten statements.
const attentionEvery = 15 * time.Second

// An attentionPage lists what somebody has to look at.
type attentionPage struct {
	Entries []attentionEntry
	Missing []string
	Cut     []string
	// Of a page without entries:
	Failure  *executionRow // the last failure
	Tick     *courier.Schedule
	TickHref string
}

type attentionEntry struct {
	desk.Entry
	First   []executionLink
	Show    string // reference of the list of them, or of the page of the thing
	ShowAs  string
	Buttons []button
}

type executionLink struct{ ID, Href string }

// A button leads to a form. It is a link to one, or a form with ids that an address can't
// hold.
type button struct {
	Label, Href, Action string
	IDs                 []courier.ExecutionID
}

func (c *call) attentionPage() (any, error) {
	a, err := c.attention()
	if err != nil {
		return nil, err
	}
	p := &attentionPage{Missing: a.Missing, Cut: a.Cut}
	for _, e := range a.Entries {
		p.Entries = append(p.Entries, c.entry(e))
	}
	if len(p.Entries) == 0 {
		err = c.quiet(p)
	}
	return p, err
}

// attention reads what needs somebody. Open pages of those who see everything share what was
// read in the last attentionEvery, so that they cost the store the same, however many there
// are.
func (c *call) attention() (desk.Attention, error) {
	if !c.isLive() || c.Role(c.ctx(), "") < c.ValuesRole() {
		return c.Attention(c.ctx())
	}
	last := &c.h.attention
	last.mu.Lock()
	defer last.mu.Unlock()
	if time.Since(last.at) < attentionEvery {
		return last.Attention, nil
	}
	a, err := c.Attention(c.ctx())
	if err == nil {
		last.at, last.Attention = time.Now(), a
	}
	return a, err
}

// A lastAttention is what was read last, which nobody changes.
type lastAttention struct {
	mu sync.Mutex
	at time.Time
	desk.Attention
}

// entry returns an entry with the references to what it is about, and what can be done.
func (c *call) entry(e desk.Entry) attentionEntry {
	v := attentionEntry{Entry: e}
	for _, id := range e.Executions[:min(len(e.Executions), 5)] {
		v.First = append(v.First, executionLink{string(id), c.link("executions", string(id))})
	}
	one := len(e.Executions) == 1 && e.Count == 1 && !e.More
	list := func(where ...string) {
		if one {
			v.Show, v.ShowAs = v.First[0].Href, "Show it"
			return
		}
		v.Show, v.ShowAs = c.link("executions")+"?where="+url.QueryEscape(strings.Join(where, " ")), "Show them"
	}
	thing := func(page, name string) {
		if c.hasPage(page) {
			v.Show, v.ShowAs = c.link(page), "Show"
			if c.hasPage(page + "/{name}") {
				v.Show = c.link(page, name)
			}
		}
	}
	operator := c.Role(c.ctx(), e.Job) >= desk.Operator
	job := desk.Where{Jobs: []string{e.Job}}.String()
	switch e.Kind {
	case desk.Lost:
		list("state:lost")
	case desk.Stopping:
		list("state:pausing,cancelling", job)
	case desk.Failed:
		where := []string{"state:failed", job}
		if e.Reason != "" {
			where = append(where, "reason:"+string(e.Reason))
		}
		list(where...)
		if operator {
			all := " all…"
			if one {
				all = "…"
			}
			v.Buttons = append(v.Buttons, c.bulkButton("Resume"+all, "resume", where...), c.bulkButton("Cancel"+all, "cancel", where...))
		}
	case desk.Overdue:
		list("state:created,queued,running,paused", job)
	case desk.Due, desk.Stranded:
		list("state:queued", desk.Where{Queue: e.Queue}.String())
	case desk.Superseded:
		if operator {
			v.Buttons = append(v.Buttons, button{Label: "Give up all…", Action: "cancel", IDs: e.Executions})
		}
	case desk.Schedule:
		thing("schedules", e.Name)
	case desk.Monitor:
		thing("monitors", e.Name)
	case desk.Delivery, desk.Subscription:
		thing("notifications", e.Name)
	case desk.Refusal:
		thing("health", e.Name)
	}
	return v
}

// bulkButton leads to the page that does something with all executions of a filter.
func (c *call) bulkButton(label, action string, where ...string) button {
	q := url.Values{"action": {action}, "where": {strings.Join(where, " ")}}
	return button{Label: label, Href: c.link("bulk") + "?" + q.Encode()}
}

// hasPage reports whether there is a page with a path, and the visitor may know it.
func (c *call) hasPage(path string) bool {
	return slices.ContainsFunc(c.h.table, func(p page) bool { return p.path == path && (p.on != onAll || c.Role(c.ctx(), "") >= p.role) })
}

// quiet says, if nothing needs anybody, when something last failed, and what comes next.
func (c *call) quiet(p *attentionPage) error {
	list, err := c.Executions(c.ctx(), desk.Where{States: []string{"failed"}}, "", 1)
	if err != nil {
		return err
	}
	if len(list.Items) > 0 {
		row := c.row(&list.Items[0], now())
		p.Failure = &row
	}
	schedules, _, err := c.Schedules(c.ctx(), "", 200)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	} else if err != nil {
		return err
	}
	for i := range schedules {
		if s := &schedules[i]; !s.NextFire.IsZero() && !s.Disabled && !s.Paused && (p.Tick == nil || s.NextFire.Before(p.Tick.NextFire)) {
			p.Tick = s
		}
	}
	if p.Tick != nil && c.hasPage("schedules/{name}") {
		p.TickHref = c.link("schedules", p.Tick.Name)
	}
	return nil
}
