package dashboard

import (
	"context"
	"time"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/store"
)

var acknowledgePages = []page{{
	path: "attention/{key}", op: "acknowledge", on: onSubject, title: "Acknowledge", file: "acknowledge",
	find: func(c *call) ([]string, error) {
		e, err := c.Trouble(c.ctx(), c.r.PathValue("key"))
		c.subject = &e
		return []string{e.Owner()}, err
	},
	data: (*call).acknowledgePage,
	actions: []action{
		{verb: "acknowledge", op: "acknowledge", noted: noteTrouble, do: func(ctx context.Context, c *call) (string, error) { return c.acknowledge(ctx, false) }},
		{verb: "snooze", op: "acknowledge", noted: noteTrouble, do: func(ctx context.Context, c *call) (string, error) { return c.acknowledge(ctx, true) }},
		{verb: "withdraw", op: "withdrawAcknowledgement", noted: noteTrouble, do: func(ctx context.Context, c *call) (string, error) {
			e := c.subject.(*attention.Entry)
			return c.root, c.h.e.Executions().Withdraw(ctx, e.Key, e.Title, c.by())
		}},
	},
}}

// An acknowledgePage is the page that hides an entry of the first page.
type acknowledgePage struct {
	Back  string // reference of the first page
	Entry *attention.Entry
	Times []spanChoice
}

// A spanChoice is a time for which an entry can be hidden.
type spanChoice struct {
	Value, Label string
	Chosen       bool
}

// acknowledgeTimes are the times to choose from, each as a Go duration and in words.
var acknowledgeTimes = []spanChoice{
	{"1h", "1 hour", false}, {"4h", "4 hours", false}, {"24h", "1 day", true}, {"72h", "3 days", false}, {"168h", "7 days", false}, {"720h", "30 days", false},
}

func (c *call) acknowledgePage() (any, error) {
	p := &acknowledgePage{Back: c.root, Entry: c.subject.(*attention.Entry)}
	for _, t := range acknowledgeTimes {
		if c.form.Has("for") {
			t.Chosen = t.Value == c.form.Get("for")
		}
		p.Times = append(p.Times, t)
	}
	return p, nil
}

// acknowledge hides the entry for the time in the form.
func (c *call) acknowledge(ctx context.Context, snoozed bool) (string, error) {
	e := c.subject.(*attention.Entry)
	d, err := time.ParseDuration(c.form.Get("for"))
	if err != nil {
		return "", problem.Invalid("Choose a duration.")
	}
	if c.reason() == "" {
		return "", problem.Invalid("Give a reason: others see it in place of the entry.")
	}
	a := store.Acknowledgement{Key: e.Key, Title: e.Title, Until: now().Add(d), Snoozed: snoozed}
	_, err = c.h.e.Executions().Acknowledge(ctx, a, c.by())
	return c.root, err
}

// noteTrouble completes the entry in the journal.
func noteTrouble(c *call, a *store.Action) {
	e := c.subject.(*attention.Entry)
	a.Kind, a.Name, a.Job = "attention", e.Title, e.Owner()
}

// acknowledgeLink is the reference of the page that hides an entry. It is empty if the visitor may
// not hide it, or if the store keeps no acknowledgements.
func (c *call) acknowledgeLink(e *attention.Entry, keeps bool) string {
	if !keeps || e.Key == "" || !c.Can(c.ctx(), e.Owner(), access.RightOperate) {
		return ""
	}
	return c.link("attention", e.Key)
}

// cameBack says why an entry is shown again.
func cameBack(e *attention.Entry, at time.Time) string {
	switch a := e.Returned; {
	case a == nil:
		return ""
	case !at.Before(a.Until):
		return "It is back because its time is up"
	default:
		return "It is back because something new was added"
	}
}
