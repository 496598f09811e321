package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
)

// TestStepPolicy gives steps failure policies of their own, beside that of the job.
func TestStepPolicy(t *testing.T) {
	boom := errors.New("boom")
	lost := courier.WithClass(boom, courier.ReasonConnection)
	for _, test := range []struct {
		name, job, step string
		errs            []error
		state           courier.State
		trace           string
	}{
		{"the job's holds", `"retry_step"`, ``, []error{boom}, courier.Completed, "1 failed, 1#2 completed, 2 completed"},
		{"retries in a job that stops", `"stop"`, `"retry_step"`, []error{boom, boom}, courier.Completed, "1 failed, 1#2 failed, 1#3 completed, 2 completed"},
		{"stops in a job that retries", `"retry_step"`, `"stop"`, []error{boom}, courier.Failed, "1 failed"},
		{"stops in a job that begins again", `"retry_job"`, `"stop"`, []error{boom}, courier.Failed, "1 failed"},
		{"is skipped in a job that begins again", `"retry_job"`, `"skip_and_continue"`, []error{boom}, courier.Completed, "1 skipped, 2 completed"},
		{"does not fall back on the job's", `"skip_and_continue"`, `{"type": "retry_step", "max_retries": 1}`, []error{boom, boom}, courier.Failed, "1 failed, 1#2 failed"},
		{"retries a class", `"stop"`, `{"type": "retry_step", "retry_on": ["connection", "timeout"]}`, []error{lost, lost}, courier.Completed,
			"1 failed, 1#2 failed, 1#3 completed, 2 completed"},
		{"retries no other class", `"stop"`, `{"type": "retry_step", "retry_on": ["connection", "timeout"]}`, []error{lost, boom}, courier.Failed, "1 failed, 1#2 failed"},
		{"retries all classes but one", `"stop"`, `{"type": "retry_step", "no_retry_on": ["connection"]}`, []error{boom, lost}, courier.Failed, "1 failed, 1#2 failed"},
		{"never what is permanent", `"stop"`, `{"type": "retry_step", "retry_on": ["connection"]}`, []error{courier.Permanent(lost)}, courier.Failed, "1 failed"},
		{"a class of the job's policy", `{"type": "retry_job", "no_retry_on": ["connection"]}`, ``, []error{lost}, courier.Failed, "1 failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				h.Stub("demo.a", nil)
				h.Stub("demo.b", couriertest.Fails(test.errs...))
				own := ""
				if test.step != "" {
					own = `, "failure_policy": ` + test.step
				}
				r := h.Run(h.Job(`{"name": "p", "failure_policy": `+test.job+`, "steps": [{"type": "demo.a"}, {"type": "demo.b"`+own+`}, {"type": "demo.a"}]}`), nil)
				want := []string{"0 demo.a completed"}
				for step := range strings.SplitSeq(test.trace, ", ") {
					at, state, _ := strings.Cut(step, " ")
					typ := "demo.b"
					if at == "2" {
						typ = "demo.a"
					}
					index, attempt, again := strings.Cut(at, "#")
					if again {
						typ += "#" + attempt
					}
					want = append(want, index+" "+typ+" "+state)
				}
				r.RequireState(test.state).RequireTrace(want...)
				requireAudit(t, r)
			})
		})
	}
}

// TestMarkerPolicy skips a block whose condition can't be evaluated, in a job that
// stops otherwise, and the other way round.
func TestMarkerPolicy(t *testing.T) {
	for _, test := range []struct {
		job, marker string
		state       courier.State
	}{
		{`"stop"`, `"skip_and_continue"`, courier.Completed},
		{`"skip_and_continue"`, `"stop"`, courier.Failed},
	} {
		couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
			h.Stub("demo.a", couriertest.Returns(m{"list": "no list"}))
			r := h.Run(h.Job(`{"name": "p", "failure_policy": `+test.job+`, "steps": [{"type": "demo.a"},
				{"type": "flow.foreach", "failure_policy": `+test.marker+`, "config": {"source": "context:0.list"}}, {"type": "demo.a"}, {"type": "flow.end"}]}`), nil)
			if r.RequireState(test.state); r.Steps[1].Reason != courier.ReasonConfig {
				t.Errorf("records %+v", r.Steps)
			}
		})
	}
}

// TestErrorClasses lets a step fail in each way, and looks for its class in the
// record, the failure, the event and the filter of executions.
func TestErrorClasses(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("upload %q: %w", "a", err) }
	for _, test := range []struct {
		err  error
		want courier.Reason
	}{
		{errors.New("boom"), courier.ReasonError},
		{wrap(courier.WithClass(errors.New("451"), courier.ReasonQuota)), courier.ReasonQuota},
		{courier.WithClass(wrap(fs.ErrNotExist), courier.ReasonIntegrity), courier.ReasonIntegrity},
		{courier.WithClass(errors.New("boom"), "unheard_of"), courier.ReasonError},
		{wrap(fs.ErrNotExist), courier.ReasonNotFound},
		{wrap(&fs.PathError{Op: "open", Path: "a", Err: syscall.EEXIST}), courier.ReasonExists},
		{wrap(syscall.EACCES), courier.ReasonPermission},
		{wrap(&fs.PathError{Op: "write", Path: "a", Err: syscall.ENOSPC}), courier.ReasonSpace},
		{wrap(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), courier.ReasonConnection},
		{wrap(&net.DNSError{Name: "partner"}), courier.ReasonConnection},
		{wrap(net.ErrClosed), courier.ReasonConnection},
		{wrap(context.DeadlineExceeded), courier.ReasonTimeout},
		{courier.Permanent(wrap(courier.WithClass(errors.New("wrong password"), courier.ReasonLogin))), courier.ReasonLogin},
	} {
		if got := courier.ClassOf(test.err); got != test.want {
			t.Errorf("%v: class %s, want %s", test.err, got, test.want)
		}
		var events []courier.Event
		opt := &engine.Options{Observers: []func(courier.Event){func(e courier.Event) { events = append(events, e) }}}
		couriertest.Virtual(t, opt, func(t *testing.T, h *couriertest.Harness) {
			h.Stub("demo.a", couriertest.Fails(test.err))
			r := h.Run(h.Job(`{"name": "p", "steps": [{"type": "demo.a"}]}`), nil).RequireState(courier.Failed)
			last := events[len(events)-1]
			if r.Steps[0].Reason != test.want || r.Failure.Reason != test.want || last.Type != courier.EventJobFailed || last.Reason != test.want {
				t.Errorf("%v: record %s, failure %s, event %s %s, want %s", test.err, r.Steps[0].Reason, r.Failure.Reason, last.Type, last.Reason, test.want)
			}
			for _, reason := range courier.ErrorClasses() {
				list, err := h.Engine.Executions().List(t.Context(), store.Filter{Reasons: []courier.Reason{reason}})
				if err != nil || (len(list) == 1) != (reason == test.want) {
					t.Errorf("%v: %d executions failed with %s, %v", test.err, len(list), reason, err)
				}
			}
		})
	}
	if courier.ClassOf(nil) != courier.ReasonError || courier.WithClass(nil, courier.ReasonQuota) != nil {
		t.Error("no error has a class")
	}
}

// TestJitter lets a hundred executions fail in the same instant: their retries are spread as
// the form of jitter says, over the second half of the backoff unless it says otherwise.
func TestJitter(t *testing.T) {
	type bounds [2][2]time.Duration // of both retries, in seconds
	half, none := bounds{{50, 100}, {75, 150}}, bounds{{100, 100}, {150, 150}}
	for jitter, want := range map[string]bounds{
		"": half, `, "jitter": true`: half, `, "jitter": "half"`: half, `, "jitter": false`: none, `, "jitter": "none"`: none,
		`, "jitter": "full"`: {{0, 100}, {0, 150}}, `, "jitter": "added"`: {{100, 150}, {150, 150}},
	} {
		most := 3
		if want == none {
			most = 100
		}
		couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
			h.Stub("demo.a", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
				if job.Attempt() <= 2 {
					return nil, errBoom
				}
				return nil, nil
			})
			job := h.Job(`{"name": "p", "failure_policy": {"type": "retry_step", "backoff_base_seconds": 100, "backoff_max_seconds": 150` + jitter + `}, "steps": [{"type": "demo.a"}]}`)
			second := make(map[int]int) // how many retries begin in each second
			for range 100 {
				r := h.Run(job, nil).RequireState(courier.Completed)
				for n, bound := range want {
					d := r.Steps[n+1].StartedAt.Sub(r.Steps[n].EndedAt)
					if d < bound[0]*time.Second || d > bound[1]*time.Second {
						t.Errorf("with %q retry %d came after %v", jitter, n, d)
					}
					if n == 0 {
						second[int(d/time.Second)]++
					}
				}
			}
			crowd := 0
			for _, n := range second {
				crowd = max(crowd, n)
			}
			if crowd > 3*most || most == 100 && crowd != 100 {
				t.Errorf("with %q %d of 100 retries came in the same second", jitter, crowd)
			}
		})
	}
}

// TestStepPolicyNeedsType refuses figures of a step's policy without a type, which would
// count for nothing; those of a job join its default.
func TestStepPolicyNeedsType(t *testing.T) {
	h := couriertest.New(t, nil)
	h.Stub("demo.a", nil)
	for steps, want := range map[string][]int{
		`{"type": "demo.a", "failure_policy": {"max_retries": 1}}`: {0},
		`{"type": "demo.a"}, {"type": "flow.foreach", "config": {"source": [1]}, "failure_policy": {"jitter": false}},
			{"type": "demo.a", "failure_policy": {"retry_on": ["login"]}}, {"type": "flow.end"}`: {1, 2},
	} {
		_, err := h.Engine.Jobs().Define(t.Context(), h.Job(`{"name": "p", "failure_policy": {"max_retries": 1}, "steps": [`+steps+`]}`), nil)
		var got []int
		if d, ok := errors.AsType[*courier.DefinitionError](err); ok {
			for _, p := range d.Problems {
				if got = append(got, p.Step); p.Field != "failure_policy.type" || !strings.Contains(p.Message, "is required") {
					t.Errorf("%s: %v", steps, p)
				}
			}
		} else if err != nil {
			t.Errorf("%s: %v", steps, err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: problems at the steps %v, want %v", steps, got, want)
		}
	}
}
