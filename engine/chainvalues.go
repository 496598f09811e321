package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/reference"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// A chainUse is a reference to the outputs of a member of a chain.
type chainUse struct {
	step  int
	field string
	ref   reference.Reference
}

// chainUses returns the references of steps to the outputs of a chain's members.
func chainUses(steps []courier.StepSpec) []chainUse {
	var uses []chainUse
	for i, s := range steps {
		raw, err := json.Marshal(s.Config)
		if err != nil || !strings.Contains(string(raw), "context:chain.") {
			continue // most jobs have none
		}
		template, _ := flow.Compile(s.Config)
		for _, f := range template.References() {
			if f.Ref.Head == "chain" {
				uses = append(uses, chainUse{i, f.Field, f.Ref})
			}
		}
	}
	return uses
}

// loadChain loads what the steps of a member can see of the members before it.
func (r *run) loadChain() error {
	if r.x.Chain == "" || len(r.program.chain) == 0 {
		return nil
	}
	return retry(&r.patience, func(ctx context.Context) (err error) {
		r.vals.chain, err = r.e.chainValues(ctx, r.program, &r.x)
		return err
	})
}

// chainValues returns the outputs of the members that a program refers to, by
// member: nil for an execution that is no member, or refers to none. A member
// that has not ended, or of which nothing is left, has no entry.
func (e *Engine) chainValues(ctx context.Context, p *program, x *courier.Execution) (map[string]any, error) {
	chains, ok := e.store.(store.Chains)
	if !ok || x.Chain == "" || len(p.chain) == 0 {
		return nil, nil
	}
	c, err := chains.ChainExecution(ctx, x.Chain)
	if errors.Is(err, courier.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load chain execution %s: %w", x.Chain, err)
	}
	values := make(map[string]any)
	for _, name := range p.chain {
		m := c.Member(name)
		if m == nil || m.Execution == "" || !courier.State(m.State).Ended() {
			continue
		}
		outputs, err := e.outputsOf(ctx, m.Execution)
		if errors.Is(err, courier.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("load the outputs of member %q, execution %s: %w", name, m.Execution, err)
		}
		values[name] = outputs
	}
	return values, nil
}

// outputsOf returns what the completed steps of an execution that has ended left,
// by name: of steps that have an output of the same name, the last one's. The
// step types need not be known here.
func (e *Engine) outputsOf(ctx context.Context, id courier.ExecutionID) (map[string]any, error) {
	x, err := e.store.Execution(ctx, id)
	if err != nil {
		return nil, err
	}
	d, err := e.store.Load(ctx, store.Job, x.Job, x.Version)
	if err != nil {
		return nil, err
	}
	latest, err := e.store.Latest(ctx, id)
	if err != nil {
		return nil, err
	}
	var job courier.Job
	if err := json.Unmarshal(d.Body, &job); err != nil {
		return nil, err
	}
	tree, err := flow.Parse(job.Steps)
	if err != nil {
		return nil, err
	}
	all, newest := make(map[string]any), int64(0)
	for i := range latest {
		r := &latest[i]
		if !tree.InScope(x.Position, r) || r.Seq < newest {
			continue
		}
		newest = r.Seq
		if r.State == courier.StepCompleted {
			for name, v := range object(r.Outputs) {
				all[name] = v
			}
		}
	}
	return all, nil
}

// checkUses reports references of a member's job to members that do not end
// before it, or that have no such output. Jobs are those of the members.
func (d *chainDefinition) checkUses(i int) {
	p := d.programs[i]
	if p == nil {
		return
	}
	before := d.before(i)
	for _, u := range chainUses(p.job.Steps) {
		field := fmt.Sprintf("job %q, %s: %s", p.job.Name, courier.StepLabel(u.step, p.job.Steps[u.step].ID, p.job.Steps[u.step].Type), u.field)
		j, ok := d.index[u.ref.Name]
		switch {
		case !ok:
			d.member(i, field, "%q has no value: the chain has no member %q; %s", u.ref.String(), u.ref.Name, nearest.DidYouMean(u.ref.Name, d.names()))
		case !slices.Contains(before, j):
			d.member(i, field, "%q has no value: %q does not end before %q; add it to depends_on", u.ref.String(), u.ref.Name, d.chain.Members[i].Name)
		case len(u.ref.Path) > 0 && d.programs[j] != nil:
			if names, closed := outputNames(d.programs[j]); closed && !slices.Contains(names, u.ref.Path[0].Name) {
				d.member(i, field, "%q has no value: no step of job %q has an output %q; %s", u.ref.String(), d.programs[j].job.Name, u.ref.Path[0].Name, nearest.DidYouMean(u.ref.Path[0].Name, names))
			}
		}
	}
}

// checkMember warns of references of a job to members of a chain for which there is
// no chain in which they have a value. Its error is one of the store.
func (e *Engine) checkMember(ctx context.Context, job *courier.Job) (warnings []courier.Problem, err error) {
	uses := chainUses(job.Steps)
	for after := ""; len(uses) > 0; {
		list, err := e.store.List(ctx, store.Chain, after, 0)
		if err != nil {
			return nil, fmt.Errorf("list chains: %w", err)
		}
		if len(list) == 0 {
			break
		}
		after = list[len(list)-1].Name
		for i := range list {
			if d := (&chainDefinition{}); json.Unmarshal(list[i].Body, &d.chain) == nil {
				d.checkNames()
				d.checkEdges()
				uses = slices.DeleteFunc(uses, func(u chainUse) bool { return d.gives(job.Name, u.ref.Name) })
			}
		}
	}
	for _, u := range uses {
		s := &job.Steps[u.step]
		warnings = append(warnings, courier.Problem{
			Step: u.step, ID: s.ID, Type: s.Type, Field: u.field,
			Message: fmt.Sprintf("%q has a value only if the execution was started by a chain in which %q ends before this job, and there is no such chain so far", u.ref.String(), u.ref.Name),
		})
	}
	return warnings, nil
}

// gives reports whether a member with that job begins after the named member has
// ended.
func (d *chainDefinition) gives(job, member string) bool {
	j, ok := d.index[member]
	for i := range d.chain.Members {
		if ok && d.chain.Members[i].Job == job && slices.Contains(d.before(i), j) {
			return true
		}
	}
	return false
}

// outputNames returns the names of all outputs that the steps of a program
// declare, and whether there can be no others: there can be where a step's type
// is not registered here.
func outputNames(p *program) (names []string, closed bool) {
	closed = true
	for i, t := range p.types {
		if t == nil {
			closed = closed && isMarker(p.job.Steps[i].Type)
			continue
		}
		out := t.Output()
		closed = closed && out.Type == "object" && !out.Open && len(out.Properties) > 0
		names = append(names, out.Names()...)
	}
	slices.Sort(names)
	return slices.Compact(names), closed
}
