package engine

import (
	"context"
	"runtime/debug"

	"github.com/courierhq/courier/store"
)

// driveAround drives the execution within Options.AroundExecution. If that does not call
// next, or panics before, the execution is driven all the same.
func (r *run) driveAround(c *store.Claimed) {
	around := r.e.opt.AroundExecution
	if around == nil {
		r.drive(c)
		return
	}
	began, ended := false, false
	defer func() {
		p := recover()
		switch {
		case began && !ended && p != nil:
			panic(p) // of the engine itself
		case p != nil:
			r.log.Error("Options.AroundExecution panicked", "panic", p, "stack", string(debug.Stack()))
		case !began:
			r.log.Error("Options.AroundExecution did not call next")
		}
		if !began {
			r.drive(c)
		}
	}()
	x := r.x
	around(r.steps, &x, func(ctx context.Context) {
		if began {
			return
		}
		began = true
		r.steps = withValues{r.steps, ctx}
		r.drive(c)
		ended = true
	})
}

// withValues is a context that has the values of another one.
type withValues struct {
	context.Context
	values context.Context
}

func (c withValues) Value(key any) any { return c.values.Value(key) }
