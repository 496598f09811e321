package chain

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A Store keeps chain executions. It is an optional role of a [store.Store]; an engine finds
// it by a type assertion. The rules that package store states for all methods hold here
// too. [Plan] makes all decisions.
//
// Every call that ends, pauses or resumes the execution of a member also writes the consequences
// for the chain execution in the same transaction: the released members with their executions,
// the skipped members, and the state. A store locks the chain execution first, and then the
// executions of members.
type Store interface {
	// StartChains creates chain executions, all or none, and returns one result for each, in
	// order. Their first members are released at once, unless Hold is set. If the ID of a chain
	// execution exists already, or its idempotency key is already used in its scope or for the
	// same chain, it is not created, and the result is the existing one. If the existing one is
	// of another chain or has other params (byte by byte), StartChains creates nothing and
	// returns [NewExecution.Conflict]. If a version of the chain, or of a member's job, does not
	// exist, the error is [courier.ErrNotFound].
	StartChains(ctx context.Context, list []NewExecution) ([]Started, error)
	// RequestChain carries out an operator's request to a chain execution. It returns the chain
	// execution, and the executions of members to which it made a request, in their new states.
	// [Plan.Decide] says what a request does in each state. If there is no such chain execution,
	// the error is [courier.ErrNotFound].
	RequestChain(ctx context.Context, r Request) (Execution, []courier.Execution, error)
	// ChainExecution returns a chain execution, or [courier.ErrNotFound].
	ChainExecution(ctx context.Context, id courier.ChainExecutionID) (Execution, error)
	// ChainExecutions returns a page of chain executions, newest (highest id) first, without
	// their Params, like [store.Archive.Executions].
	ChainExecutions(ctx context.Context, f Filter) ([]Execution, error)
}

// A NewExecution is a chain execution to be created.
type NewExecution struct {
	ID             courier.ChainExecutionID // made by the caller, so that a repeated call is recognised
	Chain          string
	Version        int
	Params         json.RawMessage
	IdempotencyKey string // empty means none
	KeyScope       string // the scope in which the key is unique, across all chains; empty means this chain only. Empty without a key
	Hold           bool   // releases no member until it is requested
	By             string
	RerunOf        courier.ChainExecutionID // the chain execution of which this one is a rerun; empty if none
	// Labels and Trace are kept with the chain execution, and are set on every execution of a
	// member, whenever it is created.
	Labels  map[string]string
	Trace   string
	Members []NewMember
}

// A NewMember is a member of a [NewExecution].
type NewMember struct {
	Name      string
	DependsOn []Dependency
	// Execution is created when the member is released, as by Enqueue. A store ignores its Hold,
	// Delay, IdempotencyKey, KeyScope, Latest, RerunOf and MaxRetries. It makes the execution
	// wait if a dependency refuses it, and sets Chain, Member, Labels and Trace.
	Execution store.NewExecution
}

// Started is the result of one [NewExecution].
type Started struct {
	Execution Execution
	Existed   bool
}

// A Request is an operator's request to a chain execution: pause, resume, cancel,
// release or retry.
type Request struct {
	Chain courier.ChainExecutionID
	Kind  courier.RequestKind
	By    string
	// Reason is written to the audit of the executions whose state the request changes at once.
	Reason string
	// IDs are the ids of the executions that a retry creates, one for each member, in order. The
	// caller makes them.
	IDs []courier.ExecutionID
}

// A Filter selects chain executions. Zero fields select all.
type Filter struct {
	Chain  string
	States []State
	// RerunOf selects the reruns of a chain execution.
	RerunOf courier.ChainExecutionID
	// Before selects chain executions with a smaller id.
	Before courier.ChainExecutionID
	Limit  int // 0 means 100; the maximum is 1000
}

// Plan returns the plan of the chain execution.
func (n *NewExecution) Plan() (*Plan, error) {
	members := make([]PlannedMember, len(n.Members))
	for i := range n.Members {
		m := &n.Members[i]
		members[i] = PlannedMember{Name: m.Name, Job: m.Execution.Job, Version: m.Execution.Version, DependsOn: m.DependsOn}
	}
	return NewPlan(members)
}

// Conflict returns the error if x has the ID or the idempotency key of the new chain
// execution, but another chain or other params; otherwise nil. The error matches
// [courier.ErrConflict].
func (n *NewExecution) Conflict(x *Execution) error {
	switch {
	case x.Chain == n.Chain && bytes.Equal(x.Params, n.Params):
		return nil
	case x.Chain == n.Chain:
		return courier.Errorf(courier.ErrConflict, "chain %q, idempotency key %q: chain execution %s has other params; nothing was created: use another key, or the same params", n.Chain, n.IdempotencyKey, x.ID)
	case n.KeyScope != "" && x.KeyScope == n.KeyScope && x.IdempotencyKey == n.IdempotencyKey:
		return courier.Errorf(courier.ErrConflict, "chain %q, idempotency key %q of the scope %q: chain execution %s of chain %q has it; nothing was created: use another key", n.Chain, n.IdempotencyKey, n.KeyScope, x.ID, x.Chain)
	}
	return courier.Errorf(courier.ErrConflict, "chain execution %s exists for chain %q", x.ID, x.Chain)
}

// Prepared returns the execution of a member in the form in which it is created when the member
// is released.
func (n *NewExecution) Prepared(i int) store.NewExecution {
	x := n.Members[i].Execution
	x.Chain, x.Member, x.Labels, x.Trace = n.ID, n.Members[i].Name, n.Labels, n.Trace
	x.Hold, x.Delay, x.IdempotencyKey, x.KeyScope, x.Latest, x.RerunOf, x.MaxRetries = false, 0, "", "", false, "", nil
	x.DependsOn = store.Holding(x.DependsOn)
	return x
}
