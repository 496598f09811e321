package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/definitions"
	"github.com/courierhq/courier/schedule"
)

// A File is a text with definitions for [Check]: a JSON object that is one, or a
// list of such objects. What an object defines follows from its fields: a job has
// "steps", a chain "members", a subscription "kind", a monitor "path", and a
// schedule "cron", "every_seconds" or "at".
type File struct {
	Name string // for problems
	Data []byte
}

// ReadFiles reads the files whose paths match one of the patterns, as [fs.Glob]
// understands them, in the order of their names and each once. A pattern that
// matches nothing is an error.
func ReadFiles(fsys fs.FS, patterns ...string) ([]File, error) {
	sources, err := definitions.ReadFiles(fsys, patterns)
	return mapped(sources, func(s courier.Source) File { return File{s.File, s.Text} }), err
}

// A Bundle is what [Check] has read and found. The definitions are in the order of
// the files, and sound if Err returns nil.
type Bundle struct {
	Jobs          []courier.Job
	Chains        []courier.Chain
	Schedules     []schedule.Schedule
	Monitors      []courier.Monitor
	Subscriptions []courier.Subscription
	// Problems are what is wrong, and Warnings what looks doubtful, each with file,
	// line and column, in that order.
	Problems, Warnings []courier.Problem
}

// Err returns nil if there are no problems. Otherwise the error lists at most 100 of
// them, one a line, and matches [courier.ErrInvalid].
func (b Bundle) Err() error { return definitions.Bundle(b).Err() }

// Check reads definitions and checks them as a whole, without a store: whatever they
// name must be among them. It reports all mistakes at once, those of form together
// with those of content. Step types are those of r. Of opt, which may be nil, it uses
// Webhooks, Queues, Listers and Subscribers: if one of the last two is nil, Check does not
// check the directories of monitors, or the functions of subscriptions. A queue of a job
// that is nearly one of Queues, or "default", causes a warning. It connects to nothing,
// and checks neither the versions in a store nor whether receivers of webhooks may be
// reached.
func Check(files []File, r *courier.Registry, opt *Options) Bundle {
	var o Options
	if opt != nil {
		o = *opt
	}
	b, _ := o.checkFiles(context.Background(), files, definitions.Files{Catalog: definitions.NewUnsaved(nil, true)}, r) // no store can fail
	return b
}

// Check checks definitions as the function [Check] does, with the step types and
// options of the engine. It takes them as additions to the store, or as replacements
// of definitions with the same names: what they name must be among them or saved. A
// queue of a job that none of the present workers serves causes a warning; if there are
// none, a queue that is nearly one of Options.Queues, or "default".
// Nothing is saved. For a single definition use a [File] without a name: the result
// has all that is wrong, by line and column, while an error of json.Unmarshal has
// only mistakes of form, and one of Define has no places. The error is one of the
// store or of ctx; mistakes in the definitions are in the Bundle.
func (e *Engine) Check(ctx context.Context, files []File) (Bundle, error) {
	check := definitions.Files{Catalog: definitions.NewUnsaved(e.store, false)}
	check.Outbox, _ = e.roles.Outbox()   // without one there are no subscriptions
	check.Workers, _ = e.roles.Workers() // without them no queue is doubtful
	b, err := e.opt.checkFiles(ctx, files, check, e.reg)
	if err != nil {
		return Bundle{}, fmt.Errorf("check definitions: %w", err)
	}
	return b, nil
}

// checkFiles completes check and checks files. Its engine reads definitions from the
// catalog, looks up no names, and has of the options what checks use.
func (o *Options) checkFiles(ctx context.Context, files []File, check definitions.Files, r *courier.Registry) (Bundle, error) {
	e := New(check.Catalog, r, &Options{
		Listers: o.Listers, Subscribers: o.Subscribers, Queues: o.Queues,
		Webhooks: WebhookOptions{
			Networks: o.Webhooks.Networks, TrustedHosts: o.Webhooks.TrustedHosts, AllowPlain: o.Webhooks.AllowPlain,
			Lookup: func(context.Context, string) ([]netip.Addr, error) { return nil, errOffline },
		},
	})
	check.Definitions, check.CheckSchedule = e.definitions, e.schedules.Check
	check.CheckMonitor, check.CheckSubscription = e.monitors.Check, e.notifications.Check
	check.Listers, check.Subscribers, check.Queues = o.Listers != nil, o.Subscribers != nil, e.opt.Queues
	b, err := check.Check(ctx, mapped(files, func(f File) courier.Source { return courier.Source{File: f.Name, Text: f.Data} }))
	return Bundle(b), err
}

// errOffline is the error of looking up a name during a check.
var errOffline = errors.New("names are not looked up")
