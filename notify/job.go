package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/store"
)

// eventParam is the job parameter that has the notification.
const eventParam = "event"

// startJob starts the job of a subscription, once for each event.
func (v *Service) startJob(ctx context.Context, to *JobTarget, n Notification) error {
	raw, err := jsontext.Append(nil, n)
	if err != nil {
		return courier.Permanent(err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var event map[string]any
	if err := dec.Decode(&event); err != nil {
		return courier.Permanent(err)
	}
	params := maps.Clone(to.Params)
	if params == nil {
		params = make(map[string]any, 1)
	}
	params[eventParam] = event
	trace, err := v.opt.Jobs.TraceOf(ctx, &n)
	if err != nil {
		return err
	}
	err = v.opt.Jobs.Start(ctx, to.Name, &courier.EnqueueOptions{
		Params: params, Trace: trace, Priority: to.Priority, IdempotencyKey: n.ID + " " + n.Subscription, By: courier.By{Actor: "subscription " + n.Subscription},
	})
	switch {
	case errors.Is(err, courier.ErrConflict):
		return nil // an earlier attempt started it, before the subscription changed
	case errors.Is(err, courier.ErrInvalid), errors.Is(err, courier.ErrNotFound):
		return courier.Permanent(err)
	}
	return err
}

// job checks the job that a subscription starts.
func (c *check) job(to *JobTarget) error {
	ofOthers := func(t courier.EventType) bool { return !t.OfExpectation() }
	if len(c.s.Jobs)+len(c.s.Chains) == 0 && slices.ContainsFunc(c.s.Events, ofOthers) {
		c.problem("jobs", "there are none: name the jobs or chains whose events start %q, or it would start itself", to.Name)
	}
	if _, given := to.Params[eventParam]; given {
		c.problem("job.params", "%q is the notification; choose another name", eventParam)
	}
	if to.Name == "" {
		c.problem("job.name", "is missing")
		return nil
	}
	known := len(c.found)
	if err := c.named("job.name", store.Job, to.Name); err != nil || len(c.found) > known {
		return err
	}
	given := maps.Clone(to.Params)
	if given == nil {
		given = make(map[string]any, 1)
	}
	given[eventParam] = map[string]any{}
	problems, err := c.v.opt.Jobs.CheckStart(c.ctx, to.Name, "", given)
	if err != nil {
		return err
	}
	for _, p := range problems {
		c.problem("job."+p.Field, "%s", p.Message)
	}
	return c.circle(to.Name)
}

// circle reports jobs that would start each other forever.
func (c *check) circle(target string) error {
	o, err := c.v.opt.Store()
	if err != nil {
		return err
	}
	starts := make(map[string][]string) // the key is the job whose events start the others
	for after := ""; ; {
		list, err := o.Subscriptions(c.ctx, Filter{After: after})
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		after = list[len(list)-1].Name
		for i := range list {
			var s Subscription
			if list[i].Name == c.s.Name || json.Unmarshal(list[i].Body, &s) != nil || s.Job == nil {
				continue
			}
			for _, from := range s.Jobs {
				starts[from] = append(starts[from], s.Job.Name)
			}
		}
	}
	for _, from := range c.s.Jobs {
		if path := pathTo(starts, target, from, make(map[string]bool)); path != nil {
			c.problem("job.name", "jobs would start each other for ever: %s", arrows(append([]string{from}, path...)))
			return nil
		}
	}
	return nil
}

// pathTo returns a path between two jobs; nil if there is none.
func pathTo(starts map[string][]string, from, to string, seen map[string]bool) []string {
	if from == to {
		return []string{to}
	}
	if seen[from] {
		return nil
	}
	seen[from] = true
	for _, next := range starts[from] {
		if path := pathTo(starts, next, to, seen); path != nil {
			return append([]string{from}, path...)
		}
	}
	return nil
}

func arrows(path []string) string {
	var b bytes.Buffer
	for i, name := range path {
		if i > 0 {
			b.WriteString(" -> ")
		}
		b.WriteString(name)
	}
	return b.String()
}
