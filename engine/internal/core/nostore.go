package core

import (
	"context"
	"reflect"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// ErrNoStore is the error of all methods of [NoStore].
var ErrNoStore = courier.Errorf(courier.ErrInvalid, "engine.New was given a nil store; check the error of the function that opens the store")

// IsNil reports whether there is no store, also if it is a nil pointer.
func IsNil(s store.Store) bool {
	v := reflect.ValueOf(s)
	return s == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// NoStore is in the place of a store that is nil.
var NoStore store.Store = noStore{}

type noStore struct{}

func (noStore) Save(context.Context, store.Definition) (d store.Definition, _ error) {
	return d, ErrNoStore
}
func (noStore) Load(context.Context, store.Kind, string, int) (d store.Definition, _ error) {
	return d, ErrNoStore
}
func (noStore) List(context.Context, store.DefinitionFilter) ([]store.Definition, error) {
	return nil, ErrNoStore
}
func (noStore) Settings(context.Context, store.SettingFilter) ([]store.Setting, error) {
	return nil, ErrNoStore
}
func (noStore) Set(context.Context, string, string) error { return ErrNoStore }
func (noStore) Enqueue(context.Context, []store.NewExecution) ([]store.Enqueued, error) {
	return nil, ErrNoStore
}
func (noStore) Claim(context.Context, store.ClaimRequest) (c store.Claims, _ error) {
	return c, ErrNoStore
}
func (noStore) Renew(context.Context, store.RenewRequest) ([]store.Renewed, error) {
	return nil, ErrNoStore
}
func (noStore) Await(context.Context, []string, uint64) error { return ErrNoStore }
func (noStore) Apply(context.Context, store.Transition) error { return ErrNoStore }
func (noStore) Request(context.Context, store.Request) (x courier.Execution, _ error) {
	return x, ErrNoStore
}
func (noStore) Execution(context.Context, courier.ExecutionID) (x courier.Execution, _ error) {
	return x, ErrNoStore
}
func (noStore) Executions(context.Context, store.Filter) ([]courier.Execution, error) {
	return nil, ErrNoStore
}
func (noStore) Steps(context.Context, store.StepFilter) ([]courier.StepExecution, error) {
	return nil, ErrNoStore
}
func (noStore) Latest(context.Context, store.LatestFilter) ([]courier.StepExecution, error) {
	return nil, ErrNoStore
}
func (noStore) Audit(context.Context, store.AuditFilter) ([]courier.AuditEntry, error) {
	return nil, ErrNoStore
}
