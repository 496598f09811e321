package main

import (
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/steps/steptest"
)

// TestCount tests the step alone.
func TestCount(t *testing.T) {
	h := couriertest.New(t, nil)
	courier.RegisterFunc(h.Registry, "text.count", count, nil)
	path := h.WriteFile("poem.txt", "one\ntwo\n")
	job := courier.Job{Name: "count", Steps: []courier.StepSpec{{Type: "text.count", Config: map[string]any{"path": path}}}}
	h.Run(job, nil).RequireState(courier.Completed).RequireValue("0.lines", 2)
}

// TestPipeline tests the whole pipeline, with its second step replaced.
func TestPipeline(t *testing.T) {
	h := couriertest.New(t, nil)
	courier.RegisterFunc(h.Registry, "text.count", count, nil)
	report := h.Stub("text.report", nil)
	h.Run(pipeline(), map[string]any{"path": h.WriteFile("poem.txt", "1\n2\n3\n4\n")}).
		RequireState(courier.Completed).
		RequireTrace("0 text.count completed", "2 text.report completed")
	if got := report.Calls()[0].Config["text"]; got != "many lines: 4" {
		t.Errorf("reported %q", got)
	}
}

// TestMissingFile shows how a failure looks.
func TestMissingFile(t *testing.T) {
	h := couriertest.New(t, nil)
	register(h.Registry)
	h.Run(pipeline(), map[string]any{"path": "nowhere.txt"}).
		RequireState(courier.Failed).
		RequireError(`step 0 "count" (text.count): `)
}

// TestProgram runs the program itself.
func TestProgram(t *testing.T) { main() }

// TestContract shows that the step may be interrupted anywhere and executed
// again.
func TestContract(t *testing.T) {
	steptest.Run(t, steptest.Case{
		Register: register,
		Key:      "text.count",
		Setup:    func(w *steptest.World) { w.Write("poem.txt", "one\ntwo\n") },
		Config:   CountConfig{Path: "poem.txt"},
	})
}
