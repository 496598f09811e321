package couriertest

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/courierhq/courier"
)

// A Stub replaces a step type and records its calls.
type Stub struct {
	mu    sync.Mutex
	calls []Call
	f     StubFunc
}

// A StubFunc is the function of a stub. It gets the configuration, with all references replaced by
// values, and returns the outputs.
type StubFunc func(ctx context.Context, job *courier.Context, config map[string]any) (map[string]any, error)

// A Call is one execution of a stub.
type Call struct {
	Step      int
	Iteration []int
	Attempt   int
	Config    map[string]any // numbers are json.Number
}

// Stub registers a stub under key, and replaces the type that is registered there. A nil f does
// nothing and returns nothing.
func (h *Harness) Stub(key string, f StubFunc) *Stub {
	h.t.Helper()
	s := &Stub{f: f}
	courier.Register(h.Registry, key, s, &courier.TypeOptions{Replace: true})
	return s
}

// Returns is a [StubFunc] that always returns the same outputs.
func Returns(outputs map[string]any) StubFunc {
	return func(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
		return outputs, nil
	}
}

// Fails is a [StubFunc] that fails with each of the errors in turn, and then
// succeeds without outputs.
func Fails(errs ...error) StubFunc {
	var mu sync.Mutex
	return func(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
		mu.Lock()
		defer mu.Unlock()
		if len(errs) == 0 {
			return nil, nil
		}
		err := errs[0]
		errs = errs[1:]
		return nil, err
	}
}

// Sequence is a [StubFunc] that calls the first function at the first call, the second function at
// the second call, and so on. At all further calls it calls the last function. A nil function
// returns nothing.
func Sequence(list ...StubFunc) StubFunc {
	var mu sync.Mutex
	return func(ctx context.Context, job *courier.Context, config map[string]any) (map[string]any, error) {
		mu.Lock()
		var f StubFunc
		if len(list) > 0 {
			f = list[0]
		}
		if len(list) > 1 {
			list = list[1:]
		}
		mu.Unlock()
		return f.call(ctx, job, config)
	}
}

// PerIteration is a [StubFunc] that calls the first function in the first iteration of the
// innermost loop, the second function in the second iteration, and so on. Each function may be a
// [Sequence], for an item that fails at first. A nil function returns nothing. A call outside
// loops, or in an iteration for which there is no function, fails for good.
func PerIteration(list ...StubFunc) StubFunc {
	return func(ctx context.Context, job *courier.Context, config map[string]any) (map[string]any, error) {
		at := job.Iteration()
		if len(at) == 0 {
			return nil, courier.Permanent(fmt.Errorf("couriertest.PerIteration: step %d is not in a loop", job.Step()))
		}
		i := at[len(at)-1]
		if i >= len(list) {
			return nil, courier.Permanent(fmt.Errorf("couriertest.PerIteration: there is no answer for iteration %s; there are %d answers", courier.FormatIteration(at), len(list)))
		}
		return list[i].call(ctx, job, config)
	}
}

// call calls f; a nil f returns nothing.
func (f StubFunc) call(ctx context.Context, job *courier.Context, config map[string]any) (map[string]any, error) {
	if f == nil {
		return nil, nil
	}
	return f(ctx, job, config)
}

// Execute records the call and calls the stub's function. It makes a Stub a
// [courier.Step].
func (s *Stub) Execute(ctx context.Context, job *courier.Context, config map[string]any) (map[string]any, error) {
	s.mu.Lock()
	s.calls = append(s.calls, Call{job.Step(), job.Iteration(), job.Attempt(), maps.Clone(config)})
	s.mu.Unlock()
	return s.f.call(ctx, job, config)
}

// Calls returns the calls so far, in order.
func (s *Stub) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[:len(s.calls):len(s.calls)]
}
