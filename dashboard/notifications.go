package dashboard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/form"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/notify"
)

var notificationPages = slices.Concat([]page{{
	path: "notifications", about: "subscription", op: "listDeliveries", on: onVisible, title: "Notifications", nav: "Notifications", group: "Rules", key: "n", file: "notifications",
	query: []string{"cursor"}, data: (*call).notifications, live: []string{"list"}, watch: watchEvery(15 * time.Second),
}}, subscriptions.pages())

var subscriptions = &kept[notify.Subscription, *notify.Subscription]{
	Kept: desk.Subscriptions, list: "notifications", first: `{"kind": "webhook", "events": ["JobFailed"]}`, query: []string{"cursor", "state"},
	plain: func(s notify.Subscription) notify.Subscription {
		s.Reason = ""
		return s
	},
	off:  func(s *notify.Subscription) *bool { return &s.Disabled },
	data: (*call).subscription,
	more: []action{
		{verb: "replay", op: "replaySubscription", check: (*call).mayReplay, do: replay},
		{verb: "replay-all", op: "replaySubscription", do: replay},
	},
	turns: []turn[notify.Subscription]{{"enable", turnSubscription(false)}, {"disable", turnSubscription(true)}},
	fields: []form.Field{
		{Name: "name", Label: "Name", Kind: form.Text, Once: true, Hint: "1 to 200 characters. It can't be changed later.", Group: "Sources"},
		{Name: "events", Label: "Events", Kind: form.List, Hint: "Such as JobFailed, JobCompleted, JobOverdue or ChainFailed. One per line."},
		{Name: "jobs", Label: "Jobs", Kind: form.List, Hint: "The names of the jobs, one per line. Without jobs and chains, the subscription is for all."},
		{Name: "chains", Label: "Chains", Kind: form.List},
		{Name: "expectations", Label: "Expectations", Kind: form.List, Hint: "For events of files. Empty means all expectations."},
		{Name: "window_seconds", Label: "At most one per, in seconds", Kind: form.Number, Hint: "For each event type of a job. The next notification stands for all in between. Empty means 30 minutes for e-mail, and no limit for the others."},
		{Name: "disabled", Label: "Disabled: no events are kept for it", Kind: form.Check},
		{Name: "kind", Label: "How", Kind: form.Choice, Options: []string{"webhook", "email", "job", "func"}, Group: "Receiver: fill in the fields of the kind"},
		{Name: "webhook.url", Label: "Webhook: address", Kind: form.Text, Hint: "https, or secret:NAME."},
		{Name: "webhook.secrets", Label: "Webhook: signing secrets", Kind: form.List, Hint: "secret:NAME, one per line."},
		{Name: "webhook.headers", Label: "Webhook: other headers", Kind: form.JSON, Hint: `A JSON object, such as {"Authorization": "secret:NAME"}.`},
		{Name: "email.to", Label: "E-mail: receivers", Kind: form.List},
		{Name: "email.subject", Label: "E-mail: prefix of the subject", Kind: form.Text},
		{Name: "job.name", Label: "Job: name", Kind: form.Text, Jobs: true, Hint: `It starts with the parameter "event".`},
		{Name: "job.params", Label: "Job: other parameters", Kind: form.JSON},
		{Name: "job.priority", Label: "Job: priority", Kind: form.Number},
		{Name: "func", Label: "Function: name", Kind: form.Text, Hint: "The name of the function in the engines."},
	},
}

// turnSubscription returns a turn that enables or disables a subscription.
func turnSubscription(disabled bool) func(context.Context, *call, string, courier.By) (notify.Subscription, error) {
	return func(ctx context.Context, c *call, name string, by courier.By) (notify.Subscription, error) {
		s, err := c.h.e.Subscriptions().Get(ctx, name)
		if err != nil {
			return s, err
		}
		if s.Disabled == disabled {
			return s, desk.ErrUnchanged
		}
		s.Disabled = disabled
		saved, err := c.h.e.Subscriptions().Set(ctx, s, by)
		return saved.Subscription, err
	}
}

// A notificationList is the page of notifications.
type notificationList struct {
	keptList[subscriptionRow]
	Failed []deliveryRow // the first ones of all subscriptions
	More   bool          // there are more failed notifications
}

// A subscriptionRow is a subscription in the form for the visitor.
type subscriptionRow struct {
	notify.Subscription
	Href, Status    string
	To              string
	Waiting, Failed string // the numbers of notifications
	HasFailed       bool
}

// A deliveryRow is a notification that has not been delivered.
type deliveryRow struct {
	notify.Delivery
	Href         string // of the execution or chain execution
	About        string
	Subscription target
}

// maxTallied is the number of notifications that are read to count them.
const maxTallied = 500

func (c *call) notifications() (any, error) {
	list, next, err := c.Subscriptions(c.ctx(), c.query.Get("cursor"), listPage)
	if err != nil {
		return nil, err
	}
	l := &notificationList{}
	if l.New, err = c.mayCreateAny(); err != nil || len(list) == 0 {
		return l, err
	}
	failed, more, err := c.Deliveries(c.ctx(), notify.DeliveryFilter{State: notify.Failed}, "", maxTallied)
	if err != nil {
		return nil, err
	}
	waiting, moreWait, err := c.Deliveries(c.ctx(), notify.DeliveryFilter{State: notify.Pending}, "", maxTallied)
	if err != nil {
		return nil, err
	}
	for i := range list {
		r := c.subscriptionRow(subscriptions.seen(c, list[i]))
		r.Failed, r.Waiting = tally(failed, more != "", r.Name), tally(waiting, moreWait != "", r.Name)
		r.HasFailed = r.Failed != "0" && r.Failed != ""
		l.Rows = append(l.Rows, r)
	}
	for i := range failed[:min(len(failed), listPage)] {
		l.Failed = append(l.Failed, c.deliveryRow(&failed[i]))
	}
	l.More = len(failed) > listPage
	l.First, l.Next = c.pages(next)
	return l, nil
}

// tally counts the notifications of a subscription in a list that is in the order of subscriptions.
// It is empty if the list ends before the subscription.
func tally(list []notify.Delivery, more bool, name string) string {
	n := 0
	for i := range list {
		if list[i].Subscription == name {
			n++
		}
	}
	if last := len(list) - 1; more && name >= list[last].Subscription {
		if n == 0 {
			return ""
		}
		return format.Count(n) + " or more"
	}
	return format.Count(n)
}

func (c *call) subscriptionRow(s notify.Subscription) subscriptionRow {
	r := subscriptionRow{Subscription: s, Href: c.link("notifications", s.Name), Status: "enabled"}
	if s.Disabled {
		r.Status = "disabled"
	}
	switch {
	case s.Webhook != nil:
		r.To = s.Webhook.URL
	case s.Email != nil:
		r.To = strings.Join(s.Email.To, ", ")
	case s.Job != nil:
		r.To = s.Job.Name
	default:
		r.To = s.Func
	}
	return r
}

func (c *call) deliveryRow(d *notify.Delivery) deliveryRow {
	r := deliveryRow{Delivery: *d, Subscription: target{"subscription", d.Subscription, c.link("notifications", d.Subscription)}, About: d.Job}
	switch {
	case d.Expectation != "":
		r.Href, r.About = c.link("expectations", d.Expectation), d.Expectation
	case d.Execution != "":
		r.Href = c.link("executions", string(d.Execution))
	case d.ChainExecution != "":
		r.Href, r.About = c.link("chain-executions", string(d.ChainExecution)), d.Chain
	}
	return r
}

// A subscriptionView is the first tab of the page of a subscription.
type subscriptionView struct {
	subscriptionRow
	Turns      []turnButton
	States     []navItem
	Deliveries []deliveryRow
	First      string
	Next       string
}

func (c *call) subscription(s *notify.Subscription) (any, error) {
	v := &subscriptionView{subscriptionRow: c.subscriptionRow(*s), Turns: turnsOf("disable", "Disable")}
	if s.Disabled {
		v.Turns = turnsOf("enable", "Enable")
	}
	state := notify.DeliveryState(c.query.Get("state"))
	if state != "" && state != notify.Failed && state != notify.Pending {
		return nil, problem.Invalid("The state in the address must be pending or failed.")
	}
	for _, f := range []struct {
		label string
		state notify.DeliveryState
	}{{"All", ""}, {"Failed", notify.Failed}, {"Waiting", notify.Pending}} {
		v.States = append(v.States, navItem{Label: f.label, Href: c.with("state", string(f.state), "cursor", ""), Current: f.state == state})
	}
	list, next, err := c.Deliveries(c.ctx(), notify.DeliveryFilter{Subscription: s.Name, State: state}, c.query.Get("cursor"), listPage)
	for i := range list {
		v.Deliveries = append(v.Deliveries, c.deliveryRow(&list[i]))
	}
	v.First, v.Next = c.pages(next)
	return v, err
}

// mayReplay returns the problems with a selection of notifications.
func (c *call) mayReplay() error {
	if n := len(c.form["event"]); n == 0 || n > 1000 {
		return problem.Invalid("Select 1 to 1,000 notifications, or deliver all again. %d are selected.", n)
	}
	return nil
}

// replay makes notifications due now: the selected ones, or all.
func replay(ctx context.Context, c *call) (string, error) {
	events := c.form["event"]
	if c.form.Get("do") == "replay-all" {
		events = nil
	}
	n, err := c.h.e.Subscriptions().Replay(ctx, c.r.PathValue("name"), events, c.by())
	if err == nil && n == 0 {
		err = desk.ErrUnchanged
	}
	return "", err
}

// Text describes a delivery in words.
func (d deliveryRow) Text() string {
	if d.Count > 1 {
		return fmt.Sprintf("%s, %d times", format.Event(d.Type), d.Count)
	}
	return format.Event(d.Type)
}
