package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
)

const withFinally = `{"name": "a", "failure_policy": {"type": "retry_step", "max_retries": 1, "backoff_base_seconds": 0.001}, "result": "${context:get.out}", "steps": [
	{"id": "get", "type": "demo.do", "config": {"what": "get"}},
	{"id": "load", "type": "demo.do", "config": {"what": "load"}},
	{"type": "flow.finally"%s},
	{"id": "tell", "type": "demo.do", "config": {"what": "tell: ${context:job.outcome} ${context:job.error.id} ${context:job.error.class} ${context:job.error.message} ${context:get.out} ${context:load.out}"}},
	{"id": "tidy", "type": "demo.do", "config": {"what": "tidy ${context:tell.out}"}}]}`

// The finally part runs once for each end, sees how the others have ended, and changes nothing
// of that.
func TestFinally(t *testing.T) {
	for name, c := range map[string]struct {
		marker string
		fails  map[string]courier.Reason
		want   string
		state  courier.State
		failed string // the failure, and the error of the finally part
		result string
	}{
		"completed": {
			"", nil, "get|load|tell: completed    of get of load|tidy of tell: completed    of get of load", courier.Completed, "; ", `"of get"`,
		},
		"failed": {
			"", map[string]courier.Reason{"load": courier.ReasonInvalid},
			"get|load|load|tell: failed load invalid load is bad of get |tidy of tell: failed load invalid load is bad of get ", courier.Failed, "load is bad; ", "",
		},
		"failed at once": {
			"", map[string]courier.Reason{"get": courier.ReasonInvalid},
			"get|get|tell: failed get invalid get is bad  |tidy of tell: failed get invalid get is bad  ", courier.Failed, "get is bad; ", "",
		},
		"a finally part that fails": {
			"", map[string]courier.Reason{"tell: completed    of get of load": courier.ReasonInvalid},
			"get|load|tell: completed    of get of load|tell: completed    of get of load", courier.Completed, "; tell: completed    of get of load is bad", `"of get"`,
		},
		"with a policy of its own": {
			`, "failure_policy": "skip_and_continue"`, map[string]courier.Reason{"tell: completed    of get of load": courier.ReasonInvalid},
			"get|load|tell: completed    of get of load", courier.Completed, "; ", `"of get"`,
		},
		"both fail": {
			`, "failure_policy": "stop"`, map[string]courier.Reason{"load": courier.ReasonInvalid, "tell: failed load invalid load is bad of get ": courier.ReasonExists},
			"get|load|load|tell: failed load invalid load is bad of get ", courier.Failed, "load is bad; tell: failed load invalid load is bad of get  is bad", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := couriertest.New(t, nil)
			d := &doings{fails: c.fails}
			d.stub(h)
			r := h.Run(h.Job(fmt.Sprintf(withFinally, c.marker)), nil).RequireState(c.state)
			if did := d.did(); did != c.want {
				t.Errorf("done was\n%q, want\n%q", did, c.want)
			}
			x := got(t, h, r.ID)
			if s := failureText(x.Failure) + "; " + failureText(x.FinallyError); s != c.failed && !strings.HasPrefix(s, c.failed) {
				t.Errorf("the failures are %q, want %q", s, c.failed)
			}
			if x.Finishing != nil || string(x.Result) != c.result {
				t.Errorf("the result is %s, want %s; finishing %+v", x.Result, c.result, x.Finishing)
			}
		})
	}
}

func got(t *testing.T, h *couriertest.Harness, id courier.ExecutionID) courier.Execution {
	t.Helper()
	x, err := h.Engine.Executions().Get(context.WithoutCancel(t.Context()), id)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func failureText(f *courier.Failure) string {
	if f == nil {
		return ""
	}
	return f.Message
}

// After a resume the finally part runs again at the new end, as a pass of its own: its start
// numbers and directories are others, and its steps are no repetitions.
func TestFinallyRunsAgain(t *testing.T) {
	h := couriertest.New(t, nil)
	var passes []string
	bad := true
	h.Stub("demo.load", func(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
		if bad {
			return nil, courier.Permanent(fmt.Errorf("bad"))
		}
		return nil, nil
	})
	h.Stub("demo.tell", func(_ context.Context, job *courier.Context, config map[string]any) (map[string]any, error) {
		if _, err := job.Files().Create("note"); err != nil {
			return nil, err
		}
		passes = append(passes, fmt.Sprint(config["outcome"], " ", job.Attempt(), " ", job.Repeated(), " ", job.Files().StepDir()))
		return nil, nil
	})
	r := h.Run(h.Job(`{"name": "a", "steps": [{"type": "demo.load"}, {"type": "flow.finally"}, {"type": "demo.tell", "config": {"outcome": "context:job.outcome"}}]}`), nil).RequireState(courier.Failed)
	h.Start()
	bad = false
	if _, err := h.Engine.Resume(t.Context(), r.ID, nil); err != nil {
		t.Fatal(err)
	}
	if x, err := h.Engine.Wait(t.Context(), r.ID); err != nil || x.State != courier.Completed || x.Position.Step != 3 {
		t.Fatalf("it is %s at %+v: %v", x.State, x.Position, err)
	}
	if len(passes) != 2 || !strings.HasPrefix(passes[0], "failed 1 false 2/from-") || !strings.HasPrefix(passes[1], "completed 1 false 2/from-") || passes[0][7:] == passes[1][10:] {
		t.Errorf("the passes are %q", passes)
	}
}

// A cancel leads into the finally part wherever the execution is, if it has begun: a second
// one and Cancel leave it out.
func TestCancelFinally(t *testing.T) {
	for name, c := range map[string]struct {
		at      string // running, paused or retrying
		cancels []bool // without the finally part
		done    string
		by      string
	}{
		"running":                   {"running", []bool{false}, "get work|tell cancelled cancelled too late", "ann"},
		"paused":                    {"paused", []bool{false}, "get tell cancelled cancelled too late", "ann"},
		"retrying":                  {"retrying", []bool{false}, "get work tell cancelled cancelled too late", "ann"},
		"running, without finally":  {"running", []bool{true}, "get work|", "ann"},
		"paused, without finally":   {"paused", []bool{true}, "get", "ann"},
		"retrying, without finally": {"retrying", []bool{true}, "get work", "ann"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := couriertest.New(t, nil)
				var done []string
				h.Stub("demo.do", func(ctx context.Context, job *courier.Context, config map[string]any) (map[string]any, error) {
					what := fmt.Sprint(config["what"])
					done = append(done, what)
					if what != "work" {
						time.Sleep(time.Second)
						return nil, nil
					}
					if c.at == "retrying" {
						return nil, fmt.Errorf("bad")
					}
					<-ctx.Done()
					done[len(done)-1] += "|"
					return nil, context.Cause(ctx)
				})
				h.Start()
				job := h.Job(`{"name": "a", "failure_policy": {"type": "retry_step", "backoff_base_seconds": 3600, "backoff_max_seconds": 3600}, "steps": [{"type": "demo.do", "config": {"what": "get"}}, {"type": "demo.do", "config": {"what": "work"}},
					{"type": "flow.finally"}, {"type": "demo.do", "config": {"what": "tell ${context:job.outcome} ${context:job.error.class} ${context:job.error.message}"}}]}`)
				if _, err := h.Engine.Jobs().Define(t.Context(), job, nil); err != nil {
					t.Fatal(err)
				}
				x, err := h.Engine.Enqueue(t.Context(), "a", nil)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Millisecond)
				if c.at == "paused" {
					if _, err := h.Engine.Pause(t.Context(), x.ID, courier.By{}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Minute)
				for _, without := range c.cancels {
					if _, err := h.Engine.Cancel(t.Context(), x.ID, &courier.CancelOptions{By: courier.By{Actor: "ann", Reason: "too late"}, WithoutFinally: without}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Minute)
				x = got(t, h, x.ID)
				if x.State != courier.Cancelled || x.Finishing != nil || x.FinallyError != nil || x.Request != "" {
					t.Errorf("it is %s: %+v %+v, request %q", x.State, x.Finishing, x.FinallyError, x.Request)
				}
				if s := strings.Join(done, " "); strings.ReplaceAll(s, "| ", "|") != c.done && s != c.done {
					t.Errorf("done was %q, want %q", s, c.done)
				}
				audit, err := h.Engine.Executions().Audit(t.Context(), x.ID)
				if err != nil {
					t.Fatal(err)
				}
				if last := audit[len(audit)-1]; last.To != "cancelled" || last.By != c.by || !strings.Contains(last.Error, "too late") {
					t.Errorf("the last entry is %+v", last)
				}
				if c.cancels[0] {
					return
				}
				if !slices.ContainsFunc(audit, func(a courier.AuditEntry) bool {
					return a.Step == nil && a.To == "running" && strings.Contains(a.Error, "the finally part begins; the outcome is cancelled: too late")
				}) {
					t.Errorf("the audit does not say that the finally part began: %+v", audit)
				}
			})
		})
	}
}
