package engine_test

import (
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
)

// The engine's limit of iterations fails a job before the loop begins.
func TestMaxIterations(t *testing.T) {
	h := couriertest.New(t, &engine.Options{MaxIterations: 2})
	stub := h.Stub("demo.a", nil)
	job := h.Job(`{"name": "a", "params": {"list": null}, "steps": [{"type": "flow.foreach", "config": {"source": "context:params.list"}}, {"type": "demo.a"}, {"type": "flow.end"}]}`)
	h.Run(job, map[string]any{"list": "[1, 2]"}).RequireState(courier.Completed)
	r := h.Run(job, map[string]any{"list": "[1, 2, 3]"}).RequireState(courier.Failed)
	if n := len(stub.Calls()); r.Err == nil || !strings.Contains(r.Err.Error(), "has 3 items; a loop may have at most 2 iterations") || n != 2 {
		t.Errorf("the error is %v, after %d calls", r.Err, n)
	}
}
