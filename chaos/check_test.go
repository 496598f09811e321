package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/internal/test/promise"
	"github.com/courierhq/courier/store"
)

// A report is what the checker has looked at.
type report struct {
	executions, completed, failed, cancelled, entries, records, notes, calls, open, looks int
	lost, refusals                                                                        int
	took                                                                                  time.Duration
}

func (r report) String() string {
	return fmt.Sprintf("%d executions (%d completed, %d failed, %d cancelled), %d audit entries, %d records, %d notes of steps, %d attempts lost, %d calls (%d never answered, %d lease lost), limits looked at %d times; checked in %v",
		r.executions, r.completed, r.failed, r.cancelled, r.entries, r.records, r.notes, r.lost, r.calls, r.open, r.refusals, r.looks, r.took.Round(time.Millisecond))
}

// lossy fails the test if no attempt was lost: then the workers were not
// disturbed at their work.
func (r report) lossy(t *testing.T) {
	t.Helper()
	if r.lost == 0 {
		t.Error("no attempt was lost")
	}
}

// check ends the processes and checks all that must hold when everything has
// ended.
func (w *world) check() (report, *evidence) {
	w.Helper()
	w.stopAll()
	w.faults()
	begun := time.Now()
	w.watch.end()
	r := report{looks: w.watch.looks}
	err := errors.Join(w.watch.faults...)
	c, e := w.gather()
	if err = errors.Join(err, e); e == nil {
		err = errors.Join(err, c.check(w, &r))
	}
	if err != nil {
		w.Error(shorten(err))
	}
	r.took = time.Since(begun)
	return r, c
}

// shorten cuts an error that has more lines than anybody reads.
func shorten(err error) error {
	const most = 20_000
	if text := err.Error(); len(text) > most {
		return fmt.Errorf("%s\n... and %d bytes more", text[:most], len(text)-most)
	}
	return err
}

// An evidence is all that is known of what happened.
type evidence struct {
	executions map[courier.ExecutionID]*courier.Execution
	audits     map[courier.ExecutionID][]courier.AuditEntry
	records    map[courier.ExecutionID][]courier.StepExecution
	notes      map[courier.ExecutionID][]note
	calls      []*call
	histories  map[courier.ExecutionID][]*operation

	chains []chain.Execution // these only where there are any
	heard  []heard
	jobs   map[courier.ExecutionID]string
}

func (w *world) gather() (*evidence, error) {
	ctx := context.WithoutCancel(w.Context())
	c := &evidence{
		executions: make(map[courier.ExecutionID]*courier.Execution), audits: make(map[courier.ExecutionID][]courier.AuditEntry),
		records: make(map[courier.ExecutionID][]courier.StepExecution), notes: make(map[courier.ExecutionID][]note),
	}
	for f := (store.Filter{Limit: 1000}); ; {
		list, err := w.store.Executions(ctx, f)
		if err != nil {
			return nil, err
		}
		if len(list) == 0 {
			break
		}
		for i := range list {
			f.Before = list[i].ID
			whole, err := w.store.Execution(ctx, f.Before) // lists lack parameters and repairs
			if err != nil {
				return nil, err
			}
			x := &whole
			c.executions[x.ID] = x
			if c.audits[x.ID], err = w.store.Audit(ctx, store.AuditFilter{Execution: x.ID, Limit: 10_000}); err != nil {
				return nil, err
			}
			if c.records[x.ID], err = w.store.Steps(ctx, store.StepFilter{Execution: x.ID, Limit: 10_000}); err != nil {
				return nil, err
			}
		}
	}
	err := readJournals(w.dir, ".notes", func(process string, n *note) {
		n.worker = process
		c.notes[n.Execution] = append(c.notes[n.Execution], *n)
	})
	if err != nil {
		return nil, err
	}
	if w.auto != nil {
		if err := c.gatherAutomation(ctx, w); err != nil {
			return nil, err
		}
	}
	c.calls, err = readHistory(w.dir)
	return c, err
}

// Execution, Executions, Steps, Latest and Audit make the evidence an archive,
// which is read without asking the server again.
func (c *evidence) Execution(_ context.Context, id courier.ExecutionID) (courier.Execution, error) {
	if x := c.executions[id]; x != nil {
		return *x, nil
	}
	return courier.Execution{}, courier.ErrNotFound
}

func (c *evidence) Executions(context.Context, store.Filter) ([]courier.Execution, error) {
	return nil, errors.ErrUnsupported
}

func (c *evidence) Steps(_ context.Context, f store.StepFilter) ([]courier.StepExecution, error) {
	list := c.records[f.Execution]
	n, _ := slices.BinarySearchFunc(list, f.After+1, func(s courier.StepExecution, seq int64) int { return int(s.Seq - seq) })
	return list[n:], nil
}

func (c *evidence) Latest(context.Context, store.LatestFilter) ([]courier.StepExecution, error) {
	return nil, errors.ErrUnsupported
}

func (c *evidence) Audit(_ context.Context, f store.AuditFilter) ([]courier.AuditEntry, error) {
	list := c.audits[f.Execution]
	return list[min(f.After, int64(len(list))):], nil
}

// check returns all that is wrong.
func (c *evidence) check(w *world, r *report) error {
	ctx := context.WithoutCancel(w.Context())
	ids := slices.Clone(w.acked)
	for id := range c.executions {
		if !slices.Contains(ids, id) {
			ids = append(ids, id) // nobody was told, but it exists
		}
	}
	errs := []error{promise.Check(ctx, c, ids, promise.Rules{Limits: w.limits})}
	traces := traces()
	for id, x := range c.executions {
		r.executions++
		r.entries, r.records, r.notes = r.entries+len(c.audits[id]), r.records+len(c.records[id]), r.notes+len(c.notes[id])
		switch x.State {
		case courier.Completed:
			r.completed++
			errs = append(errs, c.followed(x, traces[x.Job]))
		case courier.Cancelled:
			r.cancelled++
		case courier.Failed:
			r.failed++
			if !w.auto.fails(x) {
				errs = append(errs, fmt.Errorf("execution %s of %s has failed, which it can't: %v", id, x.Job, x.Failure))
			}
		default:
			errs = append(errs, fmt.Errorf("execution %s is %s in the end", id, x.State))
		}
		for i := range c.records[id] {
			if c.records[id][i].Reason == courier.ReasonWorkerLost {
				r.lost++
			}
		}
		errs = append(errs, c.noted(x, w.zombies))
	}
	ops, err := history(c.calls, c.audits, w.forgetful)
	errs = append(errs, err)
	if w.auto != nil {
		errs = append(errs, w.auto.check(c, ops))
	}
	for _, o := range c.calls {
		if r.calls++; o.unanswered() {
			r.open++
		}
	}
	c.histories = ops
	for id, list := range ops {
		for _, o := range list {
			if o.Method == "Apply" && o.Error == leaseLost {
				r.refusals++
			}
			if x := c.executions[id]; x != nil && o.Asked.Request == courier.RequestCancel && o.Method == "Request" && o.Error == noError && x.State != courier.Cancelled {
				errs = append(errs, fmt.Errorf("execution %s: a cancel was acknowledged, and it is %s", id, x.State))
			}
		}
		if c.executions[id] != nil {
			list = append(list, c.final(id))
			ops[id] = list
		}
		errs = append(errs, linear(id, list))
	}
	return errors.Join(errs...)
}

// final is how the execution stands in the end.
func (c *evidence) final(id courier.ExecutionID) *operation {
	x := c.executions[id]
	return &operation{
		Process: "checker", Method: final, Call: never - 2, Return: never - 1, Asked: asked{Execution: id},
		Told: told{Execution: id, State: x.State, Request: x.Request, Seq: int64(len(c.audits[id]))},
	}
}

// followed reports whether the steps that a completed execution has taken are
// those of its pipeline, in order, with their outputs.
func (c *evidence) followed(x *courier.Execution, want []string) error {
	var got []string
	for i := range c.records[x.ID] {
		s := &c.records[x.ID][i]
		if s.ExecutionAttempt != x.Attempt {
			continue
		}
		place := fmt.Sprintf("%d[%s]", s.Step, courier.FormatIteration(s.Iteration))
		switch s.State {
		case courier.StepSkipped:
			got = append(got, place+" skipped")
		case courier.StepCompleted:
			v, err := valueOf(s.Outputs)
			if err != nil {
				return fmt.Errorf("execution %s: output of step %s: %w", x.ID, place, err)
			}
			got = append(got, fmt.Sprintf("%s=%d", place, v))
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("execution %s of %s is completed and has taken the steps\n\t%q, not\n\t%q", x.ID, x.Job, got, want)
	}
	return nil
}

// A place is a step in an iteration, in an attempt of its execution.
type place struct {
	of, step  int
	iteration string
}

// noted compares what steps noted with what the store knows: each attempt that
// began was started in the store; one that is completed has ended well exactly
// once; and no other began after it, unless zombies may.
func (c *evidence) noted(x *courier.Execution, zombies bool) error {
	type attempt struct {
		place
		n int
	}
	completed := make(map[place]int)
	known := make(map[attempt]bool)
	for i := range c.records[x.ID] {
		s := &c.records[x.ID][i]
		at := place{s.ExecutionAttempt, s.Step, courier.FormatIteration(s.Iteration)}
		known[attempt{at, s.Attempt}] = true
		if s.State == courier.StepCompleted {
			completed[at] = s.Attempt
		}
	}
	// An attempt that was interrupted and never went on has no record.
	started := make(map[attempt]bool)
	for i := range c.audits[x.ID] {
		if e := &c.audits[x.ID][i]; e.Step != nil && e.To == string(courier.StepRunning) {
			started[attempt{place{0, *e.Step, courier.FormatIteration(e.Iteration)}, e.Attempt}] = true
		}
	}
	var errs []error
	fault := func(n *note, format string, args ...any) {
		errs = append(errs, fmt.Errorf("execution %s: step %d[%s], attempt %d of %d by %s: %s", x.ID, n.Step, n.Iteration, n.Attempt, n.Of, n.worker, fmt.Sprintf(format, args...)))
	}
	dones := make(map[attempt]int64)
	list := c.notes[x.ID]
	for i := range list {
		n := &list[i]
		a := attempt{place{n.Of, n.Step, n.Iteration}, n.Attempt}
		if n.What == done {
			if dones[a] != 0 {
				fault(n, "it was done twice")
			}
			dones[a] = n.At
		}
		if !started[attempt{place{0, n.Step, n.Iteration}, n.Attempt}] {
			fault(n, "it began, and the store does not know")
		}
	}
	for i := range list {
		n := &list[i]
		at := place{n.Of, n.Step, n.Iteration}
		last, ok := completed[at]
		if !ok || n.What != began {
			continue
		}
		over := dones[attempt{at, last}]
		switch {
		case over == 0:
			fault(n, "attempt %d is completed in the store, and no step was done", last)
		case n.Attempt > last, n.At > over && !(zombies && n.Attempt < last):
			fault(n, "it began when attempt %d was completed", last)
		}
	}
	return errors.Join(errs...)
}
