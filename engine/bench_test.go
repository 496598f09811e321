package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/memstore"
)

type nopConfig struct {
	Path  string `json:"path"`
	Times int    `json:"times"`
}

type nopOutput struct {
	Path string `json:"path"`
}

func nop(_ context.Context, _ *courier.Context, cfg nopConfig) (nopOutput, error) {
	return nopOutput{cfg.Path}, nil
}

// newBench returns an engine without limits whose step type does nothing.
func newBench(b *testing.B, slots int) *engine.Engine {
	b.Helper()
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "bench.nop", nop, nil)
	e := engine.New(memstore.New(), reg, &engine.Options{Workspace: b.TempDir(), Slots: slots})
	if err := e.Limits().Set(b.Context(), "global", 0, courier.By{}); err != nil {
		b.Fatal(err)
	}
	return e
}

func nopSteps(n int, config map[string]any) []courier.StepSpec {
	steps := make([]courier.StepSpec, n)
	for i := range steps {
		steps[i] = courier.StepSpec{Type: "bench.nop", Config: config}
	}
	return steps
}

// BenchmarkThroughput runs pipelines of 10 steps, 64 at once, through a started
// engine. An operation is one step.
func BenchmarkThroughput(b *testing.B) {
	const steps, slots = 10, 64
	e := newBench(b, slots)
	job, err := e.Jobs().Define(b.Context(), courier.Job{Name: "bench", Steps: nopSteps(steps, map[string]any{"path": "in/a.txt", "times": 3})}, nil)
	if err != nil {
		b.Fatal(err)
	}
	n := max(1, b.N/steps)
	ids := make([]courier.ExecutionID, n)
	for i := range ids {
		x, err := e.Enqueue(b.Context(), job.Job.Name, nil)
		if err != nil {
			b.Fatal(err)
		}
		ids[i] = x.ID
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.ResetTimer()
	start := time.Now()
	if err := e.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	for _, id := range ids {
		if x, err := e.Wait(b.Context(), id); err != nil || x.State != courier.Completed {
			b.Fatal(x.State, err)
		}
	}
	b.ReportMetric(float64(n*steps)/time.Since(start).Seconds(), "steps/s")
	b.StopTimer()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(n*steps), "allocs/step")
	e.Stop(b.Context())
}

// BenchmarkStep runs one execution of 10,000 steps at a time, with a static
// configuration and with references. An operation is one step.
func BenchmarkStep(b *testing.B) {
	for name, config := range map[string]map[string]any{
		"static":    {"path": "in/a.txt", "times": 3},
		"reference": {"path": "context:params.path", "times": 3},
	} {
		b.Run(name, func(b *testing.B) {
			const steps = 10_000
			e := newBench(b, 1)
			job := courier.Job{Name: "bench", Params: map[string]any{"path": "in/a.txt"}, Steps: nopSteps(steps, config)}
			perStep(b, e, job, steps, nil)
		})
	}
}

// perStep runs a job until it has taken b.N steps, and reports per step.
func perStep(b *testing.B, e *engine.Engine, job courier.Job, steps int, params map[string]any) {
	b.Helper()
	if _, err := e.Jobs().Define(b.Context(), job, nil); err != nil {
		b.Fatal(err)
	}
	if err := e.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	defer e.Stop(b.Context())
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b.ResetTimer()
	done := 0
	start := time.Now()
	for done < b.N {
		x, err := e.Enqueue(b.Context(), job.Name, &courier.EnqueueOptions{Params: params})
		if err == nil {
			x, err = e.Wait(b.Context(), x.ID)
		}
		if err != nil || x.State != courier.Completed {
			b.Fatal(x.State, err)
		}
		done += steps
	}
	spent := time.Since(start)
	b.StopTimer()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(spent.Nanoseconds())/float64(done), "ns/step")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(done), "allocs/step")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkForeach loops over items; the cost of a step must not depend on
// their number.
func BenchmarkForeach(b *testing.B) {
	for _, n := range []int{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			items := make([]map[string]any, n)
			for i := range items {
				items[i] = map[string]any{"name": fmt.Sprintf("file-%07d.pgp", i), "size": i}
			}
			e := newBench(b, 1)
			job := courier.Job{Name: "bench", Params: map[string]any{"items": nil}, Steps: []courier.StepSpec{
				{Type: "flow.foreach", Config: map[string]any{"source": "context:params.items"}},
				{Type: "bench.nop", Config: map[string]any{"path": "context:loop.current_item.name"}},
				{Type: "flow.end"},
			}}
			perStep(b, e, job, n, map[string]any{"items": items})
		})
	}
}
