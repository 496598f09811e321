package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/store"
)

// A run is an execution of the past.
type run struct {
	job, by string
	params  map[string]any
	labels  map[string]string
	as      string // what it shows; empty for nothing in particular
	after   time.Duration
}

// ended starts executions and waits until they have ended.
func (w *World) ended(ctx context.Context, runs ...run) error {
	for _, r := range runs {
		w.Store.Advance(r.after)
		x, err := w.Engine.Enqueue(ctx, r.job, &courier.EnqueueOptions{Params: r.params, Labels: r.labels, By: courier.By{Actor: r.by}})
		if err != nil {
			return fmt.Errorf("%s: %w", r.job, err)
		}
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		_, err = w.Engine.Executions().WaitFor(limited, x.ID, func(x *courier.Execution) bool { return x.State.Ended() })
		cancel()
		if err != nil {
			return fmt.Errorf("%s: the end: %w", r.job, err)
		}
		if r.as != "" {
			w.By[r.as] = x.ID
		}
	}
	return nil
}

// past runs the executions that have ended: successful days, failures, and loops of many items.
func (w *World) past(ctx context.Context, opt Options) error {
	items := make([]any, 10_000)
	if opt.Small {
		items = items[:100]
	}
	for i := range items {
		items[i] = 800_000 + i
	}
	acme := map[string]string{"partner": "acme", "origin": "schedule"}
	runs := []run{
		{job: "invoices", by: "schedule:statements", labels: acme},
		{job: "invoices", by: "schedule:statements", labels: acme, params: map[string]any{"files": []any{}}, as: "branch", after: time.Hour},
		{job: "nested", by: "ben", as: "nested", after: 2 * time.Hour},
		{job: "reconcile", by: "schedule:statements", params: map[string]any{"items": items}, as: "large", after: time.Hour},
		{job: "loops", by: "ann", params: map[string]any{"items": items[:len(items)/50]}, as: "loops"},
		{job: "archive", by: "ann", after: 5 * time.Hour},
		{job: "invoices", by: "schedule:statements", labels: acme, params: map[string]any{"day": "2026-11-21", "answer": "permission denied (3) on /out/invoices"}, after: 7 * time.Hour},
		{job: "invoices", by: "schedule:statements", labels: acme, params: map[string]any{"day": "2026-11-22", "answer": "permission denied (3) on /out/invoices"}, as: "failed"},
		{job: "reconcile", by: "schedule:statements", params: map[string]any{"items": items, "bad": 800_000 + len(items)*7/10}, as: "large failed", after: time.Hour},
		{job: "archive", by: "ann", params: map[string]any{"fail": endless}, as: "endless", after: time.Hour},
		{job: "invoices", by: "ben", labels: acme, params: map[string]any{"seconds": 0.08, "broken": "inv-0425.xml"}, as: "items", after: time.Hour},
		{job: "invoices", by: "schedule:statements", labels: acme, params: map[string]any{"seconds": 0.05, "partner": "globex"}, as: "completed", after: 2 * time.Hour},
	}
	for i := range 4 * len(globex) {
		r := run{job: globex[i%len(globex)], by: "schedule:globex", labels: map[string]string{"partner": "globex"}, after: 5 * time.Minute}
		if i >= 3*len(globex) {
			r.params, r.as = map[string]any{"answer": "530 login incorrect"}, "login refused"
		}
		runs = append(runs, r)
	}
	for i, name := range Hostile {
		r := run{job: name, by: name, params: map[string]any{"text": name}, labels: map[string]string{"partner": name}, after: time.Minute}
		if i == 0 || i == 2 {
			r.as = "hostile " + fmt.Sprint(i)
		}
		runs = append(runs, r)
	}
	for range 40 {
		runs = append(runs, run{job: "archive", by: "schedule:statements", after: 2 * time.Minute})
	}
	return w.ended(ctx, runs...)
}

// chains runs chains, one of which fails. One has two versions.
func (w *World) chains(ctx context.Context, _ Options) error {
	needs := func(list ...string) (d []chain.Dependency) {
		for _, name := range list {
			d = append(d, chain.Dependency{Member: name})
		}
		return d
	}
	daily := chain.Chain{
		Name: "daily", Description: "What is done for accounting on every working day.",
		Params: map[string]any{"day": courier.Param{Type: "date", Default: "2026-11-23", Doc: "The day."}, "fail": courier.Param{Type: "text", Doc: "What the archive fails with."}, "seconds": courier.Param{Type: "number", Default: 0.01, Doc: "How long a file takes."}},
		Members: []chain.Member{
			{Name: "acme", Job: "invoices", Params: map[string]any{"partner": "acme", "day": "context:params.day", "seconds": "context:params.seconds"}},
			{Name: "globex", Job: "invoices", Params: map[string]any{"partner": "globex", "day": "context:params.day"}},
			{Name: "match", Job: "nested", DependsOn: needs("acme", "globex")},
			{Name: "pack", Job: "archive", Params: map[string]any{"fail": "context:params.fail"}, DependsOn: needs("match")},
			{Name: "alarm", Job: "nested", DependsOn: []chain.Dependency{{Member: "pack", RunOnFailure: true}}},
			{Name: "close", Job: "nested", DependsOn: needs("pack", "acme")},
			{Name: "report", Job: "nested", DependsOn: []chain.Dependency{{Member: "close", RequiredStatus: "any"}, {Member: "alarm", RequiredStatus: "any"}}},
		},
	}
	odd := chain.Chain{Name: Hostile[0], Description: Hostile[1] + endless[:400], Members: []chain.Member{{Name: "one", Job: Hostile[0]}, {Name: "two", Job: Hostile[5], DependsOn: needs("one")}}}
	first := daily
	first.Members = daily.Members[:4]
	for _, c := range []chain.Chain{first, daily, odd} {
		if _, err := w.Engine.Chains().Define(ctx, c, &courier.DefineOptions{By: courier.By{Actor: "ben"}}); err != nil {
			return fmt.Errorf("chain %q: %w", c.Name, err)
		}
	}
	for _, fail := range []string{"", "no space left on device: /archive"} {
		w.Store.Advance(30 * time.Minute)
		params := map[string]any{}
		if fail != "" {
			params["fail"] = fail
		}
		x, err := w.Engine.Chains().Start(ctx, "daily", &chain.StartOptions{Params: params, By: courier.By{Actor: "scheduler"}})
		if err != nil {
			return fmt.Errorf("chain daily: %w", err)
		}
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		_, _ = w.Engine.Chains().Wait(limited, x.ID) // its error says that a member has failed
		cancel()
	}
	return nil
}

// present starts the executions that have not ended. The clock then shows the time of this machine.
func (w *World) present(ctx context.Context, opt Options) error {
	now, err := w.now(ctx)
	if err != nil {
		return err
	}
	w.Store.Advance(time.Since(now))
	by := courier.By{Actor: "ann"}
	if err := w.Engine.Limits().Set(ctx, "key:archive", 2, by); err != nil {
		return err
	}
	for _, r := range []struct {
		as, job string
		opt     courier.EnqueueOptions
	}{
		{"running", "backup", courier.EnqueueOptions{}},
		{"loop", "invoices", courier.EnqueueOptions{Params: map[string]any{"seconds": 600, "partner": "initech", "password": "acme/password"}}},
		{"limit", "archive", courier.EnqueueOptions{Params: map[string]any{"seconds": 900}}},
		{"queued", "archive", courier.EnqueueOptions{}},
		{"waiting", "settlement", courier.EnqueueOptions{}},
		{"night", "statements", courier.EnqueueOptions{}},
		{"due", "invoices", courier.EnqueueOptions{Delay: 5 * time.Hour}},
		{"held", "archive", courier.EnqueueOptions{Hold: true}},
		{"retrying", "knock", courier.EnqueueOptions{}},
		{"pausing", "invoices", courier.EnqueueOptions{Params: map[string]any{"seconds": 601}}},
		{"paused", "nested", courier.EnqueueOptions{Hold: true}},
	} {
		r.opt.By = by
		x, err := w.Engine.Enqueue(ctx, r.job, &r.opt)
		if err != nil {
			return fmt.Errorf("%s: %w", r.job, err)
		}
		w.By[r.as] = x.ID
		time.Sleep(2 * time.Millisecond)
	}
	if _, err := w.Engine.Chains().Start(ctx, "daily", &chain.StartOptions{Params: map[string]any{"seconds": 602}, By: by}); err != nil {
		return fmt.Errorf("chain daily: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for as, step := range map[string]string{"running": "copy", "loop": "check", "limit": "pack", "pausing": "check"} {
		if err := w.inStep(limited, w.By[as], step); err != nil {
			return fmt.Errorf("%s: %w", as, err)
		}
	}
	if _, err := w.Engine.Pause(ctx, w.By["pausing"], courier.By{Actor: "ben", Reason: "The partner has asked for it."}); err != nil {
		return err
	}
	return w.many(ctx, opt)
}

// inStep waits until an execution is in a step. Between two steps a pause holds at once.
func (w *World) inStep(ctx context.Context, id courier.ExecutionID, step string) error {
	for {
		x, err := w.Engine.Executions().Get(ctx, id)
		if err != nil || x.Current != nil && x.Current.ID == step {
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("step %s has not begun: %w", step, context.Cause(ctx))
		}
	}
}

// now is the instant of the store.
func (w *World) now(ctx context.Context) (time.Time, error) {
	x, err := w.Engine.Enqueue(ctx, "nested", &courier.EnqueueOptions{Hold: true})
	if err != nil {
		return time.Time{}, err
	}
	_, err = w.Engine.Cancel(ctx, x.ID, &courier.CancelOptions{By: courier.By{Actor: "ann", Reason: "It is not needed today."}})
	w.By["cancelled"] = x.ID
	return x.CreatedAt, err
}

// many enqueues more executions than anybody looks at, in a queue that no worker serves.
func (w *World) many(ctx context.Context, opt Options) error {
	n := 10_000
	if opt.Small {
		n = 200
	}
	list := make([]store.NewExecution, 0, 1000)
	for i := range n {
		x, err := w.Engine.Prepare(ctx, "statements", &courier.EnqueueOptions{By: courier.By{Actor: "import"}, Delay: time.Duration(i) * time.Millisecond})
		if err != nil {
			return err
		}
		if list = append(list, x); len(list) == cap(list) || i == n-1 {
			if _, err := w.Engine.EnqueueAll(ctx, list); err != nil {
				return err
			}
			list = list[:0]
		}
	}
	return nil
}
