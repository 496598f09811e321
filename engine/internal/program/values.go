package program

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
)

// Values are the values of one execution: parameters, system values and the outputs
// in scope, by step. It implements flow.Values. Its methods may be called by one
// goroutine at a time; see [Scope].
type Values struct {
	program *Program
	job     map[string]any
	chain   map[string]any // outputs by member, of a chain's members; nil for most
	params  map[string]any
	raw     json.RawMessage // params as they were stored
	steps   []*outputs
	loops   map[int]*loopResult // of loops that are over, by marker; nil for most
	failed  func(marker int, outer []int) ([]courier.ItemFailure, int)
	rescued func(marker int, outer []int) ([]courier.ItemFailure, int)
	ending  *Ending                // of the finally part; nil outside of it
	errors  map[int]map[string]any // of blocks that are rescued, by marker; nil for most
	changes []courier.ValueChange
	of      *courier.Execution
}

// outputs are what a step's latest completed attempt left, with what operators have
// changed of them.
type outputs struct {
	raw     json.RawMessage
	changed map[string]json.RawMessage // nil for most
	null    bool                       // what has no value reads null, whatever its name
	decoded map[string]any             // made when first asked for
}

// NewValues returns the values of an execution whose workspace is a directory; no
// step has outputs yet.
func NewValues(p *Program, x *courier.Execution, workspace string) *Values {
	return &Values{
		program: p,
		of:      x,
		raw:     x.Params,
		steps:   make([]*outputs, len(p.Types)),
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
func (v *Values) Value(head, name string) (any, bool) {
	switch head {
	case "job":
		if v.ending != nil {
			if x, ok := v.ending.value(name); ok {
				return x, true
			}
		}
		x, ok := v.job[name]
		return x, ok
	case "params":
		x, ok := v.Params()[name]
		return x, ok
	case "chain":
		x, ok := v.chain[name]
		return x, ok
	}
	i, err := strconv.Atoi(head)
	if err != nil || i < 0 || i >= len(v.steps) {
		return nil, false
	}
	if v.steps[i] == nil {
		if e := v.errors[i]; e != nil && name == resultError {
			return e, true
		}
		return v.loops[i].value(name)
	}
	if x, ok := v.steps[i].object()[name]; ok || v.steps[i].null {
		return x, true
	}
	if t := v.program.Types[i]; t != nil {
		p, ok := t.Output().Property(name)
		return nil, ok && p.Name == name
	}
	return nil, false
}

// Keys returns the keys of all values.
func (v *Values) Keys() []string {
	var keys []string
	for name := range v.job {
		keys = append(keys, "job."+name)
	}
	if v.ending != nil {
		for _, name := range endingNames {
			keys = append(keys, "job."+name)
		}
	}
	for name := range v.Params() {
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
	for marker := range v.errors {
		keys = append(keys, strconv.Itoa(marker)+"."+resultError)
	}
	for marker := range v.loops {
		for _, name := range resultNames {
			keys = append(keys, strconv.Itoa(marker)+"."+name)
		}
	}
	slices.Sort(keys)
	return keys
}

// Forget drops the outputs of the entries first to last.
func (v *Values) Forget(first, last int) {
	clear(v.steps[first : last+1])
	maps.DeleteFunc(v.loops, func(marker int, _ *loopResult) bool { return first <= marker && marker <= last })
	maps.DeleteFunc(v.errors, func(marker int, _ map[string]any) bool { return first <= marker && marker <= last })
}

// Set sets the outputs of a step.
func (v *Values) Set(step int, raw json.RawMessage) { v.steps[step] = &outputs{raw: raw} }

// SetMembers sets the outputs of members of a chain, by member; nil for none.
func (v *Values) SetMembers(outputs map[string]any) { v.chain = outputs }

// Unset removes system values, so that references to them have no value.
func (v *Values) Unset(names ...string) {
	for _, name := range names {
		delete(v.job, name)
	}
}

// Params returns the parameters by name. After the first call, several goroutines may
// use the values as long as none changes them.
func (v *Values) Params() map[string]any {
	if v.params == nil {
		v.params = jsontext.Object(v.raw)
		for _, c := range v.changes {
			if c.Step < 0 {
				v.params[c.Name] = decoded(c.Value)
			}
		}
	}
	return v.params
}

func (o *outputs) object() map[string]any {
	if o.decoded == nil {
		o.decoded = jsontext.Object(o.raw)
		for name, raw := range o.changed {
			o.decoded[name] = decoded(raw)
		}
	}
	return o.decoded
}

// decoded returns a value that was stored as JSON; nil if it is none.
func decoded(raw json.RawMessage) any {
	x, err := jsontext.Parse(raw)
	if err != nil {
		return nil
	}
	return x
}

// Outputs returns the outputs of all steps by name. Of steps that have an output of the
// same name, it is that of the last one.
func (v *Values) Outputs() map[string]any {
	all := make(map[string]any)
	for _, o := range v.steps {
		if o != nil {
			maps.Copy(all, o.object())
		}
	}
	return all
}

// Snapshot returns all values by key; the outputs of steps with an id also by that.
func (v *Values) Snapshot() map[string]any {
	all := make(map[string]any)
	for name, x := range v.job {
		all["job."+name] = x
	}
	if v.ending != nil {
		for _, name := range endingNames {
			all["job."+name], _ = v.ending.value(name)
		}
	}
	for name, x := range v.Params() {
		all["params."+name] = x
	}
	for member, x := range v.chain {
		all["chain."+member] = x
	}
	for i, o := range v.steps {
		if o != nil {
			id := v.program.Job.Steps[i].ID
			for name, x := range o.object() {
				all[strconv.Itoa(i)+"."+name] = x
				if id != "" {
					all[id+"."+name] = x
				}
			}
		}
	}
	for marker, e := range v.errors {
		all[strconv.Itoa(marker)+"."+resultError] = e
		if id := v.program.Job.Steps[marker].ID; id != "" {
			all[id+"."+resultError] = e
		}
	}
	for marker, l := range v.loops {
		id := v.program.Job.Steps[marker].ID
		for _, name := range resultNames {
			x, _ := l.value(name)
			all[strconv.Itoa(marker)+"."+name] = x
			if id != "" {
				all[id+"."+name] = x
			}
		}
	}
	return all
}

// A Scope gives an attempt access to values until it is closed, when the attempt is
// over or cut off: the engine goes on changing the values. The zero value is closed.
// Its methods may be called by several goroutines.
type Scope struct {
	mu    sync.Mutex
	scope courier.Scope
}

// Open gives access to values.
func (s *Scope) Open(values courier.Scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scope = values
}

// Close ends the access: no key has a value any more.
func (s *Scope) Close() { s.Open(nil) }

// Value returns a value while the scope is open.
func (s *Scope) Value(head, name string) (any, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scope == nil {
		return nil, false
	}
	return s.scope.Value(head, name)
}

// Keys returns the keys of all values while the scope is open.
func (s *Scope) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scope == nil {
		return nil
	}
	return s.scope.Keys()
}
