package courier

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/courierhq/courier/internal/nearest"
)

// A JobDependency says what another job must have come to before an execution of
// the job that has it begins: that job's most recent execution, the one that was
// created last, has ended as required. In which chain it is, or in none, does not
// matter. In JSON it is an object, or just the job's name.
//
// It is looked at while the execution waits, not once and for all: an execution of
// the other job that is created meanwhile is the most recent one from then on.
// While there is none at all, the dependency is not met.
type JobDependency struct {
	Job string `json:"job"`
	// RunOnFailure accepts an execution that failed, besides one that completed.
	RunOnFailure bool `json:"run_on_failure,omitempty"`
	// RequiredStatus is "completed" or "any", which accepts every end. Empty
	// means completed.
	RequiredStatus RequiredStatus `json:"required_status,omitempty"`
	// OnUnmet is "hold" or "refuse": what becomes of an execution that is
	// created while the dependency is not met. Empty means hold.
	OnUnmet OnUnmet `json:"on_unmet,omitempty"`
}

// An OnUnmet says what becomes of an execution whose dependencies are not met.
type OnUnmet string

// The values of OnUnmet.
const (
	// HoldUnmet creates the execution, which waits until they are met.
	HoldUnmet OnUnmet = "hold"
	// RefuseUnmet does not create it; see [DependencyError]. Members of a chain
	// are held all the same, since there is nobody to whom it could be refused.
	RefuseUnmet OnUnmet = "refuse"
)

// MetBy reports whether the dependency is met while the most recent execution of
// its job is in the given state; empty if there is none.
func (d JobDependency) MetBy(s State) bool {
	switch s {
	case Completed:
		return true
	case Failed:
		return d.RunOnFailure || d.RequiredStatus == RequireAny
	case Cancelled:
		return d.RequiredStatus == RequireAny
	}
	return false
}

// A Wait is a dependency that is not met.
type Wait struct {
	Job string `json:"job"`
	// Execution is the most recent one of that job, and State its state; empty
	// if there is none.
	Execution ExecutionID `json:"execution_id,omitempty"`
	State     State       `json:"state,omitempty"`
	Reason    string      `json:"reason"` // for people
}

// Wait returns what an execution waits for, given the most recent one of the
// dependency's job; both are empty if there is none. The dependency is not met.
func (d JobDependency) Wait(id ExecutionID, s State) Wait {
	w := Wait{Job: d.Job, Execution: id, State: s}
	needed := "complete"
	if d.RunOnFailure {
		needed = "complete or fail"
	}
	switch {
	case id == "":
		w.Reason = fmt.Sprintf("job %q has no execution yet", d.Job)
	case s == Failed:
		w.Reason = fmt.Sprintf("execution %s of job %q failed, and has to %s", id, d.Job, needed)
	case s == Cancelled:
		w.Reason = fmt.Sprintf("execution %s of job %q was cancelled; one has to %s", id, d.Job, needed)
	default:
		w.Reason = fmt.Sprintf("execution %s of job %q is %s", id, d.Job, s)
	}
	return w
}

// A DependencyError says that an execution was not created since dependencies of
// its job that refuse are not met. It matches [ErrConflict].
type DependencyError struct {
	Job   string
	Waits []Wait // never empty
}

// Error says what stands in the way, and what to do.
func (e *DependencyError) Error() string {
	reasons := make([]string, len(e.Waits))
	for i, w := range e.Waits {
		reasons[i] = w.Reason
	}
	return fmt.Sprintf(`job %q depends on others: %s; nothing was created; enqueue it again when that has changed, or let the dependency say "on_unmet": "hold"`,
		e.Job, strings.Join(reasons, "; "))
}

// Is reports whether target is [ErrConflict].
func (e *DependencyError) Is(target error) bool { return target == ErrConflict }

// A CycleError says that a job was not saved since it would wait for itself. It
// matches [ErrInvalid].
type CycleError struct {
	Path []string // each depends on the next; the first is there again at the end
}

// Error shows the cycle.
func (e *CycleError) Error() string {
	return "depends on itself: " + strings.Join(e.Path, " -> ") + "; each would wait for the next"
}

// Is reports whether target is [ErrInvalid].
func (e *CycleError) Is(target error) bool { return target == ErrInvalid }

// UnmarshalJSON reads a job's name, or an object, strictly.
func (d *JobDependency) UnmarshalJSON(data []byte) error {
	var n JobDependency
	err := n.read(newReader(data))
	if err == nil {
		*d = n
	}
	return err
}

func (d *JobDependency) read(dec *json.Decoder) error {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return err
	}
	if raw[0] == '"' {
		return json.Unmarshal(raw, &d.Job)
	}
	return readObject(newReader(raw), fields{
		"job":             into(&d.Job),
		"run_on_failure":  into(&d.RunOnFailure),
		"required_status": into(&d.RequiredStatus),
		"on_unmet":        into(&d.OnUnmet),
	})
}

// Check returns the names and descriptions of the fields of the dependency that
// have values that they can't have.
func (d JobDependency) Check() (problems []Problem) {
	bad := func(field, what, value string, values []string) {
		problems = append(problems, Problem{Step: -1, Field: field, Message: fmt.Sprintf("unknown %s %q; %s", what, shorten(value, 60), nearest.DidYouMean(value, values))})
	}
	if statuses := []string{string(RequireCompleted), string(RequireAny)}; d.RequiredStatus != "" && !slices.Contains(statuses, string(d.RequiredStatus)) {
		bad("required_status", "status", string(d.RequiredStatus), statuses)
	}
	if ways := []string{string(HoldUnmet), string(RefuseUnmet)}; d.OnUnmet != "" && !slices.Contains(ways, string(d.OnUnmet)) {
		bad("on_unmet", "way", string(d.OnUnmet), ways)
	}
	return problems
}
