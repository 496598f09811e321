package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/promise"
	"github.com/courierhq/courier/store"
)

// populate starts all actors.
func (w *world) populate() {
	w.client = &worker{w: w, name: "client"}
	w.client.start() // it is never started as a worker
	for i := range w.mix.workers {
		k := &worker{w: w, name: fmt.Sprintf("w%d", i+1), dice: w.dice("worker", i)}
		k.start() // requests may go through it before it works
		w.workers = append(w.workers, k)
		w.alive.Go(k.live)
	}
	w.spawn(func() { w.enqueue(w.dice("client")) })
	w.spawn(func() { w.operate(w.dice("operator")) })
	w.spawn(func() { w.breakDown(w.dice("outages")) })
	if w.plans != nil {
		w.spawn(func() { w.plan(w.dice("planner")) })
	}
	if w.expected != nil {
		w.expected.expect()
	}
}

// A caller's patience with one call.
const patience = 40 * time.Second

// through calls an engine as somebody does who gives up after a while.
func (w *world) through(p *process, f func(ctx context.Context, e *engine.Engine) error) error {
	ctx, cancel := context.WithTimeout(p.context(), patience)
	defer cancel()
	return f(ctx, p.engine)
}

// define saves a new version of a job.
func (w *world) define(r *rand.Rand, name string) {
	w.mu.Lock()
	serial := fmt.Sprintf("p%d", len(w.programs)+1)
	p := newProgram(r, w.rescues(serial), name, serial)
	if w.finally {
		p.addFinally(w.dice("finally", serial))
	}
	w.programs[serial] = p
	w.mu.Unlock()
	for try := 0; try < 20; try++ {
		err := w.through(w.client.process.Load(), func(ctx context.Context, e *engine.Engine) error {
			_, err := e.Jobs().Define(ctx, p.job, nil)
			return err
		})
		if _, wrong := errors.AsType[*courier.DefinitionError](err); wrong {
			w.wrong("%v", err)
		}
		if err == nil || !w.wait(spread(r, time.Second)) {
			return
		}
	}
}

// enqueue creates executions, and repeats each call until it is acknowledged.
func (w *world) enqueue(r *rand.Rand) {
	for i := range w.mix.jobs {
		w.define(w.dice("program", i), fmt.Sprintf("job-%d", i))
	}
	if w.plans != nil {
		close(w.plans.defined)
	}
	for i := range w.mix.executions {
		if !w.wait(spread(r, w.mix.trouble/time.Duration(2*w.mix.executions)) + time.Millisecond) {
			return
		}
		opt := courier.EnqueueOptions{
			By: courier.By{Actor: "client"}, IdempotencyKey: fmt.Sprint("key-", i), Priority: int16(r.IntN(3)),
			Params: map[string]any{"partner": []string{"a", "b"}[r.IntN(2)]},
			Hold:   r.Float64() < w.mix.holds,
		}
		if r.Float64() < w.mix.delays {
			opt.Delay = spread(r, 20*time.Second)
		}
		if r.Float64() < w.mix.timeouts {
			timeout := spread(r, time.Minute) + time.Second
			opt.Timeout = &timeout
		}
		job := fmt.Sprintf("job-%d", r.IntN(w.mix.jobs))
		for n := range 1 + r.IntN(3) {
			if n == 0 || r.Float64() < w.mix.dups {
				w.spawn(func() { w.insist(w.dice("insist", i, n), job, opt) })
			}
		}
	}
}

// insist repeats an enqueue until it is acknowledged. All calls with the same key get the same
// execution.
func (w *world) insist(r *rand.Rand, job string, opt courier.EnqueueOptions) {
	for try := 0; try < 50; try++ {
		if !w.wait(spread(r, 2*time.Second) + time.Millisecond) {
			return
		}
		var x courier.Execution
		err := w.through(w.client.process.Load(), func(ctx context.Context, e *engine.Engine) (err error) {
			x, err = e.Enqueue(ctx, job, &opt)
			return err
		})
		switch {
		case errors.Is(err, courier.ErrConflict):
			// The job has a new version since, with other default params.
			return
		case err != nil:
			continue
		}
		w.acknowledge(opt.IdempotencyKey, &x)
		return
	}
}

// acknowledge records that a client knows the execution of a key.
func (w *world) acknowledge(key string, x *courier.Execution) {
	w.witness.Acknowledged(x.ID)
	w.mu.Lock()
	defer w.mu.Unlock()
	if first := w.asked[key]; first != "" && first != x.ID {
		w.strange = append(w.strange, fmt.Errorf("key %q is that of executions %s and %s", key, first, x.ID))
	}
	w.asked[key] = x.ID
}

// operate makes requests, changes limits and edits jobs, until calm comes.
func (w *world) operate(r *rand.Rand) {
	m := &w.mix
	for {
		what, after := soonest(r, m.requests, m.limits, m.edits)
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
			ids := w.witness.Executions()
			if len(ids) == 0 {
				continue
			}
			id, kind := ids[r.IntN(len(ids))], []courier.RequestKind{
				courier.RequestPause, courier.RequestPause, courier.RequestResume, courier.RequestResume,
				courier.RequestResume, courier.RequestRelease, courier.RequestCancel,
			}[r.IntN(7)]
			w.spawn(func() { w.request(p, id, kind) })
			w.rerun(id)
		case 1:
			scope, n := []string{"global", "global", "job:job-0", "key:a", "key:b"}[r.IntN(5)], r.IntN(4)
			w.spawn(func() {
				w.through(p, func(ctx context.Context, e *engine.Engine) error { return e.Limits().Set(ctx, scope, n, courier.By{}) })
			})
		case 2:
			w.define(r, fmt.Sprintf("job-%d", r.IntN(m.jobs)))
		}
	}
}

// somebody is a process through which a request is made.
func (w *world) somebody(r *rand.Rand) *process {
	if n := r.IntN(2 * len(w.workers)); n < len(w.workers) {
		return w.workers[n].process.Load()
	}
	return w.client.process.Load()
}

// request makes one request, and remembers what was acknowledged.
func (w *world) request(p *process, id courier.ExecutionID, kind courier.RequestKind) {
	given := kind
	err := w.through(p, func(ctx context.Context, e *engine.Engine) error {
		switch kind {
		case courier.RequestPause:
			return errOf(e.Pause(ctx, id, courier.By{Actor: "operator"}))
		case courier.RequestResume:
			return w.resume(ctx, e, id)
		case courier.RequestCancel:
			by := courier.By{Actor: "operator"}
			if w.finally && w.dice("abort", int(w.numberOf(id)), fmt.Sprint(time.Since(w.start))).IntN(4) == 0 {
				given = courier.RequestAbort
				return errOf(e.Cancel(ctx, id, &courier.CancelOptions{By: by, WithoutFinally: true}))
			}
			return errOf(e.Cancel(ctx, id, &courier.CancelOptions{By: by}))
		}
		return errOf(e.Release(ctx, id, courier.By{Actor: "operator"}))
	})
	if err == nil {
		w.witness.Obeyed(id, given)
	}
}

// breakDown makes the store unreachable, for everybody or for one.
func (w *world) breakDown(r *rand.Rand) {
	for {
		_, after := soonest(r, w.mix.outages)
		timer := time.NewTimer(after)
		select {
		case <-w.calmed:
			timer.Stop()
			return
		case <-timer.C:
		}
		until := time.Now().Add(spread(r, 40*time.Second))
		all, one := r.IntN(2) == 0, r.IntN(len(w.workers))
		w.note("world", "outage", int64(one))
		for i, k := range w.workers {
			if all || i == one {
				n := k.process.Load().net
				n.mu.Lock()
				n.down = until
				n.mu.Unlock()
			}
		}
	}
}

// settle waits until everything has ended, and resumes and releases what waits for an operator.
func (w *world) settle(ctx context.Context) ([]courier.ExecutionID, error) {
	r := w.dice("settle")
	resumed, retried := make(map[courier.ExecutionID]int), make(map[courier.ChainExecutionID]bool)
	for begun := time.Now(); time.Since(begun) < maxCalm; {
		w.wait(spread(r, 10*time.Second))
		left := 0
		if w.plans != nil {
			var err error
			if left, err = w.settlePlans(ctx, r, retried); err != nil {
				return nil, err
			}
		}
		ids := w.witness.Executions()
		for _, id := range ids {
			x, err := w.store.Execution(ctx, id)
			if err != nil {
				return ids, err
			}
			items := x.State == courier.Failed && x.FailedItems+x.RescuedItems > 0 && resumed[id] < 3
			switch again := x.State == courier.Failed && resumed[id] == 0; {
			case x.State == courier.Paused, items, again && r.IntN(2) == 0:
				w.request(w.client.process.Load(), id, courier.RequestResume)
			case x.State == courier.Created:
				w.request(w.client.process.Load(), id, courier.RequestRelease)
			case x.State.Ended():
				continue
			}
			if x.State == courier.Failed {
				resumed[id]++
			}
			left++
		}
		if left == 0 && time.Since(begun) > 2*time.Minute { // late calls have arrived
			return ids, nil
		}
	}
	return w.witness.Executions(), nil // the check tells what has not ended
}

// finish ends all processes: first the living ones gracefully, then the dead ones.
func (w *world) finish() {
	for _, k := range w.workers {
		if p := k.process.Load(); p.alive() {
			p.stop(context.Background())
		}
	}
	w.mu.Lock()
	w.told = true
	w.mu.Unlock()
	close(w.over)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, k := range append(w.workers, w.client) {
		for _, p := range k.all {
			p.die()
			p.engine.Stop(ended)
		}
	}
	w.life.Wait()
}

func (p *process) alive() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

// check reports broken promises.
func (w *world) check(ctx context.Context, ids []courier.ExecutionID) error {
	errs := []error{w.witness.Err()}
	errs = append(errs, promise.Check(ctx, w.store, ids, promise.Rules{
		Restarts: func(x *courier.Execution, step int) bool {
			p := w.programFor(x)
			return p.restart || p.isFinal(step) || w.wentBack(x.ID) || hasMoved(x)
		},
	}))
	if w.plans != nil {
		errs = append(errs, w.checkPlans(ctx))
	}
	if w.expected != nil {
		errs = append(errs, w.expected.check(ctx))
	}
	for _, id := range ids {
		errs = append(errs, w.examine(ctx, id))
		if x, err := w.store.Execution(ctx, id); err == nil {
			w.counts["ended "+string(x.State)]++
		}
	}
	return errors.Join(append(w.strange, errs...)...)
}

// examine checks the actions and the records of an execution.
func (w *world) examine(ctx context.Context, id courier.ExecutionID) error {
	x, err := w.store.Execution(ctx, id)
	if err != nil {
		return err
	}
	var records []courier.StepExecution
	for after := int64(0); ; after = records[len(records)-1].Seq {
		page, err := w.store.Steps(ctx, store.StepFilter{Execution: id, After: after, Details: true})
		if err != nil {
			return err
		}
		if records = append(records, page...); len(page) == 0 {
			break
		}
	}
	p := w.programFor(&x)
	w.countRepairs(&x, records)
	if records, err = w.plain(ctx, &x, records); err != nil {
		return err
	}
	if err := w.checkFinally(ctx, &x, p, records); err != nil {
		return fmt.Errorf("execution %s (number %d): %w", id, w.numberOf(id), err)
	}
	records = slices.DeleteFunc(records, func(r courier.StepExecution) bool { return p.isFinal(r.Step) })
	var last []courier.StepExecution
	for i := range records {
		if records[i].ExecutionAttempt == x.Attempt {
			last = append(last, records[i])
		}
		if r := records[i].Reason; r == courier.ReasonConfig || r == courier.ReasonDefinition {
			return fmt.Errorf("execution %s: record %d says that a sound job is not: %s", id, i, records[i].Error)
		}
		if text := records[i].Error + string(records[i].Outputs) + records[i].Stack + records[i].Log; strings.Contains(text, canary) {
			return fmt.Errorf("execution %s: record %d tells a secret: %s", id, i, text)
		}
	}
	if x.Failure != nil && x.Failure.Reason == courier.ReasonDefinition {
		return fmt.Errorf("execution %s: its failure says that a sound job is not: %s", id, x.Failure.Message)
	}
	if x.Failure != nil && strings.Contains(x.Failure.Message, canary) {
		return fmt.Errorf("execution %s: its failure tells a secret: %s", id, x.Failure.Message)
	}
	err = w.checkGiven(ctx, &x, p, records)
	switch {
	case err != nil:
	case p.items:
		err = w.checkItems(ctx, &x, p, last)
	case x.State == courier.Completed:
		err = p.follow(last)
	}
	if err != nil {
		return fmt.Errorf("execution %s (number %d): %w", id, w.numberOf(id), err)
	}
	return nil
}

// errOf returns the error of a call whose other result does not matter.
func errOf[T any](_ T, err error) error { return err }
