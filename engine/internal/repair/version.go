package repair

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/store"
)

// version pins another version of the job.
func (d *draft) version(ctx context.Context) (err error) {
	v := d.opt.Version
	if v == 0 || v == d.x.Version {
		return nil
	}
	if d.now, err = d.programs.Load(ctx, d.x.Job, v); err != nil {
		return err
	}
	if d.now.Tree == nil || d.now.NotRunnable != nil {
		d.now, d.problems = d.old, append(d.problems, fmt.Sprintf("version %d of job %q can't be executed: %v", v, d.x.Job, d.now.NotRunnable))
		return nil
	}
	if d.old.Tree.HasRescues() {
		if _, err := d.history.left(ctx); err != nil {
			return fmt.Errorf("read the rescued items of execution %s: %w", d.x.ID, err)
		}
		d.rescued = d.history.rescues()
	}
	steps, reasons := flow.MapSteps(d.old.Tree, d.now.Tree, d.x.Position, d.recorded)
	reasons = append(reasons, d.retyped(steps)...)
	if d.x.Repairs != nil && !tellable(d.x.Repairs.Passes, steps) {
		reasons = append(reasons, "a loop whose items were executed again, or a step to which the execution went back, is not in it")
	}
	if len(reasons) > 0 {
		d.now = d.old
		for _, why := range reasons {
			d.problem("version %d: %s", v, why)
		}
		return nil
	}
	d.note("version %d in place of %d", v, d.x.Version)
	r := d.repairs()
	r.Versions = append(slices.Clip(r.Versions), courier.VersionChange{Seq: d.x.Seq, From: d.x.Version, To: v, Steps: steps})
	moveIndexes(r, steps)
	d.x.Version = v
	d.move(movePosition(d.x.Position, steps), d.x.StepAttempts, d.x.EarlierStarts)
	d.addParams(r)
	d.plan.Change.Version = &store.PinnedVersion{Version: v, StepTypes: d.now.Keys, JobLimit: d.now.Job.Limit}
	return d.read(ctx)
}

// retyped names the steps whose recorded outputs don't fit their type in the new
// version.
func (d *draft) retyped(steps []int) (reasons []string) {
	for _, r := range d.latest {
		to := r.Step
		if steps != nil {
			to = steps[r.Step]
		}
		if to < 0 || to >= len(d.now.Types) || d.now.Types[to] == nil || r.State != courier.StepCompleted {
			continue
		}
		for _, p := range checkOutputs(d.now.Types[to], jsontext.Object(r.Outputs)) {
			reasons = append(reasons, fmt.Sprintf("%s: its recorded output %s %s", d.label(d.now, to), p.Field, p.Message))
		}
	}
	return reasons
}

// checkOutputs compares outputs with the type of a step.
func checkOutputs(typ *courier.StepType, outputs map[string]any) (problems []courier.Problem) {
	out := typ.Output()
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		if p, ok := out.Property(name); ok {
			problems = append(problems, p.Schema.Check(name, outputs[name])...)
		}
	}
	return problems
}

// addParams gives parameters that the new version declares, and the execution does not
// have, the values that the version declares. Those that the execution has must be as the
// version declares them, unless they are changed too.
func (d *draft) addParams(r *courier.Repairs) {
	have := d.vals.Params()
	kept := make(map[string]any)
	for _, name := range d.now.Params.Names() {
		_, changes := d.opt.Set["params."+name]
		if v, ok := have[name]; ok && !changes {
			kept[name] = v
		} else if changes {
			kept[name] = d.opt.Set["params."+name] // which set checks
		}
	}
	values, problems := d.now.Params.Values(kept, false)
	for _, p := range problems {
		if name := strings.TrimPrefix(p.Field, "params."); d.opt.Set[p.Field] == nil {
			d.problem("version %d: its parameter %q: %s; give it with Set", d.now.Version, name, p.Message)
		}
	}
	for _, name := range d.now.Params.Names() {
		if _, ok := have[name]; ok {
			continue
		}
		raw, err := jsontext.Append(nil, values[name])
		if err == nil {
			r.Values = append(slices.Clip(r.Values), courier.ValueChange{Seq: d.x.Seq, Step: -1, Name: name, Value: raw})
		}
	}
}

// tellable reports whether all steps that passes name are in the new version.
func tellable(passes []courier.RepairPass, steps []int) bool {
	known := func(i int) bool { return i >= len(steps) || steps[i] >= 0 }
	at := func(p courier.Position) bool {
		return known(p.Step) && !slices.ContainsFunc(p.Loops, func(l courier.LoopPosition) bool { return !known(l.Step) })
	}
	return !slices.ContainsFunc(passes, func(p courier.RepairPass) bool {
		return !at(p.Then) || p.From != nil && !at(*p.From) ||
			slices.ContainsFunc(slices.Concat(p.Items, p.Rescued, p.Rescue), func(i courier.ItemPath) bool { return !known(i.Loop) }) ||
			slices.ContainsFunc(p.Restart, func(r courier.LoopRestart) bool { return !known(r.Loop) })
	})
}

// moveIndexes maps the indexes of steps in repairs.
func moveIndexes(r *courier.Repairs, steps []int) {
	if steps == nil {
		return
	}
	r.Values = slices.Clone(r.Values)
	r.Values = slices.DeleteFunc(r.Values, func(v courier.ValueChange) bool { return v.Step >= 0 && steps[v.Step] < 0 })
	for i := range r.Values {
		if v := &r.Values[i]; v.Step >= 0 {
			v.Step = steps[v.Step]
		}
	}
	r.Passes = slices.Clone(r.Passes)
	for i := range r.Passes {
		p := &r.Passes[i]
		p.Then = movePosition(p.Then, steps)
		if p.From != nil {
			from := movePosition(*p.From, steps)
			p.From = &from
		}
		for _, list := range []*[]courier.ItemPath{&p.Items, &p.Rescued, &p.Rescue} {
			*list = slices.Clone(*list)
			for j := range *list {
				(*list)[j].Loop = steps[(*list)[j].Loop]
			}
		}
		p.Restart = slices.Clone(p.Restart)
		for j := range p.Restart {
			p.Restart[j].Loop = steps[p.Restart[j].Loop]
		}
	}
}

// movePosition maps the indexes of steps in a position. The end of the list stays the
// end.
func movePosition(p courier.Position, steps []int) courier.Position {
	at := func(i int) int {
		if i < len(steps) {
			return steps[i]
		}
		if len(steps) == 0 {
			return i
		}
		return i - len(steps) + slices.Max(steps) + 1
	}
	p.Step = at(p.Step)
	p.Loops = slices.Clone(p.Loops)
	for i := range p.Loops {
		p.Loops[i].Step = at(p.Loops[i].Step)
	}
	return p
}
