package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
)

// A change is what a resume that took effect has changed in the input of steps.
type change struct {
	seq     int64 // of the last audit entry before
	version int   // of the job; 0 if it stays
	values  []courier.ValueChange
}

// changed records a resume that took effect.
func (w *world) changed(r *store.Request) {
	if r.Change == nil {
		return
	}
	c := change{seq: r.Change.Seq}
	w.mu.Lock()
	defer w.mu.Unlock()
	if v := r.Change.Version; v != nil {
		c.version = v.Version
		w.counts["resumed with another version"]++
	}
	if repairs := r.Change.Repairs; repairs != nil {
		for _, v := range repairs.Values {
			if v.Seq == c.seq {
				c.values = append(c.values, v)
				w.counts[map[bool]string{true: "parameter set", false: "output set"}[v.Step < 0]]++
			}
		}
	}
	w.changes[r.Execution] = append(w.changes[r.Execution], c)
}

// pad is the step with which some mended versions begin, so that all others have
// another index.
const pad = "pad"

// mend defines another version of the job of an execution: the same program, with a
// number in the configuration of its steps. It returns 0 if that failed.
func (w *world) mend(ctx context.Context, e *engine.Engine, p *program, r *rand.Rand) int {
	job, n := p.job, 1+r.IntN(1000)
	job.Steps = slices.Clone(job.Steps)
	shift := n % 2
	for _, i := range slices.AppendSeq(slices.Collect(maps.Keys(p.steps)), maps.Keys(p.finals)) {
		config := maps.Clone(job.Steps[i].Config)
		config["mend"], config["shift"] = n, shift
		job.Steps[i].Config = config
	}
	if shift > 0 {
		config := map[string]any{"id": pad, "program": job.Params["program"], "mend": n, "shift": shift}
		job.Steps = slices.Insert(job.Steps, 0, courier.StepSpec{ID: pad, Type: "sim.work", Config: config})
	}
	d, err := e.Jobs().Define(ctx, job, nil)
	if err != nil {
		return 0
	}
	return d.Job.Version
}

// mendOf returns the number of a version, and the difference between the indexes of its steps and
// the indexes in the program. Both are 0 for a version that was not mended.
func (w *world) mendOf(ctx context.Context, job string, version int) (n, shift int, err error) {
	key := fmt.Sprint(job, "/", version)
	w.mu.Lock()
	n, ok := w.mends[key]
	w.mu.Unlock()
	if ok {
		return n, n % 2, nil
	}
	var def struct {
		Steps []struct{ Config struct{ Mend int } }
	}
	d, err := w.store.Load(ctx, store.Job, job, version)
	if err == nil {
		err = json.Unmarshal(d.Body, &def)
	}
	if err != nil { // such as that the one who asks has ended: another will ask again
		return 0, 0, err
	}
	for _, s := range def.Steps {
		n = max(n, s.Config.Mend)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mends[key] = n
	return n, n % 2, nil
}

// set chooses a value that a resume sets.
func (w *world) set(p *program, at int, r *rand.Rand) map[string]any {
	key := "params.note"
	if steps := p.before(at); len(steps) > 0 && r.IntN(2) == 0 {
		key = steps[r.IntN(len(steps))] + ".value"
	}
	return map[string]any{key: fmt.Sprint(changedValue, r.Int64())}
}

// rerun sometimes starts an execution again: two people do so at once with one key, until they
// have the new execution.
func (w *world) rerun(id courier.ExecutionID) {
	number := int(w.numberOf(id))
	if w.dice("rerun", number, fmt.Sprint(time.Since(w.start))).IntN(25) > 0 {
		return
	}
	w.mu.Lock()
	w.reruns++
	key, enough := fmt.Sprint("rerun-", w.reruns), w.reruns > 3
	w.mu.Unlock()
	if enough {
		return
	}
	for who := range 2 {
		w.spawn(func() { w.insistRerun(w.dice("insist rerun", key, who), key, id) })
	}
}

// insistRerun is insist for a rerun, of the version that the execution has.
func (w *world) insistRerun(r *rand.Rand, key string, id courier.ExecutionID) {
	for range 50 {
		if !w.wait(spread(r, 2*time.Second) + time.Millisecond) {
			return
		}
		var former, x courier.Execution
		err := w.through(w.client.process.Load(), func(ctx context.Context, e *engine.Engine) (err error) {
			if former, err = e.Executions().Get(ctx, id); err != nil {
				return err
			}
			x, err = e.Rerun(ctx, id, &engine.RerunOptions{Version: former.Version, IdempotencyKey: key, By: courier.By{Actor: "operator"}})
			return err
		})
		switch {
		case errors.Is(err, courier.ErrConflict):
			return // it has another version since
		case err != nil:
			continue
		case x.ID == id || x.RerunOf != id || x.Job != former.Job || string(x.Params) != string(former.Params):
			w.wrong("execution %d is a rerun of %d: of %q with %s, want %s", w.numberOf(x.ID), w.numberOf(id), x.RerunOf, x.Params, former.Params)
		}
		w.acknowledge(key, &x)
		w.mu.Lock()
		w.counts["rerun"]++
		w.mu.Unlock()
		return
	}
}

// changedValue begins what operators set.
const changedValue = "changed-"

// plain rewrites an execution and its records to the step indexes of the program, and leaves out
// the pad.
func (w *world) plain(ctx context.Context, x *courier.Execution, records []courier.StepExecution) ([]courier.StepExecution, error) {
	_, shift, err := w.mendOf(ctx, x.Job, x.Version)
	if err != nil {
		return nil, err
	}
	x.Position = moved(x.Position, shift)
	if x.Repairs != nil {
		r := *x.Repairs
		r.Passes = slices.Clone(r.Passes)
		for i := range r.Passes {
			p := &r.Passes[i]
			if p.From != nil {
				p.From = new(moved(*p.From, shift))
			}
			p.Then = moved(p.Then, shift)
			for _, list := range []*[]courier.ItemPath{&p.Items, &p.Rescued, &p.Rescue} {
				*list = slices.Clone(*list)
				for j := range *list {
					(*list)[j].Loop -= shift
				}
			}
			p.Restart = slices.Clone(p.Restart)
			for j := range p.Restart {
				p.Restart[j].Loop -= shift
			}
		}
		x.Repairs = &r
	}
	if f := x.Failure; f != nil && f.Step >= 0 {
		x.Failure = new(*f)
		x.Failure.Step -= shift
	}
	var list []courier.StepExecution
	for _, s := range records {
		_, shift, err := w.mendOf(ctx, x.Job, versionAt(x, s.Seq))
		if err != nil {
			return nil, err
		}
		if s.Step -= shift; s.FailedLoop != nil {
			s.FailedLoop = new(*s.FailedLoop - shift)
		}
		if s.Rescue != nil {
			s.Rescue = new(*s.Rescue - shift)
		}
		if s.ID != pad {
			list = append(list, s)
		}
	}
	return list, nil
}

// moved returns a position with all indexes lower by n.
func moved(p courier.Position, n int) courier.Position {
	p.Step -= n
	p.Loops = slices.Clone(p.Loops)
	for i := range p.Loops {
		p.Loops[i].Step -= n
	}
	return p
}

// versionAt returns the version of the job with which a record was written.
func versionAt(x *courier.Execution, seq int64) int {
	if x.Repairs != nil {
		for _, v := range x.Repairs.Versions {
			if seq <= v.Seq {
				return v.From
			}
		}
	}
	return x.Version
}

// given is the input that steps must get, after the changes of operators.
type given struct {
	version int // of the job
	mend    int // of the version
	note    string
	values  map[string]string // outputs, by the names of visits
}

// checkGiven checks that steps were given what operators had set and no other values, and
// were executed in the version that had been pinned.
func (w *world) checkGiven(ctx context.Context, x *courier.Execution, p *program, records []courier.StepExecution) error {
	w.mu.Lock()
	changes, resumed := w.changes[x.ID], w.resumed[x.ID]
	w.mu.Unlock()
	if resumed > len(changes) {
		return fmt.Errorf("%d resumes with changes were acknowledged, and %d took effect", resumed, len(changes))
	}
	g := given{version: versionAt(x, 0), values: make(map[string]string)}
	for i := range records {
		r := &records[i]
		for ; len(changes) > 0 && changes[0].seq < r.Seq; changes = changes[1:] {
			g.version = cmp.Or(changes[0].version, g.version)
			_, shift, err := w.mendOf(ctx, x.Job, g.version)
			if err != nil {
				return err
			}
			g.change(&changes[0], shift)
		}
		var err error
		if g.mend, _, err = w.mendOf(ctx, x.Job, g.version); err != nil {
			return err
		}
		if r.State != courier.StepCompleted && r.Reason != courier.ReasonOperator {
			continue
		}
		delete(g.values, visitName(r.Step, r.Iteration)) // the step has outputs of its own now
		if s := p.steps[r.Step]; s != nil && r.State == courier.StepCompleted {
			if err := g.check(fmt.Sprint(w.numberOf(x.ID)), s, r); err != nil {
				return fmt.Errorf("record %d: %w", r.Seq, err)
			}
		}
	}
	return nil
}

// change applies a change. Shift is the index shift of the version with which the execution
// continues.
func (g *given) change(c *change, shift int) {
	for _, v := range c.values {
		var text string
		json.Unmarshal(v.Value, &text)
		if v.Step >= 0 {
			g.values[visitName(v.Step-shift, v.Iteration)] = text
		} else {
			g.note = text
		}
	}
}

// check compares the expected input of a step with the input in its record.
func (g *given) check(execution string, s *statement, r *courier.StepExecution) error {
	var out output
	if err := json.Unmarshal(r.Outputs, &out); err != nil {
		return err
	}
	if out.Note != g.note {
		return fmt.Errorf("the parameter note was %q, want %q", out.Note, g.note)
	}
	if out.Mend != g.mend {
		return fmt.Errorf("the step was executed with mend %d, want %d, that of version %d", out.Mend, g.mend, g.version)
	}
	for i := range s.inputs {
		in := &s.inputs[i]
		at := in.at(r.Iteration)
		want := cmp.Or(g.values[visitName(in.from.index, at)], value(execution, in.from.id, at))
		if out.Inputs[in.name] != want {
			return fmt.Errorf("input %s was %q, want %q", in.name, out.Inputs[in.name], want)
		}
	}
	return nil
}

// hasMoved reports whether the steps of an execution have had different indexes.
func hasMoved(x *courier.Execution) bool {
	return x.Repairs != nil && slices.ContainsFunc(x.Repairs.Versions, func(v courier.VersionChange) bool { return v.Steps != nil })
}
