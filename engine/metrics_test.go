package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/storewrap"
)

// written returns the lines of the metrics of an engine, without comments.
func written(t *testing.T, e *engine.Engine) []string {
	t.Helper()
	var text strings.Builder
	if err := e.Metrics().Write(t.Context(), &text); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Split(text.String(), "\n"), func(line string) bool { return line == "" || line[0] == '#' })
}

// TestMetrics: an engine that was not started has the figures of the store alone. One that was has
// what it did, and the figures are those of the store as it is.
func TestMetrics(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.a", nil)
		h.Stub("demo.b", func(ctx, *courier.Context, map[string]any) (map[string]any, error) {
			return nil, courier.WithClass(errors.New("no"), courier.ReasonQuota)
		})
		job := courier.Job{Name: "j", Steps: []courier.StepSpec{{Type: "demo.a"}, {Type: "demo.b"}}}
		h.Enqueue(job, nil)
		time.Sleep(30 * time.Second)
		other := h.AddEngine(nil)
		written(t, other)
		time.Sleep(time.Second) // workers are there the second time
		lines := written(t, other)
		for _, want := range []string{`courier_queue_depth{courier_queue="default"} 1`, `courier_queue_oldest_seconds{courier_queue="default"} 30`, `courier_workers{courier_worker_state="available"} 0`, "courier_store_reachable 1"} {
			if !slices.Contains(lines, want) {
				t.Errorf("%s is missing in\n%s", want, strings.Join(lines, "\n"))
			}
		}
		for _, line := range lines {
			for _, own := range []string{"courier_claim", "courier_slices", "courier_store_duration", "courier_workspace", "courier_takeovers"} {
				if strings.HasPrefix(line, own) {
					t.Errorf("an engine that was not started has %s", line)
				}
			}
		}
		h.Start()
		time.Sleep(2 * time.Minute)
		lines = written(t, h.Engine)
		for _, want := range []string{
			`courier_queue_depth{courier_queue="default"} 0`, `courier_executions{courier_execution_state="failed"} 1`,
			`courier_slices_total{cicd_pipeline_name="j",courier_slice_end="failed"} 1`, `cicd_pipeline_run_errors_total{cicd_pipeline_name="j",error_type="quota"} 1`,
			`courier_step_errors_total{courier_step_type="demo.b",error_type="quota"} 1`, `courier_queue_wait_seconds_sum{courier_queue="default"} 31`,
			"courier_takeovers_total 0", "courier_events_dropped_total 0", "courier_refused_writes 0",
		} {
			if !slices.Contains(lines, want) {
				t.Errorf("%s is missing in\n%s", want, strings.Join(lines, "\n"))
			}
		}
		figures := h.Engine.Metrics().Figures(t.Context())
		if !slices.ContainsFunc(figures, func(f engine.Figure) bool {
			return f.Name == "courier.executions" && f.Labels["courier.execution.state"] == "failed" && f.Value == 1
		}) {
			t.Errorf("the figures are %v", figures)
		}
	})
}

// TestMetricsWhileRefused: a write that the store refuses is a figure while that lasts.
func TestMetricsWhileRefused(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		var refuses atomic.Bool
		refuses.Store(true)
		s := storewrap.Intercept(h.Store, func(c context.Context, call *storewrap.Call, do func(context.Context) error) error {
			if call.Method == "Apply" && refuses.Load() {
				return errors.New("the disk is full")
			}
			return do(c)
		})
		h.Stub("demo.a", nil)
		e := engine.New(s, h.Registry, &engine.Options{Workspace: t.TempDir()})
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer e.Stop(t.Context())
		h.Enqueue(courier.Job{Name: "j", Steps: []courier.StepSpec{{Type: "demo.a"}}}, nil)
		time.Sleep(20 * time.Second)
		if lines := written(t, e); !slices.Contains(lines, "courier_refused_writes 1") {
			t.Errorf("the metrics are\n%s", strings.Join(lines, "\n"))
		}
		refuses.Store(false)
		time.Sleep(time.Minute)
		if lines := written(t, e); !slices.Contains(lines, "courier_refused_writes 0") || !slices.Contains(lines, `courier_slices_total{cicd_pipeline_name="j",courier_slice_end="completed"} 1`) {
			t.Errorf("the metrics are\n%s", strings.Join(lines, "\n"))
		}
	})
}

// An attached probe is given its engine before anything happens.
type attached struct {
	noted
	engine *engine.Engine
}

func (a *attached) Attach(e *engine.Engine) { a.engine = e }

func TestAttach(t *testing.T) {
	p := new(attached)
	if e := engine.New(nil, nil, &engine.Options{Probe: p}); p.engine != e {
		t.Errorf("the probe was given %p, not %p", p.engine, e)
	}
}
