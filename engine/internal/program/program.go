// Package program has jobs in the form in which the engine executes them: the version
// of a job as it was read, with its steps as a tree; the values that its steps refer
// to; and what a new execution of it consists of.
package program

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/store"
)

// A Program is a version of a job, as it was read. It is immutable, but for Types and
// NotRunnable, which [Cache.ToRun] makes anew. Reading needs neither step types nor a
// definition without problems: NotRunnable says whether the program can be executed
// by this engine.
type Program struct {
	Job         courier.Job // with the steps of [WithOutputs]
	Version     int
	Tree        *flow.Tree          // nil if the blocks of the job are broken
	Params      *flow.Params        // of the job; nil if it takes any
	Types       []*courier.StepType // by index; nil for markers, and where the type is not registered
	Keys        []string            // of all step types, and [store.FinallyType], in order
	Members     []string            // the members of a chain whose outputs its steps refer to
	NotRunnable error               // why this engine can't execute it; nil if it can
	result      *flow.Template      // of Job.Result; nil if there is none
	declared    int                 // the number of steps in the definition
	failed      map[int]bool        // the loops to whose failed items something refers, by marker; nil for most

	expected    *TimeOfDay // of Job.ExpectedBy; nil if there is none
	expectedErr error      // why it can't be read
}

// Definition returns the job with its version.
func (p *Program) Definition() courier.Job {
	job := p.Job
	job.Version, job.Steps = p.Version, job.Steps[:p.declared:p.declared]
	return job
}

// Template returns the configuration of a step, for its type.
func (p *Program) Template(step int) *flow.Template {
	return p.Tree.Template(step).For(p.Types[step].Config(), p.Tree.Spec(step).AllowParent, p.Params)
}

// Compile returns the program of a job as it is defined. A nil tree is made of the steps
// of [WithOutputs].
func Compile(job courier.Job, version int, tree *flow.Tree, reg *courier.Registry) *Program {
	p := &Program{declared: len(job.Steps), Version: version, Tree: tree, Params: flow.ReadParams(job.Params)}
	job = WithOutputs(job)
	p.Job = job
	if tree == nil {
		if p.Tree, p.NotRunnable = flow.Parse(job.Steps[:p.declared], job.Steps[p.declared:]...); p.NotRunnable != nil {
			p.Tree = nil
		}
	}
	if job.Result != "" {
		p.result, _ = flow.Compile(map[string]any{"result": job.Result}) // with problems, it has no value
	}
	if job.ExpectedBy != "" {
		p.expected, p.expectedErr = ParseTimeOfDay(job.ExpectedBy)
	}
	p.Types = make([]*courier.StepType, len(p.Job.Steps))
	for i, s := range p.Job.Steps {
		if IsMarker(s.Type) {
			continue
		}
		key := strings.ToLower(s.Type) // workers claim by aliases too
		if t, ok := reg.Lookup(s.Type); ok {
			p.Types[i], key = t, t.Key()
		} else if p.NotRunnable == nil {
			p.NotRunnable = fmt.Errorf("%s: the step type is not registered here; %s", courier.StepLabel(i, s.ID, s.Type), nearest.DidYouMean(s.Type, reg.Keys()))
		}
		p.Keys = append(p.Keys, key)
	}
	if p.HasFinally() {
		p.Keys = append(p.Keys, store.FinallyType)
	}
	slices.Sort(p.Keys)
	p.Keys = slices.Compact(p.Keys)
	for _, r := range chain.References(job.Steps) {
		if !slices.Contains(p.Members, r.Member) {
			p.Members = append(p.Members, r.Member)
		}
	}
	p.noteFailed()
	return p
}

// HasFinally reports whether the job has a finally part.
func (p *Program) HasFinally() bool { return p.Tree != nil && p.Tree.FinallyMarker() >= 0 }

// Policy returns the failure policy that holds for a step.
func (p *Program) Policy(step int) courier.FailurePolicy {
	if own := p.Tree.Spec(step).FailurePolicy; !own.IsZero() {
		return own
	}
	if p.Tree.InFinally(step) {
		return p.Tree.FinallyPolicy(p.Job.FailurePolicy)
	}
	return p.Job.FailurePolicy
}

// maxResult is how many bytes the result of an execution may have as JSON.
const maxResult = 1 << 20

// Result returns the result of an execution that completes with values: nil if the job
// has none, and null if it has no value, with the reason.
func (p *Program) Result(vals courier.Scope) (json.RawMessage, error) {
	if p.result == nil {
		return nil, nil
	}
	null := json.RawMessage("null")
	config, err := p.result.Render(nil, vals, nil)
	if err != nil {
		return null, err
	}
	var v struct {
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(config, &v); err != nil {
		return null, err
	}
	if len(v.Result) > maxResult {
		return null, fmt.Errorf("the result has %d bytes, more than %d; read the outputs of the step, or write the result into a file", len(v.Result), maxResult)
	}
	return v.Result, nil
}

// firstType returns the key of the type of the first step; empty if that is a marker,
// or there is none.
func (p *Program) firstType() string {
	switch {
	case len(p.Job.Steps) == 0 || IsMarker(p.Job.Steps[0].Type):
		return ""
	case p.Types[0] != nil:
		return p.Types[0].Key()
	}
	return strings.ToLower(p.Job.Steps[0].Type)
}

// IsMarker reports whether a type is one of control flow, which no registry has.
func IsMarker(typ string) bool { return strings.HasPrefix(strings.ToLower(typ), "flow.") }
