package depot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/courierhq/courier"
)

// Register adds the step types depot.fetch and depot.keep to r. They use d. Like
// [courier.Register] it panics if a key is taken, and also if opt is invalid.
//
// Neither type has a timeout by default. The steps end when they make no progress for 60 seconds.
//
// Each engine that is started with r removes files whose retention has ended, without a call of
// [Clean]. Several engines on one store take turns. A nil opt means the defaults.
func Register(r *courier.Registry, d Depot, opt *Retention) {
	c, err := newCleaner(d, nil, opt)
	if err != nil {
		panic(err.Error())
	}
	none, stall := time.Duration(0), time.Minute
	courier.Register(r, "depot.fetch", Fetch{Depot: d}, &courier.TypeOptions{
		Doc:        "Copies the uploaded files of the execution from the depot into the workspace.",
		RepeatDoc:  "overwrites: the file gets its name when it is complete, so it is the old one or the new one, with the same bytes, whose hash is checked",
		CleanupDoc: "removes unfinished files of earlier attempts; keeps complete ones",
		Timeout:    &none, Stall: &stall,
	})
	courier.Register(r, "depot.keep", Keep{Depot: d}, &courier.TypeOptions{
		Doc:       "Copies files to the results of the execution in the depot, for download.",
		RepeatDoc: "checks and skips: a result with the same content stays; one with other content is replaced when the new one is complete",
		Timeout:   &none, Stall: &stall,
		Maintainer: &maintainer{turn: make(chan struct{}, 1), c: c}, MaintainEvery: or(c.opt.Every, defaultEvery),
	})
}

// RetentionOf returns the retention that [Register] was given with r. It returns the zero value
// if there was none, or if the step type depot.keep is not from this package.
func RetentionOf(r *courier.Registry) Retention {
	if t, ok := r.Lookup("depot.keep"); ok {
		if m, _ := t.Maintainer(); m != nil {
			if m, ok := m.(*maintainer); ok {
				return m.c.opt
			}
		}
	}
	return Retention{}
}

// A maintainer cleans a depot for the engines of a process.
type maintainer struct {
	turn chan struct{} // a lock for the fields below
	c    *cleaner
}

// Maintain implements [courier.Maintainer]. It is one run.
func (m *maintainer) Maintain(ctx context.Context, with courier.Maintenance) error {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	m.c.x, m.c.store = getter(with.Execution), with.StoreID
	if m.c.opt.Log == nil {
		m.c.log = with.Log
	}
	return m.c.look(ctx)
}

// Usage implements [courier.UsageReporter]. Only a [Directory] with a limit has a usage.
func (m *maintainer) Usage(ctx context.Context) (used, limit int64, err error) {
	d, ok := m.c.depot.(*Directory)
	if !ok {
		return 0, 0, nil
	}
	type usage struct {
		used, limit int64
		err         error
	}
	got := make(chan usage, 1)
	go func() { // another process that is stopped may have the ledger for some seconds
		var u usage
		u.used, u.limit, u.err = d.usage()
		got <- u
	}()
	select {
	case u := <-got:
		return u.used, u.limit, u.err
	case <-ctx.Done():
		return 0, 0, context.Cause(ctx)
	}
}

// A getter is a function that returns executions with their states.
type getter func(context.Context, courier.ExecutionID) (courier.Execution, error)

// Get implements [Executions].
func (g getter) Get(ctx context.Context, id courier.ExecutionID) (courier.Execution, error) {
	return g(ctx, id)
}

// connection is the name of the depot in reports of files.
const connection = "depot"

// When a step finds a mark, a cleaner may just have made it for an execution that had failed. The
// cleaner removes the mark as soon as it sees that the execution runs.
const (
	markWait = 3 * time.Second
	markPoll = 100 * time.Millisecond
)

// usable returns nil if the files of a running execution are not being removed. A cleaner marks
// an execution first and then checks its state. When a step checks for the mark, the execution is
// already running. So if a step sees no mark, no cleaner that marks the execution later removes a
// file.
func usable(ctx context.Context, d Depot, x courier.ExecutionID) error {
	if x == "" {
		return courier.Permanent(errors.New("the context has no execution for which the depot could keep files; set Execution in courier.ContextConfig"))
	}
	for end := time.Now().Add(markWait); ; {
		at, marked, err := Removed(ctx, d, x)
		if err != nil || !marked {
			return err
		}
		if time.Now().After(end) {
			return courier.Permanent(&RemovedError{x, at})
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(markPoll):
		}
	}
}

// reachable sends the depot a request that it can always answer, for a dry run.
func reachable(ctx context.Context, d Depot) error {
	if _, err := d.List(ctx, RemovedKey("dry-run")); err != nil {
		return fmt.Errorf("the depot can't be used: %w", err)
	}
	return nil
}

// permanent marks errors of a depot that a retry cannot fix.
func permanent(err error) error {
	if errors.Is(err, courier.ErrInvalid) {
		return courier.Permanent(err)
	}
	return err
}

// progressOf returns a function that reports how much of a file has been copied.
func progressOf(job *courier.Context, name string, size int64) func(done int64) {
	return func(done int64) { job.Progress(done, size, name) }
}
