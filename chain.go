package courier

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier/internal/errtext"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/strictjson"
)

// A Chain is a named, versioned group of jobs that depend on each other. It is
// a plain value, as a [Job] is. In JSON it is an object with the names of the
// field tags; names that are not among them are refused, as are repeated ones.
type Chain struct {
	Name        string `json:"name"`                  // 1 to 200 characters, no control characters
	Version     int    `json:"version,omitempty"`     // assigned when the chain is saved, counting from 1
	Description string `json:"description,omitempty"` // for people
	// Params declares the parameters of a chain execution, as [Job.Params] does.
	Params map[string]any `json:"params,omitzero"`
	// Members are the jobs. Those that depend on no other begin at once; the
	// others when what they depend on allows it.
	Members []ChainMember `json:"members"`
}

// A ChainMember is a job in a chain. A chain may contain the same job several times,
// under different names.
type ChainMember struct {
	// Name is what the chain calls the member: a small letter, then small
	// letters, digits, "_", "-". Empty means the name of the job.
	Name string `json:"name,omitempty"`
	Job  string `json:"job"`
	// Version of the job; 0 means the latest when the chain starts. A chain
	// execution keeps the version that it was started with.
	Version int `json:"version,omitempty"`
	// Params are given to the member's execution. They may hold references to
	// the chain's, such as "context:params.day". Params of the chain that the
	// job takes and that are not given here it gets as they are.
	Params   map[string]any `json:"params,omitempty"`
	Priority int16          `json:"priority,omitempty"` // higher is claimed first
	// DependsOn are the members that must have ended before this one begins.
	DependsOn []Dependency `json:"depends_on,omitempty"`
}

// A Dependency says how another member of a chain must have ended before the member
// with the dependency begins. In JSON it is an object, or only the member's name.
type Dependency struct {
	Member string `json:"member"`
	// RunOnFailure accepts a member that failed, or was skipped because of a
	// failure, besides one that completed.
	RunOnFailure bool `json:"run_on_failure,omitempty"`
	// RequiredStatus is "completed" or "any", which accepts every end. Empty
	// means completed.
	RequiredStatus RequiredStatus `json:"required_status,omitempty"`
}

// A RequiredStatus says which ends of an execution meet a dependency.
type RequiredStatus string

// The values of RequiredStatus.
const (
	RequireCompleted RequiredStatus = "completed"
	RequireAny       RequiredStatus = "any"
)

// A ChainExecutionID identifies one execution of a chain. It is a UUIDv7 in its
// usual text form, so ids sort by the time they were made.
type ChainExecutionID string

// A ChainState is the state of a chain execution.
type ChainState string

// The states of a chain execution.
const (
	ChainPending   ChainState = "pending"   // held; nothing has begun
	ChainRunning   ChainState = "running"   // some member is under way, or can be
	ChainCompleted ChainState = "completed" // all members have ended, and no failure counts; final
	ChainFailed    ChainState = "failed"    // all members have ended, and one failed or was cancelled; it can be retried
	ChainPaused    ChainState = "paused"    // by request; nothing runs, and nothing is released
	ChainCancelled ChainState = "cancelled" // given up; final
)

// Ended reports whether the chain execution does not go on by itself: it is
// completed, failed or cancelled. A failed one can still be retried.
func (s ChainState) Ended() bool { return s.Final() || s == ChainFailed }

// Final reports whether s never changes again: completed or cancelled.
func (s ChainState) Final() bool { return s == ChainCompleted || s == ChainCancelled }

// A MemberState is the state of a member of a chain execution: pending or skipped, or
// the state of its execution.
type MemberState string

// The states of members that are not those of an execution.
const (
	MemberPending MemberState = "pending" // has no execution yet
	MemberSkipped MemberState = "skipped" // what it depends on came to something else
)

// ChainOptions are the settings of a new chain execution. The zero value is the default.
type ChainOptions struct {
	Params         map[string]any // the values params.*; any that encoding/json can handle
	Version        int            // of the chain; 0 means the latest
	IdempotencyKey string         // unique per chain; a used one returns the chain execution that used it
	Hold           bool           // creates it in the state pending, until somebody releases it
	By             By             // who requests it; the actor alone is stored
	// Labels and Trace are those of the chain execution and of all executions of its
	// members, as those of [EnqueueOptions]. A retry keeps them, and a rerun the labels.
	Labels map[string]string
	Trace  string
}

// A ChainExecution is one run of one version of a chain.
type ChainExecution struct {
	ID      ChainExecutionID `json:"id"`
	Chain   string           `json:"chain"`
	Version int              `json:"version"` // of the chain; it never changes
	State   ChainState       `json:"state"`
	// Request is what an operator has asked of it and what is not yet done, or
	// still holds: "pause", "cancel", or empty.
	Request RequestKind       `json:"request,omitempty"`
	Members []MemberExecution `json:"members"`          // in the order of the chain's definition
	Params  json.RawMessage   `json:"params,omitempty"` // a JSON object

	CreatedAt time.Time `json:"created_at"`
	StartedAt time.Time `json:"started_at,omitzero"` // when its first members were released
	EndedAt   time.Time `json:"ended_at,omitzero"`   // when it became completed, failed or cancelled

	// Failure says which member is to blame; only that of a failed one.
	Failure        *ChainFailure `json:"failure,omitempty"`
	IdempotencyKey string        `json:"idempotency_key,omitempty"`
	By             string        `json:"by,omitempty"`
	// RerunOf is the chain execution whose parameters this one was started with again.
	RerunOf ChainExecutionID `json:"rerun_of,omitempty"`
	// Labels and Trace are those of all executions of its members; see [Execution].
	Labels map[string]string `json:"labels,omitempty"`
	Trace  string            `json:"trace,omitempty"`
}

// A MemberExecution is the state of a member in a chain execution.
type MemberExecution struct {
	Name      string       `json:"name"`
	Job       string       `json:"job"`
	Version   int          `json:"version"`                // of the job, pinned when the chain was started
	Execution ExecutionID  `json:"execution_id,omitempty"` // the latest; empty until the member is released
	State     MemberState  `json:"state"`
	Reason    string       `json:"reason,omitempty"` // why it was skipped, or what it waits for
	DependsOn []Dependency `json:"depends_on,omitempty"`
}

// A ChainFailure names the first member, in the order of the definition, that
// made a chain fail, and why its execution failed.
type ChainFailure struct {
	Member    string      `json:"member"`
	Execution ExecutionID `json:"execution_id"`
	Message   string      `json:"message"`
}

// Member returns the member with a name, or nil.
func (c *ChainExecution) Member(name string) *MemberExecution {
	for i := range c.Members {
		if c.Members[i].Name == name {
			return &c.Members[i]
		}
	}
	return nil
}

// Err returns nil for a chain execution that did not fail, ErrCancelled for a
// cancelled one, and an error that names the member for a failed one.
func (c *ChainExecution) Err() error {
	switch {
	case c.State == ChainCancelled:
		return ErrCancelled
	case c.State == ChainFailed && c.Failure != nil:
		return fmt.Errorf("chain %q: member %q: %s", c.Chain, c.Failure.Member, c.Failure.Message)
	case c.State == ChainFailed:
		return fmt.Errorf("chain %q failed", c.Chain)
	}
	return nil
}

// A ChainRequestError says that the state of a chain execution does not allow a
// request. Nothing was changed. It matches [ErrConflict].
type ChainRequestError struct {
	Chain   ChainExecutionID
	State   ChainState
	Pending RequestKind // what was asked before, if that is why
	Kind    RequestKind
}

// Error says what can be done instead.
func (e *ChainRequestError) Error() string {
	now := string(e.State)
	if e.Pending != "" {
		now += " with a pending " + string(e.Pending)
	}
	can := map[ChainState]string{
		ChainPending: "it can be released or cancelled",
		ChainRunning: "it can be paused or cancelled, and a pause can be withdrawn by a resume",
		ChainPaused:  "it can be resumed or cancelled",
		ChainFailed:  "it can be retried or cancelled",
	}[e.State]
	if can == "" {
		can = "its state is final"
	} else if e.Pending == RequestCancel {
		can = "it will be cancelled as soon as no member runs"
	}
	return fmt.Sprintf("%s: chain execution %s is %s; %s; nothing was changed", e.Kind, e.Chain, now, can)
}

// Is reports whether target is [ErrConflict].
func (e *ChainRequestError) Is(target error) bool { return target == ErrConflict }

// UnmarshalJSON reads a chain strictly, as [Job.UnmarshalJSON] a job.
func (c *Chain) UnmarshalJSON(data []byte) error {
	return ReadDefinition("chain", data, c, (*Chain).fields)
}

func (c *Chain) fields() map[string]func(*json.Decoder) error {
	return strictjson.Fields{
		"name":        strictjson.Into(&c.Name),
		"version":     strictjson.Into(&c.Version),
		"description": strictjson.Into(&c.Description),
		"params":      strictjson.Into(&c.Params),
		"members":     strictjson.IntoList("member", &c.Members, (*ChainMember).read),
	}
}

// UnmarshalJSON reads a member strictly.
func (m *ChainMember) UnmarshalJSON(data []byte) error {
	return strictly(m, data, (*ChainMember).read)
}

func (m *ChainMember) read(dec *json.Decoder) error {
	return strictjson.ReadObject(dec, strictjson.Fields{
		"name":       strictjson.Into(&m.Name),
		"job":        strictjson.Into(&m.Job),
		"version":    strictjson.Into(&m.Version),
		"params":     strictjson.Into(&m.Params),
		"priority":   strictjson.Into(&m.Priority),
		"depends_on": strictjson.IntoList("dependency", &m.DependsOn, (*Dependency).read),
	})
}

// UnmarshalJSON reads a member's name, or an object, strictly.
func (d *Dependency) UnmarshalJSON(data []byte) error { return strictly(d, data, (*Dependency).read) }

func (d *Dependency) read(dec *json.Decoder) error {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return err
	}
	if raw[0] == '"' {
		return json.Unmarshal(raw, &d.Member)
	}
	return strictjson.ReadObject(strictjson.NewDecoder(raw), strictjson.Fields{
		"member":          strictjson.Into(&d.Member),
		"run_on_failure":  strictjson.Into(&d.RunOnFailure),
		"required_status": strictjson.Into(&d.RequiredStatus),
	})
}

// A JobDependency says how another job must have ended before an execution begins of
// the job with the dependency. It is met if the most recent execution of the other
// job, the one that was created last, has ended as required, in a chain or outside of
// chains. In JSON it is an object, or only the job's name.
//
// It is checked as long as the execution waits, and not only once: if an execution of
// the other job is created in the meantime, that one is the most recent. If the other
// job has no execution, the dependency is not met.
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
	// RefuseUnmet does not create the execution; see [DependencyError]. For a member
	// of a chain it means the same as HoldUnmet, because no caller could receive the
	// error.
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

// A DependencyError says that an execution was not created because dependencies of
// its job that refuse are not met. It matches [ErrConflict].
type DependencyError struct {
	Job   string
	Waits []UnmetDependency // never empty
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

// A CycleError says that a job was not saved because it would wait for itself. It
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
	err := n.read(strictjson.NewDecoder(data))
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
