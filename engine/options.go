package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// The shortest lease that can be renewed in time, and the shortest time between two
// looks. What is shorter was meant in another unit.
const (
	minLease = 10 * time.Millisecond
	minPoll  = time.Millisecond
)

// check returns all that is wrong with the options, before the defaults are set.
func (o *Options) check() error {
	var found []error
	add := func(format string, args ...any) { found = append(found, fmt.Errorf(format, args...)) }
	if o.Slots < 0 {
		add("Options.Slots: %d is negative; 0 means the default", o.Slots)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{
		{"Lease", o.Lease, minLease}, {"Poll", o.Poll, minPoll}, {"SoftStop", o.SoftStop, 0}, {"Grace", o.Grace, 0}, {"Orphans", o.Orphans, 0},
	} {
		switch {
		case d.value < 0:
			add("Options.%s: %v is negative; 0 means the default", d.name, d.value)
		case d.value > 0 && d.value < d.least:
			add("Options.%s: %v is less than %v; give it a unit, such as %d*time.Second", d.name, d.value, d.least, d.value)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", courier.ErrInvalid, errors.Join(found...))
}

// isNil reports whether there is no store, also if it is a nil pointer.
func isNil(s store.Store) bool {
	v := reflect.ValueOf(s)
	return s == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// errNoStore is what an engine without a store answers.
var errNoStore = fmt.Errorf("%w: engine.New was given no store (nil); was the error of what opens it looked at?", courier.ErrInvalid)

// noStore stands in for a store that is nil.
type noStore struct{}

func (noStore) Save(context.Context, store.Definition) (d store.Definition, err error) {
	return d, errNoStore
}

func (noStore) Load(context.Context, store.Kind, string, int) (d store.Definition, err error) {
	return d, errNoStore
}

func (noStore) List(context.Context, store.Kind, string, int) ([]store.Definition, error) {
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

func (noStore) Ask(context.Context, store.Request) (x courier.Execution, err error) {
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
