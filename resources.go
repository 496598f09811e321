package courier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Resources holds what the steps of an execution share and keep open, such as
// connections. The zero value is empty and ready to use.
type Resources struct {
	mu     sync.Mutex
	open   map[string]*resource
	order  []*resource
	closed bool
}

type resource struct {
	ready chan struct{} // closed when value and err are set
	value io.Closer
	err   error
}

// Keep returns the resource that the execution keeps under key. If it is not open,
// Keep opens it. It stays open for later steps until the worker has finished with
// the execution, or until [Context.Drop]. If several goroutines call Keep, one opens
// the resource and the others wait. A key has one type T; begin it with the name of
// your package.
//
// The resource must not depend on the context that open gets: that context ends
// earlier.
func Keep[T io.Closer](ctx context.Context, c *Context, key string, open func(context.Context) (T, error)) (T, error) {
	v, err := c.resources().get(ctx, key, func(ctx context.Context) (io.Closer, error) { return open(ctx) })
	if err != nil {
		var none T
		return none, err
	}
	t, ok := v.(T)
	if !ok {
		return t, fmt.Errorf("resource %q is a %T, not a %T", key, v, t)
	}
	return t, nil
}

// Drop closes the resource kept under key, so that the next Keep opens it again. If
// there is no such resource, it does nothing.
func (c *Context) Drop(key string) error { return c.resources().drop(key) }

func (c *Context) resources() *Resources {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cfg.Resources != nil {
		return c.cfg.Resources
	}
	if c.own == nil {
		c.own = &Resources{closed: c.closed}
	}
	return c.own
}

// errResources is the error of opening something for an execution that this
// worker no longer works on.
var errResources = errors.New("the worker is done with the execution; nothing can be opened for it")

func (r *Resources) get(ctx context.Context, key string, open func(context.Context) (io.Closer, error)) (io.Closer, error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, errResources
	}
	if res := r.open[key]; res != nil {
		r.mu.Unlock()
		select {
		case <-res.ready:
			return res.value, res.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	res := &resource{ready: make(chan struct{})}
	if r.open == nil {
		r.open = make(map[string]*resource)
	}
	r.open[key] = res
	r.mu.Unlock()

	done := false
	defer func() {
		if !done {
			r.finish(key, res, nil, errors.New("opening panicked"))
		}
	}()
	value, err := open(ctx)
	done = true
	return r.finish(key, res, value, err)
}

// finish publishes the outcome of opening. What was opened too late, after
// Close or drop, is closed again.
func (r *Resources) finish(key string, res *resource, value io.Closer, err error) (io.Closer, error) {
	r.mu.Lock()
	current := r.open[key] == res
	switch {
	case err != nil:
		if current {
			delete(r.open, key)
		}
	case !current:
		defer value.Close()
		err = errResources
	default:
		r.order = append(r.order, res)
	}
	if err == nil {
		res.value = value
	}
	res.err = err
	close(res.ready)
	r.mu.Unlock()
	return res.value, err
}

func (r *Resources) drop(key string) error {
	r.mu.Lock()
	res := r.open[key]
	delete(r.open, key)
	for i, o := range r.order {
		if o == res {
			r.order = append(r.order[:i], r.order[i+1:]...)
			break
		}
	}
	r.mu.Unlock()
	if res == nil {
		return nil
	}
	select {
	case <-res.ready:
		if res.value != nil {
			return res.close()
		}
	default: // still being opened; finish closes it
	}
	return nil
}

// Close closes all resources, the last opened first, and refuses new ones. If closing one
// fails, it still closes the others.
func (r *Resources) Close() error {
	r.mu.Lock()
	order := r.order
	r.open, r.order, r.closed = nil, nil, true
	r.mu.Unlock()
	var errs []error
	for i := len(order) - 1; i >= 0; i-- {
		errs = append(errs, order[i].close())
	}
	return errors.Join(errs...)
}

// close closes the resource. A panic, which is the step author's, is an error,
// for nobody else may be there to catch it.
func (r *resource) close() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("close a %T: panic: %v", r.value, p)
		}
	}()
	return r.value.Close()
}
