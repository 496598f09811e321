package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
)

// automate saves a schedule that starts the job every 10 seconds, and a
// subscription to its end.
func automate(ctx context.Context, e *engine.Engine) error {
	_, err := e.Apply(ctx, engine.Bundle{
		Schedules: []schedule.Schedule{{
			Name: "invoices", Job: "invoices", Params: params(),
			Every:   10 * time.Second, // or Cron: "0 30 5 ? * MON-FRI", Zone: "Europe/Berlin"
			Overlap: schedule.OverlapSkip,
		}},
		Subscriptions: []notify.Subscription{{
			Name: "ends", Kind: notify.KindFunc, Func: "print",
			Events: []courier.EventType{courier.EventJobCompleted, courier.EventJobFailed},
		}},
	}, nil)
	return err
}

// subscribers are the functions that subscriptions of kind func name.
func subscribers(out io.Writer) map[string]func(context.Context, notify.Notification) error {
	return map[string]func(context.Context, notify.Notification) error{
		"print": func(_ context.Context, n notify.Notification) error {
			fmt.Fprintf(out, "notification: %s of %s %s\n", n.Type, n.Job, n.Error)
			return nil
		},
	}
}
