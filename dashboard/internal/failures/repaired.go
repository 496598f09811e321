package failures

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// failures returns the failures, in their order.
func (w *World) failures() []*Failure {
	runs := func(name, job, complaint string) *Failure {
		return &Failure{name, complaint, func(ctx context.Context) (bool, string) { return w.completed(ctx, name, job) }}
	}
	return []*Failure{
		runs("host-key", "orders-acme", "Sales has no orders of Acme since this morning. Acme says that they are there to be fetched."),
		runs("full-limit", "price-list", "The shop waits for its price list. It was asked for long ago, and usually it takes a second."),
		runs("queue", "labels", "The parcels have no labels today. Ben set that up anew yesterday, and says that it was started."),
		runs("lost-worker", "delivery-notes", "The delivery notes have not come out of the printer. The computer that stood beside it was carried to the scrapyard an hour ago; any other one can print as well."),
		runs("poison-file", "prices-hooli", "Hooli has sent five lists of prices, and purchasing got none. Those that are any good are needed today."),
		runs("stuck-step", "weighing", "The lorry has stood on the scale for ages, and the weight does not appear. The porter has switched the scale off and on, and says that it works."),
		runs("missing-secret", "statement-initech", "Accounting misses the statement of Initech."),
		runs("partner-down", "orders-globex", "Globex says that their orders are not confirmed. They sent them this morning."),
		{"dead-webhook", "Accounting used to be told of each failure, and hears nothing at all since they moved. They want to have what they missed, too.", w.hears},
		{"schedule-gap", "On one Sunday last spring the totals came to the bank an hour late. It must not happen again: the bank takes them from one to three o'clock at night, by the clock of Berlin.", w.fires},
	}
}

// completed reports whether a job has done its work and its stopped execution is settled: the
// execution has completed, or it was cancelled and a later one has completed.
func (w *World) completed(ctx context.Context, failure, job string) (bool, string) {
	x, err := w.Engine.Executions().Get(ctx, w.planted[failure])
	switch {
	case err != nil:
		return false, err.Error()
	case x.State == courier.Completed:
		return true, fmt.Sprintf("Execution %s of job %q has completed.", x.ID, job)
	case !x.State.Final():
		return false, fmt.Sprintf("Execution %s of job %q is %s.", x.ID, job, x.Status(time.Now()))
	}
	list, err := w.Engine.Executions().List(ctx, store.Filter{Job: job})
	if err != nil {
		return false, err.Error()
	}
	for i := range list {
		if list[i].ID > x.ID && list[i].State == courier.Completed {
			return true, fmt.Sprintf("Execution %s of job %q is %s, and %s has completed.", x.ID, job, x.State, list[i].ID)
		}
	}
	return false, fmt.Sprintf("Execution %s of job %q is %s, and no later one has completed.", x.ID, job, x.State)
}

// hears reports whether accounting is notified of failures, and has received the notifications that
// it missed.
func (w *World) hears(ctx context.Context) (bool, string) {
	s, err := w.Engine.Subscriptions().Get(ctx, "accounting")
	if err != nil {
		return false, err.Error()
	}
	if s.Disabled {
		return false, "The subscription is disabled: " + s.Reason
	}
	if s.Webhook == nil || s.Webhook.URL != w.partners.url+"/accounting/events" {
		return false, "The subscription does not have the address at which accounting listens."
	}
	list, err := w.Engine.Subscriptions().Deliveries(ctx, notify.DeliveryFilter{Subscription: s.Name})
	if err != nil {
		return false, err.Error()
	}
	heard := w.partners.heard.Load()
	return len(list) == 0 && heard > 0, fmt.Sprintf("Accounting has heard %d notifications, and %d have not been delivered.", heard, len(list))
}

// fires reports whether the closing has one tick on each day, at a time that exists.
func (w *World) fires(ctx context.Context) (bool, string) {
	s, err := w.Engine.Schedules().Get(ctx, "closing")
	if err != nil {
		return false, err.Error()
	}
	if s.Disabled || s.Paused || s.Cron == "" || s.Zone != "Europe/Berlin" || s.Job != "closing" {
		return false, "The schedule does not start the closing by the clock of Berlin."
	}
	x, err := schedule.ExplainCron(s.Cron, s.Zone, time.Time{}, 400)
	if err != nil {
		return false, err.Error()
	}
	if len(x.Notes) > 0 {
		return false, strings.Join(x.Notes, " ")
	}
	for i, at := range x.Next {
		if h := at.Hour(); h < 1 || h >= 3 {
			return false, fmt.Sprintf("It fires at %s.", at)
		}
		if i > 0 && at.YearDay() == x.Next[i-1].YearDay() {
			return false, fmt.Sprintf("It fires twice on %s.", at.Format(time.DateOnly))
		}
		if i > 0 && at.Sub(x.Next[i-1]) > 25*time.Hour {
			return false, fmt.Sprintf("It leaves out the day before %s.", at.Format(time.DateOnly))
		}
	}
	return true, x.Words + "."
}
