package couriertest

import (
	"context"
	"maps"
	"sync"

	"github.com/courierhq/courier"
)

// A Stub stands for a step type and notes its calls.
type Stub struct {
	mu    sync.Mutex
	calls []Call
	f     StubFunc
}

// A StubFunc is what a stub does: it gets the configuration with all references
// replaced, and returns the outputs.
type StubFunc func(ctx context.Context, job *courier.Context, config map[string]any) (map[string]any, error)

// A Call is one execution of a stub.
type Call struct {
	Step      int
	Iteration []int
	Attempt   int
	Config    map[string]any // numbers are json.Number
}

// Stub registers a stub under key, in place of the type that is registered there.
// A nil f does nothing and returns nothing.
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

// Execute notes the call and does what the stub is for. It makes a Stub a
// [courier.Step].
func (s *Stub) Execute(ctx context.Context, job *courier.Context, config map[string]any) (map[string]any, error) {
	s.mu.Lock()
	s.calls = append(s.calls, Call{job.Step(), job.Iteration(), job.Attempt(), maps.Clone(config)})
	s.mu.Unlock()
	if s.f == nil {
		return nil, nil
	}
	return s.f(ctx, job, config)
}

// Calls returns the calls so far, in order.
func (s *Stub) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[:len(s.calls):len(s.calls)]
}
