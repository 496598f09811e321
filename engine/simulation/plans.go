package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/promise"
	"github.com/courierhq/courier/schedule"
)

// plans are the schedules and chains of a world.
type plans struct {
	mix       planMix
	defined   chan struct{} // closed when the jobs are
	schedules []*planned
	calendars *calendars // nil if schedules go by none
	serial    int        // of the last version of a chain

	chains map[courier.ChainExecutionID]int // their numbers, in the order of their creation
	asked  map[string]courier.ChainExecutionID
}

// A planned schedule is one that is set in a world.
type planned struct {
	name string
	def  schedule.Schedule
	// kept says that nobody changes it, and that all its ticks must fire.
	kept, set bool
}

// A planMix has the frequencies of events of schedules and chains. It is drawn separately from
// [mix], so that worlds without plans are the same as if there were no plans at all.
type planMix struct {
	schedules, chains, starts int
	requests, edits           float64       // per minute, of chain executions and of schedules
	holds, dups               float64       // of chain executions
	night                     time.Duration // in which no worker reaches the store
}

// newPlans returns the plans of a world; nil for three of four worlds.
func newPlans(r *rand.Rand) *plans {
	if r.IntN(4) > 0 {
		return nil
	}
	some := func(most float64) float64 { return most * r.Float64() * float64(r.IntN(2)) }
	p := &plans{
		mix: planMix{
			schedules: r.IntN(3), chains: r.IntN(3), starts: 1 + r.IntN(2),
			requests: some(60), edits: some(20), holds: some(0.5), dups: some(0.8),
		},
		defined: make(chan struct{}), chains: make(map[courier.ChainExecutionID]int), asked: make(map[string]courier.ChainExecutionID),
	}
	if p.mix.schedules+p.mix.chains == 0 {
		p.mix.schedules = 1
	}
	if p.mix.schedules > 0 && r.IntN(4) == 0 {
		p.mix.night = time.Minute + spread(r, time.Minute)
	}
	return p
}

// plan sets the schedules and starts the chains, and lets people disturb both.
func (w *world) plan(r *rand.Rand) {
	select {
	case <-w.plans.defined:
	case <-w.over:
		return
	}
	m := &w.plans.mix
	for i := range m.chains {
		w.defineChain(w.dice("chain", i), i)
	}
	for i := range m.schedules {
		w.spawn(func() { w.begin(w.dice("schedule", i), w.plans.schedules[i]) })
	}
	w.spawn(func() { w.meddle(w.dice("meddler")) })
	if w.plans.calendars != nil {
		w.spawn(func() { w.changeCalendar(w.dice("changes of calendars")) })
	}
	if m.night > 0 {
		w.spawn(func() {
			if w.wait(spread(w.dice("night"), w.mix.trouble/4)) {
				w.note("world", "night", int64(m.night))
				w.night.Store(int64(time.Since(w.start) + m.night))
			}
		})
	}
	for i := range m.starts * min(1, m.chains) {
		if !w.wait(spread(r, w.mix.trouble/time.Duration(3*m.starts)) + time.Millisecond) {
			return
		}
		opt := chain.StartOptions{
			By: courier.By{Actor: "client"}, IdempotencyKey: fmt.Sprint("key-", i), Hold: r.Float64() < m.holds,
			Params: map[string]any{"partner": []string{"a", "b"}[r.IntN(2)]},
		}
		name := fmt.Sprintf("chain-%d", r.IntN(m.chains))
		for n := range 1 + r.IntN(2) {
			if n == 0 || r.Float64() < m.dups {
				w.spawn(func() { w.insistChain(w.dice("insist chain", i, n), name, opt) })
			}
		}
	}
}

// tries calls the client's engine until it returns nil or what ends it.
func (w *world) tries(r *rand.Rand, f func(ctx context.Context, e *engine.Engine) error) error {
	err := errNetwork // the world may be over before the first try
	for range 30 {
		if !w.wait(spread(r, 2*time.Second) + time.Millisecond) {
			return err
		}
		err = w.through(w.client.process.Load(), f)
		_, wrong := errors.AsType[*schedule.Error](err)
		if err == nil || wrong || errors.Is(err, courier.ErrInvalid) || errors.Is(err, courier.ErrConflict) {
			return err
		}
	}
	return err
}

// insistChain repeats the start of a chain until it is acknowledged. All calls with the same key
// get the same chain execution.
func (w *world) insistChain(r *rand.Rand, name string, opt chain.StartOptions) {
	var c chain.Execution
	err := w.tries(r, func(ctx context.Context, e *engine.Engine) (err error) {
		c, err = e.Chains().Start(ctx, name, &opt)
		return err
	})
	if err != nil {
		return // the chain has a new version since, with other default params, or could not be saved
	}
	w.witness.AcknowledgedChain(c.ID)
	w.mu.Lock()
	defer w.mu.Unlock()
	key := name + " " + opt.IdempotencyKey
	if first := w.plans.asked[key]; first != "" && first != c.ID {
		w.strange = append(w.strange, fmt.Errorf("key %q is that of chain executions %s and %s", key, first, c.ID))
	}
	w.plans.asked[key] = c.ID
}

// meddle makes requests to chain executions, and edits schedules, until calm
// comes.
func (w *world) meddle(r *rand.Rand) {
	m := &w.plans.mix
	for n := 0; ; n++ {
		what, after := soonest(r, m.requests*float64(m.chains), m.edits*float64(m.schedules))
		timer := time.NewTimer(after)
		select {
		case <-w.calmed:
			timer.Stop()
			return
		case <-timer.C:
		}
		p := w.somebody(r)
		switch what {
		case 0:
			ids := w.witness.Chains()
			if len(ids) == 0 {
				continue
			}
			id, kind := ids[r.IntN(len(ids))], []courier.RequestKind{
				courier.RequestPause, courier.RequestPause, courier.RequestResume, courier.RequestResume, courier.RequestResume,
				courier.RequestRelease, courier.RequestRetry, courier.RequestRetry, courier.RequestCancel,
			}[r.IntN(9)]
			w.spawn(func() { w.requestChain(p, id, kind) })
		case 1:
			if s := w.plans.schedules[r.IntN(m.schedules)]; !s.kept {
				dice := w.dice("edit", n)
				w.spawn(func() { w.edit(dice, p, s.name) })
			}
		}
	}
}

// requestChain makes one request to a chain execution.
func (w *world) requestChain(p *process, id courier.ChainExecutionID, kind courier.RequestKind) {
	err := w.through(p, func(ctx context.Context, e *engine.Engine) error {
		switch kind {
		case courier.RequestPause:
			return errOf(e.Chains().Pause(ctx, id, courier.By{Actor: "operator"}))
		case courier.RequestResume:
			return errOf(e.Chains().Resume(ctx, id, courier.By{Actor: "operator"}))
		case courier.RequestCancel:
			return errOf(e.Chains().Cancel(ctx, id, courier.By{Actor: "operator"}))
		case courier.RequestRetry:
			return errOf(e.Chains().Retry(ctx, id, courier.By{Actor: "operator"}))
		}
		return errOf(e.Chains().Release(ctx, id, courier.By{Actor: "operator"}))
	})
	if err == nil {
		w.witness.ObeyedChain(id, kind)
	}
}

// settlePlans does the work of operators after calm has come. It returns the number of things
// that have not ended.
func (w *world) settlePlans(ctx context.Context, r *rand.Rand, retried map[courier.ChainExecutionID]bool) (left int, err error) {
	t, err := w.store.(schedule.Store).Schedules(ctx, schedule.Filter{})
	if err != nil {
		return 0, err
	}
	p := w.client.process.Load()
	for i := range t.List {
		if s := &t.List[i]; !s.Next.IsZero() {
			left++
			if w.endless(s) {
				w.through(p, func(ctx context.Context, e *engine.Engine) error {
					return e.Schedules().Remove(ctx, s.Name, courier.By{})
				})
			}
		}
	}
	for _, id := range w.witness.Chains() {
		c, err := w.store.(chain.Store).ChainExecution(ctx, id)
		if err != nil {
			return left, err
		}
		switch again := c.State == chain.Failed && !retried[id]; {
		case c.Request == courier.RequestPause:
			w.requestChain(p, id, courier.RequestResume)
		case c.State == chain.Pending:
			w.requestChain(p, id, courier.RequestRelease)
		case again && r.IntN(2) == 0:
			w.requestChain(p, id, courier.RequestRetry)
		case c.State.Ended():
			continue
		}
		retried[id] = retried[id] || c.State == chain.Failed
		left++
	}
	return left, nil
}

// checkPlans reports broken promises of schedules and chains.
func (w *world) checkPlans(ctx context.Context) error {
	errs := []error{w.witness.Unknown(ctx), w.checkTicks(ctx)}
	for _, id := range w.witness.Chains() {
		errs = append(errs, promise.CheckChain(ctx, w.store, id))
		if c, err := w.store.(chain.Store).ChainExecution(ctx, id); err == nil {
			w.counts["chain ended "+string(c.State)]++
			for i := range c.Members {
				w.counts["member "+string(c.Members[i].State)]++
			}
		}
	}
	return errors.Join(errs...)
}

// chainNumber returns the number of a chain execution, in the order of creation.
func (w *world) chainNumber(id courier.ChainExecutionID) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, ok := w.plans.chains[id]
	if !ok {
		n = len(w.plans.chains) + 1
		w.plans.chains[id] = n
	}
	return int64(n)
}

// planEffect records a write of schedules or chains.
func (w *world) planEffect(request, result any) {
	switch r := request.(type) {
	case []chain.NewExecution:
		for i, c := range result.([]chain.Started) {
			w.note(r[i].By, "start chain", w.chainNumber(c.Execution.ID))
		}
	case chain.Request:
		w.note(string(r.Kind), "ask chain", w.chainNumber(r.Chain))
	case schedule.Record:
		w.note(r.Name, "put")
	case string:
		w.note(r, "remove")
	case []schedule.Firing:
		for i, f := range result.([]schedule.Fired) {
			what := "fire"
			if !f.Done {
				what = "fire in vain"
			}
			w.note(r[i].Schedule, what, int64(len(f.Executions)), int64(len(f.Chains)), int64(len(r[i].Cancel)))
			for k := range f.Chains {
				w.note(r[i].By, "start chain", w.chainNumber(f.Chains[k].Execution.ID))
			}
		}
	}
}

// defineChain saves a new version of a chain, random members over the world's
// jobs.
func (w *world) defineChain(r *rand.Rand, i int) {
	w.mu.Lock()
	w.plans.serial++
	c := newChain(r, fmt.Sprintf("chain-%d", i), fmt.Sprintf("c%d", w.plans.serial), w.mix.jobs)
	w.mu.Unlock()
	err := w.tries(r, func(ctx context.Context, e *engine.Engine) error {
		_, err := e.Chains().Define(ctx, c, nil)
		return err
	})
	if err == nil {
		w.note("client", "define chain", int64(i))
	}
}

// newChain makes a version of a chain, with the serial in its params.
func newChain(r *rand.Rand, name, serial string, jobs int) chain.Chain {
	c := chain.Chain{Name: name, Params: map[string]any{"partner": "", "chain": serial}}
	for i := range 2 + r.IntN(5) {
		m := chain.Member{Name: fmt.Sprintf("m%d", i), Job: fmt.Sprintf("job-%d", r.IntN(jobs)), Priority: int16(r.IntN(3))}
		for range min(i, r.IntN(4)) {
			d := chain.Dependency{Member: fmt.Sprintf("m%d", r.IntN(i))}
			switch r.IntN(5) {
			case 0, 1:
				d.RunOnFailure = true
			case 2:
				d.RequiredStatus = courier.RequireAny
			}
			if !slices.ContainsFunc(m.DependsOn, func(o chain.Dependency) bool { return o.Member == d.Member }) {
				m.DependsOn = append(m.DependsOn, d)
			}
		}
		c.Members = append(c.Members, m)
	}
	return c
}
