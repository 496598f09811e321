package stepcontext_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/inside"
	"github.com/courierhq/courier/internal/stepcontext"
)

// A step notes down what each of its methods gets.
type step struct{ got *[]string }

func (s step) take(ctx context.Context) error {
	*s.got = append(*s.got, inside.From(ctx).SideName("a"))
	return nil
}

func (s step) Execute(ctx context.Context, _ *courier.Context, _ struct{}) (struct{}, error) {
	return struct{}{}, s.take(ctx)
}
func (s step) Validate(ctx context.Context, _ *courier.Context, _ struct{}) error { return s.take(ctx) }
func (s step) Cleanup(ctx context.Context, _ *courier.Context, _ struct{}) error  { return s.take(ctx) }
func (s step) Rollback(ctx context.Context, _ *courier.Context, _ struct{}) error { return s.take(ctx) }

// TestOf checks that each method of a step type is called with the inside of its Context, and
// that Of returns the same.
func TestOf(t *testing.T) {
	var got []string
	var reg courier.Registry
	courier.Register(&reg, "test.step", step{&got}, nil)
	typ, _ := reg.Lookup("test.step")
	job := courier.NewContext(courier.ContextConfig{Execution: "x", Step: 7, Attempt: 3})
	ctx := inside.With(t.Context(), stepcontext.Of(new(courier.Context))) // of the caller, if that is a step
	_, err := typ.Execute(ctx, job, nil)
	err = errors.Join(err, typ.Validate(ctx, job, nil), typ.Cleanup(ctx, job, nil), typ.Rollback(ctx, job, nil))
	want := stepcontext.Of(job).SideName("a")
	if err != nil || want != "a.courier-tmp-x-7-1.3" || !slices.Equal(got, []string{want, want, want, want}) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if inside.From(t.Context()) != nil {
		t.Error("a context that has none gives one")
	}
	if _, ok := stepcontext.Of(job).(stepcontext.Remote); !ok {
		t.Error("it is no Remote")
	}
}

func BenchmarkOf(b *testing.B) {
	job := courier.NewContext(courier.ContextConfig{})
	for b.Loop() {
		stepcontext.Of(job)
	}
}
