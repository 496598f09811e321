package chain

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/courierhq/courier"
)

// A State is the state of a chain execution.
type State string

// The states of a chain execution.
const (
	Pending   State = "pending"   // held; nothing has begun
	Running   State = "running"   // some member runs, or can begin
	Completed State = "completed" // all members have ended, and no failure counts; final
	Failed    State = "failed"    // all members have ended, and one failed or was cancelled; it can be retried
	Paused    State = "paused"    // by request; nothing runs, and nothing is released
	Cancelled State = "cancelled" // by request; final
)

// Ended reports whether the chain execution is completed, failed or cancelled. A failed one can
// still be retried.
func (s State) Ended() bool { return s.Final() || s == Failed }

// Final reports whether the state never changes again: completed or cancelled.
func (s State) Final() bool { return s == Completed || s == Cancelled }

// A MemberState is the state of a member of a chain execution: pending or skipped, or
// the state of its execution.
type MemberState string

// The states of a member without an execution.
const (
	MemberPending MemberState = "pending" // the member has no execution yet
	MemberSkipped MemberState = "skipped" // a dependency can no longer be met
)

// StartOptions are the settings of a new chain execution. The zero value is the default.
type StartOptions struct {
	Params         map[string]any // the values params.*; any that encoding/json can handle
	Version        int            // of the chain; 0 means the latest
	IdempotencyKey string         // unique in its scope; a key that is already used returns the chain execution that used it
	KeyScope       string         // shared by all chains whose keys have the same scope; empty means only this chain
	Hold           bool           // creates it in the state pending, until it is released
	By             courier.By     // who requests it; only the actor is stored
	// Labels and Trace are set on the chain execution and on all executions of its members; see
	// [courier.EnqueueOptions]. A retry keeps both, and a rerun keeps the labels.
	Labels map[string]string
	Trace  string
}

// An Execution is one run of one version of a chain.
type Execution struct {
	ID      courier.ChainExecutionID `json:"id"`
	Chain   string                   `json:"chain"`
	Version int                      `json:"version"` // of the chain; it never changes
	State   State                    `json:"state"`
	// Request is the request of an operator that is pending or still in effect: "pause",
	// "cancel", or empty.
	Request courier.RequestKind `json:"request,omitempty"`
	Members []MemberExecution   `json:"members"`          // in the order of the chain's definition
	Params  json.RawMessage     `json:"params,omitempty"` // a JSON object

	CreatedAt time.Time `json:"created_at"`
	StartedAt time.Time `json:"started_at,omitzero"` // when its first members were released
	EndedAt   time.Time `json:"ended_at,omitzero"`   // when it became completed, failed or cancelled

	// Failure names the member that caused the failure; nil unless the chain execution has
	// failed.
	Failure        *Failure `json:"failure,omitempty"`
	IdempotencyKey string   `json:"idempotency_key,omitempty"`
	KeyScope       string   `json:"key_scope,omitempty"` // of the key; empty means the chain
	By             string   `json:"by,omitempty"`
	// RerunOf is the chain execution that this one repeats; see [Service.Rerun].
	RerunOf courier.ChainExecutionID `json:"rerun_of,omitempty"`
	// Labels and Trace are set on all executions of its members; see [courier.Execution].
	Labels map[string]string `json:"labels,omitempty"`
	Trace  string            `json:"trace,omitempty"`
}

// A MemberExecution is the state of a member in a chain execution.
type MemberExecution struct {
	Name      string              `json:"name"`
	Job       string              `json:"job"`
	Version   int                 `json:"version"`                // of the job, pinned when the chain was started
	Execution courier.ExecutionID `json:"execution_id,omitempty"` // the latest; empty until the member is released
	State     MemberState         `json:"state"`
	Reason    string              `json:"reason,omitempty"` // why it was skipped, or what it waits for
	DependsOn []Dependency        `json:"depends_on,omitempty"`
}

// A Failure names the first member, in the order of the definition, that caused a chain to fail,
// and says why its execution failed.
type Failure struct {
	Member    string              `json:"member"`
	Execution courier.ExecutionID `json:"execution_id"`
	Message   string              `json:"message"`
}

// Member returns the member with a name, or nil.
func (x *Execution) Member(name string) *MemberExecution {
	for i := range x.Members {
		if x.Members[i].Name == name {
			return &x.Members[i]
		}
	}
	return nil
}

// Err returns nil for a chain execution that did not fail, [courier.ErrCancelled] for a
// cancelled one, and an error that names the member for a failed one.
func (x *Execution) Err() error {
	switch {
	case x.State == Cancelled:
		return courier.ErrCancelled
	case x.State == Failed && x.Failure != nil:
		return fmt.Errorf("chain %q: member %q: %s", x.Chain, x.Failure.Member, x.Failure.Message)
	case x.State == Failed:
		return fmt.Errorf("chain %q failed", x.Chain)
	}
	return nil
}

// Event returns the event of a change of the chain execution, for observers and subscribers. Its
// type is empty if the change has no event. Was is the state before the change. Started says that
// the first members have just been released. A failed chain execution that is retried can fail
// again or be completed.
func (x *Execution) Event(was State, started bool) courier.Event {
	e := courier.Event{ChainExecution: x.ID, Chain: x.Chain, Version: x.Version, Step: -1}
	switch {
	case started:
		e.Type, e.By = courier.EventChainStarted, x.By
	case x.State == was:
	case x.State == Completed:
		e.Type = courier.EventChainCompleted
	case x.State == Failed:
		e.Type = courier.EventChainFailed
		if f := x.Failure; f != nil {
			e.Error = fmt.Sprintf("member %q: %s", f.Member, f.Message)
		}
	}
	return e
}

// A RequestError says that the state of a chain execution does not allow a
// request. Nothing was changed. It matches [courier.ErrConflict].
type RequestError struct {
	Chain   courier.ChainExecutionID
	State   State
	Pending courier.RequestKind // the earlier request that prevents it, if any
	Kind    courier.RequestKind
}

// Error says which requests are possible instead.
func (e *RequestError) Error() string {
	now := string(e.State)
	if e.Pending != "" {
		now += " with a pending " + string(e.Pending)
	}
	can := map[State]string{
		Pending: "it can be released or cancelled",
		Running: "it can be paused or cancelled, and a pause can be withdrawn by a resume",
		Paused:  "it can be resumed or cancelled",
		Failed:  "it can be retried or cancelled",
	}[e.State]
	if can == "" {
		can = "its state is final"
	} else if e.Pending == courier.RequestCancel {
		can = "it will be cancelled as soon as no member runs"
	}
	return fmt.Sprintf("%s: chain execution %s is %s; %s; nothing was changed", e.Kind, e.Chain, now, can)
}

// Is reports whether target is [courier.ErrConflict].
func (e *RequestError) Is(target error) bool { return target == courier.ErrConflict }
