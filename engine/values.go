package engine

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/courierhq/courier/internal/jsontext"

	"github.com/courierhq/courier"
)

// values are the values of one execution: parameters, system values and the
// outputs in scope, by step. It implements flow.Values and is used by one
// goroutine at a time; see attemptScope.
type values struct {
	program *program
	job     map[string]any
	chain   map[string]any // outputs by member, of a chain's members; nil for most
	params  map[string]any
	raw     json.RawMessage // params as they were stored
	steps   []*outputs
}

// outputs are what a step's latest completed attempt left.
type outputs struct {
	raw     json.RawMessage
	decoded map[string]any // made when first asked for
}

func newValues(p *program, x *courier.Execution, workspace string) *values {
	return &values{
		program: p,
		raw:     x.Params,
		steps:   make([]*outputs, len(p.types)),
		job: map[string]any{
			"execution_id": string(x.ID),
			"name":         x.Job,
			"workspace":    workspace,
			"started_at":   x.StartedAt.Format(time.RFC3339Nano),
			"attempt":      json.Number(strconv.Itoa(max(1, x.Attempt))),
		},
	}
}

// Value returns what head.name refers to; head is a decimal index, "params",
// "job" or "chain". An output that the step's type declares, but the step left out, is
// null.
func (v *values) Value(head, name string) (any, bool) {
	switch head {
	case "job":
		x, ok := v.job[name]
		return x, ok
	case "params":
		x, ok := v.paramMap()[name]
		return x, ok
	case "chain":
		x, ok := v.chain[name]
		return x, ok
	}
	i, err := strconv.Atoi(head)
	if err != nil || i < 0 || i >= len(v.steps) || v.steps[i] == nil {
		return nil, false
	}
	if x, ok := v.steps[i].object()[name]; ok {
		return x, true
	}
	if t := v.program.types[i]; t != nil {
		p, ok := t.Output().Property(name)
		return nil, ok && p.Name == name
	}
	return nil, false
}

// Keys returns the keys of all values.
func (v *values) Keys() []string {
	var keys []string
	for name := range v.job {
		keys = append(keys, "job."+name)
	}
	for name := range v.paramMap() {
		keys = append(keys, "params."+name)
	}
	for member, x := range v.chain {
		keys = append(keys, "chain."+member)
		if outputs, ok := x.(map[string]any); ok {
			for name := range outputs {
				keys = append(keys, "chain."+member+"."+name)
			}
		}
	}
	for i, o := range v.steps {
		if o != nil {
			for name := range o.object() {
				keys = append(keys, strconv.Itoa(i)+"."+name)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// Forget drops the outputs of the steps first to last.
func (v *values) Forget(first, last int) { clear(v.steps[first : last+1]) }

func (v *values) set(step int, raw json.RawMessage) { v.steps[step] = &outputs{raw: raw} }

func (v *values) paramMap() map[string]any {
	if v.params == nil {
		v.params = object(v.raw)
	}
	return v.params
}

func (o *outputs) object() map[string]any {
	if o.decoded == nil {
		o.decoded = object(o.raw)
	}
	return o.decoded
}

// object decodes what was stored as a JSON object.
func object(raw json.RawMessage) map[string]any {
	if len(raw) > 0 {
		if x, err := jsontext.Parse(raw); err == nil {
			if m, ok := x.(map[string]any); ok {
				return m
			}
		}
	}
	return map[string]any{}
}

// snapshot returns all values by key.
func (v *values) snapshot() map[string]any {
	all := make(map[string]any)
	for name, x := range v.job {
		all["job."+name] = x
	}
	for name, x := range v.paramMap() {
		all["params."+name] = x
	}
	for member, x := range v.chain {
		all["chain."+member] = x
	}
	for i, o := range v.steps {
		if o != nil {
			for name, x := range maps.All(o.object()) {
				all[strconv.Itoa(i)+"."+name] = x
			}
		}
	}
	return all
}

// restore puts the records that are in scope at a position back. Latest is in
// the order of the steps, which is also that in which they ended: a record that
// is older than one before it is left from the first pass of a loop that was
// started again, and took another branch. Of a job with broken blocks, which
// can't have run further, all records are in scope.
func (v *values) restore(latest []courier.StepExecution, pos courier.Position) {
	newest := int64(0)
	for i := range latest {
		r := &latest[i]
		if t := v.program.tree; t != nil && !t.InScope(pos, r) || r.Seq < newest {
			continue
		}
		newest = r.Seq
		if r.State == courier.StepCompleted {
			v.set(r.Step, r.Outputs)
		}
	}
}

// attemptScope is the values as an attempt sees them. When the attempt is over,
// or cut off, it sees nothing any more, since the engine goes on changing them.
type attemptScope struct {
	mu    sync.Mutex
	scope courier.Scope
}

// Value returns a value while the attempt lasts.
func (s *attemptScope) Value(head, name string) (any, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scope == nil {
		return nil, false
	}
	return s.scope.Value(head, name)
}

// Keys returns the keys of all values while the attempt lasts.
func (s *attemptScope) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scope == nil {
		return nil
	}
	return s.scope.Keys()
}

func (s *attemptScope) end() {
	s.mu.Lock()
	s.scope = nil
	s.mu.Unlock()
}
