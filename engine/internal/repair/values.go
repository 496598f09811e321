package repair

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/nearest"
)

// set changes values.
func (d *draft) set(ctx context.Context) error {
	for _, key := range slices.Sorted(maps.Keys(d.opt.Set)) {
		raw, err := jsontext.Append(nil, d.opt.Set[key])
		if err != nil {
			d.problem("Set %q: %v", key, err)
			continue
		}
		head, name, ok := strings.Cut(key, ".")
		switch {
		case !ok || name == "":
			d.problem(`Set %q: a key is "params.NAME", or the id or index of a step and the name of an output, such as "list.file_list"`, key)
		case strings.HasPrefix(string(raw), `"secret:`):
			d.problem("Set %q: a secret can't be set; steps refer to it by its name", key)
		case head == "params":
			d.setParam(ctx, key, name, raw)
		default:
			d.setOutput(key, head, name, raw)
		}
	}
	return nil
}

func (d *draft) setParam(ctx context.Context, key, name string, raw json.RawMessage) {
	if declared := d.now.Job.Params; declared != nil {
		if _, ok := declared[name]; !ok {
			d.problem("Set %q: the job declares no parameter %q; %s", key, name, nearest.DidYouMean(name, slices.Sorted(maps.Keys(declared))))
			return
		}
	}
	v, _ := jsontext.Parse(raw)
	v, why := d.now.Params.Check(name, v)
	if why == "" {
		raw, why = d.checked(ctx, name, v)
	}
	if why != "" {
		d.problem("Set %q: %s", key, why)
		return
	}
	for _, limit := range d.now.Job.LimitKeys {
		if strings.Contains(limit, "context:params."+name+"}") {
			d.problem("Set %q: the limit key %q depends on it, and an execution keeps its limit keys", key, limit)
			return
		}
	}
	d.change(key, courier.ValueChange{Seq: d.x.Seq, Step: -1, Name: name, Value: raw}, "params", name)
}

// checked returns a value of a parameter as it is stored, and why it can't be used. If it
// is the name of a secret, the policy of secrets is asked.
func (d *draft) checked(ctx context.Context, name string, v any) (raw json.RawMessage, why string) {
	raw, err := jsontext.Append(nil, v)
	if err != nil {
		return nil, err.Error()
	}
	secret, isText := v.(string)
	if p, _ := d.now.Params.Get(name); isText && p.Secret {
		err = core.AskSecret(ctx, courier.SecretRequest{
			Name: secret, Execution: d.x.ID, Job: d.x.Job, Version: d.now.Version, Step: -1, Param: name, By: d.opt.By.Actor, DryRun: d.dry,
		}, d.secrets)
		if err != nil {
			return nil, "the secret of that name may not be used: " + err.Error()
		}
	}
	return raw, ""
}

func (d *draft) setOutput(key, head, name string, raw json.RawMessage) {
	step, ok := d.now.Tree.Head(head)
	if !ok {
		d.problem("Set %q: there is no step %q", key, head)
		return
	}
	at := slices.IndexFunc(d.latest, func(r courier.StepExecution) bool { return r.Step == step })
	if at < 0 {
		d.problem("Set %q: %s has no record where the execution goes on, so it has no outputs to change", key, d.label(d.now, step))
		return
	}
	if typ := d.now.Types[step]; typ != nil {
		out := typ.Output()
		if p, ok := out.Property(name); ok {
			v, _ := jsontext.Parse(raw)
			for _, problem := range p.Schema.Check(name, v) {
				d.problem("Set %q: %s %s", key, problem.Field, problem.Message)
			}
		} else if !out.Open && out.Type == "object" {
			d.problem("Set %q: %s has no output %q; %s", key, d.label(d.now, step), name, nearest.DidYouMean(name, out.Names()))
			return
		}
	}
	d.change(key, courier.ValueChange{Seq: d.x.Seq, Step: step, Iteration: d.latest[at].Iteration, Name: name, Value: raw}, fmt.Sprint(step), name)
}

// change adds a change of a value, unless where the execution stands depends on it.
func (d *draft) change(key string, c courier.ValueChange, head, name string) {
	if what, ok := flow.Depends(d.now.Tree, d.x.Position, head, name); ok {
		d.problem("Set %q: %s depends on it, in which the execution stands; go back before that with From", key, what)
		return
	}
	if p, _ := d.now.Params.Get(name); c.Step < 0 && p.Secret {
		d.note("%s to another secret", key)
	} else {
		old := "none"
		if v, ok := d.vals.Value(head, name); ok {
			if raw, err := jsontext.Append(nil, v); err == nil {
				old = shorten(string(raw))
			}
		}
		d.note("%s from %s to %s", key, old, shorten(string(c.Value)))
	}
	r, before := d.repairs(), d.listLengths()
	r.Values = append(slices.Clip(r.Values), c)
	d.restore()
	for marker, n := range d.listLengths() {
		if was, ok := before[marker]; ok && n != was {
			d.problem("Set %q: the loop of %s is over and has executed %d items, and the changed list has %d; give one of the same length, or go back before the loop with From", key, d.label(d.now, marker), was, n)
		}
	}
}

// listLengths returns the lengths of the lists of the loops that are over and whose
// failed items are counted, by marker: their items are known by their index.
func (d *draft) listLengths() map[int]int {
	lengths, scope := make(map[int]int), d.scope()
	for marker := range min(d.x.Position.Step, d.now.Tree.Len()) {
		if !d.now.Tree.ItemPolicy(marker).Continue || len(d.now.Tree.Loops(marker)) > 0 || d.now.Tree.End(marker) >= d.x.Position.Step {
			continue
		}
		config, _, err := d.now.Tree.Template(marker).Partial(scope, nil)
		if list, ok := jsontext.Object(config)["source"].([]any); ok && err == nil {
			lengths[marker] = len(list)
		}
	}
	return lengths
}

// shorten cuts a value for the audit.
func shorten(s string) string {
	const most = 500
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// skip marks the step that failed as skipped.
func (d *draft) skip(context.Context) error {
	if !d.opt.Skip {
		if d.opt.Outputs != nil {
			d.problem("Outputs are those of a step that is skipped; set Skip too")
		}
		return nil
	}
	pos := d.x.Position
	switch {
	case pos.Step >= d.now.Tree.Len() || !d.now.Tree.Works(pos.Step):
		d.problem("Skip: the execution does not stand at a step, but at a marker or behind the last step, so there is none to skip")
		return nil
	case d.x.StepAttempts == 0:
		d.problem("Skip: %s has not failed; only a step that was attempted can be skipped", d.label(d.now, pos.Step))
		return nil
	case strings.TrimSpace(d.opt.By.Reason) == "":
		d.problem("Skip: By.Reason is required, since the audit says why a step was skipped")
		return nil
	}
	typ, outputs := d.now.Types[pos.Step], json.RawMessage("{}")
	if d.opt.Outputs != nil {
		raw, err := jsontext.Append(nil, d.opt.Outputs)
		if err != nil {
			d.problem("Outputs: %v", err)
			return nil
		}
		outputs = raw
		if typ != nil {
			for _, p := range checkOutputs(typ, jsontext.Object(raw)) {
				d.problem("Outputs: %s %s", p.Field, p.Message)
			}
		}
	}
	walk, err := d.now.Tree.Walk(pos, d.vals)
	if err != nil {
		d.problem("Skip: %v", err)
		return nil
	}
	d.skipAt(walk, outputs)
	return nil
}

// skipAt makes the record of the skipped step and goes past it.
func (d *draft) skipAt(walk *flow.Walk, outputs json.RawMessage) {
	pos := d.x.Position
	spec := d.now.Tree.Spec(pos.Step)
	typ := spec.Type
	if t := d.now.Types[pos.Step]; t != nil {
		typ = t.Key()
	}
	c := &d.plan.Change
	c.Skipped = &courier.StepExecution{
		Step: pos.Step, ID: spec.ID, Type: typ, Iteration: walk.Iteration(), Total: walk.Total(),
		Attempt: d.x.StepAttempts, State: courier.StepSkipped, Reason: courier.ReasonOperator, Error: d.opt.By.Reason, Outputs: outputs,
	}
	walk.Advance()
	d.move(walk.Position(), 0, d.x.EarlierStarts)
	d.note("%s was skipped", d.label(d.now, pos.Step))
	d.repairs() // an execution with repairs keeps its start numbers
}
