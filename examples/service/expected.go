package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/steps/file"
)

// A polled lister lists directories, and does not watch them between two polls.
type polled struct{ courier.Lister }

// incoming lets an engine watch the files that arrive in a directory, and lets the log report
// missing files.
func incoming(dir string, opt *engine.Options, log *slog.Logger) error {
	in := filepath.Join(dir, "incoming")
	if err := os.MkdirAll(in, 0o700); err != nil {
		return err
	}
	opt.Roots = append(opt.Roots, in)
	opt.Listers = map[string]courier.Lister{"file": polled{file.NewLister([]string{in}, nil)}}
	opt.Subscribers = map[string]func(context.Context, notify.Notification) error{
		"log": func(_ context.Context, n notify.Notification) error {
			log.Warn("an expected file", "event", string(n.Type), "expectation", n.Expectation, "text", n.Error)
			return nil
		},
	}
	return nil
}

// expect sets a calendar, the monitor of the directory, and two expectations of files: the rates on
// each business day, and the orders on each Monday.
func expect(ctx context.Context, e *engine.Engine, dir string) error {
	by := courier.By{Actor: "service"}
	_, err := e.Jobs().Define(ctx, courier.Job{
		Name: "import", Params: map[string]any{"files": nil},
		Steps: []courier.StepSpec{{ID: "take", Type: "demo.work", Config: map[string]any{"seconds": 0.1}}},
	}, nil)
	_, err2 := e.Calendars().Set(ctx, calendar.Calendar{
		Name: "bank", Zone: "Europe/Berlin", Weekend: []string{"saturday", "sunday"},
		Closed: []calendar.Closing{{Yearly: "01-01"}, {Yearly: "05-01", Title: "Labour Day"}, {Yearly: "12-25"}, {Yearly: "12-26"}},
	}, by)
	_, err3 := e.Monitors().Set(ctx, monitor.Monitor{Name: "incoming", Path: filepath.Join(dir, "incoming"), Patterns: []string{"*.csv"}, Every: 10 * time.Second, Job: "import"}, by)
	_, err4 := e.Subscriptions().Set(ctx, notify.Subscription{
		Name: "files", Kind: notify.KindFunc, Func: "log", Events: []courier.EventType{courier.EventFileMissing, courier.EventFileIncomplete, courier.EventFileLate},
	}, by)
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return err
	}
	window := expectation.Window{From: "06:00", Until: "09:00", Grace: "15m"}
	for _, x := range []expectation.Expectation{
		{Name: "rates", From: expectation.From{Monitor: "incoming"}, Pattern: "rates_{date:20060102}.csv", Window: window, Calendar: "bank", DueSoon: "30m"},
		{Name: "orders", From: expectation.From{Monitor: "incoming"}, Pattern: "orders*.csv", Window: window, Calendar: "bank", Cron: "0 0 0 ? * MON", Early: "12h"},
	} {
		if _, err := e.Expectations().Set(ctx, x, by); err != nil {
			return err
		}
	}
	return nil
}
