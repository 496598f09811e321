package core

import (
	"context"
	"reflect"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// ErrNoStore is the error of all methods of [NoStore].
var ErrNoStore = courier.Errorf(courier.ErrInvalid, "engine.New was given no store (nil); was the error of what opens it looked at?")

// IsNil reports whether there is no store, also if it is a nil pointer.
func IsNil(s store.Store) bool {
	v := reflect.ValueOf(s)
	return s == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// NoStore is in the place of a store that is nil.
type NoStore struct{}

// Save returns [ErrNoStore].
func (NoStore) Save(context.Context, store.Definition) (d store.Definition, err error) {
	return d, ErrNoStore
}

// Load returns [ErrNoStore].
func (NoStore) Load(context.Context, store.Kind, string, int) (d store.Definition, err error) {
	return d, ErrNoStore
}

// List returns [ErrNoStore].
func (NoStore) List(context.Context, store.DefinitionFilter) ([]store.Definition, error) {
	return nil, ErrNoStore
}

// Settings returns [ErrNoStore].
func (NoStore) Settings(context.Context, store.SettingFilter) ([]store.Setting, error) {
	return nil, ErrNoStore
}

// Set returns [ErrNoStore].
func (NoStore) Set(context.Context, string, string) error { return ErrNoStore }

// Enqueue returns [ErrNoStore].
func (NoStore) Enqueue(context.Context, []store.NewExecution) ([]store.Enqueued, error) {
	return nil, ErrNoStore
}

// Claim returns [ErrNoStore].
func (NoStore) Claim(context.Context, store.ClaimRequest) (c store.Claims, err error) {
	return c, ErrNoStore
}

// Renew returns [ErrNoStore].
func (NoStore) Renew(context.Context, store.RenewRequest) ([]store.Renewed, error) {
	return nil, ErrNoStore
}

// Await returns [ErrNoStore].
func (NoStore) Await(context.Context, []string, uint64) error { return ErrNoStore }

// Apply returns [ErrNoStore].
func (NoStore) Apply(context.Context, store.Transition) error { return ErrNoStore }

// Request returns [ErrNoStore].
func (NoStore) Request(context.Context, store.Request) (x courier.Execution, err error) {
	return x, ErrNoStore
}

// Execution returns [ErrNoStore].
func (NoStore) Execution(context.Context, courier.ExecutionID) (x courier.Execution, err error) {
	return x, ErrNoStore
}

// Executions returns [ErrNoStore].
func (NoStore) Executions(context.Context, store.Filter) ([]courier.Execution, error) {
	return nil, ErrNoStore
}

// Steps returns [ErrNoStore].
func (NoStore) Steps(context.Context, store.StepFilter) ([]courier.StepExecution, error) {
	return nil, ErrNoStore
}

// Latest returns [ErrNoStore].
func (NoStore) Latest(context.Context, store.LatestFilter) ([]courier.StepExecution, error) {
	return nil, ErrNoStore
}

// Audit returns [ErrNoStore].
func (NoStore) Audit(context.Context, store.AuditFilter) ([]courier.AuditEntry, error) {
	return nil, ErrNoStore
}
