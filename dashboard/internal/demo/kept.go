package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
)

// A shelf is a server that has files in one directory, and refuses all others.
type shelf struct{}

var _ courier.Lister = shelf{}

func (shelf) Check(courier.Directory) error { return nil }
func (shelf) Least() time.Duration          { return time.Second }

func (shelf) List(_ context.Context, _ *courier.Context, t courier.Directory) (l courier.Listing, err error) {
	if t.Path != "/out/invoices" {
		return l, fmt.Errorf("connection %s: %s: no such directory", t.Connection, t.Path)
	}
	for i := range 12 {
		name := fmt.Sprintf("inv-%04d.xml", 423+i)
		l.Files = append(l.Files, courier.ListedFile{Name: name, Path: t.Path + "/" + name, Size: int64(48_213 + i), Modified: time.Now().Add(-time.Hour)})
	}
	l.Files = append(l.Files, courier.ListedFile{Name: Hostile[2], Path: t.Path + "/" + Hostile[2], Size: 7, Modified: time.Now().Add(-time.Hour)})
	l.Refused, l.Example = 1, `"..": a name can't be two dots`
	return l, nil
}

// kept sets calendars, schedules, monitors and subscriptions.
func (w *World) kept(ctx context.Context, _ Options) error {
	by := courier.By{Actor: "ann", Reason: "demo"}
	weekend := []string{"saturday", "sunday"}
	for _, c := range []calendar.Calendar{
		{Name: "works", Description: "The plant is closed over the turn of the year.", Zone: "Europe/Berlin", Weekend: []string{"sunday"}, Closed: []calendar.Closing{{Yearly: "12-31"}, {Yearly: "01-01"}}},
		{Name: "target2", Description: "Days on which the bank settles.", Zone: "Europe/Berlin", Weekend: weekend, Closed: []calendar.Closing{
			{Yearly: "01-01", Title: "New Year's Day"}, {Yearly: "05-01", Title: "Labour Day"}, {Yearly: "12-25", Title: "Christmas Day"}, {Yearly: "12-26", Title: "26 December"},
		}},
		{Name: Hostile[0], Description: endless[:300], Weekend: weekend, Closed: []calendar.Closing{{Yearly: "02-29", Title: Hostile[5]}}},
	} {
		if _, err := w.Engine.Calendars().Set(ctx, c, by); err != nil {
			return fmt.Errorf("calendar %q: %w", c.Name, err)
		}
	}
	for _, s := range []schedule.Schedule{
		{Name: "daily", Chain: "daily", Cron: "0 30 5 * * ?", Zone: "Europe/Berlin", Calendar: "target2", OnClosed: schedule.ClosedNext, Overlap: schedule.OverlapSkip},
		{Name: "invoices-acme", Job: "invoices", Every: 5 * time.Minute, Starts: time.Now().Add(time.Hour), Params: map[string]any{"partner": "acme"}},
		{Name: "night", Job: "statements", Cron: "0 30 2 * * ?", Zone: "Europe/Berlin", PauseAfter: 3},
		{Name: "tokyo", Job: "nested", Cron: "0 0 9 ? * TUE,THU", Zone: "Asia/Tokyo", Jitter: time.Minute},
		{Name: "once", Job: "nested", At: time.Now().Add(50 * time.Hour)},
		{Name: "stopped", Job: "archive", Cron: "0 0 * * * ?", Disabled: true},
		{Name: Hostile[0], Job: Hostile[0], Cron: "0 15 4 ? * WED", Zone: "America/New_York"},
		{Name: Hostile[5], Job: Hostile[5], Cron: "0 45 16 ? * FRI"},
	} {
		if _, err := w.Engine.Schedules().Set(ctx, s, by); err != nil {
			return fmt.Errorf("schedule %q: %w", s.Name, err)
		}
	}
	for _, m := range []monitor.Monitor{
		{Name: "invoices", Description: "New invoices of Acme.", Lister: "sftp", Connection: "acme-sftp", Path: "/out/invoices", Patterns: []string{"inv-*.xml"}, Every: time.Second, Stable: time.Second, Job: "nested", Batch: true},
		{Name: "returns", Lister: "sftp", Connection: "globex-ftps", Path: "/out/returns", Every: time.Second, MaxFailures: 2, Job: "nested"},
		{Name: Hostile[0], Description: endless[:300], Lister: "sftp", Connection: "ledger", Path: "/" + Hostile[5], Job: "nested", Disabled: true},
	} {
		if _, err := w.Engine.Monitors().Set(ctx, m, by); err != nil {
			return fmt.Errorf("monitor %q: %w", m.Name, err)
		}
	}
	if err := w.expected(ctx); err != nil {
		return err
	}
	all := []courier.EventType{courier.EventJobFailed, courier.EventJobCompleted, courier.EventJobPaused, courier.EventJobStarted}
	for _, s := range []notify.Subscription{
		{Name: "metrics", Kind: notify.KindFunc, Func: "count", Events: all},
		{Name: "partners", Kind: notify.KindFunc, Func: "count", Events: []courier.EventType{courier.EventFileMissing, courier.EventFileIncomplete, courier.EventFileLate}},
		{Name: "pager", Kind: notify.KindFunc, Func: "refuse", Events: all, Jobs: []string{"invoices", "nested"}},
		{Name: "accounting", Kind: notify.KindWebhook, Events: all[:1], Disabled: true, Webhook: &notify.WebhookTarget{URL: "https://1.1.1.1/courier", Secrets: []string{"secret:hook"}}},
		{Name: Hostile[0], Kind: notify.KindFunc, Func: "count", Events: all[:1], Jobs: []string{Hostile[5]}},
	} {
		if _, err := w.Engine.Subscriptions().Set(ctx, s, by); err != nil {
			return fmt.Errorf("subscription %q: %w", s.Name, err)
		}
	}
	if err := w.ended(ctx, run{job: "nested", by: "ben"}, run{job: "invoices", by: "ben", params: map[string]any{"answer": "no such directory: /out/invoices"}}); err != nil {
		return err
	}
	return w.polled(ctx)
}

// polled waits until the monitor of a missing directory has stopped.
func (w *World) polled(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		m, err := w.Engine.Monitors().Get(limited, "returns")
		if err != nil || m.State == monitor.Failed {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-limited.Done():
			return fmt.Errorf("the monitor %q is %s: %w", m.Name, m.State, context.Cause(limited))
		}
	}
}
