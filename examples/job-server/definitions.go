package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
)

// A Definition is a function that is executed as a job, with the rules for its jobs. The function
// runs in a separate process, the hooks run in a server.
type Definition struct {
	Key                string // at least two words, separated by dots
	Version            int    // from 1
	Params             map[string]any
	Timeout            time.Duration // of an attempt; 0 means an hour
	DefaultMaxAttempts int           // 0 means 3
	ConcurrencyLimit   int           // on all servers together; 0 means any number
	Run                func(*courier.Registry, string)
	OnStart            Hook
	OnSuccess          Hook
	OnFail             Hook
	OnEnd              Hook
}

// A Hook is a side effect of an event in the life of a job. It is called at least once.
type Hook = func(ctx context.Context, n notify.Notification) error

// definitions are the functions that this program can execute.
var definitions = []Definition{{
	Key: "transcode.video", Version: 1, ConcurrencyLimit: 10,
	Params: map[string]any{
		"url":     courier.Param{Type: "text", Required: true, Pattern: "https?://.+"},
		"seconds": courier.Param{Type: "number", Default: 5, Min: 0, Max: 3600},
	},
	Run: runs(transcode),
	OnEnd: func(_ context.Context, n notify.Notification) error {
		slog.Info("the video is done with", "jobId", n.Execution, "event", n.Type)
		return nil
	},
}}

// schedules start jobs by cron, in five fields.
var schedules = []Schedule{{
	Name: "trailer", Definition: "transcode.video@1", Cron: "30 2 * * 1-5", Zone: "Europe/Berlin", CatchUp: true,
	Params: map[string]any{"url": "https://example.com/trailer.mp4"},
}}

// transcode stands for real work. ctx ends when the process gets SIGTERM from its server.
func transcode(ctx context.Context, job *courier.Context, p struct {
	URL     string  `json:"url"`
	Seconds float64 `json:"seconds"`
}) error {
	job.Log().Info("transcoding", "url", p.URL)
	select {
	case <-time.After(time.Duration(p.Seconds * float64(time.Second))):
		return job.Emit("transcoded", map[string]any{"url": p.URL})
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// runs makes the Run of a definition from a function, which gets the parameters of its job.
func runs[P any](run func(context.Context, *courier.Context, P) error) func(*courier.Registry, string) {
	return func(reg *courier.Registry, key string) {
		courier.RegisterFunc(reg, key, func(ctx context.Context, job *courier.Context, p P) (struct{}, error) {
			return struct{}{}, run(ctx, job, p)
		}, nil)
	}
}

// name is the name of the job in Courier. Each version is a separate Courier job.
func (d *Definition) name() string { return jobName(d.Key, d.Version) }

func jobName(key string, version int) string { return fmt.Sprintf("%s@%d", key, version) }

// stepType is the key of the only step of the job.
func (d *Definition) stepType() string { return fmt.Sprintf("%s.v%d", d.Key, d.Version) }

// The delay before a retry is min(maxBackoff, base * 2^attempt + randomJitter), where attempt
// is the number of the attempt that has failed, from 1.
const (
	base       = time.Second
	maxBackoff = 5 * time.Minute
)

// job returns the job of a definition. Each attempt starts from the beginning.
func (d *Definition) job() courier.Job {
	attempts, timeout := cmp.Or(d.DefaultMaxAttempts, 3), cmp.Or(d.Timeout, time.Hour)
	config := make(map[string]any)
	params := map[string]any{} // a definition without parameters accepts none
	for name, p := range d.Params {
		params[name], config[name] = p, "context:params."+name
	}
	return courier.Job{
		Name: d.name(), Limit: d.ConcurrencyLimit, Params: params,
		FailurePolicy: courier.FailurePolicy{Type: courier.RetryJob, MaxRetries: new(attempts - 1), BackoffBase: new(2 * base), BackoffMax: new(maxBackoff), Jitter: courier.JitterAdded},
		Steps:         []courier.StepSpec{{ID: "run", Type: d.stepType(), Timeout: &timeout, Config: config}},
	}
}

// stepTypes registers the functions, in the server and in the process of each attempt.
func stepTypes() (*courier.Registry, error) {
	reg := new(courier.Registry)
	for i := range definitions {
		definitions[i].Run(reg, definitions[i].stepType())
	}
	return reg, nil
}

// hooks are the events of Courier for the hooks, in definitions and in webhooks.
var hooks = []struct {
	name   string
	of     func(*Definition) Hook
	events []courier.EventType
}{
	{"onStart", func(d *Definition) Hook { return d.OnStart }, []courier.EventType{courier.EventJobStarted}},
	{"onSuccess", func(d *Definition) Hook { return d.OnSuccess }, []courier.EventType{courier.EventJobCompleted}},
	{"onFail", func(d *Definition) Hook { return d.OnFail }, []courier.EventType{courier.EventJobFailed}},
	{"onEnd", func(d *Definition) Hook { return d.OnEnd }, []courier.EventType{courier.EventJobCompleted, courier.EventJobFailed, courier.EventJobCancelled}},
}

// subscribers are the hooks of all definitions, by the names of their subscriptions.
func subscribers() map[string]Hook {
	all := make(map[string]Hook)
	for i := range definitions {
		for _, h := range hooks {
			if f := h.of(&definitions[i]); f != nil {
				all[definitions[i].name()+" "+h.name] = f
			}
		}
	}
	return all
}

// A Schedule starts jobs of a definition periodically. Each tick starts one job, on any number of
// servers.
type Schedule struct {
	Name, Definition string // such as "transcode.video@1"
	Cron, Zone       string // minute, hour, day of month, month, day of week
	CatchUp          bool   // start the ticks that were missed while no server was running
	Disabled         bool
	Params           map[string]any
	Priority         int16
}

// define saves the definitions, hooks, webhooks and schedules. Those that are already there and
// unchanged stay as they are.
func define(ctx context.Context, e *engine.Engine, webhook string) error {
	var all []error
	failed := func(err error) { all = append(all, err) }
	for i := range definitions {
		d := &definitions[i]
		_, err := e.Jobs().Define(ctx, d.job(), nil)
		failed(err)
		for _, h := range hooks {
			if h.of(d) != nil {
				name := d.name() + " " + h.name
				_, err := e.Subscriptions().Set(ctx, notify.Subscription{Name: name, Kind: notify.KindFunc, Func: name, Jobs: []string{d.name()}, Events: h.events}, courier.By{})
				failed(err)
			}
		}
	}
	for _, h := range hooks {
		if webhook != "" {
			_, err := e.Subscriptions().Set(ctx, notify.Subscription{
				Name: "webhook " + h.name, Kind: notify.KindWebhook, Events: h.events,
				Webhook: &notify.WebhookTarget{URL: webhook, Secrets: []string{"secret:webhook"}, Headers: map[string]string{"X-Hook": h.name}},
			}, courier.By{})
			failed(err)
		}
	}
	for _, s := range schedules {
		q := schedule.Schedule{Name: s.Name, Job: s.Definition, Cron: "crontab " + s.Cron, Zone: s.Zone, Params: s.Params, Priority: s.Priority, Disabled: s.Disabled, Misfire: schedule.MisfireSkip}
		if s.CatchUp {
			q.Misfire, q.Window = schedule.MisfireAll, 31*24*time.Hour
		}
		_, err := e.Schedules().Set(ctx, q, courier.By{})
		failed(err)
	}
	return errors.Join(append(all, e.Limits().Set(ctx, "global", 0, courier.By{}))...)
}
