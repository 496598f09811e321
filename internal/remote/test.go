package remote

import (
	"context"

	"github.com/courierhq/courier"
)

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
