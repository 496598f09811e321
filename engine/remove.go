package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// Remove removes a job from all lists. It can't be enqueued until it is defined again, as its
// next version. Its versions and executions are kept, and a failed execution can be resumed in
// its version. If schedules, monitors, chains, subscriptions or other jobs use the job, or if it
// has executions that have not ended, nothing is removed, and the error matches
// [courier.ErrConflict] and names them. If a Remove and an Enqueue happen at the same time, the
// store refuses one of them. A definition that starts to use the job at the same moment reports
// that the job does not exist. If there is no such job, the error matches [courier.ErrNotFound]
// and suggests the nearest name. The journal gets an entry.
func (h Jobs) Remove(ctx context.Context, name string, by courier.By) error {
	return access(h).removeDefinition(ctx, store.Job, name, by)
}

// removeDefinition removes a job or a chain.
func (c access) removeDefinition(ctx context.Context, kind store.Kind, name string, by courier.By) error {
	fail := func(err error) error { return fmt.Errorf("remove %s %q: %w", kind, name, err) }
	if err := text.Check(text.By(by)); err != nil {
		return fail(err)
	}
	d, err := c.e.definitions.Load(ctx, kind, name, 0)
	if err != nil {
		return fail(err)
	}
	users, err := c.users(ctx, kind, name)
	if err == nil {
		err = inUse(kind, name, users)
	}
	if err != nil {
		return fail(err)
	}
	if _, err := c.e.roles.Catalog().Save(ctx, store.Definition{Kind: kind, Name: name, Body: json.RawMessage(store.Removal), By: by.Actor, Base: &d.Version}); err != nil {
		return fail(err)
	}
	a := store.Action{Kind: string(kind), Name: name, Verb: "removed", Was: d.Body}
	if kind == store.Job {
		a.Job = name
	}
	c.Changed(ctx, by, a)
	return nil
}

// inUse is the error of removing a job or a chain that others use; nil if none does.
func inUse(kind store.Kind, name string, users []string) error {
	return store.ErrInUse(kind, name, users, "change or remove them first")
}

// users returns what uses a job or a chain, each as a phrase such as `schedule "nightly"`.
func (c access) users(ctx context.Context, kind store.Kind, name string) (users []string, err error) {
	const page = 1000
	add := func(what, user string) { users = append(users, fmt.Sprintf("%s %q", what, user)) }
	for f := (schedule.Filter{Kind: kind, Target: name, Limit: page}); ; {
		list, err := c.e.schedules.List(ctx, f)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return nil, err
		}
		for i := range list {
			f.After = list[i].Name
			add("schedule", list[i].Name)
		}
		if len(list) < page {
			break
		}
	}
	for f := (monitor.Filter{Limit: page}); ; {
		list, err := c.e.monitors.List(ctx, f)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return nil, err
		}
		for i := range list {
			if f.After = list[i].Name; kind == store.Job && list[i].Job == name || kind == store.Chain && list[i].Chain == name {
				add("monitor", list[i].Name)
			}
		}
		if len(list) < page {
			break
		}
	}
	if kind == store.Chain {
		return users, nil
	}
	for f := (notify.Filter{Limit: page}); ; {
		list, err := c.e.notifications.List(ctx, f)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return nil, err
		}
		for i := range list {
			if f.After = list[i].Name; list[i].Job != nil && list[i].Job.Name == name {
				add("subscription", list[i].Name)
			}
		}
		if len(list) < page {
			break
		}
	}
	for _, of := range []store.Kind{store.Chain, store.Job} {
		for f := (store.DefinitionFilter{Kind: of, Limit: page}); ; {
			list, err := c.e.roles.Catalog().List(ctx, f)
			if err != nil {
				return nil, err
			}
			for i := range list {
				if f.After = list[i].Name; (of == store.Chain || list[i].Name != name) && slices.Contains(jobsIn(&list[i]), name) {
					add(string(of), list[i].Name)
				}
			}
			if len(list) < page {
				break
			}
		}
	}
	return users, nil
}

// jobsIn returns the jobs that a definition names: those on which a job depends, or the members
// of a chain.
func jobsIn(d *store.Definition) (jobs []string) {
	if d.Kind == store.Job {
		return store.Upstreams(d)
	}
	var c chain.Chain
	if json.Unmarshal(d.Body, &c) == nil {
		for _, m := range c.Members {
			jobs = append(jobs, m.Job)
		}
	}
	return jobs
}
