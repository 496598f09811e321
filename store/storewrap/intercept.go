// Package storewrap has wrappers of stores for tests. [Intercept] replaces every call by a
// function. A [Faulty] store fails at one call, and a [Refusing] store at all calls that the test
// selects. [NewEager] answers calls as early as the contract of [store.Store] allows. A wrapper has
// the methods of every role, such as those of [chain.Store]; they return an error if the wrapped
// store does not have that role.
package storewrap

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A Call is a call of one of a store's methods.
type Call struct {
	// Method is the name of the method, such as "Apply".
	Method string
	// Execution is the execution that the call is about; empty if there is none or
	// several. A claim of a single execution is about that one.
	Execution courier.ExecutionID
	// Request is the argument after the context, if the method has an argument of its own type: a
	// store.Transition for Apply, a store.ClaimRequest for Claim, a []store.NewExecution for
	// Enqueue, and so on. Otherwise it is nil.
	Request any
	// Result is the result of the method besides the error, such as store.Claims for Claim. It is
	// nil before the call, and for Apply, Set, Await and Drain.
	Result any
}

// An Interceptor replaces a call. Do makes the call, sets c.Result and returns the store's error.
// An interceptor may call do with another context, not at all, or in another goroutine, even after
// it has itself returned an error. Two calls of do must not overlap.
type Interceptor func(ctx context.Context, c *Call, do func(context.Context) error) error

// Intercept returns a store that calls f in place of every method of s. The method
// returns the error of f, and the result of the last do, or a zero result if f did not
// call do or returned an error.
func Intercept(s store.Store, f Interceptor) store.Store { return &intercepted{s, f} }

var _ store.Store = (*intercepted)(nil)

type intercepted struct {
	s store.Store
	f Interceptor
}

// intercept makes a call that returns a T.
func intercept[T any](ctx context.Context, i *intercepted, c *Call, call func(context.Context) (T, error)) (T, error) {
	err := i.f(ctx, c, func(ctx context.Context) error {
		v, err := call(ctx)
		c.Result = v
		return err
	})
	var none T
	if err != nil {
		return none, err // and the call may still be under way
	}
	v, _ := c.Result.(T)
	return v, nil
}

// Save calls the wrapped store, as do the following methods.
func (i *intercepted) Save(ctx context.Context, d store.Definition) (store.Definition, error) {
	return intercept(ctx, i, &Call{Method: "Save", Request: d}, func(ctx context.Context) (store.Definition, error) { return i.s.Save(ctx, d) })
}

func (i *intercepted) Load(ctx context.Context, kind store.Kind, name string, version int) (store.Definition, error) {
	c := &Call{Method: "Load", Request: store.Definition{Kind: kind, Name: name, Version: version}}
	return intercept(ctx, i, c, func(ctx context.Context) (store.Definition, error) { return i.s.Load(ctx, kind, name, version) })
}

func (i *intercepted) List(ctx context.Context, f store.DefinitionFilter) ([]store.Definition, error) {
	return intercept(ctx, i, &Call{Method: "List", Request: f}, func(ctx context.Context) ([]store.Definition, error) { return i.s.List(ctx, f) })
}

func (i *intercepted) Settings(ctx context.Context, f store.SettingFilter) ([]store.Setting, error) {
	return intercept(ctx, i, &Call{Method: "Settings", Request: f}, func(ctx context.Context) ([]store.Setting, error) { return i.s.Settings(ctx, f) })
}

func (i *intercepted) Set(ctx context.Context, key, value string) error {
	return i.f(ctx, &Call{Method: "Set", Request: [2]string{key, value}}, func(ctx context.Context) error { return i.s.Set(ctx, key, value) })
}

func (i *intercepted) Enqueue(ctx context.Context, list []store.NewExecution) ([]store.Enqueued, error) {
	c := &Call{Method: "Enqueue", Request: list}
	if len(list) == 1 {
		c.Execution = list[0].ID
	}
	return intercept(ctx, i, c, func(ctx context.Context) ([]store.Enqueued, error) { return i.s.Enqueue(ctx, list) })
}

func (i *intercepted) Claim(ctx context.Context, r store.ClaimRequest) (store.Claims, error) {
	c := &Call{Method: "Claim", Request: r}
	if len(r.Only) == 1 {
		c.Execution = r.Only[0]
	}
	return intercept(ctx, i, c, func(ctx context.Context) (store.Claims, error) { return i.s.Claim(ctx, r) })
}

func (i *intercepted) Renew(ctx context.Context, r store.RenewRequest) ([]store.Renewed, error) {
	return intercept(ctx, i, &Call{Method: "Renew", Request: r}, func(ctx context.Context) ([]store.Renewed, error) { return i.s.Renew(ctx, r) })
}

func (i *intercepted) Await(ctx context.Context, queues []string, since uint64) error {
	return i.f(ctx, &Call{Method: "Await", Request: since}, func(ctx context.Context) error { return i.s.Await(ctx, queues, since) })
}

func (i *intercepted) Apply(ctx context.Context, t store.Transition) error {
	return i.f(ctx, &Call{Method: "Apply", Execution: t.Execution, Request: t}, func(ctx context.Context) error { return i.s.Apply(ctx, t) })
}

func (i *intercepted) Request(ctx context.Context, r store.Request) (courier.Execution, error) {
	c := &Call{Method: "Request", Execution: r.Execution, Request: r}
	return intercept(ctx, i, c, func(ctx context.Context) (courier.Execution, error) { return i.s.Request(ctx, r) })
}

func (i *intercepted) Execution(ctx context.Context, id courier.ExecutionID) (courier.Execution, error) {
	c := &Call{Method: "Execution", Execution: id}
	return intercept(ctx, i, c, func(ctx context.Context) (courier.Execution, error) { return i.s.Execution(ctx, id) })
}

func (i *intercepted) Executions(ctx context.Context, f store.Filter) ([]courier.Execution, error) {
	return intercept(ctx, i, &Call{Method: "Executions", Request: f}, func(ctx context.Context) ([]courier.Execution, error) { return i.s.Executions(ctx, f) })
}

func (i *intercepted) Steps(ctx context.Context, f store.StepFilter) ([]courier.StepExecution, error) {
	c := &Call{Method: "Steps", Execution: f.Execution, Request: f}
	return intercept(ctx, i, c, func(ctx context.Context) ([]courier.StepExecution, error) { return i.s.Steps(ctx, f) })
}

func (i *intercepted) Latest(ctx context.Context, f store.LatestFilter) ([]courier.StepExecution, error) {
	c := &Call{Method: "Latest", Execution: f.Execution, Request: f}
	return intercept(ctx, i, c, func(ctx context.Context) ([]courier.StepExecution, error) { return i.s.Latest(ctx, f) })
}

func (i *intercepted) Audit(ctx context.Context, f store.AuditFilter) ([]courier.AuditEntry, error) {
	c := &Call{Method: "Audit", Execution: f.Execution, Request: f}
	return intercept(ctx, i, c, func(ctx context.Context) ([]courier.AuditEntry, error) { return i.s.Audit(ctx, f) })
}
