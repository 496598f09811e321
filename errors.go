package courier

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/courierhq/courier/internal/errtext"
	"github.com/courierhq/courier/internal/reference"
	"github.com/courierhq/courier/internal/safename"
)

// Errors that callers test for with [errors.Is].
var (
	// ErrNotFound says that there is no such job, version or execution.
	ErrNotFound = reference.ErrNotFound
	// ErrConflict says that the state is not the one that the caller assumed. Nothing
	// was changed.
	ErrConflict = errors.New("courier: conflict")
	// ErrLeaseLost says that another worker has taken over the execution, or may have
	// done so. Nothing was changed.
	ErrLeaseLost = errors.New("courier: lease lost")
	// ErrCancelled is the outcome of a cancelled execution, and the cause with
	// which the context of its running step ends.
	ErrCancelled = errors.New("courier: cancelled")
	// ErrStopped is the cause with which the context of a running step ends
	// when its engine stops. The execution goes back to the queue.
	ErrStopped = errors.New("courier: engine stopped")
	// ErrTimeout is the cause with which the context of a step ends when its
	// timeout, its stall timeout or the execution's timeout fires.
	ErrTimeout = errors.New("courier: timed out")
	// ErrInvalid is matched by every error about a definition, a parameter or
	// an option that can't be accepted as it stands.
	ErrInvalid = errors.New("courier: invalid")
)

// Errorf returns an error that matches kind, such as [ErrNotFound], and the errors
// that the format wraps by %w. Its text is the formatted text alone: that of kind
// is not added.
func Errorf(kind error, format string, args ...any) error {
	return kindError{fmt.Errorf(format, args...), kind}
}

type kindError struct{ err, kind error }

func (e kindError) Error() string   { return e.err.Error() }
func (e kindError) Unwrap() []error { return []error{e.err, e.kind} }

// A StepError says which step of which execution failed, and why.
type StepError struct {
	Execution ExecutionID
	Job       string
	Step      int // index in the flat list; -1 when no step is to blame
	ID        string
	Type      string
	Iteration []int
	// ItemLabels name the items of the loops around the step, outermost first; nil if they
	// are not known.
	ItemLabels []string
	Attempt    int
	Reason     Reason
	Err        error
}

// Error describes the failure, beginning with the job and the step.
func (e *StepError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "job %q", e.Job)
	if e.Step >= 0 {
		fmt.Fprintf(&b, ": %s", StepLabel(e.Step, e.ID, e.Type))
		if len(e.Iteration) > 0 {
			fmt.Fprintf(&b, ", %s", FormatItems(e.ItemLabels, e.Iteration))
		}
		if e.Attempt > 1 {
			fmt.Fprintf(&b, ", attempt %d", e.Attempt)
		}
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

// Unwrap returns the step's own error. If the error was read from a store, only its text
// is left.
func (e *StepError) Unwrap() error { return e.Err }

func (f *Failure) stepError(e *Execution) *StepError {
	return &StepError{
		Execution: e.ID, Job: e.Job,
		Step: f.Step, ID: f.ID, Type: f.Type, Iteration: f.Iteration, ItemLabels: f.ItemLabels, Attempt: f.Attempt,
		Reason: f.Reason, Err: errors.New(f.Message),
	}
}

// StepLabel returns the name of a step for people: `step 3 "get"
// (sftp.download)`.
func StepLabel(index int, id, typ string) string {
	label := fmt.Sprintf("step %d", index)
	if id != "" {
		label += fmt.Sprintf(" %q", id)
	}
	if typ != "" {
		label += " (" + typ + ")"
	}
	return label
}

// FormatIteration returns an iteration path as text for people: "3" for one loop,
// "3.0" for a loop in a loop, and "" outside loops.
func FormatIteration(path []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(path), " ", "."), "[]")
}

// ParseIteration reads what FormatIteration writes for a path with at least one
// index.
func ParseIteration(text string) ([]int, error) {
	var path []int
	for digits := range strings.SplitSeq(text, ".") {
		n, err := strconv.ParseUint(digits, 10, 31)
		if err != nil {
			return nil, Errorf(ErrInvalid, "%.40q is not the index of an item; it is a number such as 27, or 2.27 in a loop within a loop", text)
		}
		path = append(path, int(n))
	}
	return path, nil
}

// IndexLabel returns the label of an item that has none: its index, which is the last
// element of iteration.
func IndexLabel(iteration []int) string {
	if len(iteration) == 0 {
		return ""
	}
	return strconv.Itoa(iteration[len(iteration)-1])
}

// FormatItem names an item of a loop for people: `item "inv-7.csv" (index 27)`, or
// `item 27` if the label is empty or only the index. Invisible and unprintable
// characters in the label are escaped.
func FormatItem(label string, index int) string {
	if at := strconv.Itoa(index); label == "" || label == at {
		return "item " + at
	}
	return fmt.Sprintf("item %s (index %d)", safename.Quote(label), index)
}

// FormatItems names the items of the loops around a step for people, outermost first, each as
// [FormatItem] does. If labels and iteration differ in length, it returns the path of the
// iteration, as in "iteration 3.0". Outside loops it returns "".
func FormatItems(labels []string, iteration []int) string {
	switch {
	case len(iteration) == 0:
		return ""
	case len(labels) != len(iteration):
		return "iteration " + FormatIteration(iteration)
	}
	items := make([]string, len(labels))
	for i, label := range labels {
		items[i] = FormatItem(label, iteration[i])
	}
	return strings.Join(items, ", ")
}

// A TransitionError says that an execution can't move from one state to another. Nothing
// was changed. It matches ErrConflict.
type TransitionError struct {
	Execution ExecutionID
	From, To  State
	Outcome   State // of an execution whose finally part runs; otherwise empty
}

// Error names both states, and says what can be done in the first.
func (e *TransitionError) Error() string {
	var can []string
	for _, s := range moves[e.From] {
		can = append(can, string(s))
	}
	if e.Outcome != "" {
		return fmt.Sprintf("execution %s runs its finally part and will be %s, so it can't become %s; to end that part, cancel it without the finally part; nothing was changed", e.Execution, e.Outcome, e.To)
	}
	next := "its state is final"
	if e.From == e.To {
		return fmt.Sprintf("execution %s is %s already; nothing was changed", e.Execution, e.From)
	}
	if len(can) > 0 {
		next = "from there it can become " + strings.Join(can, ", ")
	}
	return fmt.Sprintf("execution %s is %s and can't become %s; %s; nothing was changed", e.Execution, e.From, e.To, next)
}

// Is reports whether target is [ErrConflict].
func (e *TransitionError) Is(target error) bool { return target == ErrConflict }

// A Problem is one mistake, or one doubtful place, in a definition.
type Problem struct {
	Step    int    `json:"step"` // index in the flat list; -1 for the job itself
	ID      string `json:"id,omitempty"`
	Type    string `json:"type,omitempty"`
	Field   string `json:"field,omitempty"` // such as "config.remote_path" or "failure_policy"
	Message string `json:"message"`         // what is wrong, and what to do
	// File, Line and Column say where it is in a text, from 1; see [Source]. They
	// are zero if the definition was not read from one.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// String begins with the place, the step and the field.
func (p Problem) String() string {
	var parts []string
	switch {
	case p.File != "" && p.Line > 0:
		parts = append(parts, fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column))
	case p.File != "":
		parts = append(parts, p.File)
	case p.Line > 0:
		parts = append(parts, fmt.Sprintf("line %d, column %d", p.Line, p.Column))
	}
	if p.Step >= 0 {
		parts = append(parts, StepLabel(p.Step, p.ID, p.Type))
	}
	if p.Field != "" {
		parts = append(parts, p.Field)
	}
	return strings.Join(append(parts, p.Message), ": ")
}

// A DefinitionError lists everything that is wrong with the definition of a job, or with
// the text of a definition of any kind. It matches [ErrInvalid].
type DefinitionError struct {
	Job      string
	Problems []Problem

	read    string // the kind of definition whose text could not be read; otherwise empty
	name    string // in that text, of a definition that is no job
	partial any    // a pointer to what could be read of that; nil if there is none
}

// Error lists the problems, one per line. After the first 20 it counts the
// rest.
func (e *DefinitionError) Error() string {
	operation, note := "define job", errtext.NothingSaved
	switch {
	case e.read != "":
		operation, note = "read "+e.read, "" // which saves nothing anyway
	}
	return errtext.Refused(operation, e.Job+e.name, note, e.Problems)
}

// Is reports whether target is [ErrInvalid].
func (e *DefinitionError) Is(target error) bool { return target == ErrInvalid }

// A ParamsError lists everything that is wrong with the parameters of an execution that
// was not created, as one problem for each parameter. The Field of a problem has the form
// "params.day". The error contains no value of a secret parameter. It matches
// [ErrInvalid].
type ParamsError struct{ Problems []Problem }

// Error lists the problems, one per line. After the first 20 it counts the
// rest.
func (e *ParamsError) Error() string { return errtext.Lines(e.Problems) }

// Is reports whether target is [ErrInvalid].
func (e *ParamsError) Is(target error) bool { return target == ErrInvalid }
