package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// roleOf returns a role of the store that not every store has. If it has not, the
// error says so, with what such a store keeps, and matches errors.ErrUnsupported.
func roleOf[R any](e *Engine, keeps string) (R, error) {
	r, ok := e.store.(R)
	if _, none := e.store.(noStore); none {
		return r, errNoStore
	} else if !ok {
		return r, fmt.Errorf("the store (%T) keeps no %s: it must implement %v, as memstore and pgstore do: %w", e.store, keeps, reflect.TypeFor[R](), errors.ErrUnsupported)
	}
	return r, nil
}

// isNil reports whether there is no store, also if it is a nil pointer.
func isNil(s store.Store) bool {
	v := reflect.ValueOf(s)
	return s == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// errNoStore is what an engine without a store answers.
var errNoStore = courier.Errorf(courier.ErrInvalid, "engine.New was given no store (nil); was the error of what opens it looked at?")

// noStore stands in for a store that is nil.
type noStore struct{}

func (noStore) Save(context.Context, store.Definition) (d store.Definition, err error) {
	return d, errNoStore
}

func (noStore) Load(context.Context, store.Kind, string, int) (d store.Definition, err error) {
	return d, errNoStore
}

func (noStore) List(context.Context, store.DefinitionFilter) ([]store.Definition, error) {
	return nil, errNoStore
}

func (noStore) Settings(context.Context) (map[string]string, error) { return nil, errNoStore }

func (noStore) Set(context.Context, string, string) error { return errNoStore }

func (noStore) Enqueue(context.Context, []store.NewExecution) ([]store.Enqueued, error) {
	return nil, errNoStore
}

func (noStore) Claim(context.Context, store.ClaimRequest) (c store.Claims, err error) {
	return c, errNoStore
}

func (noStore) Renew(context.Context, store.RenewRequest) ([]store.Renewed, error) {
	return nil, errNoStore
}

func (noStore) Await(context.Context, []string, uint64) error { return errNoStore }

func (noStore) Apply(context.Context, store.Transition) error { return errNoStore }

func (noStore) Request(context.Context, store.Request) (x courier.Execution, err error) {
	return x, errNoStore
}

func (noStore) Execution(context.Context, courier.ExecutionID) (x courier.Execution, err error) {
	return x, errNoStore
}

func (noStore) Executions(context.Context, store.Filter) ([]courier.Execution, error) {
	return nil, errNoStore
}

func (noStore) Steps(context.Context, courier.ExecutionID, int64, int) ([]courier.StepExecution, error) {
	return nil, errNoStore
}

func (noStore) Latest(context.Context, courier.ExecutionID) ([]courier.StepExecution, error) {
	return nil, errNoStore
}

func (noStore) Audit(context.Context, courier.ExecutionID, int64, int) ([]courier.AuditEntry, error) {
	return nil, errNoStore
}
