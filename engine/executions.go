package engine

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// Executions reads executions, the records of their steps, and the values in scope.
// The methods that change an execution are those of [Engine].
type Executions struct{ e *Engine }

// Executions returns the executions in the engine's store.
func (e *Engine) Executions() Executions { return Executions{e} }

// StoreID tells the engine's store from all others; empty if the store has no id.
func (h Executions) StoreID(ctx context.Context) (string, error) { return h.e.access().StoreID(ctx) }

// Get returns an execution as it is now.
func (h Executions) Get(ctx context.Context, id courier.ExecutionID) (courier.Execution, error) {
	return h.e.executions.Get(ctx, id)
}

// List returns a page of executions, the newest first.
func (h Executions) List(ctx context.Context, f store.Filter) ([]courier.Execution, error) {
	return h.e.executions.List(ctx, f)
}

// Steps returns the records of all attempts of all steps of an execution, in the
// order in which they ended. If there is no such execution, the error matches
// [courier.ErrNotFound].
func (h Executions) Steps(ctx context.Context, id courier.ExecutionID) ([]courier.StepExecution, error) {
	return h.e.executions.Steps(ctx, id)
}

// StepsPage returns a page of the records of an execution that the filter selects, in
// the order in which the attempts ended. If there is no such execution, the page is
// empty.
func (h Executions) StepsPage(ctx context.Context, f store.StepFilter) ([]courier.StepExecution, error) {
	return h.e.executions.StepsPage(ctx, f)
}

// AuditPage returns a page of the audit of an execution, in order. If there is no
// such execution, the page is empty.
func (h Executions) AuditPage(ctx context.Context, f store.AuditFilter) ([]courier.AuditEntry, error) {
	return h.e.executions.AuditPage(ctx, f)
}

// Audit returns the audit of an execution, complete and in order. If there is no such
// execution, the error matches [courier.ErrNotFound].
func (h Executions) Audit(ctx context.Context, id courier.ExecutionID) ([]courier.AuditEntry, error) {
	return h.e.executions.Audit(ctx, id)
}

// Values returns the values that are in scope at the position of an execution, by
// key: its parameters, the system values, and the outputs of its completed steps,
// such as "0.file_list", under the ids of the steps too.
func (h Executions) Values(ctx context.Context, id courier.ExecutionID) (map[string]any, error) {
	return h.e.executions.Values(ctx, id)
}
