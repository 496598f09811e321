package dashboard

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/schedule"
)

var attentionPages = []page{{
	path: "", op: "getAttention", on: onVisible, title: "Attention", nav: "Attention", group: "Work", key: "a", file: "attention",
	data: (*call).attentionPage, live: []string{"life", "entries"}, watch: watchEvery(attentionEvery),
}}

// attentionEvery is how often an open page is read again, which takes up to sixteen statements. So
// an entry that another process has repaired is listed no longer than that.
const attentionEvery = 15 * time.Second

// An attentionPage lists the entries that need attention.
type attentionPage struct {
	Life    *lifeStrip // nil for visitors who may not see all jobs
	Entries []attentionEntry
	Known   []attentionEntry // entries that somebody has acknowledged, folded
	PutAway []attentionEntry // folded
	Missing []string
	Cut     []string
	// The schedule that fires next, for a page without entries.
	Tick     *schedule.Schedule
	TickHref string
}

type attentionEntry struct {
	attention.Entry
	At      target // the connection at which the failures of a group occurred
	First   []executionLink
	Show    string // reference of the list of the executions, or of the page of the subject
	ShowAs  string
	Buttons []button
	// Acknowledge is the reference of the page that hides the entry, or shows it again.
	Acknowledge string
	Back        string // why it is shown again
}

// maxGroup is the largest group of executions whose ids a button names, so that the button acts on
// no others. Up to maxLinked executions the button is a link. The button of a larger group has a
// filter, which may also select superseded executions.
const (
	maxGroup  = 200
	maxLinked = 20
)

type executionLink struct{ ID, Href, Job, JobHref string }

// A button leads to a form. It is a link, or a form with ids that are too long for an address.
type button struct {
	Label, Href, Action string
	IDs                 []courier.ExecutionID
}

func (c *call) attentionPage() (any, error) {
	a, err := c.attention()
	if err != nil {
		return nil, err
	}
	p := &attentionPage{Life: c.lifeStrip(&a), Missing: a.Missing, Cut: a.Cut, Tick: a.Next}
	for _, e := range a.Entries {
		list := &p.Entries
		switch {
		case e.Kind == attention.PutAway:
			list = &p.PutAway
		case e.Acknowledged != nil:
			list = &p.Known
		}
		v := c.entry(e)
		v.Acknowledge, v.Back = c.acknowledgeLink(&e, a.Acknowledges), cameBack(&e, a.At)
		*list = append(*list, v)
	}
	if p.Tick != nil && c.hasPage("schedules/{name}") {
		p.TickHref = c.link("schedules", p.Tick.Name)
	}
	return p, nil
}

// attention reads the entries that need attention. The open pages of all visitors who see
// everything share one reading for attentionEvery, so that they cost the store the same, however
// many there are. Opening a page always reads anew, and open pages then show nothing older.
func (c *call) attention() (glance, error) {
	if !c.SeesValues(c.ctx(), "") {
		return c.glance(c.ctx())
	}
	last := &c.h.attention
	if !c.isLive() {
		begun := time.Now()
		a, err := c.glance(c.ctx())
		if err == nil {
			last.keep(begun, a)
		}
		return a, err
	}
	last.mu.Lock()
	defer last.mu.Unlock()
	if last.read && time.Since(last.at) < attentionEvery {
		return last.glance, nil
	}
	begun := time.Now()
	a, err := c.glance(c.ctx())
	if err == nil {
		last.at, last.read, last.glance = begun, true, a
	}
	return a, err
}

// A lastAttention is the last reading. Nobody changes it.
type lastAttention struct {
	mu   sync.Mutex
	at   time.Time // when the reading began, or was forgotten
	read bool      // the reading is valid
	glance
}

// keep keeps a reading, unless it began before the kept one or before the last action.
func (l *lastAttention) keep(begun time.Time, a glance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !begun.Before(l.at) {
		l.at, l.read, l.glance = begun, true, a
	}
}

// forget is called at the end of an action, after which the kept reading may be wrong.
func (l *lastAttention) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at, l.read, l.glance = time.Now(), false, glance{}
}

// entry returns an entry with its references and its buttons.
func (c *call) entry(e attention.Entry) attentionEntry {
	v := attentionEntry{Entry: e}
	for _, id := range e.Executions[:min(len(e.Executions), 5)] {
		v.First = append(v.First, executionLink{ID: string(id), Href: c.link("executions", string(id))})
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
	operator := e.Of(func(job string) bool { return c.Can(c.ctx(), job, access.RightOperate) })
	resume := func(label, query string) {
		if operator {
			v.Buttons = append(v.Buttons, button{Label: label, Href: c.link("executions", string(e.Executions[0]), "resume") + "?" + query})
		}
	}
	edit := func(page string) {
		if c.Can(c.ctx(), e.Job, access.RightEdit) {
			v.Buttons = append(v.Buttons, button{Label: "Edit…", Href: c.link(page, e.Name) + "?tab=edit"})
		}
	}
	job := filter.Filter{Jobs: []string{e.Job}}.String()
	switch e.Kind {
	case attention.Lost:
		list("state:lost")
		if e.Call == "Engine.Resume" {
			resume("Resume elsewhere…", "elsewhere=1")
		}
	case attention.Stopping:
		list("state:pausing,cancelling", job)
	case attention.Failed:
		f := filter.Filter{States: []string{string(courier.Failed)}, Jobs: e.Jobs, Connection: e.Connection}
		if e.Job != "" {
			f.Jobs = []string{e.Job}
		}
		if e.Reason != "" {
			f.Reasons = []courier.Reason{e.Reason}
		}
		where := f.String()
		list(where)
		v.At = c.connectionTarget(e.Connection)
		if e.Version > 0 && e.Count == 1 {
			resume(fmt.Sprintf("Resume with version %d…", e.Version), fmt.Sprintf("version=%d", e.Version))
		}
		if operator {
			all := " all…"
			if one {
				all = "…"
			}
			v.Buttons = append(v.Buttons, c.bulkButton("Resume"+all, "resume", where, &e), c.bulkButton("Cancel"+all, "cancel", where, &e))
		}
	case attention.Overdue:
		list("state:created,queued,running,paused", job)
	case attention.Due, attention.Stranded:
		if len(v.First) > 0 {
			v.First[0].Job = e.Oldest
			if e.Oldest != "" && c.Can(c.ctx(), e.Oldest, access.RightSee) {
				v.First[0].JobHref = c.link("jobs", e.Oldest)
			}
		}
		list("state:queued", filter.Filter{Queue: e.Queue}.String())
	case attention.Kept:
		v.Show, v.ShowAs = c.link("kept-files"), "Show them"
	case attention.PutAway:
		switch {
		case e.State != "":
			list("state:"+string(e.State), job)
		case e.Thing == "subscription":
			thing("notifications", e.Name)
		default:
			thing(e.Thing+"s", e.Name)
		}
	case attention.Superseded:
		if operator {
			v.Buttons = append(v.Buttons, button{Label: "Cancel all…", Action: "cancel", IDs: e.Executions})
		}
	case attention.Schedule:
		thing("schedules", e.Name)
		edit("schedules")
	case attention.Calendar:
		thing("calendars", e.Name)
	case attention.MissingFile, attention.DueFile:
		thing("expectations", e.Name)
		if v.Show != "" && e.Kind == attention.MissingFile && operator {
			v.Buttons = append(v.Buttons, button{Label: "Excuse the day…", Href: v.Show + "?" + query("date", e.Date)})
		}
	case attention.Expectation:
		if e.Name != "" {
			thing("expectations", e.Name)
		} else {
			v.Show, v.ShowAs = c.link("expectations"), "Show them"
		}
	case attention.Monitor:
		thing("monitors", e.Name)
	case attention.Delivery, attention.Subscription:
		thing("notifications", e.Name)
		if e.Kind == attention.Subscription {
			edit("notifications")
		}
	case attention.Refusal:
		thing("health", e.Name)
	}
	return v
}

// bulkButton leads to the page of an action on all executions of a group. A filter selects them.
func (c *call) bulkButton(label, action, where string, e *attention.Entry) button {
	q := url.Values{"action": {action}}
	switch {
	case e.More || len(e.All) > maxGroup:
		q.Set("where", where)
	case len(e.All) > maxLinked:
		return button{Label: label, Action: action, IDs: e.All}
	default:
		for _, id := range e.All {
			q.Add("id", string(id))
		}
	}
	return button{Label: label, Href: c.link("bulk") + "?" + q.Encode()}
}

// hasPage reports whether there is a page with a path, and the visitor may see it.
func (c *call) hasPage(path string) bool {
	return slices.ContainsFunc(c.h.table, func(p page) bool { return p.path == path && (p.on != onAll || c.maySee(&p)) })
}
