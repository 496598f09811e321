package remote

import (
	"context"
	"fmt"
	"path"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/stepcontext"
)

// MaxReconnects is how often lost connections are replaced by others for one
// piece of work in one attempt.
const MaxReconnects = 3

// Reconnecting calls f, which opens the connection called id where it has none,
// and calls it again, up to MaxReconnects times, when it fails because that was
// lost. F goes on where it was.
func Reconnecting(ctx context.Context, job *courier.Context, id string, lost func(error) bool, f func() error) error {
	var first error
	for n := 0; ; n++ {
		err := f()
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch again := err != nil && lost(err); {
		case again && n < MaxReconnects:
			job.Log().Info("the connection is lost, the transfer goes on with another", "connection", id, "reason", err.Error())
			first = err
		case err == nil || again || n == 0 || courier.IsPermanent(err):
			return err
		default:
			return fmt.Errorf("%w; going on with another connection: %w", first, err)
		}
	}
}

// A trial is what the test of a connection came to.
type trial struct {
	turn   chan struct{} // holds its one token while nobody tests
	passed bool
	err    error
}

// Close does nothing.
func (*trial) Close() error { return nil }

// TestOnce calls f, with first true until the test of the connection has
// passed; f then tests the connection, and reports whether that passed. What
// fails before is what everybody else gets who tests the same connection for the
// same execution, without another try: a server locks an account after a few
// wrong passwords, and one that does not answer takes its time. Of several
// callers one calls f, the others wait.
func TestOnce(ctx context.Context, job *courier.Context, key string, f func(first bool) (passed bool, err error)) error {
	t, err := courier.Keep(ctx, job, key, func(context.Context) (*trial, error) {
		t := &trial{turn: make(chan struct{}, 1)}
		t.turn <- struct{}{}
		return t, nil
	})
	if err != nil {
		return err
	}
	select {
	case <-t.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { t.turn <- struct{}{} }()
	if t.err != nil {
		return t.err
	}
	passed, err := f(!t.passed)
	if t.passed = t.passed || passed; !t.passed {
		t.err = err
	}
	return err
}

// An Account is the connection that a step names, for one execution of the step.
type Account struct {
	Job    *courier.Context
	Family string // of the step types, such as "sftp"; part of the notes' names
	ID     string // of the connection

	// Persists says that a lost connection is replaced in all of a step that resumes,
	// and not only for files of which a part is kept.
	Persists bool

	// CheckPath reports a path that the protocol can't send. Field is the field of the
	// configuration that has it.
	CheckPath func(field, path string) error
	// Use calls f with a login, which is opened if there is none. It ends with ctx.
	Use func(ctx context.Context, f func(Server) error) error
	// Each moves several files; see [Batch].
	Each func(ctx context.Context, b Batch) error
	// IsLost reports whether an error is the end of a connection, so that another may
	// do better.
	IsLost func(error) bool
	// Test says in the log what is known of the server, or why it can't be used.
	Test func(ctx context.Context, s Server) error
}

// A Batch is several files that are moved, some of them at a time.
type Batch struct {
	Sizes   []int64
	Storing bool // the files go to the server
	// Resumes reports whether file i goes on with another connection after the loss of
	// the first.
	Resumes func(i int) bool
	// Move moves file i. It is not called again for a file that it has moved.
	Move func(ctx context.Context, s Server, i int) error
}

// use is Use for a step that resumes, if that is set, what a lost connection has
// interrupted.
func (a Account) use(ctx context.Context, resumes bool, f func(Server) error) error {
	use := func() error { return a.Use(ctx, f) }
	if !resumes || !a.Persists {
		return use()
	}
	return Reconnecting(ctx, a.Job, a.ID, a.IsLost, use)
}

// produced notes down that the step has made a remote file or directory, and so what
// was missing above it, for steps of the same attempt of the execution that take it
// away, and have already taken away one of that name in a former attempt. It costs
// nothing in the first attempt of an execution.
func (a Account) produced(p string) error { return stepcontext.Of(a.Job).Produced(a.subject(p)) }

// remade reports whether a step of this attempt of the execution has made the remote
// file or directory p. Anything else under the name has come from elsewhere.
func (a Account) remade(p string) (bool, error) {
	return stepcontext.Of(a.Job).WasProduced(a.subject(p))
}

func (a Account) subject(p string) string { return a.Family + ":" + a.ID + ":" + path.Clean(p) }

// Validate connects, and calls f, if not nil, for further checks of a
// configuration. It is what an operator knows as "test the connection", and is
// done once for all steps of an execution, also if it fails.
func (a Account) Validate(ctx context.Context, f func(Server) error) error {
	if a.Job.Unresolved("connection_id") {
		return nil
	}
	return TestOnce(ctx, a.Job, a.Family+" test:"+a.ID, func(first bool) (passed bool, err error) {
		passed = !first
		err = a.Use(ctx, func(s Server) error {
			if first {
				if err := a.Test(ctx, s); err != nil {
					return err
				}
				passed = true
			}
			if f == nil {
				return nil
			}
			return f(s)
		})
		return passed, err
	})
}

// ValidatePath is Validate for a step that needs remote_path and nothing else.
func (a Account) ValidatePath(ctx context.Context, p string) error {
	if err := a.CheckPath("remote_path", p); err != nil {
		return err
	}
	return a.Validate(ctx, nil)
}
