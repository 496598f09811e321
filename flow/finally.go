package flow

import (
	"slices"
	"time"

	"github.com/courierhq/courier"
)

// finallyTimeout is how long a finally part may take that has no timeout of its own.
const finallyTimeout = 5 * time.Minute

// The values of an execution that only its finally part has.
const (
	jobOutcome = "outcome"
	jobError   = "error"
	jobFailed  = "failed"
	jobRescued = "rescued"
)

// finallyValues are the values job.* of a finally part.
var finallyValues = []string{jobOutcome, jobError, jobFailed, jobRescued}

// toFinally takes a flow.finally into the tree.
func (p *parser) toFinally(i int) {
	p.marker(i, nil)
	top := &p.open[len(p.open)-1]
	switch {
	case top.block >= 0:
		p.broken = true
		p.problem(i, "", "stands inside the %s of step %d, but belongs behind the last step, outside of all blocks; is a flow.end missing before it?", p.typeOf(top.node), top.node.Index())
	case p.tree.finally >= 0:
		p.broken = true
		p.problem(i, "", "is the second flow.finally; the first one is step %d; remove one of them", p.tree.finally)
	default:
		p.tree.finally, p.tree.last = i, new(List)
		top.list = p.tree.last
	}
}

// checkFinally looks at the flow.finally when all is read.
func (p *parser) checkFinally() {
	t := p.tree
	if t.finally < 0 || p.broken {
		return
	}
	works := func(from, to int) bool {
		return slices.ContainsFunc(t.entries[from:to], func(e entry) bool { return e.kind == work })
	}
	if !works(0, t.finally) {
		p.problem(t.finally, "", "there is no step before it; add the steps that the job consists of, or remove it")
	}
	if !works(t.finally+1, t.declared) {
		p.problem(t.finally, "", "there is no step behind it; add those that run however the others end, or remove it")
	}
}

// Finally returns the nodes behind the flow.finally; nil if there is none. The caller must
// not change it.
func (t *Tree) Finally() *List { return t.last }

// FinallyMarker returns the index of the flow.finally; -1 if there is none.
func (t *Tree) FinallyMarker() int { return t.finally }

// InFinally reports whether entry i lies behind the flow.finally.
func (t *Tree) InFinally(i int) bool { return t.finally >= 0 && t.finally < i && i < t.declared }

// BeginFinally returns the position at which the finally part begins.
func (t *Tree) BeginFinally() courier.Position { return courier.Position{Step: t.finally + 1} }

// FinallyTimeout returns how long the finally part may take; 0 if any time.
func (t *Tree) FinallyTimeout() time.Duration {
	if own := t.steps[t.finally].Timeout; own != nil {
		return *own
	}
	return finallyTimeout
}

// FinallyPolicy returns the failure policy of the steps behind the flow.finally that have
// none of their own: that of the marker, or else retry_step with the figures of the job's.
func (t *Tree) FinallyPolicy(job courier.FailurePolicy) courier.FailurePolicy {
	if own := t.steps[t.finally].FailurePolicy; !own.IsZero() {
		return own
	}
	job.Type = courier.RetryStep
	return job
}

// BeginFinally leaves all loops, wherever the walk stands, and goes to the finally part. The
// values in scope stay. Outputs of earlier steps without a value read null there.
func (w *Walk) BeginFinally() {
	w.stoppedAt = w.Position()
	w.inFinally, w.loops, w.bound, w.step = true, nil, 0, w.tree.finally+1
}

// FinallyWalk returns a walk at position p in the finally part of an execution that had reached
// the position came. V must hold the values that were in scope at came, and those of the steps
// in the finally part that are in scope at p.
func (t *Tree) FinallyWalk(came, p courier.Position, v Values) (*Walk, error) {
	if p.Step < len(t.steps) && !t.InFinally(p.Step) {
		return nil, misfit(p)
	}
	w := &Walk{tree: t, values: v, inFinally: true, stoppedAt: came}
	if err := w.Seek(p); err != nil {
		return nil, err
	}
	return w, nil
}

// valueBefore returns a value of an entry before the finally part, in which the walk is: null
// if the execution has not come as far.
func (w *Walk) valueBefore(i int, head, name string) (any, bool) {
	var v any
	ok := false
	b := w.tree.blockAt(i)
	switch {
	case b != nil && Compare(w.stoppedAt, courier.Position{Step: i}) <= 0: // it was not reached
	case b != nil && b.policy != nil && name != loopError && b.open < w.stoppedAt.Step && w.stoppedAt.Step <= b.end: // it has not ended
	case b != nil && b.policy != nil && name != loopError:
		v, ok = w.result(b, head, name)
	case b != nil && b.rescue != nil:
		v, ok = w.tryError(b, head)
	default:
		v, ok = w.values.Value(head, name)
	}
	if !ok {
		return nil, true
	}
	return v, true
}

// blockAt is the block whose first marker stands at an index, or nil.
func (t *Tree) blockAt(i int) *block {
	if i < 0 || i >= len(t.entries) || !t.entries[i].kind.opens() {
		return nil
	}
	return t.blocks[t.entries[i].block]
}

// ofFinally checks a reference to a value that only the finally part has.
func (u *use) ofFinally() *courier.Schema {
	switch {
	case !u.broken && (u.ofJob() || !u.tree.InFinally(u.step)):
		u.problem("has a value only in the finally part, behind a flow.finally")
		return nil
	case u.Ref.Name == jobOutcome:
		return u.path(&courier.Schema{Type: "string"}, u.Ref.Name, u.Ref.Path)
	case u.Ref.Name == jobError:
		return u.path(jobErrorSchema, u.Ref.Name, u.Ref.Path)
	}
	return u.path(&courier.Schema{Type: "array", Items: failedItem}, u.Ref.Name, u.Ref.Path)
}

// jobErrorSchema is what is known of a [JobError].
var jobErrorSchema = &courier.Schema{Type: "object", Properties: errorSchema.Properties[:5]}

// JobError returns the value job.error: an object as [ErrorValue] makes it, without the attempts.
// If the execution has not failed, all its fields are null; step is also null if no step is to
// blame.
func JobError(f *courier.Failure) any {
	if f == nil {
		return map[string]any{"step": nil, "id": nil, "type": nil, "class": nil, "message": nil}
	}
	v := map[string]any{"step": nil, "id": f.ID, "type": f.Type, "class": string(f.Reason), "message": f.Message}
	if f.Step >= 0 {
		v["step"] = number(f.Step)
	}
	return v
}
