package courier

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/courierhq/courier/internal/errtext"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/strictjson"
)

// A RequiredStatus says which outcomes of an execution meet a dependency: a
// [JobDependency], or a dependency of a member of a chain.
type RequiredStatus string

// The values of RequiredStatus.
const (
	RequireCompleted RequiredStatus = "completed"
	RequireAny       RequiredStatus = "any"
)

// A JobDependency says how another job must have ended before an execution of the job
// with the dependency begins. It is met if the most recently created execution of the
// other job has ended as required, in a chain or outside. In JSON it is an object, or
// only the job's name.
//
// It is checked as long as the execution waits, not only once: if an execution of the
// other job is created meanwhile, that one counts. If the other job has no execution, the
// dependency is not met.
type JobDependency struct {
	Job string `json:"job"`
	// RunOnFailure accepts an execution that failed, besides one that completed.
	RunOnFailure bool `json:"run_on_failure,omitempty"`
	// RequiredStatus is "completed" or "any", which accepts every outcome. Empty means
	// completed.
	RequiredStatus RequiredStatus `json:"required_status,omitempty"`
	// OnUnmet says what happens to an execution that is created while the dependency is
	// not met: "hold" or "refuse". Empty means hold.
	OnUnmet OnUnmet `json:"on_unmet,omitempty"`
}

// An OnUnmet says what happens to an execution whose dependencies are not met.
type OnUnmet string

// The values of OnUnmet.
const (
	// HoldUnmet creates the execution, which waits until they are met.
	HoldUnmet OnUnmet = "hold"
	// RefuseUnmet does not create the execution; see [DependencyError]. For a member
	// of a chain it means the same as HoldUnmet, because no caller could receive the
	// error.
	RefuseUnmet OnUnmet = "refuse"
)

// MetBy reports whether the dependency is met while the most recent execution of its job
// is in state s; empty means that the job has no execution.
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

// An UnmetDependency is a dependency that is not met.
type UnmetDependency struct {
	Job string `json:"job"`
	// Execution is the most recent one of that job, and State its state; empty
	// if there is none.
	Execution ExecutionID `json:"execution_id,omitempty"`
	State     State       `json:"state,omitempty"`
	Reason    string      `json:"reason"` // for people
}

// Unmet returns the description of the dependency for an execution that waits for it,
// given the most recent execution of its job; id and s are empty if there is none.
// The dependency must not be met.
func (d JobDependency) Unmet(id ExecutionID, s State) UnmetDependency {
	w := UnmetDependency{Job: d.Job, Execution: id, State: s}
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

// A DependencyError says that an execution was not created because its job has
// unmet dependencies with RefuseUnmet. It matches [ErrConflict].
type DependencyError struct {
	Job   string
	Waits []UnmetDependency // never empty
}

// Error names the unmet dependencies and says what to do.
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

// A CycleError says that a job was not saved because it would wait for itself. It
// matches [ErrInvalid].
type CycleError struct {
	Path []string // each depends on the next; the last is the first again
}

// Error shows the cycle.
func (e *CycleError) Error() string {
	return "depends on itself: " + strings.Join(e.Path, " -> ") + "; each would wait for the next"
}

// Is reports whether target is [ErrInvalid].
func (e *CycleError) Is(target error) bool { return target == ErrInvalid }

// UnmarshalJSON reads a job's name, or an object, strictly.
func (d *JobDependency) UnmarshalJSON(data []byte) error {
	return strictjson.Read(d, data, (*JobDependency).read)
}

func (d *JobDependency) read(dec *json.Decoder) error {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return err
	}
	if raw[0] == '"' {
		return json.Unmarshal(raw, &d.Job)
	}
	return strictjson.ReadObject(strictjson.NewDecoder(raw), strictjson.Fields{
		"job":             strictjson.Into(&d.Job),
		"run_on_failure":  strictjson.Into(&d.RunOnFailure),
		"required_status": strictjson.Into(&d.RequiredStatus),
		"on_unmet":        strictjson.Into(&d.OnUnmet),
	})
}

// Check returns the problems of fields whose values are not allowed. Each has the
// name of the field and a description.
func (d JobDependency) Check() (problems []Problem) {
	bad := func(field, what, value string, values []string) {
		problems = append(problems, Problem{Step: -1, Field: field, Message: fmt.Sprintf("unknown %s %q; %s", what, errtext.Shorten(value, 60), nearest.DidYouMean(value, values))})
	}
	if statuses := []string{string(RequireCompleted), string(RequireAny)}; d.RequiredStatus != "" && !slices.Contains(statuses, string(d.RequiredStatus)) {
		bad("required_status", "status", string(d.RequiredStatus), statuses)
	}
	if ways := []string{string(HoldUnmet), string(RefuseUnmet)}; d.OnUnmet != "" && !slices.Contains(ways, string(d.OnUnmet)) {
		bad("on_unmet", "way", string(d.OnUnmet), ways)
	}
	return problems
}
