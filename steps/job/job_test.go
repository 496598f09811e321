package job_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/steps/job"
)

// TestFail checks that the execution fails with message and class, is not tried again,
// and goes on only if the policy says so.
func TestFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, nil)
		job.Register(h.Registry)
		h.Stub("demo.list", func(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
			return map[string]any{"file_count": 0}, nil
		})
		h.Stub("demo.after", nil)
		text := `{"name": "j", "failure_policy": "retry_job", "params": {"day": null}, "steps": [
			{"id": "list", "type": "demo.list"},
			{"type": "flow.if", "config": {"left": "context:list.file_count", "operator": "equals", "right": 0}},
			{"id": "empty", "type": "job.fail", "config": {"message": "no files for ${context:params.day}, ${context:list.file_count} found", "class": "not_found"}},
			{"type": "flow.end"},
			{"type": "demo.after"}]}`
		r := h.Run(h.Job(text), map[string]any{"day": "2026-03-01"}).RequireState(courier.Failed)
		f := r.Execution.Failure
		if f == nil || f.Reason != courier.ReasonNotFound || f.Message != "no files for 2026-03-01, 0 found" || f.Step != 2 || f.ID != "empty" {
			t.Errorf("failure %+v", f)
		}
		r.RequireTrace("0 demo.list completed", "2 job.fail failed")
		skip := strings.Replace(text, `"class": "not_found"}`, `"class": "not_found"}, "failure_policy": "skip_and_continue"`, 1)
		skip = strings.Replace(skip, `"name": "j"`, `"name": "skips"`, 1)
		h.Run(h.Job(skip), map[string]any{"day": "x"}).RequireState(courier.Completed)
		plain := h.Job(`{"name": "plain", "steps": [{"type": "job.fail", "config": {"message": "no"}}]}`)
		if f := h.Run(plain, nil).RequireState(courier.Failed).Execution.Failure; f.Reason != courier.ReasonError || f.Message != "no" {
			t.Errorf("failure %+v", f)
		}
	})
}

// TestFailClasses checks that the classes are those of the root, and that Define names
// the nearest for another one.
func TestFailClasses(t *testing.T) {
	h := couriertest.New(t, nil)
	job.Register(h.Registry)
	typ, _ := h.Registry.Lookup("job.fail")
	class, _ := typ.Config().Property("class")
	var want []string
	for _, c := range courier.ErrorClasses() {
		want = append(want, string(c))
	}
	if !slices.Equal(class.Schema.Enum, want) {
		t.Errorf("the classes are %q, want %q", class.Schema.Enum, want)
	}
	_, err := h.Engine.Jobs().Define(t.Context(), courier.Job{Name: "j", Steps: []courier.StepSpec{
		{Type: "job.fail", Config: map[string]any{"message": "no", "class": "notfound"}},
		{Type: "job.fail", Config: map[string]any{"class": "error"}},
	}}, nil)
	for _, part := range []string{`step 0 (job.fail): config.class: `, `did you mean "not_found"?`, `step 1 (job.fail): config.message: `} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error lacks %q: %v", part, err)
		}
	}
}
