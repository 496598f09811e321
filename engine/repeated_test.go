package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
)

// In a loop that is started again, a step is repeated only in the iterations to
// which the first pass came: what it finds done elsewhere is not its own doing. Its
// attempts have numbers above all of the passes before, also where it never ran.
func TestRepeatedInRestartedLoop(t *testing.T) {
	h := couriertest.New(t, nil)
	var got []string
	fails := []int{4, 8, 10} // calls
	f := func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
		got = append(got, fmt.Sprintf("%s%v %v %d", job.Type(), job.Iteration(), job.Repeated(), job.Attempt()))
		if slices.Contains(fails, len(got)) {
			return nil, errors.New("boom")
		}
		return nil, nil
	}
	h.Stub("demo.a", f)
	h.Stub("demo.b", f)
	h.Stub("demo.c", f)
	r := h.Run(h.Job(`{"name": "a", "steps": [{"type": "flow.foreach", "config": {"source": ["x", "y", "z"], "on_resume": "restart"}},
		{"type": "demo.a"}, {"type": "demo.b"}, {"type": "flow.end"},
		{"type": "flow.foreach", "config": {"source": ["x"]}}, {"type": "demo.c"}, {"type": "flow.end"}]}`), nil).RequireState(courier.Failed)
	for i := range fails {
		if err := h.Engine.Resume(t.Context(), r.ID, &engine.ResumeOptions{By: "ops"}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if err := h.Engine.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		r = h.Wait(r.ID)
	}
	r.RequireState(courier.Completed)
	if want := []string{
		"demo.a[0] false 1", "demo.b[0] false 1", "demo.a[1] false 1", "demo.b[1] false 1", // fails
		"demo.a[0] true 2", "demo.b[0] true 2", "demo.a[1] true 2", "demo.b[1] true 2", // fails
		"demo.a[0] true 3", "demo.b[0] true 3", // fails
		"demo.a[0] true 4", "demo.b[0] true 4", "demo.a[1] true 4", "demo.b[1] true 4", "demo.a[2] false 4", "demo.b[2] false 4", "demo.c[0] false 4",
	}; !slices.Equal(got, want) {
		t.Errorf("the starts were\n%q\nwant\n%q", got, want)
	}
}
